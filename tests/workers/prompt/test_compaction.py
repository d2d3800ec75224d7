"""Compaction: where a conversation is cut, what goes into its summary, and what is sent afterwards."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.conversation.records import History, Record, latest
from tests.workers.prompt.test_rendering import faults, histories
from tests.workers.records import answer, result, said, skill, use, words
from workers.prompt.compaction import LEFT_OUT, Cut, by_rule, cut, put_away, transcript
from workers.prompt.context import begin_after, in_context
from workers.prompt.loaded import loaded
from workers.prompt.rendering import messages


def summary(found: Cut, text: str = "so far", skills: tuple[str, ...] = ()) -> Record:
    data = {"turn": "t", "begin": found.at, "since": found.since, "text": text, "mark": "m4rk", "skills": list(skills)}
    return Record("summary", 0, data)


def turn(number: int, *more: Record) -> list[Record]:
    name = f"turn {number}"
    return [said(f"question {number}", name), *more, answer(1, words(f"answer {number}"))]


def sent(records: list[Record]) -> str:
    return str(messages(records))


@pytest.mark.parametrize(("keep", "first"), [(0, 4), (1, 4), (2, 3), (3, 2)])
def test_the_last_messages_stay_whole_and_the_newest_turn_always_does(keep: int, first: int) -> None:
    records = [one for number in range(1, 5) for one in turn(number)]
    found = cut(records, keep)
    assert found is not None
    assert found.messages == first - 1
    assert next(one.data["turn"] for one in records[found.at :] if one.type == "event") == f"turn {first}"


@pytest.mark.parametrize("keep", [4, 5, 100])
def test_nothing_is_put_away_that_is_to_stay(keep: int) -> None:
    assert cut([one for number in range(1, 5) for one in turn(number)], keep) is None
    assert cut([], keep) is None


def test_a_loaded_skill_and_a_command_count_as_no_message() -> None:
    records = [*turn(1), *turn(2, skill("BODY")), said("/help", "command"), *turn(3)]
    found = cut(records, 2)
    assert found is not None
    assert found.messages == 1
    assert skill("BODY") in records[found.at :]


def test_what_is_put_away_of_skills_is_named_and_not_told() -> None:
    records = [*turn(1, skill("THE BODY", name="one")), *turn(2, skill("ANOTHER", name="two")), *turn(3)]
    found = cut(records, 1)
    assert found is not None
    assert put_away(found, records) == ["one", "two"]
    told = transcript(found.away, 10_000) + by_rule(found.away)
    assert "BODY" not in told
    assert "ANOTHER" not in told
    after = [*records, summary(found, "in short", ("one", "two"))]
    assert loaded(after) == {}
    assert "BODY" not in sent(after)
    assert "put away with it: the skills one, two. Load them again" in sent(after)


def test_a_skill_that_is_still_loaded_is_not_named_as_put_away() -> None:
    records = [*turn(1, skill("OLD", name="one")), *turn(2, skill("NEW", name="one"))]
    found = cut(records, 1)
    assert found is not None
    assert put_away(found, records) == []


def test_a_second_summary_takes_the_first_ones_text_and_place() -> None:
    records = [*turn(1), *turn(2)]
    records.append(summary(Cut((), 2, "turn 2", 1), "FIRST", ("gone",)))
    records += turn(3)
    found = cut(records, 1)
    assert found is not None
    assert transcript(found.away, 10_000).splitlines() == ["FIRST", "Max: question 2", "assistant: answer 2"]
    assert put_away(found, records) == ["gone"]
    after = [*records, summary(found, "SECOND")]
    assert "FIRST" not in sent(after)
    assert sent(after).index("SECOND") < sent(after).index("question 3")


def test_a_summary_within_the_turn_that_runs_leaves_that_turn_whole() -> None:
    running = [said("now", "now"), answer(1, use("a"), stop_reason="tool_use"), result(1, "a", "found")]
    records = [*turn(1), *running]
    found = cut(records, 0)
    assert found is not None
    assert records[found.at :] == running
    after = [*records, summary(found)]
    assert "question 1" not in sent(after)
    assert "found" in sent(after)
    assert cut([*after, answer(2, words("done"))], 0) is None


def test_what_the_model_sums_up_is_bounded_and_keeps_the_first_and_the_newest() -> None:
    records = [one for number in range(1_000) for one in turn(number)]
    told = transcript(records, 5_000)
    assert len(told) <= 5_000
    assert told.startswith("Max: question 0\n" + LEFT_OUT)
    assert told.endswith("assistant: answer 999")
    assert len(by_rule([said("x" * 100_000)])) < 1_000
    huge = [said("go"), answer(1, use("a"), stop_reason="tool_use"), result(1, "a", "y" * 100_000)]
    assert len(transcript(huge, 1_000_000)) < 2_000


def test_what_no_longer_counts_is_not_read_again() -> None:
    records = [*turn(1), *turn(2)]
    found = cut(records, 1)
    assert found is not None
    whole = [*records, summary(found), *turn(3)]
    place = begin_after([summary(found)], len(records))
    assert place == found.at
    read = History([one.dump().encode() for one in whole[place:]], place)
    assert messages(list(read)) == messages(whole)
    assert read.end == len(whole)
    assert read.since(len(whole) - 1) == whole[-1:]
    assert read.before(place + 1) == whole[place : place + 1]
    assert read.before(0) == []


CUTS = st.lists(st.integers(0, 5), min_size=1, max_size=3)


def test_what_is_written_while_the_summary_is_made_shifts_nothing() -> None:
    records = [*turn(1), *turn(2)]
    found = cut(records, 1)
    assert found is not None
    beside = [said("/status", "turn 2"), Record("model", 0, {"name": "other"})]
    after = [*records, *beside, summary(found)]
    assert in_context(after)[1:] == [*records[found.at :], *beside]
    assert latest(after, "model") == "other"


@settings(max_examples=200, deadline=None)
@given(CUTS, st.data())
def test_however_it_is_cut_the_strict_service_takes_it(keeps: list[int], data: st.DataObject) -> None:
    records = data.draw(histories("0"))
    for number, keep in enumerate(keeps, 1):
        if found := cut(records, keep):
            before = in_context(records)
            records.append(summary(found, f"summary {number}"))
            first, *kept = in_context(records)
            assert first is records[-1]
            assert [*_no_summary(found.away), *kept] == _no_summary(before)
        records += data.draw(histories(str(number)))
        assert faults(messages(records)) is None
        assert faults(messages(records, {"p": "AAAA"})) is None


def _no_summary(records: Sequence[Record]) -> list[Record]:
    return [one for one in records if one.type != "summary"]
