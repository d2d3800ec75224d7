"""What is worked out of a text is worked out once."""

from __future__ import annotations

from workers.prompt.memo import Memo


def test_the_same_text_is_worked_on_once_and_other_work_is_its_own() -> None:
    done: list[str] = []

    def upper(text: str) -> str:
        done.append(text)
        return text.upper()

    memo = Memo()
    again = "AB\ud800".lower()
    assert [memo.of(upper, one) for one in ("ab\ud800", again, "c")] == ["AB\ud800", "AB\ud800", "C"]
    assert done == ["ab\ud800", "c"]
    assert memo.of(len, again) == 3
