"""What is told of dead letters: reasons in words, for the pages and the command line; all of it for programs."""

from __future__ import annotations

import re
import signal
from collections import Counter
from dataclasses import asdict
from typing import Final

from gateway.conversation.letters import Letter
from gateway.phrases import say
from skills.visible import one_line

_DIED: Final = re.compile(r"died alone with (-?)([0-9]{1,3})")
_HOLDERS: Final = re.compile(r"([0-9]+) holders died")
_UNREADABLE: Final = re.compile(r"unreadable: (.*)", re.DOTALL)
_ERROR: Final = re.compile(r"[A-Z][A-Za-z]+")
"""The name of an exception."""
KINDS: Final = (
    "rate_limited",
    "transient",
    "ambiguous",
    "bad_format",
    "too_long",
    "auth_failed",
    "target_gone",
    "rejected",
)
"""How a send ends that is given up (`gateway.platforms.OutcomeKind`)."""


def why(one: Letter, language: str) -> str:
    """All that went wrong, in its order; what did several times, with how often."""
    times = Counter(reason_in_words(reason, language) for reason in one.reasons)
    return "; ".join(
        told if count == 1 else say("dead.times", language, what=told, count=count) for told, count in times.items()
    )


def for_programs(one: Letter, language: str) -> dict[str, object]:
    """With the parts of its conversation's key, and all that went wrong in words beside the reasons as they are stored."""
    return {**asdict(one), "key": one.key.parts() if one.key else None, "why": why(one, language)}


def retried(one: Letter, language: str) -> str:
    return say("dead.retried", language, turn=one.turn[:8], why=why(one, language))


def dropped(one: Letter, language: str) -> str:
    return say("dead.dropped", language, turn=one.turn[:8], why=why(one, language))


def reason_in_words(reason: str, language: str) -> str:
    """Of an entry, or of a record `failed`. One that nobody knows here is told as it is, in one line."""
    if (kind := reason.removeprefix("send ")) != reason and kind in KINDS:
        return say("dead.send", language, why=say(f"dead.send.{kind}", language))
    if found := _DIED.fullmatch(reason):
        return say("dead.died", language, how=_ended(int(found[2]), is_signal=bool(found[1]), language=language))
    if found := _HOLDERS.fullmatch(reason):
        return say("dead.holders", language, count=found[1])
    if found := _UNREADABLE.fullmatch(reason):
        return say("dead.unreadable", language, error=one_line(found[1]))
    return say("dead.broke", language, error=reason) if _ERROR.fullmatch(reason) else one_line(reason)


def _ended(code: int, *, is_signal: bool, language: str) -> str:
    """How a process ended: `SIGKILL`, or a phrase with its exit code."""
    if not is_signal:
        return say("dead.exit", language, code=code)
    try:
        return signal.Signals(code).name
    except ValueError:
        return str(code)
