"""Requests as the model's address received them, and what stands in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from skills.marks import GUIDANCE
from tests.harness.fake_model import Asked

_ENDS = b"]}]}"
"""The brackets that close the last message: what follows them in a request is no part of the conversation."""


def system(asked: Asked) -> str:
    return str(asked.request["system"][0]["text"])


def index(asked: Asked) -> dict[str, str]:
    """What the list of skills says of each, by id, in its order."""
    return dict(re.findall(r"^- \*\*(.+?)\*\*(?:: (.*))?$", system(asked), re.MULTILINE))


def tools(asked: Asked) -> list[str]:
    return [tool["name"] for tool in asked.request.get("tools", ())]


def blocks(asked: Asked, *, last: bool = False) -> list[tuple[str, dict[str, Any]]]:
    """Every block with the role of its message; `last`: of the last message only."""
    messages = asked.request["messages"][-1 if last else 0 :]
    return [(one["role"], block) for one in messages for block in _listed(one["content"])]


def results(asked: Asked, *, last: bool = False) -> list[dict[str, Any]]:
    """Results of tools, in their order."""
    return [block for _, block in blocks(asked, last=last) if block["type"] == "tool_result"]


def ran(asked: Asked) -> list[str]:
    """The tools whose calls gave a result that is no error, in their order."""
    failed = {one["tool_use_id"] for one in results(asked) if one.get("is_error")}
    return [one["name"] for _, one in blocks(asked) if one["type"] == "tool_use" and one["id"] not in failed]


def guidance(asked: Asked, *, last: bool = False) -> list[str]:
    """What the model reads as guidance: text of ours in a message with the person's role, outside all results."""
    texts = [block["text"] for role, block in blocks(asked, last=last) if role == "user" and block["type"] == "text"]
    return [text for text in texts if text.startswith(GUIDANCE)]


def whole(asked: Asked) -> str:
    return asked.body.decode()


def breaks(asked: Sequence[Asked]) -> int:
    """How many requests do not begin with all bytes of the one before."""
    return sum(not continues(after, before) for before, after in pairwise(asked))


def continues(after: Asked, before: Asked) -> bool:
    """Whether all that the earlier request said stands in front of what the later one adds."""
    return after.body.startswith(before.body[: before.body.rindex(_ENDS)])


def _listed(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def texts(asked: Asked) -> str:
    """All that the model reads of a request, its tools and their descriptions included, without JSON's signs."""
    return "\n".join(_strings(asked.request))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _strings(part)
    elif isinstance(value, list):
        for part in value:
            yield from _strings(part)
