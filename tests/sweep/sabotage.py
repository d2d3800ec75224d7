"""Guards taken out of the product, one each, to see that the sweep is not blind. Only the nursery of such a run calls this.

A nursery imports the product and forks from there: what is changed in it is changed in all that it bears.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from gateway.conversation import deaths, mailbox
from gateway.conversation.records import Record
from gateway.platforms import Outcome
from gateway.platforms.slack import Adapter as Slack
from gateway.platforms.standard_webhooks import Adapter
from gateway.store import Script
from workers import turn
from workers.agent import moves
from workers.agent.moves import Pending
from workers.calling.judging import Barred, Judge
from workers.prompt.context import begin_after
from workers.sending import delivery


def runs_again() -> None:
    """A call that was begun counts as one that was not."""
    judge = Judge.judge

    def forgets(self: Judge, call: Pending, *given: Any) -> Any:
        return judge(self, replace(call, was_started=False), *given)

    Judge.judge = forgets  # type: ignore[method-assign, assignment]


def new_keys() -> None:
    """What is sent once more has another key."""
    send = Adapter.send

    async def sends(self: Adapter, to: Any, part: Any, key: str) -> Any:
        return await send(self, to, part, f"{key}{secrets.token_hex(4)}")

    Adapter.send = sends  # type: ignore[method-assign]


def knows_nothing() -> None:
    """No event is known when it comes again."""

    def hashed(dedupe_key: str) -> bytes:
        return secrets.token_bytes(len(dedupe_key))[:10]

    mailbox.dedupe_hash = hashed


def writes_on() -> None:
    """The revision and the token of a write are not looked at."""
    plain = mailbox.script

    def unguarded(name: str) -> Script:
        found = plain(name)
        text = found.text.replace("if h[1] ~= token then", "if false then").replace(
            "if at ~= rev then", "if false then"
        )
        return Script(found.name, text)

    mailbox.script = unguarded


def looks_nowhere() -> None:
    """What was sent is not found where one looks for it."""

    async def finds(*_: Any) -> Outcome:
        return Outcome("target_gone")

    Slack.find = finds  # type: ignore[method-assign, assignment]


def knows_all_keys() -> None:
    """Every platform is taken for one that knows what is sent again."""

    def knows(*_: Any) -> bool:
        return True

    vars(delivery)["key_is_known"] = knows


def puts_too_much_away() -> None:
    """With a summary goes what was to stay beside it."""

    def begins(records: Any, place: int) -> int | None:
        return None if begin_after(records, place) is None else place

    vars(turn)["begin_after"] = begins


def gives_up() -> None:
    """A turn whose holder died once is given up."""
    vars(deaths)["BURY_AFTER"] = 1


def asks_again() -> None:
    """An answer that somebody else has saved last is not seen."""
    load = Record.load_all

    def loads(lines: Any) -> list[Record]:
        found = load(lines)
        if found and found[-1].type == "answer":
            found[-1] = Record("unreadable", found[-1].at_ms, {"line": ""})
        return found

    Record.load_all = loads  # type: ignore[method-assign]


def runs_all_again() -> None:
    """With a call that has no result, its siblings that have one are run again."""
    pending = moves.pending

    def forgets(records: Any, answer: Any) -> Any:
        before = [record for record in records if record.type not in {"tool_start", "tool_result"}]
        return pending(before, answer) if pending(records, answer) else ()

    vars(moves)["pending"] = forgets


def makes_up() -> None:
    """Of a call that was begun it is said that it was done."""
    judge = Judge.judge

    def invents(self: Judge, call: Pending, *given: Any) -> Any:
        return Barred(call, "Done.") if call.was_started else judge(self, call, *given)

    Judge.judge = invents  # type: ignore[method-assign, assignment]


def says_half() -> None:
    """Of an answer only the beginning is sent."""
    send = Adapter.send

    async def sends(self: Adapter, to: Any, part: Any, key: str) -> Any:
        text = part.payload.get("text", "")
        return await send(self, to, replace(part, payload={**part.payload, "text": text[: len(text) // 2]}), key)

    Adapter.send = sends  # type: ignore[method-assign]


SABOTAGES: Final[Mapping[str, Callable[[], None]]] = {
    one.__name__: one
    for one in (
        *(runs_again, new_keys, knows_nothing, writes_on),
        *(looks_nowhere, knows_all_keys, puts_too_much_away),
        *(gives_up, asks_again, runs_all_again, makes_up, says_half),
    )
}
