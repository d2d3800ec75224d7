"""Which points a sweep strikes follows from its seed."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.sweep.choosing import NoPoint, Order, Turn, plans
from tests.sweep.trap import Point

POINTS = [Point("worker", "redis", name, nth, "before") for name in ("take", "append", "mark") for nth in (1, 2, 3)]
PLAIN: Turn = ("plain", "keyed", "")
ONCE: Turn = ("once", "keyed", "")


def test_each_point_comes_once_a_round() -> None:
    chosen = [one["point"] for one in plans(Order(seed=1, count=18), {PLAIN: POINTS})]
    assert Counter(chosen[:9]) == Counter(POINTS)
    assert Counter(chosen[9:]) == Counter(POINTS)
    assert chosen[:9] != chosen[9:], "in another order"


def test_another_point_changes_nothing_of_the_order_of_the_others() -> None:
    order = Order(seed=5, count=9)
    before = [one["point"] for one in plans(order, {PLAIN: POINTS})]
    more = Point("worker", "redis", "settle", 1, "after")
    after = [one["point"] for one in plans(Order(seed=5, count=10), {PLAIN: [more, *reversed(POINTS)]})]
    assert [point for point in after if point != more] == before


def test_a_short_run_takes_all_kinds_in_turn() -> None:
    chosen = list(plans(Order(seed=2, count=6, spread=True), {PLAIN: POINTS, ONCE: POINTS}))
    assert [one["kind"] for one in chosen] == ["once", "plain"] * 3


def test_what_is_not_there_is_said() -> None:
    with pytest.raises(NoPoint, match="nothing"):
        list(plans(Order(seed=1, count=1, at="nothing"), {PLAIN: POINTS}))


def test_a_worker_alone_is_struck_at_the_points_of_a_turn_alone() -> None:
    alone: Turn = ("plain", "keyed", "alone")
    [one] = plans(Order(seed=1, count=1, hows=("parent",)), {PLAIN: POINTS[:3], alone: POINTS[3:4]})
    assert one["point"] == POINTS[3]


def test_what_only_a_process_says_that_has_begun_is_struck_in_such_a_one() -> None:
    chosen = list(plans(Order(seed=1, count=9), {PLAIN: POINTS}, {(PLAIN, POINTS[0])}))
    assert [one["point"] for one in chosen if one["begins"]] == POINTS[:1]


def test_a_neighbour_that_is_struck_comes_behind_all_deaths() -> None:
    sole: Turn = ("plain", "keyed", "sole")
    mine, beside = (Point("worker", "redis", name, 1, "before") for name in ("take", "beside hand_over"))
    chosen = list(plans(Order(seed=4, count=40, hows=("sole",), deaths=3), {sole: [mine, beside]}))
    assert {len(one["deaths"]) for one in chosen} == {3}
    assert {one["speaks_after"] for one in chosen if one["point"] == beside} == {3}
    assert {one["speaks_after"] for one in chosen if one["point"] == mine} == {0, 1, 2, 3}
