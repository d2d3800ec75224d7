"""Programs as tools: offered where the profile lists them, run as what was offered, paged where they are long."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from config.profiles import Profile
from config.settings import Settings
from gateway.conversation.records import Record
from gateway.rights.access import Here
from skills.library import Library
from tests.skills.test_library import write
from tests.skills.test_programs import OPEN, library, programs, write_program
from tests.workers.places import Fixed, call, place
from workers.calling.programs import ProgramTool, program_tools
from workers.tools import Outside, ToolError, ToolResult
from workers.tools.read_result import Tool as ReadResult


async def offered(
    tmp_path: Path, *patterns: str, skills: tuple[str, ...] = ("*",), **settings: Any
) -> tuple[list[ProgramTool], Here]:
    """The programs of a channel, and the skills it has."""
    profile = Profile(skills=list(skills), programs=list(patterns), program_env=["CITY"], timezone="Asia/Shanghai")
    here = place(library(tmp_path / "skills"), profile)
    made = Settings.model_validate(settings)
    tools = await program_tools(programs(tmp_path), made, here, Fixed(here))  # type: ignore[arg-type]
    return [tool for tool in tools if isinstance(tool, ProgramTool)], here


async def run(tmp_path: Path, source: str, arguments: dict[str, Any] | None = None, **settings: Any) -> ToolResult:
    write_program(tmp_path / "skills", "report", source)
    (tool,), found = await offered(tmp_path, "*", **settings)
    return await tool.run(arguments or {}, call(found))


async def test_a_program_is_offered_only_where_the_profile_lists_it_and_the_channel_has_the_skill(
    tmp_path: Path,
) -> None:
    for name in ("财务/导出报表", "运营/导出报表"):
        write_program(tmp_path / "skills", name, schema={**OPEN, "effect": "read"})
    write(tmp_path / "skills", "plain")
    assert (await offered(tmp_path))[0] == []
    assert [tool.skill.id for tool in (await offered(tmp_path, "财务/*"))[0]] == ["财务/导出报表"]
    assert (await offered(tmp_path, "*", skills=("plain",)))[0] == []
    both, _ = await offered(tmp_path, "*")
    assert len({tool.name for tool in both}) == 2
    assert [tool.effect for tool in both] == ["read", "read"]
    assert all(tool.skill.id in tool.description and "effect" not in tool.input_schema for tool in both)


@pytest.mark.sandbox
async def test_it_runs_in_the_channels_zone_and_logs_names_and_sizes_before_and_result_and_time_after(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = "import time\ndef run(p):\n print('hm'); return time.strftime('%z') + p['a']"
    with caplog.at_level("DEBUG", "workers.calling.programs"):
        assert await run(tmp_path, source, {"a": "canary"}) == ToolResult("+0800canary", own=True)
    told = {record.getMessage(): record.__dict__["fields"] for record in caplog.records}
    assert told["program"]["arguments"] == {"a": 6}
    assert told["program"]["id"] == told["program ended"]["id"] == "report"
    assert told["program ended"]["result_bytes"] == 11
    assert told["program ended"]["ms"] > 0
    assert told["program printed"]["text"] == "hm\n"
    at_info = [record.__dict__["fields"] for record in caplog.records if record.levelname == "INFO"]
    assert "canary" not in json.dumps(at_info)
    assert told["program's arguments"]["values"] == {"a": "canary"}


@pytest.mark.sandbox
async def test_a_failure_is_an_error_for_the_model(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="report failed: ZeroDivisionError") as caught:
        await run(tmp_path, "def run(p):\n secret_line = 1/0")
    assert "secret_line" not in str(caught.value)
    assert caught.value.untrusted


@pytest.mark.sandbox
async def test_a_long_result_is_read_page_by_page_and_the_pages_are_the_result(tmp_path: Path) -> None:
    source = "def run(p): return '\\n'.join(f'第 {n} 行' for n in range(400))"
    result = await run(tmp_path, source, tools={"result_max_characters": 2_000})
    (record,) = result.records
    whole = "\n".join(f"第 {n} 行" for n in range(400))
    assert (record.type, record.data["text"]) == ("result", whole)
    assert len(result.text) <= 2_000
    pages, hint = [], ""
    text = result.text
    async with aiohttp.ClientSession() as http:
        reader = ReadResult(Outside(Settings.model_validate({"tools": {"result_max_characters": 2_000}}), http))
        while "\n---\n" in text:
            page, _, hint = text.rpartition("\n---\n")
            pages.append(page)
            offset = int(hint.partition("offset=")[2].rstrip(")"))
            text = (
                await reader.run({"result": record.data["id"], "offset": offset}, call(place(Library({})), [record]))
            ).text
    assert record.data["id"] in hint
    assert "".join([*pages, text]) == whole
    assert len(pages) > 1


async def test_a_result_that_is_not_there_is_an_error_that_names_what_is() -> None:
    record = Record("result", 0, {"id": "abc", "from": "report", "text": "words"})
    async with aiohttp.ClientSession() as http:
        reader = ReadResult(Outside(Settings(), http))
        with pytest.raises(ToolError, match=r"'nope'.*There are: abc"):
            await reader.run({"result": "nope"}, call(place(Library({})), [record]))
        with pytest.raises(ToolError, match="offset 9 is outside"):
            await reader.run({"result": "abc", "offset": 9}, call(place(Library({})), [record]))
        assert (await reader.run({"result": "abc"}, call(place(Library({})), [record]))).text == "words"
