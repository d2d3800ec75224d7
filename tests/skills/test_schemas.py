"""schema.json: what is taken, and what is refused before it can do harm."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from skills import schemas
from skills.arguments import fit
from skills.schemas import BrokenSchema
from tests.skills.test_arguments import SHANGHAI


def read(tree: Any) -> schemas.Schema:
    return schemas.read(tree if isinstance(tree, bytes) else json.dumps(tree).encode())


def of(name: str, part: Any, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {name: part}, **more}


def nested(depth: int) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        part = {"type": "array", "items": part}
    return of("a", part)


def test_the_effect_is_once_if_nothing_else_is_said() -> None:
    assert read(of("a", {})).effect == "once"
    schema = read(of("a", {}, effect="read"))
    assert (schema.effect, "effect" in schema.arguments) == ("read", False)


def test_objects_are_closed_and_maps_stay_open() -> None:
    inner = {"type": "object", "properties": {"b": {"type": "integer"}}}
    free = {"type": "object", "additionalProperties": {"type": "string"}}
    schema = read({"properties": {"a": inner, "list": {"type": "array", "items": inner}, "map": free}}).arguments
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    given = {"a": {"c": 1}, "list": [{"d": 1}], "map": {"any": "thing"}}
    assert [fault.partition(":")[0] for fault in fit(schema, given, SHANGHAI).faults] == ["a.c", "list[0].d"]


REFUSED = {
    "no JSON": b"{",
    "not an object": [],
    "no object of arguments": {"type": "string"},
    "NaN": b'{"maximum": NaN}',
    "a key given twice": b'{"type": "object", "type": "object"}',
    "other bytes": b"\xff{}",
    "too large": b" " * (schemas.MAX_BYTES + 1),
    "unknown effect": of("a", {}, effect="sometimes"),
    "open to anything": of("a", {}, additionalProperties=True),
    "depth 1,000": b'{"items":' * 1_000 + b"{}" + b"}" * 1_000,
    "depth 9,000": b'{"items":' * 9_000 + b"{}" + b"}" * 9_000,
    "too deep": nested(schemas.DEPTH_MAX),
    "100,000 choices": of("a", {"enum": list(range(100_000))}),
    "many choices": of("a", {"enum": list(range(schemas.ENUM_MAX + 1))}),
    "a name that is no name": of("日期", {"type": "string"}),
    "choices at the top": {"type": "object", "anyOf": [{"required": ["a"]}]},
    "remote reference": of("a", {"$ref": "http://127.0.0.1:9/schema"}),
    "reference to a file": of("a", {"$ref": "file:///etc/passwd"}),
    "reference to nothing": of("a", {"$ref": "#/$defs/missing"}),
    "a reference that is no text": of("a", {"$ref": {"$ref": "#/$defs/b"}}),
    "a reference that is no text, behind another": of(
        "a", {"$ref": "#/$defs/b"}, **{"$defs": {"b": {"$ref": ["#/$defs/c"]}, "c": {}}}
    ),
    "a reference to null": of("a", {"$ref": None}),
    "reference to itself": of("a", {"$ref": "#"}),
    "a circle of references": of(
        "a", {"$ref": "#/$defs/b"}, **{"$defs": {"b": {"items": {"$ref": "#/$defs/c"}}, "c": {"$ref": "#/$defs/b"}}}
    ),
    "a reference that is its own place": of("a", {"$ref": "#/$defs/b"}, **{"$defs": {"b": {"$ref": "#/$defs/b"}}}),
    "a base of its own": of("a", {}, **{"$id": "http://127.0.0.1:9/"}),
    "wrong draft": of("a", {}, **{"$schema": "http://json-schema.org/draft-03/schema#"}),
    "no type": of("a", {"type": "strnig"}),
    "a broken pattern": of("a", {"type": "string", "pattern": "("}),
    "a pattern that looks back": of("a", {"type": "string", "pattern": r"(a)\1"}),
    "a long pattern": of("a", {"type": "string", "pattern": "a" * (schemas.PATTERN_MAX + 1)}),
    "a default that does not fit": of("a", {"type": "integer", "default": "x"}),
    "a default that is a secret": of("a", {"type": "string", "default": "sk-" + "a1" * 20}),
}


@pytest.mark.parametrize("tree", REFUSED.values(), ids=REFUSED)
def test_it_is_refused(tree: Any) -> None:
    before = time.perf_counter()
    with pytest.raises(BrokenSchema) as caught:
        read(tree)
    assert time.perf_counter() - before < 1
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_nasty_pattern_is_matched_in_no_time() -> None:
    schema = read(of("a", {"type": "string", "pattern": "^(a+)+$"})).arguments
    before = time.perf_counter()
    assert fit(schema, {"a": "a" * 5_000 + "b"}, SHANGHAI).faults
    assert time.perf_counter() - before < 0.5


@pytest.mark.parametrize(
    "draft", ["https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#"]
)
def test_references_within_the_file_are_followed(draft: str) -> None:
    day = {"type": "string", "format": "date"}
    schema = read(of("day", {"$ref": "#/$defs/day"}, **{"$schema": draft, "$defs": {"day": day}})).arguments
    assert fit(schema, {"day": 1_718_035_200}, SHANGHAI).values == {"day": "2024-06-11"}
    assert "wanted a date YYYY-MM-DD" in fit(schema, {"day": "soon"}, SHANGHAI).faults[0]
