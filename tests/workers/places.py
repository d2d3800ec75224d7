"""Channels as tools and turns see them, made of folders; and calls that come from one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from config.profiles import Profile
from gateway.conversation.records import Record
from gateway.events import Actor
from gateway.rights.access import Here
from skills.folders import Skill
from skills.library import Library
from skills.notes import Note
from workers.tools import Call

ALL = Profile(name="p", skills=["*"], programs=["*"], tools=["load_skill"])


def place(library: Library, profile: Profile = ALL, **more: Any) -> Here:
    """A channel with these skills, on as far as `more` (fields of `Here`) says nothing else."""
    fields: dict[str, Any] = {
        "room": "slack-main/C1",
        "channel_id": "channel",
        "profile": profile,
        "rule": lambda key, value: f"{profile.name}.yaml: {key} {value}",
        "library": library,
        **more,
    }
    return Here(**fields)


async def at_hand(skill: Skill) -> None:
    """It lies where it was scanned."""


class NoNotes:
    """Nothing was ever written back."""

    async def read(self, channel: str, skill_id: str, path: str) -> tuple[Note, ...]:
        del channel, skill_id, path
        return ()


def call(here: Here, history: Sequence[Record] = (), **more: Any) -> Call:
    fields: dict[str, Any] = {
        "conversation": "conversation",
        "key": "k" * 64,
        "at_ms": 0,
        "id": "",
        "actor": None,
        "language": "en",
        "delivery": "message",
        "here": here,
        "history": tuple(history),
        "at_hand": at_hand,
        "notes": NoNotes(),
        "workspace": None,
        "still_ours": lambda: None,
        **more,
    }
    return Call(**fields)


@dataclass
class Fixed:
    """Rights that a test sets."""

    here: Here
    notes: Any = None
    refusals: list[tuple[str, str, str]] = field(default_factory=list)
    """Person, tool and rule."""

    async def now(self) -> Here:
        return self.here

    async def at_hand(self, skill: Skill) -> None:
        del skill

    async def refused(self, actor: Actor | None, here: Here, tool: str, rule: str) -> None:
        del here
        self.refusals.append((actor.id if actor else "", tool, rule))

    async def noted(self, actor: Actor | None, here: Here, id_: str, line: tuple[str, str, str]) -> None:
        del actor, here, id_, line
