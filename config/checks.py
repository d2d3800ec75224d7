"""Holding a part of a file against the section that it should be, and saying what would be right."""

from __future__ import annotations

import difflib
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin
from urllib.parse import urlsplit

from pydantic import SecretStr, ValidationError
from pydantic.fields import FieldInfo

from config.problems import At, Problem
from config.settings import Section
from config.source import Source, Variable

SectionT = TypeVar("SectionT", bound=Section)

_SPECIAL: Final = {
    "web_address": "wanted: an address that begins with http:// or https://",
    "empty_path": "wanted: path; `.` is the folder of this file",
    "exact_place": "wanted: exactly one host and port, such as wiki.intern:443, 10.0.0.7:8080 or [fd00::7]:80",
    "listening_host": "wanted: a host name or IP address without port, such as 127.0.0.1, ::1 or 0.0.0.0",
    "host_pattern": "wanted: a host name such as example.com, or *.example.com for all below it; other scripts as xn--...",
    "person": "wanted: connection/id, such as slack-main/U024BE7LH: the platform's own id, never a name; `/role` tells each "
    "person their own",
    "time_zone": "wanted: an IANA time zone, such as Europe/Berlin, Asia/Shanghai or UTC",
    "secret_argument": "wanted: text; everybody on the machine sees a command line, so what a variable holds belongs in env",
    "own_variable": "wanted: the name of a variable that is neither deskmate's own nor one that steers programs",
    "redis_address": "wanted: an address such as redis://host:6379/0, rediss://host:6379/0 or unix:///path",
}


def check(
    source: Source, tree: Any, at: At, model: type[SectionT], *, given: Mapping[str, Any] | None = None
) -> tuple[SectionT | None, list[Problem]]:
    """Make a `model` of `tree`, which is what `source` holds at `at`, with its variables filled in.

    `given` are values that do not come from the file. Without a section there is at least one problem.
    """
    if isinstance(tree, Mapping) and given:
        tree = {**tree, **given}
    try:
        made = model.model_validate(tree, context={"folder": source.file.absolute().parent})
    except ValidationError as error:
        found = [_problem(source, at, model, one, given or ()) for one in error.errors(include_url=False)]
        return None, list({problem.key: problem for problem in reversed(found)}.values())[::-1]
    return made, []


def nearest(word: str, allowed: Iterable[str]) -> str | None:
    """The one of `allowed` that was probably meant."""
    return next(iter(difflib.get_close_matches(word, list(allowed), n=1)), None)


def wanted(annotation: Any, rules: Iterable[Any] = ()) -> str:
    """What may be written, in words: `whole number from 1 to 64`, `one of everysec, fsync`, `text written $NAME`."""
    rules = list(rules)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in {Union, UnionType}:
        return " or ".join(wanted(one, rules) for one in arguments if one is not type(None))
    if hasattr(annotation, "__metadata__"):
        return wanted(annotation.__origin__, [*rules, *_flat(annotation.__metadata__)])
    if origin is Literal:
        return f"one of {', '.join(map(str, arguments))}"
    if origin in {list, tuple, set, frozenset}:
        return f"list of {wanted(arguments[0])}"
    if origin in {dict, Mapping}:
        return f"mapping of names to {wanted(arguments[1])}"
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return f"section with the keys {', '.join(keys(annotation))}"
    if annotation is SecretStr:
        return "text written $NAME"
    if annotation in {int, float}:
        return ("whole number" if annotation is int else "number") + _bounds(rules)
    if annotation is bool:
        return "true or false"
    pattern = _rule(rules, "pattern")
    return ("path" if annotation is Path else "text") + (f" that fits {pattern}" if pattern else "")


def keys(model: type[Section]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def secrets(value: Any) -> Iterator[str]:
    """Every secret in a section: `Secret` fields, and the passwords inside addresses."""
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
        yield from secrets(value.get_secret_value())
    elif isinstance(value, Section):
        for name in type(value).model_fields:
            yield from secrets(getattr(value, name))
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from secrets(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from secrets(one)
    elif isinstance(value, str) and "@" in value and "://" in value:
        password = value.split("://", 1)[1].rpartition("@")[0].partition(":")[2]
        if password:
            yield password


def _problem(source: Source, base: At, model: type[Section], error: Any, given: Container[str]) -> Problem:
    loc: At = error["loc"]
    kind: str = error["type"]
    context: Mapping[str, Any] = error.get("ctx", {})
    if "key" in context:  # the section's own check tells which key is to blame
        loc = (*loc, context["key"])
    if kind == "across":
        at = (*base, *loc)
        return source.problem(at, context.get("what") or _refused(source, at, None), error["msg"])
    depth, annotation, rules = _walk(model, loc)
    at = (*base, *loc[:depth])
    if kind == "extra_forbidden":
        allowed = [name for name in keys(annotation) if len(loc) > 1 or name not in given]
        at = (*base, *loc)
        return source.problem(at, "unknown key", f"allowed: {', '.join(allowed)}", nearest(str(loc[-1]), allowed))
    if loc[-1:] == ("[key]",):
        return source.problem(at, "the name is not allowed", f"wanted: {wanted(annotation, rules)}")
    if kind == "missing":
        return source.problem(at, "missing", f"wanted: {wanted(annotation, rules)}")
    if kind in {"value_error", "assertion_error"}:
        return source.problem(at, str(context.get("error", error["msg"])))
    if kind == "secret_in_file":
        return source.problem(
            at,
            "a secret may not stand in the file",
            "wanted: text written $NAME, where NAME is an environment variable",
        )
    close = None
    if get_origin(annotation) is Literal and isinstance(error["input"], str):
        close = nearest(error["input"], map(str, get_args(annotation)))
    is_section = isinstance(annotation, type) and issubclass(annotation, Section)
    # One may hold, the other be a secret in the wrong place.
    hidden = is_section or not {"headers", "env"}.isdisjoint(at)
    refused = "the value is not allowed" if hidden else _refused(source, at, error["input"])
    return source.problem(at, refused, _SPECIAL.get(kind) or f"wanted: {wanted(annotation, rules)}", close)


def _walk(model: type[Section], loc: At) -> tuple[int, Any, list[Any]]:
    """How far `loc` leads through fields, and the kind and rules of what stands there."""
    annotation: Any = model
    rules: list[Any] = []
    for depth, step in enumerate(loc):
        annotation, rules = _bare(annotation, rules)
        origin, arguments = get_origin(annotation), get_args(annotation)
        if isinstance(annotation, type) and issubclass(annotation, Section):
            field: FieldInfo | None = annotation.model_fields.get(str(step))
            if field is None:
                return depth, annotation, rules
            annotation, rules = field.annotation, list(_flat(field.metadata))
        elif origin in {dict, Mapping} and loc[depth + 1 : depth + 2] == ("[key]",):
            return depth + 1, *_bare(arguments[0], [])
        elif origin in {dict, Mapping, list, tuple}:
            annotation, rules = (arguments[1] if origin in {dict, Mapping} else arguments[0]), []
        else:
            return depth, annotation, rules
    return len(loc), *_bare(annotation, rules)


def _bare(annotation: Any, rules: list[Any]) -> tuple[Any, list[Any]]:
    """Without `| None` and `Annotated`."""
    while True:
        if hasattr(annotation, "__metadata__"):
            annotation, rules = annotation.__origin__, [*rules, *_flat(annotation.__metadata__)]
        elif get_origin(annotation) in {Union, UnionType}:
            rest = [one for one in get_args(annotation) if one is not type(None)]
            if len(rest) > 1:
                return annotation, rules
            annotation = rest[0]
        else:
            return annotation, rules


def _flat(rules: Iterable[Any]) -> Iterator[Any]:
    for rule in rules:
        if isinstance(rule, FieldInfo):
            yield from rule.metadata
        else:
            yield rule


def _rule(rules: Iterable[Any], name: str) -> Any:
    return next((getattr(rule, name) for rule in rules if getattr(rule, name, None) is not None), None)


def _bounds(rules: list[Any]) -> str:
    least, most, above = _rule(rules, "ge"), _rule(rules, "le"), _rule(rules, "gt")
    if least is not None and most is not None:
        return f" from {least} to {most}"
    if above is not None:
        return f" above {above}" + (f" up to {most}" if most is not None else "")
    if least is not None:
        return f" of at least {least}"
    return f" up to {most}" if most is not None else ""


def _refused(source: Source, at: At, value: Any) -> str:
    """What was written, as far as it may be shown: never what a variable holds, nor a password in an address."""
    if value is None:
        value = source.written(at)
        value = value if not isinstance(value, str) or value.startswith("$") else None
    if isinstance(value, Variable):
        return f"what {value!r} holds is not allowed"
    if isinstance(value, str) and ("@" in value or urlsplit(value).query):
        return "the text is not allowed"
    if isinstance(value, (str, int, float)):
        text = repr(value) if isinstance(value, str) else str(value).lower()
        return f"{text if len(text) <= 60 else text[:57] + '...'} is not allowed"
    return "the value is not allowed"
