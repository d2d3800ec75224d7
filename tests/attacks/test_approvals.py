"""What people say yes to."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.events import Actor
from gateway.store import Layout
from tests.harness.model_replies import calls, says, several
from tests.workers.at_desk import AtDesk, at_desk

LI, MAX = Actor("U-LI", "Li"), Actor("U-MAX", "Max")


@pytest.fixture
async def world(tmp_path: Path, redis_url: str, layout: Layout) -> AsyncIterator[AtDesk]:
    profile = {
        "tools": ["send_file"],
        "roles": {"approver": ["chat/U-LI"]},
        "approvals": {"ask": ["send_file"], "turn_max": 3},
    }
    async with at_desk(tmp_path, redis_url, layout.prefix, profile=profile) as made:
        yield made


def code_in(text: str) -> str:
    return str(re.findall(r"/approve ([A-Z2-7]{6})", text)[-1])


@pytest.mark.parametrize(
    ("hidden", "shown"),
    [
        ("\n" * 300 + "rm -rf /", "rm -rf /"),
        ("x" * 4_000 + "rm -rf /", "rm -rf /"),
        ("\u202egnp.exe", "U+202E"),
        ("a\u200bb", "U+200B"),
        ("\x1b[8mhidden", "hidden"),
        ("@everyone", "@everyone"),
        ("```\n**not code**", "**not code**"),
    ],
)
async def test_s_a4_nothing_in_the_arguments_is_hidden(world: AtDesk, hidden: str, shown: str) -> None:
    """S-A4: what is said yes to is shown whole, in a block of code, and what can't be seen is named."""
    world.model.answer_with([calls("send_file", {"name": "a.txt", "content": hidden}), says("Well.")])
    [card] = await world.ask("send it", actor=MAX)
    assert shown in card
    assert not re.search("[\u202e\u200b\x1b]", card)
    block = re.search(r"(?ms)^(`{3,})[^\n]*\n(.*?)^\1$", card)
    assert block
    assert shown in block[2]


async def test_s_a6_so_many_requests_that_nobody_looks_are_not_asked(world: AtDesk) -> None:
    """S-A6: a turn asks only so often; what is more is refused, and the model is told to say so."""
    many = [calls("send_file", {"name": f"{number}.txt", "content": "x"}) for number in range(4)]
    world.model.answer_with([*many, says("Well.")])
    told = await world.ask("send them", actor=MAX)
    for _ in range(3):
        told = await world.ask(f"/approve {code_in(told[-1])}", actor=LI)
    assert told[-1] == "Well."
    assert "3.txt" not in world.room.sent
    last = [one.data for one in await world.history() if one.type == "tool_result"][-1]
    assert last["error"]
    assert last["rule"] == "profiles/default.yaml line 4: approvals.turn_max"


async def test_s_a7_a_yes_is_for_one_call(world: AtDesk) -> None:
    """S-A7: there is no "always"; the very same call asks again, and so does one that begins alike."""
    same = calls("send_file", {"name": "a.txt", "content": "x"})
    longer = calls("send_file", {"name": "a.txt; rm", "content": "x"})
    world.model.answer_with([same, same, longer, says("Well.")])
    told = await world.ask("send it", actor=MAX)
    codes = set()
    for _ in range(3):
        codes.add(code_in(told[-1]))
        told = await world.ask(f"/approve {code_in(told[-1])}", actor=LI)
    assert len(codes) == 3


async def test_f102_of_two_calls_that_look_alike_a_word_is_for_the_one_that_it_names(world: AtDesk) -> None:
    """F102: the very same arguments twice in one step; the first card is answered, the second stays open."""
    same = ("send_file", {"name": "a.txt", "content": "x"})
    world.model.answer_with([several(same, same), says("Well.")])
    first, *_ = cards = await world.ask("send it twice", actor=MAX)
    codes = [code_in(card) for card in cards]
    told = await world.ask(f"/approve {code_in(first)}", actor=LI)
    codes += [code_in(one) for one in told if "/approve" in one]
    assert len(set(codes)) == 2
    assert world.room.sent.count("a.txt") == 1
    assert "Well." not in world.room.sent, "the other one waits for its own word"
    [other] = set(codes) - {code_in(first)}
    assert (await world.ask(f"/deny {other}", actor=LI))[-1] == "Well."
    assert world.room.sent.count("a.txt") == 1


async def test_f95_of_many_yeses_at_once_one_counts(world: AtDesk) -> None:
    """F95: pressed by two gateways in one moment; each press after the first is told that it was decided."""
    world.model.answer_with([calls("send_file", {"name": "a.txt", "content": "x"}), says("Well.")])
    code = code_in((await world.ask("send it", actor=MAX))[-1])
    presses = [world.say(f"/approve {code}", actor=LI) for _ in range(20)]
    assert set(await asyncio.gather(*presses)) == {"new"}
    await world.work()
    assert world.room.sent.count("a.txt") == 1
    assert sum(one.startswith(f"{code}: `Li` said yes") for one in world.room.sent) == 1
    assert sum("decided already" in one for one in world.room.sent) == 19
