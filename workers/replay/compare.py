"""Comparing: the requests of then and of now, and where they differ, for people to read."""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gateway.events import Event
from workers.replay.case import Case
from workers.replay.script import Exchange
from workers.replay.stage import PLACEHOLDER, Run

MARK: Final = re.compile(r'(?<=mark=\\")[0-9a-f]{8}(?=\\")')
"""The random word around text from outside, as it stands in JSON."""
NOT_KEPT: Final = hashlib.sha256(PLACEHOLDER).hexdigest()
AROUND: Final = 2
"""Lines that are shown before and after one that differs."""
LINES_MAX: Final = 40
LINE_CHARACTERS: Final = 160


@dataclass(frozen=True, slots=True)
class Difference:
    """One place of a request."""

    where: str
    lines: tuple[str, ...]
    """A unified diff, then to now."""
    behind: str = ""
    """Where this text comes from, as far as that can be told."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One request."""

    exchange: Exchange
    differences: tuple[Difference, ...]

    @property
    def name(self) -> str:
        one = self.exchange
        what = one.purpose if not one.step else f"{one.purpose}, step {one.step}"
        return f"{one.branch}: {what}" if one.branch else what


@dataclass(frozen=True, slots=True)
class Report:
    """What a replay found."""

    case: Case
    requests: tuple[Compared, ...]
    reply_then: str
    reply_now: str
    notes: tuple[str, ...] = ()
    """What else is different."""

    @property
    def is_equal(self) -> bool:
        asks_alike = not any(one.differences for one in self.requests)
        return self.reply_then == self.reply_now and asks_alike and not self.notes

    def as_json(self) -> dict[str, Any]:
        return {
            "conversation": self.case.key.id,
            "turn": self.case.turn,
            "equal": self.is_equal,
            "requests": [
                {
                    "branch": one.exchange.branch,
                    "step": one.exchange.step,
                    "purpose": one.exchange.purpose,
                    "equal": not one.differences,
                    "differences": [
                        {"where": each.where, "behind": each.behind, "diff": list(each.lines)}
                        for each in one.differences
                    ],
                }
                for one in self.requests
            ],
            "reply": {"equal": self.reply_then == self.reply_now, "then": self.reply_then, "now": self.reply_now},
            "also_different": list(self.notes),
        }

    def __str__(self) -> str:
        lines = [f"turn {self.case.turn[:8]} of conversation {self.case.key.id[:8]}: {len(self.requests)} requests"]
        told: set[Difference] = set()
        for number, one in enumerate(self.requests, 1):
            fresh = [each for each in one.differences if each not in told]
            told.update(fresh)
            same = len(one.differences) - len(fresh)
            verdict = "different" if one.differences else "equal"
            more = f" ({same} of its differences as above)" if same else ""
            lines.append(f"  {number}  {one.name}: {verdict}{more}")
            for each in fresh:
                lines.append(f"     {each.where}{f', {each.behind}' if each.behind else ''}:")
                lines += [f"       {line}" for line in each.lines]
        lines.append(f"reply: {'equal' if self.reply_then == self.reply_now else 'different'}")
        if self.reply_then != self.reply_now:
            lines += [f"       {line}" for line in diff(self.reply_then, self.reply_now)]
        lines += [f"also different: {note}" for note in self.notes]
        lines.append("equal" if self.is_equal else "different")
        return "\n".join(lines)


def compare(run: Run, reply_then: str) -> Report:
    """What a run made otherwise than it was made then. `reply_then` is masked like all else."""
    compared = tuple(Compared(one, tuple(_differences(run.case, one))) for one in run.exchanges)
    return Report(run.case, compared, reply_then, run.reply, run.notes)


def _differences(case: Case, exchange: Exchange) -> list[Difference]:
    if exchange.now is None:
        return [Difference("the request", ("- it was made then, and is not made now",))]
    if exchange.then is None:
        return [Difference("the request", ("+ it is made now, and was not made then",))]
    then, now = _plain(exchange.then), _plain(exchange.now)
    _forgive_pictures(then, now)
    found = [
        Difference(name, (f"- {then[name]}", f"+ {now[name]}"))
        for name in ("model", "max_tokens")
        if then[name] != now[name]
    ]
    if then["system"] != now["system"]:
        found.append(Difference("system prompt", diff(_shown(then["system"]), _shown(now["system"]))))
    found += _tools(then["tools"], now["tools"])
    for at in range(max(len(then["messages"]), len(now["messages"]))):
        found += _message(case, at, _at(then["messages"], at), _at(now["messages"], at))
    return found


def _plain(request: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is another one each time: the words of marks, numbered as they come."""
    names: dict[str, str] = {}
    text = MARK.sub(
        lambda word: names.setdefault(word[0], f"{len(names) + 1:08}"), json.dumps(request, ensure_ascii=False)
    )
    plain: dict[str, Any] = json.loads(text)
    return plain


def _forgive_pictures(then: Any, now: Any) -> None:
    """A picture that is not kept any more is taken for the one that was there."""
    match then, now:
        case {"type": "sha256", "data": was}, {"type": "sha256", "data": is_now} if is_now == NOT_KEPT:
            now["data"] = was
        case dict(), dict():
            for name in then.keys() & now.keys():
                _forgive_pictures(then[name], now[name])
        case list(), list():
            for one, other in zip(then, now, strict=False):
                _forgive_pictures(one, other)


def _tools(then: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> list[Difference]:
    was, is_now = ({tool["name"]: tool for tool in tools} for tools in (then, now))
    found = [
        Difference(f"tool {name}", diff(_pretty(was.get(name)), _pretty(is_now.get(name))))
        for name in {**was, **is_now}
        if was.get(name) != is_now.get(name)
    ]
    if not found and then != now:
        found.append(Difference("tools, their order", (f"- {', '.join(was)}", f"+ {', '.join(is_now)}")))
    return found


def _message(case: Case, at: int, then: Mapping[str, Any], now: Mapping[str, Any]) -> list[Difference]:
    if then == now:
        return []
    role = str((then or now).get("role"))
    if then and now and then["role"] != now["role"]:
        return [Difference(f"message {at + 1}", diff(_shown([then]), _shown([now])))]
    was, is_now = then.get("content", []), now.get("content", [])
    found = []
    for number in range(max(len(was), len(is_now))):
        one, other = _at(was, number), _at(is_now, number)
        if one != other:
            where = f"message {at + 1} ({role}), block {number + 1}"
            found.append(Difference(where, diff(_block(one), _block(other)), _behind(case, one or other)))
    return found


def _behind(case: Case, block: Mapping[str, Any]) -> str:
    """The record that a block is made of."""
    records = (*case.before, *case.records)
    if block.get("type") == "tool_result":
        for record in records:
            if record.type == "tool_result" and record.data["id"] == block["tool_use_id"]:
                return f"the result of {record.data['name']} in step {record.data['step']}"
        return "the result of a call"
    text = str(block.get("text", ""))
    for record in reversed(records):
        match record.type:
            case "event":
                event = _event(record.data["event"])
                if event and event.text.strip() and event.text.strip() in text:
                    return f"what {event.actor.name or event.actor.id} wrote"
            case "skill" if record.data["text"].strip() and record.data["text"].strip() in text:
                return f"the text of the skill {record.data['id']}"
            case "summary" | "reply" if str(record.data["text"]).strip() and str(record.data["text"]).strip() in text:
                return "a summary" if record.type == "summary" else "what was replied"
    return ""


def _event(dumped: dict[str, Any]) -> Event | None:
    try:
        return Event.of(dumped)
    except ValueError:
        return None


def _at(values: Sequence[Any], at: int) -> Mapping[str, Any]:
    found: Mapping[str, Any] = values[at] if at < len(values) else {}
    return found


def _block(block: Mapping[str, Any]) -> str:
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "tool_result", "content": str(text), **rest}:
            return f"{'(error) ' if rest.get('is_error') else ''}{text}"
        case {"type": "tool_use", "name": name, "input": given}:
            return f"{name}({json.dumps(given, ensure_ascii=False)})"
        case {}:
            return _pretty(block) if block else ""
    return ""


def _shown(blocks: Sequence[Any]) -> str:
    return "\n".join(str(one.get("text", "")) or _pretty(one) for one in blocks)


def _pretty(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1) if value else ""


def diff(then: str, now: str) -> tuple[str, ...]:
    """Lines of a unified diff, without its head; of many the first."""
    lines = list(difflib.unified_diff(_lines(then), _lines(now), n=AROUND, lineterm=""))[2:]
    if not lines:  # they differ in what ends a line
        lines = [f"- {then[-80:]!r}", f"+ {now[-80:]!r}"]
    return (*lines[:LINES_MAX], *([f"... {len(lines) - LINES_MAX} more lines"] if len(lines) > LINES_MAX else []))


def _lines(text: str) -> list[str]:
    """A long line in pieces, so that what differs in it is seen."""
    return [
        line[at : at + LINE_CHARACTERS]
        for line in text.splitlines()
        for at in range(0, max(1, len(line)), LINE_CHARACTERS)
    ]
