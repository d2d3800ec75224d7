"""Small whole runs, each with a seed of its own that stays: deskmate passes, and the plain way does not."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import psutil
import pytest

import workers.alone
import workers.opening  # noqa: F401  # so that all scripts are known by their names
from tests.chaos import soak
from tests.chaos.naive import naive_town
from tests.chaos.run import Order, chaos
from tests.harness.checking import check
from tests.harness.history import Granted, History, Posted, Wrote

SEED: Final = 11


@pytest.mark.timeout(240)
async def test_a_crowd_is_answered_once_and_in_order_whatever_dies(tmp_path: Path) -> None:
    # leases longer than the shortest, and room in time: on a busy machine waits are long, and that is not what is tried here
    waits = {"mailbox": {"lease_s": 2.5, "poll_s": 0.3, "send_timeout_s": 1.5}}
    order = Order(
        SEED, messages=60, conversations=12, rate=4.0, doubled=0.2, waits=waits, between_s=(1.0, 3.0), redis_s=7.0,
        lease_s=2.5, workers=2, think_s=0.2, told_within_s=120.0, back_within_s=120.0,
    )  # fmt: skip
    came = await chaos(order, tmp_path / "run", lambda _: None)
    assert not came.verdict.violations, came.verdict.report()
    counts = came.verdict.counts
    assert counts["messages"] == counts["taken"] >= order.messages + order.conversations
    assert counts["deliveries"] > counts["messages"]
    assert came.kills + came.stops >= 4
    assert came.redis_kills >= 1
    assert counts["grants"]
    assert counts["effects"]


@pytest.mark.timeout(240)
async def test_the_plain_way_loses_and_doubles_under_the_same_deaths(tmp_path: Path) -> None:
    """Else the checker is blind."""
    order = Order(
        SEED, messages=36, conversations=10, rate=3.0, doubled=0.25, between_s=(0.8, 2.4), redis_s=None, gateways=1,
        workers=3, victims=("worker",), pauses=0.0, think_s=0.5, kinds=(("plain", 1.0),), told_within_s=10.0,
        back_within_s=6.0,
    )  # fmt: skip
    came = await chaos(order, tmp_path / "run", lambda _: None, naive_town)
    found = {(one.invariant, one.what) for one in came.verdict.violations}
    assert {("I1", "lost"), ("I2", "doubled")} <= found, came.verdict.report()


@pytest.mark.timeout(240)
async def test_a_short_soak_leaves_memory_descriptors_and_threads_as_they_are(tmp_path: Path) -> None:
    most = {
        **soak.MOST,
        "memory": 0.25,
        "descriptors": 0.5,
        "connections": 1.0,
        "threads": 0.5,
    }  # in so short a time it is not warm yet
    order = soak.Order(SEED, minutes=0.3, rate=5.0, conversations=10, think_s=0.1, most=most)
    came = await soak.soak(order, tmp_path / "run", lambda _: None)
    assert not came.verdict.violations, came.verdict.report()
    assert not came.too_much, came.lines()
    assert came.verdict.counts["messages"] == 90
    assert {name.rpartition(" ")[2] for name in came.grew} == {
        "memory",
        "descriptors",
        "connections",
        "threads",
        "keys",
        "notes",
        "dataset",
    }


def test_what_grows_in_a_soak_is_named() -> None:
    before, after = ({"worker memory": 100.0}, {"worker memory": 130.0})
    grew = soak.grown([before, before, before, after])
    assert grew == {"worker memory": (100.0, 130.0)}
    verdict = check(History.of([]))
    assert soak.Came(soak.Order(1), verdict, grew, 4).too_much == ["worker memory"]
    assert not soak.Came(soak.Order(1), verdict, soak.grown([before] * 4), 4).too_much
    keys = {"redis keys": (100.0, 200.0)}
    assert soak.Came(soak.Order(1), verdict, keys, 4).too_much == ["redis keys"]
    assert not soak.Came(soak.Order(1, minutes=1.0), verdict, keys, 4).too_much


def too_much(name: str, counts: Iterable[int]) -> list[str]:
    samples = [{name: float(count)} if count else {} for count in counts]
    return soak.Came(soak.Order(1), check(History.of([])), soak.grown(samples), len(samples)).too_much


@pytest.mark.parametrize("name", ["worker file descriptors", "worker redis connections"])
def test_a_pool_that_fills_is_told_from_a_leak(name: str) -> None:
    """By each kind alone: in the sum, what leaks is hidden by what comes and goes."""
    assert not too_much(name, [5, 9, 9, 10, 10, 11, 11, 12]), "as many as were ever wanted at once"
    assert not too_much(name, [5, 20, 8, 30, 9, 25, 12, 9]), "it comes and goes"
    assert too_much(name, [5, 6, 7, 8, 9, 10, 11, 12]) == [name], "it rises with each turn"
    assert too_much(name, [0, 0, 0, 0, 0, 2, 4, 6]) == [name], "it was not there before"


def test_a_pool_may_grow_by_as_many_as_were_more_at_once() -> None:
    """A machine that stands still for a moment has more turns at once than ever before."""
    grants = [Granted(at_s, conversation=f"c{at_s}", process="w", token="", fence=1) for at_s in (1, 3, 12, 13, 14, 15)]
    ends = [
        Wrote(at_s, conversation="", process="w", token="", fence=1, script="settle", verdict="OK", releases=True)
        for at_s in (2, 4, 16, 17, 18, 19)
    ]
    posts = [
        Posted(at_s, conversation="c", message="m", begin_s=begin_s, status=200, place=0, process="g")
        for begin_s, at_s in ((1, 5), (2, 6), (3, 7), (15, 16))
    ]
    most = soak.at_once(History.of([*grants, *ends, *posts]))
    assert most == {"w": (1, 4), "g": (3, 1)}
    grew = {"w redis connections": (8.0, 14.0), "w model connections": (8.0, 15.0), "w file descriptors": (4.0, 8.0)}
    came = soak.Came(soak.Order(1), check(History.of([])), grew, 8, most)
    assert came.too_much == ["w model connections", "w file descriptors"]


def test_descriptors_are_told_by_where_they_lead(tmp_path: Path) -> None:
    """Of this very process."""
    this = psutil.Process()
    with socket.create_server(("127.0.0.1", 0)) as server, ExitStack() as open_:
        port = server.getsockname()[1]
        before = soak.descriptors(this, {port: "redis"})
        for _ in range(3):
            client = open_.enter_context(socket.create_connection(("127.0.0.1", port)))
            open_.enter_context(server.accept()[0])
            open_.enter_context((tmp_path / "log").open("w"))
        for end in os.pipe():
            open_.callback(os.close, end)
        assert client
        after = soak.descriptors(this, {port: "redis"})
    more = {name: number - before.get(name, 0) for name, number in after.items() if number != before.get(name, 0)}
    assert more == {"redis connections": 3, "served connections": 3, "file descriptors": 3, "pipe descriptors": 2}
