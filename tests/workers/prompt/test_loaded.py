"""What counts as loaded, what is withheld, and when what is sent begins anew: all from records."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.conversation.records import Record
from tests.workers.records import answer, result, said, skill, use, words
from workers.agent.breaks import breaks
from workers.prompt.loaded import Held, Why, held, loaded, narrowing, withheld, withhold
from workers.prompt.rendering import messages

WAYS = ("message", "tool_result", "next_turn")


def load(name: str, delivery: str, *, text: str = "BODY", **more: Any) -> list[Record]:
    """A step that loads one skill."""
    call = f"load-{name}-{text.encode().hex()}"
    return [
        answer(1, use(call, "load_skill"), stop_reason="tool_use"),
        result(1, call, f"Loaded {name}."),
        skill(f"{text} of {name}", name, delivery=delivery, call=call, **more),
    ]


def read(name: str, text: str) -> list[Record]:
    """A step that reads a file of a skill."""
    call = f"read-{name}-{text.encode().hex()}"
    more = {"untrusted": True, "mark": "m", "skill": name, "bundle": "b"}
    return [answer(1, use(call, "load_skill"), stop_reason="tool_use"), result(1, call, text, **more)]


def whole(history: Sequence[Record]) -> str:
    return json.dumps(messages(history))


@pytest.mark.parametrize("delivery", WAYS)
@pytest.mark.parametrize(
    ("why", "told"),
    [
        ("off", "switched off here"),
        ("untrusted", "nobody here has said"),
        ("changed", "not those that were trusted"),
        ("unsure", "nobody can tell now"),
        ("gone", "not there any more"),
        ("unloaded", "put away"),
    ],
)
def test_what_is_withheld_is_sent_no_more_and_a_line_says_why(delivery: str, why: Why, told: str) -> None:
    history = [said("go"), *load("a", delivery), *read("a", "FILE"), *load("b", delivery), said("on", "two")]
    assert all(text in whole(history) for text in ("BODY of a", "FILE", "BODY of b"))
    history.append(withheld(["a"], why, at_ms=0))
    assert "BODY of a" not in whole(history)
    assert "FILE" not in whole(history)
    assert "BODY of b" in whole(history)
    assert whole(history).count(told) == 2
    assert list(loaded(history)) == ["b"]
    history += [*load("a", delivery, text="AGAIN"), said("and on", "three")]
    assert "AGAIN of a" in whole(history)
    assert "BODY of a" not in whole(history)
    assert loaded(history)["a"].size_bytes == len("AGAIN of a")


def test_what_only_waits_goes_without_a_line() -> None:
    history = [said("go"), *load("a", "next_turn"), withheld(["a"], "off", at_ms=0), said("on", "two")]
    assert "BODY" not in whole(history)
    assert "switched off" not in whole(history)
    assert not loaded(history)


def test_the_three_newest_wait_and_come_once_in_front_of_what_the_person_says_next() -> None:
    history = [said("go")]
    for name in ("a", "b", "c", "d", "b"):
        history += load(
            name, "next_turn", text="NEW" if name == "b" and len(history) > 9 else "OLD", hash=str(len(history))
        )
    assert [(one.id, one.is_waiting, one.sent_hash) for one in loaded(history).values()] == [
        ("c", True, None), ("d", True, None), ("b", True, None)
    ]  # fmt: skip
    assert "OLD" not in whole(history)
    assert "NEW" not in whole(history)
    history += [answer(2, words("Done.")), said("/help", "h"), said("next", "two")]
    last = messages(history)[-1]["content"]
    assert [text in last[0]["text"] for text in ("OLD of a", "OLD of b", "OLD of c", "OLD of d", "NEW of b")] == [
        False, False, True, True, True
    ]  # fmt: skip
    assert last[1]["text"] == "[Max] next"
    assert not any(one.is_waiting for one in loaded(history).values())
    history += [answer(3, words("Done.")), said("more", "three")]
    assert whole(history).count("OLD of c") == 1


def test_a_skill_whose_text_changed_waits_as_the_newest_and_a_command_is_no_message() -> None:
    history = [said("go")]
    for name, version in (("a", "1"), ("b", "1"), ("c", "1"), ("a", "2"), ("d", "1")):
        history += load(name, "next_turn", text=f"V{version}", hash=version)
    assert list(loaded(history)) == ["c", "a", "d"]
    history += [answer(2, words("Done.")), said("/help", "h")]
    assert not any(f"V{version} of" in whole(history) for version in "12")
    assert all(one.is_waiting for one in loaded(history).values())
    history.append(said("next", "two"))
    assert [text in whole(history) for text in ("V1 of a", "V2 of a", "V1 of b", "V1 of c")] == [
        False,
        True,
        False,
        True,
    ]


@pytest.mark.parametrize("delivery", WAYS)
def test_a_cleared_conversation_has_nothing_loaded_and_nothing_waits(delivery: str) -> None:
    history = [said("go"), *load("a", delivery, tools=["x"]), Record("cleared", 0), said("new", "two")]
    assert (loaded(history), narrowing(history), held(history)) == ({}, {}, ())
    assert "BODY" not in whole(history)


@pytest.mark.parametrize("delivery", WAYS)
def test_a_turns_start_withholds_what_is_not_allowed_any_more(delivery: str) -> None:
    history = [said("go")]
    for name in ("off", "lost", "fine"):
        history += [*load(name, delivery), *read(name, f"FILE of {name}")]
    history += read("data", "FILE of data")
    why: dict[str, Why] = {"off": "off", "lost": "untrusted", "data": "untrusted"}
    records = withhold(history, lambda one: why.get(one.id), turn="two", at_ms=7)
    assert [(one.data["ids"], one.data["why"], one.data["turn"], one.at_ms) for one in records] == [
        (["off"], "off", "two", 7),
        (["lost"], "untrusted", "two", 7),
    ]
    history += [*records, said("on", "two")]
    assert [f"FILE of {name}" in whole(history) for name in ("off", "lost", "fine", "data")] == [
        False,
        False,
        True,
        True,
    ]
    assert withhold(history, lambda one: why.get(one.id), turn="three", at_ms=8) == ()
    assert held(history)[0] == Held("fine", "b", is_guidance=True, tier="org")
    assert withhold(history, lambda one: "off" if one.id == "data" else None, turn="t", at_ms=9)[0].data["ids"] == [
        "data"
    ]


@st.composite
def conversations(draw: st.DrawFn) -> list[Record]:
    """Turns with loads, files and what takes them away, and a record for each request that is made."""
    records: list[Record] = []
    number = 0
    delivery = draw(st.sampled_from(WAYS))
    for turn in range(draw(st.integers(1, 6))):
        name = f"turn{turn}"
        records.append(said(f"message {turn}", name))
        for _ in range(draw(st.integers(0, 4))):
            number += 1
            records.append(Record("call", 0, {"step": 1, "turn": name}))
            which = draw(st.sampled_from("abcde"))
            match draw(st.sampled_from(["load", "read", "unload", "steer", "load twice"])):
                case "load":
                    records += load(which, delivery, text=f"T{number}")
                case "load twice":
                    first, second = load(which, delivery, text=f"T{number}"), load("x", delivery, text=f"U{number}")
                    both = answer(1, *first[0].data["content"], *second[0].data["content"], stop_reason="tool_use")
                    records += [both, *first[1:], *second[1:]]
                case "read":
                    records += read(which, f"F{number}")
                case "unload":
                    records.append(answer(1, use(f"u{number}", "unload_skill"), stop_reason="tool_use"))
                    records += [result(1, f"u{number}"), withheld([which], "unloaded", at_ms=0)]
                case "steer":
                    records += [answer(1, use(f"s{number}"), stop_reason="tool_use"), result(1, f"s{number}")]
                    records.append(said(f"also {number}", name))
        match draw(st.sampled_from(["answer", "buried", "cleared", "off"])):
            case "answer":
                records += [Record("call", 0, {"step": 9, "turn": name}), answer(9, words(f"Done {turn}."))]
            case "buried":
                records.append(Record("failed", 0, {"turn": name, "reason": "died"}))
            case "cleared":
                records.append(Record("cleared", 0))
            case "off":
                records.append(withheld([draw(st.sampled_from("abc"))], "off", at_ms=0))
    return [*records, said("last", "last"), Record("call", 0, {"step": 1, "turn": "last"})]


def begins(now: list[dict[str, Any]], before: list[dict[str, Any]]) -> bool:
    """Whether a request begins with all of another's messages."""
    return json.dumps(now).startswith(json.dumps(before)[:-2])  # without the two brackets that close it


@settings(max_examples=120, deadline=None)
@given(conversations())
def test_a_request_begins_with_the_one_before_unless_a_reason_is_counted(records: list[Record]) -> None:
    asked = [at for at, record in enumerate(records) if record.type == "call"]
    for before, now in itertools.pairwise(asked):
        assert begins(messages(records[:now]), messages(records[:before])) == (not breaks(records[:now])), (
            records[before:now], breaks(records[:now])
        )  # fmt: skip
