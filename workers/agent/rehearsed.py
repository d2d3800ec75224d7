"""What the rehearsal does where more is asked of it than words: it obeys lines `CALL tool {json}`; in a plan it plans by such
lines, addresses and sentences, accepts what it reviews, and puts results together.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gateway.phrases import say
from skills.marks import NOTE
from workers.planning.plan import REVIEWER, planner

STEPS_MAX: Final = 6
_BEGIN: Final = 9
"""Characters of a system prompt that tell who is asked."""
_YOURS: Final = re.compile(r'Yours is step "[^"]*": ("(?:[^"\\]|\\.)*")')
_FOUND: Final = re.compile(
    r'step "[^"]*", ("(?:[^"\\]|\\.)*"), found\)\n<data from="step" mark="([^"]*)">\n(.*?)\n</data mark="\2">',
    re.DOTALL,
)
_URL: Final = re.compile(r"https?://[^\s<>\"'`|（）()，。；、！？]+[^\s<>\"'`|（）()，。；、！？.,;:!?\]}*]")
_ORDER: Final = re.compile(r"^[ \t]*+CALL ([A-Za-z0-9_-]{1,64})(?: (\{.*\}))?[ \t\r]*$", re.MULTILINE)
_SENTENCE: Final = re.compile(r"[^.!?。！？；;\n]+[.!?。！？；;]*")


@dataclass(frozen=True, slots=True)
class Order:
    """A call that somebody wants to see made."""

    line: str
    tool: str
    arguments: Mapping[str, Any]


def orders(text: str) -> list[Order]:
    """Those of a person's message, each once. A line whose arguments are no JSON object is talk."""
    found = []
    for match in _ORDER.finditer(text):
        try:
            order = Order(match[0].strip(), match[1], json.loads(match[2] or "{}"))
        except (ValueError, RecursionError):
            continue
        if order not in found:
            found.append(order)
    return found


def answer(system: Sequence[Mapping[str, Any]], question: str, language: str) -> str | None:
    """What a planner or a reviewer says. None: neither is asked."""
    head = "\n".join(str(block.get("text", "")) for block in system)
    if head[:_BEGIN] == planner(1)[:_BEGIN]:
        return _plan(question, language)
    return '{"accept": true}' if head == REVIEWER else None


def task_in(text: str) -> str | None:
    """The step that a text gives to whoever reads it."""
    found = _YOURS.search(text)
    return str(json.loads(found[1])) if found else None


def is_told(text: str) -> bool:
    """Whether it is what a branch is told of its own, and nobody's message."""
    first = text.partition("\n")[0]
    return text.startswith(NOTE) and (
        task_in(first) is not None or "steps have ended" in first or "step again" in first.lower()
    )


def found_in(text: str, first_lines: Callable[[str, int], str], language: str) -> list[str]:
    """What others found, as far as the text tells of it: how each of it begins."""
    return [
        say("rehearsal.step", language, task=json.loads(task), lines=_in_quotes(first_lines(lines, 6)))
        for task, _, lines in _FOUND.findall(text)
    ]


def _in_quotes(lines: str) -> str:
    return "\n".join(f"> {line}" for line in lines.split("\n"))


def _plan(question: str, language: str) -> str:
    """A step for each order, else for each address, else for each sentence; more than one are put together by a last one."""
    ordered = [order.line for order in orders(question)]
    urls = list(dict.fromkeys(_URL.findall(question)))
    sentences = [one.strip() for one in _SENTENCE.findall(question) if one.strip()]
    tasks = ordered or [say("rehearsal.read", language, url=url) for url in urls] or sentences or [question]
    tasks = tasks[: STEPS_MAX - 1]
    steps: list[dict[str, Any]] = [{"id": str(at), "task": task, "needs": []} for at, task in enumerate(tasks, 1)]
    if len(steps) > 1:
        last = say("rehearsal.put_together", language, task=" ".join(_URL.sub("…", question).split())[:200])
        steps.append({"id": str(len(steps) + 1), "task": last, "needs": [step["id"] for step in steps]})
    return json.dumps({"steps": steps}, ensure_ascii=False)
