"""Doors: every way by which a skill could come to a model or a person. One that is off comes through none of them.

Each door is tried with the skill on, where it must open, and with the skill off, where it must not. A tool, a command or a
kind of record that has no row here fails the first test.
"""

from __future__ import annotations

import pkgutil
import re
import secrets
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import aiohttp
import pytest

import workers.tools
from config.profiles import Delivery
from config.settings import Settings
from gateway.audit.log import Change
from gateway.conversation.records import Record
from gateway.events import Actor
from gateway.rights.access import Here
from gateway.shelf.decisions import ORG, scope_of
from gateway.shelf.notes import Draft, Notes
from gateway.store import Store
from skills import contents, parts
from skills.programs import Programs
from tests.gateway.shelf.world import OPS, World
from tests.skills.test_library import write
from tests.skills.test_programs import write_program
from tests.workers.places import Fixed
from tests.workers.places import call as a_call
from tests.workers.records import answer, result, said, use, words
from workers.agent.hints import due
from workers.agent.moves import Pending
from workers.calling.judging import Judge, Runs
from workers.calling.programs import program_tools
from workers.prompt import guidance
from workers.prompt.indexes import Indexes
from workers.prompt.loaded import withhold
from workers.prompt.memo import Memo
from workers.prompt.rendering import messages
from workers.prompt.withholding import why_withheld
from workers.tools import Call, Outside, Tool, ToolError, load_tools

BODY, FILE, NOTE, WHAT = "BODY-7QX", "FILE-7QX", "NOTE-7QX", "DESCRIPTION-7QX"
NAMES: Final = ("ops/triage", "OPS/Triage", "ｏｐｓ／ｔｒｉａｇｅ", "triage", "first-aid", "FIRST-AID", "ops/triage/")
LOOK_ALIKES: Final = ("оps/triage", "ops/triаge", "ops/tr1age")
PROFILE: Final = """
skills: ["*"]
programs: ["*"]
tools: [load_skill, save_skill_reference, web_fetch, current_time]
notes: save
roles: {admin: [slack-main/U-ANA], approver: [slack-main/U-LI]}
"""


@dataclass
class House:
    """A channel with one skill that has everything a skill can have, and whoever tries its doors."""

    world: World
    tools: dict[str, Tool]
    programs: Programs
    notes: Notes
    was: Here = field(init=False)
    """As it was when the skill was on."""
    running: list[Tool] = field(default_factory=list)

    async def begin(self) -> None:
        """A turn begins while all is on."""
        self.was = await self.here()
        self.running = await _programs(self)

    async def here(self) -> Here:
        return await self.world.here()

    async def call(self) -> Call:
        return a_call(
            await self.here(),
            key=secrets.token_hex(8),
            actor=Actor("U-MAX"),
            notes=self.notes,
            at_hand=self.world.shelf.stock.at_hand,
        )

    async def ask(self, tool: str, **arguments: Any) -> str:
        """What the model gets, refusals too."""
        try:
            result = await self.tools[tool].run(arguments, await self.call())
        except ToolError as error:
            return str(error)
        return "\n".join(
            [result.text, *(str(record.data) for record in result.records), *(card.markdown for card in result.cards)]
        )

    async def sent(self, *history: Record) -> str:
        """What the model is sent at the start of a turn that goes on from this history."""
        held_back = withhold(history, partial(why_withheld, await self.here()), turn="two", at_ms=2)
        return str(messages([*history, *held_back, said("go on", "two")]))


@pytest.fixture
async def house(store: Store, tmp_path: Path) -> AsyncIterator[House]:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/default.yaml").write_text(PROFILE)
    world = World(store, tmp_path)
    more = 'alias: first-aid\npaths: ["*.triage"]\ntags: [TAG-7QX]\n'
    folder = write_program(world.root, "ops/triage", "def run(p): return 'RUN-7QX'")
    text = f"---\nname: triage\ndescription: Sorts alarms {WHAT}.\n{more}---\n{BODY}\n"
    (folder / "SKILL.md").write_text(text)
    (folder / "references").mkdir()
    (folder / "references/a.md").write_text(FILE)
    await world.publish()
    settings = Settings()
    async with aiohttp.ClientSession() as http:
        made = House(
            world,
            load_tools(Outside(settings, http)),
            Programs(settings.skills, tmp_path / "cache-one", {}, set()),
            Notes(store),
        )
        await made.begin()
        yield made


# ---- the doors ----


async def index(house: House) -> bool:
    here = await house.here()
    return WHAT in (await Indexes(4_000).of(here.catalogue, here.profile)).text


async def body(house: House, name: str) -> bool:
    return BODY in await house.ask("load_skill", name=name)


async def file(house: House, name: str) -> bool:
    return FILE in await house.ask("load_skill", name=name, file="references/a.md")


async def folder(house: House, name: str) -> bool:
    return "references/a.md" in await house.ask("load_skill", name=name, file=".")


async def note(house: House) -> bool:
    change = Change("k1", "slack-main/U-LI", "slack-main/C-OPS", OPS.channel_id, "test")
    await house.notes.save(change, Draft("ops/triage", "references/n.md", NOTE, "Li", "c"), ask=False)
    return NOTE in await house.ask("load_skill", name="ops/triage", file="references/n.md")


async def nearest(house: House) -> bool:
    return "ops/triage" in await house.ask("load_skill", name="ops/trage")


async def found(house: House) -> bool:
    return WHAT in await house.ask("find_skills", query="alarms sorts")


async def written(house: House, name: str) -> bool:
    await house.ask("save_skill_reference", name=name, file="references/w.md", content="x")
    return bool(await house.notes.read(OPS.channel_id, "ops/triage", "references/w.md"))


async def offered(house: House) -> bool:
    return bool(await _programs(house))


async def run(house: House) -> bool:
    """A program that was offered when the turn began."""
    judge = Judge({tool.name: tool for tool in house.running}, ZoneInfo("UTC"), Memo())
    calls = [Pending("c1", tool.name, {}, 1, None, was_started=False) for tool in house.running]
    here = await house.here()
    return all(isinstance(judge.judge(call, here, ()), Runs) for call in calls)


def asked(**arguments: str) -> dict[str, Any]:
    return {**use("c1", "load_skill"), "input": arguments}


async def delivered(house: House, delivery: Delivery) -> bool:
    """A text that was loaded in an earlier turn."""
    skill = next(one for one in house.was.library.skills.values() if one.id == "ops/triage")
    part = parts.part(f"{BODY}\n", 0, 100)
    made = guidance.record(skill, part, delivery=delivery, call="c1", replaces=None, is_above=False, at_ms=1)
    load = answer(1, asked(name="ops/triage"), stop_reason="tool_use")
    return BODY in await house.sent(said("go"), load, result(1, "c1", "Loaded."), made, answer(2, words("Done.")))


async def read_before(house: House) -> bool:
    """A file that was read in an earlier turn."""
    skill = next(one for one in house.was.library.skills.values() if one.id == "ops/triage")
    load = answer(1, asked(name="ops/triage", file="references/a.md"), stop_reason="tool_use")
    came = result(1, "c1", FILE, skill="ops/triage", bundle=skill.hash, untrusted=True, mark="m")
    return FILE in await house.sent(said("go"), load, came, answer(2, words("Done.")))


async def hinted(house: House) -> bool:
    here = await house.here()
    return "ops/triage" in str([one.data for one in due([said("look", files=["x.triage"])], here.catalogue, 1)])


async def _programs(house: House) -> list[Tool]:
    rights: Any = Fixed(await house.here())
    return await program_tools(house.programs, Settings(), await house.here(), rights)


@dataclass(frozen=True)
class NoWay:
    """A room without a door to skills."""

    why: str


Door = Callable[[House], Awaitable[bool]]
DOORS: Final[dict[str, Door | NoWay]] = {
    "index": index,
    **{f"tool load_skill: text of {name}": partial(body, name=name) for name in NAMES},
    **{f"tool load_skill: file of {name}": partial(file, name=name) for name in NAMES},
    "tool load_skill: list of files": partial(folder, name="ops/triage"),
    "tool load_skill: note": note,
    "tool load_skill: nearest ids": nearest,
    "tool find_skills": found,
    **{f"tool save_skill_reference: {name}": partial(written, name=name) for name in NAMES},
    "tool unload_skill": NoWay("it only takes away"),
    "tool read_result": NoWay("what a program gave when it was allowed to run"),
    "tool web_fetch": NoWay("the web"),
    "tool web_search": NoWay("the web"),
    "tool current_time": NoWay("the clock"),
    "tool send_file": NoWay("what the model wrote itself, or a file of the workspace"),
    "tool ask_person": NoWay("what the model asks, and what people answer"),
    "tool run_command": NoWay("the channel's workspace, which skills are not in"),
    "tool read_file": NoWay("the channel's workspace, which skills are not in"),
    "tool write_file": NoWay("the channel's workspace, which skills are not in"),
    "tool list_files": NoWay("the channel's workspace, which skills are not in"),
    "program: offered": offered,
    "program: run": run,
    "record skill: message": partial(delivered, delivery="message"),
    "record skill: tool_result": partial(delivered, delivery="tool_result"),
    "record skill: next_turn": partial(delivered, delivery="next_turn"),
    "record tool_result": read_before,
    "record hint": hinted,
    "record withheld": NoWay("it names ids, to people and models that had them"),
    "record result": NoWay("what a program gave when it was allowed to run"),
    "record answer": NoWay("what the model said itself"),
    "record event": NoWay("what a person said"),
    "record attached": NoWay("what a person attached"),
    "record overheard": NoWay("what people said"),
    "record file": NoWay("not sent to the model"),
    "record forgotten": NoWay("it names pictures that are gone"),
    "record summary": NoWay("what was said; it is made without texts and files of skills, see test_compaction"),
    "record shortened": NoWay("it names results"),
    "record given": NoWay("what others of the turn found, as data"),
    "record reply": NoWay("what the chat was told"),
    "record card": NoWay("not sent to the model"),
    **{
        f"record {name}": NoWay("not sent")
        for name in (
            "prompt",
            "call",
            "switched",
            "tool_start",
            "dropped",
            "withdrawn",
            "model",
            "asked",
            "decided",
            "unclear",
            "failed",
            "cleared",
            "unreadable",
            "plan",
            "step_done",
            "review",
        )
    },
}


def rooms() -> Iterator[str]:
    """Everything that has to have a row."""
    yield "index"
    yield from (f"tool {module.name}" for module in pkgutil.iter_modules(workers.tools.__path__))
    yield from (f"record {name}" for name in re.findall(r"^    `(\w+)`  ", Record.__doc__ or "", re.MULTILINE))
    yield "program"


def test_every_room_has_its_row() -> None:
    rows = {re.split(":", row)[0] for row in DOORS}
    assert rows == set(rooms())


OPEN: Final = {name: door for name, door in DOORS.items() if not isinstance(door, NoWay)}
doors = pytest.mark.parametrize("door", OPEN)


@doors
async def test_it_opens_while_the_skill_is_on(house: House, door: str) -> None:
    assert await OPEN[door](house)


@doors
@pytest.mark.parametrize("scope", ["channel", "org"])
async def test_it_is_shut_when_the_skill_is_off(house: House, door: str, scope: str) -> None:
    where = ORG if scope == "org" else scope_of(OPS.channel_id)
    await house.world.shelf.switch(where, "ops/triage", "off", house.world.change())
    assert not await OPEN[door](house)


@doors
async def test_it_is_shut_when_the_profile_does_not_list_the_skill(house: House, door: str) -> None:
    (house.world.path / "profiles/default.yaml").write_text(PROFILE.replace('["*"]', "[web-access]", 1))
    house.world.settings()
    assert not await OPEN[door](house)


@doors
async def test_it_is_shut_when_the_switches_cannot_be_read(house: House, door: str) -> None:
    await house.world.store.redis.set(f"{house.world.store.layout.skills_root}:ch:{OPS.channel_id}", "x")
    assert not await OPEN[door](house)


@pytest.mark.parametrize("name", LOOK_ALIKES)
async def test_what_looks_like_its_name_is_nobodys(house: House, name: str) -> None:
    for is_off in (False, True):
        if is_off:
            await house.world.shelf.switch(ORG, "ops/triage", "off", house.world.change())
        for door in (body, file, written):
            assert not await door(house, name)


async def test_a_copy_that_stands_behind_it_does_not_come_forward(house: House) -> None:
    skill = house.world.bundle("ops/triage", description=f"Other {WHAT}.", body=f"{BODY}\n")
    scope = scope_of(OPS.channel_id)
    await house.world.shelf.add(scope, skill, contents.whole(skill), house.world.change())
    assert (await house.here()).find("ops/triage").tier == "org"
    await house.world.shelf.trust(OPS.channel_id, skill, house.world.change())
    assert (await house.here()).find("ops/triage").tier == "channel"
    await house.world.shelf.switch(scope, "ops/triage", "off", house.world.change())
    for name in NAMES:
        assert not await body(house, name)
    assert not await index(house)


SHUT: Final = ("index", "tool find_skills", "tool save_", "program: offered", "record skill", "record hint")


@pytest.mark.parametrize("door", [name for name in OPEN if name.startswith(SHUT)])
async def test_an_added_skill_that_nobody_trusts_is_listed_nowhere_and_guides_nobody(house: House, door: str) -> None:
    await wait_for_trust(house)
    assert not await OPEN[door](house)


@pytest.mark.parametrize("more", [{}, {"file": "references/a.md"}])
async def test_an_added_skill_that_nobody_trusts_may_be_looked_at_as_data(house: House, more: dict[str, str]) -> None:
    await wait_for_trust(house)
    result = await house.tools["load_skill"].run({"name": "ops/triage", **more}, await house.call())
    assert (result.untrusted, result.records) == (True, ())
    assert (FILE if more else BODY) in result.text


async def wait_for_trust(house: House) -> None:
    """In place of the organisation's skill there is one that somebody added to the channel."""
    shutil.rmtree(house.world.root / "ops")
    write(house.world.root, "stays")  # a folder that is empty at once is taken for one that is away
    await house.world.publish()
    skill = house.world.bundle("ops/triage", {"references/a.md": FILE}, description=f"Other {WHAT}.", body=f"{BODY}\n")
    await house.world.shelf.add(scope_of(OPS.channel_id), skill, contents.whole(skill), house.world.change())
