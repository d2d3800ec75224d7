"""What a server says that it has: what can be a tool, and why the rest can't."""

from __future__ import annotations

from typing import Any

import pytest

from workers.mcp.listed import DESCRIPTION_MAX, listed

NOTHING: dict[str, Any] = {"type": "object"}


def test_a_tool_is_called_by_its_server_and_its_name() -> None:
    found = listed("twin", [("Read-It_2", "Reads.", NOTHING)])
    assert [(one.name, one.description) for one in found.definitions.values()] == [("twin__Read-It_2", "Reads.")]
    assert not found.faults


@pytest.mark.parametrize(
    ("name", "description", "schema", "why"),
    [
        ("files/read", "", NOTHING, "has 1 to 64 of A-Z"),
        ("é", "", NOTHING, "has 1 to 64 of A-Z"),
        ("x" * 59, "", NOTHING, "this has 65"),
        ("x", "y" * (DESCRIPTION_MAX + 1), NOTHING, "its description has 8,001 characters"),
        ("x", "", {"type": "array"}, "its schema can't be used: type: wanted"),
        ("x", "", {"properties": {"a b": {}}}, "its schema can't be used: properties: 'a b'"),
        ("x", "\ud800", NOTHING, "surrogates not allowed"),
    ],
)
def test_what_can_be_no_tool_says_why(name: str, description: str, schema: Any, why: str) -> None:
    found = listed("twin", [("fine", "", NOTHING), (name, description, schema)])
    assert list(found.definitions) == ["twin__fine"]
    assert list(found.faults) == [f"twin__{name}"]
    assert why in found.faults[f"twin__{name}"]


def test_of_two_with_one_name_there_is_none() -> None:
    found = listed("twin", [("x", "One.", NOTHING), ("x", "Other.", NOTHING), ("x", "Third.", NOTHING)])
    assert not found.definitions
    assert found.faults == {"twin__x": "the server has two tools of this name"}
