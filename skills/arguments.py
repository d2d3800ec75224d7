"""Arguments of a tool, as a model wrote them: made to fit its schema where nothing is lost by it, else refused.

The conversions are a closed table, and each one made is told: a tool never runs with something that nobody asked for.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Any, Final

import jsonschema_rs

from skills import schemas

FAULTS_MAX: Final = 20
EPOCH_S: Final = range(100_000_000, 253_402_300_800)
"""Seconds from 1973 to 9999. Smaller numbers may be a date written together, larger ones count milliseconds."""
EXACT: Final = 2**53
"""Up to here a float holds each whole number."""

_TRUTH: Final = {"true": True, "True": True, "false": False, "False": False}
_WHOLE: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_DECIMAL: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,14})\.[0-9]{1,15}")


@dataclass(frozen=True, slots=True)
class Change:
    """Something that the model did not write like that."""

    name: str
    before: str
    """As JSON; empty where a default was filled in."""
    after: str

    def __str__(self) -> str:
        return f"{self.name}: {self.before} → {self.after}" if self.before else f"{self.name}: {self.after} (default)"


@dataclass(frozen=True, slots=True)
class Fitted:
    """Arguments after the check. With faults, nothing may run."""

    values: dict[str, Any]
    changes: tuple[Change, ...]
    faults: tuple[str, ...]
    """All that is wrong, one sentence for each field: what was wanted, what came."""


def fit(schema: Mapping[str, Any], given: Mapping[str, Any], zone: tzinfo) -> Fitted:
    """Convert, fill in defaults, check. A day that came as epoch seconds is the one it was then in `zone`.

    `schema` has passed `schemas.read`, or is as strict: an object, no reference to elsewhere or to itself.
    """
    fitting = _Fitting(schema, zone)
    values: dict[str, Any] = fitting.converted(schema, dict(given), "")
    return Fitted(values, tuple(fitting.changes), tuple(_faults(schema, values)))


@dataclass(frozen=True, slots=True)
class _Fitting:
    """One pass over the arguments, along the schema. What the schema says in `anyOf` and the like is left as it came."""

    root: Mapping[str, Any]
    zone: tzinfo
    changes: list[Change] = field(default_factory=list)

    def converted(self, part: Any, value: Any, place: str) -> Any:
        part = schemas.resolved(part, self.root)
        if not isinstance(part, Mapping):
            return value
        if isinstance(value, dict):
            return self._object(part, value, place)
        if isinstance(value, list):
            return [self.converted(part.get("items"), one, f"{place}[{at}]") for at, one in enumerate(value)]
        wanted = part.get("type", [])
        types = [wanted] if isinstance(wanted, str) else wanted
        if any(_is(value, one) for one in types):
            return value
        for one in types:
            convert = _TABLE.get((one, part.get("format") if one == "string" else None))
            made, said = convert(value, self.zone) if convert else (None, "")
            if made is not None:
                self.changes.append(Change(place, _json(value), said or _json(made)))
                return made
        return value

    def _object(self, part: Mapping[str, Any], value: dict[str, Any], place: str) -> dict[str, Any]:
        described = part.get("properties", {})
        made = {name: self.converted(described.get(name), one, _at(place, name)) for name, one in value.items()}
        for name, inner in described.items():
            default = schemas.resolved(inner, self.root)
            if name not in made and isinstance(default, Mapping) and "default" in default:
                made[name] = default["default"]
                self.changes.append(Change(_at(place, name), "", _json(made[name])))
        return made


def _is(value: Any, kind: str) -> bool:
    """Whether a value is of this type already. 3.0 counts as a whole number to JSON Schema, not to Python."""
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _PYTHON.get(kind, ()))


_PYTHON: Final[dict[str, Any]] = {"string": str, "integer": int, "number": (int, float), "null": type(None)}


def _truth(value: Any, _: tzinfo) -> tuple[Any, str]:
    return (_TRUTH.get(value) if isinstance(value, str) else None), ""


def _whole(value: Any, _: tzinfo) -> tuple[Any, str]:
    if isinstance(value, str):
        return (int(value) if _WHOLE.fullmatch(value) else None), ""
    if isinstance(value, float) and value.is_integer() and abs(value) < EXACT:
        return int(value), ""
    return None, ""


def _number(value: Any, zone: tzinfo) -> tuple[Any, str]:
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        return float(value), ""
    return _whole(value, zone)


def _day(value: Any, zone: tzinfo) -> tuple[Any, str]:
    seconds, _ = _whole(value, zone) if isinstance(value, float) else (value, "")
    if isinstance(seconds, bool) or not isinstance(seconds, int) or seconds not in EPOCH_S:
        return None, ""
    day = datetime.fromtimestamp(seconds, zone).date().isoformat()
    return day, f"{day} ({zone})"


_TABLE: Final[Mapping[tuple[str, str | None], Callable[[Any, tzinfo], tuple[Any, str]]]] = {
    ("boolean", None): _truth,
    ("integer", None): _whole,
    ("number", None): _number,
    ("string", "date"): _day,
}
"""By type and, for text, format. Each gives the value, and how to tell of it where its JSON says too little."""


# ---- what is wrong ----


def _faults(schema: Mapping[str, Any], values: Mapping[str, Any]) -> Iterator[str]:
    try:
        found = list(itertools.islice(schemas.validator(schema).iter_errors(values), FAULTS_MAX))
    except (ValueError, OverflowError, RecursionError) as error:  # nested deeper than it counts, NaN, huge numbers
        yield f"arguments: {str(error).partition(chr(10))[0][:200]}"
        return
    told = dict.fromkeys(line for error in found for line in _told(schema, error))
    yield from told


def _told(schema: Mapping[str, Any], error: jsonschema_rs.ValidationError) -> Iterator[str]:
    place = ""
    for step in error.instance_path:
        place = f"{place}[{step}]" if isinstance(step, int) else _at(place, step)
    kind, came = error.kind, f"came {_json(error.instance)}"
    match kind.name:
        case "additionalProperties" | "unevaluatedProperties":
            part = _part(schema, error.schema_path[:-1])
            known = ", ".join(part.get("properties", ())) or "none"
            for name in kind.value:
                yield f"{_at(place, name)}: not known; known are {known}"
        case "required":
            name = kind.value
            part = _part(schema, [*error.schema_path[:-1], "properties", name])
            yield f"{_at(place, name)}: missing; wanted {_wanted(part)}"
        case "type" | "format" | "enum" | "const":
            yield f"{place or 'arguments'}: wanted {_wanted(_part(schema, error.schema_path[:-1]))}, {came}"
        case _:
            yield f"{place or 'arguments'}: {error.message[:300]}"


def _part(schema: Mapping[str, Any], path: Sequence[Any]) -> Mapping[str, Any]:
    """What stands at this path, with references followed."""
    found: Any = schema
    for step in path:
        if step == "$ref":
            found = schemas.resolved(found, schema)
        elif isinstance(found, Mapping):
            found = schemas.resolved(found, schema).get(step)
        elif isinstance(found, list) and isinstance(step, int):
            found = found[step]
    found = schemas.resolved(found, schema)
    return found if isinstance(found, Mapping) else {}


_TYPES: Final = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "an object",
    "array": "a list",
    "null": "null",
}
_FORMATS: Final = {"date": "a date YYYY-MM-DD", "date-time": "a time such as 2024-06-11T09:00:00+08:00"}


def _wanted(part: Mapping[str, Any]) -> str:
    if "enum" in part:
        return f"one of {', '.join(map(_json, part['enum'][:20]))}"
    if "const" in part:
        return _json(part["const"])
    if "format" in part:
        return _FORMATS.get(part["format"], f"text in the format {part['format']}")
    types = part.get("type", [])
    return (
        " or ".join(_TYPES.get(one, one) for one in ([types] if isinstance(types, str) else types)) or "something else"
    )


def _at(place: str, name: str) -> str:
    name = name if len(name) <= 80 else f"{name[:79]}…"
    return f"{place}.{name}" if place else name


def _json(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except RecursionError:
        text = f"{type(value).__name__}, nested very deep"
    return text if len(text) <= 120 else f"{text[:119]}…"
