"""Which of what people write answers which question, wherever it waits and whatever it brings."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.approvals.asked import asked_in
from gateway.conversation.outbox import Row
from gateway.conversation.records import Record
from gateway.events import Actor, Attachment
from gateway.store import Layout
from tests.harness.fake_model import Asked
from tests.harness.model_replies import calls, says, several
from tests.harness.planning import acting, part, plan, said
from tests.workers.at_desk import WHERE, AtDesk, at_desk
from tests.workers.room import Room
from workers.calling.hearing import named_as

ANA, EVE, BOT = Actor("U-ANA", "Ana"), Actor("U-EVE", "Eve"), Actor("B-CI", "CI", is_bot=True)
TWO_ASK = plan(("a", "ask a", []), ("b", "ask b", []), ("c", "tell", ["a", "b"]))
NOTE = Attachment("file", "note.txt", "text/plain", 10)
PARTS = {
    "plan": TWO_ASK,
    "a": [calls("ask_person", {"question": "Which year?"}), says("A done.")],
    "b": [calls("ask_person", {"question": "Which city?"}), says("B done.")],
    "c": says("All done."),
    "talk": says("Hm."),
}


@pytest.fixture
async def world(tmp_path: Path, redis_url: str, layout: Layout) -> AsyncIterator[AtDesk]:
    profile = {"tools": ["ask_person"], "other_bots": "answer", "roles": {"guest": ["chat/U-EVE"]}}
    room = Room({"note.txt": b"It was 2024.", "other.txt": b"Or 2025."}, buttons=5)
    async with at_desk(tmp_path, redis_url, layout.prefix, room=room, profile=profile) as opened:
        opened.model.answer_with(acting(PARTS))
        yield opened


async def codes(world: AtDesk) -> dict[str, str]:
    """Of what is asked, by its question."""
    return {one.data["question"]: one.data["code"] for one in await world.history() if one.type == "asked"}


def asked_by(world: AtDesk, name: str) -> list[Asked]:
    return [one for one in world.model.asked if part(one) == name]


async def row_of(world: AtDesk, question: str) -> Row:
    rows = (await world.desk.mailbox.load(WHERE.id)).rows
    return next(row for row in rows if question in str(row.part))


async def test_where_nothing_tells_questions_apart_nobody_guesses_and_the_chat_is_told_how(world: AtDesk) -> None:
    await world.ask("/plan x")
    open_now = await codes(world)
    [which] = await world.ask("2024")
    assert all(code in which for code in open_now.values())
    assert "Which year?" in which
    assert "Which city?" in which
    assert len(asked_by(world, "a") + asked_by(world, "b")) == 2, "nobody went on"
    await world.ask(kind="action", name="button", value=f"answer {open_now['Which city?']}")
    assert "2024" in said(asked_by(world, "b")[-1])
    assert len(asked_by(world, "a")) == 1
    assert (await world.ask("2025"))[-1] == "All done.", "the only one that is left needs no name"
    assert "2025" in said(asked_by(world, "a")[-1])
    assert "2024" not in said(asked_by(world, "a")[-1])
    await world.ask("thanks")
    assert "2024" in said(world.model.asked[-1])
    assert [part(one) for one in world.model.asked].count("talk") == 1


def test_an_open_plan_has_a_name_among_questions() -> None:
    [one] = asked_in([Record("asked", 1, {"turn": "t", "code": "7F3K", "kind": "plan", "until_ms": 2})])
    assert not one.question
    assert named_as(one, "en") == "the plan"


@pytest.mark.parametrize("how", ["reply", "quote", "in front", "in front, with a mark"])
async def test_a_message_names_its_question(world: AtDesk, how: str) -> None:
    await world.ask("/plan x")
    code = (await codes(world))["Which city?"]
    row = await row_of(world, "Which city?")
    text = {"in front": f"{code} Rome", "in front, with a mark": f"{code.lower()}: Rome"}.get(how, "Rome")
    named: dict[str, Any] = {
        "reply": {"parent_id": f"id of {row.key}"},
        "quote": {"quoted": f"Which city?\n\n_Just write the answer, or /answer {code} TEXT._"},
    }.get(how, {})
    await world.ask(text, **named)
    assert "Rome" in said(asked_by(world, "b")[-1])
    assert len(asked_by(world, "b")) == 2
    assert len(asked_by(world, "a")) == 1


async def test_what_was_unclear_is_taken_for_no_other_question_later(world: AtDesk) -> None:
    await world.ask("/plan x")
    await world.ask("Rome")
    await world.ask(f"{(await codes(world))['Which city?']} Rome")
    assert len(asked_by(world, "b")) == 2
    assert len(asked_by(world, "a")) == 1


async def test_an_empty_answer_takes_what_its_speaker_wrote_and_nobody_elses(world: AtDesk) -> None:
    await world.ask("/plan x")
    await world.ask("2024")
    code = (await codes(world))["Which year?"]
    assert "What is the answer?" in (await world.ask(f"/answer {code}", actor=ANA))[0]
    await world.ask(f"/answer {code}")
    assert "Max answered: 2024" in said(asked_by(world, "a")[-1])


async def test_two_questions_of_one_answer_are_told_apart_too(world: AtDesk) -> None:
    ask = [("ask_person", {"question": one}) for one in ("Which year?", "Which city?")]
    world.model.answer_with([several(*ask), says("Fine.")])
    await world.ask("write it")
    open_now = await codes(world)
    assert "Which question" in (await world.ask("2024"))[0]
    await world.ask(f"/answer {open_now['Which year?']}")
    assert (await world.ask("Rome"))[-1] == "Fine."
    told = said(world.model.asked[-1])
    assert "Max answered: 2024" in told
    assert told.index("Max answered: 2024") < told.index("Rome")


@pytest.mark.parametrize("first", [{"text": "/new"}, {"text": "build 7 failed", "actor": BOT}])
@pytest.mark.parametrize("way", ["", "/plan "])
async def test_an_answer_is_heard_behind_what_waits_for_the_turns_end(
    world: AtDesk, first: dict[str, Any], way: str
) -> None:
    asks = [calls("ask_person", {"question": "Which year?"}), says("Of 2024.")]
    world.model.answer_with(acting({"plan": plan(("a", "ask", [])), "a": asks, "talk": [*asks, says("Hm.")]}))
    await world.ask(f"{way}x")
    await world.say(**first)
    await world.work()
    assert "Of 2024." in await world.ask("2024")


async def test_what_was_there_before_the_question_is_no_answer_to_it(world: AtDesk) -> None:
    world.model.answer_with(acting({**PARTS, "plan": plan(("a", "ask", []))}))
    assert await world.say("/plan x") == "new"
    assert await world.say("and what is y?") == "new"
    await world.work()
    assert len(asked_by(world, "a")) == 1
    assert (await world.ask("2024"))[0] == "A done."
    assert "what is y?" not in said(asked_by(world, "a")[-1])
    assert world.room.sent[-1] == "Hm."


@pytest.mark.parametrize("way", ["", "/plan "])
@pytest.mark.parametrize("said_as", ["talk", "command"])
async def test_a_file_is_an_answer(world: AtDesk, way: str, said_as: str) -> None:
    asks = [calls("ask_person", {"question": "Which year?"}), says("Of 2024.")]
    world.model.answer_with(acting({"plan": plan(("a", "ask", [])), "a": asks, "talk": asks}))
    await world.ask(f"{way}x")
    text = f"/answer {(await codes(world))['Which year?']}" if said_as == "command" else ""
    assert (await world.ask(text, attachments=(NOTE,)))[-1] == "Of 2024."
    told = said(asked_by(world, "a" if way else "talk")[-1])
    assert "It was 2024." in told
    assert world.room.downloads == ["note.txt"]
    assert {one.refused for one in world.model.asked} == {None}
    world.model.answer_with(says("You're welcome."))
    await world.ask("thanks")
    if said_as == "talk":
        assert "It was 2024." in said(world.model.asked[-1]), "the conversation has it as well"


async def test_a_file_says_how_a_plan_should_be_otherwise(world: AtDesk) -> None:
    world.model.answer_with(acting({"plan": plan(("a", "tell", [])), "a": says("Told.")}))
    await world.ask("/plan --ask x")
    [card] = await world.ask("like this", attachments=(NOTE,))
    assert "Shall I do it like this?" in card
    assert "It was 2024." in said(asked_by(world, "plan")[-1])
    [code] = re.findall(r"/approve ([A-Z2-7]{6})", card)
    assert (await world.ask(f"/approve {code}"))[-1] == "Told."
    assert world.room.downloads == ["note.txt"]


async def test_a_yes_is_not_taken_for_that_of_an_approver_who_wrote_something_else_before(
    tmp_path: Path, redis_url: str, layout: Layout
) -> None:
    profile = {"plan": {"approve": True}, "roles": {"approver": ["chat/U-LI"]}}
    async with at_desk(tmp_path, redis_url, layout.prefix, profile=profile) as world:
        world.model.answer_with(
            acting({"plan": plan(("a", "delete it", [])), "a": says("Deleted."), "talk": says("Hm.")})
        )
        await world.ask("/plan x")
        picture = Attachment("image", "cat.png", "image/png", 10)
        assert await world.say(actor=Actor("U-LI", "Li"), attachments=(picture,)) == "new"
        assert await world.say("yes", actor=ANA) == "new"
        await world.work()
        assert not asked_by(world, "a")
        assert "Shall I do it like this?" in world.room.sent[-1]
        assert (await world.ask("yes", actor=Actor("U-LI", "Li")))[0] == "Deleted."
        assert {one.data["name"] for one in await world.history() if one.type == "decided"} == {"Li"}


async def test_what_two_people_write_is_the_answer_of_the_first_alone(world: AtDesk) -> None:
    world.model.answer_with(acting({**PARTS, "plan": plan(("a", "ask", []))}))
    await world.ask("/plan x")
    assert await world.say("2024", actor=ANA) == "new"
    assert await world.say("or 2025") == "new"
    await world.work()
    assert "Ana answered: 2024" in said(asked_by(world, "a")[-1])
    assert "2025" not in said(asked_by(world, "a")[-1])
    assert "or 2025" in said(asked_by(world, "talk")[-1])


async def asked_for(world: AtDesk, question: str, person: str) -> None:
    """As it stands in history where this person's words led to that question, as in a turn of several people."""
    name = f"{world.desk.mailbox.store.layout.root_of(WHERE.id)}:c:{WHERE.id}:history"
    lines: Any = await world.desk.mailbox.store.redis.lrange(name, 0, -1)
    for at, line in enumerate(lines):
        record = json.loads(line)
        if record.get("question") == question:
            changed: Any = world.desk.mailbox.store.redis.lset(name, at, json.dumps({**record, "requester": person}))
            await changed


async def test_of_several_questions_each_has_its_own_people_who_may_answer(world: AtDesk) -> None:
    await world.ask("/plan x")
    await asked_for(world, "Which city?", EVE.id)
    year = (await codes(world))["Which year?"]
    await world.ask(f"{year} 2024", actor=EVE)
    assert not [one for one in await world.history() if one.type == "decided"], (
        "a guest answers what was asked for them"
    )
    await world.ask("Rome", actor=EVE)
    assert [one.data["by"] for one in await world.history() if one.type == "decided"] == [EVE.id]
    assert "Rome" in said(asked_by(world, "b")[-1]), "of two open ones it is the only one that she may answer"
    assert len(asked_by(world, "a")) == 1
