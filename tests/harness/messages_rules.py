"""What the Messages API refuses: `problem` reads a request as strictly as the real service does.

A stand-in that takes every history hides the worst mistakes of an agent loop, so the fake model asks here first.
The wording follows the real service's answers where they are known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

TOP_LEVEL = frozenset({
    "model", "messages", "max_tokens", "system", "tools", "tool_choice", "stream", "stop_sequences", "metadata",
    "thinking", "output_config", "cache_control", "service_tier",
})  # fmt: skip
BLOCKS: dict[str, frozenset[str]] = {
    "text": frozenset({"type", "text", "citations", "cache_control"}),
    "image": frozenset({"type", "source", "cache_control"}),
    "document": frozenset({"type", "source", "title", "context", "citations", "cache_control"}),
    "tool_use": frozenset({"type", "id", "name", "input", "cache_control"}),
    "tool_result": frozenset({"type", "tool_use_id", "content", "is_error", "cache_control"}),
    "thinking": frozenset({"type", "thinking", "signature"}),
    "redacted_thinking": frozenset({"type", "data"}),
}
ALLOWED_IN = {
    "user": frozenset({"text", "image", "document", "tool_result"}),
    "assistant": frozenset({"text", "tool_use", "thinking", "redacted_thinking"}),
    "tool_result": frozenset({"text", "image", "document"}),
    "system": frozenset({"text"}),
}
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
TOOL_ID = re.compile(r"[a-zA-Z0-9_-]+")
PROPERTY_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
MAX_CACHE_MARKS = 4


class Refused(Exception):
    """The request is wrong; `str()` is what the service would say."""


def problem(request: Any, *, alternate: bool = False, counting: bool = False) -> str | None:
    """Why the service would answer 400, or none.

    `alternate`: also refuse two messages of one role in a row, as some compatible servers do (the real one merges
    them). `counting`: the request is for count_tokens, which has no `max_tokens`.
    """
    try:
        _check_top(request, counting=counting)
        _check_tools(request.get("tools", []))
        if "system" in request:
            _check_content(request["system"], "system", "system")
        _check_messages(request["messages"], alternate=alternate)
        _check_signatures(request)
        _check_pairs(request["messages"], has_tools=bool(request.get("tools")))
        marks = sum(1 for _ in _cache_marks(request))
        _demand(
            marks <= MAX_CACHE_MARKS,
            f"A maximum of {MAX_CACHE_MARKS} blocks with cache_control may be provided. Found {marks}.",
        )
    except Refused as refused:
        return str(refused)
    return None


def _demand(holds: bool, message: str) -> None:
    if not holds:
        raise Refused(message)


def _check_top(request: Any, *, counting: bool) -> None:
    _demand(isinstance(request, dict), "Input should be a valid dictionary")
    for key in request.keys() - TOP_LEVEL:
        raise Refused(f"{key}: Extra inputs are not permitted")
    _demand(isinstance(request.get("model"), str) and bool(request["model"]), "model: Field required")
    limit = request.get("max_tokens")
    if not counting:
        _demand(type(limit) is int, "max_tokens: Field required")
        _demand(limit >= 1, "max_tokens: Input should be greater than or equal to 1")
    _demand(type(request.get("stream", False)) is bool, "stream: Input should be a valid boolean")
    _demand(isinstance(request.get("messages"), list), "messages: Field required")
    _demand(bool(request["messages"]), "messages: at least one message is required")


def _check_tools(tools: Any) -> None:
    _demand(isinstance(tools, list), "tools: Input should be a valid list")
    names = set()
    for number, tool in enumerate(tools):
        where = f"tools.{number}.custom"
        _demand(isinstance(tool, dict), f"{where}: Input should be a valid dictionary")
        for key in tool.keys() - {"name", "description", "input_schema", "cache_control", "type", "strict"}:
            raise Refused(f"{where}.{key}: Extra inputs are not permitted")
        name = tool.get("name")
        fits = isinstance(name, str) and TOOL_NAME.fullmatch(name)
        _demand(bool(fits), f"{where}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'")
        _demand(name not in names, "tools: Tool names must be unique.")
        names.add(name)
        _demand(isinstance(tool.get("description", ""), str), f"{where}.description: Input should be a valid string")
        schema = tool.get("input_schema")
        _demand(isinstance(schema, dict), f"{where}.input_schema: Field required")
        _demand(schema.get("type") == "object", f"{where}.input_schema.type: Input should be 'object'")
        for key in schema.get("properties", {}):
            _demand(
                bool(PROPERTY_NAME.fullmatch(key)),
                f"{where}.input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{{1,64}}$'",
            )


def _check_messages(messages: list[Any], *, alternate: bool) -> None:
    before = None
    for number, message in enumerate(messages):
        where = f"messages.{number}"
        _demand(isinstance(message, dict), f"{where}: Input should be a valid dictionary")
        for key in message.keys() - {"role", "content"}:
            raise Refused(f"{where}.{key}: Extra inputs are not permitted")
        role = message.get("role")
        _demand(role in {"user", "assistant"}, f"{where}.role: Input should be 'user' or 'assistant'")
        _demand(number > 0 or role == "user", 'messages: first message must use the "user" role')
        _demand(
            not (alternate and role == before),
            'messages: roles must alternate between "user" and "assistant", but found multiple '
            f'"{role}" roles in a row',
        )
        before = role
        _check_content(message.get("content"), where, str(role))
    _demand(
        messages[-1]["role"] == "user",
        "This model does not support assistant message prefill. The conversation must end with a user message.",
    )


def _check_content(content: Any, where: str, place: str) -> None:
    if isinstance(content, str):
        _demand(place == "tool_result" or bool(content.strip()), f"{where}: text content must be non-empty")
        return
    _demand(isinstance(content, list), f"{where}.content: Input should be a valid list")
    _demand(place in {"tool_result", "system"} or bool(content), f"{where}: all messages must have non-empty content")
    for number, block in enumerate(content):
        _check_block(block, f"{where}.content.{number}", place)


def _check_block(block: Any, where: str, place: str) -> None:
    _demand(isinstance(block, dict), f"{where}: Input should be a valid dictionary")
    kind = block.get("type")
    _demand(kind in ALLOWED_IN[place], f"{where}.type: Input tag {kind!r} does not match any of the expected tags")
    for key in block.keys() - BLOCKS[kind]:
        raise Refused(f"{where}.{kind}.{key}: Extra inputs are not permitted")
    if kind == "text":
        _demand(isinstance(block.get("text"), str), f"{where}.text.text: Field required")
        _demand(bool(block["text"].strip()), "messages: text content blocks must contain non-whitespace text")
    elif kind == "tool_use":
        _demand(bool(TOOL_ID.fullmatch(str(block.get("id")))), f"{where}.tool_use.id: String should match pattern")
        _demand(
            bool(TOOL_NAME.fullmatch(str(block.get("name")))), f"{where}.tool_use.name: String should match pattern"
        )
        _demand(isinstance(block.get("input"), dict), f"{where}.tool_use.input: Input should be a valid dictionary")
    elif kind == "tool_result":
        _demand(isinstance(block.get("tool_use_id"), str), f"{where}.tool_result.tool_use_id: Field required")
        _demand(type(block.get("is_error", False)) is bool, f"{where}.tool_result.is_error: Input should be a boolean")
        _check_content(block.get("content", ""), where, "tool_result")
    elif kind == "thinking":
        _demand(bool(block.get("signature")), f"{where}.thinking.signature: Field required")
    mark = block.get("cache_control")
    if mark is not None:
        shape = isinstance(mark, dict) and mark.get("type") == "ephemeral" and mark.get("ttl", "5m") in {"5m", "1h"}
        _demand(shape, f"{where}.{kind}.cache_control: Input should be {{'type': 'ephemeral'}}")


def _check_signatures(request: dict[str, Any]) -> None:
    """What one model thought is refused by another. `tests.harness.model_replies.thought` signs with the model's name."""
    for number, message in enumerate(request["messages"]):
        for block in _blocks(message, "thinking"):
            by = block["signature"].partition("@")[2]
            _demand(by in {"", request["model"]}, f"messages.{number}.content: Invalid `signature` in `thinking` block")


def _check_pairs(messages: list[dict[str, Any]], *, has_tools: bool) -> None:
    """Every tool_use has its tool_result in the very next message, at its beginning, and no result stands alone."""
    seen: set[str] = set()
    open_ids: list[str] = []
    for number, message in enumerate(messages):
        results = [block["tool_use_id"] for block in _blocks(message, "tool_result")]
        for tool_id in results:
            _demand(
                tool_id in open_ids,
                f"messages.{number}: unexpected `tool_use_id` found in `tool_result` blocks: {tool_id}. Each "
                "`tool_result` block must have a corresponding `tool_use` block in the previous message.",
            )
        _demand(
            len(results) == len(set(results)),
            f"messages.{number}: each tool_use must have a single result. Found multiple `tool_result` blocks.",
        )
        missing = [tool_id for tool_id in open_ids if tool_id not in results]
        _demand(
            not missing,
            f"messages.{number - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the next "
            "message.",
        )
        kinds = [block["type"] for block in message["content"]] if isinstance(message["content"], list) else []
        _demand(
            all(kind == "tool_result" for kind in kinds[: len(results)]),
            f"messages.{number}: `tool_result` blocks must come first in the message's content.",
        )
        open_ids = [block["id"] for block in _blocks(message, "tool_use")]
        for tool_id in open_ids:
            _demand(tool_id not in seen, "messages: `tool_use` ids must be unique")
            seen.add(tool_id)
    _demand(has_tools or not seen, "tools: Field required. Requests with `tool_use` blocks must define tools.")


def _blocks(message: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    content = message["content"]
    return [block for block in content if block["type"] == kind] if isinstance(content, list) else []


def _cache_marks(request: dict[str, Any]) -> Iterator[Any]:
    """Every `cache_control` of the request, in tools, system and messages, results' content included."""
    pending: list[Any] = [request.get("tools", []), request.get("system", [])]
    pending += [message["content"] for message in request["messages"]]
    if request.get("cache_control"):
        yield request["cache_control"]
    while pending:
        for block in pending.pop():
            if isinstance(block, dict):
                if block.get("cache_control") is not None:
                    yield block["cache_control"]
                if isinstance(block.get("content"), list):
                    pending.append(block["content"])
