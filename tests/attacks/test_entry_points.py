"""S-I6: each way in, with the id of a member who asks for what only an admin may. A way that has no row fails the first test."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, get_args

import click
import pytest
from click.testing import CliRunner

from config.loading import load
from gateway.acts.outcomes import Refusal
from gateway.admin.keys import Keys
from gateway.admin.operations import operations
from gateway.admin.visits import House, Visit
from gateway.app import Gateway, open_parts
from gateway.audit.log import read
from gateway.cli import deskmate
from gateway.cli.acts import user
from gateway.commands import WhenBusy, names
from gateway.commands.skill import ALSO, SUBS
from gateway.conversation.key import ConversationKey
from gateway.conversation.mailbox import Mailbox
from gateway.events import Actor, Attachment, Event
from gateway.intake import Received
from gateway.rights.access import COMMANDS, CommandUse, Operator, may
from gateway.rights.places import place
from gateway.store import Layout, Store
from tests.gateway.cli.test_acts import CONNECTIONS, Typed
from tests.gateway.commands.world import OPS, World, skill_md, zipped
from tests.gateway.conversation.given_up import given_up
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
    (tmp_path / "deskmate.yaml").write_text(f"data: data\nredis: {{key_prefix: {layout.prefix}}}\n")
    parts = await open_parts(load(tmp_path / "deskmate.yaml", variables={}), redis_url, redis_url)
    try:
        paths = {resource.canonical for resource in Gateway(parts).app.router.resources()}
    finally:
        await parts.close()
    unknown = {one for one in paths if one not in ROUTES and not one.startswith(("/admin/", "/api/"))}
    assert not unknown


# ---- the command line ----
# It asks nobody who they are. Whoever can read the settings file, has its secrets and reaches its Redis is the operator, who
# may everything; what keeps members out is the machine's own rights. What it does in the name of a person (`--as`) is theirs.

TYPED: Final[dict[str, str]] = {
    **dict.fromkeys(
        ("up", "gateway", "worker", "listen"), "a process of the operator's: what comes in by it are the rows above"
    ),
    "say": "a message by the page, which is nobody's listed id: the rows above",
    "demo": "a house of its own, which is gone afterwards",
    **dict.fromkeys(
        (
            "connect",
            "doctor",
            "status",
            "explain",
            "usage",
            "audit",
            "audit list",
            "audit export",
            "audit verify",
            "admin tokens",
        ),
        "shows: changes nothing",
    ),
    **dict.fromkeys(("skills list", "skills show", "skills uses", "skills notes list", "skills notes show"), "shows"),
    **dict.fromkeys(("dead list", "dead show"), "shows"),
    **dict.fromkeys(("skills lint", "skills probe", "skills test"), "tries files of the machine, changes nothing"),
    **dict.fromkeys(
        ("roles list", "tools list", "mcp list", "mcp show", "redis where", "rq"), "shows; rq is RQ's own command line"
    ),
    **dict.fromkeys(("config check", "config path", "config reference", "config show"), "the operator's files"),
    "redis adopt": "which data is taken for ours, on this machine",
    "replay": "a turn again, in a Redis of its own",
    "mcp approve": "a line of the operator's: tests/workers/mcp/test_cli.py",
    "mcp revoke": "the same",
    **dict.fromkeys(("dead list", "dead show"), "shows"),
    **dict.fromkeys(("dead retry", "dead drop"), "a line of the operator's: tests/gateway/cli/test_dead.py"),
    **dict.fromkeys(
        (
            *(
                f"skills {name}"
                for name in ("on", "off", "trust", "add", "remove", "reload", "anew", "approve", "reject")
            ),
            *(f"skills notes {name}" for name in ("approve", "reject", "revert", "expire", "promote")),
            *("roles grant", "roles revoke", "tools on", "tools off", "pair", "dead retry", "dead drop"),
            *("admin link", "admin token", "admin revoke", "admin logout"),
        ),
        "acts",
    ),
}
"""Each command that can be typed, and what becomes of rights. `acts`: a line of the operator's account, below."""


def typed_commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[str]:
    if not isinstance(command, click.Group):
        yield " ".join(path)
        return
    if command.invoke_without_command:
        yield " ".join(path)
    context = click.Context(command)
    for name in command.list_commands(context):
        if found := command.get_command(context, name):
            yield from typed_commands(found, (*path, name))


def test_each_command_that_can_be_typed_has_its_row() -> None:
    assert set(typed_commands(deskmate)) == TYPED.keys()


def test_s_i6_the_command_line_is_the_operators() -> None:
    assert all(may(Operator("root"), None, CommandUse(name)).allowed for name in COMMANDS)  # type: ignore[arg-type]


HERE: Final = ("--channel", "slack-main/C-OPS")


@pytest.fixture
async def house(store: Store, layout: Layout, tmp_path: Path) -> World:
    made = World(store, tmp_path, settings=CONNECTIONS.format(prefix=layout.prefix))
    await made.packer.step()
    (tmp_path / "checklist.zip").write_bytes(zipped({"SKILL.md": skill_md("checklist")}))
    return made


async def knocks(house: World, id_: str) -> str:
    key = ConversationKey("slack-main", f"D-{id_}")
    event = Event(kind="message", conversation=key, actor=Actor(id_), dedupe_keys=(id_,), at_ms=1, is_direct=True)
    return (await house.shelf.pairing.ask(place(house.loaded, key), event)).code


async def acts_of(house: World) -> AsyncIterator[tuple[str, tuple[str, ...], str]]:
    """Each row that acts: what is typed, and the kind of its line."""
    notes = [await house.note(f"note {number}", OPS) for number in range(7)]
    for name, kind in (("on", "skill on"), ("off", "skill off")):
        yield f"skills {name}", ("web-access", *HERE), kind
    yield "skills add", (str(house.folder / "checklist.zip"), *HERE), "skill add"
    yield "skills trust", ("checklist", *HERE), "skill trust"
    yield "skills remove", ("checklist", *HERE), "skill remove"
    yield "skills reload", (), "skill reload"
    yield "skills approve", (notes[0], *HERE), "note approve"
    yield "skills reject", (notes[1], *HERE), "note reject"
    yield "skills notes approve", (notes[2], *HERE), "note approve"
    yield "skills notes reject", (notes[3], *HERE), "note reject"
    yield "skills notes revert", (notes[0], *HERE), "note revert"
    yield "skills notes expire", (notes[2], "now", *HERE), "note expire"
    kept = await house.note("kept", OPS, ask=False)
    yield "skills notes promote", (kept, *HERE), "note promote"
    yield "tools off", ("load_skill", *HERE), "tool off"
    yield "tools on", ("load_skill", *HERE), "tool on"
    yield "roles grant", ("slack-main/U-MAX", *HERE), "role grant"
    yield "roles revoke", ("slack-main/U-MAX", *HERE), "role revoke"
    await house.store.redis.delete(f"{house.store.layout.skills_root}:ch:{OPS.channel_id}")
    yield "skills anew", HERE, "skill anew"
    yield "pair", (await knocks(house, "U-NEW"),), "pair accept"
    mailbox = Mailbox(house.store, house.loaded.settings.mailbox)
    await mailbox.open()
    for name in ("retry", "drop"):
        yield f"dead {name}", ((await given_up(mailbox, replace(OPS, thread=name))).id,), f"dead {name}"
    yield "admin link", ("--as", "slack-main/U-MAX"), "admin link"
    yield "admin token", ("--as", "slack-main/U-MAX", "--name", "ci"), "admin token"
    yield "admin revoke", ((await Keys(house.store).tokens())[0].id,), "admin revoke"
    yield "admin logout", (), "admin logout"


async def test_s_i6_what_is_typed_stands_in_the_log_with_the_machines_account(house: World, redis_url: str) -> None:
    typed = Typed(house, redis_url)
    done: set[str] = set()
    async for row, words, kind in acts_of(house):
        before = len(await house.audit())
        typing = asyncio.create_task(typed(*row.split(), *words))
        while not typing.done():  # a reload waits for whoever packs
            await house.packer.step()
            await asyncio.wait([typing], timeout=0.05)
        await typing
        found = [one for one in (await read(house.store, most=500))[before:] if one.what == kind]
        assert [(one.who, one.rule) for one in found] == [(f"operator {user()}", "the command line")], row
        done.add(row)
    assert done == {row for row, what in TYPED.items() if what == "acts"}


@pytest.mark.parametrize("lacks", ["file", "secret"])
async def test_s_i6_without_the_settings_file_and_its_secrets_nothing_is_done(
    house: World, redis_url: str, lacks: str
) -> None:
    file = house.folder / ("deskmate.yaml" if lacks == "secret" else "of-others.yaml")
    env = {"REDIS_URL": redis_url if lacks == "file" else None, "SECRET": None}
    words = ["--config", str(file), "skills", "off", "web-access", "--everywhere"]
    said = await asyncio.to_thread(CliRunner().invoke, deskmate, words, env=env)
    assert said.exit_code != 0
    assert "web-access" in await house.ids()
    assert await house.audit() == []


async def test_s_i6_in_the_name_of_a_person_is_what_that_person_may(house: World, redis_url: str) -> None:
    """A member's token, made by the operator, opens what a member may; and no name makes an operator."""
    typed = Typed(house, redis_url)
    for nobody in ("", "operator root", "root", "slack-main/", "slack-main/*", "elsewhere/U-ANA"):
        assert "--as" in await typed.fails("admin", "token", "--as", nobody, "--name", "ci")
    switch = operations()["skills.switch"]
    parts = House(
        house.store,
        Mailbox(house.store, house.loaded.settings.mailbox),
        house.shelf,
        house.notes,
        lambda: house.loaded,
        nobody_says,
    )
    for id_, is_done in (("U-MAX", False), ("U-ANA", True)):
        secret = (await typed("admin", "token", "--as", f"slack-main/{id_}", "--name", f"ci {id_}")).split()[0]
        caller = replace((await Keys(house.store).token(secret, "peer")).caller, is_guest=False)
        visit = Visit(parts, caller, f"by {id_}", 1, house.loaded)
        given = switch.input.model_validate({"channel": "slack-main/C-OPS", "id": "web-access", "to": "off"})
        if is_done:
            await switch(visit, given)
        else:
            with pytest.raises(Refusal, match="role"):
                await switch(visit, given)
    assert [(one.who, one.what) for one in await read(house.store)] == [
        (f"operator {user()}", "admin token"),
        ("slack-main/U-MAX", "skill off refused"),
        (f"operator {user()}", "admin token"),
        ("slack-main/U-ANA", "skill off"),
    ]


async def nobody_says(events: Sequence[Event]) -> list[Received]:
    raise AssertionError(events)


# ---- the chat ----


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
