"""A yes to a call that does what files of the channel say is a yes to them as they were then."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.events import Actor
from gateway.store import Layout
from tests.harness.model_replies import calls, says
from tests.workers.at_desk import AtDesk, at_desk
from tests.workers.calling.test_persons import OTHER_THREAD, code_in, results

LI, ANA = Actor("U-LI", "Li"), Actor("U-ANA", "Ana")


@pytest.fixture
async def world(tmp_path: Path, redis_url: str, layout: Layout) -> AsyncIterator[AtDesk]:
    profile = {
        "tools": ["run_command", "send_file", "write_file"],
        "approvals": {"ask": ["run_command", "send_file"]},
        "roles": {"approver": ["chat/U-LI"]},
    }
    async with at_desk(tmp_path, redis_url, layout.prefix, profile=profile) as opened:
        yield opened


async def write(world: AtDesk, path: str, content: str) -> None:
    """Somebody else has the model write a file, in another conversation of the channel."""
    world.model.answer_with([calls("write_file", {"path": path, "content": content}), says("Written.")])
    await world.ask("write it", OTHER_THREAD, actor=ANA)


async def asks(world: AtDesk, tool: str, **arguments: Any) -> str:
    world.model.answer_with([calls(tool, arguments), says("Done.")])
    return code_in(await world.ask("do it"))


async def says_yes(world: AtDesk, code: str) -> str:
    """What the model is told of the call."""
    world.model.answer_with(says("Done."))
    await world.ask(f"/approve {code}", actor=LI)
    return results(world.model.asked[-1])[-1]


async def test_a_file_that_was_changed_meanwhile_is_not_sent(world: AtDesk) -> None:
    """S-A5: the hash of what was looked at differs."""
    await write(world, "r.txt", "public")
    code = await asks(world, "send_file", path="./R.txt")
    await write(world, "r.txt", "secret")
    told = await says_yes(world, code)
    assert "It did not run. Changed:" in told
    assert "r.txt: changed" in told
    assert not [part for _, part in world.room.parts if part.file]


async def test_a_file_that_is_there_only_since_then_is_not_sent(world: AtDesk) -> None:
    code = await asks(world, "send_file", path="r.txt")
    await write(world, "r.txt", "secret")
    assert "r.txt: new" in await says_yes(world, code)


async def test_what_the_call_does_not_use_may_change(world: AtDesk) -> None:
    await write(world, "r.txt", "public")
    code = await asks(world, "send_file", path="r.txt")
    await write(world, "other.txt", "words")
    assert "goes to the chat" in await says_yes(world, code)


@pytest.mark.sandbox
@pytest.mark.parametrize("changed", [("deploy.sh", "echo EVIL"), ("lib.sh", "echo EVIL"), ("deploy.sh", "")])
async def test_a_command_runs_over_the_files_that_were_there_when_it_was_asked_for(
    world: AtDesk, changed: tuple[str, str]
) -> None:
    await write(world, "deploy.sh", "echo harmless")
    code = await asks(world, "run_command", command="sh deploy.sh")
    await write(world, *changed)
    told = await says_yes(world, code)
    assert "It did not run. Changed:" in told
    assert f"{changed[0]}: {'new' if changed[0] == 'lib.sh' else 'changed' if changed[1] else 'gone'}" in told
    assert "EVIL" not in told
    code = await asks(world, "run_command", command="cat *.sh")
    assert "Exit code" in await says_yes(world, code)
