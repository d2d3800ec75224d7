"""Templates of the admin pages, under `gateway/web/pages/admin`. What stands in them is escaped, whatever it is."""

from __future__ import annotations

import time
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import gateway.web

if TYPE_CHECKING:
    from jinja2 import Environment


def filled(name: str, **values: Any) -> str:
    return _templates().get_template(name).render(**values)


@cache
def _templates() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415  # with the first page: 20 MB

    folder = resources.files(gateway.web) / "pages" / "admin"
    made = Environment(
        loader=FileSystemLoader(str(folder)),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"at": at, "span": span, "iso": iso}
    return made


def at(ms: int) -> str:
    """A time for people, by this machine's clock and zone."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(ms / 1_000)) if ms else "–"


def iso(ms: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ms / 1_000))


def span(seconds: float) -> str:
    """`42 s`, `3 min`, `5 h`, `2 d`."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
