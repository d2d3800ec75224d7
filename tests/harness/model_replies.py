"""Answers for the fake model: what it says, which tools it calls, and what goes wrong on the way."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

NEW_ID = "toolu_in_its_place"
"""Stands for a tool_use's id until the answer is sent: each use gets a new one."""
ASKED_MODEL = "model_that_is_asked"
"""Stands for the model's name until the answer is sent, in signatures too: those of one model are no good for another."""


@dataclass(frozen=True)
class Reply:
    """One answer, and what goes wrong with it.

    `content` has blocks as the API gives them. A tool_use without `id` gets a new one at each use; one with `json`
    in place of `input` streams that text as it is, valid or not.
    """

    content: Sequence[Mapping[str, Any]] = ()
    stop_reason: str | None = "end_turn"
    deltas: int = 1
    """Into how many pieces each text is cut."""
    usage: Mapping[str, int] = field(default_factory=lambda: {"input_tokens": 10, "output_tokens": 5})
    before_s: float = 0.0
    between_s: float = 0.0
    """Before the first byte; between any two events."""
    hold: asyncio.Event | None = None
    """Nothing is answered until it is set."""
    status: int = 200
    error: Mapping[str, Any] | None = None
    """With a status: the body's `error`. With 200: sent as an `error` event after `error_after` events."""
    error_after: int = 3
    headers: Mapping[str, str] = field(default_factory=dict)
    cut_after_bytes: int | None = None
    """The connection is reset there."""
    end_after_events: int | None = None
    """The stream ends there, politely."""
    stall_after_events: int | None = None
    """Nothing more comes after these events; the connection stays open."""
    piece_bytes: int | None = None
    """Written in pieces of this size, wherever the events and characters end."""
    raw: bytes | None = None
    """Sent in place of the events, as `content_type`."""
    content_type: str = "text/event-stream"

    @cached_property
    def events(self) -> tuple[bytes, ...]:
        """The stream's events, ready for the wire, made once for each reply."""
        return tuple(b"event: %s\ndata: %s\n\n" % (one["type"].encode(), as_json(one)) for one in self._events())

    @cached_property
    def whole(self) -> bytes:
        return b"".join(self.events)

    @property
    def is_instant(self) -> bool:
        return not (self.before_s or self.between_s or self.hold or self.piece_bytes) and (
            self.cut_after_bytes is None and self.end_after_events is None and self.stall_after_events is None
        )

    def message(self) -> dict[str, Any]:
        """The whole message, for a request that is not streamed."""
        blocks = [{"id": NEW_ID, **block} if block["type"] == "tool_use" else dict(block) for block in self.content]
        return {
            "id": "msg_fake", "type": "message", "role": "assistant", "model": ASKED_MODEL, "content": blocks,
            "stop_reason": self.stop_reason, "stop_sequence": None, "usage": dict(self.usage),
        }  # fmt: skip

    def _events(self) -> Iterator[dict[str, Any]]:
        events = self._plain_events()
        if self.error is not None:
            yield from itertools.islice(events, self.error_after)
            yield {"type": "error", "error": dict(self.error)}
        else:
            yield from events

    def _plain_events(self) -> Iterator[dict[str, Any]]:
        begun = {**self.message(), "content": [], "stop_reason": None, "usage": {**self.usage, "output_tokens": 1}}
        yield {"type": "message_start", "message": begun}
        for index, block in enumerate(self.content):
            empty, deltas = _cut(block, self.deltas)
            yield {"type": "content_block_start", "index": index, "content_block": empty}
            for delta in deltas:
                yield {"type": "content_block_delta", "index": index, "delta": delta}
            yield {"type": "content_block_stop", "index": index}
        usage = {"output_tokens": self.usage.get("output_tokens", 0)}
        stop = {"stop_reason": self.stop_reason, "stop_sequence": None}
        yield {"type": "message_delta", "delta": stop, "usage": usage}
        yield {"type": "message_stop"}


def thought(text: str = "hm") -> dict[str, str]:
    """A thinking block, signed for the model that is asked."""
    return {"type": "thinking", "thinking": text, "signature": f"{text}@{ASKED_MODEL}"}


def says(text: str, **how: Any) -> Reply:
    """Text, in `deltas` pieces; further names are `Reply`'s."""
    return Reply([{"type": "text", "text": text}], **how)


def calls(name: str, arguments: Mapping[str, Any] | None = None, *, text: str = "", **how: Any) -> Reply:
    """One tool call, after `text` if there is any."""
    before = [{"type": "text", "text": text}] if text else []
    use = {"type": "tool_use", "name": name, "input": dict(arguments or {})}
    return Reply([*before, use], **{"stop_reason": "tool_use", **how})


def several(*uses: tuple[str, Mapping[str, Any]], **how: Any) -> Reply:
    """Calls of one step, each with its name and arguments."""
    blocks = [{"type": "tool_use", "name": name, "input": dict(arguments)} for name, arguments in uses]
    return Reply(blocks, **{"stop_reason": "tool_use", **how})


def fails(status: int, kind: str = "api_error", message: str = "broken on purpose", **how: Any) -> Reply:
    """An error in place of an answer."""
    return Reply(status=status, error={"type": kind, "message": message}, **how)


def _cut(block: Mapping[str, Any], pieces: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A block as the stream begins it, and the deltas that complete it."""
    match block["type"]:
        case "text":
            return {**block, "text": ""}, [
                {"type": "text_delta", "text": part} for part in _pieces(block["text"], pieces)
            ]
        case "tool_use":
            text = block["json"] if "json" in block else json.dumps(block["input"], ensure_ascii=False)
            empty = {"type": "tool_use", "id": block.get("id", NEW_ID), "name": block["name"], "input": {}}
            return empty, [{"type": "input_json_delta", "partial_json": part} for part in _pieces(text, min(pieces, 3))]
        case "thinking":
            deltas = [{"type": "thinking_delta", "thinking": part} for part in _pieces(block["thinking"], pieces)]
            signed = {"type": "signature_delta", "signature": block["signature"]}
            return {"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signed]
        case _:
            return dict(block), []


def _pieces(text: str, count: int) -> list[str]:
    """The text in `count` pieces of almost one length; fewer only if it has fewer characters."""
    ends = [len(text) * number // count for number in range(count + 1)]
    return [text[start:end] for start, end in itertools.pairwise(ends) if end > start]


def as_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
