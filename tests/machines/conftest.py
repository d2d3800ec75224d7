"""How long machines run: a fixed, short row of examples with the other tests, and as many as wanted with `--examples`."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

Run = Callable[..., None]


@pytest.fixture
def run(request: pytest.FixtureRequest) -> Run:
    """Run a machine: so many examples of so many steps, the same in each run unless `--examples` is given."""
    wanted = int(request.config.getoption("--examples"))

    def play(machine: Callable[[], RuleBasedStateMachine], examples: int, steps: int = 20) -> None:
        profile = settings(
            max_examples=wanted or examples,
            stateful_step_count=max(steps, 50) if wanted else steps,
            derandomize=not wanted,
            deadline=None,
            database=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
            # what the short row finds is told as it came: to make it small takes minutes
            phases=(Phase.generate, Phase.shrink) if wanted else (Phase.generate,),
        )
        run_state_machine_as_test(machine, settings=profile)  # type: ignore[arg-type]  # it calls what it is given

    return play
