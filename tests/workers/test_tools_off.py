"""A tool that a channel's admins switched off: called by nobody there, whatever it is called and however late."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.audit.log import read
from gateway.conversation.key import ConversationKey
from gateway.events import Actor, Attachment
from gateway.rights.skill_tools import ALWAYS_ON, COMES_WITH
from gateway.store import Layout
from skills.programs import tool_name
from tests.end_to_end.requests import results
from tests.gateway.commands.test_skill import RUNS
from tests.gateway.commands.world import skill_md, zipped
from tests.harness.fake_model import Asked
from tests.harness.model_replies import Reply, calls, says, several
from tests.harness.planning import acting, plan
from tests.workers.at_desk import WHERE, AtDesk, at_desk
from tests.workers.room import Room
from workers.agent.breaks import breaks

MAX, LI, ADA = (Actor(f"U-{name.upper()}", name) for name in ("Max", "Li", "Ada"))
ELSEWHERE = ConversationKey("chat", "elsewhere")
FILE: Final = {"name": "a.txt", "content": "words"}
NAMES: Final = ("send_file", "SEND_FILE", "ｓｅｎｄ＿ｆｉｌｅ", "sеnd_file", "send_fi1e", " send_file ")
"""By itself, in another case, wide, with a Cyrillic letter, with a digit that looks like one, with blanks."""
Opened = Callable[..., Awaitable[AtDesk]]


@pytest.fixture
async def opened(tmp_path: Path, redis_url: str, layout: Layout) -> AsyncIterator[Opened]:
    async with AsyncExitStack() as stack:

        async def there(room: Room | None = None, **changed: Any) -> AtDesk:
            profile = {
                "skills": ["*"],
                "tools": ["load_skill", "send_file", "current_time"],
                "roles": {"admin": ["chat/U-ADA"], "approver": ["chat/U-LI"]},
                **changed,
            }
            made = at_desk(tmp_path, redis_url, layout.prefix, room=room, profile=profile)
            return await stack.enter_async_context(made)

        yield there


async def switch(world: AtDesk, to: str, name: str = "send_file", where: ConversationKey = WHERE) -> str:
    return "\n".join(await world.ask(f"/tool {to} {name}", where, actor=ADA))


async def outcome(world: AtDesk, where: ConversationKey = WHERE) -> dict[str, Any]:
    """Of the last call."""
    return [one.data for one in await world.history(where) if one.type == "tool_result"][-1]


def offered(asked: Asked) -> set[str]:
    return {tool["name"] for tool in asked.request.get("tools", ())}


async def test_it_is_refused_in_its_channel_and_alive_in_another(opened: Opened) -> None:
    world = await opened()
    world.model.answer_with(says("Well."))
    await world.ask("hello", actor=MAX)
    assert "`send_file` is off in `chat/room`" in await switch(world, "off")
    world.model.answer_with([calls("send_file", FILE), says("Well.")])
    assert await world.ask("send it", actor=MAX) == ["Well."]
    asked = world.model.asked[-1]
    assert "'send_file' is switched off in this channel, and did not run" in results(asked)[0]["content"]
    assert offered(asked) == {"current_time", *offered(world.model.asked[0])} - {"send_file"}
    done = await outcome(world)
    assert (done["reason"], done["rule"]) == ("off_here", "send_file is switched off in chat/room")
    lines = await read(world.desk.mailbox.store)
    assert [(one.what, one.thing, one.rule) for one in lines if one.what == "tool refused"] == [
        ("tool refused", "send_file", "send_file is switched off in chat/room")
    ]
    [change] = [one for one in lines if one.what == "tool off"]
    assert (change.who, change.thing, change.before) == ("chat/U-ADA", "send_file", "")
    assert '"off"' in change.after

    world.model.answer_with([calls("send_file", FILE), says("Well.")])
    assert "a.txt" in await world.ask("send it", ELSEWHERE, actor=MAX)

    assert "switched off in `chat/room` no longer" in await switch(world, "on")
    world.model.answer_with([calls("send_file", FILE), says("Well.")])
    assert "a.txt" in await world.ask("send it", actor=MAX)
    assert offered(world.model.asked[-1]) == offered(world.model.asked[0])


async def test_the_request_after_it_breaks_the_cache_by_the_prompt_alone(opened: Opened) -> None:
    world = await opened()
    await world.ask("hello", actor=MAX)
    await world.ask("and", actor=MAX)
    await switch(world, "off")
    await world.ask("now", actor=MAX)
    await world.ask("then", actor=MAX)
    history = await world.history()
    at = [number for number, one in enumerate(history) if one.type == "call"]
    assert [breaks(history[:number]) for number in at[1:]] == [(), ("prompt",), ()]


@pytest.mark.parametrize("called", NAMES)
async def test_by_whatever_name_the_model_calls_it(opened: Opened, called: str) -> None:
    world = await opened()
    await switch(world, "off")
    world.model.answer_with([calls(called, FILE), says("Well.")])
    assert await world.ask("send it", actor=MAX) == ["Well."]
    assert (await outcome(world))["error"]


@pytest.mark.parametrize("called", NAMES[:3])
async def test_by_whatever_name_an_admin_says_it(opened: Opened, called: str) -> None:
    world = await opened()
    assert "is off in" in await switch(world, "off", called)
    world.model.answer_with([calls("send_file", FILE), says("Well.")])
    assert await world.ask("send it", actor=MAX) == ["Well."]


@pytest.mark.parametrize("called", NAMES[3:5])
async def test_what_only_looks_like_a_name_is_nobodys(opened: Opened, called: str) -> None:
    world = await opened()
    assert "Perhaps `send_file`?" in await switch(world, "off", called)
    world.model.answer_with([calls("send_file", FILE), says("Well.")])
    assert "a.txt" in await world.ask("send it", actor=MAX)


async def test_switched_off_between_the_models_call_and_its_run(opened: Opened) -> None:
    world = await opened()
    hold = asyncio.Event()
    sends = calls("send_file", FILE)
    world.model.answer_with([Reply(sends.content, "tool_use", hold=hold), says("Well.")])
    async with world.busy("send it", actor=MAX) as claim:
        await world.model.until(lambda: world.model.in_flight == 1)
        told = await world.beside(claim, "/tool off send_file", actor=ADA)
        assert "is off in" in told[0]
        hold.set()
        await world.model.until(lambda: len(world.model.asked) == 2)
    assert "send_file" in offered(world.model.asked[1]), "the prompt of this turn stays what it was"
    assert "is switched off in this channel, and did not run" in results(world.model.asked[1])[0]["content"]
    assert "a.txt" not in world.room.sent


async def test_switched_off_between_two_calls_of_one_step(opened: Opened) -> None:
    world = await opened(approvals={"ask": ["current_time"]})
    world.model.answer_with([several(("current_time", {}), ("send_file", FILE)), says("Well.")])
    [card] = await world.ask("both", actor=MAX)
    await switch(world, "off")
    assert (await world.ask(f"/approve {code_in(card)}", actor=LI))[1:] == ["Well."]
    assert [bool(one.get("is_error")) for one in results(world.model.asked[-1])] == [False, True]


def code_in(card: str) -> str:
    return str(re.findall(r"/approve ([A-Z2-7]{6})", card)[-1])


async def test_a_yes_that_was_asked_for_before_runs_nothing(opened: Opened) -> None:
    world = await opened(approvals={"ask": ["send_file"]})
    world.model.answer_with([calls("send_file", FILE), says("Well.")])
    [card] = await world.ask("send it", actor=MAX)
    await switch(world, "off")
    told = await world.ask(f"/approve {code_in(card)}", actor=LI)
    assert "a.txt" not in told
    assert told[-1] == "Well."
    assert (await outcome(world))["reason"] == "off_here"


async def test_an_always_runs_nothing_until_it_is_on_again(opened: Opened) -> None:
    world = await opened(tools=["write_file"], approvals={"ask": ["write_file"], "tainted": "allow"})
    write = calls("write_file", {"path": "a.txt", "content": "x"})
    world.model.answer_with([write, says("Well.")])
    [card] = await world.ask("write it", actor=MAX)
    await world.ask(f"/approve {code_in(card)} always", actor=LI)
    assert not (await outcome(world)).get("error")
    for to, reason in (("off", "off_here"), ("on", None)):
        await switch(world, to, "write_file")
        world.model.answer_with([write, says("Well.")])
        assert await world.ask("again", actor=MAX) == ["Well."]
        assert (await outcome(world)).get("reason") == reason


async def test_in_the_steps_of_a_plan(opened: Opened) -> None:
    world = await opened()
    await switch(world, "off")
    parts = {"plan": plan(("a", "send it", [])), "a": [calls("send_file", FILE), says("Not sent.")]}
    world.model.answer_with(acting(parts))
    assert (await world.ask("/plan send it", actor=MAX))[-1] == "Not sent."
    assert "a.txt" not in world.room.sent
    assert "is switched off in this channel" in results(world.model.asked[-1])[0]["content"]


async def test_a_worker_that_takes_the_turn_over_refuses_it_too(opened: Opened) -> None:
    world = await opened()
    world.model.answer_with([calls("current_time"), says("never", hold=asyncio.Event())])
    async with world.busy("send it", actor=MAX) as claim:
        await world.model.until(lambda: len(world.model.asked) == 2)
        await world.beside(claim, "/tool off send_file", actor=ADA)
    world.model.answer_with([calls("send_file", FILE), says("Well.")])
    store = world.desk.mailbox.store
    await store.redis.zadd(f"{store.layout.root(0)}:due", {WHERE.id: 0}, xx=True)  # its lease has run out
    await world.work()
    assert world.room.sent[-1] == "Well."
    assert "a.txt" not in world.room.sent


async def test_a_program_is_refused_in_the_audit_log_by_its_skills_id(opened: Opened) -> None:
    skill = zipped({"SKILL.md": skill_md("triage"), **RUNS})
    world = await opened(Room({"triage.zip": skill}))
    await world.ask("/skill add", actor=ADA, attachments=(Attachment("file", "triage.zip", "", 900),))
    await world.ask("/skill trust triage", actor=LI)
    world.model.answer_with([calls(tool_name("triage"), {}), says("Well.")])
    await world.ask("run it", actor=MAX)
    lines = await read(world.desk.mailbox.store)
    assert [one.thing for one in lines if one.what == "tool refused"] == ["triage"]


@pytest.mark.parametrize("name", sorted({*ALWAYS_ON, *COMES_WITH}))
async def test_what_reaches_nothing_new_stays_and_says_why(opened: Opened, name: str) -> None:
    world = await opened()
    told = await switch(world, "off", name)
    assert "can't be switched off" in told if name in ALWAYS_ON else "comes with `load_skill`" in told
    assert not [one for one in await read(world.desk.mailbox.store) if one.what == "tool off"]


async def test_without_load_skill_nothing_is_listed_or_found_and_what_was_loaded_can_be_put_away(
    opened: Opened,
) -> None:
    world = await opened()
    await switch(world, "off", "load_skill")
    world.model.answer_with([calls("find_skills", {"query": "web"}), says("Well.")])
    await world.ask("find", actor=MAX)
    assert offered(world.model.asked[-1]) == {"send_file", "current_time", "unload_skill"}
    assert (await outcome(world))["rule"] == "load_skill is switched off in chat/room"
    assert "web-access" not in world.model.asked[-1].body.decode()
    await world.ask("hello", ELSEWHERE, actor=MAX)
    assert "web-access" in world.model.asked[-1].body.decode()


async def test_without_load_skill_no_file_brings_word_of_a_skill(opened: Opened) -> None:
    skill = zipped({"SKILL.md": skill_md("triage", more='paths: ["*.triage"]\n')})
    world = await opened(Room({"triage.zip": skill, "a.triage": b"x"}))
    zip_, file = Attachment("file", "triage.zip", "", 900), Attachment("file", "a.triage", "text/plain", 1)
    await world.ask("/skill add", actor=ADA, attachments=(zip_,))
    await world.ask("/skill trust triage", actor=LI)
    hints = []
    for to in ("on", "off"):
        await switch(world, to, "load_skill")
        await world.ask("look", actor=MAX, attachments=(file,))
        hints.append(len([one for one in await world.history() if one.type == "hint"]))
    assert hints == [1, 1]


async def test_where_the_switches_cannot_be_read_no_tool_runs(opened: Opened) -> None:
    world = await opened()
    store = world.desk.mailbox.store
    await store.redis.hset(f"{store.layout.skills_root}:ch:{WHERE.channel_id}", mapping={"rev": "7", "tool:x": "junk"})
    world.model.answer_with([calls("send_file", FILE), says("Well.")])
    await world.ask("send it", actor=MAX)
    assert "a.txt" not in world.room.sent
    assert offered(world.model.asked[-1]) == set()
