"""Workers die at any write of a turn that has a plan: what is done once is done once, and there is one reply."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.conversation.key import ConversationKey
from gateway.conversation.records import Record
from gateway.store import Layout
from tests.harness.fake_model import Asked
from tests.harness.model_replies import Reply, calls, says
from tests.harness.planning import part, plan
from tests.workers.at_desk import AtDesk, at_desk
from tests.workers.dying import turn_with_deaths
from workers.tools import Call, Effect, ToolResult


@dataclass
class Pay:
    """A tool that may run once."""

    name: str = "pay"
    description: str = "Pays."
    effect: Effect = "once"
    input_schema: dict[str, Any] = field(
        default_factory=lambda: {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]}
    )
    paid: list[str] = field(default_factory=list)

    async def run(self, arguments: dict[str, Any], call: Call) -> ToolResult:
        del call
        self.paid.append(arguments["what"])
        await asyncio.sleep(0)
        return ToolResult("Paid.", untrusted=False)  # else the next call would wait for a person


@dataclass
class House:
    """A desk whose worker dies when it is told to."""

    world: AtDesk
    pay: Pay
    number: int = 0

    async def turn(self, text: str, deaths: list[tuple[int, bool]]) -> list[Record]:
        """One turn, begun by a worker and gone on with by others; its records."""
        self.number += 1
        where = ConversationKey("chat", "room", f"t{self.number}")
        return await turn_with_deaths(self.world, where, text, deaths)


@pytest.fixture
async def house(
    tmp_path: Path, redis_url: str, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[House]:
    async with at_desk(
        tmp_path, redis_url, layout.prefix, profile={"tools": ["pay"]}, settings={"mailbox": {"send_timeout_s": 0.2}}
    ) as world:
        pay = Pay()
        monkeypatch.setattr(world.desk.course.agent._offers, "_tools", {"pay": pay})
        yield House(world, pay)


shapes = st.integers(1, 4).flatmap(
    lambda count: st.tuples(*(st.sets(st.integers(0, max(at - 1, 0)), max_size=2 if at else 0) for at in range(count)))
)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(shape=shapes, deaths=st.lists(st.tuples(st.integers(1, 30), st.booleans()), max_size=3), team=st.booleans())
async def test_each_step_pays_once_and_there_is_one_reply(
    house: House, shape: tuple[set[int], ...], deaths: list[tuple[int, bool]], team: bool
) -> None:
    names = "abcd"[: len(shape)]
    steps = [(names[at], f"pay {names[at]}", [names[one] for one in needs]) for at, needs in enumerate(shape)]
    reviews = iter([says('{"accept": false, "changes": [{"step": "a", "change": "say it better"}]}')])

    def script(asked: Asked) -> Reply:
        match part(asked):
            case "plan":
                return plan(*steps)
            case "review":
                return next(reviews, says('{"accept": true}'))
            case "closing":
                return says("All is paid.")
            case name:
                used = '"tool_result"' in json.dumps(asked.request["messages"])
                return says(f"Paid {name}.") if used else calls("pay", {"what": name})

    house.pay.paid.clear()
    house.world.model.asked.clear()
    house.world.model.answer_with(script)
    history = await house.turn("/team pay" if team else "/plan pay", deaths)
    assert {asked.refused for asked in house.world.model.asked} == {None}
    assert {asked.request["messages"][-1]["role"] for asked in house.world.model.asked} == {"user"}
    paid = Counter(house.pay.paid)
    assert set(paid.values()) <= {1}
    unknown = {one.branch[-1] for one in history if one.type == "tool_result" and one.data.get("error")}
    assert set(names) - set(paid) <= unknown
    assert [one.type for one in history if one.type in {"reply", "plan"}] == ["plan", "reply"]
    assert not history[-1].data.get("notice")
    ids = [block["id"] for one in history if one.type == "answer" for block in one.data["content"] if "id" in block]
    assert sorted(ids) == sorted(one.data["id"] for one in history if one.type == "tool_result")
    for name in names:  # told once what to do, and once more each time that it was sent back
        told = sum(one.type == "given" and one.branch == f"step {name}" for one in history)
        assert told == sum(one.type == "step_done" and one.data["id"] == name for one in history)
