"""Stored: JSON as it comes out of Redis, where anybody may have put something else."""

from __future__ import annotations

import json
from typing import Any


def mapping(text: str | bytes) -> dict[str, Any]:
    """A JSON object. Raises `ValueError` for whatever else it is."""
    try:
        read = json.loads(text)
    except RecursionError as error:
        raise ValueError(f"nested too deeply: {text[:80]!r}") from error
    if not isinstance(read, dict):
        raise ValueError(f"no JSON object: {text[:80]!r}")  # noqa: TRY004  # whoever reads asks for one kind of error
    return read
