"""Each file in `tests/replays` is a turn that has to run as it ran: `deskmate replay CONVERSATION TURN --save FILE` makes one."""

from __future__ import annotations

from pathlib import Path

import pytest

from workers.replay.playing import play_file

FILES = sorted((Path(__file__).parent / "replays").glob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
async def test_the_turn_runs_as_it_ran(file: Path, redis_url: str) -> None:
    report = await play_file(file, redis_url)
    assert report.is_equal, str(report)


def test_there_are_some() -> None:
    assert FILES
