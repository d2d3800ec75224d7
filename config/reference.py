"""The tables of `docs/settings.md`, made from the sections' fields and the docstrings below them."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic_core import PydanticUndefined

from config.checks import wanted
from config.profiles import Profile
from config.settings import ENVIRONMENT_DEFAULTS, ChannelRule, Connection, Section, Settings


def reference(platforms: Mapping[str, type[Connection]]) -> str:
    """All tables, as Markdown: each section of the settings, each platform's own keys, the profiles."""
    parts = ["## Settings: `deskmate.yaml`", _table(Settings, "", [name for name, _ in _sections(Settings)])]
    parts += [text for name, model in _sections(Settings) for text in _section(name, model)]
    parts += ["### `connections.<name>`", _about(Connection), _table(Connection, "")]
    for name, model in platforms.items():
        own = _table(model, "", list(Connection.model_fields))
        parts += [f"### `connections.<name>` with `platform: {name}`", _about(model), own]
    parts += ["### `channels[]`", _about(ChannelRule), _table(ChannelRule, "")]
    parts += ["## Profiles: `profiles/<name>.yaml`", _about(Profile)]
    parts += [_table(Profile, "", ["name", *(name for name, _ in _sections(Profile))])]
    parts += [text for name, model in _sections(Profile) for text in _section(name, model)]
    return "\n\n".join(parts) + "\n"


def _section(name: str, model: type[Section]) -> Iterator[str]:
    yield f"### `{name}`"
    yield _about(model)
    if of_one_kind := _of_one_kind(model):
        yield of_one_kind
    if model.model_fields.keys() != dict(_sections(model)).keys():
        yield _table(model, f"{name}.", [inner for inner, _ in _sections(model)])
    for inner, part in (*_alike(model), *_by_name(model)):
        yield from _section(f"{name}.{inner}", part)


def _alike(model: type[Section]) -> list[tuple[str, type[Section]]]:
    """Its sections, those of one kind as one: `<day|month>`."""
    kinds: dict[type[Section], list[str]] = {}
    for name, part in _sections(model):
        kinds.setdefault(part, []).append(name)
    return [(names[0] if len(names) == 1 else f"<{'|'.join(names)}>", part) for part, names in kinds.items()]


def _of_one_kind(model: type[Section]) -> str:
    """What each of several sections of one kind is, for they share a table."""
    told, alone = _docstrings(model), dict(_alike(model))
    return "\n".join(f"- `{name}`: {told[name]}" for name, _ in _sections(model) if name not in alone and name in told)


def _by_name(model: type[Section]) -> Iterator[tuple[str, type[Section]]]:
    """Sections of which there may be several, each under a name of the operator's choice."""
    for name, field in model.model_fields.items():
        kinds = get_args(field.annotation) if get_origin(field.annotation) is dict else ()
        if kinds and isinstance(kinds[1], type) and issubclass(kinds[1], Section):
            yield f"{name}.<name>", kinds[1]


def _sections(model: type[Section]) -> list[tuple[str, type[Section]]]:
    return [
        (name, field.annotation)
        for name, field in model.model_fields.items()
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section)
    ]


def _table(model: type[Section], prefix: str, without: list[str] | None = None) -> str:
    told = _docstrings(model)
    rows = ["| key | what may be written | default | |", "|---|---|---|---|"]
    for name, field in model.model_fields.items():
        if name in (without or []):
            continue
        kind = wanted(field.annotation, field.metadata)
        default = "must be set" if field.is_required() else _default(field.default)
        variable = ENVIRONMENT_DEFAULTS.get((prefix.rstrip("."), name))
        default = f"`${variable}`, else {default}" if variable else default
        cells = [f"`{prefix}{name}`", kind, default, told.get(name, "")]
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows)


def _default(value: Any) -> str:
    if value is None or value is PydanticUndefined:
        return "none"
    return f"`{json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)}`"


def _about(model: type[Section]) -> str:
    return inspect.cleandoc(model.__doc__ or "")


def _docstrings(model: type[Section]) -> dict[str, str]:
    """The string that stands below each attribute."""
    told: dict[str, str] = {}
    body = next(node for node in ast.walk(ast.parse(inspect.getsource(model))) if isinstance(node, ast.ClassDef)).body
    for field, text in pairwise(body):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(said))):
                told[name] = " ".join(said.split())
    return told
