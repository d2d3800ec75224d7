"""Waited: how long nothing of a turn worked, because all of it that was under way waited for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gateway.conversation.records import Record


def waited_ms(records: Sequence[Record], now_ms: int) -> int:
    """Of a turn with these records, its branches included: that is no work of its own. One step that waits stops no clock
    while another one works.
    """
    course = _Course()
    total, since = 0, 0
    stood_still = False
    for record in records:
        course.follow(record)
        if course.stands_still and not stood_still:
            since = record.at_ms
        elif stood_still and not course.stands_still:
            total += record.at_ms - since
        stood_still = course.stands_still
    return total + (max(0, now_ms - since) if stood_still else 0)


@dataclass(slots=True)
class _Course:
    """What is under way at some record. What has no name is the turn's main line, which does nothing while steps go on."""

    asked: dict[str, str] = field(default_factory=dict)
    """Open requests: the branch of each code."""
    running: set[tuple[str, str]] = field(default_factory=set)
    """Calls that have begun and wait for nobody: branch and id of each."""
    steps: set[str] = field(default_factory=set)
    """Branches that carry out a step."""

    def follow(self, record: Record) -> None:
        data = record.data
        match record.type:
            case "asked":
                self.asked[data["code"]] = record.branch
                self.running.discard((record.branch, data.get("call", "")))
            case "decided":
                self.asked.pop(data["code"], None)
            case "tool_start":
                self.running.add((record.branch, data["id"]))
            case "tool_result":
                self.running.discard((record.branch, data["id"]))
            case "given" if data["how"] in {"step", "again"}:
                self.steps.add(record.branch)
            case "step_done":
                self.steps.discard(f"step {data['id']}")

    @property
    def stands_still(self) -> bool:
        return bool(self.asked) and not self.running and (self.steps or {""}) <= set(self.asked.values())
