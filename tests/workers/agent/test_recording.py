"""What is kept of a turn's requests, for `deskmate replay`: all of them, no secret, and never at a turn's cost."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, quote_plus

import pytest
from PIL import Image

from config.settings import RecordingSettings
from gateway.conversation.recordings import Recordings, pack
from gateway.events import Attachment
from gateway.logs import Mask
from gateway.store import Layout, Store
from tests.harness.fake_model import KEY
from tests.harness.model_replies import calls, fails, says
from tests.harness.processes import until
from tests.workers.at_desk import WHERE, AtDesk, at_desk
from tests.workers.room import Room
from workers.agent.recording import Recording, masked
from workers.models import Answer, Occasion, Request, TextDelta, Usage

Opened = Callable[..., AbstractAsyncContextManager[AtDesk]]
KEEP: Final = {"keep": True}


@pytest.fixture
def opened(tmp_path: Path, redis_url: str, layout: Layout) -> Opened:
    return lambda **more: at_desk(
        tmp_path,
        redis_url,
        layout.prefix,
        profile={"tools": ["current_time"]},
        **{"settings": {"recordings": KEEP}, **more},
    )


@pytest.fixture
async def world(opened: Opened) -> AsyncIterator[AtDesk]:
    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(opened())


async def recorded(world: AtDesk, requests: int) -> list[dict[str, Any]]:
    """Of the last turn, as soon as there are so many."""
    store = world.desk.mailbox.store
    recordings = Recordings(store, RecordingSettings())
    turn = [record.data["turn"] for record in await world.history() if record.type == "event"][-1]
    found: list[dict[str, Any]] = []
    async with asyncio.timeout(30):
        while len(found) < requests:
            found = await recordings.read(WHERE.id, turn)
            await asyncio.sleep(0.005)
    return found


async def test_each_request_of_a_turn_is_kept_with_its_answer(world: AtDesk) -> None:
    world.model.answer_with([calls("current_time"), says("It is noon.")])
    await world.ask("what time is it?")
    first, second = await recorded(world, 2)
    sent = [asked.request for asked in world.model.asked]
    for entry, request in zip((first, second), sent, strict=True):
        assert {key: request.get(key) for key in entry["request"]} == entry["request"]
    assert (first["step"], second["step"], first["purpose"], first["branch"]) == (1, 2, "answer", "")
    assert first["outcome"]["answer"]["content"][0]["name"] == "current_time"
    assert second["outcome"]["answer"]["content"] == [{"type": "text", "text": "It is noon."}]


async def test_nothing_is_kept_unless_the_settings_say_so(opened: Opened) -> None:
    async with opened(settings={}) as world:
        await world.ask("hello")
        assert await Recordings(world.desk.mailbox.store, RecordingSettings()).turns() == []


async def test_what_is_common_lies_there_once(world: AtDesk) -> None:
    long = "a long story. " * 2_000
    world.model.answer_with([calls("current_time"), calls("current_time"), says("Well.")])
    await world.ask(long)
    await recorded(world, 3)
    [kept] = await Recordings(world.desk.mailbox.store, RecordingSettings()).turns()
    redis: Any = world.desk.mailbox.store.redis
    names = await redis.hkeys(f"{world.desk.mailbox.store.layout.root(0)}:recordings:{WHERE.id}:{kept.turn}")
    # system prompt and tools once each; the message, two answers, two results
    assert sum(name.startswith(b"part:") for name in names) == 7
    assert (kept.requests, kept.left_out, kept.conversation) == (3, 0, WHERE.id)


async def test_secrets_are_masked_wherever_they_stand(world: AtDesk) -> None:
    world.model.answer_with([says(f"Your key is {KEY}.")])
    await world.ask(f'is "{KEY}" the key? {json.dumps({"key": KEY})}')
    [entry] = await recorded(world, 1)
    text = json.dumps(entry)
    assert KEY not in text
    assert text.count("***") == 3


@pytest.mark.parametrize("secret", ["sk-ant-abc/def+123=", 'pa"ss\\word9', "geheim-äöü-1", "a b c d e f g"])
def test_a_secret_is_masked_however_others_spell_it(secret: str) -> None:
    mask, raw = Mask([secret], thorough=True), secret.encode()
    spelled = [
        json.dumps({"k": json.dumps({"k": secret})}),
        json.dumps(json.dumps(secret, ensure_ascii=False), ensure_ascii=False),
        re.sub("%..", lambda found: found[0].lower(), quote(secret, safe="")),
        quote_plus(secret),
        *(
            base64.b64encode(before + raw + after).decode()
            for before in (b"", b"u:", b"us:", b"use:")
            for after in (b"", b"x")
        ),
        base64.urlsafe_b64encode(b"u:" + raw).decode(),
    ]
    for one in spelled:
        assert "***" in json.dumps(masked({"text": f"a {one} b"}, mask)), one


async def test_of_a_picture_only_the_hash_is_kept(opened: Opened, tmp_path: Path) -> None:
    Image.new("RGB", (8, 8), "red").save(tmp_path / "red.png")
    room = Room({"red.png": (tmp_path / "red.png").read_bytes()})
    async with opened(room=room) as world:
        await world.ask("look", attachments=(Attachment("image", "red.png", "image/png", 100),))
        [entry] = await recorded(world, 1)
        sent = world.model.asked[0].request["messages"][0]["content"][1]["source"]
        kept = entry["request"]["messages"][0]["content"][1]["source"]
        assert sent["type"] == "base64"
        assert kept == masked(sent, Mask(()))
        assert sorted(kept) == ["data", "media_type", "type"]
        assert len(kept["data"]) == len(hashlib.sha256().hexdigest())
        assert sent["data"] not in json.dumps(entry)


async def test_an_answer_that_was_cut_is_kept_with_what_was_said_and_so_is_the_next_try(world: AtDesk) -> None:
    world.model.answer_with([says("Half an answer", end_after_events=4), says("Well.")])
    await world.ask("hello")
    cut, answered = await recorded(world, 2)
    assert cut["outcome"]["error"]["kind"] == "broken"
    assert cut["outcome"]["said"]
    assert "answer" in answered["outcome"]
    assert [entry["step"] for entry in (cut, answered)] == [1, 1]


async def test_a_refusal_is_kept(world: AtDesk) -> None:
    world.model.answer_with(fails(400, "invalid_request_error", "no"))
    await world.ask("hello")
    [entry] = await recorded(world, 1)
    assert (entry["outcome"]["error"]["kind"], entry["outcome"]["error"]["passing"]) == ("bad_request", False)


async def test_an_answer_that_was_called_off_is_kept_as_left(world: AtDesk) -> None:
    world.model.answer_with([says("a long answer, word by word", deltas=20, between_s=0.05)])
    async with world.busy("tell me") as claim:
        await until(lambda: world.model.in_flight > 0)
        await world.say("/stop")
        claim.news.set()
        await until(lambda: bool(world.room.sent))
    [entry] = await recorded(world, 1)
    assert entry["outcome"]["left"] is True


async def test_a_request_for_a_summary_is_kept_with_its_purpose(world: AtDesk) -> None:
    for text in ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"):
        await world.ask(text)
    await world.ask("/compact")
    [entry] = await recorded(world, 1)
    assert (entry["purpose"], entry["step"]) == ("summary", 0)


async def test_a_redis_that_does_not_take_it_costs_no_turn(world: AtDesk) -> None:
    store = world.desk.mailbox.store
    await store.redis.set(f"{store.layout.root(0)}:recordings", "in the way")
    assert await world.ask("hello") == ["Well."]


async def test_what_can_not_be_packed_costs_no_turn(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    class Odd:
        label: str | None = None

        async def stream(self, request: Request) -> AsyncIterator[TextDelta | Answer]:
            yield Answer([{"type": "text", "text": object()}], "end_turn", Usage(), request.model)

        async def check(self) -> str:
            return ""

        async def close(self) -> None:
            return

    model = Recording(Odd(), Recordings(store, RecordingSettings()), Mask(()), lambda: 0)
    request = Request("m", [], [], [], 10, Occasion("c", "t"))
    assert [piece async for piece in model.stream(request)]
    await model.close()
    assert "not recorded" in caplog.text


def entry(text: str) -> Any:
    request = {
        "model": "m",
        "max_tokens": 1,
        "system": [],
        "tools": [],
        "messages": [{"role": "user", "content": text}],
    }
    return pack(request, {"at_ms": 1, "outcome": {}})


def noise(size: int) -> str:
    """Text that no compression makes shorter than half."""
    return "".join(hashlib.sha256(str(number).encode()).hexdigest() for number in range(size // 64))


async def test_a_turn_has_a_most_and_says_what_is_left_out(store: Store) -> None:
    recordings = Recordings(store, RecordingSettings(turn_max_bytes=4_096))
    assert await recordings.keep("c", "t", entry("short"))
    assert not await recordings.keep("c", "t", entry(noise(20_000)))
    assert await recordings.keep("c", "t", entry("short again"))
    [kept] = await recordings.turns()
    assert (kept.requests, kept.left_out) == (2, 1)
    assert [one["request"]["messages"][0]["content"] for one in await recordings.read("c", "t")] == [
        "short",
        "short again",
    ]


async def test_the_oldest_turns_make_room(store: Store) -> None:
    recordings = Recordings(store, RecordingSettings(total_max_bytes=65_536))
    for number in range(4):
        assert await recordings.keep("c", f"t{number}", entry(f"{number}{noise(40_000)}"))
        await asyncio.sleep(0.002)  # the server's clock tells which is older
    assert [kept.turn for kept in await recordings.turns()] == ["t3", "t2"]
    assert await recordings.read("c", "t0") == []
    total = await store.redis.hget(f"{store.layout.root(0)}:recordings:sizes", "total")
    assert int(total or 0) == sum(kept.bytes for kept in await recordings.turns())


async def test_nothing_is_kept_for_ever(store: Store) -> None:
    await Recordings(store, RecordingSettings(retention_s=60)).keep("c", "t", entry("x"))
    names = await store.redis.keys(f"{store.layout.prefix}:*")
    assert len(names) == 3
    for name in names:
        assert 0 < await store.redis.pttl(name) <= 60_000
