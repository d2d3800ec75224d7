"""Words of others stay words of others, and long lists end."""

from __future__ import annotations

import pytest

from gateway.text.quoting import fenced, few, quoted


def test_quoted_text_is_one_line_of_code_with_nothing_hidden() -> None:
    assert quoted("a `b`\n# c\u200bd") == "`a 'b' # c<U+200B>d`"
    assert quoted("x" * 20, 10) == f"`{'x' * 10}`"


@pytest.mark.parametrize("text", ["plain", "```\ninside\n```", "`" * 7])
def test_nothing_ends_a_block_from_inside(text: str) -> None:
    fence, *inside, end = fenced(text).split("\n")
    assert fence == end
    assert not any(line.startswith(fence) for line in inside)


def test_of_many_the_first_are_told_and_the_others_counted() -> None:
    assert few("ab", 2, "en") == ["a", "b"]
    assert few("abcd", 2, "en") == ["a", "b", "… and 2 more"]
