"""Platforms: one module each, `gateway/platforms/<name>.py`, named by the `platform` key of a connection.

A module offers `Settings` (its keys of a connection) and `Adapter`. The first half of an adapter is pure (bytes in,
events or a refusal out), the second half talks to the platform. Nothing here keeps state of a conversation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from multidict import CIMultiDict

from config.settings import WebFetchSettings

if TYPE_CHECKING:
    import aiohttp

    from config.settings import Section
    from gateway.conversation.key import ConversationKey
    from gateway.events import Actor, Attachment, Event, ReplyHandle
    from gateway.feed import Feed
    from gateway.files import Files


@dataclass(frozen=True, slots=True)
class RawRequest:
    """One HTTP request of a platform, body untouched: signatures are over bytes."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: CIMultiDict[str]
    body: bytes


@dataclass(frozen=True, slots=True)
class HttpReply:
    """What goes back in the same HTTP exchange."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


class Unauthorized(Exception):
    """The request is not proven to come from the platform. `str()` says why, for the operator's log only."""


class Malformed(Exception):
    """The request is proven, and still no event can be read from it."""


@dataclass(frozen=True, slots=True)
class StepLine:
    """One thing the agent did in a turn, as people see it: a skill loaded or a tool run."""

    kind: Literal["skill", "tool"]
    name: str
    state: Literal["running", "done", "failed"]


@dataclass(frozen=True, slots=True)
class Outbound:
    """What we want to say. `markdown` is CommonMark; the adapter makes its own dialect of it."""

    markdown: str
    is_notice: bool = False
    """Said by the product itself, not by the model."""
    only_for: str | None = None
    """The `Actor.id` of the only person who is to see it, where the platform can do that; else the whole room does."""


@dataclass(frozen=True, slots=True)
class Part:
    """One message as the platform takes it. JSON: it waits in the outbox."""

    payload: dict[str, Any]
    fallback: dict[str, Any] | None = None
    """The same as plain text, for a platform that refuses the markup."""
    only_for: str | None = None
    """As in `Outbound`. Whoever shows it to one alone sends it alike on every try: nobody can look for it."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that the platform has: what an edit needs. JSON."""

    message_id: str
    ref: dict[str, Any] = field(default_factory=dict)


OutcomeKind = Literal[
    "ok",
    "rate_limited",  # not accepted; again after `retry_after_s`
    "transient",  # not accepted; again soon
    "ambiguous",  # sent, no answer: it may be there or not
    "bad_format",  # the markup was refused; the fallback may pass
    "too_long",
    "auth_failed",  # our credentials are refused
    "target_gone",  # room deleted, or we were put out
    "rejected",  # any other final no
]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a send, an edit or a look ended."""

    kind: OutcomeKind
    sent: Sent | None = None
    retry_after_s: float | None = None
    detail: str = ""
    """For the operator's log; never holds a secret."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a platform can do."""

    text_limit: int
    limit_unit: Literal["chars", "utf16", "bytes"] = "chars"
    stream: Literal["none", "edit", "snapshot"] = "none"
    """How a growing answer is shown: not at all · a message of ours that is edited · `show` with the whole text."""
    stream_interval_s: float = 1.0
    """At most one update in this time."""
    idempotent_send: bool = False
    """The same key twice is one message."""
    look_back: bool = False
    """`find` can tell whether a message of ours is there."""
    ephemeral: bool = False
    """A message may be shown to one person of the room alone. It may be sent twice, and it is never edited."""
    columns: int | None = None
    """Cells of a fixed-width line in a code block; none where it has no such type."""
    methods: frozenset[str] = frozenset({"POST"})
    """How it calls us: anything else is 405."""


class Adapter(Protocol):
    """Everything about one connection. `Unauthorized` and `Malformed` are the only errors of the pure half."""

    capabilities: Capabilities

    def __init__(self, connection: str, settings: Any, outside: Outside) -> None: ...

    # pure: no I/O, no clock but the one passed in
    def verify(self, request: RawRequest, now_s: float) -> None:
        """Raise `Unauthorized` unless the request is proven to be the platform's."""

    def handshake(self, request: RawRequest) -> HttpReply | None:
        """The answer to a (verified) challenge or ping; none for anything else."""

    def parse(self, request: RawRequest, now_s: float) -> list[Event]:
        """All events of a verified request, in their order; kinds that we don't serve give none."""

    def acknowledge(self, events: Sequence[Event]) -> HttpReply:
        """The success answer, after the events are stored."""

    def render(self, outbound: Outbound) -> list[Part]:
        """The parts to send, each within the platform's limits; never empty."""

    # outside
    async def send(self, to: Address, part: Part, key: str) -> Outcome:
        """Send a new message. `key` is the same on every try. Raises nothing but cancellation."""
        ...

    async def edit(self, to: Address, sent: Sent, part: Part) -> Outcome:
        """Replace the text of a message of ours."""
        ...

    async def find(self, to: Address, key: str, since_ms: int) -> Outcome:
        """With `look_back`: `ok` and `sent` if the message of this key is there, `target_gone` if it is not."""
        ...

    async def show(self, to: Address, text: str, steps: Sequence[StepLine]) -> None:
        """With `stream` = snapshot: the answer so far, whole. A failure is no matter: the reply follows."""
        ...

    async def download(self, attachment: Attachment, max_bytes: int) -> bytes:
        """A file that came with an event. Raises `NotDownloaded`, for a longer one as well."""
        ...

    async def identity(self) -> Actor:
        """Who we are there. Raises `ConnectionRefused` with a reason that helps the operator."""
        ...


class ConnectionRefused(Exception):
    """The platform does not take our credentials, or can't be reached."""


class NotDownloaded(Exception):
    """There is no such file for us now. `str()` says why, for whoever wanted it: `it has 9 bytes, allowed are 8`."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a reply goes. Kept with the turn, so that any worker can send it."""

    conversation: ConversationKey
    extra: dict[str, Any] = field(default_factory=dict)
    """`Event.extra` of the event that is answered."""
    handle: ReplyHandle | None = None


@dataclass(frozen=True, slots=True)
class Outside:
    """What an adapter may use of the world."""

    http: aiohttp.ClientSession
    feed: Feed
    """Live text for open pages; only the built-in page's platform writes it."""
    files: Files
    """Attached files that came with their message, or were left on the page."""
    fetching: WebFetchSettings = field(default_factory=WebFetchSettings)
    """The rules for addresses that came from outside."""


class Platform(Protocol):
    """What a module in this package offers."""

    Settings: type[Section]
    Adapter: type[Adapter]
