"""An answer that grows, event by event, as the Messages API streams it."""

from __future__ import annotations

import json
import math
from typing import Any, Final, NoReturn

from gateway.events import is_blank
from skills import depth

CUT = {"max_tokens", "model_context_window_exceeded"}
"""Reasons to stop in the midst of whatever is being written."""
LISTED = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
"""Deltas that add to a block, and the field that has the piece."""


class Growing:
    """Takes the events in their order. Raises what the parts of a malformed event raise: the caller names it."""

    def __init__(self) -> None:
        self.is_whole = False
        self.stop_reason: str | None = None
        self.usage: dict[str, Any] = {}
        """Counts of the provider, the later ones on top: they are cumulative."""
        self.model = ""
        self._blocks: dict[int, dict[str, Any]] = {}
        self._pieces: dict[tuple[int, str], list[str]] = {}

    def feed(self, event: dict[str, Any]) -> str:
        """The text that this event adds, if any. Kinds of events and deltas that are not known add nothing."""
        match event["type"]:
            case "content_block_delta":
                return self._grow(event["index"], event["delta"])
            case "content_block_start":
                self._blocks[event["index"]] = dict(event["content_block"])
            case "message_start":
                self.model = event["message"].get("model", "")
                self._count(event["message"].get("usage"))
            case "message_delta":
                self.stop_reason = event["delta"].get("stop_reason") or self.stop_reason
                self._count(event.get("usage"))
            case "message_stop":
                self.is_whole = True
        return ""

    def content(self) -> tuple[list[dict[str, Any]], dict[str, str]]:
        """The blocks, and for tool_use blocks whose arguments can't be read: id and reason.

        Texts without a visible character are left out: the API gives them, and refuses to take them back.
        """
        blocks, bad_inputs = [], {}
        for index in sorted(self._blocks):
            block = self._blocks[index]
            for name in ("text", "thinking"):
                if pieces := self._pieces.get((index, name)):
                    block[name] = mended(block.get(name, "") + "".join(pieces))
            if pieces := self._pieces.get((index, "partial_json")):
                block["input"], reason = read_arguments("".join(pieces))
            else:
                reason = ""
            if block.get("type") == "tool_use" and self._is_cut(index) and (reason or not pieces):
                reason = "the answer was cut off before they were whole, for it was too long"
            if reason:
                bad_inputs[block.get("id", "")] = reason
            if block.get("type") != "text" or not is_blank(block.get("text", "")):
                blocks.append(block)
        return blocks, bad_inputs

    @property
    def characters(self) -> int:
        """Of all that came so far, thoughts and arguments too."""
        return sum(len(piece) for pieces in self._pieces.values() for piece in pieces)

    def _is_cut(self, index: int) -> bool:
        return self.stop_reason in CUT and index == max(self._blocks)

    def _grow(self, index: int, delta: dict[str, Any]) -> str:
        kind, block = delta["type"], self._blocks[index]
        if kind in LISTED:
            field = LISTED[kind]
            piece: str = delta[field]
            self._pieces.setdefault((index, field), []).append(piece)
            return mended(piece) if kind == "text_delta" else ""
        if kind == "signature_delta":
            block["signature"] = delta["signature"]
        elif kind == "citations_delta":
            block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
        return ""

    def _count(self, usage: dict[str, Any] | None) -> None:
        self.usage.update({name: value for name, value in (usage or {}).items() if value is not None})


def mended(text: str) -> str:
    """The text with halves of surrogate pairs joined, and single ones replaced: some servers cut between them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def read_arguments(text: str) -> tuple[dict[str, Any], str]:
    """A call's arguments, and why they can't be taken if they can't.

    Strict, where Python's `json` is not: no NaN or infinity, no key twice, no half of a surrogate pair.
    """
    try:
        arguments = depth.read(text, _JSON)
        text_in = json.dumps(arguments, ensure_ascii=False)
        text_in.encode()
    except UnicodeEncodeError:
        return {}, "the arguments hold half of a surrogate pair, which is no character"
    except depth.TooDeep as error:
        return {}, f"the arguments are {error}"
    except ValueError as error:
        return {}, f"the arguments are not valid JSON: {error}"
    if not isinstance(arguments, dict):
        return {}, f"the arguments must be a JSON object, not {type(arguments).__name__}"
    return arguments, ""


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not allowed")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits} is too large")
    return number


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} is there twice")
    return unique


_JSON: Final = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_unique_keys)
