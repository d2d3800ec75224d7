"""Tools: one module each, `workers/tools/<name>.py`, named in a profile's `tools`. A module offers `Tool`."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    import aiohttp

    from config.profiles import Delivery
    from config.settings import Language, Settings
    from gateway.approvals.asked import Asked
    from gateway.conversation.records import Record
    from gateway.events import Actor, Attachment
    from gateway.platforms import Outbound
    from gateway.rights.access import Here
    from gateway.shelf.notes import Notes
    from gateway.workspace import Workspace
    from skills.folders import Skill
    from skills.programs import Programs

Effect = Literal["read", "idempotent", "once"]
"""`read`: run freely, several at once. `idempotent`: again with the same key. `once`: never again when unsure."""


Reach = Literal["inside", "address", "free"]
"""What of its arguments leaves the house. `inside`: nothing. `address`: the one in `url` is asked for, so that it could
carry something out. `free`: any text."""


class ToolError(Exception):
    """The model asked for something that can't be done. `str()` says what was wrong and what would be right."""

    def __init__(self, why: str, *, untrusted: bool = False, own: bool = False, note: str = "") -> None:
        """`untrusted`, `own` and `note` as in `ToolResult`: an error may be told in words from outside."""
        super().__init__(why)
        self.untrusted = untrusted
        self.own = own
        self.note = note


class NeedsPerson(Exception):
    """The call goes on when a person has answered, with that in `Call.word`. `choices` can be pressed where the chat has
    buttons.
    """

    def __init__(self, question: str, choices: tuple[str, ...] = ()) -> None:
        super().__init__(question)
        self.question = question
        self.choices = choices


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What the model gets back."""

    text: str
    untrusted: bool = True
    """Text from outside: marked as data, not guidance."""
    records: tuple[Record, ...] = ()
    """Records that follow after all results of the batch (a loaded skill's body)."""
    own: bool = False
    """Data all the same, but of what people here trust: no text of third parties is in it."""
    note: str = ""
    """What the product itself says of an untrusted text. It stands in front of the marks, not within."""
    skill: Skill | None = None
    """Whose file or unproven text it holds: it goes from what is sent when that skill does."""
    cards: tuple[Outbound, ...] = ()
    """What people in the chat are shown, each as a message of its own."""
    addresses: tuple[str, ...] = ()
    """Addresses that it read or found: they were not made up by the model."""
    files: tuple[Attachment, ...] = ()
    """Files for the people in the chat, with their `content`."""


@dataclass(frozen=True, slots=True)
class Call:
    """Where and for whom a tool runs. Comes from the server, never from the model."""

    conversation: str
    key: str
    """The same whenever this very call is repeated: hash of turn, step and call."""
    at_ms: int
    """When it was begun, in the server's time: records that it makes are from then."""
    id: str
    """Of the call itself, as the model gave it."""
    actor: Actor | None
    """On whose behalf."""
    language: Language
    """Of what people are shown."""
    delivery: Delivery
    """How the text of a skill reaches the model: as the profile said when the turn began."""
    here: Here
    """What holds in the channel at this moment, over the turn's snapshot."""
    history: tuple[Record, ...]
    """What is in context, batch included so far."""
    at_hand: Callable[[Skill], Awaitable[None]]
    """See that a skill's files lie on this machine. Raises `ToolError`."""
    notes: Notes
    """What was written back to skills."""
    workspace: Workspace
    """The channel's own files."""
    still_ours: Callable[[], None]
    """Raises `Lost` where the conversation is not ours any more. A tool that waits for something first asks right before what
    it can't take back.
    """
    word: Asked | None = None
    """What a person said to what this call asked (`NeedsPerson`)."""
    file_max_bytes: int = 0
    """The largest file that the chat takes; 0: none."""


@dataclass(frozen=True, slots=True)
class Outside:
    """What a tool may use of the world."""

    settings: Settings
    http: aiohttp.ClientSession
    programs: Programs | None = None
    """Runs what wants a sandbox. Without it nothing is run."""


class Tool(Protocol):
    """A function that the model may call."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    """JSON Schema of the arguments: closed (`additionalProperties: false`), every property described."""
    effect: Effect
    reach: Reach

    def __init__(self, outside: Outside) -> None: ...

    async def run(self, arguments: dict[str, Any], call: Call) -> ToolResult:
        """Arguments have passed the schema. Raises `ToolError`, `NeedsPerson`."""
        ...


@runtime_checkable
class OverFiles(Protocol):
    """A tool whose calls do what files of the channel say: a yes to one is a yes to them as they are then."""

    def used(self, arguments: Mapping[str, Any]) -> str | None:
        """The path of the file that a call uses; empty: it uses all. None: none."""
        ...


def load_tools(outside: Outside) -> dict[str, Tool]:
    """All tools that there are, by name: one for each module of this package."""
    modules = (importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__))
    tools = [cast("Tool", module.Tool(outside)) for module in modules]
    return {tool.name: tool for tool in tools}
