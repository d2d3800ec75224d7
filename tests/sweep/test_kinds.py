"""Words by which what is said in one conversation is found in another."""

from __future__ import annotations

from tests.sweep.kinds import CANARY, owner_of


def test_a_conversations_own_word_is_found_and_a_code_that_looks_like_it_is_not() -> None:
    found = CANARY.findall("re QXs1250Z, and /approve QXYD4Z; kind:plain mark:c3.1 QXc3Z")
    assert list(map(owner_of, found)) == ["s1250", "c3"]
