"""Parts of a long text: joined they are the text, and none ends where it hurts."""

from __future__ import annotations

import random
import time

import pytest

from skills.parts import OffsetOutside, Part, part


def all_parts(text: str, max_bytes: int) -> list[Part]:
    found = [part(text, 0, max_bytes)]
    while not found[-1].is_last:
        found.append(part(text, found[-1].end, max_bytes))
    return found


def test_any_text_is_the_sum_of_its_parts() -> None:
    chance = random.Random(7)
    pieces = [
        "# Title\n",
        "```\n",
        "~~~~py\n",
        "  - item\n",
        "字" * 30 + "\n",
        "word " * 20,
        "\n",
        "\r\n",
        "\u2028",
        "🗓️",
    ]
    for _ in range(60):
        text = "".join(chance.choices(pieces, k=chance.randint(0, 60)))
        for max_bytes in (64, 200, 4_096):
            found = all_parts(text, max_bytes)
            assert "".join(one.text for one in found) == text
            assert all(len(one.text.encode()) <= max_bytes for one in found)


def test_a_part_ends_at_a_line_outside_code() -> None:
    text = "Intro.\n\n```sh\n# no heading\necho 1\necho 2\n```\n\n## Next\nMore.\n"
    assert part(text, 0, 40).remaining == ()
    first = part(text, 0, 40, with_headings=True)
    assert first.text == "Intro.\n\n"
    assert [(one.offset, one.text) for one in first.remaining] == [(text.index("## Next"), "## Next")]
    second = part(text, first.end, 40)
    assert second.text.startswith("```sh")
    assert second.text.endswith("```\n\n")


def test_a_fence_is_closed_only_by_its_own_kind() -> None:
    text = "````\n```\n~~~\n```` x\n````\nout\n" + "tail\n" * 10
    assert part(text, 0, 22).text == text[:22].rpartition("\n")[0] + "\n"
    assert part(text, 0, 31).text == "````\n```\n~~~\n```` x\n````\nout\n"
    inline = "```one line of `code` ``` \nnext\n" + "tail\n" * 10
    assert part(inline, 0, 33).text == "```one line of `code` ``` \nnext\n"


def test_a_code_block_longer_than_a_part_is_cut_between_lines() -> None:
    text = "```\n" + "echo\n" * 50 + "```\n"
    assert part(text, 0, 32).text == "```\n" + "echo\n" * 5


def test_a_line_longer_than_a_part_is_cut_between_characters() -> None:
    text = "字" * 100
    assert [len(one.text) for one in all_parts(text, 100)] == [33, 33, 33, 1]


@pytest.mark.parametrize("offset", [-1, 5, 6])
def test_an_offset_outside_the_text_is_refused_with_what_is_allowed(offset: int) -> None:
    with pytest.raises(OffsetOutside, match=f"offset {offset} is outside: the text has 5 characters, so 0 to 4"):
        part("12345", offset, 100)


def test_an_empty_text_is_one_empty_part() -> None:
    assert part("", 0, 100) == Part("", 0, 0)


@pytest.mark.parametrize("line", ["a\n", "```\n", "# a\n", "~~~\n```\n"])
def test_what_follows_a_part_costs_nothing(line: str) -> None:
    text = line * (4_000_000 // len(line))
    begun_s = time.process_time()
    found = part(text, 0, 20_000)
    assert found.text == text[: found.end]
    assert time.process_time() - begun_s < 1.0


def test_what_stands_before_a_part_is_looked_at_for_fences_alone() -> None:
    text = "a\n" * 1_000_000 + "```\n" + "b\n" * 1_000_000
    begun_s = time.process_time()
    assert part(text, 1_990_000, 20_000).end == 2_000_000
    assert time.process_time() - begun_s < 1.0
