"""Looking at servers: what they offer now, beside what was approved. For operators; workers ask nobody before a call."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from config.loading import Loaded
from config.settings import Settings
from gateway.rights.pins import Definition, Pin, Pins
from gateway.running.checks import Finding
from skills.visible import visible
from workers.mcp.listed import Listed

ToolState = Literal["approved", "not approved", "changed", "gone", "not usable"]


@dataclass(frozen=True, slots=True)
class Seen:
    """One server."""

    server: str
    why_not: str = ""
    """Why it can't be asked, as it goes on from its name."""
    listed: Listed = field(default_factory=Listed)
    pins: Mapping[str, Pin] = field(default_factory=dict)
    """Of its tools, and of others that are asked for."""

    def state(self, name: str) -> ToolState:
        """Of a server that could be asked."""
        pin, now = self.pins.get(name), self.listed.definitions.get(name)
        if name in self.listed.faults:
            return "not usable"
        if now is None:
            return "gone"
        if pin is None:
            return "not approved"
        return "approved" if pin.holds and pin.definition.hash == now.hash else "changed"

    def names(self, wanted: Iterable[str] = ()) -> list[str]:
        """All that there is something to say of."""
        return sorted({*self.listed.definitions, *self.listed.faults, *self.pins, *of_server(self.server, wanted)})


async def look(settings: Settings, pins: Pins | None, servers: Iterable[str], wanted: Iterable[str] = ()) -> list[Seen]:
    """Ask these servers, all at once. `wanted`: tools that should be there. Without `pins` none are known.

    Raises `Unreachable`, and `ModuleNotFoundError` without the SDK.
    """
    return await asyncio.gather(*(_look(settings, pins, name, wanted) for name in servers))


async def _look(settings: Settings, pins: Pins | None, server: str, wanted: Iterable[str]) -> Seen:
    from workers.mcp.sessions import NotOpened, Session  # noqa: PLC0415  # the SDK

    session = Session(server, settings.mcp.servers[server])
    try:
        await session.ready()
    except NotOpened as error:
        return Seen(server, str(error))
    finally:
        await session.close()
    names = {*session.tools.definitions, *session.tools.faults, *of_server(server, wanted)}
    return Seen(server, listed=session.tools, pins=await pins.of(sorted(names)) if pins else {})


def of_server(server: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.partition("__")[0] == server]


def profiles_with(loaded: Loaded, name: str) -> list[str]:
    """Names of the profiles that list a tool."""
    return sorted(profile for profile, one in loaded.profiles.items() if name in one.tools)


def allowed(loaded: Loaded) -> list[str]:
    """Tools of servers that any profile lists."""
    return sorted({name for one in loaded.profiles.values() for name in one.tools if "__" in name})


async def examine(loaded: Loaded, pins: Pins | None) -> list[Finding]:
    """For `deskmate doctor`: can they be asked, and is what profiles list of them approved? Raises `Unreachable`."""
    wanted = allowed(loaded)
    return [_found(one, wanted) for one in await look(loaded.settings, pins, loaded.settings.mcp.servers, wanted)]


def _found(seen: Seen, wanted: Iterable[str]) -> Finding:
    about = f"mcp {seen.server}"
    if seen.why_not:
        return Finding(
            "warn", about, seen.why_not, f"check mcp.servers.{seen.server}; everything else works without it"
        )
    ours = of_server(seen.server, wanted)
    if missing := [f"{name}: {seen.state(name)}" for name in ours if seen.state(name) != "approved"]:
        advice = f"deskmate mcp list {seen.server}; look at each with `mcp show`, then `mcp approve`"
        return Finding("warn", about, f"not offered to the model: {', '.join(missing)}", advice)
    return Finding("ok", about, f"{len(seen.listed.definitions)} tools, {len(ours)} of them in profiles and approved")


def differences(approved: Definition, now: Definition) -> Iterator[str]:
    """Line by line, with nothing hidden."""
    old, new = (visible(one.text()).splitlines() for one in (approved, now))
    return difflib.unified_diff(old, new, "approved", "now", lineterm="")
