"""What pages load besides their HTML: the files under `static/`, as they are."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

CONTENT_TYPES: Final = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class Asset:
    """One file."""

    body: bytes
    content_type: str
    etag: str


@cache
def assets() -> Mapping[str, Asset]:
    """By name, read once: a name that is asked for never becomes a path."""
    found: dict[str, Asset] = {}
    for file in (resources.files(__package__) / "static").iterdir():
        content_type = CONTENT_TYPES.get(file.name.rpartition(".")[2])
        if content_type and file.is_file():
            body = file.read_bytes()
            found[file.name] = Asset(body, content_type, f'"{hashlib.sha256(body).hexdigest()[:16]}"')
    return found
