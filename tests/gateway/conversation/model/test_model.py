"""Every order in which two gateways, two workers and Redis can act: all ends well, and without each guard something does not."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from tests.gateway.conversation.model.actors import Stage
from tests.gateway.conversation.model.cases import GUARDS, SMALL, TAKEN_OUT, states
from tests.gateway.conversation.model.search import Found, Search


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


@pytest.mark.parametrize(("name", "play"), [(name, play) for name, guard in GUARDS.items() for play in guard.play])
def test_without_the_guard_something_goes_wrong(name: str, play: str, place: str) -> None:
    guard = GUARDS[name]
    with closing(states(place, guard.in_script)) as made:
        found = Search(Stage(SMALL[play], made), at_most=40_000).run()
    assert found.fault, f"{found.worlds} worlds, and all is well without it"
    assert guard.play[play] in found.fault, told(found)


@pytest.mark.parametrize("name", TAKEN_OUT)
def test_with_another_kind_of_process_something_goes_wrong(name: str, place: str) -> None:
    case = TAKEN_OUT[name]
    with closing(states(place, case.in_script)) as made:
        found = Search(Stage(replace(SMALL[case.play], **case.changed), made), at_most=40_000).run()
    assert found.fault, f"{found.worlds} worlds, and all is well without it"
    assert case.found in found.fault, told(found)


def told(found: Found) -> str:
    return f"{found.fault}, after {len(found.steps)} steps: " + "; ".join(found.steps)
