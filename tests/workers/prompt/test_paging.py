"""A long result: its first page at once, what is kept of it within bounds, and the loop goes on meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest

from config.settings import Settings
from gateway.conversation.records import Record
from skills.library import Library
from tests.workers.places import call, place
from workers.prompt.paging import KEPT_CHARACTERS, Pages
from workers.tools import Outside, ToolResult
from workers.tools.read_result import Tool as ReadResult

PAGES = Pages(1_000, 5_000)


async def first(text: str, *history: Record, note: str = "", **more: Any) -> ToolResult:
    return await PAGES.first(text, call(place(Library({})), history, **more), "report", note)


def kept(size: int) -> Record:
    return Record("result", 0, {"id": "old", "from": "report", "text": "x" * size})


async def test_what_fits_one_page_is_no_record() -> None:
    assert await first("x" * 900, note="n") == ToolResult("x" * 900, note="n")


async def test_of_a_long_one_the_rest_is_kept_in_the_servers_time() -> None:
    result = await first("line\n" * 900, at_ms=77)
    [record] = result.records
    assert (record.at_ms, record.data["text"]) == (77, "line\n" * 900)
    assert not result.note
    assert len(result.text) <= 1_000


async def test_what_is_not_kept_is_told_at_once_and_at_the_end() -> None:
    result = await first("line\n" * 4_000, note="(deskmate: new)")
    [record] = result.records
    assert record.data["text"] == "line\n" * 1_000 + "\n[... 15000 characters left out ...]"
    assert result.note.startswith(
        "(deskmate: new)\n(deskmate: of the 20000 characters of this result only the first 5000"
    )


@pytest.mark.parametrize(("before", "left"), [(KEPT_CHARACTERS - 3_000, 3_000), (KEPT_CHARACTERS, 900)])
async def test_all_together_have_bounds_and_a_page_is_always_there(before: int, left: int) -> None:
    result = await first("x" * 4_000, kept(before))
    [record] = result.records
    assert record.data["text"].count("x") == left
    assert f"only the first {left} are kept" in result.note


async def test_the_loop_goes_on_while_a_page_is_looked_for() -> None:
    text = "```\n" * 250_000
    record = Record("result", 0, {"id": "abc", "from": "report", "text": text})
    async with aiohttp.ClientSession() as http:
        reader = ReadResult(Outside(Settings(), http))
        asked = call(place(Library({})), [record])
        reading = asyncio.create_task(reader.run({"result": "abc", "offset": 960_000}, asked))
        beats = 0
        while not reading.done():
            await asyncio.sleep(0)
            beats += 1
        assert (await reading).text.startswith("```")
        assert beats > 10
