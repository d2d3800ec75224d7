from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import jsonschema_rs
import pytest

from workers.tools import Call, Outside, ToolError
from workers.tools.current_time import Tool

NOWHERE = cast("Outside", None)
NO_CALL = cast("Call", None)


async def told(arguments: dict[str, Any]) -> str:
    result = await Tool(NOWHERE).run(arguments, NO_CALL)
    assert not result.untrusted
    return result.text


async def test_the_time_is_utc_with_its_weekday_if_no_zone_is_asked_for() -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    text = await told({})
    match = re.fullmatch(r"(\S+\+00:00) \((\w+day)\), time zone UTC", text)
    assert match
    time = datetime.fromisoformat(match[1])
    assert before <= time <= before + timedelta(seconds=5)
    assert match[2] == f"{time:%A}"


@pytest.mark.parametrize(("zone", "offset"), [("Asia/Shanghai", "+08:00"), ("Asia/Kolkata", "+05:30")])
async def test_a_zone_moves_the_clock(zone: str, offset: str) -> None:
    text = await told({"timezone": zone})
    assert f"{offset} (" in text
    assert text.endswith(f"time zone {zone}")


@pytest.mark.parametrize(
    "zone", ["Mars/Olympus", "", "../../etc/passwd", "/etc/passwd", "Europe", "a\0b", "😀", "x" * 500]
)
async def test_what_is_no_zone_is_refused_with_an_example(zone: str) -> None:
    with pytest.raises(ToolError, match="Asia/Shanghai"):
        await told({"timezone": zone})


def test_the_arguments_are_closed() -> None:
    schema = jsonschema_rs.validator_for(dict(Tool.input_schema))
    assert schema.is_valid({})
    assert schema.is_valid({"timezone": "UTC"})
    assert not schema.is_valid({"zone": "UTC"})
    assert not schema.is_valid({"timezone": 1})
