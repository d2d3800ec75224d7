"""Tools of MCP servers: what they are (`listed`), how they are reached (`stdio`, `http`, `sessions`), when (`servers`), and
a call of one (`tool`), over what was approved (`gateway.rights.pins`). The SDK is imported only where a server is configured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from config.settings import Settings
    from gateway.rights.pins import Pins
    from workers.mcp.servers import Servers
    from workers.mcp.tool import McpTool


@dataclass(frozen=True, slots=True)
class Offered:
    """Of what a profile lists, the tools of servers."""

    tools: Mapping[str, McpTool] = field(default_factory=dict)
    withheld: Mapping[str, str] = field(default_factory=dict)
    """Those that are not offered, and why, for the model and the person."""


def open_servers(settings: Settings, pins: Pins) -> Servers | None:
    """Those that the settings name; nothing is started yet. Close it at the end."""
    if not settings.mcp.servers:
        return None
    from workers.mcp.servers import Servers  # noqa: PLC0415  # the SDK takes a second and 60 MB

    return Servers(settings, pins)
