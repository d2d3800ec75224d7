"""What a `schema.json` should say, so that a model fills in its arguments from a person's words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from skills import schemas
from skills.findings import Finding
from skills.schemas import BrokenSchema, OutsideSchema

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


def inspect(raw: bytes) -> Iterator[Finding]:
    """All findings about a skill's schema. One that can't be used has no others."""
    try:
        schema = schemas.read(raw).arguments
    except OutsideSchema as error:
        yield Finding("schema_outside", f"can't be used: {error}", schemas.NAME, danger=True)
        return
    except BrokenSchema as error:
        yield Finding("schema_invalid", f"can't be used: {error}", schemas.NAME)
        return
    required = schema.get("required", [])
    for path, one in _properties(schema, ""):
        yield from _lacks(path, one, needs_default=path not in required and "." not in path)


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
        yield Finding("schema_property_undescribed", f"{path} lacks {' and '.join(lacks)}", schemas.NAME)
    elif one.get("type") == "string" and not (_FORMED & one.keys() or _FORM.search(described)):
        text = f"{path}: in which form? Set format, pattern or enum, or give an example"
        yield Finding("schema_form_unsaid", text, schemas.NAME)
    elif needs_default and "default" not in one and not _DEFAULT.search(described):
        text = f"{path} may be left out: set a default, or say what happens then"
        yield Finding("schema_default_unsaid", text, schemas.NAME)


def _properties(schema: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """All of them with their paths, such as `people[].name`. How deep they lie, `schemas.read` has limited."""
    for name, one in schema.get("properties", {}).items():
        if isinstance(one, Mapping):
            yield prefix + name, one
            yield from _properties(one, f"{prefix}{name}.")
            if isinstance(items := one.get("items"), Mapping):
                yield from _properties(items, f"{prefix}{name}[].")
