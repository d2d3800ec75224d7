"""`deskmate dead`, as an operator types it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from config.settings import MailboxSettings
from gateway.conversation.key import ConversationKey
from gateway.conversation.letters import letter, letters
from gateway.conversation.mailbox import Mailbox
from gateway.conversation.records import Record
from gateway.store import Store
from tests.gateway.cli.test_acts import Typed, typed, world  # noqa: F401
from tests.gateway.commands.world import World
from tests.gateway.conversation.given_up import given_up, went_wrong

THERE = ConversationKey("slack-main", "C-OPS", "t")


@pytest.fixture
async def mailbox(store: Store) -> Mailbox:
    """A turn was given up in it."""
    mailbox = Mailbox(store, MailboxSettings())
    await mailbox.open()
    await given_up(mailbox, THERE, text="what is up?")
    return mailbox


async def test_they_are_listed_shown_and_asked_again(mailbox: Mailbox, typed: Typed, world: World) -> None:  # noqa: F811
    told = await typed("dead", "list")
    id_ = told.split()[0]
    assert "  slack-main/C-OPS  turn turn-" in told
    [read] = [json.loads(line) for line in (await typed("dead", "list", "--json")).splitlines()]
    assert (read["id"], read["conversation"], read["reason"]) == (id_, THERE.id, "test")
    lines = (await typed("dead", "show", id_)).splitlines()
    assert [line.strip() for line in lines[1:]] == ["Max: what is up?", "failed: test"]
    turn = read["turn"][:8]
    told = f"What turn {turn} was to answer is asked once more, as a new turn, and turn {turn} is off the list: test.\n"
    assert await typed("dead", "retry", id_) == told
    assert len((await mailbox.load(THERE.id)).inbox) == 1
    assert await typed("dead", "list") == "There are no dead letters.\n"
    assert "There is no dead letter" in await typed.fails("dead", "retry", id_)
    assert [line["what"] for line in await world.audit()] == ["dead retry begun", "dead retry"]


@pytest.mark.usefixtures("mailbox")
async def test_one_is_dropped(typed: Typed, world: World) -> None:  # noqa: F811
    id_ = (await typed("dead", "list")).split()[0]
    assert (await typed("dead", "drop", id_)).endswith(
        " is off the list: test. What was said stays in its conversation.\n"
    )
    assert "There is no dead letter" in await typed.fails("dead", "show", id_)
    assert [line["what"] for line in await world.audit()] == ["dead drop begun", "dead drop"]


async def test_of_a_turn_there_is_one_with_all_that_went_wrong(mailbox: Mailbox, typed: Typed) -> None:  # noqa: F811
    """It was given up, and neither of the two parts of its notice arrived."""
    [one] = await letters(mailbox.store, 10)
    entries = [await went_wrong(mailbox, one, "send target_gone") for _ in range(2)]
    gone = "a part of the reply could not be sent (the room is gone, or closed to us), 2 times"
    [line] = (await typed("dead", "list")).splitlines()
    assert line.split()[0] == one.id
    assert line.endswith(f"  test; {gone}")
    assert [line] == (await typed("dead", "show", entries[1])).splitlines()[:1], "each of its entries finds it"
    status = await typed("status")
    assert status.count(one.turn[:8]) == 1
    assert gone in status
    dropped = await typed("dead", "drop", entries[0])
    assert dropped == f"Turn {one.turn[:8]} is off the list: test; {gone}. What was said stays in its conversation.\n"
    assert await typed("dead", "list") == "There are no dead letters.\n"


async def test_of_very_many_the_latest_are_told_without_a_look_at_all(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page of what goes on asks each few seconds."""
    monkeypatch.setattr("gateway.conversation.letters.PAGE", 10)
    [first] = await letters(mailbox.store, 10)
    many = [replace(first, turn=f"turn {number}") for number in range(30)]
    for one in [one for one in many for _ in range(2)]:
        await went_wrong(mailbox, one, "send rejected")
    await went_wrong(mailbox, first, "send rejected")
    found = await letters(mailbox.store, 6)
    assert [one.turn for one in found] == [first.turn, *(f"turn {number}" for number in range(29, 24, -1))]
    assert {one.more for one in found[1:]} == {("send rejected",)}, "whole, though a page ends between"
    whole = await letter(mailbox.store, found[0].id)
    assert whole
    assert (whole.id, whole.reasons) == (first.id, ("test", "send rejected")), (
        "one that is looked at is whole, whatever is between"
    )
    assert (await letters(mailbox.store, 40))[0] == whole


async def test_the_reference_in_a_notice_finds_the_letter(mailbox: Mailbox, typed: Typed) -> None:  # noqa: F811
    """It is all that a person can tell the operators."""
    [one] = await letters(mailbox.store, 10)
    reference = one.turn[:8]
    shown = await typed("dead", "show", reference)
    assert shown.startswith(one.id)
    assert one.id in await typed("status"), "what is to be typed stands there"
    assert "off the list" in await typed("dead", "retry", reference)
    other = await given_up(mailbox, replace(THERE, thread="other"))
    assert (await typed("dead", "drop", other.turn[:8])).startswith(f"Turn {other.turn[:8]} is off the list")
    gone = await typed.fails("dead", "show", reference)
    assert f"There is no dead letter {reference}" in gone
    assert f"look for reference={reference} in the log" in gone
    assert "There is no dead letter turn-" in await typed.fails("dead", "drop", "turn-"), "too short to be one"
    assert "reference=" not in await typed.fails("dead", "show", "0-1-0")


async def test_programs_are_told_the_same_of_a_letter_everywhere(mailbox: Mailbox, typed: Typed) -> None:  # noqa: F811
    await given_up(mailbox, replace(THERE, thread="other"), reason="8 holders died")
    status = json.loads(await typed("status", "--json"))
    assert status["dead"] == [json.loads(line) for line in (await typed("dead", "list", "--json")).splitlines()]
    assert status["dead"][0]["key"][:2] == ["slack-main", "C-OPS"]
    assert (status["dead"][0]["reason"], status["dead"][1]["why"]) == ("8 holders died", "test")
    assert "8" in status["dead"][0]["why"]
    assert status["dead"][0]["why"] != "8 holders died", "in words"


async def test_calls_are_shown_with_what_they_were_given_and_which_has_no_result(
    mailbox: Mailbox,
    typed: Typed,  # noqa: F811
) -> None:
    [one] = await letters(mailbox.store, 10)
    redis: Any = mailbox.store.redis
    uses = [{"type": "tool_use", "id": id_, "name": f"web_{id_}", "input": {"of": id_}} for id_ in ("a", "b")]
    for kind, data in (
        ("call", {"turn": one.turn}),
        ("answer", {"step": 1, "content": uses}),
        ("tool_result", {"step": 1, "id": "a", "name": "web_a", "text": "fine"}),
        ("answer", {"step": 2, "content": uses[:1]}),
        ("reply", {"turn": one.turn, "text": "I have stopped.", "notice": True}),
    ):
        await redis.rpush(mailbox.store.layout.key(THERE.id, "history"), Record(kind, 1, data).dump())
    lines = [line.strip() for line in (await typed("dead", "show", one.id)).splitlines()]
    assert lines[3:] == [
        'call web_a {"of": "a"}',
        'call web_b {"of": "b"}  (no result)',
        "result of web_a",
        'call web_a {"of": "a"}  (no result)',
        "notice: I have stopped.",
    ]


async def test_on_an_emptied_redis_who_looks_is_warned_and_nothing_is_changed(
    mailbox: Mailbox,
    typed: Typed,  # noqa: F811
    world: World,  # noqa: F811
) -> None:
    id_ = (await typed("dead", "list")).split()[0]
    kept = Mailbox(mailbox.store, MailboxSettings(), data=world.loaded.settings.data)
    await kept.open()
    meta = f"{mailbox.store.layout.root(0)}:meta"
    await mailbox.store.redis.delete(meta)
    assert "Warning: Nothing goes on: redis is empty, and was not." in await typed("dead", "show", id_)
    for command in (["dead", "retry", id_], ["dead", "drop", id_], ["skills", "off", "x", "--everywhere"]):
        assert "`deskmate redis adopt`. Nothing was changed." in await typed.fails(*command)
    assert "Nothing goes on: redis is empty" in await typed("status")
    assert not await mailbox.store.redis.exists(meta, f"{mailbox.store.layout.root(0)}:strangers")
    assert await letter(mailbox.store, id_)
    await kept.adopt()
    assert "Warning" not in await typed("dead", "show", id_)
