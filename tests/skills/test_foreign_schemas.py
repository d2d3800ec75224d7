"""Schemas of others: what is left of one refuses no call that would be right, and breaks nothing of ours."""

from __future__ import annotations

import json
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills import schemas
from skills.arguments import fit
from skills.foreign_schemas import usable

UTC = ZoneInfo("UTC")


def whole(part: Any, **more: Any) -> dict[str, Any]:
    """A tool's schema with one argument, `a`."""
    return {"type": "object", "properties": {"a": part}, **more}


def fits(schema: Any, given: dict[str, Any]) -> tuple[str, ...]:
    return fit(usable(schema), given, UTC).faults


NODE = {"type": "object", "properties": {"name": {"type": "string"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "right"),
    [
        ({}, {"a": 1}),
        (whole({"$ref": "#/$defs/node"}, **{"$defs": {"node": NODE}}), {"a": {"kids": [{"kids": []}]}}),
        (whole({"$ref": "#"}), {"a": {"a": {}}}),
        (whole({"$ref": "https://elsewhere.example/schema"}), {"a": 1}),
        (whole({"$ref": "#/properties/b"}), {"a": 1}),
        (whole({"$ref": "#/$defs/x/y"}, **{"$defs": {"x/y": {"type": "string"}}}), {"a": "text"}),
        (
            whole({"$ref": "#/$defs/x"}, **{"$defs": {"x": {"$ref": "#/$defs/y"}, "y": {"$ref": "#/$defs/x"}}}),
            {"a": 1},
        ),
        (whole({"$dynamicRef": "#node"}), {"a": 1}),
        (whole({"type": "string"}, **{"$schema": "http://json-schema.org/draft-04/schema#", "id": "x"}), {"a": "x"}),
        (whole({"type": "string"}, **{"$schema": "https://nobody.example/draft"}), {"a": "x"}),
        (whole({"type": "number", "minimum": 1, "exclusiveMinimum": True}), {"a": 2}),
        (whole({"type": "string", "required": True}), {"a": "x"}),
        (whole({"type": "array", "items": [{"type": "string"}, {"type": "number"}]}), {"a": ["x", 1]}),
        (whole({"type": "string", "pattern": "^(?!admin).*$"}), {"a": "ann"}),
        (
            whole({"patternProperties": {"^(?!_)": {"type": "string"}}, "additionalProperties": False}),
            {"a": {"x": "y"}},
        ),
        (whole({"type": "string", "format": "uri"}), {"a": "http://x.example/a b"}),
        (whole({"type": "string", "format": "regex"}), {"a": "(?=a)b"}),
        (whole({"type": "string", "default": 7}), {}),
        (whole("nonsense"), {"a": 1}),
        (whole({"type": "any"}), {"a": 1}),
        (whole({"anyOf": ["nonsense", {"type": "string"}]}), {"a": 1}),
        (whole({"type": "string"}, anyOf=[{"required": ["a"]}, {"required": ["b"]}]), {"b": 1}),
        ({"properties": ["nonsense"], "additionalProperties": False}, {"a": 1}),
    ],
)
def test_what_is_right_is_not_refused(schema: Any, right: dict[str, Any]) -> None:
    assert fits(schema, right) == ()


@pytest.mark.parametrize(
    ("schema", "wrong"),
    [
        (whole({"type": "string"}), {"a": 1}),
        (whole({"type": "string"}, required=["a"]), {}),
        (whole({"type": "string"}, additionalProperties=False), {"b": 1}),
        (whole({"$ref": "#/$defs/node"}, **{"$defs": {"node": NODE}}), {"a": {"name": 1}}),
        (whole({"enum": ["x", "y"]}), {"a": "z"}),
        (whole({"type": "string", "format": "date"}), {"a": "tomorrow"}),
        # what a word means is not mistaken where it is an argument's name
        (
            {"properties": {"type": {"type": "string", "pattern": "(?=x)"}, "required": {"type": "number"}}},
            {"required": "x"},
        ),
    ],
)
def test_what_can_be_followed_is_still_checked(schema: Any, wrong: dict[str, Any]) -> None:
    assert fits(schema, wrong) != ()


def test_a_default_is_told_and_not_filled_in() -> None:
    made = usable(whole({"type": "integer", "description": "How many.", "default": 5}))
    assert made["properties"]["a"]["description"] == "How many. (default: 5)"
    assert fit(made, {}, UTC).values == {}


def test_what_is_known_reaches_the_model_as_it_was() -> None:
    schema = whole({"type": "string", "description": "A day.", "format": "date"}, required=["a"])
    assert usable(schema) == schema


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ([], "not an object"),
        ({"type": "array"}, 'wanted "object"'),
        (whole({}, properties={"ä": {}}), "an argument's name has 1 to 64"),
        (whole({"description": "x" * schemas.MAX_BYTES}), "allowed are 65,536"),
        (json.loads('{"properties": {"a": ' * 20 + "{}" + "}}" * 20), "nested deeper than"),
        (whole({"enum": list(range(schemas.VALUES_MAX))}), "more than 5,000 values"),
        (whole({"allOf": [{"type": "no"}] * 300}), "too much of it is no JSON Schema"),
    ],
)
def test_what_no_request_may_hold_is_told(schema: Any, why: str) -> None:
    with pytest.raises(schemas.BrokenSchema, match=why):
        usable(schema)


WORDS = st.sampled_from(
    ["type", "properties", "items", "required", "anyOf", "$ref", "$defs", "not", "pattern", "patternProperties", "enum",
     "default", "format", "additionalProperties", "string", "object", "#", "#/$defs/a", "a", "^(?!a)", "minimum", "const"]
)  # fmt: skip
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=25,
)


@given(st.dictionaries(WORDS, ANYTHING, max_size=5), st.dictionaries(WORDS, ANYTHING, max_size=3))
def test_whatever_a_schema_is_nothing_breaks(schema: dict[str, Any], arguments: dict[str, Any]) -> None:
    """Neither in reading it, nor in a check, nor in making it usable once more, where it stays what it is."""
    before = json.dumps(schema)
    try:
        made = usable(schema)
    except schemas.BrokenSchema:
        return
    finally:
        assert json.dumps(schema) == before, "whose schema it is keeps it as it was"
    fit(made, arguments, UTC)
    assert usable(made) == made
