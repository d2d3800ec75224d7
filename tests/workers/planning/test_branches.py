"""A branch keeps its head apart: the conversation sees nothing of it, and it sees what was said and its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from config.profiles import Profile
from gateway.conversation.records import Record, latest
from gateway.store import Layout
from tests.workers.at_desk import AtDesk, at_desk
from tests.workers.records import answer, result, said, skill, start, use, words
from workers.agent.breaks import breaks
from workers.agent.moves import next_move
from workers.planning.branches import branch_of, talk
from workers.prompt.context import begin_after, in_context
from workers.prompt.loaded import held, loaded, narrowing
from workers.prompt.rendering import messages
from workers.turn import Turn

MAIN: Final = [
    said("look at this"),
    Record("prompt", 0, {"hash": "a", "turn": "turn"}),
    Record("call", 0, {"step": 1, "turn": "turn"}),
    answer(1, use("one", "load_skill"), stop_reason="tool_use"),
    start(1, "one"),
    result(1, "one", "Loaded."),
    skill("BODY", "net", tools=["a"]),
    answer(2, words("Found.")),
    said("and now?"),
]
BRANCH: Final = [
    Record("prompt", 0, {"hash": "b", "turn": "turn"}),
    Record("call", 0, {"step": 1, "turn": "turn"}),
    answer(1, use("two", "load_skill"), stop_reason="tool_use"),
    result(1, "two", "Loaded too."),
    skill("OTHER", "ops", tools=["b"]),
    skill("LATER", "late", delivery="next_turn"),
    Record("withheld", 0, {"ids": ["net"], "why": "off", "turn": "turn"}),
    Record("overheard", 0, {"turn": "turn", "until_ms": 7, "said": [["Ana", "rain"]], "mark": "m"}),
    Record(
        "summary",
        0,
        {"turn": "t", "begin": 0, "since": "turn", "text": "short", "mark": "s", "by": "model", "skills": []},
    ),
    Record("cleared", 0),
    answer(3, use("three"), stop_reason="tool_use"),
]
READERS: Final[dict[str, Callable[[list[Record]], Any]]] = {
    "what is sent": messages,
    "what is loaded": loaded,
    "what narrows": narrowing,
    "what is held": held,
    "breaks": breaks,
    "what counts": in_context,
    "where it begins": lambda records: begin_after(records, 0),
    "what was overheard": lambda records: latest(records, "overheard"),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("at", range(len(MAIN) + 1))
def test_what_lies_in_a_branch_changes_nothing_for_the_conversation(reader: str, at: int) -> None:
    apart = [replace(record, branch="step 1") for record in BRANCH]
    for record in apart:
        assert READERS[reader]([*MAIN[:at], record, *MAIN[at:]]) == READERS[reader](MAIN), record.type
    assert READERS[reader]([*MAIN[:at], *apart, *MAIN[at:]]) == READERS[reader](MAIN)


def test_a_record_keeps_its_branch_when_it_is_stored() -> None:
    for record in (said("hi"), replace(skill("BODY"), branch="step 1")):
        assert Record.load(record.dump()) == record
        assert Record.load_all([record.dump().encode()]) == [record]
    assert '"in"' not in said("hi").dump()


def test_a_branch_is_told_what_was_said_and_nothing_of_what_was_done() -> None:
    told = str(messages(list(talk(MAIN))))
    assert all(one in told for one in ("look at this", "Found.", "and now?"))
    assert all(one not in told for one in ("BODY", "Loaded.", "load_skill", "tool_use"))


@asynccontextmanager
async def begun(world: AtDesk) -> AsyncIterator[Turn]:
    """A turn that was opened, in a worker's hands."""
    mailbox = world.desk.mailbox
    assert await world.say("go") == "new"
    [claim] = (await mailbox.claim(0, "w1", 1)).grants
    stored = await mailbox.load(claim.conversation)
    state = {"id": "t", "start": stored.history.end, "at_ms": mailbox.now_ms(), "to": {}}
    turn = Turn(mailbox, claim, stored, Profile(), state)
    await turn.take(stored.inbox)
    yield turn


@pytest.fixture
async def turn(tmp_path: Path, redis_url: str, layout: Layout) -> AsyncIterator[Turn]:
    async with at_desk(tmp_path, redis_url, layout.prefix) as world, begun(world) as made:
        yield made


async def found_anew(turn: Turn) -> Turn:
    """As whoever goes on with it finds it."""
    stored = await turn.mailbox.load(turn.claim.conversation)
    return Turn(turn.mailbox, turn.claim, stored, turn.profile, stored.turn or turn.state)


async def test_whoever_goes_on_with_a_branch_finds_it_as_it_was_and_no_other(turn: Turn) -> None:
    one, two = branch_of(turn, "step 1"), branch_of(turn, "step 2")
    for branch, text in ((one, "ONE"), (two, "TWO"), (one, "MORE")):
        branch.state["model"] = {"failures": 1, "of": text}
        await branch.write(answer(1, use(text), stop_reason="tool_use"), skill(text, text), state="save")
    again = await found_anew(turn)
    for before, name, there, others in ((one, "step 1", ("ONE", "MORE"), "TWO"), (two, "step 2", ("TWO",), "ONE")):
        after = branch_of(again, name)
        assert messages(after.stored.history) == messages(before.stored.history)
        assert (after.records, after.state) == (before.records, before.state)
        assert list(loaded(after.stored.history)) == list(there)
        assert others not in str(messages(after.stored.history))
        assert after.state["model"]["of"] == there[-1]
    assert "model" not in again.state
    assert [record.type for record in again.records] == ["event"]
    assert again.all_records[1:] == turn.all_records[1:]  # the server wrote the event, at its own time


async def test_both_do_once_what_each_of_them_does_once(turn: Turn) -> None:
    keys = [one.key("1", "call") for one in (turn, branch_of(turn, "step 1"), branch_of(turn, "step 2"))]
    assert len(set(keys)) == 3
    assert branch_of(await found_anew(turn), "step 1").key("1", "call") == keys[1]


async def test_a_branch_goes_on_from_its_own_last_record(turn: Turn) -> None:
    branch = branch_of(turn, "step 1")
    await branch.write(answer(1, use("one"), stop_reason="tool_use"))
    assert next_move(branch.records) != next_move(turn.records) == next_move(branch_of(turn, "step 2").records)


async def test_a_branch_is_told_the_same_whatever_the_turn_writes_meanwhile(turn: Turn) -> None:
    before = branch_of(turn, "step 1")
    await before.write(Record("call", 0, {"step": 1, "turn": "t"}))
    await turn.write(Record("reply", 0, {"turn": "t", "text": "Wait.", "notice": True}))
    assert messages(branch_of(turn, "step 2").stored.history) == messages(before.stored.history)


@pytest.mark.parametrize("looks", [1, 2, 3, 5, 8, 13])
async def test_a_write_that_is_called_off_leaves_memory_and_redis_the_same(turn: Turn, looks: int) -> None:
    branch = branch_of(turn, "step 1")
    for number in range(20):
        written = Record("card", number, {"turn": "t", "text": f"{number}"})
        writing = asyncio.create_task((branch if number % 2 else turn).write(written))
        for _ in range(looks):
            await asyncio.sleep(0)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
    await turn.write(Record("card", 99, {"turn": "t", "text": "last"}))
    again = await found_anew(turn)
    assert again.all_records[1:] == turn.all_records[1:]
    assert branch_of(again, "step 1").records == branch.records
