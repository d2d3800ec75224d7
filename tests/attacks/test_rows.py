"""Each fault and each attack has tests that are there, or a reason why it has none: `rows.yaml`."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

TESTS: Final = Path(__file__).parents[1]
ROWS: Final[dict[str, dict[str, Any]]] = yaml.safe_load((Path(__file__).parent / "rows.yaml").read_text("utf-8"))
FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
ROW: Final = re.compile(r"\b(?:S-[A-Z]\d+|F\d\d)\b")


@functools.cache
def names_in(file: str) -> frozenset[str]:
    path = TESTS / file
    if not path.is_file():
        return frozenset()
    parsed = ast.walk(ast.parse(path.read_text("utf-8")))
    return frozenset(one.name for one in parsed if isinstance(one, FUNCTIONS))


@pytest.mark.parametrize("row", ROWS)
def test_a_row_has_tests_that_are_there_or_a_reason(row: str) -> None:
    fields = ROWS[row]
    assert fields.keys() <= {"what", "tests", "cannot", "open"}
    assert fields["what"]
    named = fields.get("tests", [])
    assert bool(named) or len(fields.keys() & {"cannot", "open"}) == 1, "either tests or a reason why there are none"
    assert not named or "cannot" not in fields
    for one in named:
        file, _, name = one.partition("::")
        assert name.startswith("test_"), one
        assert name in names_in(file), f"{one} is not there"


def test_what_a_test_names_is_a_row() -> None:
    for file in TESTS.rglob("test_*.py"):
        parsed = ast.parse(file.read_text("utf-8"))
        said = [ast.get_docstring(one) or "" for one in ast.walk(parsed) if isinstance(one, (ast.Module, *FUNCTIONS))]
        assert set(ROW.findall(" ".join(said))) <= ROWS.keys(), file
