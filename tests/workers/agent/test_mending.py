"""Odd answers become answers that can be sent back."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.conversation.records import Record
from tests.harness.messages_rules import problem
from tests.workers.records import answer as recorded
from tests.workers.records import result, said, use, words
from workers.agent.mending import mended
from workers.models import Answer, Usage
from workers.prompt.rendering import messages

TOOLS = [{"name": "tool", "description": "d", "input_schema": {"type": "object", "properties": {}}}]


def sent_back(content: list[dict[str, Any]], history: list[Record], **more: Any) -> tuple[Answer, str | None]:
    """The mended answer, and what the service says to a request that holds it."""
    made = mended(Answer(content, "tool_use", Usage(), "m", **more), history)
    records = [
        *history,
        recorded(9, *made.content),
        *(result(9, block["id"]) for block in made.content if "id" in block),
    ]
    rendered = messages([*records, said("and now?")])
    return made, problem({"model": "m", "max_tokens": 1, "messages": rendered, "tools": TOOLS})


@pytest.mark.parametrize(
    "content",
    [
        [use("same"), use("same")],
        [use("toolu_1")],
        [use("bad id!")],
        [{"type": "tool_use", "id": None, "name": "tool", "input": {}}],
        [{"type": "tool_use", "id": 7, "name": "tool", "input": {}}],
        [{"type": "tool_use", "name": "tool", "input": {}}],
        [use("a", "")],
        [use("a", "two words")],
        [use("a", "x" * 300)],
        [{"type": "tool_use", "id": "a", "name": "tool", "input": None}],
        [{"type": "tool_use", "id": "a", "name": "tool", "input": [1]}],
        [{"type": "tool_use", "id": "a", "input": {}}],
        [words("hm"), {"type": "surprise", "data": 1}, use("a")],
    ],
    ids=repr,
)
def test_whatever_came_the_next_request_is_taken(content: list[dict[str, Any]]) -> None:
    history = [said("go"), recorded(1, use("toolu_1"), stop_reason="tool_use"), result(1, "toolu_1")]
    _, refused = sent_back(content, history)
    assert refused is None


def test_what_was_right_stays_as_it_was() -> None:
    content = [words("look"), {"type": "thinking", "thinking": "x", "signature": "s"}, use("a", "tool", x=1)]
    made, _ = sent_back(content, [said("go")], bad_inputs={"a": "cut"})
    assert made.content == content
    assert made.bad_inputs == {"a": "cut"}


def test_a_call_that_was_changed_does_not_run_and_says_why() -> None:
    made, _ = sent_back([use("a", "two words"), use("a", "tool")], [said("go")])
    first, second = made.content
    assert made.bad_inputs == {"a": "no tool can have the name 'two words'"}
    assert first["id"] != second["id"]
    assert second["id"] not in made.bad_inputs


def test_an_answer_that_paused_is_gone_on_with() -> None:
    records = [
        said("go"),
        recorded(1, words("first half"), stop_reason="pause_turn"),
        recorded(2, words("second half")),
    ]
    before, after = messages(records[:2]), messages([*records, said("thanks")])
    assert [one["role"] for one in before] == ["user", "assistant", "user"]
    assert [one["role"] for one in after] == ["user", "assistant", "user", "assistant", "user"]
    assert after[:3] == before
