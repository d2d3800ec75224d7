"""Against a live model: what it answers to the requests of a recorded turn, beside what was answered then.

Each step is asked with the history as it was recorded up to there. No tool runs: where the model calls what was called then,
the recorded results count; where it calls something else there are none, and it ends.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from workers.models import Answer, Model, Request, text_of, whole_answer
from workers.replay.compare import Compared, Report, diff

GONE: Final[dict[str, Any]] = {"type": "text", "text": "(a picture that is not kept any more)"}


@dataclass(frozen=True, slots=True)
class Step:
    """One request, and both answers."""

    name: str
    asks_the_same: bool
    """Whether the request of now is the one of then."""
    text_then: str
    text_now: str
    calls_then: tuple[str, ...]
    calls_now: tuple[str, ...]

    @property
    def calls_alike(self) -> bool:
        return self.calls_then == self.calls_now

    @property
    def is_equal(self) -> bool:
        return self.calls_alike and self.text_then == self.text_now


@dataclass(frozen=True, slots=True)
class Lived:
    """What a model made of a turn."""

    steps: tuple[Step, ...]
    why_ended: str

    @property
    def is_equal(self) -> bool:
        return all(step.is_equal for step in self.steps)

    def as_json(self) -> dict[str, Any]:
        steps = [
            {
                "name": one.name,
                "same_request": one.asks_the_same,
                "equal": one.is_equal,
                "text": {"then": one.text_then, "now": one.text_now},
                "calls": {"then": list(one.calls_then), "now": list(one.calls_now)},
            }
            for one in self.steps
        ]
        return {"equal": self.is_equal, "steps": steps, "ended": self.why_ended}

    def __str__(self) -> str:
        lines: list[str] = []
        for number, one in enumerate(self.steps, 1):
            asked = "" if one.asks_the_same else " (the request is another one than then)"
            calls = ["the same calls" if one.calls_alike else "other calls"] if one.calls_then or one.calls_now else []
            texts = ["the same text" if one.text_then == one.text_now else "another text"]
            texts = texts if one.text_then or one.text_now else []
            lines.append(f"  {number}  {one.name}{asked}: {', '.join([*calls, *texts]) or 'nothing was said'}")
            if not one.calls_alike:
                lines += [f"       - {call}" for call in one.calls_then] + [
                    f"       + {call}" for call in one.calls_now
                ]
            if one.text_then != one.text_now:
                lines += [f"       {line}" for line in diff(one.text_then, one.text_now)]
        return "\n".join([*lines, self.why_ended])


async def live(report: Report, model: Model, steps: int) -> Lived:
    """Ask the model for at most so many steps. Raises `ModelError`."""
    pictures = {hashlib.sha256(content).hexdigest(): content for content in report.case.pictures.values()}
    made: list[Step] = []
    for compared in report.requests:
        now, then = compared.exchange.now, compared.exchange.outcome.get("answer")
        if now is None or then is None:
            continue
        if len(made) >= steps:
            return Lived(tuple(made), f"ended after {steps} steps (--steps)")
        answer = await whole_answer(model, _request(now, pictures))
        made.append(_step(compared, then, answer))
        if not made[-1].calls_alike:
            return Lived(tuple(made), "ended: nothing is recorded of what is called now instead, and no tool is run")
    return Lived(tuple(made), "all steps were asked")


def _step(compared: Compared, then: Mapping[str, Any], now: Answer) -> Step:
    return Step(
        compared.name,
        not compared.differences,
        "".join(str(block["text"]) for block in then["content"] if block["type"] == "text"),
        text_of(now),
        _calls(then["content"]),
        _calls(now.content),
    )


def _calls(content: Any) -> tuple[str, ...]:
    return tuple(
        f"{block['name']}({json.dumps(block['input'], ensure_ascii=False, sort_keys=True)})"
        for block in content
        if block.get("type") == "tool_use"
    )


def _request(now: Mapping[str, Any], pictures: Mapping[str, bytes]) -> Request:
    whole: dict[str, Any] = _with_pictures(now, pictures)
    return Request(whole["model"], whole["system"], whole["messages"], whole["tools"], whole["max_tokens"])


def _with_pictures(value: Any, pictures: Mapping[str, bytes]) -> Any:
    match value:
        case {"type": "image", "source": {"type": "sha256", "data": name, "media_type": kind}}:
            if name not in pictures:
                return GONE
            data = base64.b64encode(pictures[name]).decode()
            return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}
        case Mapping():
            return {name: _with_pictures(one, pictures) for name, one in value.items()}
        case list():
            return [_with_pictures(one, pictures) for one in value]
    return value
