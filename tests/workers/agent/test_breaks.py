"""Why a request does not begin with the bytes of the one before: read from the records alone."""

from __future__ import annotations

import pytest

from gateway.conversation.records import Record
from tests.workers.records import answer, said, skill, words
from workers.agent.breaks import breaks


def call(turn: str = "turn") -> Record:
    return Record("call", 0, {"step": 1, "turn": turn})


def picture(file: str, of: str = "look") -> Record:
    data = {"turn": "turn", "of": of, "number": 0, "name": "a.png", "kind": "image", "mime": "image/png", "file": file}
    return Record("attached", 0, data)


def forgotten(*files: str) -> Record:
    return Record("forgotten", 0, {"turn": "turn", "files": list(files)})


def withheld(name: str, why: str) -> Record:
    return Record("withheld", 0, {"ids": [name], "why": why, "turn": "turn"})


SEEN = [said("look"), picture("p1"), picture("p2"), call(), answer(1, words("a cat"))]


@pytest.mark.parametrize(
    ("since", "reasons"),
    [
        ([], ()),
        ([said("more"), picture("p3", "more")], ()),
        ([forgotten("p1")], ("forgotten",)),
        ([forgotten("p3", "p2")], ("forgotten",)),
        ([forgotten("p1"), forgotten("p2")], ("forgotten",)),
        ([said("more"), picture("p3", "more"), forgotten("p3")], ()),
        ([Record("cleared", 0)], ("cleared",)),
        (
            [Record("prompt", 0, {"hash": "h"}), Record("cleared", 0), forgotten("p1")],
            ("prompt", "cleared", "forgotten"),
        ),
        ([Record("overheard", 0, {"until_ms": 1, "said": [], "mark": "m"})], ()),
        ([Record("switched", 0, {"model": "spare"}), Record("switched", 0, {"model": "m"})], ("model",)),
        ([Record("file", 0, {"file": {}}), Record("card", 0, {"text": "x"})], ()),
    ],
)
def test_each_reason_is_named_once_and_what_only_adds_is_none(since: list[Record], reasons: tuple[str, ...]) -> None:
    assert breaks([*SEEN, *since]) == reasons


def test_before_the_first_request_nothing_breaks() -> None:
    assert breaks([]) == ()
    assert breaks([said("look"), picture("p1"), forgotten("p1"), Record("prompt", 0, {"hash": "h"})]) == ()


def test_what_broke_one_request_does_not_break_the_next() -> None:
    assert breaks([*SEEN, forgotten("p1"), call()]) == ()
    assert breaks([*SEEN, forgotten("p1"), call(), forgotten("p2")]) == ("forgotten",)


def test_a_picture_that_was_left_out_before_breaks_nothing_when_it_is_named_again() -> None:
    assert breaks([said("look"), picture("p1"), forgotten("p1"), call(), forgotten("p1")]) == ()


def test_a_buried_turn_breaks_what_it_was_part_of() -> None:
    failed = Record("failed", 0, {"turn": "turn", "reason": "died"})
    assert breaks([*SEEN, failed]) == ("buried",)
    assert breaks([*SEEN, Record("failed", 0, {"turn": "other", "reason": "died"})]) == ()
    assert breaks([*SEEN, Record("failed", 0, {"turn": "turn", "reason": "send rejected", "part": 0})]) == ()


def test_a_withheld_skill_breaks_only_where_its_text_was_sent() -> None:
    loaded = [said("go"), skill("Do so.", "ops"), call()]
    assert breaks([*loaded, withheld("ops", "off")]) == ("off",)
    assert breaks([*loaded, withheld("net", "off")]) == ()
