"""Calm: collections wait while skills come into memory, and only as long."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator

import pytest

from gateway.running import calm as calm_module
from gateway.running.calm import calm, calmly

USUAL_S = sys.getswitchinterval()


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    gc.unfreeze()


def is_calm() -> bool:
    return not gc.isenabled() and sys.getswitchinterval() < USUAL_S


def test_nothing_is_collected_and_threads_give_way_until_the_last_one_ends() -> None:
    with calm():
        with calm():
            assert is_calm()
        assert is_calm()
    assert gc.isenabled()
    assert sys.getswitchinterval() == USUAL_S


def test_collections_go_on_after_an_error() -> None:
    with pytest.raises(KeyError), calm():
        raise KeyError
    assert gc.isenabled()


async def test_what_runs_calmly_is_a_thread_and_what_it_says_comes_back() -> None:
    def work(factor: int) -> tuple[int, bool, bool]:
        return factor * 2, is_calm(), threading.current_thread() is threading.main_thread()

    assert await calmly(work, 21) == (42, True, False)
    assert gc.isenabled()


def test_many_new_objects_are_not_looked_at_again_and_few_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calm_module, "MANY", 5_000)
    gc.collect()
    before = gc.get_freeze_count()
    with calm():
        few = [[number] for number in range(1_000)]
    assert gc.get_freeze_count() == before
    with calm():
        many = [[number] for number in range(20_000)]
    assert gc.get_freeze_count() > before + len(few) + len(many) - 1_000
