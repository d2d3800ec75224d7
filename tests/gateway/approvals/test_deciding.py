"""What a plain word counts for. Words on what is asked by their code are in `tests.workers.calling.test_persons`."""

import pytest

from gateway.approvals.asked import Kind
from gateway.approvals.deciding import wants_word
from gateway.conversation.records import Record


def asked(kind: Kind, code: str = "ABCDEF") -> Record:
    return Record("asked", 1, {"turn": "t", "code": code, "kind": kind, "until_ms": 9, "text": "?"})


@pytest.mark.parametrize("said", ["yes", "Yes!", "ok", "NO", "go ahead", "不", "好的。"])
def test_beside_calls_alone_a_plain_word_is_told_what_to_type(said: str) -> None:
    assert wants_word(said, [asked("approval"), asked("approval", "GHIJKL")])


def test_what_says_more_is_talk() -> None:
    assert not wants_word("yes, and then delete it", [asked("approval")])


@pytest.mark.parametrize("kind", ["question", "plan"])
def test_where_something_else_waits_it_may_be_the_answer_to_that(kind: Kind) -> None:
    assert not wants_word("yes", [asked("approval"), asked(kind, "GHIJKL")])


def test_where_nothing_waits_it_is_talk() -> None:
    assert not wants_word("yes", [asked("approval"), Record("decided", 2, {"code": "ABCDEF", "word": "yes"})])
