"""What a server says that it has: which of it can be a tool of ours, by which name, and why not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.rights.pins import Definition
from skills.foreign_schemas import usable
from skills.schemas import BrokenSchema

TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What the model's service takes."""
DESCRIPTION_MAX: Final = 8_000
"""Characters. A longer description would be a burden to every request."""


@dataclass(frozen=True, slots=True)
class Listed:
    """By the names that the model would use."""

    definitions: Mapping[str, Definition] = field(default_factory=dict)
    faults: Mapping[str, str] = field(default_factory=dict)
    """Why a tool can't be used at all."""


def listed(server: str, tools: Iterable[tuple[str, str, Any]]) -> Listed:
    """From name, description and schema of each tool, as the server has them."""
    definitions: dict[str, Definition] = {}
    faults: dict[str, str] = {}
    for own_name, description, schema in tools:
        name = f"{server}__{own_name}"
        if name in definitions or name in faults:
            definitions.pop(name, None)
            faults[name] = "the server has two tools of this name"
        elif fault := _fault(name, description, schema):
            faults[name] = fault
        else:
            definitions[name] = Definition(name, description, schema)
    return Listed(definitions, faults)


def _fault(name: str, description: str, schema: Any) -> str:
    if not TOOL_NAME.fullmatch(name):
        return (
            f"a tool's name, with the server's before it, has 1 to 64 of A-Z, a-z, 0-9, _ and -; this has {len(name)}"
        )
    if len(description) > DESCRIPTION_MAX:
        return f"its description has {len(description):,} characters, allowed are {DESCRIPTION_MAX:,}"
    try:
        json.dumps([description, schema], ensure_ascii=False).encode()
        usable(schema)
    except (BrokenSchema, UnicodeEncodeError) as error:
        return f"its schema can't be used: {error}"
    return ""
