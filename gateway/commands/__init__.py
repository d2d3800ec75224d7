"""Commands: one module each, `gateway/commands/<name>.py`, said as `/<name>` in the chat.

A module offers `WHEN_BUSY` (what becomes of it while a turn runs) and `run`.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import pkgutil
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, Protocol

from config.settings import Language
from gateway.conversation.records import Record
from gateway.events import Event
from gateway.phrases import say
from gateway.text.quoting import quoted

if TYPE_CHECKING:  # intake looks commands up by name, and must not load what they work with
    from config.limits import Limit
    from config.loading import Loaded
    from gateway.costs.budgets import Balance
    from gateway.costs.spending import Accounts, Spent
    from gateway.events import Attachment
    from gateway.platforms import Capabilities
    from gateway.rights.pins import Pin
    from gateway.shelf.notes import Notes
    from gateway.shelf.shelf import Shelf

WhenBusy = Literal["waits", "beside", "overtakes"]
"""`waits`: its place in line. `beside`: run and answered at once, beside the turn. `overtakes`: what waits, and the turn
looks at it wherever it is.
"""

Passed = Literal["there", "no_room", "nowhere"]
"""What became of a word for another conversation. `no_room`: too much waits there. `nowhere`: no other one asks for it."""

SHOWN_MAX = 60
"""Characters of a name that is none."""
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
SPOKEN = re.compile(r"/([A-Za-z][A-Za-z0-9_-]{0,31})(?:@\S+)?(?:\s+(.*))?\Z", re.DOTALL)

TALK: Final = frozenset({"plan", "team"})
"""Commands whose rest is talk: the model is told it as any other message, and answers it in another way. Their module's `run`
is for those who said nothing behind it.
"""
_ASK: Final = re.compile(r"\A(?:--|—)ask(?:\s+|\Z)", re.IGNORECASE)
"""In front of such talk, as a word of its own; telephones make one dash of two."""

OVER: Final = "_over"
"""In the place of a message that was one too many, or much too late. No message is read as this: no name of a command begins like that."""

ALSO: Final = {"clear": "new"}
"""Other words for commands. `/clear` and `/new` are one thing: what is not sent any more is the same, and a conversation that
only forgets a part would have two meanings of "before".
"""


@dataclass(frozen=True, slots=True)
class Outside:
    """What a command may use of the world."""

    shelf: Shelf
    notes: Notes
    loaded: Loaded
    """Settings and profiles as they are now."""
    capabilities: Capabilities
    """What can be shown in this chat."""
    download: Callable[[Attachment, int], Awaitable[bytes]]
    """See `gateway.platforms.Adapter.download`."""
    compact: Callable[[], Awaitable[tuple[Record, int] | None]]
    """The record that puts away what was said before, and how many messages that are. None: nothing is left to put away."""
    pass_on: Callable[[Event, str], Awaitable[Passed]]
    """To the conversation of this channel where that code is asked, which answers it. Raises `Unreachable`."""
    spent: Callable[[Sequence[str]], Awaitable[list[Spent]]]
    """See `gateway.costs.spending.spent`."""
    pins: Callable[[Sequence[str]], Awaitable[Mapping[str, Pin]]]
    """See `gateway.rights.pins.Pins.of`."""
    balances: Callable[[Accounts, Sequence[Limit]], Awaitable[list[Balance]]]
    """See `gateway.costs.budgets.balances`."""
    is_guest: Callable[[str], Awaitable[bool | None]]
    """See `gateway.rights.guests.is_guest_by_id`."""


@dataclass(frozen=True, slots=True)
class Said:
    """A command as somebody said it."""

    event: Event
    rest: str
    language: Language
    now_ms: int
    turn: str
    """The id of its turn: the same when a command is run again after a crash."""
    history: Sequence[Record]
    """What was stored of the conversation before, without the turn that runs."""
    outside: Outside
    open: Sequence[Record] = ()
    """What is stored of the turn that runs or waits, for a command that is run beside it."""
    inbox: Sequence[bytes] = ()
    """What else waits in the conversation (members, `gateway.conversation.mailbox.event_of`), in its order."""
    before: int = 0
    """So many of these came before this."""
    skills: Sequence[str] = ()
    """Ids of those whose text the conversation holds."""
    waited: bool = False
    """Messages that nobody had begun were taken along with it (commands that overtake)."""


@dataclass(frozen=True, slots=True)
class Done:
    """What a command leads to: an answer in the chat, and records."""

    text: str
    """Empty: it is answered elsewhere."""
    records: tuple[Record, ...] = ()
    is_private: bool = False
    """The answer is for the person who asked alone, where the platform can do that."""
    is_settled: bool = True
    """Nothing is left to decide: buttons that said this command can go."""
    withdrawn: tuple[bytes, ...] = ()
    """Members of `Said.inbox` that came before: nobody answers them any more. For commands that run beside a turn."""


class Command(Protocol):
    """What a module in this package offers."""

    WHEN_BUSY: WhenBusy
    run: Callable[[Said], Awaitable[Done]]
    """It may run again after a crash: what it changes is named by the turn."""


@functools.cache
def names() -> tuple[str, ...]:
    """All commands there are."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name != OVER))


@functools.cache
def spoken() -> tuple[str, ...]:
    """All words that are a command."""
    return tuple(sorted([*names(), *ALSO]))


def command_of(event: Event) -> tuple[str, str] | None:
    """The command that an event is, and what follows its name. None: it is talk (`/etc/hosts is broken`)."""
    if event.kind == "command":
        return _named(event.name, event.text)
    if event.kind == "action":  # who presses a button says what it carries
        name, _, rest = event.value.strip().partition(" ")
        return _named(name, rest) if name in spoken() else None
    said = SPOKEN.match(event.text.strip()) if event.kind == "message" else None
    return _named(said[1], said[2] or "") if said else None


def _named(name: str, rest: str) -> tuple[str, str]:
    name = name.lower()
    return ALSO.get(name, name), rest.strip()


def said_to_model(event: Event) -> Event | None:
    """What an event says to the model: talk, or the rest of a command that is talk. None: nothing."""
    command = command_of(event)
    if command:
        event = replace(event, text=_ASK.sub("", command[1]))
    return event if (command is None or command[0] in TALK) and not event.is_empty else None


def asks_first(rest: str) -> bool:
    """Whether people want to see the plan before anything is done: `--ask` in front of what they say to such a command."""
    return _ASK.match(rest) is not None


def find(name: str) -> Command | None:
    """The command of this name."""
    if name not in {*names(), OVER}:
        return None
    command: Command = importlib.import_module(f"{__name__}.{name}")
    return command


def unknown(name: str, language: str) -> Done:
    """The answer to a command that there is not."""
    shown = f"/{name}" if _NAME.fullmatch(name) else quoted(f"/{name}", SHOWN_MAX)  # /help is told any word
    near = ", ".join(f"`/{one}`" for one in difflib.get_close_matches(name[:SHOWN_MAX], spoken(), n=3, cutoff=0.65))
    key = "command.unknown_near" if near else "command.unknown"
    return Done(say(key, language, name=shown, near=near))


def misused(name: str, language: str) -> Done:
    """The answer to a command whose words are not understood. Nothing was done."""
    return Done(say("command.wrong", language, name=name, usage=say(f"command.{name}.usage", language)))
