"""The pictures of the documentation."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.gateway.web.admin.pictures import PICTURES

DOCS: Final = Path(__file__).parents[4] / "docs"


def test_each_picture_is_there_is_small_and_is_shown() -> None:
    files = {one.stem: one for one in (DOCS / "screenshots").iterdir()}
    assert files.keys() == {one.name for one in PICTURES}
    shown = (DOCS / "admin.md").read_text(encoding="utf-8")
    for name, file in files.items():
        assert file.stat().st_size < 150_000, name
        assert f"(screenshots/{name}.png)" in shown
