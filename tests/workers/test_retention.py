"""What people said ends with their channel's retention, wherever it is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from config.profiles import Profile
from gateway.events import Attachment
from gateway.store import Layout
from tests.harness.held import held
from tests.harness.model_replies import calls, says
from tests.workers.at_desk import AtDesk, at_desk
from tests.workers.room import Room

DAY_MS = 86_400_000
ASKED: dict[str, Any] = {"tools": ["write_file", "read_file"], "overhear": 3, "approvals": {"tainted": "allow"}}


@pytest.fixture
def at(tmp_path: Path, redis_url: str, layout: Layout) -> tuple[Path, str, str]:
    """Where it runs."""
    return tmp_path, redis_url, layout.prefix


async def ends_in_ms(world: AtDesk, word: str) -> dict[str, int]:
    """When each key that holds the word ends; -1: never."""
    store = world.desk.mailbox.store
    kept = await held(store.redis, store.layout.prefix)
    return {key: await store.redis.pttl(key) for key, text in kept.items() if word in text}


async def talk(world: AtDesk) -> dict[str, int]:
    """Somebody says it, attaches it, has it written and read; it is overheard, and put away in short."""
    assert await world.say("QXword was heard", addressed=False) == "ignored"
    content = {"path": "QXword.txt", "content": "QXword " * 100}
    world.model.answer_with(
        [calls("write_file", content), calls("read_file", {"path": "QXword.txt"}), says("QXword it is.")]
    )
    await world.ask("QXword", attachments=(Attachment("file", "QXword.txt", "text/plain", 6),))
    world.model.answer_with([says("QXword again.")])
    await world.ask("And QXword?")
    world.model.answer_with([says("They spoke of QXword.")])
    await world.ask("/compact")
    return await ends_in_ms(world, "QXword")


@pytest.mark.parametrize(
    ("own", "most_s", "days"),
    [
        ({"retention_days": 1}, 30 * 86_400, 1),
        ({"retention_days": 2}, 30 * 86_400, 2),
        ({"retention_days": 9}, 3 * 86_400, 3),
        ({}, 30 * 86_400, 30),
    ],
)
async def test_all_that_holds_what_was_said_ends_when_the_profile_says_so(
    own: dict[str, int], most_s: int, days: int, at: tuple[Path, str, str]
) -> None:
    settings = {"mailbox": {"retention_s": most_s}, "recordings": {"keep": True, "retention_s": 5 * 86_400}}
    more: dict[str, Any] = {"profile": {**ASKED, **own}, "settings": settings, "room": Room({"QXword.txt": b"QXword"})}
    async with at_desk(*at, **more) as world:
        ends = await talk(world)
    assert {key: one for key, one in ends.items() if not 0 < one <= days * DAY_MS} == {}
    for kind, longest in ((":history", days), (":ws:", days), (":recordings:", min(days, 5)), (":ch:", 1)):
        found = [one for key, one in ends.items() if kind in key]
        assert found, kind
        assert max(found) > (longest - 0.1) * DAY_MS, kind


def test_a_profile_keeps_nothing_for_longer_than_the_settings_say() -> None:
    assert Profile().kept_s(100) == 100
    assert Profile(retention_days=1).kept_s(100) == 100
    assert Profile(retention_days=1).kept_s(10**6) == 86_400


async def test_who_talks_on_keeps_it(at: tuple[Path, str, str]) -> None:
    async with at_desk(*at, profile={"retention_days": 1}) as world:
        await world.ask("QXword")
        store = world.desk.mailbox.store
        for key in await ends_in_ms(world, "QXword"):
            await store.redis.pexpire(key, 5_000)
        await world.ask("And now?")
        assert all(one > DAY_MS // 2 for one in (await ends_in_ms(world, "QXword")).values())
        for key in await ends_in_ms(world, "QXword"):  # as when the day is over
            await store.redis.pexpire(key, 0)
        assert await world.ask("Hello?") == ["Well."]
        assert "QXword" not in str(world.model.asked[-1].request)
