"""/queue: what waits, in order, and who may take back what."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gateway.commands import Done
from gateway.events import Actor, Attachment, Event
from gateway.store import Store
from tests.gateway.commands.world import ANA, LI, MAX, NOW_MS, OPS, World


def member(number: int, actor: Actor, text: str = "", **fields: Any) -> bytes:
    made: dict[str, Any] = {"kind": "message", "conversation": OPS, "at_ms": NOW_MS - 65_000, **fields}
    return b"%012d:%b" % (number, Event(actor=actor, dedupe_keys=(str(number),), text=text, **made).dump().encode())


WAITING = (
    member(1, MAX, "what is `new`?\nand then"),
    member(2, LI, "", attachments=(Attachment("file", "a.csv", "text/csv", 1),)),
    member(3, MAX, "new", kind="command", name="skill"),
    b"000000000004:{broken",
    member(5, MAX, "said after it"),
)


async def queue(world: World, rest: str, actor: Actor, inbox: Sequence[bytes] = WAITING) -> Done:
    return await world.say(f"/queue {rest}", actor, inbox=inbox, before=4)


async def test_what_waits_is_told_in_order_by_whom_and_since_when(world: World) -> None:
    told = (await queue(world, "", LI)).text
    assert told.split("\n") == [
        "Messages that wait here: 5",
        "1. `Max`: `what is 'new'? and then` (1 min 5 s ago)",
        "2. `Li`: `a.csv` (1 min 5 s ago)",
        "3. `Max`: `/skill new` (1 min 5 s ago)",
        "4. something that can't be read",
        "5. `Max`: `said after it` (1 min 5 s ago)",
        "",
        "Each is answered by itself, in this order.",
    ]


@pytest.mark.parametrize("mode", ["followup", "collect", "steer", "interrupt"])
async def test_the_channels_mode_is_told_with_nothing_waiting_too(store: Store, tmp_path: Path, mode: str) -> None:
    world = World(store, tmp_path, profile=f"language: {{language}}\nqueue: {{{{mode: {mode}}}}}\n")
    told = (await queue(world, "", MAX, ())).text
    assert told.startswith("Nothing waits here. ")
    assert len(told) > len("Nothing waits here. ")


@pytest.mark.parametrize(
    ("rest", "actor", "taken"),
    [
        ("clear", MAX, (0, 2)),
        ("clear", LI, (1,)),
        ("clear", ANA, ()),
        ("clear all", ANA, (0, 1, 2, 3)),
        ("clear all", MAX, ()),
        ("clear all", LI, ()),
        ("clear", Actor(""), ()),
    ],
)
async def test_each_takes_back_what_is_their_own_and_came_before_and_admins_all(
    world: World, rest: str, actor: Actor, taken: tuple[int, ...]
) -> None:
    done = await queue(world, rest, actor)
    assert done.withdrawn == tuple(WAITING[one] for one in taken)
    assert done.text.count("\n- ") == len(taken), "each is named"


async def test_who_may_not_is_told_the_rule_alone(world: World) -> None:
    done = await queue(world, "clear all", MAX)
    assert "`channel_admin`" in done.text
    assert "default.yaml line" in done.text
    assert done.is_private


@pytest.mark.parametrize("rest", ["clera", "clear all now", "clear mine"])
async def test_other_words_take_back_nothing(world: World, rest: str) -> None:
    done = await queue(world, rest, ANA)
    assert "nothing was done" in done.text
    assert done.withdrawn == ()
