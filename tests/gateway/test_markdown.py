from __future__ import annotations

import re
import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.markdown import MEASURES, Measure, Piece, chars, split, utf8, utf16

FAMILY = "👨‍👩‍👧‍👦"
WORDS = st.sampled_from(
    [
        "word",
        "a",
        "速度",
        "截止日期。",
        "🚀",
        FAMILY,
        "🇩🇪",
        "e\u0301",
        "👋🏽",
        "한국",
        "\u1112\u1161\u11ab",
        "`x|y`",
        "**b**",
        "x. ",
    ]
)
LINE = st.lists(WORDS, max_size=12).map(" ".join)
CODE = st.tuples(st.sampled_from(["```", "~~~", "````", "```python"]), st.lists(LINE, max_size=8)).map(
    lambda made: "\n".join([made[0], *made[1], re.match(r"[`~]+", made[0])[0]])  # type: ignore[index]  # it begins so
)
TABLE = st.lists(st.lists(WORDS, min_size=2, max_size=2).map(" | ".join), max_size=9).map(
    lambda rows: "\n".join(["| h | i |", "|---|---|", *(f"| {row} |" for row in rows)])
)
MARKDOWN = st.lists(st.one_of(LINE, CODE, TABLE), max_size=8).map("\n\n".join)


def fits(pieces: list[Piece], limit: int, measure: Measure) -> bool:
    return all(measure(str(piece)) <= limit for piece in pieces)


def fences_are_closed(text: str) -> bool:
    """Read line by line, as a renderer does, independent of the splitter."""
    inside = ""
    for line in text.split("\n"):
        mark = re.match(r" {0,3}(`{3,}|~{3,})(.*)", line)
        if not inside:
            if mark and not (mark[1][0] == "`" and "`" in mark[2]):
                inside = mark[1]
        elif mark and mark[1].startswith(inside) and not mark[2].strip():
            inside = ""
    return not inside


@given(MARKDOWN, st.integers(24, 200), st.sampled_from(sorted(MEASURES)))
@settings(max_examples=150, deadline=None)
def test_pieces_joined_are_the_text_and_each_fits(text: str, limit: int, unit: str) -> None:
    measure = MEASURES[unit]  # type: ignore[index]  # sampled from its keys
    pieces = split(text, limit, measure)
    assert "".join(piece.text for piece in pieces) == text
    assert fits(pieces, limit, measure)
    assert all(piece.text for piece in pieces) or not text


@given(st.text(max_size=300), st.integers(16, 60), st.sampled_from(sorted(MEASURES)))
@settings(max_examples=150, deadline=None)
def test_any_text_at_all_is_split_within_the_limit(text: str, limit: int, unit: str) -> None:
    measure = MEASURES[unit]  # type: ignore[index]  # sampled from its keys
    text = text.encode("utf-8", "replace").decode()
    pieces = split(text, limit, measure)
    assert "".join(piece.text for piece in pieces) == text
    assert fits(pieces, limit, measure)


@given(MARKDOWN, st.integers(64, 300))
@settings(max_examples=150, deadline=None)
def test_no_piece_leaves_a_code_block_open(text: str, limit: int) -> None:
    assert fences_are_closed(text)
    assert all(fences_are_closed(str(piece)) for piece in split(text, limit))


@given(
    st.lists(st.sampled_from([FAMILY, "🇩🇪", "👋🏽", "e\u0301", "한", "\u1112\u1161\u11ab", "速"]), max_size=60),
    st.integers(16, 50),
)
@settings(max_examples=150, deadline=None)
def test_what_people_see_as_one_sign_stays_in_one_piece(signs: list[str], limit: int) -> None:
    borders = {sum(map(len, signs[:count])) for count in range(len(signs) + 1)}
    at = 0
    for piece in split("".join(signs), limit):
        at += len(piece.text)
        assert at in borders


def test_a_text_that_fits_is_one_piece_and_so_is_an_empty_one() -> None:
    assert split("hello", 16) == [Piece("hello")]
    assert split("", 16) == [Piece("")]


def test_a_cut_is_between_paragraphs_before_lines_before_words() -> None:
    assert [piece.text for piece in split("one two\nthree four\n\nfive six seven", 24)] == [
        "one two\nthree four\n\n",
        "five six seven",
    ]
    assert split("aaaa bbbb cccc dddd", 16)[0].text == "aaaa bbbb cccc "


def test_chinese_is_cut_after_a_sentence() -> None:
    assert split("今天开会讨论预算。明天再看结果如何", 16)[0].text == "今天开会讨论预算。"


def test_a_code_block_is_closed_and_opened_again_with_its_language() -> None:
    code = "```python\n" + "".join(f"line_{number} = {number}\n" for number in range(20)) + "```\n"
    pieces = split(code, 120)
    assert len(pieces) > 2
    for piece in pieces:
        assert str(piece).startswith("```python\nline_")
        assert str(piece).rstrip("\n").endswith("\n```")


def test_a_short_code_block_moves_whole_into_the_next_piece() -> None:
    text = "word " * 12 + "\n\n```\none\ntwo\n```\n"
    assert [str(piece) for piece in split(text, 72)] == ["word " * 12 + "\n\n", "```\none\ntwo\n```\n"]


def test_a_table_that_is_cut_repeats_its_head() -> None:
    rows = [f"| row {number} | {number * 7} |" for number in range(12)]
    table = "\n".join(["| name | n |", "|---|---|", *rows])
    pieces = split(table, 110)
    assert len(pieces) > 2
    assert all(str(piece).startswith("| name | n |\n|---|---|\n| row") for piece in pieces)
    assert [line for piece in pieces for line in piece.text.split("\n") if "row" in line] == rows


@pytest.mark.parametrize("limit", [4096, 2000])
@pytest.mark.parametrize("text", ["🚀" * 2100, "word " * 700 + "🎩" * 600 + "\n" + FAMILY * 300])
def test_emoji_are_counted_in_the_platform_s_unit(text: str, limit: int) -> None:
    pieces = split(text, limit, utf16)
    assert "".join(piece.text for piece in pieces) == text
    for piece in pieces:
        assert len(piece.text.encode("utf-16-le")) // 2 <= limit
        assert not piece.text.startswith("\u200d")
        assert not piece.text.endswith("\u200d")
        assert unicodedata.category(piece.text[0]) != "Mn"


def test_the_measures_count_what_their_names_say() -> None:
    assert (chars("a🚀é"), utf16("a🚀é"), utf8("a🚀é")) == (3, 4, 7)


def test_a_single_sign_longer_than_the_limit_is_cut_rather_than_lost() -> None:
    endless = "e" + "\u0301" * 100
    pieces = split(endless, 20)
    assert "".join(piece.text for piece in pieces) == endless
    assert fits(pieces, 20, chars)


def test_a_megabyte_is_split_in_linear_time() -> None:
    begun = time.process_time()
    pieces = split("word " * 200_000, 3_900)
    assert time.process_time() - begun < 3
    assert len(pieces) > 200
