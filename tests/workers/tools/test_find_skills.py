"""`find_skills`: what it says, and that it knows nothing but the catalogue."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest

from config.profiles import Profile
from config.settings import Settings
from skills.folders import Root
from skills.library import scan
from tests.skills.test_library import write
from tests.workers.places import call, place
from workers.tools import Outside, ToolError, ToolResult
from workers.tools.find_skills import Tool


async def find(root: Path, query: str, *patterns: str, room: int = 30_000) -> ToolResult:
    here = place(scan([Root("org", root)]), Profile(name="p", skills=list(patterns or ["*"])))
    async with aiohttp.ClientSession() as http:
        tool = Tool(Outside(Settings.model_validate({"tools": {"result_max_characters": room}}), http))
        return await tool.run({"query": query}, call(here))


async def test_hits_are_lines_as_in_the_list_with_their_whole_descriptions(tmp_path: Path) -> None:
    long = "Converts roman numerals. " + "And more of it. " * 40
    write(tmp_path, "roman", description=long.strip(), more="tags: [figures]\n")
    write(tmp_path, "other", description="Something else.")
    found = await find(tmp_path, "roman numerals")
    assert (found.text, found.untrusted) == (f"- **roman**: {long.strip()} [figures]", False)


async def test_what_the_channel_may_not_load_is_neither_found_nor_counted(tmp_path: Path) -> None:
    write(tmp_path, "open", description="Speaks of badgers.")
    write(tmp_path, "secret", description="Speaks of badgers and moles.")
    assert (await find(tmp_path, "badgers moles", "open")).text == "- **open**: Speaks of badgers."
    assert "None of the 1 skills here" in (await find(tmp_path, "moles", "open")).text


async def test_many_hits_fit_into_one_result_and_say_how_many_there_are(tmp_path: Path) -> None:
    for number in range(30):
        write(tmp_path, f"badger-{number:02}", description="badgers and more words on them " * 30)
    found = await find(tmp_path, "badger", room=4_000)
    assert len(found.text) <= 4_000
    assert found.text.count("\n- **badger-") == 19
    assert found.text.endswith("(20 of 30 that have one of these words; more words find less.)")


async def test_a_query_without_words_is_an_error_that_says_what_is_wanted(tmp_path: Path) -> None:
    write(tmp_path, "open")
    with pytest.raises(ToolError, match=r"no word to search for: '\.\.\.'\. Give words"):
        await find(tmp_path, "...")
