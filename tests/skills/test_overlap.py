"""Descriptions that are easily confused, in two languages and other words."""

from __future__ import annotations

from pathlib import Path

import pytest

from skills.overlap import THRESHOLD, Described, likeness, overlaps
from tests.harness.cpu import cpu_within

Pair = tuple[Described, Described]


def pairs(part: str) -> dict[bool, list[Pair]]:
    """Those of one part of the file, by whether one request could fit both."""
    found: dict[bool, list[Pair]] = {True: [], False: []}
    current = ""
    for line in Path(__file__).with_name("overlap_pairs.txt").read_text("utf-8").splitlines():
        if line.startswith("## "):
            current = line[3:]
        elif current == part and line:
            kind, _, rest = line.partition(" ")
            one, other = (Described(*side.split(" | ", 1)) for side in rest.split(" || "))
            found[kind == "same"].append((one, other))
    return found


def reported(one: Described, other: Described) -> bool:
    return bool(list(overlaps([one, other])))


@pytest.mark.parametrize("part", ["first", "second", "third", "fourth", "fifth"])
def test_of_thirty_pairs_thirteen_overlaps_are_found_and_at_most_two_are_false(part: str) -> None:
    both = pairs(part)
    assert (len(both[True]), len(both[False])) == (15, 15)
    missed = [(one.id, other.id) for one, other in both[True] if not reported(one, other)]
    false = [(one.id, other.id) for one, other in both[False] if reported(one, other)]
    assert len(missed) <= 2, missed
    assert len(false) <= 2, false


def test_an_overlap_names_what_both_speak_of() -> None:
    [found] = overlaps(
        [
            Described("weather", "Tells the weather."),
            Described("expenses", "Checks expense claims and receipts."),
            Described("报销", "核对报销单据和发票"),
        ]
    )
    assert (found.first, found.second) == (1, 2)
    assert "expense" in found.common
    assert found.score >= THRESHOLD


def test_a_description_that_names_its_neighbour_is_told_apart() -> None:
    one = Described(
        "expense-report", "Checks expense claims and receipts. Not for suppliers' bills: that is bill-check."
    )
    other = Described("bill-check", "Checks expense claims, receipts and bills of suppliers.")
    assert likeness(one, other) >= THRESHOLD
    assert not reported(one, other)
    assert reported(Described("expense-report", "Checks expense claims and receipts."), other)


@pytest.mark.parametrize("clause", ["Not for invoices of suppliers.", "Do not use for invoices.", "不用于发票。"])
def test_what_a_skill_is_not_for_does_not_count(clause: str) -> None:
    invoices = Described("invoices", "Books invoices of suppliers.")
    assert likeness(Described("travel", f"Plans business trips. {clause}"), invoices) == 0


def test_it_makes_no_difference_which_comes_first() -> None:
    for one, other in [*pairs("first")[True], *pairs("fifth")[False]]:
        assert likeness(one, other) == pytest.approx(likeness(other, one))


def test_what_everybody_speaks_of_tells_nothing_apart() -> None:
    words = "alpha beta gamma delta epsilon zeta theta kappa lambda sigma omega tau".split()  # noqa: SIM905 - a row of words
    crowd = [Described(word, f"Answers customers about {word} contracts.") for word in words]
    assert list(overlaps(crowd)) == []
    twins = [
        *crowd,
        Described("payroll-help", "Explains payslips."),
        Described("wages", "Answers questions on salaries."),
    ]
    assert [(found.first, found.second) for found in overlaps(twins)] == [(12, 13)]


def test_a_thousand_skills_are_compared_in_seconds() -> None:
    subjects = [one for part in ("first", "fifth") for pair in pairs(part)[True] for one in pair]
    many = [Described(f"{subjects[at % 60].id}-{at}", f"{subjects[at % 60].description} no{at}") for at in range(1_000)]
    with cpu_within(10):
        assert list(overlaps(many))
