"""Every input of the corpus, read as others' bytes are: refused in the documented way or read, and soon."""

from __future__ import annotations

import pytest

from tests.fuzz.__main__ import CORPUS
from tests.fuzz.targets import TARGETS
from tests.fuzz.watch import TooSlow, tried

INPUTS = sorted(file for folder in CORPUS.iterdir() for file in folder.iterdir())


def test_each_target_has_a_corpus_and_each_corpus_a_target() -> None:
    assert {file.parent.name for file in INPUTS} == set(TARGETS)


@pytest.mark.parametrize("target", TARGETS)
def test_what_was_found_before_is_read(target: str) -> None:
    for file in INPUTS:
        if file.parent.name == target:
            try:
                tried(target, file.read_bytes())
            except Exception as error:
                error.add_note(f"{target}/{file.name}")
                raise


def test_a_slow_input_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(raw: bytes) -> None:
        sum(range(len(raw)))

    monkeypatch.setitem(TARGETS, "slow", slow)
    tried("slow", b"x")
    with pytest.raises(TooSlow):
        tried("slow", b"x" * 10, longest_s=0.0)
