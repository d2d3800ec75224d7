"""What this machine has known of Redis: an empty one, or another one, is not gone on with until an operator says so."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.conversation.kept import KeptEpoch
from gateway.conversation.mailbox import EMPTY, OTHER, PARTLY, Cold, Mailbox, WrongPartitions
from gateway.store import Layout, Store, Unreachable, open_store
from tests.gateway.conversation.world import PLAY, event, key

Process = Callable[[Path | None], Mailbox]
"""Starts on the machine that has this data folder; none: one that keeps nothing."""


@pytest.fixture
def process(store: Store) -> Process:
    return lambda data: Mailbox(store, PLAY, data=data)


async def wipe(store: Store, partition: int | None = None) -> None:
    prefix = store.layout.prefix if partition is None else f"{store.layout.root(partition)}:"
    async for name in store.redis.scan_iter(f"{prefix}*", count=1_000):
        await store.redis.delete(name)


async def swap(store: Store) -> None:
    """Another deployment's Redis comes in the place of ours; an operator has adopted something there once."""
    await wipe(store)
    others = Mailbox(store, PLAY)
    await others.open()
    await others.adopt()


async def keys(store: Store) -> list[bytes]:
    return sorted([name async for name in store.redis.scan_iter(f"{store.layout.prefix}:*", count=1_000)])


async def accepted(mailbox: Mailbox) -> str:
    said = event("hello", key())
    return (await mailbox.accept(key(), said.dump(), dedupe_keys=[f"{id(said)}"], at_ms=said.at_ms)).state


async def test_a_first_start_begins_and_the_next_one_goes_on_with_it(process: Process, tmp_path: Path) -> None:
    first, second = process(tmp_path), process(tmp_path)
    assert await first.open()
    assert not await second.open()
    assert first.epoch == second.epoch == KeptEpoch(tmp_path, first.store.layout.prefix).read()


async def test_a_process_that_starts_on_an_emptied_redis_takes_nothing_until_somebody_adopts_it(
    process: Process, store: Store, tmp_path: Path
) -> None:
    await process(tmp_path).open()
    await wipe(store)
    late = process(tmp_path)
    with pytest.raises(Cold, match=EMPTY):
        await late.open()
    assert await accepted(late) == "cold"
    with pytest.raises(Cold):
        await late.claim(0, "w1", 1)
    await process(None).adopt()
    assert not await late.open()
    assert await accepted(late) == "new"


async def test_a_word_from_the_same_machine_is_for_those_that_run_as_well(
    process: Process, store: Store, tmp_path: Path
) -> None:
    runs = process(tmp_path)
    await runs.open()
    await wipe(store)
    epoch = await process(tmp_path).adopt()  # before the running process has seen that anything is lost
    assert await accepted(runs) == "new"
    assert runs.epoch == epoch == KeptEpoch(tmp_path, store.layout.prefix).read()


async def test_a_new_machine_takes_over_what_the_others_know(process: Process, store: Store, tmp_path: Path) -> None:
    one = process(tmp_path / "one")
    await one.open()
    other = process(tmp_path / "other")
    assert not await other.open()
    assert one.epoch == other.epoch == KeptEpoch(tmp_path / "other", store.layout.prefix).read()


@pytest.mark.parametrize("has_folder", [True, False])
async def test_a_new_machine_begins_nothing_where_another_one_waits(
    process: Process, store: Store, tmp_path: Path, has_folder: bool
) -> None:
    knows = process(tmp_path / "knows")
    await knows.open()
    await wipe(store)
    assert await knows.why_cold() == EMPTY
    fresh = process(tmp_path / "fresh" if has_folder else None)
    assert await fresh.why_cold() == EMPTY
    with pytest.raises(Cold, match=EMPTY):
        await fresh.open()
    assert not await store.redis.exists(f"{store.layout.root(0)}:meta")
    await process(None).adopt()
    assert not await fresh.open()
    assert await knows.is_warm()
    assert knows.epoch == fresh.epoch


async def test_a_machine_that_comes_after_a_new_one_began_is_cold_until_its_word_is_said(
    process: Process, store: Store, tmp_path: Path
) -> None:
    """All that is left of a loss that nobody who was there could see."""
    await process(tmp_path / "away").open()
    await wipe(store)
    fresh = process(tmp_path / "fresh")
    assert await fresh.open()
    back = process(tmp_path / "away")
    with pytest.raises(Cold, match=OTHER):
        await back.open()
    assert await fresh.is_warm()
    await process(tmp_path / "fresh").adopt()  # whichever machine it is said on
    assert not await back.open()
    assert back.epoch == fresh.epoch


async def test_another_deployments_redis_is_not_gone_on_with_even_where_it_was_adopted_once(
    process: Process, store: Store, tmp_path: Path
) -> None:
    runs = process(tmp_path)
    await runs.open()
    await swap(store)
    assert await runs.why_cold() == OTHER
    with pytest.raises(Cold, match=OTHER):
        await process(tmp_path).open()
    assert await accepted(runs) == "cold"
    await process(None).adopt()
    assert await runs.is_warm()
    assert not await process(tmp_path).open()


async def test_a_word_of_an_earlier_version_is_for_everybody(process: Process, store: Store, tmp_path: Path) -> None:
    runs = process(tmp_path)
    await runs.open()
    await swap(store)
    await store.redis.hdel(f"{store.layout.root(0)}:meta", "instead")
    assert await runs.is_warm()


async def test_adopting_twice_changes_nothing(process: Process, store: Store, tmp_path: Path) -> None:
    runs = process(tmp_path)
    await runs.open()
    await wipe(store)
    epochs = [await process(tmp_path).adopt() for _ in range(2)]
    assert epochs[0] == epochs[1]
    assert await runs.is_warm()


async def test_who_only_looks_makes_nothing(process: Process, store: Store, tmp_path: Path) -> None:
    assert await process(tmp_path).why_cold(notes=False) == ""  # nothing has begun, and nothing is lost
    assert await keys(store) == []
    assert not list(tmp_path.iterdir())
    await process(tmp_path).open()
    await wipe(store)
    assert await process(tmp_path).why_cold(notes=False) == EMPTY
    assert await keys(store) == []


async def test_two_that_start_at_once_on_nothing_begin_one_epoch(
    store: Store, redis_url: str, layout: Layout, tmp_path: Path
) -> None:
    other = open_store(redis_url, layout, timeout_s=5.0)
    both = [Mailbox(one, PLAY, data=tmp_path) for one in (store, other)]
    assert sorted(await asyncio.gather(*(one.open() for one in both))) == [False, True]
    assert both[0].epoch == both[1].epoch == KeptEpoch(tmp_path, layout.prefix).read()
    await other.close()


@contextlib.asynccontextmanager
async def parted(redis_url: str, layout: Layout) -> AsyncIterator[Store]:
    store = open_store(redis_url, Layout(layout.prefix, 3), timeout_s=5.0)
    try:
        yield store
    finally:
        await store.close()


async def test_a_partition_that_is_lost_alone_is_not_begun_anew(redis_url: str, layout: Layout, tmp_path: Path) -> None:
    async with parted(redis_url, layout) as store:
        runs = Mailbox(store, PLAY, data=tmp_path)
        await runs.open()
        await wipe(store, 1)
        assert await runs.why_cold() == PARTLY
        for late in (Mailbox(store, PLAY, data=tmp_path), Mailbox(store, PLAY)):
            with pytest.raises(Cold, match=PARTLY):
                await late.open()
        assert await Mailbox(store, PLAY).adopt() == runs.epoch
        assert await runs.is_warm()


async def test_adopting_gives_all_partitions_one_epoch(redis_url: str, layout: Layout, tmp_path: Path) -> None:
    async with parted(redis_url, layout) as store:
        runs = Mailbox(store, PLAY, data=tmp_path)
        await runs.open()
        await store.redis.hset(f"{store.layout.root(2)}:meta", "epoch", "another")
        assert await runs.why_cold() == OTHER
        await Mailbox(store, PLAY).adopt()
        assert await runs.is_warm()


async def test_with_another_number_of_partitions_nothing_is_adopted(
    process: Process, redis_url: str, layout: Layout
) -> None:
    await process(None).open()
    async with parted(redis_url, layout) as store:
        with pytest.raises(WrongPartitions, match=r"redis\.partitions is 3"):
            await Mailbox(store, PLAY).adopt()


async def test_a_server_that_may_not_be_written_still_says_that_it_is_another(
    process: Process, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = process(tmp_path)
    await runs.open()
    await wipe(store)
    await store.redis.set(f"{store.layout.root(0)}:strangers", "no hash: writing to it fails")
    assert await runs.why_cold() == EMPTY
    monkeypatch.setattr(store, "run", _away)
    with pytest.raises(Unreachable):
        await runs.why_cold()


async def _away(*_: Any) -> None:
    raise Unreachable("away")


# the file


def test_the_file_is_for_us_alone_and_each_prefix_has_its_own(tmp_path: Path) -> None:
    data = tmp_path / "not there yet" / "data"
    one, other = KeptEpoch(data, "dm"), KeptEpoch(data, "dm.2")
    assert one.read() == ""
    one.write("1a")
    other.write("2b")
    one.write("3c")
    assert (one.read(), other.read()) == ("3c", "2b")
    files = sorted((data / "epochs").iterdir())
    assert [(file.name, file.stat().st_mode & 0o777) for file in files] == [("dm", 0o600), ("dm.2", 0o600)]
    assert [folder.stat().st_mode & 0o777 for folder in (data, data / "epochs")] == [0o700, 0o700]


def test_what_is_known_already_is_not_written_again(tmp_path: Path) -> None:
    kept = KeptEpoch(tmp_path, "dm")
    kept.write("1a")
    before = (tmp_path / "epochs" / "dm").stat()
    kept.write("1a")
    assert (tmp_path / "epochs" / "dm").stat().st_ino == before.st_ino


@pytest.mark.parametrize("what", ["a file", "a folder"])
async def test_a_folder_that_cant_be_used_is_told_once_and_gone_on_without(
    process: Process, tmp_path: Path, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    mailbox = process(tmp_path)
    if what == "a file":
        (tmp_path / "epochs").write_text("in its place")
    else:
        (tmp_path / "epochs" / mailbox.store.layout.prefix).mkdir(parents=True)
    with caplog.at_level(logging.WARNING):
        assert await mailbox.open()
        assert await mailbox.is_warm()
        mailbox._know(mailbox.epoch)
    assert await accepted(mailbox) == "new"
    assert [record.getMessage().split(" file=")[0] for record in caplog.records] == ["epoch not kept"]
    assert not list(tmp_path.rglob(".*"))


def test_a_file_without_a_word_says_nothing(tmp_path: Path) -> None:
    kept = KeptEpoch(tmp_path, "dm")
    kept.write("1a")
    (tmp_path / "epochs" / "dm").write_bytes(b"\n")
    assert kept.read() == ""
    (tmp_path / "epochs" / "dm").write_bytes(b"\xff\xfe" * 1_000)
    assert 0 < len(kept.read()) <= 64
