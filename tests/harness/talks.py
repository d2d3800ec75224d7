"""A history by conversations: what became of each message, and what people see at the end.

`talks_of(history)` sorts the events of `tests.harness.history`; it judges nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from tests.harness.history import Accepted, Asked, Effect, Granted, History, Posted, Wrote

TAKEN = range(200, 300)


@dataclass(slots=True)
class Message:
    """What a person said, and all answers to it that are to be seen at the end."""

    id: str
    posts: list[Posted] = field(default_factory=list)
    answers: list[Accepted] = field(default_factory=list)
    """Parts of replies, and notices, as they stand at the end, in the order in which they came."""
    remarks: list[Accepted] = field(default_factory=list)
    """What was said about the sending of its answer."""
    asked: list[Asked] = field(default_factory=list)
    """The model's requests of which it is the last message."""

    @property
    def place(self) -> int:
        return self.posts[0].place

    @property
    def calls(self) -> int:
        return max(post.calls for post in self.posts)

    @property
    def wants(self) -> str:
        """What answers it if nothing goes wrong."""
        return self.posts[0].wants

    @property
    def first_s(self) -> float:
        """Not before this deskmate may know of it."""
        return min(post.begin_s for post in self.posts)

    @property
    def said_s(self) -> float:
        return min((post.said_s for post in self.posts if post.said_s), default=self.first_s)

    @property
    def taken(self) -> Posted | None:
        """The first delivery that was answered 2xx: from then on it is ours."""
        return min((post for post in self.posts if post.status in TAKEN), key=lambda post: post.at_s, default=None)

    @property
    def taken_s(self) -> float:
        return self.taken.at_s if self.taken else math.inf

    def shown(self, what: str) -> list[Accepted]:
        return [one for one in self.answers if one.what == what]

    @property
    def begin_s(self) -> float:
        """When the first part of its answer came."""
        return min((begin_of(one) for one in self.answers), default=math.inf)

    @property
    def end_s(self) -> float:
        """When the last part of its answer came."""
        return max((one.at_s for one in self.answers), default=math.inf)


@dataclass(slots=True)
class Talk:
    """One conversation."""

    id: str
    messages: dict[str, Message] = field(default_factory=dict)
    canaries: set[str] = field(default_factory=set)
    accepted: list[Accepted] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    grants: list[Granted] = field(default_factory=list)
    writes: list[Wrote] = field(default_factory=list)

    def visible(self) -> list[Accepted]:
        """What people see at the end: each message in its last form, where it first stood."""
        stands: dict[str, Accepted] = {}
        for number, one in enumerate(self.accepted):
            name = one.edit_of or one.id or one.key or f"nameless {number}"
            if one.what == "deleted":
                stands.pop(name, None)
            elif not one.repeated:
                stands[name] = one
        return list(stands.values())


def begin_of(event: Accepted | Granted | Wrote) -> float:
    """When its request was on its way."""
    return event.begin_s or event.at_s


def talks_of(history: History) -> dict[str, Talk]:
    """Each conversation that any event names."""
    talks: dict[str, Talk] = {}
    for event in history.events:
        name = getattr(event, "conversation", "")
        if not name:
            continue
        talk = talks.setdefault(name, Talk(name))
        match event:
            case Posted():
                talk.messages.setdefault(event.message, Message(event.message)).posts.append(event)
                talk.canaries |= {event.canary} if event.canary else set()
            case Accepted():
                talk.accepted.append(event)
            case Asked():
                talk.asked.append(event)
            case Effect():
                talk.effects.append(event)
            case Granted():
                talk.grants.append(event)
            case Wrote():
                talk.writes.append(event)
    for talk in talks.values():
        _answer(talk)
    return talks


def _answer(talk: Talk) -> None:
    """Give each message its answers, what was said about them, and its requests to the model."""
    for asked in talk.asked:
        if asked.purpose == "turn" and asked.said and asked.said[-1] in talk.messages:
            talk.messages[asked.said[-1]].asked.append(asked)
    seen = talk.visible()
    answers = [one for one in seen if one.what in {"reply", "notice"}]
    for one in answers:
        for name in one.answers:
            if name in talk.messages:
                talk.messages[name].answers.append(one)
    nameless = [one for one in answers if not one.answers]
    open_ones = [message for message in _by_place(talk) if not message.answers]
    for one, message in zip(nameless, open_ones, strict=False):  # the platform does not say: the oldest first
        message.answers.append(one)
    for one in seen:
        if one.what == "remark":
            for message in [talk.messages[name] for name in one.answers if name in talk.messages] or _meant(talk, one):
                message.remarks.append(one)


def _meant(talk: Talk, remark: Accepted) -> list[Message]:
    """What a remark is about where the platform does not say: the oldest without an answer, or the last that had got one,
    or the first whose answer came only after it, less a part.
    """
    known = [message for message in _by_place(talk) if message.first_s < remark.at_s]
    silent = [message for message in known if not message.answers and not message.remarks]
    before = sorted((message for message in known if message.begin_s < remark.at_s), key=lambda one: one.begin_s)
    return silent[:1] or before[-1:] or known[:1]


def _by_place(talk: Talk) -> list[Message]:
    return sorted(talk.messages.values(), key=lambda one: one.place)


def parts_of(answers: list[Accepted]) -> Counter[int]:
    """How often each part of a reply is to be seen."""
    return Counter(one.part for one in answers)
