"""A turn gets to where it has a worker for itself by deaths."""

from __future__ import annotations

from gateway.conversation.deaths import SOLE_AFTER
from tests.harness.tap import Message
from tests.sweep.row import Row


async def test_holders_die_at_their_places_until_the_row_is_reached() -> None:
    died: list[str] = []

    async def kill(message: Message) -> None:
        died.append(f"{message.process} {message.name}")

    row = Row("a", ["model", "grant"], kill)

    def claim(process: str, tries: int) -> Message:
        return Message(process, "redis", "claim", b"", 0, seen={"granted": {"a": tries}})

    def asked(process: str) -> Message:
        return Message(process, "model", "POST /v1/messages", b"", 0)

    async def goes_on(message: Message, place: str = "after", *, is_beside: bool = False) -> bool:
        row.hears_of(message, place)  # type: ignore[arg-type]
        return await row.lets(message, place, is_beside=is_beside)  # type: ignore[arg-type]

    assert await goes_on(asked("w0"), "before"), "of a turn before"
    assert await goes_on(claim("w1", SOLE_AFTER - 2))
    assert await goes_on(asked("w1"), "before", is_beside=True)
    assert not await goes_on(asked("w1"), "before")
    assert not await goes_on(asked("w1"), "before"), "a child may still say something"
    assert not await goes_on(claim("w2", SOLE_AFTER - 1))
    assert not row.covers(asked("w2"))
    assert await goes_on(claim("w3", SOLE_AFTER))
    assert await goes_on(asked("w3"), "before")
    assert row.covers(asked("w3"))
    assert died == ["w1 POST /v1/messages", "w2 claim"]
    settle = Message("w3", "redis", "settle", b"", 0, seen={"released": "a"})
    assert await goes_on(settle)
    assert row.covers(settle)
    assert not row.covers(asked("w3")), "it is over"
