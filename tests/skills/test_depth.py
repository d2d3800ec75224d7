"""JSON of others is read to a depth that everything after the reader can follow."""

from __future__ import annotations

import pytest

from skills.depth import DEPTH_MAX, TooDeep, read


@pytest.mark.parametrize(("opens", "closes"), [("[", "]"), ('{"a":', "}")])
def test_what_is_nested_deeper_than_that_is_refused_however_deep(opens: str, closes: str) -> None:
    assert read(opens * DEPTH_MAX + "1" + closes * DEPTH_MAX)
    for deeper in (DEPTH_MAX + 1, 490, 900, 100_000):
        with pytest.raises(TooDeep, match="deeper than 100"):
            read(opens * deeper + "1" + closes * deeper)


def test_what_is_no_json_is_refused() -> None:
    for text in ("", "[", b"\xff", "1 2"):
        with pytest.raises(ValueError, match=r"Expecting value|Extra data|decode"):
            read(text)
