"""Row by row, what docs/reliability.md says of whose death it was."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import get_args

import pytest

from gateway.conversation.deaths import COUNTS_AS, End, Place, place_after

DOC = Path(__file__).parents[3] / "docs/reliability.md"
ROWS: dict[Place, list[int]] = {"beside": [0, 1], "alone": [2, 3, 4, 5], "sole": [6, 7], "given up": [8, 9, 100]}


@pytest.mark.parametrize("place", get_args(Place))
def test_after_so_many_tries_it_goes_on_there(place: Place) -> None:
    assert {place_after(tries) for tries in ROWS[place]} == {place}


@pytest.mark.parametrize(
    ("counts_as", "ends"),
    [
        ("nothing", {"settled", "not begun", "leaving", "away"}),
        ("try", {"lost", "ended", "silent"}),
        ("burial", {"died"}),
    ],
)
def test_how_an_attempt_ended_counts_as_that(counts_as: str, ends: set[End]) -> None:
    assert {end for end in get_args(End) if COUNTS_AS[end] == counts_as} == ends


def test_the_document_has_the_same_rows() -> None:
    table = DOC.read_text().partition("| tries | it goes on |")[2].partition("\n\n")[0]
    told = [row.split("|")[1].strip() for row in table.splitlines()[2:]]
    runs = [list(run) for _, run in groupby(range(9), key=place_after)]
    assert told == [", ".join(map(str, run)) if len(run) < 3 else f"{run[0]} to {run[-1]}" for run in runs]
