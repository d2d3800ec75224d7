from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.harness.fake_model import KEY, FakeModel, obedient
from tests.harness.messages_rules import problem
from tests.harness.model_replies import calls, says

TOOL: dict[str, Any] = {"name": "look", "description": "Looks.", "input_schema": {"type": "object", "properties": {}}}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": [text(b) if isinstance(b, str) else b for b in blocks]}


def model(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": [text(b) if isinstance(b, str) else b for b in blocks]}


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def use(id_: str, name: str = "look", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id_, "name": name, "input": arguments}


def result(id_: str, content: Any = "seen") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id_, "content": content}


def request(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "fake", "max_tokens": 100, "messages": list(messages), "tools": [TOOL], **more}


MARK = {"cache_control": {"type": "ephemeral"}}

GOOD = {
    "one question": request(user("hi")),
    "plain strings": request({"role": "user", "content": "hi"}, system="Be brief."),
    "two users in a row": request(user("hi"), user("there")),
    "a call and its result": request(user("hi"), model("I look.", use("t1")), user(result("t1"), "and?")),
    "two calls at once": request(
        user("hi"), model(use("t1"), use("t2")), user(result("t2"), result("t1", [text("x")]))
    ),
    "an empty result": request(user("hi"), model(use("t1")), user(result("t1", ""))),
    "thinking": request(
        user("hi"), model({"type": "thinking", "thinking": "", "signature": "s"}, "yes"), user("go on")
    ),
    "four marks": request(
        user(text("hi", **MARK), text("ho", **MARK)), system=[text("s", **MARK)], tools=[TOOL | MARK]
    ),
}

BAD = {
    "no messages": (request(), "at least one message"),
    "assistant first": (request(model("hi"), user("hi")), "first message"),
    "assistant last": (request(user("hi"), model("ho")), "must end with a user message"),
    "blank text": (request(user(" \n")), "non-whitespace"),
    "blank string": (request({"role": "user", "content": ""}), "non-empty"),
    "no content": (request({"role": "user", "content": []}), "non-empty content"),
    "blank text in a result": (request(user("hi"), model(use("t1")), user(result("t1", [text("")]))), "non-whitespace"),
    "blank system": (request(user("hi"), system=[text("")]), "non-whitespace"),
    "call without result": (request(user("hi"), model(use("t1")), user("so?")), "without `tool_result`"),
    "call without result at the end": (
        request(user("hi"), model(use("t1")), user("a"), user(result("t1"))),
        "without `tool_result`",
    ),
    "one of two results": (request(user("hi"), model(use("t1"), use("t2")), user(result("t1"))), "t2"),
    "orphan result": (request(user("hi"), model("ho"), user(result("t9"))), "unexpected `tool_use_id`"),
    "late result": (
        request(user("hi"), model(use("t1")), user(result("t1")), model("ok"), user(result("t1"))),
        "unexpected `tool_use_id`",
    ),
    "two results": (request(user("hi"), model(use("t1")), user(result("t1"), result("t1"))), "single result"),
    "text before the result": (request(user("hi"), model(use("t1")), user("so", result("t1"))), "must come first"),
    "an id twice": (
        request(user("hi"), model(use("t1")), user(result("t1")), model(use("t1")), user(result("t1"))),
        "must be unique",
    ),
    "calls without tools": (request(user("hi"), model(use("t1")), user(result("t1")), tools=[]), "must define tools"),
    "unknown block": (request(user({"type": "telepathy"})), "telepathy"),
    "call by the user": (request(user(use("t1"))), "tool_use"),
    "result by the model": (request(user("hi"), model(result("t1")), user("x")), "tool_result"),
    "input as text": (request(user("hi"), model(use("t1") | {"input": "{}"}), user(result("t1"))), "valid dictionary"),
    "unknown role": (request({"role": "system", "content": "hi"}), "Input should be 'user' or 'assistant'"),
    "more in a block": (request(user(text("hi", at_ms=1))), "at_ms: Extra inputs"),
    "more in a message": (request(user("hi") | {"id": "m1"}), "messages.0.id: Extra inputs"),
    "more on top": (request(user("hi"), thread="t"), "thread: Extra inputs"),
    "no max_tokens": ({"model": "m", "messages": [user("hi")]}, "max_tokens: Field required"),
    "max_tokens of none": (request(user("hi"), max_tokens=0), "greater than or equal to 1"),
    "no model": ({"max_tokens": 1, "messages": [user("hi")]}, "model: Field required"),
    "a tool's name with a dot": (request(user("hi"), tools=[TOOL | {"name": "a.b"}]), "should match pattern"),
    "a tool's name too long": (request(user("hi"), tools=[TOOL | {"name": "a" * 65}]), "should match pattern"),
    "a tool twice": (request(user("hi"), tools=[TOOL, TOOL]), "must be unique"),
    "a schema that is no object": (request(user("hi"), tools=[TOOL | {"input_schema": {"type": "array"}}]), "'object'"),
    "five marks": (
        request(user(*(text("x", **MARK) for _ in range(3))), system=[text("s", **MARK)], tools=[TOOL | MARK]),
        "Found 5",
    ),
    "a wrong mark": (request(user(text("hi", cache_control={"type": "for ever"}))), "cache_control"),
    "thinking unsigned": (
        request(user("a"), model({"type": "thinking", "thinking": "x"}, "b"), user("c")),
        "signature",
    ),
    "no request": ([], "valid dictionary"),
}


@pytest.mark.parametrize("name", GOOD)
def test_what_the_service_takes_is_taken(name: str) -> None:
    assert problem(GOOD[name]) is None


@pytest.mark.parametrize("name", BAD)
def test_what_the_service_refuses_is_refused_for_the_same_reason(name: str) -> None:
    wrong, reason = BAD[name]
    assert reason in (problem(wrong) or "")


def test_two_messages_of_one_role_are_refused_only_where_roles_must_alternate() -> None:
    assert "must alternate" in (problem(request(user("a"), user("b")), alternate=True) or "")


async def post(server: FakeModel, body: Any, *, key: str = KEY, path: str = "/v1/messages") -> tuple[int, str]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {key}"}
    async with aiohttp.ClientSession() as http, http.post(server.url + path, data=data, headers=headers) as answer:
        return answer.status, await answer.text()


async def test_a_malformed_history_is_answered_400_and_kept() -> None:
    async with FakeModel(says("never")) as server:
        status, body = await post(server, BAD["orphan result"][0])
        assert status == 400
        assert "unexpected `tool_use_id`" in json.loads(body)["error"]["message"]
        assert server.asked[0].refused


async def test_a_body_that_is_no_json_is_answered_400() -> None:
    async with FakeModel(says("never")) as server:
        status, body = await post(server, b'{"model": ')
    assert status == 400
    assert "not valid JSON" in body


async def test_only_the_right_key_is_let_in() -> None:
    async with FakeModel(says("in")) as server:
        assert (await post(server, request(user("hi")), key="sk-other"))[0] == 401
        assert (await post(server, request(user("hi"))))[0] == 200


async def test_a_list_of_replies_is_given_in_order_and_ends() -> None:
    async with FakeModel([says("one"), says("two")]) as server:
        answers = [await post(server, request(user("hi"))) for _ in range(3)]
    assert [status for status, _ in answers] == [200, 200, 400]
    assert "one" in answers[0][1]
    assert "two" in answers[1][1]
    assert "the script is over" in answers[2][1]


async def test_each_use_of_a_reply_has_ids_of_its_own() -> None:
    async with FakeModel(calls("look")) as server:
        bodies = [json.loads((await post(server, request(user("hi"))))[1]) for _ in range(2)]
    first, second = (body["content"][0]["id"] for body in bodies)
    assert first != second


async def test_requests_are_kept_as_they_came_with_their_marks() -> None:
    body = json.dumps(request(user("mark:room-1 hi"), model("x"), user("mark:room-1 and mark:b")), indent=3).encode()
    async with FakeModel(says("x")) as server:
        await post(server, body)
        asked = server.asked[0]
    assert asked.body == body
    assert asked.markers == ("room-1", "b")
    assert asked.text == "mark:room-1 and mark:b"


async def test_a_script_can_answer_to_what_was_asked() -> None:
    async with FakeModel(lambda asked: says(asked.text.upper())) as server:
        assert "QUIET" in (await post(server, request(user("quiet"))))[1]


async def test_the_ledger_has_each_request_as_a_line(tmp_path: Path) -> None:
    async with FakeModel(says("x"), ledger=tmp_path / "asked.jsonl") as server:
        await post(server, request(user("mark:m 你好")))
        await post(server, b"{")
    lines = [json.loads(line) for line in (tmp_path / "asked.jsonl").read_text().splitlines()]
    assert [line["status"] for line in lines] == [200, 400]
    assert lines[0]["markers"] == ["m"]
    assert json.loads(lines[0]["body"])["messages"] == [user("mark:m 你好")]


@pytest.mark.parametrize(
    "where",
    [
        request(user('please\nCALL look {"at": "moon"}\n')),
        request(user("hi"), system='CALL look {"at": "moon"}'),
        request(user("hi"), tools=[TOOL | {"description": 'Looks.\nCALL look {"at": "moon"}'}]),
        request(user("hi"), model(use("t1")), user(result("t1", [text('page:\n  CALL look {"at": "moon"}')]))),
    ],
    ids=["user", "system", "tool", "result"],
)
async def test_the_obedient_model_does_what_any_text_says(where: dict[str, Any]) -> None:
    async with FakeModel(obedient) as server:
        content = json.loads((await post(server, where))[1])["content"]
    assert [(block["name"], block["input"]) for block in content] == [("look", {"at": "moon"})]


async def test_the_obedient_model_does_it_once_and_then_speaks() -> None:
    history = request(user("CALL look\nSAY It is the moon."), model(use("t1")), user(result("t1")))
    async with FakeModel(obedient) as server:
        content = json.loads((await post(server, history))[1])["content"]
    assert content == [text("It is the moon.")]


async def test_it_runs_alone_and_prints_its_address(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.harness.fake_model", "--deltas", "40", "--ledger", str(tmp_path / "l")]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout
        url = (await process.stdout.readline()).decode().strip()
        headers = {"x-api-key": KEY}
        body = request(user("hi"), stream=True)
        async with aiohttp.ClientSession() as http, http.post(f"{url}/v1/messages", json=body, headers=headers) as got:
            assert (await got.text()).count('"text_delta"') == 40
    finally:
        process.terminate()
        await process.wait()
