"""docs/tools.md has each tool, and what becomes of a call of it that a crash cut off."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import workers.tools

TABLE = "\n".join(
    re.findall(r"^\| .+$", (Path(__file__).parents[3] / "docs/tools.md").read_text(encoding="utf-8"), re.MULTILINE)
)
NAMES = sorted(module.name for module in pkgutil.iter_modules(workers.tools.__path__))


@pytest.mark.parametrize("name", NAMES)
def test_each_tool_has_its_row_with_its_effect(name: str) -> None:
    rows = [row.split("|") for row in TABLE.splitlines() if f"`{name}`" in row]
    assert rows
    own = [row for row in rows if f"`{name}`" in row[1]]
    effect = importlib.import_module(f"workers.tools.{name}").Tool.effect
    assert all(row[3].strip() == effect for row in own)
