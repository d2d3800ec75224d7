"""Operations: what each of them is, who may, and the one way in which one is done."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Final, Generic, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, Field

import gateway.admin
from gateway.acts.outcomes import Refusal
from gateway.admin.visits import Visit
from gateway.conversation.rooms import was_written_in
from gateway.phrases import say
from gateway.rights.access import OF_PAGES, as_given


class Input(BaseModel):
    """What an operation is given."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, hide_input_in_errors=True, defer_build=True
    )


class Result(BaseModel):
    """What comes of one."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, defer_build=True)


ROOM: Final = "^[a-z0-9][a-z0-9-]{0,62}/[^*\\n\ufffd]+$"
Room = Annotated[str, Field(min_length=3, max_length=1_100, pattern=ROOM)]
"""`connection/channel`, such as `slack-main/C0123`: one channel and no pattern, without what stands for a letter that is none."""
Name = Annotated[str, Field(min_length=1, max_length=200)]
Code = Annotated[str, Field(pattern=r"^[A-Za-z0-9]{4,13}$")]
"""Of a note or a request."""
Digits = Annotated[str, Field(pattern=r"^([0-9a-fA-F]{6,64})?$")]
"""The first digits of a hash; empty: whatever it is."""


class Nothing(Input):
    """No fields."""


class InChannel(Input):
    channel: Room
    """`connection/channel`, such as `slack-main/C0123`."""


class Anywhere(Input):
    channel: Room | Annotated[str, Field(max_length=0)] = ""
    """`connection/channel`, such as `slack-main/C0123`; empty: the whole organisation."""


class Told(Result):
    """An act that was done."""

    told: str
    """What came of it, for people."""
    warnings: list[str] = []
    """What may not be as you mean it, in words: such as that nobody has written in the channel yet."""


I = TypeVar("I", bound=Input)  # noqa: E741  # in, and
R = TypeVar("R", bound=Result)  # out


@dataclass(frozen=True, slots=True)
class Seeing:
    """Who may see something."""

    told: str
    check: Callable[[Visit, Input], Awaitable[None]]
    """Raises `Refusal` for all others."""


async def _signed_in(visit: Visit, given: Input) -> None:
    """Each visit is somebody's."""


async def _look(visit: Visit, given: Input) -> None:
    await visit.look(_channel(given))


async def _look_somewhere(visit: Visit, given: Input) -> None:
    del given
    await visit.look_somewhere()


async def _look_everywhere(visit: Visit, given: Input) -> None:
    del given
    visit.look_everywhere()


async def _speak(visit: Visit, given: Input) -> None:
    """The operation asks for the rest: it depends on what the word is about."""
    visit.speaker(_channel(given))


SIGNED_IN: Final = Seeing("whoever is signed in", _signed_in)
LOOK: Final = Seeing(
    "who may switch or trust skills in that channel; for the whole organisation, owners and the operator", _look
)
SOMEWHERE: Final = Seeing("who may switch or trust skills in a channel; of each such channel", _look_somewhere)
EVERYTHING: Final = Seeing("owners and the operator", _look_everywhere)
WORD: Final = Seeing(
    "who may say the word in the chat: approvers, and who it is asked for where the profile lets them", _speak
)


@dataclass(frozen=True, slots=True)
class Act:
    """Who may do something: whoever may give that command, in the chat or (`access.OF_PAGES`) here alone."""

    command: str
    """`skill trust`; `{to}` stands for what the input says in that field."""
    about: str
    """The field that says to what, for the audit log."""

    @property
    def told(self) -> str:
        does = "do" if self.command in OF_PAGES else "say"
        told = f"who may {does} `{as_given(self.command)}` in that channel, with the same rules"
        return f"{told}; everywhere, who may {does} it so, and the operator"

    def of(self, given: Input) -> tuple[str, str]:
        """The command, and what it is about."""
        command = self.command.format(to=getattr(given, "to", ""))
        return command, str(getattr(given, self.about, "")) if self.about else ""

    async def check(self, visit: Visit, given: Input) -> None:
        """Raises `Refusal` for all others."""
        await visit.acts(_channel(given)).may(self.of(given)[0])


@dataclass(frozen=True, slots=True)
class Operation(Generic[I, R]):
    """One thing that can be seen or done."""

    name: str
    """`skills.trust`: subject and function."""
    run: Callable[[Visit, I], Awaitable[R]]
    input: type[I]
    result: type[R]
    who: Seeing | Act
    is_safe: bool
    """It changes nothing."""

    @property
    def summary(self) -> str:
        return (inspect.getdoc(self.run) or "").partition("\n")[0]

    @property
    def description(self) -> str:
        return (inspect.getdoc(self.run) or "").partition("\n")[2].strip()

    async def __call__(self, visit: Visit, given: I) -> R:
        """Do it, if this person may. Raises `Refusal`, which names the rule, and `Unreachable`."""
        try:
            await self.who.check(visit, given)
            warnings = await _warnings(visit, _channel(given)) if isinstance(self.who, Act) and not self.is_safe else []
            done = await self.run(visit, given)
            return done.model_copy(update={"warnings": warnings}) if warnings else done
        except Refusal as refusal:
            if isinstance(self.who, Act):
                await visit.acts(_channel(given)).refused(*self.who.of(given), refusal)
            raise


def operation(
    who: Seeing | Act, *, is_safe: bool = True
) -> Callable[[Callable[[Visit, I], Awaitable[R]]], Operation[I, R]]:
    """Make an operation of a function: its name, its module's, and its types say the rest."""

    def made(run: Callable[[Visit, I], Awaitable[R]]) -> Operation[I, R]:
        types = get_type_hints(run)
        subject = run.__module__.rpartition(".")[2]
        name = f"{subject}.{run.__name__.rstrip('_')}"
        return Operation(name, run, types["given"], types["return"], who, is_safe)

    return made


@cache
def operations() -> Mapping[str, Operation[Any, Any]]:
    """All of them, by name."""
    modules = [
        importlib.import_module(f"{gateway.admin.__name__}.{one.name}")
        for one in pkgutil.iter_modules(gateway.admin.__path__)
    ]
    found = [one for module in modules for one in vars(module).values() if isinstance(one, Operation)]
    return {one.name: one for one in sorted(found, key=lambda one: one.name)}


def _channel(given: Input) -> str:
    return str(getattr(given, "channel", ""))


async def _warnings(visit: Visit, channel: str) -> list[str]:
    """Where it may hold for a channel that there is not, as the command line warns. Raises `Refusal`, `Unreachable`."""
    if not channel or await was_written_in(visit.house.store, visit.key(channel).channel_id) is not False:
        return []
    return [say("admin.unwritten", visit.language, channel=channel)]


_MISSING: Final = re.compile(r"^(no_|unknown|gone$)")


def status_of(refusal: Refusal) -> int:
    """The HTTP status that says best what kind of refusal it is."""
    if refusal.kind in {
        "role",
        "guest",
        "look",
        "operator",
        "owners",
        "hidden",
        "hidden_file",
        "note_waits",
        "note_everywhere",
        "no_person",
    }:
        return 403
    if refusal.kind == "unreadable":
        return 503
    return 404 if _MISSING.match(refusal.kind) else 409
