"""A model's part in a task with steps: what a planner answers, and whose request it is that came."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from tests.harness.fake_model import Asked
from tests.harness.model_replies import Reply, says


def plan(*steps: tuple[str, str, list[str]]) -> Reply:
    return says(json.dumps({"steps": [{"id": name, "task": task, "needs": needs} for name, task, needs in steps]}))


def system(asked: Asked) -> str:
    return str(asked.request["system"][0]["text"])


def said(asked: Asked) -> str:
    return json.dumps(asked.request["messages"], ensure_ascii=False)


def part(asked: Asked) -> str:
    """Whose request it is: `plan`, `review`, `closing`, or a step's id."""
    head = system(asked)
    for begin, name in (("You plan", "plan"), ("You review", "review")):
        if head.startswith(begin):
            return name
    if "Others have carried out" in head:
        return "closing"
    _, found, rest = said(asked).rpartition('Yours is step \\"')
    return rest.partition('\\"')[0] if found else "talk"


def acting(parts: Mapping[str, Any]) -> Callable[[Asked], Reply]:
    """Each part has a reply, or several in their order; the last one goes on."""
    left: dict[str, list[Reply]] = {
        name: list(replies) if isinstance(replies, list) else [replies] for name, replies in parts.items()
    }

    def answer(asked: Asked) -> Reply:
        replies = left[part(asked)]
        return replies.pop(0) if len(replies) > 1 else replies[0]

    return answer
