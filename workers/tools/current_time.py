"""The tool `current_time`: what the clock says, somewhere."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from workers.tools import Call, Effect, Outside, Reach, ToolError, ToolResult


class Tool:
    """See `workers.tools.Tool`."""

    name: str = "current_time"
    description: str = (
        "Tells the date, the weekday and the time now, in a time zone. Use it whenever an answer depends on today's "
        "date or on the time, also to work out what 'tomorrow' or 'next Monday' means."
    )
    input_schema: Mapping[str, Any] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "timezone": {
                "type": "string",
                "maxLength": 64,
                "description": "An IANA time zone, such as Europe/Berlin or Asia/Shanghai. UTC if left out.",
            },
        },
    }
    effect: Effect = "read"
    reach: Reach = "inside"

    def __init__(self, outside: Outside) -> None:
        """Needs nothing of it."""

    async def run(self, arguments: dict[str, Any], call: Call) -> ToolResult:  # noqa: ARG002  # every tool is told
        name = arguments.get("timezone", "UTC")
        try:
            now = datetime.now(UTC).astimezone(ZoneInfo(name))
        except (ZoneInfoNotFoundError, ValueError, OSError):  # an unknown name, a path, a folder of the database
            raise ToolError(f"there is no time zone {name!r}; an IANA name is wanted, such as Asia/Shanghai") from None
        return ToolResult(f"{now.isoformat(timespec='seconds')} ({now:%A}), time zone {name}", untrusted=False)
