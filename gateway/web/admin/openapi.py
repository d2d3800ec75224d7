"""The document of the JSON API (OpenAPI 3.1), made of the operations' own types."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import metadata
from typing import Any, Final

from pydantic.json_schema import models_json_schema

from gateway.admin.operations import Operation, Result, operations

ROOT: Final = "/admin/api/v1"
IDEMPOTENCY: Final = "Idempotency-Key"


class Problem(Result):
    """Why it was not done, or is not told."""

    error: str
    """For people."""
    kind: str = ""
    """A fixed word, such as `role`."""
    rule: str = ""
    """What decided: file and line, a switch, a role."""


_REFUSALS: Final = {
    "400": "What was given is not understood.",
    "401": "No token that opens.",
    "403": "You may not; `rule` says why.",
    "404": "There is no such thing.",
    "409": "It can't be done as things are.",
    "429": "Too many wrong keys came from this address.",
    "503": "Redis is away, or what it holds can't be read.",
}
_REFUSED_BODIES: Final = {"413": "The body is too large.", "415": "The body is no JSON."}


def path_of(operation: Operation[Any, Any]) -> str:
    return f"{ROOT}/{operation.name.replace('.', '/')}"


@cache
def document() -> dict[str, Any]:
    every = list(operations().values())
    schemas = _schemas(every)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "deskmate: admin API",
            "version": metadata.version("deskmate"),
            "description": "What people who look after deskmate can see and do. Tokens: `deskmate admin token`.",
        },
        "security": [{"token": []}],
        "paths": {path_of(one): {"get" if one.is_safe else "post": _operation(one)} for one in every},
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": schemas,
            "responses": {
                status: {"description": told, "content": _content("Problem")}
                for status, told in {**_REFUSALS, **_REFUSED_BODIES}.items()
            },
        },
    }


def _operation(one: Operation[Any, Any]) -> dict[str, Any]:
    said: dict[str, Any] = {
        "operationId": one.name,
        "tags": [one.name.partition(".")[0]],
        "summary": one.summary,
        "description": "\n\n".join(filter(None, [one.description, f"For: {one.who.told}."])),
        "responses": {
            "200": {"description": "It is so.", "content": _content(one.result.__name__)},
            **{status: {"$ref": f"#/components/responses/{status}"} for status in _REFUSALS},
        },
    }
    if one.is_safe:
        said["parameters"] = list(_parameters(one))
        return said
    said["requestBody"] = {"required": True, "content": _content(one.input.__name__)}
    said["parameters"] = [
        {
            "name": IDEMPOTENCY,
            "in": "header",
            "schema": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
            "description": "The same for the same act that is sent again: it is done once. With other fields it is another act.",
        }
    ]
    said["responses"] |= {status: {"$ref": f"#/components/responses/{status}"} for status in _REFUSED_BODIES}
    return said


def _parameters(one: Operation[Any, Any]) -> Iterable[dict[str, Any]]:
    schema = one.input.model_json_schema()
    for name, field in schema.get("properties", {}).items():
        told = {"description": field["description"]} if "description" in field else {}
        required = name in schema.get("required", ())
        yield {"name": name, "in": "query", "required": required, "schema": field, **told}


def _schemas(every: Iterable[Operation[Any, Any]]) -> dict[str, Any]:
    results: set[type[Result]] = {Problem, *(one.result for one in every)}
    pairs: Any = [(one.input, "validation") for one in every if not one.is_safe]
    pairs += [(one, "serialization") for one in sorted(results, key=lambda one: one.__name__)]
    _, whole = models_json_schema(pairs, ref_template="#/components/schemas/{model}")
    found: dict[str, Any] = whole["$defs"]
    return found


def _content(schema: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
