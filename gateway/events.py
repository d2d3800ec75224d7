"""Events: what people do on a platform, as the rest of deskmate sees it.

`parse` of a platform makes them; the mailbox keeps them as JSON until a turn takes them.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from operator import attrgetter
from typing import Any

import orjson

from config.addresses import is_plain
from gateway.conversation.key import ConversationKey, of_parts


def is_blank(text: str) -> bool:
    """Nothing that anybody could see: no sign but blanks and zero-width characters."""
    return not any(one.isprintable() and not one.isspace() for one in text)


@dataclass(frozen=True, slots=True)
class Actor:
    """Who did it. Rights are given by `id`, never by `name`."""

    id: str
    name: str = ""
    is_bot: bool = False
    is_self: bool = False
    language: str | None = None
    """What the platform says of the person's language, such as `zh-CN`."""
    connection: str = ""
    """Whose id it is, where that is not the room's own connection: somebody who acts from the admin pages."""
    is_guest: bool | None = False
    """The platform says that they are from outside: a guest of the house, or of another house. None: it tells of others
    and not of them (`gateway.rights.guests`), so that they count as one.
    """

    @classmethod
    def by_id(cls, id_: str, *, name: str = "", connection: str = "", is_guest: bool | None = None) -> Actor:
        """Somebody who was stored: no platform says now who they are, so that they count as a guest unless that was asked."""
        return cls(id_, name, connection=connection, is_guest=is_guest)


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that came with a message. `fetch` is for the platform's own `download`."""

    kind: str
    """`image`, `file`, `audio` or `video`; else what it is in one word, such as `sticker` or `location`."""
    name: str
    mime: str
    size_bytes: int
    fetch: dict[str, Any] = field(default_factory=dict)
    is_forwarded: bool = False
    """Whoever sent it only passed it on."""
    content: bytes = field(default=b"", repr=False)
    """What came with the message itself, from `parse` until `gateway.files` has put it away; it is never dumped."""

    def dump(self) -> dict[str, Any]:
        """As JSON; `of` gives it back, without `content`."""
        return {name: value for name, value in _fields(self).items() if name != "content"}

    @classmethod
    def of(cls, dumped: dict[str, Any]) -> Attachment:
        """Unknown fields of a later version are ignored. Raises `TypeError` for what is none."""
        return cls(**_known(cls, dumped))


def kind_of(mime: str) -> str:
    """`Attachment.kind` of a file of this MIME type."""
    kind = mime.partition("/")[0].strip().lower()
    return kind if kind in {"image", "audio", "video"} else "file"


@dataclass(frozen=True, slots=True)
class ReplyHandle:
    """A reply address that came inside a payload, such as a `response_url`. Past its end the normal address is used."""

    kind: str
    data: dict[str, Any]
    expires_at_ms: int

    @classmethod
    def of(cls, dumped: dict[str, Any]) -> ReplyHandle:
        """From JSON; unknown fields of another version are ignored. Raises `TypeError` for what is none."""
        return cls(**_known(cls, dumped))


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing a person did."""

    kind: str
    """`message`, `edit`, `delete`, `action` (a button), `command`, `membership` or `pull` (the platform comes for a text)."""
    conversation: ConversationKey
    actor: Actor
    dedupe_keys: tuple[str, ...]
    """Names of this event that the platform repeats when it sends it again; any of them known means known."""
    at_ms: int
    """When, by the platform's clock."""
    message_id: str = ""
    """Of the message, or of the one that was edited, deleted or pressed."""
    reply_handle: ReplyHandle | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    """What the platform needs for its reply and nobody else reads. It is dumped in front of what may be long (`InHand`)."""
    text: str = ""
    """Of a message: as a person reads it, our own mention removed. Of a command: what follows its name."""
    name: str = ""
    """Of a command (`/stop` is `stop`) or of an action."""
    value: str = ""
    """What a pressed button carries: our `Button.command`."""
    addressed: bool = True
    """What the payload alone says: is it meant for us? Intake knows the threads we are in."""
    is_direct: bool = False
    attachments: tuple[Attachment, ...] = ()
    quoted: str = ""
    """The text that it answers, where the platform sends that along."""
    forwarded: str = ""
    """Text of others that whoever sent it only passed on: nobody's word here."""
    parent_id: str = ""
    """The message that it answers: one of ours, or, where the payload does not say whose that is, perhaps (intake knows)."""
    group: str = ""
    """Messages of one group are one: the pictures of an album come as a message each."""

    @property
    def is_empty(self) -> bool:
        """Nothing that anybody could see: a bare mention, blanks, zero-width characters."""
        return not self.attachments and all(map(is_blank, (self.text, self.quoted, self.forwarded)))

    @property
    def odd_id(self) -> str:
        """The id of the person or the room that looks like another one; empty: there is none."""
        named = (self.actor.id, *self.conversation.parts())
        return next((one for one in named if one and not is_plain(one)), "")

    def dump(self) -> str:
        """JSON, one line; `load` gives the same event back."""
        # What is as always is left out: a third of the bytes, and half the memory of a history that was read.
        written = {"v": 1, **_fields(self), "conversation": self.conversation.parts()}
        return orjson.dumps(written, default=_fields, option=orjson.OPT_PASSTHROUGH_DATACLASS).decode()

    @classmethod
    def load(cls, text: str | bytes) -> Event:
        """The event that `dump` wrote. Unknown fields of a later version are ignored. Raises `ValueError`."""
        try:
            return cls.of(json.loads(text))
        except RecursionError:
            raise ValueError("no event: nested too deep") from None

    @classmethod
    def of(cls, dumped: dict[str, Any]) -> Event:
        """The same from JSON that was read already. Raises `ValueError` for what is no event."""
        try:
            known = _known(cls, dumped)
            known["conversation"] = of_parts(known["conversation"])
            known["actor"] = Actor(**_known(Actor, known["actor"]))
            known["dedupe_keys"] = tuple(known["dedupe_keys"])
            known["attachments"] = tuple(map(Attachment.of, known.get("attachments", ())))
            if known.get("reply_handle"):
                known["reply_handle"] = ReplyHandle.of(known["reply_handle"])
            return cls(**known)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"no event: {error}") from error


def _known(kind: Any, dumped: dict[str, Any]) -> dict[str, Any]:
    """Without the fields that a later version has added."""
    return {name: value for name, value in dumped.items() if name in kind.__dataclass_fields__}


def _fields(one: Any) -> dict[str, Any]:
    # Not `asdict`: it copies everything that it walks over, which costs more than the writing.
    kind: Any = type(one)
    names, defaults, read = _shape(kind)
    return {
        name: value
        for name, value, default in zip(names, read(one), defaults, strict=True)
        if default is MISSING or value != default
    }


@functools.cache
def _shape(kind: Any) -> tuple[tuple[str, ...], tuple[Any, ...], Callable[[Any], tuple[Any, ...]]]:
    """The names of a dataclass's fields, the values not worth writing, and what reads all of one's values at once."""
    every = fields(kind)
    names = tuple(one.name for one in every)
    defaults = tuple(one.default if one.default_factory is MISSING else one.default_factory() for one in every)
    kept = {"message_id", "text"}  # pages read them as they are
    return (
        names,
        tuple(MISSING if name in kept else default for name, default in zip(names, defaults, strict=True)),
        attrgetter(*names),
    )
