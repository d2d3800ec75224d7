"""Guests talk. On their behalf nothing is changed, and they decide nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.approvals.asked import asked_in, decided
from gateway.audit.log import read
from gateway.conversation.records import Record
from gateway.events import Actor
from gateway.platforms import Outcome
from gateway.store import Layout
from tests.gateway.conversation.world import until as until_true
from tests.harness.model_replies import calls, says
from tests.harness.planning import acting, plan
from tests.harness.processes import until
from tests.workers.at_desk import WHERE, AtDesk, at_desk

GUS = Actor("U-GUS", "Gus", is_guest=True)
LIS = Actor("U-LIS", "Lis")
MAX, ANA = Actor("U-MAX", "Max"), Actor("U-ANA", "Ana", is_guest=True)
"""Ana is an admin whom the platform takes for a guest: a line that names her counts for more."""
PROFILE: dict[str, Any] = {
    "tools": ["send_file", "current_time", "ask_person"],
    "roles": {"admin": ["chat/U-ANA"], "guest": ["chat/U-LIS"]},
}
FILE = {"name": "a.txt", "content": "words"}
Opened = Callable[..., Awaitable[AtDesk]]


@pytest.fixture
async def opened(tmp_path: Path, redis_url: str, layout: Layout) -> AsyncIterator[Opened]:
    async with AsyncExitStack() as stack:

        async def there(**changed: Any) -> AtDesk:
            made = at_desk(tmp_path, redis_url, layout.prefix, profile={**PROFILE, **changed})
            return await stack.enter_async_context(made)

        yield there


async def outcome(world: AtDesk) -> dict[str, Any]:
    """Of the last call."""
    return [one.data for one in await world.history() if one.type == "tool_result"][-1]


@pytest.mark.parametrize(
    ("who", "reason"), [(GUS, "guest"), (LIS, "guest"), (MAX, None), (ANA, None), (Actor("U-NEW"), None)]
)
async def test_on_behalf_of_a_guest_nothing_is_changed(opened: Opened, who: Actor, reason: str | None) -> None:
    world = await opened()
    world.model.answer_with([calls("current_time"), calls("send_file", FILE), says("Well.")])
    told = await world.ask("send it", actor=who)
    assert told[-1] == "Well."
    assert ("a.txt" in told) == (reason is None)
    done = await outcome(world)
    assert done.get("reason") == reason
    if reason:
        assert "guests" in done["text"]
        [line] = [one for one in await read(world.desk.mailbox.store) if one.what == "tool refused"]
        assert (line.who, line.thing) == (f"chat/{who.id}", "send_file")
        assert line.rule == (
            "profiles/default.yaml line 5: roles.guest"
            if who is LIS
            else "the platform says that chat/U-GUS is from outside"
        )


async def test_the_model_reads_skills_for_a_guest(opened: Opened) -> None:
    world = await opened(tools=["load_skill", "send_file"], skills=["*"])
    skill = {"name": "web-access"}
    world.model.answer_with([calls("load_skill", skill), calls("unload_skill", skill), says("I know how.")])
    await world.ask("how do you reach the web?", actor=GUS)
    done = [one.data for one in await world.history() if one.type == "tool_result"]
    assert [one["name"] for one in done] == ["load_skill", "unload_skill"]
    assert not any(one.get("error") for one in done), done


async def test_a_turn_may_what_the_least_of_those_may_who_wrote_in_it(opened: Opened) -> None:
    world = await opened(queue={"mode": "collect"})
    world.model.answer_with([calls("send_file", FILE), says("Well.")])
    assert await world.say("what do you think?", actor=GUS) == "new"
    assert await world.say("send it", actor=MAX) == "new"
    await world.work()
    assert (await outcome(world))["reason"] == "guest"


async def test_guests_are_members_where_the_profile_says_so(opened: Opened) -> None:
    world = await opened(guests="member")
    world.model.answer_with([calls("send_file", FILE), says("Well.")])
    assert "a.txt" in await world.ask("send it", actor=GUS)


async def test_guests_are_not_answered_where_the_profile_says_so_and_nothing_they_write_is_kept(opened: Opened) -> None:
    world = await opened(guests="nothing")
    [told] = await world.ask("CANARY", actor=GUS)
    assert "don't answer guests" in told
    assert await world.say("CANARY", actor=GUS) == "ignored"
    assert await world.ask("hello", actor=MAX) == ["Well."]
    assert "CANARY" not in str(world.model.asked[-1].request)


COMMANDS = [
    "/status",
    "/new",
    "/skill",
    "/skill list",
    "/hitl",
    "/queue",
    "/model x",
    "/plan build it",
    "/role",
    "/why",
]


@pytest.mark.parametrize("text", COMMANDS)
async def test_of_commands_they_have_help_and_stop(opened: Opened, text: str) -> None:
    world = await opened()
    [told] = await world.ask(text, actor=GUS)
    assert "not for guests" in told
    assert "not for guests" not in (await world.ask("/help", actor=GUS))[0]
    assert "not for guests" not in (await world.ask("/stop", actor=GUS))[0]
    assert not world.model.asked


async def test_a_guest_stops_what_is_theirs_and_nothing_else(opened: Opened) -> None:
    world = await opened()
    assert await world.say("one", actor=MAX) == "new"
    assert await world.say("/stop", actor=GUS) == "new"
    await world.work()
    assert "not for guests" in world.room.sent[0]
    assert world.room.sent[1:] == ["Well."], "what the member wrote is answered all the same"
    assert await world.say("two", actor=GUS) == "new"
    assert "Stopped" in (await world.ask("/stop", actor=GUS))[0]


async def test_who_may_not_stop_a_turn_is_told_so_while_it_runs_and_the_turn_goes_on(opened: Opened) -> None:
    world, hold = await opened(), asyncio.Event()
    world.model.answer_with(says("Well.", hold=hold))
    async with world.busy("one", actor=MAX) as claim:
        await world.model.until(lambda: world.model.in_flight == 1)
        [told] = await world.beside(claim, "/stop", actor=GUS)
        assert "not for guests" in told
        assert world.room.parts[0][1].only_for == "U-GUS", "nobody else has to read it"
        assert await world.desk.mailbox.waiting(WHERE.id) == ([], []), "it is answered"
        assert await world.beside(claim, "/stop", actor=GUS) == [told], "and so is the next one"
        assert world.model.in_flight == 1
        hold.set()
        await until(lambda: claim.lost)  # given back
    await world.work()
    assert world.room.sent == [told, told, "Well."]
    records = await world.history()
    assert [one.data["event"]["text"] for one in records if one.type == "withdrawn"] == ["/stop", "/stop"]
    assert "/stop" not in str(world.model.asked[-1].request["messages"])
    assert len([one for one in await read(world.desk.mailbox.store) if one.what == "stop refused"]) == 2


async def test_who_may_stops_it_whatever_others_were_told(opened: Opened) -> None:
    world, hold = await opened(), asyncio.Event()
    world.model.answer_with(says("Well.", hold=hold))
    async with world.busy("one", actor=MAX) as claim:
        await world.model.until(lambda: world.model.in_flight == 1)
        await world.beside(claim, "/stop", actor=GUS)
        assert await world.beside(claim, "/stop", actor=MAX) == ["Stopped."]


async def test_a_turn_that_waits_for_a_yes_tells_it_too_and_waits_on(opened: Opened) -> None:
    world = await opened(approvals={"ask": ["send_file"]}, roles={"approver": ["chat/U-ANA"]})
    world.model.answer_with([calls("send_file", FILE), says("Well.")])
    await world.ask("send it", actor=MAX)
    [told] = await world.ask("/stop", actor=GUS)
    assert "not for guests" in told
    code = next(one.data["code"] for one in await world.history() if one.type == "asked")
    assert "Well." in await world.ask(f"/approve {code}", actor=ANA)


@pytest.mark.parametrize("dies", ["before it is answered", "before the answer is sent"])
async def test_it_is_told_once_whoever_goes_on(opened: Opened, dies: str) -> None:
    world, hold = await opened(), asyncio.Event()
    world.model.answer_with(says("Well.", hold=hold))
    async with world.busy("one", actor=MAX) as claim:
        await world.model.until(lambda: world.model.in_flight == 1)
        world.room.outcomes = [Outcome("rate_limited", retry_after_s=0.01)]
        assert await world.say("/stop", actor=GUS) == "new"
        if dies == "before the answer is sent":
            claim.news.set()
            async with asyncio.timeout(5):
                while world.room.outcomes:
                    await asyncio.sleep(0.01)
    hold.set()
    world.room.outcomes = []
    await world.desk.mailbox.hand_over(claim)
    await world.work()
    told, reply = world.room.sent
    assert "not for guests" in told
    assert reply == "Well."
    assert await world.desk.mailbox.waiting(WHERE.id) == ([], [])


async def test_a_command_that_asks_the_model_is_not_theirs_to_stop_either(opened: Opened) -> None:
    world, hold = await opened(), asyncio.Event()
    for number in range(1, 8):
        await world.ask(f"question {number}.", actor=MAX)
    world.model.answer_with(says("What was said.", hold=hold))
    async with world.busy("/compact", actor=MAX) as claim:
        await world.model.until(lambda: world.model.in_flight == 1)
        [told] = await world.beside(claim, "/stop", actor=GUS)
        assert "not for guests" in told
        assert world.model.in_flight == 1
        hold.set()
        await until(lambda: claim.lost)
    assert any(one.type == "summary" for one in await world.history())


async def test_a_guest_approves_nothing_and_answers_only_what_they_are_asked_themselves(opened: Opened) -> None:
    world = await opened(approvals={"ask": ["send_file"]})
    world.model.answer_with([calls("ask_person", {"question": "Which?"}), says("Well."), says("Yes.")])
    [card] = await world.ask("go", actor=MAX)
    code = next(word for word in card.replace("`", " ").split() if len(word) == 6 and word.isupper())
    assert "not for guests" in (await world.ask(f"/answer {code} this", WHERE, actor=GUS))[0]
    assert "not for guests" in (await world.ask(f"/approve {code}", WHERE, actor=GUS))[0]


@pytest.mark.parametrize("plans", [False, True])
async def test_a_yes_is_that_of_a_guest_when_it_is_looked_at_again(opened: Opened, tmp_path: Path, plans: bool) -> None:
    """Between the word and the call the profile ends that guests may what members may."""
    world = await opened(guests="member", approvals={"ask": ["send_file"]})
    if plans:
        world.model.answer_with(acting({"plan": plan(("a", "Do it.", [])), "a": says("Done.")}))
    else:
        world.model.answer_with([calls("send_file", FILE), says("Well.")])
    [card] = await world.ask("/plan --ask x" if plans else "send it", actor=MAX)
    code = next(word for word in card.replace("`", " ").split() if len(word) == 6 and word.isupper())
    profile, loaded = tmp_path / "profiles/default.yaml", await world.desk.watched.current()
    original = world.desk.mailbox.take

    async def changed() -> bool:
        return (await world.desk.watched.current()) is not loaded

    async def then_guests_may_nothing(*arguments: Any, **named: Any) -> None:
        await original(*arguments, **named)
        profile.write_text(profile.read_text().replace("guests: member", "guests: talk"))
        await until_true(changed, 10.0)

    world.desk.mailbox.take = then_guests_may_nothing  # type: ignore[method-assign]
    await world.ask(f"/approve {code}", actor=replace(MAX, is_guest=True))
    assert [one.data["is_guest"] for one in await world.history() if one.type == "decided"] == [True]
    if plans:
        assert "Done." not in world.room.sent
    else:
        done = await outcome(world)
        assert done["rule"] == "the platform says that chat/U-MAX is from outside"
        assert "may not do so any more" in done["text"]


async def test_a_yes_of_which_nobody_kept_whether_it_was_a_guests_is_one() -> None:
    """As an earlier version wrote it."""
    asked = Record("asked", 1, {"code": "ABCDEF", "kind": "approval", "call": "c", "until_ms": 9, "requester": "U-MAX"})
    [before] = asked_in([asked, Record("decided", 2, {"code": "ABCDEF", "word": "yes", "by": "U-MAX"})])
    assert before.who.is_guest is None
    [now] = asked_in([asked, decided(before, "yes", 2, turn="t", by=MAX)])
    assert now.who == MAX


async def test_who_is_not_answered_is_not_overheard(opened: Opened) -> None:
    world = await opened(guests="nothing", overhear=5)
    assert await world.say("CANARY", actor=GUS, addressed=False) == "ignored"
    assert await world.say("hear me", actor=MAX, addressed=False) == "ignored"
    await world.ask("what did they say?", actor=MAX)
    sent = str(world.model.asked[-1].request)
    assert "hear me" in sent
    assert "CANARY" not in sent
