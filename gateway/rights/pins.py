"""Pins: which tool of an MCP server somebody has looked at, and in which words it described itself then.

What a server says of its tools stands in every request to the model, so it counts only as it was approved. A tool that
describes itself otherwise later is taken away until somebody says yes to that, too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from gateway.audit.log import line_of
from gateway.rights.access import Words
from gateway.store import Script, Store, reading, script_of

_SET: Final = script_of("gateway.shelf", "pin")
_TAKE: Final = script_of("gateway.shelf", "unpin")
"""They write a line of the audit log, in one chain with the others about tools."""
_CHANGED: Final = Script(
    "pin changed",
    """
    local pin = redis.call('HGET', KEYS[1] .. ':pins', ARGV[1])
    if not pin or cjson.decode(pin).hash ~= ARGV[2] then return 0 end -- somebody decided meanwhile
    if redis.call('HGET', KEYS[1] .. ':changed', ARGV[1]) == ARGV[3] then return 0 end
    redis.call('HSET', KEYS[1] .. ':changed', ARGV[1], ARGV[3])
    return 1
    """,
)


@dataclass(frozen=True, slots=True)
class Definition:
    """A tool in the words of its server."""

    name: str
    """As the model calls it: `server__tool`."""
    description: str
    schema: Mapping[str, Any]

    @property
    def hash(self) -> str:
        """Of all that the model is shown. The order of keys makes no difference."""
        whole = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(whole.encode()).hexdigest()

    def text(self) -> str:
        """For whoever decides, and to compare."""
        schema = json.dumps(self.schema, indent=2, ensure_ascii=False, sort_keys=True)
        return f"{self.description}\n\n{schema}\n"


@dataclass(frozen=True, slots=True)
class Pin:
    """What was approved."""

    definition: Definition
    by: str
    at_ms: int
    changed: str = ""
    """The hash of what the server said since, where that is something else: until a new yes the tool is not there."""

    @property
    def holds(self) -> bool:
        return not self.changed


class Pins:
    """All of them. Each method raises `Unreachable`."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._root = store.layout.mcp_root

    async def of(self, names: Iterable[str]) -> dict[str, Pin]:
        """Those that there are, by the tool's name."""
        asked = list(names)
        if not asked:
            return {}
        with reading():
            pipe = self.store.redis.pipeline(transaction=True)  # both at one moment
            pipe.hmget(f"{self._root}:pins", asked)
            pipe.hmget(f"{self._root}:changed", asked)
            pins, changed = await pipe.execute()
        found = zip(asked, pins, changed, strict=True)
        return {name: _pin(name, stored, other or b"") for name, stored, other in found if stored}

    async def approve(self, definition: Definition, by: str, at_ms: int) -> None:
        """From now on the tool may be offered, in just these words."""
        said = {"description": definition.description, "schema": definition.schema}
        kept = {**said, "hash": definition.hash, "by": by, "at_ms": at_ms}
        said_so = line_of(by, "mcp approve", definition.name)
        await self.store.run(_SET, self._root, definition.name, said_so, json.dumps(kept))

    async def revoke(self, name: str, by: str) -> bool:
        """Take the yes back. Whether there was one."""
        return bool(await self.store.run(_TAKE, self._root, name, line_of(by, "mcp revoke", name)))

    async def note_change(self, pin: Definition, now: str) -> bool:
        """The server describes the tool otherwise than `pin` says: by this hash, or, empty, not at all. Whether that is
        news.
        """
        return bool(await self.store.run(_CHANGED, self._root, pin.name, pin.hash, now or "gone"))


def is_of_server(name: str) -> bool:
    """Whether a tool is a server's: `server__tool`."""
    return "__" in name


def words_of(name: str, pins: Mapping[str, Pin]) -> Words:
    """In whose words a tool is described; `pins` are those that there are (`Pins.of`)."""
    if not is_of_server(name):
        return "ours"
    pin = pins.get(name)
    if pin is None:
        return "unapproved"
    return "approved" if pin.holds else "reworded"


def _pin(name: str, stored: bytes, changed: bytes) -> Pin:
    kept = json.loads(stored)
    return Pin(Definition(name, kept["description"], kept["schema"]), kept["by"], kept["at_ms"], changed.decode())
