import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from multidict import CIMultiDict

from gateway.boards import Boards
from gateway.feed import Feed
from gateway.files import Files
from gateway.platforms import Address, Growing, Malformed, Outbound, Outside, RawRequest, StepLine, Stream, Unauthorized
from gateway.platforms.webchat import MESSAGES_PATH, TEXT_MAX, Adapter, Settings, conversation_key
from gateway.store import Store, open_store

SAID = {"conversation": "c1", "text": " hello ", "id": "m1", "browser": "0" * 32}
HERE = Address(conversation_key("c1", "0" * 32))


@pytest.fixture
async def feed(store: Store) -> AsyncIterator[Feed]:
    opened = Feed(store)
    yield opened
    await opened.close()


@pytest.fixture
async def adapter(store: Store, feed: Feed) -> AsyncIterator[Adapter]:
    async with aiohttp.ClientSession() as http:
        yield Adapter("web", Settings(stream_interval_ms=250), Outside(http, feed, Files(store), Boards(store)))


def request(body: Any, *, path: str = MESSAGES_PATH, method: str = "POST", language: str = "") -> RawRequest:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return RawRequest(method, path, {}, CIMultiDict({"Accept-Language": language} if language else {}), raw)


async def heard(feed: Feed, count: int) -> list[dict[str, Any]]:
    entries = []
    async for _, entry in feed.follow(HERE.conversation.id):
        entries.append(entry)
        if len(entries) == count:
            break
    return entries


@pytest.mark.parametrize(
    ("path", "method"),
    [("/webhooks/web", "POST"), ("/chat/api/messages/", "POST"), ("/", "POST"), (MESSAGES_PATH, "GET")],
)
async def test_only_the_pages_own_route_brings_messages(adapter: Adapter, path: str, method: str) -> None:
    adapter.verify(request(SAID), 0)
    with pytest.raises(Unauthorized):
        adapter.verify(request(SAID, path=path, method=method), 0)


async def test_a_message_becomes_one_event(adapter: Adapter) -> None:
    [event] = adapter.parse(request(SAID, language="zh-CN,zh;q=0.9,en;q=0.8"), 12.5)
    assert (event.kind, event.text, event.message_id, event.at_ms) == ("message", "hello", "m1", 12_500)
    assert event.dedupe_keys == ("message:m1",)
    assert (event.actor.id, event.actor.language) == ("0" * 32, "zh-CN")
    assert event.actor.name == "聊天页面上的用户", "the id of a browser tells people nothing"
    assert event.conversation.parts() == ["web", "web", "c1", "0" * 32]
    assert event.is_direct
    assert event.addressed
    assert adapter.handshake(request(SAID)) is None
    assert adapter.acknowledge([event]).status == 202


@pytest.mark.parametrize("language", ["", "*", "x" * 200, "en\u0000", "<b>", ";q=1", ",,,"])
async def test_a_language_that_is_none_is_left_out(adapter: Adapter, language: str) -> None:
    assert adapter.parse(request(SAID, language=language), 0)[0].actor.language is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"{",
        b"null",
        [],
        {},
        SAID | {"text": None},
        SAID | {"text": "x" * (TEXT_MAX + 1)},
        SAID | {"id": 1},
        SAID | {"id": "a b"},
        SAID | {"conversation": "../x"},
        SAID | {"browser": "0" * 31},
        SAID | {"browser": "0" * 32 + "\n"},
    ],
)
async def test_what_can_not_be_read_is_refused(adapter: Adapter, body: Any) -> None:
    with pytest.raises(Malformed):
        adapter.parse(request(body), 0)


async def test_text_that_no_store_could_hold_is_mended(adapter: Adapter) -> None:
    [event] = adapter.parse(request(SAID | {"text": "a\ud800b"}), 0)
    assert event.text == "a\N{REPLACEMENT CHARACTER}b"


@pytest.mark.parametrize("one", [("c1", "1" * 32), ("C1", "0" * 32), ("c10", "0" * 31)])
def test_other_browsers_and_other_ids_are_other_conversations(one: tuple[str, str]) -> None:
    assert conversation_key(*one).id != HERE.conversation.id


async def test_a_reply_is_one_part_and_can_be_sent_twice(adapter: Adapter, feed: Feed) -> None:
    [part] = adapter.render(Outbound("**x** <!channel>" * 2_000, is_notice=True))
    for _ in range(2):
        outcome = await adapter.send(HERE, part, "key 1")
        assert (outcome.kind, outcome.sent and outcome.sent.message_id) == ("ok", "key 1")
    first, second = await heard(feed, 2)
    assert first == second
    assert first == {"type": "reply", "key": "key 1", "text": "**x** <!channel>" * 2_000, "notice": True}


async def test_an_edit_takes_the_place_of_what_was_sent(adapter: Adapter, feed: Feed) -> None:
    [part] = adapter.render(Outbound("a"))
    outcome = await adapter.send(HERE, part, "key 1")
    assert outcome.sent
    [changed] = adapter.render(Outbound("b"))
    assert (await adapter.edit(HERE, outcome.sent, changed)).kind == "ok"
    assert [(entry["key"], entry["text"]) for entry in await heard(feed, 2)] == [("key 1", "a"), ("key 1", "b")]


async def test_the_answer_so_far_is_shown_whole_with_its_steps(adapter: Adapter, feed: Feed) -> None:
    await adapter.show(HERE, Growing("a"), "key", None)
    await adapter.show(HERE, Growing("ab", (StepLine("tool", "web_fetch", "running"),)), "key", None)
    assert await heard(feed, 1) == [
        {"type": "text", "text": "ab", "steps": [{"kind": "tool", "name": "web_fetch", "state": "running"}]}
    ]


async def test_a_store_that_is_away_is_a_passing_fault(store: Store) -> None:
    away = open_store("redis://127.0.0.1:1", store.layout, timeout_s=0.5)
    async with aiohttp.ClientSession() as http:
        adapter = Adapter("web", Settings(), Outside(http, Feed(away), Files(away), Boards(away)))
        [part] = adapter.render(Outbound("a"))
        assert (await adapter.send(HERE, part, "key 1")).kind == "transient"
        assert (await adapter.show(HERE, Growing("a"), "key 1", None)).kind == "transient"
    await away.close()


async def test_the_page_says_what_it_can(adapter: Adapter) -> None:
    assert adapter.stream(HERE) == Stream("passing", 0.25)
    assert adapter.capabilities.idempotent_send
    assert (await adapter.identity()).is_self
