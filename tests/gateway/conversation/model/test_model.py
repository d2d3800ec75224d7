"""Every order in which two gateways, two workers and Redis can act: all ends well, and without each guard something does not."""

from __future__ import annotations

from contextlib import closing

import pytest

from gateway.conversation.mailbox import script
from tests.gateway.conversation.model.actors import Stage
from tests.gateway.conversation.model.cases import SMALL, TAKEN_OUT, states
from tests.gateway.conversation.model.search import Found, Search
from tests.gateway.conversation.model.states import SCRIPTS


@pytest.fixture
def place(redis_url: str) -> str:
    return redis_url.removeprefix("unix://").partition("?")[0]


@pytest.mark.parametrize("play", SMALL)
def test_whatever_happens_it_ends_well(play: str, place: str) -> None:
    with closing(states(place)) as made:
        found = Search(Stage(SMALL[play], made)).run()
    assert not found.fault, told(found)
    assert found.is_whole
    assert found.finished


@pytest.mark.parametrize("guard", TAKEN_OUT)
def test_without_the_guard_something_goes_wrong(guard: str, place: str) -> None:
    case = TAKEN_OUT[guard]
    assert not case.old or any(case.old in script(name).text for name in SCRIPTS), "that guard is not there any more"
    with closing(states(place, case.change)) as made:
        found = Search(Stage(case.play, made), at_most=40_000).run()
    assert found.fault, f"{found.worlds} worlds, and all is well without it"
    assert case.found in found.fault, told(found)


def told(found: Found) -> str:
    return f"{found.fault}, after {len(found.steps)} steps: " + "; ".join(found.steps)
