"""Platforms: one module each, `gateway/platforms/<name>.py`, named by the `platform` key of a connection.

A module offers `Settings` (its keys of a connection), `Adapter` and `GUIDE` (how to connect it). The first half of an adapter is pure (bytes in,
events or a refusal out), the second half talks to the platform. Nothing here keeps state of a conversation.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from multidict import CIMultiDict

from config.settings import WebFetchSettings

if TYPE_CHECKING:
    import aiohttp

    from config.settings import Section
    from gateway.boards import Boards
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


def parsed(adapter: Adapter, request: RawRequest, now_s: float) -> list[Event]:
    """What `parse` reads, if everybody and every room in it is what it looks like: lists and roles tell them by their ids.

    Raises `Unauthorized`, `Malformed`.
    """
    events = adapter.parse(request, now_s)
    if odd := next(filter(None, (one.odd_id for one in events)), ""):
        raise Malformed(f"an id with blanks at its ends or unseen characters: {odd[:100]!r}")
    return events


@dataclass(frozen=True, slots=True)
class StepLine:
    """One thing the agent did in a turn, as people see it: a skill loaded, a tool run, a step of a plan."""

    kind: Literal["skill", "tool", "step"]
    name: str
    state: Literal["waiting", "running", "done", "failed", "refused"]
    """Only a plan's steps wait. `refused`: a person said no."""


@dataclass(frozen=True, slots=True)
class Growing:
    """The answer so far, always whole."""

    text: str
    steps: tuple[StepLine, ...] = ()
    markdown: str = ""
    """Steps, said in the person's language, and text: for a platform that shows one message. Empty: nothing to show."""


@dataclass(frozen=True, slots=True)
class Button:
    """A button under a message. Who presses it says `/<command>`, with the rights of whoever presses."""

    label: str
    command: str
    """Such as `skill approve 7F3K`: at most `BUTTON_MAX_BYTES`, the tightest that a platform takes (Telegram's 64)."""
    style: Literal["plain", "primary", "danger"] = "plain"

    def __post_init__(self) -> None:
        if len(self.command.encode()) > BUTTON_MAX_BYTES:
            raise ValueError(f"the command of a button has at most {BUTTON_MAX_BYTES} bytes: {self.command!r}")


BUTTON_MAX_BYTES: Final = 64


@dataclass(frozen=True, slots=True)
class Outbound:
    """What we want to say. `markdown` is CommonMark; the adapter makes its own dialect of it."""

    markdown: str
    is_notice: bool = False
    """Said by the product itself, not by the model."""
    only_for: str | None = None
    """The `Actor.id` of the only person who is to see it, where the platform can do that; else the whole room does."""
    buttons: tuple[Button, ...] = ()
    """Under the last part; at most `Capabilities.buttons`."""


@dataclass(frozen=True, slots=True)
class Part:
    """One message as the platform takes it. JSON: it waits in the outbox."""

    payload: dict[str, Any] = field(default_factory=dict)
    fallback: dict[str, Any] | None = None
    """The same as plain text, for a platform that refuses the markup."""
    only_for: str | None = None
    """As in `Outbound`. Whoever shows it to one alone sends it alike on every try: nobody can look for it."""
    file: Attachment | None = None
    """A file instead of a text; its bytes are in `Outside.files`. Only where `Capabilities.file_max_bytes` allows it."""


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
    scope: Literal["channel", "connection"] = "channel"
    """Of `rate_limited`: whose limit it was."""
    detail: str = ""
    """For the operator's log; never holds a secret."""


@dataclass(frozen=True, slots=True)
class Stream:
    """How a growing answer is shown in one conversation, by `Adapter.show`."""

    kind: Literal["none", "message", "passing"] = "none"
    """`message`: a message of ours, which the reply takes over by an edit. `passing`: something that leaves no trace (a
    page, a draft, a text that the platform comes for); the reply is sent as if nothing had been shown."""
    interval_s: float = 1.0
    """At most one update in this time."""


@dataclass(frozen=True, slots=True)
class Pace:
    """At most so many messages in so many seconds, in each channel or over the whole connection."""

    scope: Literal["channel", "connection"]
    count: int
    per_s: float


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a platform can do."""

    text_limit: int
    limit_unit: Literal["chars", "utf16", "bytes"] = "chars"
    idempotent_send: bool = False
    """The same key twice is one message."""
    key_known_s: float = math.inf
    """For so long after the first try; later nobody can tell."""
    look_back: bool = False
    """`find` can tell whether a message of ours is there."""
    ephemeral: bool = False
    """A message may be shown to one person of the room alone. It may be sent twice, and it is never edited."""
    has_code: bool = True
    """Code is shown as code, in which nobody finds links."""
    columns: int | None = None
    """Cells of a fixed-width line in a code block; none where it has no such type."""
    methods: frozenset[str] = frozenset({"POST"})
    """How it calls us: anything else is 405."""
    buttons: int = 0
    """How many a message may have; 0: none."""
    file_max_bytes: int = 0
    """The largest file that can be sent; 0: none."""
    typing_s: float | None = None
    """How long "is typing" lasts, so that it is said again before. None: there is no such sign."""
    pace: tuple[Pace, ...] = ()
    """What the platform asks of senders; all workers together keep to it."""
    names_parents: bool = False
    """An answer names the message that it is to, and not whose that is: ours are remembered (`Event.parent_id`)."""


TellsGuests = Literal["events", "messages", "nothing"]


@dataclass(frozen=True, slots=True)
class Guide:
    """How an operator connects the platform, step by step. `{name}` is the connection, `{url}` the webhook's address."""

    steps: tuple[str, ...]
    """Markdown, one thing to do each."""
    scopes: tuple[str, ...] = ()
    """What our account has to be allowed to do, in the platform's words."""
    manifest: str = ""
    """A file that the platform's console takes, if it takes one; `{name}` and `{url}` as in steps."""
    manifest_name: str = ""
    """What the console calls it."""
    keys: tuple[str, ...] = ()
    """Keys of the settings that are well set, beside those that must be."""
    anybody_writes: bool = False
    """Whether anybody in the world can write to us directly, not only people of the house."""
    tells_guests: TellsGuests = "events"
    """What says whether somebody is from outside (`Actor.is_guest`): every event; messages alone, so that `is_guest` is asked
    for the others; or nothing, so that nobody is.
    """


class Adapter(Protocol):
    """Everything about one connection. `Unauthorized` and `Malformed` are the only errors of the pure half."""

    capabilities: Capabilities

    def __init__(self, connection: str, settings: Any, outside: Outside) -> None: ...

    @property
    def is_checked(self) -> bool:
        """Whether `identity` asks the platform, so that its answer says something about our credentials."""
        ...

    @property
    def registers(self) -> bool:
        """Whether the platform has a call for the webhook's address: `register`."""
        ...

    @property
    def is_ready(self) -> bool:
        """Whether it can tell what is for us. False: nothing is taken yet, the platform is asked to send again (503) until
        `identity` has answered.
        """
        ...

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

    def stream(self, to: Address) -> Stream:
        """How a growing answer is shown there."""

    # outside
    async def send(self, to: Address, part: Part, key: str) -> Outcome:
        """Send a new message. `key` is the same on every try. Raises nothing but cancellation."""
        ...

    async def edit(self, to: Address, sent: Sent, part: Part) -> Outcome:
        """Replace the text of a message of ours."""
        ...

    async def delete(self, to: Address, sent: Sent) -> Outcome:
        """Take back a growing message of ours that could not become the reply, which was sent anew."""
        ...

    async def find(self, to: Address, key: str, since_ms: int) -> Outcome:
        """With `look_back`: `ok` and `sent` if the message of this key is there, `target_gone` if it is not."""
        ...

    async def show(self, to: Address, growing: Growing, key: str, sent: Sent | None) -> Outcome:
        """The answer so far. `key` is that of the reply's first part, `sent` what an earlier `show` led to (or a holder
        before us). Of kind `message`: `ok` with `sent`, as it is now. A failure is no matter: the reply follows.
        """
        ...

    async def typing(self, to: Address, *, on: bool) -> None:
        """Say that we are at it, or take it back. Raises nothing but cancellation."""
        ...

    async def pressed(self, to: Address, event: Event, text: str, *, is_settled: bool) -> None:
        """A button of ours (`event`, kind `action`) was pressed and what it says was done, or refused: `text`, short.

        End the platform's waiting sign; take the buttons away if it `is_settled`. Raises nothing but cancellation.
        """
        ...

    async def pulled(self, event: Event, *, is_idle: bool) -> HttpReply:
        """The platform came for a text (`event`, kind `pull`). `is_idle`: its conversation has nothing left to do.
        Raises `Unreachable`.
        """
        ...

    async def is_guest(self, event: Event) -> bool | None:
        """Whether who did it is from outside, asked of the platform. None: it does not say. Raises nothing."""
        ...

    async def listen(self, inlet: Inlet) -> None:
        """Where `Settings.listens`: hand over what comes, in order, until cancelled. Comes back from every fault that
        passes; raises `ConnectionRefused` for one that does not.
        """
        ...

    async def download(self, attachment: Attachment, max_bytes: int) -> bytes:
        """A file that came with an event. Raises `NotDownloaded`, for a longer one as well."""
        ...

    async def identity(self) -> Actor:
        """Who we are there. Raises `ConnectionRefused` with a reason that helps the operator."""
        ...

    async def register(self, url: str) -> str:
        """Have the platform send to `url`, where it has a call for that: what was done, in a sentence. Empty: by hand.
        Raises `ConnectionRefused`.
        """
        ...


class Inlet(Protocol):
    """Where a platform's `listen` brings what it hears. One process at a time listens for a connection."""

    async def receive(self, events: Sequence[Event]) -> None:
        """Returns when all are stored, however long that takes."""

    async def recall(self) -> dict[str, Any]:
        """What was remembered last, by this process or the one before; empty if nothing."""
        ...

    async def remember(self, words: dict[str, Any]) -> None:
        """How far it got (JSON), so that whoever listens next goes on from there. Kept for an hour."""


class Plain:
    """What a platform has none of. Adapters inherit it and write what their platform has."""

    @property
    def is_checked(self) -> bool:
        return True

    @property
    def registers(self) -> bool:
        return False

    @property
    def is_ready(self) -> bool:
        return True

    def handshake(self, request: RawRequest) -> HttpReply | None:
        del request
        return None

    def stream(self, to: Address) -> Stream:
        del to
        return Stream()

    async def edit(self, to: Address, sent: Sent, part: Part) -> Outcome:
        del to, sent, part
        return Outcome("rejected", detail="a message can't be changed there")

    async def delete(self, to: Address, sent: Sent) -> Outcome:
        del to, sent
        return Outcome("rejected", detail="a message can't be taken back there")

    async def show(self, to: Address, growing: Growing, key: str, sent: Sent | None) -> Outcome:
        del to, growing, key, sent
        return Outcome("ok")

    async def find(self, to: Address, key: str, since_ms: int) -> Outcome:
        del to, key, since_ms
        return Outcome("rejected", detail="there is no way to look back")

    async def typing(self, to: Address, *, on: bool) -> None:
        """There is no such sign."""

    async def pressed(self, to: Address, event: Event, text: str, *, is_settled: bool) -> None:
        """There are no buttons, or they wait for nothing."""

    async def pulled(self, event: Event, *, is_idle: bool) -> HttpReply:
        del event, is_idle
        return HttpReply()

    async def is_guest(self, event: Event) -> bool | None:
        return event.actor.is_guest

    async def listen(self, inlet: Inlet) -> None:
        del inlet
        raise ConnectionRefused("this platform sends to the webhook's address only")

    async def register(self, url: str) -> str:
        del url
        return ""


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


def own_ms() -> int:
    """This machine's own time, for who is alone with what is written down."""
    return int(time.time() * 1_000)


@dataclass(frozen=True, slots=True)
class Outside:
    """What an adapter may use of the world."""

    http: aiohttp.ClientSession
    feed: Feed
    """Live text for open pages; only the built-in page's platform writes it."""
    files: Files
    """Attached files that came with their message, or were left on the page; and those that we send."""
    boards: Boards
    """Texts that a platform comes for."""
    fetching: WebFetchSettings = field(default_factory=WebFetchSettings)
    """The rules for addresses that came from outside."""
    now_ms: Callable[[], int] = own_ms
    """The server's time: until when a handle lasts is written down by one process and read by another."""


class Platform(Protocol):
    """What a module in this package offers."""

    Settings: type[Section]
    Adapter: type[Adapter]
    GUIDE: Guide
