"""S-I6: each way in, with the id of a member who asks for what only an admin may. A way that has no row fails the first test."""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, get_args

import pytest

from config.loading import load
from gateway.app import Gateway, open_parts
from gateway.cli import COMMANDS as CLI
from gateway.commands import WhenBusy, names
from gateway.commands.skill import ALSO, SUBS
from gateway.events import Actor, Attachment, Event
from gateway.rights.access import COMMANDS, CommandUse, Operator, may
from gateway.shelf.audit import read
from gateway.store import Layout
from tests.harness.model_replies import calls, says
from tests.workers.at_desk import WHERE, AtDesk, at_desk

MAX, ANA = Actor("U-MAX", "Ana"), Actor("U-ANA", "Ana")
ASK: Final = "/skill off web-access"
PROFILE: dict[str, Any] = {
    "skills": ["*"],
    "tools": ["load_skill", "current_time"],
    "roles": {"admin": ["chat/U-ANA"], "approver": ["chat/U-LI"]},
    "overhear": 5,
}
Way = Callable[[AtDesk], Awaitable[Any]]


async def taken_over(world: AtDesk) -> None:
    """A worker dies with the command in hand, the next one goes on."""
    async with world.busy(ASK, actor=MAX):
        pass
    await world.work()


async def beside(world: AtDesk) -> None:
    """While a turn of the same conversation waits for the model."""
    assert await world.say("think", actor=ANA) == "new"
    assert await world.say(ASK, actor=MAX) == "new"
    await world.work()


async def by_the_model(world: AtDesk) -> None:
    """The model does what a member tells it, as well as it can."""
    world.model.answer_with([calls("skill", {"off": "web-access"}), calls("load_skill", {"name": ASK}), says("Well.")])
    await world.ask("say it for me", actor=MAX)


def message(**changed: Any) -> Way:
    return lambda world: world.ask(changed.pop("text", ASK), **{"actor": MAX, **changed})


def ignored(**changed: Any) -> Way:
    async def way(world: AtDesk) -> None:
        assert await world.say(ASK, **{"actor": MAX, **changed}) == "ignored"

    return way


VOICE: Final = Attachment("audio", f"{ASK}.ogg", "audio/ogg", 5)
EVENTS: Final[dict[str, Way]] = {
    "event message": message(),
    "event edit": ignored(kind="edit"),
    "event delete": ignored(kind="delete"),
    "event action": message(kind="action", value=ASK.removeprefix("/")),
    "event command": message(kind="command", name="skill", text="off web-access"),
    "event membership": ignored(kind="membership"),
    "event pull": ignored(kind="pull"),
}
"""Every kind of event."""
CARRIED: Final[dict[str, Way]] = {
    "quoted": message(text="what he says", quoted=ASK),
    "in a file's name": message(text="look", attachments=(VOICE,)),
    "forwarded": message(text="look", extra={"forwarded": ASK}),
    "in the sender's name": message(text="hi", actor=replace(MAX, name=ASK)),
    "in a thread of its own": message(where=replace(WHERE, thread="t9")),
    "directly": message(is_direct=True),
    "overheard": ignored(addressed=False),
    "by the model": by_the_model,
    "taken over": taken_over,
}
BUSY: Final[dict[str, Way]] = {"busy waits": message(), "busy beside": beside, "busy overtakes": message(text="/stop")}
ROUTES: Final = {
    "/": "sends on to the page",
    "/healthz": "the process answers",
    "/readyz": "whether Redis and workers are there",
    "/webhooks/{connection}": "events, after the platform's own proof: the rows above",
    "/chat": "the page",
    "/chat/static/{name}": "files that are shipped",
    "/chat/login": "the page's password",
    "/chat/logout": "ends one's own session",
    "/chat/api/conversation": "the browser's own conversation",
    "/chat/api/stream": "the browser's own conversation",
    "/chat/api/files": "a file for a message that follows",
    "/chat/api/messages": "a message of the browser, which is nobody's listed id: the rows above",
    "/chat/api/stop": "the message /stop",
    "/admin": "whoever signed in, each operation with its row in tests/gateway/admin/test_rights.py",
    "/api": "the same",
}


@pytest.fixture
async def world(tmp_path: Path, redis_url: str, layout: Layout) -> AsyncIterator[AtDesk]:
    async with at_desk(tmp_path, redis_url, layout.prefix, profile=PROFILE) as made:
        yield made


async def is_on(world: AtDesk) -> bool:
    course = world.desk.course
    here = await course.shelf.here(WHERE, await course.watched.current())
    return "web-access" in [one.id for one in here.catalogue.skills]


def test_each_way_in_has_its_row() -> None:
    kinds = set(re.findall(r"`(\w+)`", re.search(r'kind: str\n    """(.*?)"""', source(Event), re.DOTALL)[1]))  # type: ignore[index]
    assert {f"event {kind}" for kind in kinds} == set(EVENTS)
    assert {f"busy {one}" for one in get_args(WhenBusy)} == set(BUSY)


def source(kind: type) -> str:
    return inspect.getsource(kind)


def test_each_command_says_whose_it_is() -> None:
    """One that `COMMANDS` does not name is refused to everybody."""
    said = {*names(), *(f"skill {ALSO.get(one, one)}" for one in SUBS if one != "notes")}
    assert said <= set(COMMANDS)


async def test_each_route_has_its_row(tmp_path: Path, redis_url: str, layout: Layout) -> None:
    (tmp_path / "deskmate.yaml").write_text(f"redis: {{key_prefix: {layout.prefix}}}\n")
    parts = await open_parts(load(tmp_path / "deskmate.yaml", variables={}), redis_url, redis_url)
    try:
        paths = {resource.canonical for resource in Gateway(parts).app.router.resources()}
    finally:
        await parts.close()
    unknown = {one for one in paths if one not in ROUTES and not one.startswith(("/admin/", "/api/"))}
    assert not unknown


def test_the_command_line_is_the_operators() -> None:
    """S-I6: whoever has the machine's account; each command says so in the audit log, with that account."""
    assert all(may(Operator("root"), None, CommandUse(name)).allowed for name in COMMANDS)  # type: ignore[arg-type]
    assert CLI


ALL: Final = {**EVENTS, **CARRIED, **BUSY}


@pytest.mark.parametrize("way", ALL)
async def test_a_member_switches_nothing_by_it(world: AtDesk, way: str) -> None:
    assert await is_on(world)
    await ALL[way](world)
    assert await is_on(world)
    assert [one.what for one in await read(world.desk.mailbox.store) if not one.what.endswith("refused")] == []


async def test_an_admin_does_by_the_same_ways(world: AtDesk) -> None:
    """Else the rows above would show nothing."""
    await world.ask(ASK, actor=ANA)
    assert not await is_on(world)
    await world.ask(kind="action", value="skill on web-access", actor=ANA)
    assert await is_on(world)
