"""Whose request a stand-in has taken is known by the port that it came from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.harness.tap import Message, Names, Place, Tap
from tests.sweep.lane import Lane, Running, whose


async def lets_through(message: Message, place: Place) -> bool:
    del message, place
    return True


def test_a_port_that_was_closed_and_opened_anew_is_of_who_opened_it_last(tmp_path: Path) -> None:
    """Else what one lane's worker sends late is laid at the door of another lane's."""
    lanes = []
    for number, ports in ((1, {50_001: 1.0, 50_002: 4.0}), (2, {50_001: 3.0, 50_002: 2.0})):
        tap = Tap(f"worker-{number}", lets_through, "redis://127.0.0.1", {}, Names({}))
        tap.ports.update(ports)
        nobody: Any = None
        lane = Lane(number, tmp_path, nobody, {})
        lane.running.append(Running(f"worker-{number}", nobody, tap))
        lanes.append(lane)
    assert [whose(lanes, port) for port in (50_001, 50_002, 50_003)] == ["worker-2", "worker-1", ""]
