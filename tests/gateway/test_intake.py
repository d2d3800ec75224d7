"""Which events become work, and one line in the log for each."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.conversation.key import ConversationKey
from gateway.events import Actor, Attachment, Event
from gateway.files import Files
from gateway.store import Layout, Unreachable
from tests.gateway.served import SLACK, Served, envelope, served
from tests.harness import webhook_twin
from tests.harness.proxy import Proxy
from tests.harness.slack_twin import USER, sign

TS = "1760000300.000400"
MENTION: dict[str, Any] = {"type": "app_mention", "text": "<@U0BOT01> hi", "ts": TS}
MESSAGE: dict[str, Any] = {"type": "message", "channel_type": "channel", "text": "<@U0BOT01> hi", "ts": TS}
ROOM = ConversationKey("slack-main", "C1", "T1:1.0")


@pytest.fixture
async def gateway(tmp_path: Path, redis_url: str, layout: Layout) -> AsyncIterator[Served]:
    async with served(tmp_path, redis_url, layout.prefix) as gateway:
        yield gateway


def event(name: str = "m1", **changed: Any) -> Event:
    made = Event(
        kind="message",
        conversation=ROOM,
        actor=Actor("u1"),
        dedupe_keys=(f"message:{name}",),
        at_ms=1_760_000_000_000,
        message_id=name,
        text="hi",
    )
    return replace(made, **changed)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"addressed": False}, "not addressed"),
        ({"kind": "edit"}, "edit events have no effect"),
        ({"kind": "delete"}, "delete events have no effect"),
        ({"kind": "action", "value": "make coffee"}, "not a button of ours"),
        ({"kind": "something new"}, "something new events have no effect"),
        ({"actor": Actor("b1", is_bot=True)}, "another bot"),
        ({"actor": Actor("us", is_bot=True, is_self=True)}, "own message"),
    ],
)
async def test_what_is_not_for_us_leaves_a_reason_and_no_trace(
    gateway: Served, changed: dict[str, Any], reason: str
) -> None:
    [received] = await gateway.parts.intake.receive([event(**changed)])
    assert (received.state, received.reason) == ("ignored", reason)
    assert not await gateway.waiting()
    [received] = await gateway.parts.intake.receive([event()])
    assert received.state == "new", "the later copy, which is for us, is taken"
    assert [(line["message"], line["outcome"]) for line in gateway.lines("message")] == [
        ("m1", "ignored"),
        ("m1", "new"),
    ]


async def test_a_file_that_came_inside_an_event_waits_beside_it(gateway: Served) -> None:
    file = Attachment("file", "x.csv", "text/csv", 6, content=b"CANARY")
    store = gateway.parts.store
    assert [one.state for one in await gateway.parts.intake.receive([event(attachments=(file,))])] == ["new"]
    [waiting] = await gateway.waiting()
    [kept] = waiting.attachments
    assert await Files(store).read(kept.fetch, 6) == b"CANARY"
    [member] = await store.redis.zrange(store.layout.key(ROOM.id, "inbox"), 0, -1)
    assert b"CANARY" not in member


async def test_a_file_of_an_event_that_is_not_for_us_is_not_kept(gateway: Served) -> None:
    file = Attachment("file", "x.csv", "text/csv", 6, content=b"CANARY")
    await gateway.parts.intake.receive([event(attachments=(file,), addressed=False)])
    store = gateway.parts.store
    assert not await store.redis.exists(store.layout.key(ROOM.id, "files"))


async def test_in_a_thread_that_we_answered_in_nobody_has_to_address_us(gateway: Served) -> None:
    store = gateway.parts.store
    await store.redis.hset(store.layout.key(ROOM.id), "answered", "1")
    outside = replace(ROOM, thread=None)
    told = await gateway.parts.intake.receive(
        [event(addressed=False), event("m2", addressed=False, conversation=outside)]
    )
    assert [one.state for one in told] == ["new", "ignored"]


@pytest.mark.parametrize("kinds", list(itertools.permutations([MESSAGE, MENTION])))
async def test_message_and_mention_of_one_post_are_one_event_in_either_order(
    gateway: Served, kinds: tuple[dict[str, Any], ...]
) -> None:
    for number, one in enumerate(kinds):
        assert (await gateway.say(one, f"Ev{number}")).status == 200
    assert [waiting.text for waiting in await gateway.waiting()] == ["hi"]
    assert gateway.outcomes() == ["new", "known"]


async def test_a_message_that_does_not_name_us_does_not_block_the_mention_that_follows(
    tmp_path: Path, redis_url: str, layout: Layout
) -> None:
    """An app that does not know its own id can't see the mention in the plain message."""
    slack = {name: value for name, value in SLACK.items() if name != "bot_user_id"}
    async with served(tmp_path, redis_url, layout.prefix, {"connections": {"slack-main": slack}}) as gateway:
        for number, one in enumerate((MESSAGE, MENTION)):
            body = json.dumps({**envelope(one, f"Ev{number}"), "authorizations": []}).encode()
            assert (await gateway.deliver("slack-main", body, sign(body))).status == 200
        assert gateway.outcomes() == ["ignored", "new"]
        assert [waiting.text for waiting in await gateway.waiting()] == ["hi"]


async def test_a_mention_in_a_direct_message_is_one_event(gateway: Served) -> None:
    direct = {"channel": "D0DM01", "channel_type": "im"}
    for number, one in enumerate((MENTION | direct, MESSAGE | direct)):
        assert (await gateway.say(one, f"Ev{number}")).status == 200
    assert len(await gateway.waiting()) == 1


async def test_a_hundred_pairs_at_two_gateways_at_once_are_a_hundred_events(
    tmp_path: Path, redis_url: str, layout: Layout
) -> None:
    async with AsyncExitStack() as stack:
        folders = [tmp_path / name for name in ("one", "two")]
        for folder in folders:
            folder.mkdir()
        gateways = [await stack.enter_async_context(served(folder, redis_url, layout.prefix)) for folder in folders]
        pairs = [
            (gateway.say(one | {"ts": f"1760000300.{number:06}"}, f"Ev{number}{one['type']}"))
            for number in range(100)
            for gateway, one in zip(gateways, (MESSAGE, MENTION), strict=True)
        ]
        assert {answer.status for answer in await asyncio.gather(*pairs)} == {200}
        assert len(await gateways[0].waiting()) == 100
        assert Counter(gateways[0].outcomes()) == {"new": 100, "known": 100}  # both write into one log


async def test_a_redelivery_whose_first_copy_never_came_is_taken(gateway: Served) -> None:
    body = json.dumps(envelope(MENTION)).encode()
    headers = {**sign(body), "X-Slack-Retry-Num": "1", "X-Slack-Retry-Reason": "http_timeout"}
    assert (await gateway.deliver("slack-main", body, headers)).status == 200
    assert gateway.outcomes() == ["new"]


async def test_keys_that_look_alike_are_different_conversations(gateway: Served) -> None:
    async def say(number: int, **data: Any) -> int:
        whole = {"message_id": f"m{number}", "user": {"id": "u1"}, "text": f"{number}", **data}
        raw = json.dumps({"type": "message.created", "data": whole})
        return (await gateway.deliver("bridge", raw.encode(), webhook_twin.sign(f"id{number}", raw))).status

    rooms: list[dict[str, Any]] = [
        {"conversation": "x:1", "thread": "2"},
        {"conversation": "x", "thread": "1:2"},
        {"conversation": "x:1:2"},
        {"conversation": "A"},
        {"conversation": "a"},
        {"conversation": ""},
        {"conversation": None, "user": {"id": "u2"}},
        {"conversation": "u2"},
    ]
    assert {await say(number, **room) for number, room in enumerate(rooms)} == {200}
    assert len({waiting.conversation.id for waiting in await gateway.waiting()}) == len(rooms)
    for number, name in enumerate(["x\ny", "x\x00", "y" * 2_048, " ", 7, ["x"]], 100):
        assert await say(number, conversation=name) in {200, 400}
    kept = {waiting.conversation.channel for waiting in await gateway.waiting()}
    assert all(name.isprintable() and len(name) <= 256 for name in kept)


async def test_two_workspaces_with_one_channel_id_are_two_conversations(gateway: Served) -> None:
    for team in ("T0TEAM1", "T0TEAM2"):
        body = json.dumps({**envelope({**MENTION, "user": USER}, f"Ev{team}"), "team_id": team}).encode()
        assert (await gateway.deliver("slack-main", body, sign(body))).status == 200
    assert len({waiting.conversation.id for waiting in await gateway.waiting()}) == 2


# several events in one delivery


async def test_when_one_of_several_is_not_stored_none_after_it_is_and_a_repetition_knows_the_first(
    tmp_path: Path, redis_url: str, layout: Layout
) -> None:
    async with served(tmp_path, redis_url, layout.prefix, {"mailbox": {"inbox_max": 1}}) as gateway:
        intake = gateway.parts.intake
        elsewhere = replace(ROOM, thread="T1:2.0")
        events = [event("m1"), event("m2"), event("m3", conversation=elsewhere)]
        assert [one.state for one in await intake.receive(events)] == ["new", "full"]
        assert gateway.outcomes() == ["new", "full", "away"]
        store = gateway.parts.store
        await store.redis.delete(store.layout.key(ROOM.id, "inbox"))  # a worker took it
        assert [one.state for one in await intake.receive(events)] == ["known", "new", "new"]


async def test_every_event_of_a_delivery_has_one_outcome_even_when_redis_is_away(
    tmp_path: Path, redis_url: str, layout: Layout
) -> None:
    waits = {"redis": {"timeout_s": 0.2}}
    async with Proxy(redis_url) as proxy, served(tmp_path, proxy.redis_url, layout.prefix, waits) as gateway:
        proxy.hold()
        with pytest.raises(Unreachable):
            await gateway.parts.intake.receive([event("m1"), event("m2")])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await gateway.parts.intake.receive([event("m3")])
        told = [(line["message"], line["outcome"]) for line in gateway.lines("message")]
        assert told == [("m1", "away"), ("m2", "away"), ("m3", "away")]


# too many


async def test_above_the_limit_the_rest_gets_503_and_is_taken_when_there_is_room(
    tmp_path: Path, redis_url: str, layout: Layout
) -> None:
    async with served(tmp_path, redis_url, layout.prefix, {"mailbox": {"waiting_max": 10}}) as gateway:
        asked = [gateway.say(MENTION | {"ts": f"1760000300.{number:06}"}, f"Ev{number}") for number in range(100)]
        statuses = Counter(answer.status for answer in await asyncio.gather(*asked))
        assert statuses == {200: 10, 503: 90}
        assert len(await gateway.waiting()) == 10
        keys = [
            key async for key in gateway.parts.store.redis.scan_iter(match=gateway.parts.store.layout.key("*", "seen"))
        ]
        assert len(keys) == 10, "what was shed has left nothing"
        assert Counter(gateway.outcomes()) == {"new": 10, "full": 90}


async def test_a_command_that_controls_is_put_where_a_running_turn_looks(gateway: Served) -> None:
    store = gateway.parts.store
    await gateway.parts.intake.receive([event(text="/stop"), event("m2", text="/help"), event("m3", text="/nonsense")])
    assert await store.redis.llen(store.layout.key(ROOM.id, "control")) == 1
    assert await store.redis.zcard(store.layout.key(ROOM.id, "inbox")) == 2


async def test_no_text_of_people_is_logged(gateway: Served) -> None:
    await gateway.say({**MENTION, "text": "<@U0BOT01> my password is swordfish"})
    body = b'{"type": "event_callback", "text": "swordfish"'
    await gateway.deliver("slack-main", body, sign(body))
    told = [f"{record.getMessage()} {record.__dict__.get('fields')} {record.exc_info}" for record in gateway.log]
    assert len(told) > 2
    assert "swordfish" not in " ".join(told)
