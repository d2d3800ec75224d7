"""Schemas of others, such as those of MCP servers: made into ones that arguments can be checked by, and a model be shown.

Whoever wrote them checks arguments too, by the whole of it. So what we can't follow is left out: a call is checked less
then, and none is refused that would be right. What is left is draft 2020-12, refers to nothing but itself, and ends.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import jsonschema_rs

from skills import schemas
from skills.schemas import BrokenSchema

_COMBINED: Final = ("allOf", "anyOf", "oneOf")
"""What the service refuses at the top."""
_DEFINED: Final = ("$defs", "definitions")
_FORMATS: Final = ("date", "date-time", "time", "email", "uuid", "ipv4", "ipv6")
"""Those that everybody reads alike. By the others, such as `uri` and `regex`, something may be refused that is taken."""
_DROPPED_MAX: Final = 200


def usable(schema: Any) -> dict[str, Any]:
    """The schema as far as it can be followed. Raises `BrokenSchema` where the model's service would refuse it."""
    if not isinstance(schema, Mapping):
        raise BrokenSchema("not an object")
    schemas.check_size(schema)
    text = json.dumps(schema)
    if len(text) > schemas.MAX_BYTES:
        raise BrokenSchema(f"{len(text):,} bytes, allowed are {schemas.MAX_BYTES:,}")
    schema = json.loads(text)  # one of our own, to be changed
    if schema.get("type", "object") != "object":
        raise BrokenSchema(f'type: wanted "object", came {json.dumps(schema["type"])[:80]}')
    made: dict[str, Any] = _loose(schema, "", schema)
    made = {"type": "object", **{name: part for name, part in made.items() if name not in _COMBINED}}
    if not isinstance(made.setdefault("properties", {}), dict):
        made["properties"] = {}
        _open(made)
    if name := next((name for name in made["properties"] if not schemas.ARGUMENT.fullmatch(name)), None):
        raise BrokenSchema(f"properties: {name[:80]!r}: an argument's name has 1 to 64 of A-Z, a-z, 0-9, _, . and -")
    return _sound(made)


def _loose(part: Any, inside: str, root: Mapping[str, Any]) -> Any:
    """A schema within the whole one. `inside` is the place of the definition that it belongs to; empty: none."""
    if not isinstance(part, Mapping):
        return part
    made = {name: one for name, one in part.items() if name not in schemas.ELSEWHERE and name != "$schema"}
    if "$ref" in made and not _ends(made["$ref"], inside, root):
        del made["$ref"]
    if "format" in made and made["format"] not in _FORMATS:
        del made["format"]
    _tell_default(made)
    for name in schemas.MAPS:
        if isinstance(made.get(name), Mapping):
            within = {key: f"#/{name}/{key}" if part is root and name in _DEFINED else inside for key in made[name]}
            made[name] = {key: _loose(inner, within[key], root) for key, inner in made[name].items()}
    for name in schemas.LISTS:
        if isinstance(made.get(name), list):
            made[name] = [_loose(one, inside, root) for one in made[name]]
    for name in schemas.SINGLE:
        if name in made:
            made[name] = _loose(made[name], inside, root)
    return made


def _ends(target: Any, inside: str, root: Mapping[str, Any]) -> bool:
    """Whether a reference leads to a definition of the schema's own, and from there never back to `inside`."""
    seen: set[str] = set()
    waiting = [target]
    while waiting:
        place = waiting.pop()
        found = _defined(place, root)
        if found is None:
            if place is target:
                return False
            continue
        if place == inside:
            return False
        if place not in seen:
            seen.add(place)
            waiting += _references(found)
    return True


def _defined(place: Any, root: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What stands at `#/$defs/<name>`; none where nothing does."""
    for name in _DEFINED:
        within = root.get(name)
        if isinstance(place, str) and place.startswith(f"#/{name}/") and isinstance(within, Mapping):
            key = place.removeprefix(f"#/{name}/")
            found = within.get(key)
            return found if isinstance(found, Mapping) and not {"/", "~"} & set(key) else None
    return None


def _references(part: Any) -> list[Any]:
    """All references within, whatever they stand in."""
    found = [part["$ref"]] if isinstance(part, Mapping) and "$ref" in part else []
    inner = part.values() if isinstance(part, Mapping) else part if isinstance(part, list) else ()
    return found + [one for each in inner for one in _references(each)]


def _tell_default(part: dict[str, Any]) -> None:
    """A default is said, not filled in: whose schema it is fills it in, and may do otherwise where it is not given."""
    if "default" not in part:
        return
    default = part.pop("default")
    said = part.get("description", "")
    if isinstance(said, str) and default is not None and "default" not in said.lower():
        told = json.dumps(default, ensure_ascii=False)
        part["description"] = f"{said} (default: {told if len(told) <= 80 else told[:79] + '…'})".strip()


def _sound(schema: dict[str, Any]) -> dict[str, Any]:
    """Without the keywords that are none in this draft, or that can't be checked in linear time (patterns that look around).

    Raises `BrokenSchema`.
    """
    for _ in range(_DROPPED_MAX):
        try:
            schemas.validator(schema)
        except jsonschema_rs.ValidationError as error:
            if not _drop(schema, error.instance_path):
                raise BrokenSchema(error.message[:300]) from None
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            raise BrokenSchema(str(error).partition("\n")[0][:300]) from None
        else:
            return schema
    raise BrokenSchema("too much of it is no JSON Schema")


def _drop(schema: dict[str, Any], path: Sequence[Any]) -> bool:
    """Take out what stands at this path. What it stood beside must not shut out what it would have let in."""
    holder: Any = schema
    owner, kind = schema, "schema"
    for step in path[:-1]:
        owner, kind = holder if kind == "schema" else owner, _within(kind, step)
        holder = holder[step]
    if not path:
        return False
    if kind == "list" or (kind == "map" and path[-2] != "patternProperties"):
        holder[path[-1]] = {}
        return True
    del holder[path[-1]]
    if kind == "map":  # a pattern, which is wrong itself
        _open(owner)
    elif kind == "schema" and path[-1] in {"properties", "patternProperties"}:
        _open(holder)
    return True


def _open(part: dict[str, Any]) -> None:
    part.pop("additionalProperties", None)
    part.pop("unevaluatedProperties", None)


def _within(kind: str, step: Any) -> str:
    """What stands at this step in a schema, or in a map or a list of schemas; anything else is a value."""
    if kind != "schema":
        return "value" if kind == "value" else "schema"
    if step in schemas.SINGLE:
        return "schema"
    return "map" if step in schemas.MAPS else "list" if step in schemas.LISTS else "value"
