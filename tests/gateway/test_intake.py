"""Which events become work, and one line in the log for each."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway import once
from gateway.conversation.key import ConversationKey
from gateway.conversation.overheard import heard_since
from gateway.events import Actor, Attachment, Event
from gateway.files import Files
from gateway.intake import GROUP_MS
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
        ({"actor": Actor("u1 ")}, "an id that looks like another"),
        ({"conversation": ConversationKey("slack-main", "C1\u202e", "T1:1.0")}, "an id that looks like another"),
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


@contextlib.asynccontextmanager
async def with_profile(folder: Path, redis_url: str, prefix: str, **profile: Any) -> AsyncIterator[Served]:
    (folder / "profiles").mkdir()
    (folder / "profiles/default.yaml").write_text(yaml.safe_dump(profile))
    async with served(folder, redis_url, prefix) as gateway:
        yield gateway


Profiled = Callable[..., contextlib.AbstractAsyncContextManager[Served]]


@pytest.fixture
def profiled(tmp_path: Path, redis_url: str, layout: Layout) -> Profiled:
    """A gateway whose channels have a profile of the test's own."""
    return functools.partial(with_profile, tmp_path, redis_url, layout.prefix)


async def states(gateway: Served, *events: Event) -> list[str]:
    return [one.state for event in events for one in await gateway.parts.intake.receive([event])]


async def sent_by_us(gateway: Served, message_id: str) -> None:
    store = gateway.parts.store
    await store.redis.zadd(store.layout.key(ROOM.id, "ours"), {message_id: 1})


# what is for us


async def test_where_no_mention_is_needed_people_are_answered_whatever_they_say(profiled: Profiled) -> None:
    async with profiled(needs_mention=False) as gateway:
        assert await states(gateway, event(addressed=False), event("m2")) == ["new", "new"]
        bot = Actor("b", is_bot=True)
        assert await states(gateway, event("m3", addressed=False, actor=bot)) == ["ignored"], "bots are not wanted"


async def test_an_answer_to_a_message_of_ours_is_for_us_and_one_to_anothers_is_not(gateway: Served) -> None:
    await sent_by_us(gateway, "ours")
    to_ours, to_other = event(addressed=False, parent_id="ours"), event("m2", addressed=False, parent_id="theirs")
    elsewhere = event("m3", addressed=False, parent_id="ours", conversation=replace(ROOM, thread="T1:2.0"))
    assert await states(gateway, to_ours, to_other, elsewhere) == ["new", "ignored", "ignored"]


async def test_a_thread_that_we_answered_in_is_followed_only_where_the_profile_says_so(profiled: Profiled) -> None:
    async with profiled(thread_follow=False) as gateway:
        store = gateway.parts.store
        await store.redis.hset(store.layout.key(ROOM.id), "answered", "1")
        await sent_by_us(gateway, "ours")
        assert await states(gateway, event(addressed=False)) == ["ignored"]
        assert await states(gateway, event("m2", addressed=False, parent_id="ours")) == ["new"], "it is to us"


# other bots

BOT = Actor("B1", "Otto", is_bot=True)


async def test_of_a_bot_five_messages_a_minute_are_answered_one_line_says_so_and_people_go_on(
    profiled: Profiled,
) -> None:
    async with profiled(other_bots="answer") as gateway:
        events = [event(f"b{number}", actor=BOT) for number in range(8)]
        assert await states(gateway, *events) == ["new"] * 5 + ["ignored"] * 3
        assert await states(gateway, event("m1"), event("m2")) == ["new", "new"]
        assert await states(gateway, event("x1", actor=Actor("B2", is_bot=True))) == ["new"], "another bot has its own"
        assert await states(gateway, events[0], events[7]) == ["known", "ignored"]
        [line] = gateway.lines("loop guard")
        assert (line["connection"], line["channel"], line["bot"]) == ("slack-main", "C1", "B1")
        assert {line["reason"] for line in gateway.lines("message") if line["outcome"] == "ignored"} == {
            "the loop guard: too many turns of this bot in a minute"
        }


async def test_what_a_full_mailbox_sent_back_counts_once_when_it_comes_again(
    tmp_path: Path, redis_url: str, layout: Layout
) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/default.yaml").write_text("other_bots: answer\nbot_turns_per_minute: 2\n")
    async with served(tmp_path, redis_url, layout.prefix, {"mailbox": {"inbox_max": 1}}) as gateway:
        bots = [event(f"b{number}", actor=BOT) for number in range(3)]
        assert await states(gateway, bots[0], bots[1], bots[1], bots[1]) == ["new", "full", "full", "full"]
        store = gateway.parts.store
        await store.redis.delete(store.layout.key(ROOM.id, "inbox"))  # a worker took it
        assert await states(gateway, bots[1], bots[2]) == ["new", "ignored"]


async def test_a_bot_in_a_thread_of_ours_has_to_name_us(profiled: Profiled) -> None:
    async with profiled(other_bots="answer") as gateway:
        store = gateway.parts.store
        await store.redis.hset(store.layout.key(ROOM.id), "answered", "1")
        await sent_by_us(gateway, "ours")
        assert await states(
            gateway,
            event("b1", actor=BOT, addressed=False),
            event("b2", actor=BOT, addressed=False, parent_id="ours"),
            event("b3", actor=BOT),
            event("m1", addressed=False),
        ) == ["ignored", "ignored", "new", "new"]


async def test_our_own_echo_is_never_answered_whatever_the_profile_says(profiled: Profiled) -> None:
    async with profiled(other_bots="answer", needs_mention=False) as gateway:
        assert await states(gateway, event(actor=Actor("us", is_bot=True, is_self=True))) == ["ignored"]


# overheard


async def test_what_is_not_for_us_is_overheard_where_the_profile_says_so_and_stays_ignored(profiled: Profiled) -> None:
    async with profiled(overhear=2, other_bots="answer") as gateway:
        said = [event(f"m{number}", text=f"text {number}", addressed=False) for number in range(3)]
        assert await states(gateway, *said, said[2]) == ["ignored"] * 4
        not_heard = [
            event("b", text="beep", addressed=False, actor=BOT),
            event("f", text=" ", addressed=False, attachments=(Attachment("image", "a.png", "", 1),)),
            event("e", text="edited", addressed=False, kind="edit"),
            event("u", text="for us"),
        ]
        assert await states(gateway, *not_heard) == ["ignored"] * 3 + ["new"]
        heard = await heard_since(gateway.parts.store, ROOM, 0, 10, gateway.parts.mailbox.now_ms())
        assert [(one.id, one.text) for one in heard] == [("m1", "text 1"), ("m2", "text 2")]
        assert "text 1" not in str(gateway.lines("message"))


# buttons


async def test_a_press_of_a_button_of_ours_waits_in_line_and_at_once(gateway: Served) -> None:
    store = gateway.parts.store
    pressed = event(kind="action", name="x", value="skill approve KMTR")
    assert await states(gateway, pressed, event("m2", kind="action", value="stop")) == ["new", "new"]
    assert [one.value for one in await gateway.waiting()] == ["skill approve KMTR"]
    assert await store.redis.llen(store.layout.key(ROOM.id, "control")) == 1, "it overtakes, as when it is typed"
    assert await store.redis.zcard(f"{store.layout.root(0)}:due") == 0


# albums


async def test_the_pictures_of_an_album_wait_for_each_other_and_nothing_else_does(gateway: Served) -> None:
    due = f"{gateway.parts.store.layout.root(0)}:due"
    elsewhere = replace(ROOM, thread="T1:2.0")
    await states(gateway, *(event(f"m{number}", group="album") for number in range(3)))
    await states(gateway, event("m4", conversation=elsewhere))
    waiting: Any = await gateway.parts.store.redis.zrange(due, 0, -1, withscores=True)
    assert [name for name, _ in waiting] == [ROOM.id.encode()]
    assert 0 < waiting[0][1] - time.time() * 1000 <= GROUP_MS + 100


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


# not read: it is told once, and not taken for told before that is stored

HERE = replace(ROOM, channel="D1", thread=None)
HOUR_MS = 3_600_000
NOTICES = {"_over", "pair"}
UNREAD: dict[str, tuple[dict[str, Any], str]] = {
    "over the rate": ({}, "over"),
    "too late": ({"at_ms": 0}, "late"),
    "from somebody unknown": ({"actor": Actor("EVE"), "is_direct": True}, "new"),
}
"""What makes a message one that nobody reads, and what becomes of the first."""
ONCE_TOLD = {"over the rate": "over", "too late": "late", "from somebody unknown": "ignored"}


@contextlib.asynccontextmanager
async def full(gateway: Served, _: pytest.MonkeyPatch) -> AsyncIterator[None]:
    yield  # what the fixture says first waits
    await gateway.parts.mailbox.claim(0, "w1", 1)


@contextlib.asynccontextmanager
async def cold(gateway: Served, _: pytest.MonkeyPatch) -> AsyncIterator[None]:
    store = gateway.parts.store
    await gateway.parts.mailbox.claim(0, "w1", 1)
    await store.redis.hset(f"{store.layout.root(0)}:meta", "epoch", "another")
    yield
    await store.redis.hset(f"{store.layout.root(0)}:meta", "epoch", gateway.parts.mailbox.epoch)


@contextlib.asynccontextmanager
async def at_its_limit(gateway: Served, _: pytest.MonkeyPatch) -> AsyncIterator[None]:
    await gateway.parts.mailbox.claim(0, "w1", 1)
    await gateway.parts.store.redis.config_set("maxmemory", "1")
    try:
        yield
    finally:
        await gateway.parts.store.redis.config_set("maxmemory", "0")


@contextlib.asynccontextmanager
async def dying(gateway: Served, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    await gateway.parts.mailbox.claim(0, "w1", 1)
    with monkeypatch.context() as patched:
        patched.setattr(gateway.parts.mailbox, "accept", dies)
        yield


async def dies(*_: Any, **__: Any) -> None:
    raise Unreachable("it dies here")


@pytest.fixture
async def strict(tmp_path: Path, redis_url: str, layout: Layout) -> AsyncIterator[Served]:
    """One message a minute, none that is an hour old, nobody unknown, and room for one conversation, which waits."""
    (tmp_path / "profiles").mkdir()
    profile = {"rate": {"person_per_minute": 1}, "direct": "paired", "roles": {"admin": ["slack-main/ANA"]}}
    (tmp_path / "profiles/default.yaml").write_text(yaml.safe_dump(profile))
    settings = {"mailbox": {"waiting_max": 1, "late_after_s": 3_600}}
    async with served(tmp_path, redis_url, layout.prefix, settings) as gateway:
        assert await states(gateway, said(gateway, "m0", conversation=replace(ROOM, thread="T1:2.0"))) == ["new"]
        yield gateway


def said(gateway: Served, name: str, **changed: Any) -> Event:
    return event(name, **{"at_ms": gateway.parts.mailbox.now_ms(), "conversation": HERE, **changed})


async def became(gateway: Served, event: Event) -> str:
    try:
        return (await states(gateway, event))[0]
    except Unreachable:
        return "away"


async def notices(gateway: Served) -> list[str]:
    return [one.message_id for one in await gateway.waiting() if one.name in NOTICES]


@pytest.mark.parametrize(("fault", "state"), [(full, "full"), (cold, "cold"), (at_its_limit, "away"), (dying, "away")])
@pytest.mark.parametrize("kind", UNREAD)
async def test_what_could_not_be_told_comes_again_and_is_told_then(
    strict: Served, kind: str, fault: Any, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed, first = UNREAD[kind]
    events = [said(strict, name, **changed) for name in ("m1", "m2")]
    async with fault(strict, monkeypatch):
        assert {await became(strict, one) for one in events} == {state}
    assert await notices(strict) == []
    assert [await became(strict, one) for one in events] == [first, ONCE_TOLD[kind]]
    assert await notices(strict) == ["m1"]


async def test_what_is_never_sent_again_is_told_by_the_next_one(
    strict: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(once, "TELLING_MS", 200)
    async with dying(strict, monkeypatch):
        assert await became(strict, said(strict, "m1")) == "away"
    async with asyncio.timeout(10):
        while await became(strict, said(strict, "m2")) == "away":
            await asyncio.sleep(0.02)
    assert await notices(strict) == ["m2"]


async def test_as_long_as_nobody_knows_whether_it_is_told_the_next_message_gets_503_as_well(
    profiled: Profiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with profiled(rate={"person_per_minute": 1}) as gateway:

        async def status(number: int) -> int:
            return (await gateway.say(MENTION | {"ts": f"1760000300.{number:06}"}, f"Ev{number}")).status

        assert await status(1) == 200
        async with dying(gateway, monkeypatch):
            assert await status(2) == 503
        assert [await status(number) for number in (3, 2, 3)] == [503, 200, 200]
        assert gateway.outcomes() == ["new", "away", "away", "over", "over"]


async def test_of_many_too_many_at_once_one_is_told(profiled: Profiled) -> None:
    async with profiled(rate={"person_per_minute": 1}) as gateway:
        elsewhere = [event(f"m{n}", conversation=replace(ROOM, thread=f"T1:{n}.0")) for n in range(30)]
        seen = Counter(await asyncio.gather(*(became(gateway, one) for one in elsewhere)))
        assert seen["new"] == 1
        assert seen["over"] >= 1
        assert set(await asyncio.gather(*(became(gateway, one) for one in elsewhere))) == {"known", "over"}
        assert len(await notices(gateway)) == 1


# sent again when it was stored long ago


async def forget_a_minute(gateway: Served, root: str) -> None:
    redis = gateway.parts.store.redis
    for key in [key async for key in redis.scan_iter(f"{root}:*") if not key.endswith(b":told")]:
        counted: Any = await redis.zrange(key, 0, -1, withscores=True)
        for member, at in counted:
            await redis.zadd(key, {member: at - 60_001})


@pytest.mark.parametrize("actor", [Actor("u1"), BOT])
async def test_a_message_that_comes_again_after_a_minute_does_not_count_and_is_not_one_too_many(
    profiled: Profiled, actor: Actor
) -> None:
    async with profiled(rate={"person_per_minute": 2}, other_bots="answer", bot_turns_per_minute=2) as gateway:
        store = gateway.parts.store
        m1, m2, m3, m4 = (event(f"m{number}", actor=actor) for number in range(1, 5))
        assert await states(gateway, m1) == ["new"]
        await forget_a_minute(gateway, store.layout.bots_root if actor.is_bot else store.layout.rates_root)
        assert await states(gateway, m2, m1, m3, m1) == ["new", "known", "new", "known"]
        assert await notices(gateway) == []
        assert gateway.lines("loop guard") == []
        assert await states(gateway, m4, m1) == ["ignored" if actor.is_bot else "over", "known"]


async def test_a_message_that_comes_again_hours_later_is_not_late(
    strict: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    await strict.parts.mailbox.claim(0, "w1", 1)
    mailbox, m1 = strict.parts.mailbox, said(strict, "m1", actor=Actor("u2"))
    assert await states(strict, m1) == ["new"]
    later_ms = mailbox.now_ms() + 2 * HOUR_MS
    monkeypatch.setattr(mailbox, "now_ms", lambda: later_ms)
    assert await states(strict, m1) == ["known"]
    assert await notices(strict) == []


async def test_a_message_that_comes_again_when_who_wrote_it_is_not_let_in_any_more_is_not_answered_and_not_counted(
    strict: Served,
) -> None:
    store = strict.parts.store
    await strict.parts.mailbox.claim(0, "w1", 1)
    await store.redis.hset(f"{store.layout.skills_root}:paired", "slack-main/EVE", "{}")
    m1, m2 = (said(strict, name, actor=Actor("EVE"), is_direct=True) for name in ("m1", "m2"))
    assert await states(strict, m1) == ["new"]
    await strict.parts.mailbox.claim(0, "w1", 1)
    await store.redis.hdel(f"{store.layout.skills_root}:paired", "slack-main/EVE")
    assert await states(strict, m1) == ["known"]
    assert await notices(strict) == []
    assert await states(strict, m2) == ["new"]
    assert await notices(strict) == ["m2"], "that it was not told of the first one did not count"


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
