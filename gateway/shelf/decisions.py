"""Decisions: what admins decided about skills and tools, for the whole organisation or for one channel.

Each is a field of one hash in Redis, keyed by the skeleton of a skill's id or a tool's name, so that another case, another width and a
look-alike are the same one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from gateway.stored import mapping
from skills import ids

Switch = Literal["on", "off"]
ORG: Final = "org"
"""The scope of the whole organisation."""
NO_REVISION: Final = "0"
"""Of a scope where nobody has decided anything."""
LOST: Final = "lost"
"""What is told in place of a revision of a scope where somebody decided, and of which nothing is left."""
_HASH: Final = re.compile("[0-9a-f]{64}")
_NUMBER: Final = re.compile("[0-9]{1,16}")


def scope_of(channel_id: str) -> str:
    """The scope of one channel."""
    return f"ch:{channel_id}"


@dataclass(frozen=True, slots=True)
class Installed:
    """A bundle that somebody added."""

    id: str
    bundle: str
    """Its hash."""
    by: str
    at_ms: int

    @classmethod
    def read(cls, value: str) -> Installed:
        """As it is stored. Raises `ValueError`."""
        match mapping(value):
            case {"id": str(id_), "bundle": str(bundle), "by": str(by), "at": int(at_ms)}:
                if not _HASH.fullmatch(bundle) or ids.fault(id_):
                    raise ValueError(f"no id, or no hash: {value[:200]!r}")
                return cls(id_, bundle, by, at_ms)
        raise ValueError(f"no bundle that was added: {value[:200]!r}")


@dataclass(frozen=True, slots=True)
class Always:
    """A call that runs without a question, in exactly one form, as long as who said so may."""

    tool: str
    """What people call it."""
    form: str
    """Its arguments, as they were shown."""
    by: str
    """The person (`connection/id`)."""

    @classmethod
    def read(cls, value: str) -> Always:
        """As it is stored. Raises `ValueError`."""
        match mapping(value):
            case {"tool": str(tool), "form": str(form), "by": str(by)} if by:
                return cls(tool, form, by)
        raise ValueError(f"nobody's word on a call: {value[:200]!r}")


@dataclass(frozen=True, slots=True)
class Decisions:
    """All of one scope, as stored at one moment."""

    revision: str = NO_REVISION
    """Another one after each change; those that deskmate gives grow."""
    switches: Mapping[str, Switch] = field(default_factory=dict)
    """By skeleton of the id; what is not in it was never switched."""
    installed: Mapping[str, Installed] = field(default_factory=dict)
    """By skeleton of the id."""
    trusted: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By skeleton of the id and hash of the bundle, byte for byte: when somebody said so, in ms."""
    shown: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """By skeleton of the id and person: the hash of the bundle that they saw last, while it waited for their trust."""
    channel_admins: Mapping[str, str] = field(default_factory=dict)
    """By person (`connection/id`): who made them an admin of this channel."""
    always: Mapping[str, Always] = field(default_factory=dict)
    """Calls that were allowed for good, by the hash of all that the word was about."""
    hitl: Switch | None = None
    """Human in the loop: whether each call with an effect wants a person's yes. None: never switched."""
    tools: Mapping[str, Switch] = field(default_factory=dict)
    """By skeleton of the name by which models call it; what is not in it is as the profile says."""

    @classmethod
    def read(cls, revision: str, stored: Mapping[str, str]) -> Decisions:
        """From the hash's fields. Raises `ValueError` for anything that is not understood: then nothing may be assumed.

        Without a revision nobody could tell when they change.
        """
        if revision == LOST:
            raise ValueError("what was decided is gone")
        if stored and revision == NO_REVISION:
            raise ValueError(f"decisions without a revision; their field rev may be any number but {NO_REVISION}")
        kinds: dict[str, dict[str, str]] = {kind: {} for kind in ("s", "b", "t", "l", "a", "y", "tool", "hitl", "rev")}
        for name, value in stored.items():
            kind, _, rest = name.partition(":")
            if kind not in kinds:
                raise ValueError(f"a decision of an unknown kind: {name!r}")
            kinds[kind][rest] = value
        trusted = {rest.rpartition(":"): _when(value) for rest, value in kinds["t"].items()}
        return cls(
            revision,
            switches={rest: _switch(value) for rest, value in kinds["s"].items()},
            installed={rest: Installed.read(value) for rest, value in kinds["b"].items()},
            trusted={(skeleton, bundle): at_ms for (skeleton, _, bundle), at_ms in trusted.items()},
            shown=dict(_seen(rest, value) for rest, value in kinds["l"].items()),
            channel_admins={rest: str(mapping(value).get("by")) for rest, value in kinds["a"].items()},
            always={rest: Always.read(value) for rest, value in kinds["y"].items()},
            hitl=next(map(_switch, kinds["hitl"].values()), None),
            tools={rest: _switch(value) for rest, value in kinds["tool"].items()},
        )

    def is_before(self, other: Decisions) -> bool:
        """Whether these were stored earlier, as far as revisions tell."""
        numbers = [int(one) for one in (self.revision, other.revision) if _NUMBER.fullmatch(one)]
        return len(numbers) == 2 and numbers[0] < numbers[1]

    def switch(self, skill_id: str) -> Switch | None:
        return self.switches.get(ids.skeleton(skill_id)) if self.switches else None

    def is_tool_off(self, name: str) -> bool:
        return bool(self.tools) and self.tools.get(ids.skeleton(name)) == "off"

    def seen(self, skill_id: str, who: str) -> str | None:
        """The hash of the bundle that this person saw last."""
        return self.shown.get((ids.skeleton(skill_id), who))

    def meant_else(self, there: Installed, who: str) -> str | None:
        """The hash of other bytes that this person may mean who names none: they saw those last, or those were trusted before.
        Whoever was shown what is there, or added it, means that.
        """
        shown = self.seen(there.id, who)
        if there.bundle == shown or there.by == who or self.trusts(there.id, there.bundle):
            return None
        return shown or self.trusted_last(there.id)

    def trusted_last(self, skill_id: str) -> str | None:
        """The hash of the bundle of this id that somebody trusted last, whether or not it is still there."""
        skeleton = ids.skeleton(skill_id)
        found = [(at_ms, bundle) for (name, bundle), at_ms in self.trusted.items() if name == skeleton]
        return max(found)[1] if found else None

    def trusts(self, skill_id: str, bundle: str) -> bool:
        return (ids.skeleton(skill_id), bundle) in self.trusted


def switch_field(skill_id: str) -> str:
    return f"s:{ids.skeleton(skill_id)}"


def tool_field(name: str) -> str:
    return f"tool:{ids.skeleton(name)}"


def bundle_field(skill_id: str) -> str:
    return f"b:{ids.skeleton(skill_id)}"


def trust_field(skill_id: str, bundle: str) -> str:
    return f"t:{ids.skeleton(skill_id)}:{bundle}"


HITL_FIELD: Final = "hitl"


def always_field(bound: str) -> str:
    return f"y:{bound}"


def admin_field(person: str) -> str:
    """Of an admin of this channel alone. Ids of people are meant letter by letter."""
    return f"a:{person}"


def shown_field(skill_id: str, who: str) -> str:
    return f"l:{ids.skeleton(skill_id)}:{who}"


def written(by: str, at_ms: int, **more: str) -> str:
    """A decision as it is stored."""
    return json.dumps({**more, "by": by, "at": at_ms}, ensure_ascii=False)


def _seen(name: str, value: str) -> tuple[tuple[str, str], str]:
    stored = mapping(value)
    return (name.partition(":")[0], str(stored.get("by"))), str(stored.get("bundle"))


def _when(value: str) -> int:
    match mapping(value):
        case {"at": int(at_ms)}:
            return at_ms
    raise ValueError(f"nobody's trust: {value[:200]!r}")


def _switch(value: str) -> Switch:
    match mapping(value).get("to"):
        case "on":
            return "on"
        case "off":
            return "off"
        case other:
            raise ValueError(f"neither on nor off: {other!r}")
