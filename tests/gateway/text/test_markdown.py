from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.text.markdown import MEASURES, Measure, Piece, chars, fitting, split, utf8, utf16
from gateway.text.spans import Span, spans
from tests.harness.cpu import cpu_within

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
        "[l](https://a.example/x_(y))",
        "https://a.example/x_y",
        "~~s~~",
        "open ` and **",
        "مرحبا",
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


WHOLE = st.sampled_from(
    [
        "[label](https://a.example/x_(y)?q=1)",
        "[two words **bold**](<https://a.example/x y> 'title')",
        "![速度 图](https://i.example/g.png)",
        "[see `code`](docs/x.md)",
        "https://a.example/path/x_y_z?a=1&b=2#c",
        "<https://a.example/x,y;z>",
        "`some code. with spaces`",
        "``a ` b`` ",
        "\\*",
    ]
)
MARKED = st.sampled_from(
    ["**bold words here**", "*in italics*", "~~struck out~~", "__also bold__", "***both of it***", "**「加急」**"]
)
ATOM = st.one_of(
    WORDS.filter(lambda word: "open" not in word),
    st.sampled_from(["今天开会讨论预算明天再看结果如何", "a" * 30]),
    WHOLE,
    MARKED,
)


def cuts(pieces: list[Piece]) -> set[int]:
    ends = list(accumulate(len(piece.text) for piece in pieces))
    return set(ends[:-1])


def places(atoms: list[str], between: str) -> Iterator[tuple[str, range]]:
    """Each atom, and where in the text a cut would be inside it."""
    at = 0
    for atom in atoms:
        yield atom, range(at + 1, at + len(atom.rstrip()))
        at += len(atom) + len(between)


@given(
    st.lists(ATOM, max_size=40),
    st.sampled_from([" ", "，", "\n", " 速"]),
    st.integers(60, 160),
    st.sampled_from(sorted(MEASURES)),
)
@settings(max_examples=200, deadline=None)
def test_no_link_address_or_code_is_cut(atoms: list[str], between: str, limit: int, unit: str) -> None:
    whole = re.compile(r"!?\[|<|`|http|\\\\")
    made = cuts(split(between.join(atoms), limit, MEASURES[unit]))  # type: ignore[index]  # sampled from its keys
    for atom, inside in places(atoms, between):
        assert not (whole.match(atom) and made & set(inside)), atom


@given(st.lists(ATOM, max_size=40), st.sampled_from([" ", "，", "\n", " 速"]), st.integers(60, 160))
@settings(max_examples=200, deadline=None)
def test_marks_are_balanced_in_both_parts_where_they_can_be(atoms: list[str], between: str, limit: int) -> None:
    made = cuts(split(between.join(atoms), limit))
    for atom, inside in places(atoms, between):
        assert not (re.match(r"[*~]{1,3}\w", atom) and made & set(inside)), atom


@pytest.mark.parametrize(
    ("text", "limit", "pieces"),
    [
        # before a link, though what is left is less than a third
        ("ab [label](https://a.example/0123456789) c", 39, ["ab ", "[label](https://a.example/0123456789) c"]),
        ("ab https://a.example/0123456789/012345,", 37, ["ab ", "https://a.example/0123456789/012345,"]),
        # what is longer than the limit
        (
            "ab https://a.example/" + "0" * 30 + " c",
            24,
            ["ab https://a.example/000", "000000000000000000000000", "000 c"],
        ),
        # marks: before them, else within, and then between words
        ("some words **and bold ones** end", 24, ["some words ", "**and bold ones** end"]),
        ("some words __and bold ones__ end", 24, ["some words ", "__and bold ones__ end"]),
        ("**and one two three four five** end", 24, ["**and one two three ", "four five** end"]),
        ("很长的文字在这里**粗体在这里**好", 16, ["很长的文字在这里", "**粗体在这里**好"]),
        (
            "**粗体 [链接](https://a.example) 在这里很长的文字**",
            32,
            ["**粗体 [链接](https://a.example) ", "在这里很长的文字**"],
        ),
        # a sign stays with its backslash
        ("0123456789012345\\*89", 17, ["0123456789012345", "\\*89"]),
        # what is open to the end, or closed in the next block, is nothing to keep whole
        ("an open ` here and words", 20, ["an open ` here and ", "words"]),
        ("- an open ` here and\n- another ` there", 30, ["- an open ` here and\n", "- another ` there"]),
        ("a ** b c d e f g ** h", 16, ["a ** b c d e f ", "g ** h"]),
    ],
)
def test_what_means_something_as_a_whole_is_cut_around(text: str, limit: int, pieces: list[str]) -> None:
    assert [piece.text for piece in split(text, limit)] == pieces


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("(https://a.example/x_(y)),", [Span(1, 24)]),
        ("<https://a.example/x,>", [Span(0, 22)]),
        ("**a\n- b**", []),
        ("[a **b](c) d**", [Span(0, 10)]),
        ("~~~a~~~", [Span(1, 6, is_marks=True)]),
    ],
)
def test_a_span_ends_where_a_reader_would_end_it(text: str, found: list[Span]) -> None:
    assert spans(text) == found


def test_whether_a_span_fits_is_measured_in_the_platform_s_unit() -> None:
    assert split("ab `" + "速" * 10 + "`", 24, utf8)[0].text == "ab `速速速速速速"


def test_ticks_in_a_code_block_keep_nothing_whole() -> None:
    code = "```\n" + "echo ` and some words\nanother ` here\n" * 6 + "```\n"
    for piece in split(code, 100):
        assert len(str(piece)) > 60 or piece.text.endswith("```\n")


def test_parts_come_with_their_written_form_and_neither_is_over_the_limit() -> None:
    parts = fitting("one two\n\n\nthree four\n", 16, len, str.upper, len)
    assert parts == [("one two", "ONE TWO"), ("three four", "THREE FOUR")]
    grown = fitting("abcdefgh " * 8, 40, len, lambda part: part * 2, len)
    assert all(len(source) <= 40 and len(written) <= 40 for source, written in grown)
    assert "".join(source for source, _ in grown) == "abcdefgh " * 8
    assert fitting("", 16, len, str.upper, len) == fitting("\n\n", 16, len, str.upper, len) == []


@pytest.mark.parametrize(
    "hostile", ["[", "![a](", "[x](<", "`a``b", "*a_", "**__", "\\", "https://", "<http://", "](("]
)
def test_hostile_text_is_split_in_linear_time(hostile: str) -> None:
    with cpu_within(2):
        text = (hostile * 100_000)[:100_000]
        assert "".join(piece.text for piece in split(text, 3_900)) == text


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


def test_words_behind_a_fence_are_said_once() -> None:
    pieces = split("~~~ some words\n" + "line\n" * 20 + "~~~", 60)
    assert len(pieces) > 1
    assert [piece.before for piece in pieces[1:]] == ["~~~\n"] * (len(pieces) - 1)
    assert "".join(map(str, pieces)).count("some words") == 1


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
    with cpu_within(3):
        pieces = split("word " * 200_000, 3_900)
    assert len(pieces) > 200
