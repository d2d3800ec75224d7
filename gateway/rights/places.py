"""Places: where somebody may something or not, as the files describe it. What Redis says of one is put to it (`gateway.shelf`)."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from config.loading import Loaded
from config.profiles import Profile
from config.rules import org_rule_of, rule_of
from gateway.connections import direct_policy
from gateway.conversation.key import ConversationKey
from gateway.rights.access import DirectPolicy, Here
from skills.library import Library

_ALL: Final = Profile(skills=["*"], programs=["*"])


def place(loaded: Loaded, key: ConversationKey, **held: Any) -> Here:
    """A room; `held` are fields of `Here` that files don't say."""
    profile = loaded.profile_for(key.connection, key.channel)
    direct = direct_policy(loaded, profile, key.connection)
    room = {"room": f"{key.connection}/{key.channel}", "channel_id": key.channel_id, "direct": direct}
    return under(loaded, profile, **{"rule": partial(_rule_of, loaded, profile, direct), **room, **held})


def _rule_of(loaded: Loaded, profile: Profile, direct: DirectPolicy, key: str, value: str) -> str:
    """The line of a profile; who is answered in direct chats is up to the platform where it says nothing."""
    unwritten = f"{direct}, the platform's default" if key == "direct" else ""
    return rule_of(loaded, profile, key, value, unwritten=unwritten)


def organisation(loaded: Loaded, **held: Any) -> Here:
    """All of it, under no channel's profile."""
    return under(loaded, _ALL, rule=lambda name, _: name, **held)


def under(loaded: Loaded, profile: Profile, **held: Any) -> Here:
    """No room, but what holds in each that has this profile."""
    files = {
        "room": "",
        "channel_id": "",
        "profile": profile,
        "rule": partial(rule_of, loaded, profile),
        "library": Library({}),
        "new_skills": loaded.settings.skills.new_skills,
        "owners": tuple(loaded.settings.people.owners),
        "org_rule": partial(org_rule_of, loaded),
    }
    return Here(**{**files, **held})
