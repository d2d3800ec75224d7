from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from email.utils import formatdate
from typing import Any, get_args

import pytest
from aiohttp import web
from pydantic import SecretStr

from config.settings import ModelSettings
from tests.harness.fake_model import KEY, FakeModel, Script
from tests.harness.model_replies import Reply, calls, fails, says
from workers.models import Answer, Model, ModelError, Request, StopReason, TextDelta, Usage
from workers.models.anthropic import open_model

HELLO: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": "hello"}]}]
TOOL = {"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}


def asks(messages: list[dict[str, Any]] = HELLO, *, tools: list[dict[str, Any]] | None = None) -> Request:
    return Request("fake", [{"type": "text", "text": "Be brief."}], messages, tools or [], 100)


@asynccontextmanager
async def opened(url: str, **settings: Any) -> AsyncIterator[Model]:
    given = {"provider": "anthropic", "name": "fake", "base_url": url, "api_key": SecretStr(KEY)}
    model = open_model(ModelSettings(**{**given, **settings}))
    try:
        yield model
    finally:
        await model.close()


@asynccontextmanager
async def served(post: Callable[[web.Request], Awaitable[web.Response]]) -> AsyncIterator[str]:
    """A server that is no model, under every path."""
    app = web.Application()
    app.router.add_post("/{any:.*}", post)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def pieces_of(script: Script, **settings: Any) -> list[TextDelta | Answer]:
    async with FakeModel(script) as server, opened(server.url, **settings) as model:
        return [piece async for piece in model.stream(asks())]


async def answer_of(script: Script, **settings: Any) -> Answer:
    last = (await pieces_of(script, **settings))[-1]
    assert isinstance(last, Answer)
    return last


async def error_of(script: Script, **settings: Any) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await pieces_of(script, **settings)
    return caught.value


async def test_the_pieces_are_the_text_and_the_answer_comes_once_at_the_end() -> None:
    *pieces, last = await pieces_of(says("Good morning, 早上好 👋", deltas=7))
    assert len(pieces) == 7
    assert "".join(piece.text for piece in pieces if isinstance(piece, TextDelta)) == "Good morning, 早上好 👋"
    assert last == Answer([{"type": "text", "text": "Good morning, 早上好 👋"}], "end_turn", Usage(10, 5), "fake")


async def test_every_kind_of_block_comes_back_as_it_was_given() -> None:
    blocks: list[dict[str, Any]] = [
        {"type": "thinking", "thinking": "Let me look.", "signature": "c2lnbmVk"},
        {"type": "redacted_thinking", "data": "aGlkZGVu"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "toolu_a", "name": "look", "input": {"where": "ü", "deep": [{"n": 1.5}]}},
        {"type": "tool_use", "id": "toolu_b", "name": "look", "input": {}},
        {"type": "something_new", "payload": {"x": [1, None]}},
    ]
    answer = await answer_of(Reply(blocks, stop_reason="tool_use", deltas=3))
    assert answer.content == blocks
    assert answer.stop_reason == "tool_use"
    assert answer.bad_inputs == {}


@pytest.mark.parametrize("size", [1, 2, 3, 7, 61])
async def test_it_does_not_matter_where_the_network_cuts(size: int) -> None:
    blocks: list[dict[str, Any]] = [
        {"type": "text", "text": "Grüße, 早上好 👋\r\n\n end"},
        {"type": "tool_use", "id": "toolu_a", "name": "look", "input": {"where": "ü\u2028\x85"}},
    ]
    assert (await answer_of(Reply(blocks, deltas=3, piece_bytes=size))).content == blocks


async def test_citations_are_gathered_in_their_block() -> None:
    cited = [{"type": "char_location", "cited_text": "a"}, {"type": "char_location", "cited_text": "b"}]
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"model": "m", "usage": {}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "", "citations": None}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ab"}},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": c}}
            for c in cited
        ),
        {"type": "content_block_delta", "index": 0, "delta": {"type": "unheard_of_delta", "x": 1}},
        {"type": "unheard_of"},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
    assert (await answer_of(wire(events))).content == [{"type": "text", "text": "ab", "citations": cited}]


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ('{"n": NaN}', "NaN is not allowed"),
        ('{"n": -Infinity}', "-Infinity is not allowed"),
        ('{"n": 1e999}', "1e999 is too large"),
        ('{"a": 1, "a": 2}', "the key 'a' is there twice"),
        ('{"a": {"b": 1, "b": 1}}', "the key 'b' is there twice"),
        ('{"where": "in the ki', "not valid JSON"),
        ('{"a": 1}}', "not valid JSON"),
        ("[1]", "must be a JSON object, not list"),
        ('"text"', "must be a JSON object, not str"),
        ("null", "must be a JSON object, not NoneType"),
        ('{"a": "\\ud800"}', "half of a surrogate pair"),
        ('{"a": ' + "[" * 100_000, "nested deeper than 100"),
        ('{"a": ' * 490 + "1" + "}" * 490, "nested deeper than 100"),
        ('{"a": ' + "9" * 5_000 + "}", "not valid JSON"),
    ],
)
async def test_arguments_that_are_no_strict_json_are_flagged_and_the_call_is_kept(written: str, reason: str) -> None:
    use = {"type": "tool_use", "id": "toolu_bad", "name": "look", "json": written}
    answer = await answer_of(Reply([use], stop_reason="tool_use"))
    assert answer.content == [{"type": "tool_use", "id": "toolu_bad", "name": "look", "input": {}}]
    assert reason in answer.bad_inputs["toolu_bad"]


@pytest.mark.parametrize("stop_reason", ["max_tokens", "model_context_window_exceeded"])
@pytest.mark.parametrize(
    ("written", "is_cut"), [("", True), ('{"where": "in the', True), ('{"where": "there"}', False)]
)
async def test_a_call_that_the_limit_of_tokens_cut_off_is_flagged_even_if_nothing_of_it_was_written(
    written: str, stop_reason: str, *, is_cut: bool
) -> None:
    uses = [{"type": "tool_use", "id": f"toolu_{end}", "name": "look", "json": ""} for end in ("whole", "last")]
    uses[1]["json"] = written
    answer = await answer_of(Reply(uses, stop_reason=stop_reason))
    assert list(answer.bad_inputs) == (["toolu_last"] if is_cut else [])
    assert all("too long" in reason for reason in answer.bad_inputs.values())


async def test_a_call_without_arguments_is_a_good_call() -> None:
    answer = await answer_of(Reply([{"type": "tool_use", "name": "look", "json": ""}], stop_reason="tool_use"))
    assert answer.content[0]["input"] == {}
    assert answer.bad_inputs == {}


@pytest.mark.parametrize("blank", ["", "  \n ", "\u3000"])
async def test_blank_texts_are_left_out_because_they_may_not_be_sent_back(blank: str) -> None:
    assert (await answer_of(Reply([{"type": "text", "text": blank}]))).content == []


async def test_an_answer_without_any_block_is_an_answer() -> None:
    assert (await pieces_of(Reply())) == [Answer([], "end_turn", Usage(10, 5), "fake")]


async def test_a_character_that_was_cut_in_two_is_whole_in_the_answer() -> None:
    halves = [{"type": "text_delta", "text": text} for text in ("a\ud83d", "\ude00b", "\ud800")]
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"model": "m"}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in halves),
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ]
    async with FakeModel(wire(events)) as server, opened(server.url) as model:
        *pieces, last = [piece async for piece in model.stream(asks())]
    assert isinstance(last, Answer)
    assert last.content == [{"type": "text", "text": "a😀b\ufffd"}]
    for piece in pieces:
        assert isinstance(piece, TextDelta)
        piece.text.encode()


async def test_the_usage_has_what_was_read_from_and_written_to_the_cache() -> None:
    counts = {"input_tokens": 7, "output_tokens": 11, "cache_read_input_tokens": 13, "cache_creation_input_tokens": 17}
    assert (await answer_of(says("x", usage=counts))).usage == Usage(7, 11, 13, 17)


@pytest.mark.parametrize("reason", get_args(StopReason))
async def test_all_stop_reasons_come_through(reason: str) -> None:
    assert (await answer_of(says("x", stop_reason=reason))).stop_reason == reason


@pytest.mark.parametrize("reason", ["invented_next_year", None])
async def test_a_stop_reason_that_nobody_knows_is_the_end_of_the_turn(reason: str | None) -> None:
    assert (await answer_of(says("x", stop_reason=reason))).stop_reason == "end_turn"


@pytest.mark.parametrize(
    ("status", "type_", "message", "kind", "passing"),
    [
        (401, "authentication_error", "invalid key", "unauthorized", False),
        (403, "permission_error", "not yours", "unauthorized", False),
        (404, "not_found_error", "model: nope", "not_found", False),
        (400, "invalid_request_error", "messages: bad", "bad_request", False),
        (400, "invalid_request_error", "Your credit balance is too low", "bad_request", False),
        (400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000", "context_too_long", False),
        (400, "invalid_request_error", "input length and `max_tokens` exceed context limit", "context_too_long", False),
        (413, "request_too_large", "Request exceeds the maximum size", "context_too_long", False),
        (429, "rate_limit_error", "slow down", "rate_limited", True),
        (500, "api_error", "oops", "overloaded", True),
        (502, "api_error", "", "overloaded", True),
        (503, "some_type_of_their_own", "away", "overloaded", True),
        (529, "overloaded_error", "Overloaded", "overloaded", True),
        (307, "", "moved", "bad_request", False),
    ],
)
async def test_refusals_have_a_kind_and_say_if_waiting_helps(
    status: int, type_: str, message: str, kind: str, passing: bool
) -> None:
    error = await error_of(fails(status, type_, message))
    assert (error.kind, error.passing) == (kind, passing)
    for part in (f"HTTP {status}", type_, message, "req_refused"):
        assert part in error.detail


@pytest.mark.parametrize(
    ("type_", "kind", "passing"),
    [
        ("overloaded_error", "overloaded", True),
        ("api_error", "overloaded", True),
        ("rate_limit_error", "rate_limited", True),
        ("invalid_request_error", "bad_request", False),
        ("unheard_of_error", "broken", True),
    ],
)
async def test_an_error_inside_a_stream_is_told_like_one_before_it(type_: str, kind: str, passing: bool) -> None:
    error = await error_of(says("some text", error={"type": type_, "message": "in the middle"}))
    assert (error.kind, error.passing) == (kind, passing)
    assert "in the middle" in error.detail


@pytest.mark.parametrize("given", ["20", "20.0", "date"])
async def test_the_wait_that_the_provider_asks_for_is_passed_on(given: str) -> None:
    told = formatdate(time.time() + 20.5, usegmt=True) if given == "date" else given
    error = await error_of(fails(429, "rate_limit_error", headers={"retry-after": told}))
    assert error.retry_after_s == pytest.approx(20, abs=1.5)


@pytest.mark.parametrize("given", ["", "soon", "nan", "inf", "1e400"])
async def test_a_wait_that_is_no_time_is_none(given: str) -> None:
    assert (await error_of(fails(429, headers={"retry-after": given}))).retry_after_s is None


@pytest.mark.parametrize(
    "fault", [fails(500), fails(429, headers={"retry-after": "0"}), says("x", hold=asyncio.Event())]
)
async def test_one_call_is_one_request_whatever_comes_of_it(fault: Reply) -> None:
    async with FakeModel(fault) as server, opened(server.url, first_byte_timeout_s=0.5) as model:
        with pytest.raises(ModelError):
            _ = [piece async for piece in model.stream(asks())]
        assert len(server.asked) == 1


@pytest.mark.parametrize(
    "message",
    [
        "messages.0.content.1.image.source.base64.data: At least one of the image dimensions exceed max allowed size",
        "Could not process image",
        "messages.2.content.0.image.source.base64: image exceeds 5 MB maximum: 5316852 bytes > 5242880 bytes",
    ],
)
async def test_a_refusal_that_speaks_of_an_image_is_of_a_kind_of_its_own(message: str) -> None:
    error = await error_of(fails(400, "invalid_request_error", message))
    assert (error.kind, error.passing) == ("picture", False)


async def test_without_a_first_byte_the_model_has_stalled() -> None:
    error = await error_of(says("too late", hold=asyncio.Event()), first_byte_timeout_s=0.05)
    assert (error.kind, error.passing) == ("stalled", True)
    assert "0.05 s" in error.detail


async def test_a_stream_that_falls_silent_has_stalled_whatever_the_first_byte_may_take() -> None:
    error = await error_of(says("half", stall_after_events=3), idle_timeout_s=0.05, first_byte_timeout_s=60)
    assert (error.kind, error.passing) == ("stalled", True)


async def test_a_stream_may_take_longer_than_the_silence_it_may_keep() -> None:
    slow = says("word " * 8, deltas=8, between_s=0.03)
    assert len(await pieces_of(slow, idle_timeout_s=0.15, first_byte_timeout_s=0.15)) == 9


@pytest.mark.parametrize(
    "fault",
    [
        says("x" * 300, deltas=3, cut_after_bytes=500),
        says("x", end_after_events=3),
        says("x", end_after_events=0),
        Reply(raw=b'event: message_start\ndata: {"type": "message_st\n\n'),
        Reply(raw=b"event: message_start\ndata: [1]\n\n"),
        Reply(raw=b'event: message_start\ndata: {"no": "type"}\n\n'),
        Reply(raw=b'event: x\ndata: {"type": "content_block_delta"}\n\n'),
        Reply(
            raw=b'event: x\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}\n\n'
        ),
        Reply(raw=b"event: x\ndata: \xff\xfe\n\n"),
        Reply(raw=b"event: x\ndata: " + b"[" * 100_000 + b"\n\n"),
        Reply(raw=b""),
    ],
    ids=[
        "reset",
        "no end",
        "nothing",
        "cut event",
        "list",
        "no type",
        "no delta",
        "no block",
        "no text",
        "deep",
        "empty",
    ],
)
async def test_a_stream_that_is_cut_or_garbled_gives_no_answer_and_may_be_tried_again(fault: Reply) -> None:
    error = await error_of(fault)
    assert (error.kind, error.passing) == ("broken", True)


async def test_a_web_page_in_place_of_a_stream_points_at_the_address() -> None:
    error = await error_of(Reply(raw=b"<html>Please log in</html>", content_type="text/html"))
    assert (error.kind, error.passing) == ("broken", False)
    assert "model.base_url" in error.detail
    assert "text/html" in error.detail


async def test_nobody_at_the_address_is_unreachable() -> None:
    async with FakeModel() as server:
        url = server.url
    async with opened(url) as model:
        with pytest.raises(ModelError) as caught:
            _ = [piece async for piece in model.stream(asks())]
    assert (caught.value.kind, caught.value.passing) == ("unreachable", True)
    assert url in caught.value.detail


async def test_a_key_that_the_server_repeats_is_not_in_the_error() -> None:
    error = await error_of(fails(401, "authentication_error", f"no such key:\n{KEY} !" + "long " * 400))
    assert KEY not in error.detail
    assert "\n" not in error.detail
    assert "no such key: [key] !" in error.detail
    assert len(error.detail) < 600
    assert error.__cause__ is None
    assert error.__suppress_context__


async def test_the_environment_of_the_sdk_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = "http://127.0.0.1:9"
    monkeypatch.setenv("ANTHROPIC_BASE_URL", nowhere)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-env")
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "x-from-env: yes")
    monkeypatch.setenv("HTTP_PROXY", nowhere)
    monkeypatch.setenv("ALL_PROXY", nowhere)
    async with FakeModel(says("here")) as server, opened(server.url) as model:
        _ = [piece async for piece in model.stream(asks())]
        headers = server.asked[0].headers
    assert "x-from-env" not in headers
    assert headers["Authorization"] == f"Bearer {KEY}"


async def test_without_a_key_no_key_is_sent_even_if_the_environment_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-env")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token-env")
    async with FakeModel(says("here")) as server, opened(server.url, api_key=None) as model:
        with pytest.raises(ModelError, match="401"):
            _ = [piece async for piece in model.stream(asks())]
        headers = {name.lower() for name in server.asked[0].headers}
    assert not headers & {"authorization", "x-api-key"}


async def test_headers_of_the_settings_are_sent() -> None:
    async with FakeModel(says("x")) as server, opened(server.url, headers={"x-team": "blue"}) as model:
        _ = [piece async for piece in model.stream(asks())]
        assert server.asked[0].headers["x-team"] == "blue"


async def test_a_redirect_is_not_followed_so_the_key_stays_here() -> None:
    async with FakeModel(says("elsewhere")) as other, FakeModel() as server:
        server.answer_with(fails(308, "moved", headers={"Location": f"{other.url}/v1/messages"}))
        async with opened(server.url) as model:
            with pytest.raises(ModelError, match="HTTP 308"):
                _ = [piece async for piece in model.stream(asks())]
        assert other.asked == []


async def test_an_address_may_end_with_a_slash_or_with_its_version() -> None:
    async with FakeModel(says("x")) as server:
        for ending in ("", "/", "/v1", "/v1/"):
            async with opened(server.url + ending) as model:
                _ = [piece async for piece in model.stream(asks())]
        assert {asked.path for asked in server.asked} == {"/v1/messages"}


async def test_the_next_request_begins_with_the_bytes_of_the_one_before() -> None:
    then = [*HELLO, {"role": "assistant", "content": [{"type": "text", "text": "好"}]}, *HELLO]
    async with FakeModel(says("x")) as server, opened(server.url) as model:
        for messages in (HELLO, then):
            _ = [piece async for piece in model.stream(asks(messages, tools=[TOOL]))]
        first, second = (asked.body for asked in server.asked)
    assert second.startswith(first.removesuffix(b"]}"))
    assert server.asked[0].request == {
        "model": "fake", "max_tokens": 100, "stream": True, "cache_control": {"type": "ephemeral"}, "tools": [TOOL],
        "system": [{"type": "text", "text": "Be brief."}], "messages": HELLO,
    }  # fmt: skip


async def test_half_a_surrogate_pair_in_a_history_does_not_make_it_unanswerable() -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "poison \ud800 pill"}]}]
    async with FakeModel(says("x")) as server, opened(server.url) as model:
        _ = [piece async for piece in model.stream(asks(messages))]
        assert server.asked[0].text == "poison ? pill"


async def test_what_is_no_json_is_refused_here() -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": float("nan")}]}]
    async with FakeModel() as server, opened(server.url) as model:
        with pytest.raises(ModelError, match="JSON") as caught:
            _ = [piece async for piece in model.stream(asks(messages))]
    assert (caught.value.kind, caught.value.passing) == ("bad_request", False)


async def test_calls_one_after_the_other_share_a_connection() -> None:
    async with FakeModel(says("some words", deltas=4, between_s=0.001)) as server, opened(server.url) as model:
        for _ in range(3):
            _ = [piece async for piece in model.stream(asks())]
        assert len({asked.peer for asked in server.asked}) == 1


async def test_a_dropped_stream_hangs_up() -> None:
    async with FakeModel(says("never ending", deltas=4, stall_after_events=4)) as server, opened(server.url) as model:
        first = asyncio.Event()

        async def listen() -> None:
            async for _ in model.stream(asks()):
                first.set()

        listening = asyncio.create_task(listen())
        await first.wait()
        assert server.in_flight == 1
        listening.cancel()
        await server.until(lambda: server.in_flight == 0)
        with pytest.raises(asyncio.CancelledError):
            await listening


async def test_hundreds_of_streams_run_at_once() -> None:
    go = asyncio.Event()
    async with FakeModel(says("now", hold=go)) as server, opened(server.url) as model:

        async def one() -> TextDelta | Answer:
            return [piece async for piece in model.stream(asks())][-1]

        waiting = [asyncio.create_task(one()) for _ in range(300)]
        await server.until(lambda: server.in_flight == 300)
        go.set()
        answers = await asyncio.gather(*waiting)
    assert {type(answer) for answer in answers} == {Answer}


async def test_the_check_counts_tokens_and_costs_no_answer() -> None:
    async with FakeModel() as server, opened(server.url) as model:
        told = await model.check()
        assert [asked.path for asked in server.asked] == ["/v1/messages/count_tokens"]
    assert f"fake at {server.url} counted" in told


async def test_the_check_asks_for_one_token_where_nothing_can_be_counted() -> None:
    async with FakeModel(says("H"), counts_tokens=False) as server, opened(server.url) as model:
        told = await model.check()
        assert server.asked[-1].request["max_tokens"] == 1
    assert "answered" in told


@pytest.mark.parametrize("status", [400, 404, 405, 501])
async def test_the_check_is_content_with_a_server_that_only_streams(status: int) -> None:
    async def only_streams(request: web.Request) -> web.Response:
        asked = await request.json()
        if request.path != "/v1/messages" or not asked.get("stream"):
            return web.Response(status=status, text="not here")
        return web.Response(body=says("H").whole, content_type="text/event-stream")

    async with served(only_streams) as url, opened(url) as model:
        assert f"fake at {url} answered a word" in await model.check()


async def test_the_check_names_a_wrong_key() -> None:
    async with FakeModel() as server, opened(server.url, api_key=SecretStr("sk-wrong")) as model:
        with pytest.raises(ModelError, match="HTTP 401") as caught:
            await model.check()
        assert len(server.asked) == 1
    assert caught.value.kind == "unauthorized"
    assert "sk-wrong" not in caught.value.detail


async def test_the_check_is_not_content_with_any_page() -> None:
    async def page(_: web.Request) -> web.Response:
        return web.Response(text="<html>It works!</html>", content_type="text/html")

    async with served(page) as url, opened(url) as model:
        with pytest.raises(ModelError, match=r"model\.base_url"):
            await model.check()


async def test_the_real_model_has_no_label() -> None:
    async with opened("http://127.0.0.1:9") as model:
        assert model.label is None


async def test_a_call_after_text_gives_both() -> None:
    answer = await answer_of(calls("look", {"where": "there"}, text="I look."))
    assert [block["type"] for block in answer.content] == ["text", "tool_use"]
    assert answer.content[1]["input"] == {"where": "there"}


def wire(events: list[dict[str, Any]]) -> Reply:
    return Reply(raw=b"".join(f"event: {e['type']}\r\ndata: {json.dumps(e)}\r\n\r\n".encode() for e in events))


async def test_requests_are_marked_for_the_prompt_cache_unless_the_settings_say_no() -> None:
    for wanted, mark in ((True, {"type": "ephemeral"}), (False, None)):
        async with FakeModel(says("ok")) as server, opened(server.url, cache=wanted) as model:
            _ = [piece async for piece in model.stream(asks())]
            assert server.asked[0].request.get("cache_control") == mark
            assert b'"cache_control"' not in server.asked[0].body.partition(b'"messages"')[2], (
                "messages stay as they were"
            )
