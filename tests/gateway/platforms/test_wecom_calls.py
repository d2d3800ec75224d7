"""The half that talks: against a strict stand-in for WeCom, which calls back and comes for texts."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from multidict import CIMultiDict
from pydantic import SecretStr
from wechatpy.enterprise import WeChatClient

from gateway.boards import Board, Boards
from gateway.events import Attachment, Event
from gateway.feed import Feed
from gateway.files import Files
from gateway.platforms import (
    Address,
    Button,
    ConnectionRefused,
    Growing,
    NotDownloaded,
    Outbound,
    Outside,
    Part,
    RawRequest,
    Stream,
    Unauthorized,
)
from gateway.platforms.wecom import Adapter, Settings
from gateway.store import Store, open_store
from tests.harness.faults import Fault
from tests.harness.twins import Said
from tests.harness.web import canary
from tests.harness.wecom_twin import AGENT_ID, BOT, CORP_ID, CORP_SECRET, GROUP, LATER, USED, USER, Refused, WecomTwin

KEY = "k" * 24
BUTTONS = (Button("Approve", "skill approve 7F3K", "primary"), Button("Refuse", "skill refuse 7F3K"))


@dataclass
class World:
    """A stand-in, an adapter, and a door that does what a gateway does with callbacks."""

    wecom: WecomTwin
    http: aiohttp.ClientSession
    store: Store
    hook: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    is_idle: bool = False
    is_app: bool = False

    @property
    def adapter(self) -> Adapter:
        """Another one each time: nothing is kept in memory."""
        connection = self.wecom.app_connection if self.is_app else self.wecom.connection
        named = {name: self.wecom.environment[value[1:]] for name, value in connection.items() if str(value)[0] == "$"}
        told = {**connection, **{name: SecretStr(value) for name, value in named.items()}, **self.settings}
        return Adapter("wecom-main", Settings(**told), self.outside())

    def outside(self, store: Store | None = None) -> Outside:
        store = store or self.store
        return Outside(self.http, Feed(store), Files(store), Boards(store))

    async def door(self, request: web.Request) -> web.Response:
        adapter = self.adapter
        raw = RawRequest(
            request.method, request.path, dict(request.query), CIMultiDict(request.headers), await request.read()
        )
        try:
            adapter.verify(raw, time.time())
        except Unauthorized as why:
            return web.Response(status=401, text=str(why))
        answer = adapter.handshake(raw)
        if answer is None:
            events = adapter.parse(raw, time.time())
            if events and events[0].kind == "pull":
                answer = await adapter.pulled(events[0], is_idle=self.is_idle)
            else:
                self.events += events
                answer = adapter.acknowledge(events)
        return web.Response(status=answer.status, body=answer.body, content_type=answer.content_type)

    async def asked(self, text: str = "hi") -> tuple[Said, Address]:
        """Somebody has asked in the group."""
        return await self.heard(await self.wecom.mention(self.hook, text))

    async def asked_long_ago(self) -> Address:
        """Half an hour ago: its stream is over, its `response_url` is not."""
        _, to = await self.asked()
        return replace(aged(to, 1_800_000), handle=None)

    async def heard(self, said: Said) -> tuple[Said, Address]:
        event = self.events[-1]
        return said, Address(event.conversation, event.extra, event.reply_handle)

    async def come(self) -> None:
        """WeCom has come for the stream of what was asked."""
        while not (await self.board()).last_ms:
            await asyncio.sleep(0.01)

    async def written(self) -> None:
        while (await self.board()).state != "whole":
            await asyncio.sleep(0.01)

    async def board(self) -> Board:
        asked = self.events[-1]
        return await Boards(self.store).read(asked.conversation.id, asked.extra["stream"])

    async def pull(self, later_ms: int = 0) -> Any:
        """What WeCom is shown that comes for the stream of what was asked."""
        asked = self.events[-1]
        pull = replace(asked, kind="pull", at_ms=asked.at_ms + later_ms)
        answer = await self.adapter.pulled(pull, is_idle=self.is_idle)
        return json.loads(self.wecom._crypto.decrypt(json.loads(answer.body)["encrypt"], ""))["stream"]

    async def silence(self, to: Address, ms: int) -> None:
        """WeCom has not come for so long."""
        key = self.store.layout.key(to.conversation.id, f"board:{to.extra['stream']}")
        if last_ms := (await self.board()).last_ms:
            await self.store.redis.hset(key, "last_ms", str(last_ms - ms))

    def part(self, markdown: str, *buttons: Button) -> Part:
        return self.adapter.render(Outbound(markdown, buttons=buttons))[0]

    @property
    def texts(self) -> list[tuple[str, str]]:
        return [(post.kind, post.text) for post in self.wecom.posts]


def aged(to: Address, ms: int) -> Address:
    """The same, asked so long ago."""
    return replace(to, extra={**to.extra, "at_ms": to.extra["at_ms"] - ms})


@pytest.fixture
async def world(store: Store) -> AsyncIterator[World]:
    async with WecomTwin(poll_s=0.02, retry_s=(0.01, 0.01, 0.01)) as twin, aiohttp.ClientSession() as http:
        made = World(twin, http, store)
        app = web.Application()
        app.router.add_route("*", "/webhooks/wecom-main", made.door)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        made.hook = f"http://127.0.0.1:{runner.addresses[0][1]}/webhooks/wecom-main"
        yield made
        await runner.cleanup()


@pytest.fixture
async def app(world: World) -> World:
    world.is_app = True
    return world


# streams


async def test_a_reply_is_what_wecom_comes_for(world: World) -> None:
    said, to = await world.asked("**hi**")
    assert world.events[0].text == "**hi**"
    assert to.conversation.channel == GROUP
    assert said.statuses == [200]
    outcome = await world.adapter.send(to, world.part("**Hi** <@zhangsan>"), KEY)
    assert outcome.kind == "ok"
    reply = await world.wecom.reply_to(said)
    assert (reply.room, reply.text, reply.is_growing) == (GROUP, "**Hi** <\u200b@zhangsan>", False)
    assert world.wecom.refused == []
    assert world.wecom.calls == []


async def test_a_growing_answer_is_shown_and_its_reply_takes_its_place(world: World) -> None:
    said, to = await world.asked()
    assert world.adapter.stream(to) == Stream("passing", 0.5)
    for text in ("_step_", "_step_\n\nHel", "_step_\n\nHello"):
        assert (await world.adapter.show(to, Growing(text, (), text), KEY, None)).kind == "ok"
        await world.wecom.until(lambda: len(world.wecom.posts[0].texts) > 1)
        await asyncio.sleep(0.05)
    assert world.wecom.shown[0].is_growing
    await world.adapter.send(to, world.part("Hello"), KEY)
    assert (await world.wecom.reply_to(said)).text == "Hello"
    assert world.wecom.posts[0].texts == ["…", "*step*", "*step*\n\nHel", "*step*\n\nHello", "Hello"]
    assert (await world.adapter.show(to, Growing("late", (), "late"), KEY, None)).kind == "ok"
    await asyncio.sleep(0.05)
    assert world.texts == [("stream", "Hello")]
    assert world.wecom.refused == []


async def test_nothing_grows_where_there_is_no_stream(world: World) -> None:
    _, to = await world.asked()
    for other in (replace(to, handle=None), aged(to, 360_000)):
        assert world.adapter.stream(other).kind == "none"
        assert (await world.adapter.show(other, Growing("a", (), "a"), KEY, None)).kind == "ok"
    await asyncio.sleep(0.05)
    assert world.texts == [("stream", "…")]


async def test_a_growing_answer_of_any_length_is_shown_within_the_limit(world: World) -> None:
    _, to = await world.asked()
    long = "长" * 30_000
    assert (await world.adapter.show(to, Growing(long, (), long), KEY, None)).kind == "ok"
    await world.wecom.until(lambda: world.wecom.posts[0].text != "…")
    assert world.wecom.refused == []


async def test_a_message_that_is_sent_again_has_one_stream(world: World) -> None:
    said, to = await world.asked()
    await world.wecom.resend(world.hook, said)
    assert [event.dedupe_keys for event in world.events] == [world.events[0].dedupe_keys] * 2
    await world.adapter.send(to, world.part("once"), KEY)
    await world.adapter.send(to, world.part("once"), KEY)
    await world.wecom.reply_to(said)
    assert world.texts == [("stream", "once")]
    assert world.wecom.refused == []


async def test_a_callback_without_an_answer_is_sent_again(world: World, unused_port: int) -> None:
    said = await world.wecom.mention(f"http://127.0.0.1:{unused_port}/", "hi")
    assert said.statuses == [0, 0, 0, 0]
    assert world.wecom.posts == []


async def test_a_stream_ends_before_wecom_ends_it_and_the_answer_follows(world: World) -> None:
    world.settings = {"stream_s": 1.0}
    said, to = await world.asked()
    await world.adapter.show(to, Growing("so far", (), "so far"), KEY, None)
    await world.wecom.until(lambda: world.wecom.posts[0].is_over)
    assert world.texts == [("stream", LATER)]
    shown = await world.adapter.show(to, Growing("more", (), "more"), KEY, None)
    assert shown.kind == "target_gone"
    assert (await world.adapter.send(to, world.part("at last"), KEY)).kind == "ok"
    assert (await world.wecom.reply_to(said)).text == "at last"
    assert world.texts == [("stream", LATER), ("response", "at last")]
    assert world.wecom.refused == []


async def test_past_wecom_s_time_nobody_writes_on_the_stream(world: World) -> None:
    said, to = await world.asked()
    late = replace(to, extra={**to.extra, "at_ms": round(time.time() * 1000) - 360_001})
    assert (await world.adapter.send(late, world.part("late"), KEY)).kind == "ok"
    assert ("response", "late") in world.texts
    assert said.id == world.wecom.posts[-1].said


async def test_a_reply_is_sent_when_wecom_has_come_for_the_whole_of_it(world: World) -> None:
    _, to = await world.asked()
    await world.come()
    world.wecom._poll_s = 60.0
    world.settings = {"timeout_s": 0.05}
    await asyncio.sleep(0.05)
    outcome = await world.adapter.send(to, world.part("Hello"), KEY)
    assert (outcome.kind, outcome.retry_after_s) == ("transient", 1.0)
    world.settings = {}
    sending = asyncio.create_task(world.adapter.send(to, world.part("Hello"), KEY))
    assert (await world.pull())["finish"]
    assert (await sending).kind == "ok"
    assert (await world.adapter.send(to, world.part("Hello"), KEY)).kind == "ok", "whoever tries again has sent it"
    assert (await world.adapter.send(aged(to, 600_000), world.part("Hello"), KEY)).kind == "ok"
    assert world.wecom.calls == []


async def test_while_wecom_comes_a_reply_goes_on_the_stream_however_long_it_took(world: World) -> None:
    said, to = await world.asked()
    await world.come()
    assert (await world.adapter.send(aged(to, 40_000), world.part("Hello"), KEY)).kind == "ok"
    await world.wecom.reply_to(said)
    assert world.texts == [("stream", "Hello")]


@pytest.mark.parametrize("came", [True, False])
async def test_a_reply_that_wecom_does_not_come_for_goes_by_response_url_and_is_seen_once(
    world: World, *, came: bool
) -> None:
    """It never came for that stream, or came once and not again."""
    world.settings = {"timeout_s": 0.05}
    world.wecom._poll_s = 0.02 if came else 60.0
    _, to = await world.asked()
    if came:
        await world.come()
        world.wecom._poll_s = 60.0
        await asyncio.sleep(0.05)
    for _ in range(2):
        assert (await world.adapter.send(to, world.part("Hello"), KEY)).kind == "transient"
    assert ("response", "Hello") not in world.texts
    await world.silence(to, 31_000)
    assert (await world.adapter.send(aged(to, 31_000), world.part("Hello"), KEY)).kind == "ok"
    assert (await world.adapter.send(aged(to, 31_000), world.part("Hello"), KEY)).kind == "ok", (
        "it has used the address"
    )
    assert [text for kind, text in world.texts if kind == "response"] == ["Hello"]
    assert await world.pull() == {"id": to.extra["stream"], "finish": True, "content": LATER}


async def test_who_has_used_the_address_is_known_for_its_hour(world: World) -> None:
    rest = await world.asked_long_ago()
    assert (await world.adapter.send(rest, world.part("two"), "k2")).kind == "ok"
    [key] = [
        one async for one in world.store.redis.scan_iter(world.store.layout.key(rest.conversation.id, "board:url-*"))
    ]
    assert await world.store.redis.pttl(key) > 3_500_000


async def test_of_two_who_would_use_the_address_at_once_one_does(world: World) -> None:
    rest = await world.asked_long_ago()
    outcomes = await asyncio.gather(*(world.adapter.send(rest, world.part(key), key) for key in ("k2", "k3")))
    assert sorted(one.kind for one in outcomes) == ["ok", "target_gone"]
    assert world.wecom.calls == ["response"]


async def test_a_stream_of_a_conversation_with_nothing_to_do_ends(world: World) -> None:
    """A message that was answered together with another has a stream of its own that nobody writes on."""
    world.is_idle = True
    await world.asked()
    await world.wecom.until(lambda: world.wecom.posts[0].is_over)
    assert world.texts == [("stream", "✓")]


async def test_what_was_shown_stays_when_a_turn_ends_without_a_reply(world: World) -> None:
    _, to = await world.asked()
    await world.adapter.show(to, Growing("half", (), "half"), KEY, None)
    world.is_idle = True
    await world.wecom.until(lambda: world.wecom.posts[0].is_over)
    assert world.texts == [("stream", "half")]


async def test_a_whole_answer_is_given_however_late_or_idle(world: World) -> None:
    world.settings, world.is_idle = {"stream_s": 0.001}, True
    _, to = await world.asked()
    world.wecom._polling[world.wecom.posts[0].id].cancel()  # it comes when the answer is there
    sending = asyncio.create_task(world.adapter.send(to, world.part("whole"), KEY))
    await world.written()
    for later_ms in (0, 400_000):
        shown = await world.pull(later_ms)
        assert shown == {"id": to.extra["stream"], "finish": True, "content": "whole"}
    assert (await sending).kind == "ok"


async def test_two_gateways_and_workers_share_the_stream(world: World, redis_url: str) -> None:
    said, to = await world.asked()
    other = open_store(redis_url, world.store.layout, timeout_s=5.0)
    try:
        adapter = Adapter("wecom-main", world.adapter._settings, world.outside(other))
        await adapter.send(to, world.part("from afar"), KEY)
        assert (await world.wecom.reply_to(said)).text == "from afar"
    finally:
        await other.close()


async def test_without_redis_nothing_raises(world: World) -> None:
    _, to = await world.asked()
    away = open_store("redis://127.0.0.1:1/0", world.store.layout, timeout_s=0.2)
    try:
        adapter = Adapter("wecom-main", world.adapter._settings, world.outside(away))
        assert (await adapter.send(to, world.part("x"), KEY)).kind == "transient"
        assert (await adapter.send(replace(to, handle=None), world.part("x"), KEY)).kind == "transient"
        assert (await adapter.show(to, Growing("x", (), "x"), KEY, None)).kind == "transient"
    finally:
        await away.close()


# response_url


async def test_a_second_part_goes_by_response_url_and_a_third_nowhere(world: World) -> None:
    said, to = await world.asked()
    rest = replace(to, handle=None)
    outcomes = [
        await world.adapter.send(to, world.part("one"), "k1"),
        await world.adapter.send(rest, world.part("two"), "k2"),
        await world.adapter.send(rest, world.part("three"), "k3"),
    ]
    assert [one.kind for one in outcomes] == ["ok", "ok", "target_gone"]
    assert "response_url takes one message" in outcomes[2].detail
    await world.wecom.reply_to(said)
    assert world.texts == [("stream", "one"), ("response", "two")]
    assert world.wecom.refused == []


async def test_a_lost_answer_is_asked_for_again_and_stands_there_once(world: World) -> None:
    rest = await world.asked_long_ago()
    world.wecom.faults.order(Fault(on="response", close=True, taken=True))
    assert (await world.adapter.send(rest, world.part("two"), "k2")).kind == "ambiguous"
    assert (await world.adapter.send(rest, world.part("two"), "k2")).kind == "ok"
    assert [text for kind, text in world.texts if kind == "response"] == ["two"]
    assert (await world.adapter.send(rest, world.part("three"), "k3")).kind == "target_gone"


async def test_who_may_have_used_the_address_keeps_it_whatever_comes_between(world: World) -> None:
    rest = await world.asked_long_ago()
    world.wecom.faults.order(Fault(on="response", close=True, taken=True))
    world.wecom.faults.order(Fault(on="response", status=429))
    kinds = [(await world.adapter.send(rest, world.part("two"), "k2")).kind for _ in range(3)]
    assert kinds == ["ambiguous", "rate_limited", "ok"]
    assert [text for kind, text in world.texts if kind == "response"] == ["two"]


async def test_a_limit_of_one_address_stops_nobody_else(world: World) -> None:
    """Streams are no calls of ours at all, and another person has another address."""
    rest = await world.asked_long_ago()
    world.wecom.faults.order(Fault(on="response", status=429))
    outcome = await world.adapter.send(rest, world.part("two"), "k2")
    assert (outcome.kind, outcome.scope, outcome.retry_after_s) == ("rate_limited", "channel", 5.0)


async def test_what_was_not_taken_leaves_the_address_to_others(world: World) -> None:
    rest = await world.asked_long_ago()
    world.wecom.faults.order(Fault(on="response", status=429, headers={"Retry-After": "7"}))
    outcome = await world.adapter.send(rest, world.part("two"), "k2")
    assert (outcome.kind, outcome.retry_after_s, outcome.scope) == ("rate_limited", 7.0, "channel")
    assert (await world.adapter.send(rest, world.part("three"), "k3")).kind == "ok"


async def test_an_address_that_wecom_does_not_take_any_more_is_told(world: World) -> None:
    to = await world.asked_long_ago()
    for response in world.wecom._responses.values():
        response.is_used = True
    outcome = await world.adapter.send(to, world.part("x"), KEY)
    assert (outcome.kind, outcome.detail) == ("rejected", f"response_url: status 200, errcode {USED}")
    assert "RC" not in outcome.detail


async def test_without_any_address_nothing_can_be_said(world: World) -> None:
    _, to = await world.asked()
    outcome = await world.adapter.send(Address(to.conversation, {}, None), world.part("x"), KEY)
    assert (outcome.kind, outcome.sent) == ("target_gone", None)
    assert "no response_url came" in outcome.detail
    over = replace(to, handle=None, extra={**to.extra, "at_ms": round(time.time() * 1000) - 3_600_001})
    outcome = await world.adapter.send(over, world.part("x"), KEY)
    assert (outcome.kind, world.wecom.calls) == ("target_gone", [])
    assert "lasts for an hour" in outcome.detail


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ({"body": {"errcode": -1}}, "transient"),
        ({"body": {"errcode": 45009}}, "rate_limited"),
        ({"body": {"errcode": 45002}}, "too_long"),
        ({"body": {"errcode": 40001}}, "auth_failed"),
        ({"body": {"errcode": 81013}}, "target_gone"),
        ({"body": {"errcode": 12345}}, "rejected"),
        ({"body": {"errcode": "0"}}, "ambiguous"),
        ({"body": "<html>"}, "ambiguous"),
        ({"status": 401}, "auth_failed"),
        ({"status": 404, "body": "<html>"}, "rejected"),
        ({"status": 413}, "too_long"),
        ({"status": 429}, "rate_limited"),
        ({"status": 500}, "ambiguous"),
        ({"status": 502, "body": "<html>"}, "ambiguous"),
        ({"status": 503}, "transient"),
        ({"status": 302, "headers": {"Location": "http://127.0.0.1:1/"}}, "rejected"),
        ({"close": True}, "ambiguous"),
        ({"hang": True}, "ambiguous"),
    ],
)
async def test_what_an_answer_means(world: World, fault: dict[str, Any], kind: str) -> None:
    world.settings = {"timeout_s": 0.2 if "hang" in fault else 20.0}
    to = await world.asked_long_ago()
    world.wecom.faults.order(
        Fault(**{"on": "response", "status": 0 if set(fault) & {"close", "hang"} else 200, **fault})
    )
    outcome = await world.adapter.send(to, world.part("x"), KEY)
    assert outcome.kind == kind
    assert "RC" not in outcome.detail


async def test_an_address_where_nobody_is_was_certainly_not_reached(world: World, unused_port: int) -> None:
    to = await world.asked_long_ago()
    nowhere = replace(to, extra={**to.extra, "response_url": f"http://127.0.0.1:{unused_port}/x"})
    assert (await world.adapter.send(nowhere, world.part("x"), KEY)).kind == "transient"
    assert (await world.adapter.send(nowhere, world.part("x"), "another")).kind == "transient"


async def test_a_message_can_t_be_changed(world: World) -> None:
    _, to = await world.asked()
    sent = (await world.adapter.send(to, world.part("x"), KEY)).sent
    assert sent
    assert (await world.adapter.edit(to, sent, world.part("y"))).kind == "rejected"


# buttons


async def test_buttons_come_with_the_answer_and_say_their_command(world: World) -> None:
    said, to = await world.asked()
    await world.adapter.send(to, world.part("Save it?", *BUTTONS), KEY)
    assert (await world.wecom.reply_to(said)).text == "Save it?"
    card = world.wecom.shown[-1]
    assert (card.id, card.text, card.buttons) == (KEY, "Save it?", ["Approve", "Refuse"])
    pressed, to_pressed = await world.heard(await world.wecom.press(world.hook, card, "Approve"))
    assert (world.events[-1].kind, world.events[-1].value) == ("action", "skill approve 7F3K")
    assert world.events[-1].conversation == to.conversation
    assert (world.wecom.shown[-1].text, world.wecom.shown[-1].buttons) == ("/skill approve 7F3K", [])
    await world.adapter.pressed(to_pressed, world.events[-1], "saved", is_settled=True)
    await world.adapter.send(to_pressed, world.part("Saved"), "k2")
    assert (await world.wecom.reply_to(pressed)).text == "Saved"
    assert world.wecom.refused == []


async def test_what_is_said_before_the_reply_stands_above_it_and_its_card_comes_at_the_end(world: World) -> None:
    said, to = await world.asked()
    before = replace(to, handle=None)
    for _ in range(2):  # a second try is no second text
        assert (await world.adapter.send(before, world.part("Save it?", *BUTTONS), "k1")).kind == "ok"
    assert (await world.adapter.send(before, world.part("And this?", *BUTTONS), "k2")).kind == "ok"
    await world.wecom.until(lambda: world.texts == [("stream", "Save it?\n\n---\n\nAnd this?\n\n---\n\n…")])
    await world.adapter.show(to, Growing("Hel", (), "Hel"), KEY, None)
    await world.adapter.send(to, world.part("Hello"), KEY)
    assert (await world.wecom.reply_to(said)).text == "Save it?\n\n---\n\nAnd this?\n\n---\n\nHello"
    assert [(one.id, one.buttons) for one in world.wecom.shown[1:]] == [("k1", ["Approve", "Refuse"])]
    assert world.wecom.refused == []


async def test_what_was_said_before_stays_when_the_reply_is_late_or_there_is_none(world: World) -> None:
    _, to = await world.asked()
    await world.adapter.send(replace(to, handle=None), world.part("Save it?", *BUTTONS), "k1")
    world.is_idle = True
    await world.wecom.until(lambda: len(world.wecom.posts) > 1)
    assert world.texts == [("stream", "Save it?"), ("card", "Save it?")]
    world.is_idle = False
    _, to = await world.asked()
    await world.adapter.send(replace(to, handle=None), world.part("Save that?", *BUTTONS), "k2")
    world.settings = {"stream_s": 1.0}
    await world.wecom.until(lambda: len(world.wecom.posts) > 3)
    assert world.texts[2:] == [("stream", f"Save that?\n\n---\n\n{LATER}"), ("card", "Save that?")]
    assert (await world.adapter.send(replace(to, handle=None), world.part("more"), "k3")).kind == "ok"
    assert world.texts[4:] == [("response", "more")]
    assert world.wecom.refused == []


async def test_a_stream_holds_all_that_stands_above_a_reply_of_any_length(world: World) -> None:
    said, to = await world.asked()
    before = replace(to, handle=None)
    for number in range(5):
        assert (await world.adapter.send(before, world.part(f"{number}" * 1_000), f"k{number}")).kind == "ok"
    await world.adapter.send(to, world.adapter.render(Outbound("长" * 9_000))[0], KEY)
    reply = await world.wecom.reply_to(said)
    assert [f"{number}" * 1_000 in reply.text for number in range(5)] == [True, True, True, True, False]
    assert world.texts[-1] == ("response", "4" * 1_000)
    assert world.wecom.refused == []


# files


async def test_a_file_is_fetched_and_decrypted(world: World) -> None:
    png = bytes(range(205)) * 10
    said = await world.wecom.picture(world.hook, "what is it?", png)
    event = world.events[-1]
    assert (event.text, event.conversation.channel, said.room) == ("what is it?", f"user:{USER}", f"user:{USER}")
    [attachment] = event.attachments
    assert await world.adapter.download(attachment, 2_050) == png
    with pytest.raises(NotDownloaded, match="2050 bytes, allowed are 2049"):
        await world.adapter.download(attachment, 2_049)
    with pytest.raises(NotDownloaded, match="more than"):
        await world.adapter.download(attachment, 100)


@pytest.mark.parametrize("stored", [b"", b"<html>sign in</html>", b'{"errcode":40007}', b"x" * 4_096])
async def test_what_is_not_the_encrypted_file_is_recognised(world: World, stored: bytes) -> None:
    url = world.wecom.attach(b"abc")
    world.wecom.spoil(url, stored)
    with pytest.raises(NotDownloaded, match=r"not the encrypted file|sent nothing"):
        await world.adapter.download(Attachment("image", "", "", 0, {"url": url}), 9_999)


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ({"status": 403}, "five minutes"),
        ({"status": 404}, "five minutes"),
        ({"status": 500}, "status 500"),
        ({"status": 302, "headers": {"Location": "/media/1"}}, "status 302"),
        ({"close": True}, "no answer"),
    ],
)
async def test_a_file_that_is_not_given_is_told(world: World, fault: dict[str, Any], why: str) -> None:
    world.wecom.faults.order(Fault(on="media", **fault), times=2)  # a GET whose connection breaks is tried again
    with pytest.raises(NotDownloaded, match=why):
        await world.adapter.download(Attachment("file", "", "", 0, {"url": world.wecom.attach(b"abc")}), 99)


async def test_files_are_fetched_from_named_hosts_only(world: World) -> None:
    with canary() as elsewhere:
        http_only = "http://ww-aibot-img-1258476243.cos.ap-guangzhou.myqcloud.com/x"
        for where in (f"http://127.0.0.1:{elsewhere.port}/x", http_only, "file:///etc/passwd"):
            with pytest.raises(NotDownloaded, match="file_hosts"):
                await world.adapter.download(Attachment("file", "", "", 0, {"url": where}), 99)
        assert elsewhere.visits() == 0
    with pytest.raises(NotDownloaded, match="no address"):
        await world.adapter.download(Attachment("voice", "", "", 0), 99)


# the stand-in


def streamed(**stream: Any) -> dict[str, Any]:
    return {"msgtype": "stream", "stream": {"id": "s", "finish": False, "content": "x", **stream}}


CARD: dict[str, Any] = {
    "card_type": "button_interaction",
    "main_title": {"title": "t"},
    "button_list": [{"text": "a", "style": 1, "key": "a"}],
    "task_id": "t-1",
}


def carded(**card: Any) -> dict[str, Any]:
    return {**streamed(), "msgtype": "stream_with_template_card", "template_card": {**CARD, **card}}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"msgtype": "text", "text": {"content": "x"}}, "an answer of text"),
        (streamed(content="长" * 6_827), "content: too long"),
        (streamed(finish=0), "stream: "),
        (streamed(id=""), "id: missing"),
        (streamed(text="x"), "stream: "),
        (streamed(msg_item=[{"msgtype": "image"}]), "before the end"),
        (streamed() | {"template_card": CARD}, "an answer of stream"),
        (carded(card_type="text_notice"), "not a card of buttons"),
        (carded(main_title={}), "title: missing"),
        (carded(task_id="a b"), "task_id"),
        (carded(button_list=[]), "too many"),
        (carded(button_list=CARD["button_list"] * 2), "a key twice"),
        (carded(button_list=[{"text": "a", "style": 5, "key": "a"}]), "not a button"),
        (carded(note="x"), "not a card of buttons"),
    ],
)
async def test_the_stand_in_refuses_answers_that_wecom_would_refuse(
    world: World, answer: dict[str, Any], why: str
) -> None:
    said = Said(GROUP, "m")
    await world.wecom._refusing(world.wecom._begin, world.hook, said, {"msgtype": "text"}, answer)
    [refused] = world.wecom.refused
    assert why in refused


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        ({"nonce": "1"}, "nonce"),
        ({"timestamp": "1760000000"}, "timestamp"),
        ({"timestamp": 1_760_000_000}, "timestamp"),
        ({"msgsignature": "a" * 40}, "msgsignature"),
        ({"more": 1}, "envelope"),
    ],
)
async def test_the_stand_in_refuses_envelopes_that_wecom_would_refuse(
    world: World, spoil: dict[str, Any], why: str
) -> None:
    await world.asked()
    event = replace(world.events[0], at_ms=round(time.time() * 1000))
    sealed = json.loads(world.adapter.acknowledge([event]).body)
    nonce = str(event.extra["nonce"])
    assert await world.wecom._open(json.dumps(sealed).encode(), nonce)
    with pytest.raises(Refused, match=why):
        await world.wecom._open(json.dumps({**sealed, **spoil}).encode(), nonce)


@pytest.mark.parametrize(
    "body",
    [
        {"msgtype": "text", "text": {"content": "x"}},
        {"msgtype": "markdown", "markdown": {"content": "x", "more": 1}},
        {"msgtype": "markdown", "markdown": {"content": " "}},
        {"msgtype": "markdown", "markdown": {"content": "长" * 6_827}},
        ["markdown"],
    ],
)
async def test_the_stand_in_refuses_messages_that_wecom_would_refuse(world: World, body: Any) -> None:
    _, to = await world.asked()
    for url in (to.extra["response_url"], to.extra["response_url"] + "0"):
        async with world.http.post(url, json=body) as answer:
            assert (await answer.json())["errcode"] != 0
    assert [kind for kind, _ in world.texts] == ["stream"]


# who we are


async def test_the_address_check_is_answered(world: World) -> None:
    assert await world.wecom.check_address(world.hook) == (200, "5927782489442352469")
    status, why = await world.wecom.check_address(world.hook, receive_id=CORP_ID)
    assert status == 401
    assert "receive_id" in why


async def test_a_bot_is_who_the_settings_say(world: World) -> None:
    me = await world.adapter.identity()
    assert (me.id, me.is_bot, me.is_self) == (BOT, True, True)
    assert await world.adapter.register("https://a.example/webhooks/wecom-main") == ""


# apps


async def test_an_app_sends_to_who_asked(app: World) -> None:
    said, to = await app.heard(await app.wecom.say_to_app(app.hook, "hi <b> & ]]&gt;"))
    assert (app.events[-1].text, app.events[-1].is_direct) == ("hi <b> & ]]&gt;", True)
    assert app.adapter.stream(to).kind == "none"
    adapter = app.adapter
    for number in range(2):
        outcome = await adapter.send(to, app.part(f"**Hi** {number}"), KEY)
        assert outcome.kind == "ok"
        assert outcome.sent
    assert (await app.wecom.reply_to(said)).text == "Hi 0"
    assert app.wecom.calls == ["gettoken", "message/send", "message/send"]
    assert app.wecom.refused == []
    assert not adapter.capabilities.idempotent_send


async def test_an_app_s_token_that_is_over_is_asked_for_again(app: World) -> None:
    _, to = await app.heard(await app.wecom.say_to_app(app.hook, "hi"))
    adapter = app.adapter
    await adapter.send(to, app.part("one"), KEY)
    app.wecom.tokens.append("another")
    assert (await adapter.send(to, app.part("two"), KEY)).kind == "transient"
    assert (await adapter.send(to, app.part("two"), KEY)).kind == "ok"
    assert app.texts == [("app", "one"), ("app", "two")]


async def test_whom_an_app_can_t_send_to_is_gone(app: World) -> None:
    _, to = await app.heard(await app.wecom.say_to_app(app.hook, "hi"))
    app.wecom.gone.add(USER)
    assert (await app.adapter.send(to, app.part("one"), KEY)).kind == "target_gone"


@pytest.mark.parametrize(
    ("on", "fault", "kind"),
    [
        ("gettoken", {"status": 500}, "transient"),
        ("gettoken", {"status": 200, "body": {"errcode": 0}}, "transient"),
        ("gettoken", {"status": 200, "body": {"errcode": 40001}}, "auth_failed"),
        ("gettoken", {"status": 200, "body": {"errcode": 45009}}, "rate_limited"),
        ("message/send", {"status": 500}, "ambiguous"),
        ("message/send", {"status": 500, "body": {"errcode": [0]}}, "ambiguous"),
        ("message/send", {"close": True, "taken": True}, "ambiguous"),
        ("message/send", {"status": 200, "body": {"errcode": 60020}}, "auth_failed"),
    ],
)
async def test_what_an_app_is_refused_is_told(app: World, on: str, fault: dict[str, Any], kind: str) -> None:
    _, to = await app.heard(await app.wecom.say_to_app(app.hook, "hi"))
    app.wecom.faults.order(Fault(on=on, **fault))
    outcome = await app.adapter.send(to, app.part("one"), KEY)
    assert outcome.kind == kind
    assert CORP_SECRET not in outcome.detail
    assert "token-" not in outcome.detail


async def test_a_limit_of_an_app_is_the_corporation_s(app: World) -> None:
    _, to = await app.heard(await app.wecom.say_to_app(app.hook, "hi"))
    app.wecom.faults.order(Fault(on="message/send", status=200, body={"errcode": 45009}))
    outcome = await app.adapter.send(to, app.part("one"), KEY)
    assert (outcome.kind, outcome.scope, outcome.retry_after_s) == ("rate_limited", "connection", 5.0)


async def test_an_app_with_a_wrong_secret_is_told_so(app: World) -> None:
    assert (await app.adapter.identity()).is_self
    app.settings = {"corp_secret": SecretStr("wrong")}
    with pytest.raises(ConnectionRefused, match=r"errcode 40001 \(are receive_id and corp_secret"):
        await app.adapter.identity()


async def test_wechatpy_can_use_the_stand_in(app: World) -> None:
    """So that the stand-in takes what WeCom takes."""

    class Client(WeChatClient):  # type: ignore[misc]  # wechatpy has no types
        API_BASE_URL = f"{app.wecom.url}/cgi-bin/"

        def fetch_access_token(self) -> Any:
            params = {"corpid": self.corp_id, "corpsecret": self.secret}
            return self._fetch_access_token(url=f"{self.API_BASE_URL}gettoken", params=params)

    def send() -> Any:
        with Client(CORP_ID, CORP_SECRET)._http as http:
            client = Client(CORP_ID, CORP_SECRET)
            client._http = http
            return client.message.send_text(AGENT_ID, USER, "from wechatpy")

    answer = await asyncio.to_thread(send)
    assert answer["errcode"] == 0
    assert app.texts == [("app", "from wechatpy")]
