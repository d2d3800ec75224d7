"""What is hidden in a text is named, and what belongs there is left alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skills.visible import exact, hidden, visible


@pytest.mark.parametrize(
    ("text", "shown", "kind"),
    [
        ("pay\u200bload", "pay<U+200B>load", "invisible"),
        ("a\u202eb", "a<U+202E>b", "bidirectional"),
        ("a\u2066b\u2069", "a<U+2066>b<U+2069>", "bidirectional"),
        ("раypal", "р<U+0440>а<U+0430>ypal", "look_alike"),
        ("x\u00adyz", "x<U+00AD>yz", "invisible"),
        ("\U000e0068\U000e0069", "<U+E0068><U+E0069>", "tag"),
        ("a\x1b[31m", "a<U+001B>[31m", "control"),
        ("a\ufe00\U000e0101", "a<U+FE00><U+E0101>", "invisible"),
        ("word\u200dword", "word<U+200D>word", "invisible"),
        ("a\u3164b", "a<U+3164>b", "invisible"),
        ("a\u2028b", "a<U+2028>b", "invisible"),
    ],
)
def test_a_hidden_character_is_named_where_it_stands(text: str, shown: str, kind: str) -> None:
    assert visible(text) == shown
    assert {one.kind for one in hidden(text)} == {kind}


@pytest.mark.parametrize(
    "text",
    [
        "plain\ttext\r\n",
        "中文、标点。ｆｕｌｌ",
        "👩\u200d💻 ❤\ufe0f 1\ufe0f⃣ ©\ufe0f",
        "می\u200cخواهم",
        "क्\u200dष",
        "Привет, мир",
        "Ελληνικά",
        "naïve Ærø",
        "Python和Анализ",
    ],
)
def test_what_a_script_or_an_emoji_needs_is_left_alone(text: str) -> None:
    assert visible(text) == text


@settings(max_examples=50, deadline=None)
@given(st.text())
def test_nothing_is_lost_and_nothing_stays_hidden(text: str) -> None:
    shown = visible(text)
    for one in hidden(text):
        assert one.name in shown
    assert len(shown) >= len(text)
    assert not [one for one in hidden(shown) if one.kind in {"tag", "bidirectional", "control"}]


@pytest.mark.parametrize(
    ("id_", "shown"),
    [
        ("bridge/own", "bridge/own"),
        ("ada l", "ada l"),
        ("own ", "own<U+0020>"),
        ("  own", "<U+0020><U+0020>own"),
        ("a  b", "a <U+0020>b"),
        ("own\u00a0", "own<U+00A0>"),
        ("o\u3000n", "o<U+3000>n"),
        ("own\n", "own<U+000A>"),
        ("own\u202e", "own<U+202E>"),
    ],
)
def test_of_an_id_each_blank_is_named_that_an_eye_passes_over(id_: str, shown: str) -> None:
    assert exact(id_) == shown
