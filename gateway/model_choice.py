"""The model of a conversation: the profile's own, unless people have chosen another one of those that it allows."""

from __future__ import annotations

from collections.abc import Sequence

from config.profiles import Profile
from gateway.conversation.records import Record, latest


def chosen(records: Sequence[Record], profile: Profile) -> str | None:
    """What people chose last, as far as the profile still allows it. None: the profile's own counts."""
    name = latest(records, "model")
    return name if name in profile.models else None


def allowed(profile: Profile, default: str) -> list[str]:
    """All that may be asked here, the own one first; `default`: that of a profile which names none."""
    return list(dict.fromkeys([profile.model or default, *profile.models]))
