"""Which ids look like no other one."""

from __future__ import annotations

import pytest
from pydantic_core import PydanticCustomError

from config.addresses import is_plain, person

ODD = [
    *("own ", " own", "own\u00a0", "own\u3000", "o  n", "o\u2009n", "own\n", "o\tn", "o\x00n", "own\x7f", "o\x9fn"),
    *("own\u200b", "\ufeffown", "o\u00adwn", "own\u202e", "\u2066own\u2069", "own\u061c", "own\u200d", "own\U000e0061"),
    *("own\u3164", "own\u2800", "own\u115f", "own\uffa0", "own\u034f", "own\ufe0f", "own\U000e0101", "own\u180e"),
    *("own\u2028", "own\ue000", "own\udcff", "own\u0378"),
]


@pytest.mark.parametrize("id_", ODD, ids=ascii)
def test_an_id_that_looks_like_another_is_not_plain_and_nobodys(id_: str) -> None:
    assert not is_plain(id_)
    if id_.strip() == id_:
        with pytest.raises(PydanticCustomError):
            person(f"bridge/{id_}")


@pytest.mark.parametrize(
    "id_",
    ["U024BE7LH", "29:1x-_.@", "ada l", "ou_7d8a", "zoë", "张三", "日本 太郎", "team ❤\ufe0f", "👍🏽", "o1:user|x", ""],
)
def test_other_ids_are_plain(id_: str) -> None:
    assert is_plain(id_)


def test_a_person_who_is_typed_with_blanks_around_is_meant() -> None:
    assert person(" slack-main/U1 ") == "slack-main/U1"
