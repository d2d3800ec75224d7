from __future__ import annotations

import pytest

from gateway.text.columns import cut, padded, width, widths, wrapped


@pytest.mark.parametrize(
    ("text", "columns"),
    [("abc", 3), ("财务", 4), ("ｗ", 2), ("é", 1), ("e\u0301", 1), ("👍", 2), ("a\u200bb", 2), ("", 0)],
)
def test_width_counts_what_is_seen(text: str, columns: int) -> None:
    assert width(text) == columns


def test_padding_fills_up_and_never_cuts() -> None:
    assert padded("财务", 6) == "财务  "
    assert padded("财务报表", 6) == "财务报表"


@pytest.mark.parametrize(
    ("columns", "shown"), [(9, "财务 abcd"), (8, "财务 ab…"), (6, "财务…"), (4, "财…"), (1, "…"), (0, "")]
)
def test_a_cut_never_splits_a_wide_sign_and_says_that_it_was_made(columns: int, shown: str) -> None:
    assert cut("财务 abcd", columns) == shown
    assert width(shown) <= columns


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert widths([("a", "财务"), ("abc", "x")]) == [3, 4]


@pytest.mark.parametrize("columns", [1, 2, 7, 12, 80])
def test_wrapped_text_is_whole_in_lines_that_fit(columns: int) -> None:
    text = "needs the variable TOKEN_OF_THE_HOUSE 而这里没有授予它"
    lines = wrapped(text, columns)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(width(line) <= max(columns, 2) for line in lines)
