"""Commands as doors: what a member gets of a skill that is off, by each command and subcommand that there is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import pytest

from gateway import commands
from gateway.audit.log import Change
from gateway.commands.skill import SUBS
from gateway.shelf.notes import Draft
from gateway.store import Store
from tests.gateway.commands.world import ANA, MAX, OPS, World, skill_md

BODY, NOTE = "BODY-9WK", "NOTE-9WK"


async def shown(world: World) -> bool:
    return BODY in await world.told("/skill show ops/triage", MAX)


async def note_shown(world: World) -> bool:
    change = Change("n1", "slack-main/U-LI", "slack-main/C-OPS", OPS.channel_id, "test", 1)
    draft = Draft("ops/triage", "references/n.md", NOTE, "Li", "c")
    code = (await world.notes.save(change, draft, ask=False)).note.code
    return NOTE in await world.told(f"/skill notes show {code}", MAX)


NO_TEXT: Final = "it says that there is such a skill and why it is not on, and nothing of its text"
NEEDS_ROLE: Final = "only for those who look after skills"
Door = Callable[[World], Awaitable[bool]]
DOORS: Final[dict[str, Door | str]] = {
    "/skill list": NO_TEXT,
    "/skill show": shown,
    "/skill notes": "names of files, codes and who wrote",
    "/skill notes list": "names of files, codes and who wrote",
    "/skill notes show": note_shown,
    **{
        f"/skill {name}": NEEDS_ROLE
        for name in (
            "on",
            "off",
            "trust",
            "reload",
            "add",
            "remove",
            "notes revert",
            "notes expire",
            "approve",
            "reject",
        )
    },
    "/answer": "the word on a question",
    "/approve": "the word on a call, which is judged afresh",
    "/deny": "the word on a call",
    "/compact": "what is put away is summed up without texts of skills",
    "/hitl": "which calls wait for a yes",
    "/tool": "names of tools, and ids of skills that run, with the rule that decides on each",
    "/help": "names of commands",
    "/pair": "who wrote, and who was let in",
    "/role": "who may what",
    "/plan": "without a task, how it is said",
    "/team": "without a task, how it is said",
    "/model": "names of models",
    "/new": "ends what was said",
    "/stop": "ends what runs",
    "/queue": "what people wrote",
    "/status": "ids of skills whose text the conversation holds",
    "/usage": "figures",
    "/why": "what the last answer did, and what may be asked for now",
}


def test_every_command_has_its_row() -> None:
    there = {f"/skill {name}" for name in SUBS} | {f"/{name}" for name in commands.names() if name != "skill"}
    assert set(DOORS) == there


@pytest.fixture
async def world(store: Store, tmp_path: Path) -> World:
    made = World(store, tmp_path)
    folder = made.org / "ops" / "triage"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(skill_md("triage", body=f"{BODY}\n"))
    await made.packer.step()
    return made


@pytest.mark.parametrize("name", [name for name, door in DOORS.items() if not isinstance(door, str)])
async def test_a_member_comes_through_it_only_while_the_skill_is_on(world: World, name: str) -> None:
    door = DOORS[name]
    assert not isinstance(door, str)
    assert await door(world)
    await world.say("/skill off ops/triage", ANA)
    assert not await door(world)


async def test_no_command_gives_a_member_the_text_of_a_skill_that_is_off(world: World) -> None:
    await world.say("/skill off ops/triage", ANA)
    for name in SUBS:
        assert BODY not in await world.told(f"/skill {name} ops/triage", MAX)
    for name in commands.names():
        assert BODY not in await world.told(f"/{name}", MAX)
