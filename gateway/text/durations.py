"""How long something takes, in words."""

from __future__ import annotations

from gateway.phrases import say


def duration(ms: float, language: str) -> str:
    """In the two largest units that count: `4 s`, `2 min 5 s`, `3 h 10 min`."""
    seconds = max(0, round(ms / 1000))
    if seconds < 60:
        return say("time.seconds", language, seconds=seconds)
    if seconds < 3_600:
        return say("time.minutes", language, minutes=seconds // 60, seconds=seconds % 60)
    return say("time.hours", language, hours=seconds // 3_600, minutes=seconds % 3_600 // 60)
