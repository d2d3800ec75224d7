"""A small sweep over all kinds of turn holds; with a guard taken out it does not."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from pathlib import Path

import pytest

from config.settings import environment
from tests.harness.checking import check
from tests.harness.history import read
from tests.sweep.choosing import Order
from tests.sweep.kinds import KINDS
from tests.sweep.run import summary, sweep
from tests.sweep.steps import STEPS

ROOT = Path(__file__).parents[2]
COUNT = 30


@pytest.mark.timeout(300)
async def test_a_process_killed_at_thirty_messages_of_all_kinds_of_turn_breaks_nothing(tmp_path: Path) -> None:
    told: list[str] = []
    result = await sweep(Order(seed=20, count=COUNT, lanes=5, spread=True), tmp_path, told.append)
    assert result.is_good, "\n".join([*told, *summary(result)])
    by_kind = Counter(one.plan.kind.name for one in result.struck)
    assert by_kind.keys() == KINDS.keys()
    assert len(result.struck) >= COUNT * 0.8, "points come by again"
    met = {name: step.meets(result.points[step.kind, "keyed", False]) for name, step in STEPS.items()}
    assert list(met) == [f"W{number}" for number in range(1, 25)]
    assert not [name for name, points in met.items() if not points], "each step of a turn is struck by a whole sweep"


@pytest.mark.parametrize(
    ("guard", "arguments", "finding"),
    [
        ("runs_again", ("--kinds", "once", "--at", "after worker tools tools/call #1"), "I3 effect twice"),
        ("new_keys", ("--kinds", "plain", "--at", "after worker platform"), "I2 doubled"),
        ("knows_nothing", ("--kinds", "plain", "--at", "after gateway webhook"), "I4 twice in the history"),
        ("knows_nothing", ("--kinds", "plain", "--gateways", "2", "--count", "0"), "I4 twice in the history"),
        (
            "looks_nowhere",
            ("--kinds", "plain", "--platforms", "searched", "--at", "after worker slack .*chat.postMessage"),
            "I2 doubled",
        ),
        (
            "knows_all_keys",
            ("--kinds", "plain", "--platforms", "skipping", "--at", "after worker telegram .*sendMessage"),
            "I2 doubled",
        ),
        ("puts_too_much_away", ("--kinds", "compact", "--count", "0"), "I4 neither the old history nor the new one"),
        ("gives_up", ("--kinds", "plain", "--at", "after worker redis take"), "I1 notice in place of an answer"),
        (
            "asks_again",
            ("--kinds", "once", "--at", "after worker redis append answer #1"),
            "I9 asked for what was kept",
        ),
        (
            "runs_all_again",
            ("--kinds", "batch", "--at", "after worker redis append tool_result #1"),
            "I3 run again although its result was kept",
        ),
        ("makes_up", ("--kinds", "once", "--at", "within worker tools tools/call #1"), "I3 result that no tool gave"),
        ("says_half", ("--kinds", "plain", "--count", "0"), "I2 half left"),
        ("writes_on", ("--kinds", "plain", "--at", "before worker redis settle #1", "--how", "stop"), "I5 two writers"),
    ],
)
@pytest.mark.timeout(300)
async def test_a_guard_taken_out_is_seen(guard: str, arguments: tuple[str, ...], finding: str, tmp_path: Path) -> None:
    command = ("--sabotage", guard, "--platforms", "keyed", "--lanes", "1", "--count", "1", "--folder", str(tmp_path))
    run = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.sweep", *command, *arguments),
        cwd=ROOT, env=environment(), stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    told = (await run.communicate())[0].decode()
    assert run.returncode == 1, told
    assert finding in told
    [folder] = tmp_path.iterdir()
    assert told.rstrip().endswith(str(folder)), "the folder is named"
    verdict = check(read(folder / "ledgers"))
    assert finding in verdict.report(100), "what was kept says it once more"
