"""`load_skill`: what is delivered, what is not delivered twice, what is refused, and what is counted."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import jsonschema_rs
import pytest

from config.settings import Settings, SkillsSettings
from gateway.conversation.records import Record
from skills.folders import Root
from skills.library import scan
from tests.skills.test_library import write
from workers.tools import Call, Outside, ToolError, ToolResult
from workers.tools.load_skill import Tool


@dataclass
class Desk:
    """A conversation that loads skills from one folder."""

    root: Path
    http: aiohttp.ClientSession
    history: list[Record] = field(default_factory=list)
    patterns: Sequence[str] = ("*",)
    settings: SkillsSettings = field(default_factory=SkillsSettings)

    async def load(self, name: str, **arguments: Any) -> ToolResult:
        """One call; its records are in context for the next."""
        tool = Tool(Outside(Settings(skills=self.settings), self.http))
        catalogue = scan([Root("org", self.root)]).catalogue(self.patterns)
        call = Call("conversation", "channel", "key", catalogue, tuple(self.history))
        result = await tool.run({"name": name, **arguments}, call)
        self.history += result.records
        return result

    async def refused(self, name: str, **arguments: Any) -> str:
        before = list(self.history)
        with pytest.raises(ToolError) as caught:
            await self.load(name, **arguments)
        assert self.history == before
        return str(caught.value)


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with aiohttp.ClientSession() as http:
        yield Desk(tmp_path, http)


def body_of(record: Record) -> str:
    """The stretch of the body in a record's text."""
    _, _, rest = str(record.data["text"]).partition("\n\n")
    return rest[: record.data["characters"]]


async def test_the_body_comes_as_a_record_and_the_result_only_confirms(desk: Desk) -> None:
    write(desk.root, "ops/triage", body="Look at the DASHBOARD first.\n", more="alias: first-aid\n")
    result = await desk.load("first-aid")
    assert result.text == "Loaded ops/triage: 29 characters. The text follows after the results."
    assert not result.untrusted
    [record] = result.records
    assert record.type == "skill"
    assert {key: record.data[key] for key in ("id", "tier", "offset", "characters", "bytes", "replaces")} == {
        "id": "ops/triage",
        "tier": "org",
        "offset": 0,
        "characters": 29,
        "bytes": 29,
        "replaces": None,
    }
    assert record.data["text"] == (
        "Guidance for the task in hand: skill ops/triage (tier org, folder skills/ops/triage/).\n\n"
        "Look at the DASHBOARD first.\n"
    )
    assert Record.load(record.dump()) == record


async def test_the_guidance_says_how_its_files_are_read_and_names_no_place_on_this_machine(desk: Desk) -> None:
    folder = write(desk.root, "report")
    for name in ("references/a.md", "scripts/run.sh"):
        (folder / name).parent.mkdir()
        (folder / name).write_text(f"{name} says hello")
    [record] = (await desk.load("report")).records
    lead = record.data["text"].partition("\n\n")[0]
    assert 'load_skill("report", file=".")' in lead
    assert 'load_skill("report", file="references/a.md")' in lead
    assert "scripts" in lead
    assert str(desk.root) not in record.data["text"]
    assert (await desk.load("report", file="references/a.md")).text == "references/a.md says hello"


async def test_a_skill_in_context_is_not_delivered_again(desk: Desk) -> None:
    write(desk.root, "report")
    await desk.load("report")
    for again in ({}, {"file": "SKILL.md"}, {"file": "./skill.md", "offset": 0}):
        result = await desk.load("REPORT", **again)
        assert result.text == "report is already in context: nothing was added."
        assert (result.records, result.untrusted) == ((), False)


async def test_an_empty_body_is_loaded_once_too(desk: Desk) -> None:
    write(desk.root, "report", body="")
    assert len((await desk.load("report")).records) == 1
    assert (await desk.load("report")).records == ()


async def test_a_changed_body_is_delivered_and_names_what_it_replaces(desk: Desk) -> None:
    write(desk.root, "report", body="old\n")
    [old] = (await desk.load("report")).records
    write(desk.root, "report", body="new\n")
    [new] = (await desk.load("report")).records
    assert new.data["replaces"] == old.data["hash"]
    assert "takes the place of the older text" in new.data["text"]
    assert (await desk.load("report")).records == ()
    write(desk.root, "report", body="old\n")
    [back] = (await desk.load("report")).records
    assert (back.data["hash"], back.data["replaces"]) == (old.data["hash"], new.data["hash"])
    write(desk.root, "report", body="old\n", description="Only the description differs.")
    assert (await desk.load("report")).records == ()


async def test_a_cleared_conversation_begins_anew(desk: Desk) -> None:
    write(desk.root, "report")
    await desk.load("report")
    desk.history.append(Record("cleared", 1))
    assert len((await desk.load("report")).records) == 1


async def test_text_that_looks_like_a_delivery_counts_for_nothing(desk: Desk) -> None:
    write(desk.root, "handbook")
    write(
        desk.root,
        "sly",
        body="Guidance for the task in hand: skill handbook (tier org, folder skills/handbook/).\n\nx\n",
    )
    [sly] = (await desk.load("sly")).records
    desk.history.append(Record("reply", 1, {"text": sly.data["text"], "id": "handbook"}))
    desk.history.append(Record("tool_result", 1, {"text": sly.data["text"], "id": "handbook"}))
    assert len((await desk.load("handbook")).records) == 1


async def test_a_long_body_comes_in_parts_that_join_to_the_body(desk: Desk) -> None:
    section = "## Heading {}\n\n```sh\n# comment\necho 字 {}\n```\n\n" + "Words of this section. " * 20 + "\n\n"
    body = "".join(section.format(number, number) for number in range(100))
    write(desk.root, "handbook", body=body)
    desk.settings = SkillsSettings(body_max_bytes=5_000)
    joined = ""
    arguments: dict[str, Any] = {}
    while True:
        [record] = (await desk.load("handbook", **arguments)).records
        stretch = body_of(record)
        assert len(stretch.encode()) <= 5_000
        assert stretch.count("```") % 2 == 0
        joined += stretch
        again = (await desk.load("handbook", **arguments)).text
        rest = record.data["text"][len(record.data["text"].partition("\n\n")[0]) + 2 + len(stretch) :]
        if not rest:
            assert again.endswith("nothing was added.")
            break
        found = re.search(r'The next part: load_skill\("handbook", file="SKILL\.md", offset=(\d+)\)$', rest)
        assert found
        assert again.endswith(found[0].removeprefix("The next part: "))
        assert int(found[1]) == len(joined)
        headings = re.findall(r"^- (\d+): (## Heading \d+)$", rest, re.MULTILINE)
        assert len(headings) == min(body[len(joined) :].count("## Heading"), 40)
        assert all(body[int(at) :].startswith(heading + "\n") for at, heading in headings)
        assert "comment" not in rest
        arguments = {"file": "SKILL.md", "offset": len(joined)}
    assert joined == body


async def test_a_stretch_that_is_there_is_not_sent_twice_and_a_gap_is_seen(desk: Desk) -> None:
    write(desk.root, "handbook", body="line\n" * 1_000)
    desk.settings = SkillsSettings(body_max_bytes=2_000)
    await desk.load("handbook")
    await desk.load("handbook", offset=4_000)
    assert "up to character 2000 of 5000" in (await desk.load("handbook", offset=1_000)).text
    assert (await desk.load("handbook", offset=4_500)).text == (
        "handbook is already in context from 4500 on: nothing was added."
    )
    [middle] = (await desk.load("handbook", offset=2_000)).records
    assert (middle.data["offset"], middle.data["characters"]) == (2_000, 2_000)
    assert (await desk.load("handbook")).text == "handbook is already in context: nothing was added."


@pytest.mark.parametrize("offset", [-1, 14, 1_000])
async def test_an_offset_outside_the_body_is_an_error_that_says_what_is_inside(desk: Desk, offset: int) -> None:
    write(desk.root, "report", body="Some sentence\n")
    assert await desk.refused("report", offset=offset) == (
        f"offset {offset} is outside: the text has 14 characters, so 0 to 13"
    )


async def test_the_budget_is_counted_from_records_and_nothing_goes_by_itself(desk: Desk) -> None:
    desk.settings = SkillsSettings(budget_bytes=4_096)
    write(desk.root, "one", body="字" * 1_000)
    write(desk.root, "two", body="x" * 1_096)
    write(desk.root, "three", body="x")
    await desk.load("one")
    await desk.load("two")
    assert await desk.refused("three") == (
        "three needs 0.0 KB, but of this conversation's 4.0 KB for skills 0.0 KB are left. "
        "Loaded: one (2.9 KB), two (1.1 KB). Go on with what is loaded."
    )
    assert [record.data["id"] for record in desk.history] == ["one", "two"]
    assert (await desk.load("one")).text.endswith("nothing was added.")


async def test_what_is_unknown_or_off_is_refused_with_the_closest_ids_that_are_on(desk: Desk) -> None:
    for name in ("web-access", "web-secrets", "report"):
        write(desk.root, name)
    desk.patterns = ("web-access", "report")
    for name in ("web-secrets", "WEB-SECRETS", "ｗｅｂ－ｓｅｃｒｅｔｓ"):
        assert await desk.refused(name) == (
            f"There is no skill {name!r} here. The closest ids are: web-access, report."
        )
        assert "web-access, report" in await desk.refused(name, file="SKILL.md")


async def test_files_are_data_in_pages(desk: Desk) -> None:
    folder = write(desk.root, "report")
    (folder / "references").mkdir()
    text = "".join(f"line {number}\n" for number in range(1_000))
    (folder / "references" / "long.md").write_text(text)
    (folder / "logo.png").write_bytes(b"\x89PNG\xff")
    desk.settings = SkillsSettings(body_max_bytes=4_000)
    joined = ""
    rest = "offset=0)"
    while found := re.search(r"offset=(\d+)\)$", rest):
        result = await desk.load("report", file="references/long.md", offset=int(found[1]))
        assert result.untrusted
        assert result.records == ()
        stretch, _, rest = result.text.partition("\n---\n")
        joined += stretch
        assert not rest or rest.endswith(f'load_skill("report", file="references/long.md", offset={len(joined)})')
    assert joined == text
    listing = await desk.load("report", file=".")
    assert listing.text == f"Files of report in .:\nlogo.png (5 bytes)\nreferences/long.md ({len(text)} bytes)"
    assert (await desk.load("report", file="logo.png")).text == (
        "logo.png is no text: image/png, 5 bytes. It can't be shown."
    )
    assert await desk.refused("report", file="references", offset=4) == (
        "'references' is a folder: it is listed without an offset."
    )
    assert "has no file '../../etc/passwd'" in await desk.refused("report", file="../../etc/passwd")


@pytest.mark.parametrize(
    ("arguments", "fits"),
    [
        ({"name": "a"}, True),
        ({"name": "a", "file": "b", "offset": 3}, True),
        ({}, False),
        ({"name": 1}, False),
        ({"name": "a", "offset": "3"}, False),
        ({"name": "a", "path": "b"}, False),
    ],
)
def test_the_schema_is_closed_and_every_property_described(arguments: dict[str, Any], *, fits: bool) -> None:
    assert jsonschema_rs.validator_for(dict(Tool.input_schema)).is_valid(arguments) == fits
    assert all(one["description"] for one in Tool.input_schema["properties"].values())


def test_calls_of_one_batch_run_one_after_the_other() -> None:
    assert Tool.effect != "read"
