"""Profiles: what a channel is allowed, one YAML file each."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from config.settings import Language, Section

QueueMode = Literal["followup", "collect", "steer", "interrupt"]


class Queue(Section):
    """What happens to messages that arrive while a turn runs, or close to each other."""

    mode: QueueMode = "followup"
    """`followup`: a turn each. `collect`: what waits is answered together. `steer`: taken into the running turn at
    its next step. `interrupt`: like steer, and the model call that runs is dropped at once."""
    gather_ms: int = Field(0, ge=0, le=10_000)
    """Quiet time before a turn begins, so that a paste in several messages is one turn."""


class Limits(Section):
    """Where a turn ends, whatever the model wants."""

    steps: int = Field(30, ge=1, le=1_000)
    turn_s: float = Field(600.0, gt=0)
    turn_tokens: int = Field(400_000, ge=1)
    """Input and output tokens of all model calls of a turn together."""


class Profile(Section):
    """What a channel is allowed. Unknown means no."""

    name: str = ""
    language: Language | None = None
    """Of notices and pages; without it, what the platform says of the person."""
    instructions: str = "You are deskmate, an assistant in a team's chat. Answer in the language of the message."
    model: str | None = None
    skills: list[str] = []
    """Ids of skills, or patterns such as `*` and `finance/*`."""
    tools: list[str] = []
    queue: Queue = Queue()
    limits: Limits = Limits()
    unclear_send: Literal["repeat", "skip"] = "repeat"
    """A send whose outcome is unknown, on a platform that can't tell: send again (marked), or leave it (notice)."""
    thread_follow: bool = True
    """A thread that we answered in goes on without a mention."""
