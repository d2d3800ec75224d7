"""Whose request a stand-in has taken is known by the connection that it came by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.harness.tap import Ends, Message, Names, Place, Tap
from tests.sweep.lane import Lane, Running, whose


async def lets_through(message: Message, place: Place) -> bool:
    del message, place
    return True


def lane(folder: Path, number: int, ends: dict[Ends, float]) -> Lane:
    """One worker runs in it, that opened these connections then."""
    tap = Tap(f"worker-{number}", lets_through, "redis://127.0.0.1", {}, Names({}))
    tap.ends.update(ends)
    nobody: Any = None
    made = Lane(number, folder, nobody, {})
    made.running.append(Running(f"worker-{number}", nobody, tap))
    return made


def test_a_port_that_was_closed_and_opened_anew_is_of_who_opened_it_last(tmp_path: Path) -> None:
    """Else what one lane's worker sends late is laid at the door of another lane's."""
    lanes = [
        lane(tmp_path, 1, {(50_001, 80): 1.0, (50_002, 80): 4.0}),
        lane(tmp_path, 2, {(50_001, 80): 3.0, (50_002, 80): 2.0}),
    ]
    assert [whose(lanes, (port, 80)) for port in (50_001, 50_002, 50_003)] == ["worker-2", "worker-1", ""]


def test_two_connections_from_one_port_are_told_apart_by_where_they_lead(tmp_path: Path) -> None:
    """Kernels share out a port of ours among connections to different servers."""
    lanes = [lane(tmp_path, 1, {(50_001, 9_000): 1.0}), lane(tmp_path, 2, {(50_001, 9_100): 2.0})]
    assert [whose(lanes, (50_001, port)) for port in (9_000, 9_100)] == ["worker-1", "worker-2"]
