"""What a `schema.json` should say, so that a model fills in its arguments from a person's words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import jsonschema_rs

from skills.findings import Finding
from skills.folders import File, read_file

FILE: Final = "schema.json"
DEPTH_MAX: Final = 20
DESCRIPTION_MIN: Final = 12
"""In characters; one of Chinese or Japanese counts as two."""

_WIDE: Final = re.compile("[\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]")
_TYPED: Final = {"type", "enum", "const", "$ref", "anyOf", "oneOf", "allOf"}
_FORMED: Final = {"format", "pattern", "enum", "const", "examples", "maxLength", "contentEncoding"}
_FORM: Final = re.compile(
    r"""[\d`"“‘'「（(]|\be\.g\.|\b(?:such as|like|example|any|free|text)\b|例如|比如|如|任意|自由|全文""", re.IGNORECASE
)
_DEFAULT: Final = re.compile(
    r"default|left out|optional|omit|otherwise|if (?:absent|missing|not given|empty)|without it|"
    r"默认|缺省|可选|不填|省略|为空|否则",
    re.IGNORECASE,
)


def inspect(file: File) -> Iterator[Finding]:
    """All findings about a skill's schema."""
    try:
        schema = json.loads(read_file(file.place)[0])
        # Without `$schema`: the validator would fetch one that it does not know, from wherever the file says.
        plain = (
            {key: value for key, value in schema.items() if key != "$schema"} if isinstance(schema, dict) else schema
        )
        jsonschema_rs.meta.validate(plain)
    except (OSError, ValueError, RecursionError) as error:
        yield Finding("schema_invalid", f"no JSON Schema: {str(error).splitlines()[0][:200]}", FILE)
        return
    for reference in sorted(set(_references(schema))):
        text = f"refers to {reference}: only `#/...` within the file is followed"
        yield Finding("schema_outside", text, FILE, danger=True)
    if not isinstance(schema, dict) or schema.get("type") != "object":
        yield Finding("schema_invalid", "the schema must be of an object: `type: object` and its `properties`", FILE)
        return
    required = schema.get("required", [])
    for path, one in _properties(schema, ""):
        is_required = path in required if isinstance(required, list) else False
        yield from _lacks(path, one, needs_default=not is_required and "." not in path)


def _lacks(path: str, one: Mapping[str, Any], *, needs_default: bool) -> Iterator[Finding]:
    """What a property does not say, the first thing of: description, type, form, default."""
    described = str(one.get("description", "")).strip()
    lacks = []
    if not described:
        lacks.append("a description")
    elif len(described) + len(_WIDE.findall(described)) < DESCRIPTION_MIN:
        lacks.append("a description that says from which words of the person it comes")
    if not _TYPED & one.keys():
        lacks.append("a type")
    if lacks:
        yield Finding("schema_property_undescribed", f"{path} lacks {' and '.join(lacks)}", FILE)
    elif one.get("type") == "string" and not (_FORMED & one.keys() or _FORM.search(described)):
        text = f"{path}: in which form? Set format, pattern or enum, or give an example"
        yield Finding("schema_form_unsaid", text, FILE)
    elif needs_default and "default" not in one and not _DEFAULT.search(described):
        text = f"{path} may be left out: set a default, or say what happens then"
        yield Finding("schema_default_unsaid", text, FILE)


def _properties(schema: Mapping[str, Any], prefix: str, depth: int = 0) -> Iterator[tuple[str, Mapping[str, Any]]]:
    properties = schema.get("properties")
    for name, one in properties.items() if isinstance(properties, Mapping) and depth < DEPTH_MAX else ():
        if isinstance(one, Mapping):
            yield prefix + name, one
            yield from _properties(one, f"{prefix}{name}.", depth + 1)
            if isinstance(items := one.get("items"), Mapping):
                yield from _properties(items, f"{prefix}{name}[].", depth + 1)


def _references(schema: Any, depth: int = 0) -> Iterator[str]:
    """Addresses of other documents."""
    inner = schema.values() if isinstance(schema, Mapping) else schema if isinstance(schema, list) else ()
    if isinstance(schema, Mapping):
        named = [schema.get(key) for key in ("$ref", "$dynamicRef")]
        yield from (one for one in named if isinstance(one, str) and not one.startswith("#"))
    for one in inner if depth < DEPTH_MAX else ():
        yield from _references(one, depth + 1)
