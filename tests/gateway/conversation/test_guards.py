"""Guards of the mailbox, each taken out of a copy of its scripts: a scenario ends badly without it, and says why."""

from __future__ import annotations

import traceback
from typing import Final

import pytest

from gateway.conversation import mailbox
from gateway.store import Layout, Script
from tests.gateway.conversation import scenarios
from tests.gateway.conversation.world import World
from tests.sabotage.guards import Guard, guards

GUARDS: Final = guards()
TAKEN_OUT: Final = [(name, play) for name, guard in GUARDS.items() for play in guard.scenario]


@pytest.mark.parametrize("play", sorted({play for _, play in TAKEN_OUT}))
async def test_with_all_guards_it_ends_well(play: str, redis_url: str, layout: Layout) -> None:
    assert not await said_by(play, redis_url, layout)


@pytest.mark.parametrize(("name", "play"), TAKEN_OUT)
async def test_without_the_guard_a_scenario_ends_badly(
    name: str, play: str, redis_url: str, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_out(GUARDS[name], monkeypatch)
    said = await said_by(play, redis_url, layout)
    assert said, f"{play} ends well without it"
    assert GUARDS[name].scenario[play] in said


def take_out(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    as_it_is = mailbox.script

    def without(name: str) -> Script:
        return Script(name, guard.in_script(name, as_it_is(name).text))

    monkeypatch.setattr(mailbox, "script", without)
    monkeypatch.setattr(scenarios, "script", without)


async def said_by(play: str, redis_url: str, layout: Layout) -> str:
    """What went wrong, with the lines where it did. A guard that is taken out does not come back by waiting."""
    world = World(redis_url, layout, patience_s=0.3)
    try:
        await scenarios.SCENARIOS[play](world)
        await world.check()
    except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001  # whatever it is, it has to be what is expected
        return "".join(traceback.format_exception(error))
    finally:
        await world.close()
    return ""
