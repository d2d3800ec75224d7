"""Mending: an answer as it can be sent back. One odd answer must not make a conversation unanswerable for ever."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from gateway.conversation.records import Record
from gateway.logs import log
from workers.models import Answer

logger = logging.getLogger(__name__)

KNOWN: Final = {"text", "thinking", "redacted_thinking", "tool_use"}
"""Blocks that the API takes back as they came."""
ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
NO_NAME: Final = "unreadable_name"
NAME_SHOWN: Final = 80


def mended(answer: Answer, history: Iterable[Record]) -> Answer:
    """The same answer with ids that are new and well-formed, names and arguments of the right form, known blocks only.

    A call that had to be changed beyond its id does not run: `bad_inputs` says why, and the model hears it.
    """
    used = (
        set()
        if not answer.calls_tools
        else {
            block.get("id")
            for record in history
            if record.type == "answer"
            for block in record.data["content"]
            if block.get("type") == "tool_use"
        }
    )
    content: list[dict[str, Any]] = []
    bad: dict[str, str] = {}
    for number, came in enumerate(answer.content):
        block = came
        if block.get("type") not in KNOWN:
            log(logger, "block left out", level=logging.WARNING, kind=str(block.get("type"))[:40])
            continue
        if block["type"] == "tool_use":
            block, why = _mended_use(came, used, number)
            reason = why or answer.bad_inputs.get(str(came.get("id")))
            bad |= {block["id"]: reason} if reason else {}
            used.add(block["id"])
        content.append(block)
    return replace(answer, content=content, bad_inputs=bad)


def without_calls(answer: Answer) -> Answer:
    """The same answer of a model that was offered no tool: calls that nobody can run would be refused with the next request."""
    content = [block for block in answer.content if block.get("type") != "tool_use"]
    stop_reason = "end_turn" if answer.stop_reason == "tool_use" else answer.stop_reason
    return replace(answer, content=content, stop_reason=stop_reason, bad_inputs={})


def _mended_use(block: dict[str, Any], used: set[Any], number: int) -> tuple[dict[str, Any], str | None]:
    why = None
    tool_id, name, arguments = block.get("id"), block.get("name"), block.get("input")
    if not isinstance(tool_id, str) or not ID.fullmatch(tool_id) or tool_id in used:
        fresh = f"{tool_id}/{number}/{len(used)}".encode("utf-8", "replace")
        tool_id = f"toolu_{hashlib.sha256(fresh).hexdigest()[:24]}"
    if not isinstance(name, str) or not NAME.fullmatch(name):
        name, why = NO_NAME, f"no tool can have the name {str(name)[:NAME_SHOWN]!r}"
    if not isinstance(arguments, dict):
        arguments, why = {}, why or "the arguments are no JSON object"
    return {**block, "id": tool_id, "name": name, "input": arguments}, why
