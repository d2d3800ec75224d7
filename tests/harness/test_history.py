"""Ledgers: what is written is read again, whole and in order, and what is none of ours is named."""

from __future__ import annotations

import multiprocessing
from dataclasses import fields, replace
from pathlib import Path

import pytest

from tests.harness.history import (
    KINDS,
    Accepted,
    Asked,
    Began,
    Effect,
    Ended,
    Event,
    Fault,
    Found,
    Granted,
    History,
    Ledger,
    Letter,
    Posted,
    Refused,
    Torn,
    Wrote,
    dumped,
    loaded,
    now_s,
    read,
)

EACH: tuple[Event, ...] = (
    Began(1.0, "chaos", 7, {"hold_back_s": 0.3}, "c1"),
    Posted(2.0, "c1", "m1", 1.9, 200, 0, 1.8, "e1", "gateway-0", 3, "notice", "kiwi"),
    Accepted(3.0, "c1", "k", "i", "reply", ("m1", "m2"), 2, 3, "Grüße\n\u2028", "j", True, "s", "X7", 2.9, "worker-1"),
    Refused(4.0, "c1", 429, "too fast", "k", "worker-1"),
    Asked(5.0, "c1", "roles", ("m1",), ("s1",), ("kiwi",), 12, "worker-1", "summary", "a", "Noon", ("s1=w",)),
    Effect(6.0, "c1", "s1", "begun", "once", "k", "worker-1", "w"),
    Granted(7.0, "c1", "worker-1", "9-w", 9, 6.9),
    Wrote(8.0, "c1", "worker-1", "9-w", 9, "append", "FENCED", 7.9, True, ("a",), ("s1",)),
    Fault(9.0, "redis", "kill", "W13"),
    Found(10.0, "redis", "k:1", "kiwi", "c2"),
    Letter(10.5, "c1", "8 holders died"),
    Ended(11.0),
)


def test_each_kind_of_event_is_read_as_it_was_written() -> None:
    assert {type(event) for event in EACH} == set(KINDS.values())
    for event in EACH:
        assert loaded(dumped(event)) == event
        assert dumped(event).count(b"\n") == 1


def test_what_is_as_by_default_is_left_out_and_comes_back() -> None:
    event = Accepted(1.0, "c1")
    assert dumped(event) == b'{"kind": "accepted", "at_s": 1.0, "conversation": "c1"}\n'
    assert loaded(dumped(event)) == event


def test_files_of_several_sources_are_one_history_in_the_order_of_time(tmp_path: Path) -> None:
    for number in range(2):
        with Ledger(tmp_path / f"source-{number}.jsonl", fsync=True) as ledger:
            for event in EACH[number::2]:
                ledger.write(event)
    history = read(tmp_path)
    assert history.events == EACH
    assert list(history.all(Fault)) == [EACH[8]]
    assert read(tmp_path / "source-0.jsonl", tmp_path / "source-1.jsonl") == history


def test_a_ledger_is_appended_to(tmp_path: Path) -> None:
    for event in EACH:
        with Ledger(tmp_path / "one.jsonl") as ledger:
            ledger.write(event)
    assert read(tmp_path).events == EACH


def _write_many(path: Path, who: str) -> None:
    with Ledger(path) as ledger:
        for number in range(200):
            ledger.write(Accepted(now_s(), who, key=str(number), text="x" * 3_000))


def test_processes_that_write_one_file_do_not_mix_their_lines(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=_write_many, args=(tmp_path / "one.jsonl", f"c{one}")) for one in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    taken = [(one.conversation, int(one.key)) for one in read(tmp_path).all(Accepted)]
    assert sorted(taken) == [(f"c{one}", number) for one in range(2) for number in range(200)]
    times = [event.at_s for event in read(tmp_path).events]
    assert times == sorted(times)


def test_a_last_line_that_was_broken_off_is_no_event(tmp_path: Path) -> None:
    whole = dumped(EACH[1])
    (tmp_path / "one.jsonl").write_bytes(whole + dumped(EACH[2])[:-5])
    assert read(tmp_path).events == EACH[1:2]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"{", "Expecting"),
        (b'{"kind": "lied", "at_s": 1}', "no such kind"),
        (b'{"kind": "ended", "at_s": 1, "tired": true}', "ended has no tired"),
        (b'{"kind": "fault", "at_s": 1, "target": "redis", "what": "dance"}', "fault.what can't be 'dance'"),
        (b'{"kind": "fault", "at_s": 1}', "missing"),
    ],
)
def test_a_line_that_is_none_of_ours_is_named(tmp_path: Path, line: bytes, why: str) -> None:
    (tmp_path / "one.jsonl").write_bytes(dumped(EACH[0]) + line + b"\n" + dumped(EACH[1]))
    with pytest.raises(Torn, match=rf"one\.jsonl:2: .*{why}"):
        read(tmp_path)


def test_nothing_to_read_is_no_empty_history(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no ledgers"):
        read(tmp_path)


def test_equal_times_keep_their_order() -> None:
    first, second = Fault(1.0, "redis", "away"), Fault(1.0, "redis", "back")
    assert History.of([first, second]).events == (first, second)
    assert History.of([replace(second, at_s=0.5), first]).events[0].at_s == 0.5


def test_each_event_has_a_time() -> None:
    assert all(fields(kind)[0].name == "at_s" for kind in KINDS.values())
