"""/status: what runs, what it waits for, and what the conversation holds."""

from __future__ import annotations

from typing import Any

from gateway.conversation.records import Record
from tests.gateway.commands.world import MAX, NOW_MS, OPS, World


def ago(seconds: int, type_: str, branch: str = "", **data: Any) -> Record:
    return Record(type_, NOW_MS - seconds * 1_000, {"turn": "t", **data}, branch=branch)


BEGUN = [ago(200, "event"), ago(190, "call", step=1)]
USES = [
    *BEGUN,
    ago(180, "answer", step=1, usage={"input_tokens": 900, "cache_read_tokens": 100}, stop_reason="tool_use"),
]
STARTED = [*USES, ago(60, "tool_start", id="a", name="web_fetch", shown="https://x.test/")]


async def status(world: World, *records: Record, **said: Any) -> list[str]:
    return [line.removeprefix("- ") for line in (await world.told("/status", MAX, open=records, **said)).split("\n")]


async def test_nothing_runs(world: World) -> None:
    whose = f"for whoever operates this, the conversation is `{OPS.id[:8]}`"
    assert await status(world) == ["nothing runs here", "model `rehearsal`", whose, "no skill is loaded"]


async def test_the_model_is_asked(world: World) -> None:
    assert (await status(world, *BEGUN))[:2] == [
        "a turn runs since 3 min 20 s; model calls so far: 1",
        "the model is asked, since 3 min 10 s",
    ]


async def test_a_tool_runs_until_it_has_a_result(world: World) -> None:
    runs = "the tool `web_fetch https://x.test/` runs, since 1 min 0 s"
    assert runs in await status(world, *STARTED)
    assert runs not in await status(world, *STARTED, ago(1, "tool_result", id="a", name="web_fetch", text="x"))


async def test_what_waits_for_a_word_is_told_until_it_is_said(world: World) -> None:
    asked = ago(60, "asked", code="ABC234", kind="approval", call="a", until_ms=NOW_MS + 90_000)
    waits = "`ABC234` waits for a yes or a no, for 1 min 30 s more"
    assert waits in await status(world, *USES, asked)
    assert waits not in await status(world, *USES, asked, ago(1, "decided", code="ABC234", word="yes"))


async def test_a_plan_and_the_tools_of_its_branches(world: World) -> None:
    steps: list[dict[str, Any]] = [{"id": name, "task": "x", "needs": []} for name in ("1", "2", "3")]
    told = await status(
        world,
        ago(9, "event"),
        ago(8, "plan", steps=steps),
        ago(7, "step_done", id="1", text="x"),
        ago(6, "tool_start", "step 2", id="b", name="current_time"),
    )
    assert "of its plan, steps done: 1 of 3" in told
    assert "the tool `current_time` runs, since 6 s" in told


async def test_a_step_that_was_sent_back_or_planned_anew_is_not_done(world: World) -> None:
    steps: list[dict[str, Any]] = [{"id": "1", "task": "x", "needs": []}, {"id": "2", "task": "x", "needs": ["1"]}]
    done = [ago(8, "plan", steps=steps), ago(7, "step_done", id="1", text="x"), ago(6, "step_done", id="2", text="x")]
    assert "of its plan, steps done: 2 of 2" in await status(world, ago(9, "event"), *done)
    assert "of its plan, steps done: 0 of 2" in await status(
        world, ago(9, "event"), *done, ago(5, "review", changes={"1": "again"})
    )
    assert "of its plan, steps done: 0 of 2" in await status(world, ago(9, "event"), *done, ago(5, "plan", steps=steps))


async def test_what_the_conversation_holds(world: World) -> None:
    told = await status(world, history=USES, inbox=[b"1", b"2"], skills=["web-access", "ops/triage"])
    assert told == [
        "nothing runs here",
        "messages that wait: 2 (`/queue`)",
        "model `rehearsal`",
        f"for whoever operates this, the conversation is `{OPS.id[:8]}`",
        "the last request and its answer: 1,000 of 200,000 tokens (0 %)",
        "loaded skills: `web-access`, `ops/triage`",
    ]
    cut = await status(world, history=[*USES, ago(1, "cleared")])
    assert not any("tokens" in line for line in cut), "what was counted before says nothing now"


async def test_it_takes_no_words(world: World) -> None:
    assert "nothing was done" in await world.told("/status all", MAX)
