"""Records as they are kept and read."""

from __future__ import annotations

from gateway.conversation.records import History, Record


def lines(count: int) -> list[bytes]:
    return [Record("reply", number, {"text": f"r{number}"}).dump().encode() for number in range(count)]


def test_a_record_comes_back_as_it_was() -> None:
    record = Record("answer", 5, {"step": 1, "content": [{"type": "text", "text": "好"}]})
    assert Record.load(record.dump()) == record


def test_a_history_is_what_was_stored_and_what_came_since() -> None:
    history = History(lines(3))
    new = Record("reply", 9, {"text": "new"})
    history.extend([new])
    assert len(history) == 4
    assert [record.at_ms for record in history] == [0, 1, 2, 9]
    assert [record.at_ms for record in reversed(history)] == [9, 2, 1, 0]
    assert history[3:] == [new]
    assert history[4:] == []
    assert [record.at_ms for record in history[2:]] == [2, 9]
    assert [record.at_ms for record in history[:2]] == [0, 1]
    assert history[-1] == new
    assert list(History([])) == []


def test_what_comes_after_it_was_read_is_there_and_what_was_taken_out_of_it_stays_as_it_was() -> None:
    history = History(lines(2))
    before = history[:]
    for number in (7, 8):
        history.extend(iter([Record("reply", number)]))
        assert [record.at_ms for record in history][-1] == number
    assert [record.at_ms for record in before] == [0, 1]
    history.rest()
    assert [record.at_ms for record in history] == [0, 1, 7, 8]


def test_what_is_no_record_keeps_its_place() -> None:
    stored = [*lines(1), b"{broken\nin two", b'{"no": "type"}', b"[]", *lines(1)]
    assert [record.type for record in History(stored)] == ["reply", *["unreadable"] * 3, "reply"]
