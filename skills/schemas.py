"""schema.json: which arguments a program takes, what it does to the world. Bytes in; a schema, or why it is none, out.

A schema is checked when it is read, so that a call can't be made slow, large or remote by it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import jsonschema_rs

NAME: Final = "schema.json"
MAX_BYTES: Final = 64 * 1_024
DEPTH_MAX: Final = 24
VALUES_MAX: Final = 5_000
ENUM_MAX: Final = 500
PATTERN_MAX: Final = 500

Effect = Literal["read", "idempotent", "once"]

_DRAFTS: Final = {
    "https://json-schema.org/draft/2020-12/schema": jsonschema_rs.Draft202012Validator,
    "https://json-schema.org/draft/2019-09/schema": jsonschema_rs.Draft201909Validator,
    "http://json-schema.org/draft-07/schema": jsonschema_rs.Draft7Validator,
}
_NEWEST: Final = next(iter(_DRAFTS))
ELSEWHERE: Final = (
    "$id",
    "$anchor",
    "$dynamicRef",
    "$dynamicAnchor",
    "$recursiveRef",
    "$recursiveAnchor",
    "$vocabulary",
)
"""What makes a reference depend on more than its own text."""
MAPS: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
SINGLE: Final = (
    *("items", "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "propertyNames", "contains"),
    *("not", "if", "then", "else", "additionalItems"),
)
ARGUMENT: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_SECRET: Final = re.compile(
    r"\b(?:sk-[\w-]{16,}|xox[abprs]-[\w-]{10,}|gh[pousr]_\w{20,}|AKIA[0-9A-Z]{16})|-----BEGIN [A-Z ]*PRIVATE KEY"
)


class BrokenSchema(ValueError):
    """The schema can't be used. `str()` says where and why."""


class OutsideSchema(BrokenSchema):
    """It refers to another document."""


@dataclass(frozen=True, slots=True)
class Schema:
    """What a program takes."""

    arguments: Mapping[str, Any]
    """JSON Schema of an object. Objects are closed, unless they say what else they may hold."""
    effect: Effect
    """What the program does to the world."""


def read(raw: bytes) -> Schema:
    """Read a schema.json. Raises `BrokenSchema`."""
    if len(raw) > MAX_BYTES:
        raise BrokenSchema(f"{len(raw):,} bytes, allowed are {MAX_BYTES:,}")
    try:
        tree = json.loads(raw.decode("utf-8-sig"), parse_constant=_no_number, object_pairs_hook=_each_key_once)
    except RecursionError:
        raise BrokenSchema(f"nested deeper than {DEPTH_MAX}") from None
    except ValueError as error:  # UTF-8, JSON, and what the two hooks refuse
        raise BrokenSchema(f"no JSON: {error}") from None
    if not isinstance(tree, dict):
        raise BrokenSchema("not an object")
    check_size(tree)
    effect = tree.pop("effect", "once")
    if effect not in get_args(Effect):
        raise BrokenSchema(f"effect: wanted one of {', '.join(get_args(Effect))}, came {json.dumps(effect)}")
    if tree.setdefault("type", "object") != "object":
        raise BrokenSchema('type: wanted "object": a program takes named arguments')
    if tree.get("additionalProperties", False) is not False:
        raise BrokenSchema("additionalProperties: wanted false, or no such key: what is not described is refused")
    _check_top(tree)
    _close(tree)
    for place, part in _schemas(tree, ""):
        _check_part(place, part, tree)
    try:
        validator(tree)
    except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
        raise BrokenSchema(_first_line(error)) from None
    _check_defaults(tree)
    return Schema(tree, effect)


def validator(schema: Mapping[str, Any]) -> jsonschema_rs.Validator:
    """Checks formats too; patterns run in linear time; nothing is fetched. Raises `ValueError` for a schema that is none."""
    draft = _DRAFTS[str(schema.get("$schema", _NEWEST)).rstrip("#")]
    return draft(dict(schema), validate_formats=True, pattern_options=jsonschema_rs.RegexOptions(), offline=True)


def resolved(part: Any, root: Mapping[str, Any]) -> Any:
    """The schema that `part` stands for, where it is a reference into `root`."""
    while isinstance(part, Mapping) and "$ref" in part:
        part = _pointed(part["$ref"], root)
    return part


def takes_words(part: Any, root: Mapping[str, Any], depth: int = DEPTH_MAX) -> bool:
    """Whether a value that fits can hold words of whoever fills it in; where nobody can tell, it can."""
    part = resolved(part, root)
    if not isinstance(part, Mapping) or not depth:
        return True
    if "enum" in part or "const" in part:
        return False
    match part.get("type"):
        case "boolean" | "integer" | "number" | "null":
            return False
        case "array":
            return "prefixItems" in part or takes_words(part.get("items"), root, depth - 1)
        case "object":
            is_open = part.get("additionalProperties") is not False or "patternProperties" in part
            return is_open or any(takes_words(one, root, depth - 1) for one in part.get("properties", {}).values())
    return True


def check_size(tree: Any) -> None:
    """Without recursion: it may be as deep as it likes. Raises `BrokenSchema`."""
    level, values = [tree], 0
    for _ in range(DEPTH_MAX):
        values += len(level)
        inner = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, (dict, list))]
        level = [value for each in inner for value in each]
        if values + len(level) > VALUES_MAX:
            raise BrokenSchema(f"more than {VALUES_MAX:,} values")
        if not level:
            return
    raise BrokenSchema(f"nested deeper than {DEPTH_MAX}")


def _schemas(part: Any, place: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every schema within a schema, itself first, with where it stands."""
    if not isinstance(part, Mapping):
        return
    yield place or "the whole", part
    for name in MAPS:
        if isinstance(part.get(name), Mapping):
            for key, inner in part[name].items():
                yield from _schemas(inner, f"{place}/{name}/{key}")
    for name in (*LISTS, *SINGLE):
        inner = part.get(name)
        for one in inner if isinstance(inner, list) else [inner]:
            yield from _schemas(one, f"{place}/{name}")


def _check_top(tree: Mapping[str, Any]) -> None:
    """What the Messages API refuses in a tool: it would refuse each request of a channel that has this one."""
    if found := next((word for word in ("allOf", "anyOf", "oneOf") if word in tree), None):
        raise BrokenSchema(f"{found} can't stand at the top, where the arguments are named")
    properties = tree.get("properties", {})
    for name in properties if isinstance(properties, dict) else ():
        if not ARGUMENT.fullmatch(name):
            raise BrokenSchema(
                f"properties: {name[:80]!r}: an argument's name has 1 to 64 of A-Z, a-z, 0-9, _, . and -"
            )


def _check_part(place: str, part: Mapping[str, Any], root: Mapping[str, Any]) -> None:
    if found := next((word for word in ELSEWHERE if word in part), None):
        raise BrokenSchema(f"{place}: {found} is not taken")
    draft = part.get("$schema", _NEWEST)
    if not isinstance(draft, str) or draft.rstrip("#") not in _DRAFTS:
        raise BrokenSchema(f"{place}: $schema {json.dumps(draft)}; wanted one of {', '.join(_DRAFTS)}")
    if "$ref" in part:
        _check_reference(place, part, root)
    choices = part.get("enum")
    if isinstance(choices, list) and len(choices) > ENUM_MAX:
        raise BrokenSchema(f"{place}: enum of {len(choices):,} values, allowed are {ENUM_MAX}")
    patterns = [part.get("pattern"), *(part.get("patternProperties") or ())]
    if any(isinstance(one, str) and len(one) > PATTERN_MAX for one in patterns):
        raise BrokenSchema(f"{place}: a pattern of more than {PATTERN_MAX} characters")


def _check_reference(place: str, part: Mapping[str, Any], root: Mapping[str, Any]) -> None:
    """A reference leads to a place in this file, and never back to where it stands."""
    seen: set[str] = set()
    waiting = [part]
    while waiting:
        for _, inner in _schemas(waiting.pop(), ""):
            if "$ref" not in inner:
                continue
            target = inner["$ref"]
            found = _pointed(target, root)  # first: it may be anything, and refuses what is no text
            if target in seen:
                continue
            if any(one is part for _, one in _schemas(found, "")):
                raise BrokenSchema(f"{place}: $ref {target} leads back to itself")
            seen.add(target)
            waiting.append(found)


def _pointed(target: Any, root: Mapping[str, Any]) -> Any:
    if not isinstance(target, str) or not target.startswith("#"):
        raise OutsideSchema(f"$ref {json.dumps(target)}: wanted a place in this file, such as #/$defs/day")
    found: Any = root
    for step in target.removeprefix("#").split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping) or not target.startswith(("#/$defs/", "#/definitions/")):
        raise BrokenSchema(f"$ref {target}: there is no such place under #/$defs")
    return found


def _close(part: Any) -> None:
    """Objects hold what is described and nothing else. Within `anyOf` and the like that is the author's to say."""
    if not isinstance(part, dict):
        return
    described = isinstance(part.get("properties"), dict)
    composed = any(word in part for word in (*LISTS, "$ref"))
    if (described or (part.get("type") == "object" and not composed)) and "patternProperties" not in part:
        part.setdefault("additionalProperties", False)
    for name in ("properties", "$defs", "definitions"):
        for inner in part[name].values() if isinstance(part.get(name), dict) else ():
            _close(inner)
    for name in ("items", "additionalProperties"):
        _close(part.get(name))


def _check_defaults(root: Mapping[str, Any]) -> None:
    """A default is filled in and told to the model: it has to fit, and to be no secret."""
    for place, part in _schemas(root, ""):
        if "default" not in part:
            continue
        default = part["default"]
        own = {**part, **{name: root[name] for name in ("$schema", "$defs", "definitions") if name in root}}
        if not validator(own).is_valid(default):
            raise BrokenSchema(f"{place}: the default {json.dumps(default, ensure_ascii=False)[:80]} does not fit")
        if _SECRET.search(json.dumps(default)):
            raise BrokenSchema(f"{place}: the default looks like a secret; declare it in SKILL.md's env")


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no number in JSON")


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    tree = dict(pairs)
    if len(tree) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r} is given twice")
    return tree


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0][:300]
