"""A turn in a file: it is played anywhere, without what it came from."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.rights.pins import Definition, Pins
from gateway.store import Layout
from skills.folders import Content
from tests.harness.fake_model import KEY
from tests.harness.model_replies import calls, says
from tests.skills.test_library import write
from tests.workers.replay.world import Replays, replays
from workers.replay.case import NotPossible
from workers.replay.files import read
from workers.replay.house import _content, _dumped
from workers.replay.playing import play_file, renew, save

Opened = Callable[..., AbstractAsyncContextManager[Replays]]
LOOKS = Definition("far__look", "Looks far.", {"type": "object", "properties": {}, "additionalProperties": False})


@pytest.fixture
def opened(tmp_path: Path, redis_url: str, layout: Layout) -> Opened:
    return lambda **more: replays(tmp_path, redis_url, layout, **more)


async def saved(made: Replays, requests: int, file: Path) -> None:
    await save(await made.case(requests), made.loaded, made.world.desk.mailbox.store, file)


def changed(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    whole = yaml.safe_load(file.read_text())
    change(whole)
    file.write_text(yaml.safe_dump(whole))


@pytest.mark.parametrize("name", ["turn.yaml", "turn.json"])
async def test_a_file_is_played_where_nothing_else_is(
    opened: Opened, tmp_path: Path, redis_url: str, name: str
) -> None:
    write(tmp_path / "skills", "ops/triage", body="Look at the DASHBOARD first.\n")
    write(tmp_path / "skills", "ops/other", body="OTHER-TEXT\n")
    profile = {
        "tools": ["load_skill", "current_time", "far__look"],
        "skills": ["ops/*"],
        "instructions": "Be a sailor.",
    }
    settings = {
        "skills": {"folder": str(tmp_path / "skills")},
        "mcp": {"servers": {"far": {"command": ["none"], "env": {"TOKEN": "$MODEL_KEY"}}}},
    }
    file = tmp_path / name
    async with opened(profile=profile, settings=settings) as made:
        await Pins(made.world.desk.mailbox.store).approve(LOOKS, "me", 1)
        made.world.model.answer_with(
            [says("Aye."), calls("load_skill", {"name": "ops/triage"}), calls("current_time"), says("Noon.")]
        )
        await made.world.ask("ahoy")
        await made.world.ask(f"look, the key is {KEY}")
        assert "far__look" in json.dumps(made.world.model.asked[-1].request["tools"])
        await saved(made, 3, file)
    text = file.read_text()
    assert KEY not in text
    assert "DASHBOARD" in text
    assert "OTHER-TEXT" not in text  # nobody loaded it: its line in the list of skills is all that counts
    report = await play_file(file, redis_url)
    assert report.is_equal, str(report)
    assert len(report.requests) == 3


async def test_what_requests_have_in_common_is_written_once(opened: Opened, tmp_path: Path) -> None:
    async with opened(profile={"tools": ["current_time"]}) as made:
        made.world.model.answer_with([calls("current_time"), calls("current_time"), says("Noon.")])
        await made.world.ask("a word that stands once " + "and more " * 100)
        await saved(made, 3, tmp_path / "turn.yaml")
    assert (tmp_path / "turn.yaml").read_text().count("a word that stands once") == 2  # in the record, and in a request


async def test_a_file_whose_turn_would_be_another_one_now_is_told(
    opened: Opened, tmp_path: Path, redis_url: str
) -> None:
    file = tmp_path / "turn.yaml"
    async with opened(profile={"tools": ["current_time"], "instructions": "Be brief."}) as made:
        await made.world.ask("hello")
        await saved(made, 1, file)
    changed(file, lambda whole: whole["profile"].update(instructions="Be long."))
    report = await play_file(file, redis_url)
    assert not report.is_equal
    assert "-Be brief." in str(report)
    assert "+Be long." in str(report)


async def test_a_file_can_be_told_that_it_is_right_as_it_is_now(opened: Opened, tmp_path: Path, redis_url: str) -> None:
    file = tmp_path / "turn.yaml"
    async with opened(profile={"tools": ["current_time"]}) as made:
        made.world.model.answer_with([calls("current_time"), calls("current_time"), says("Noon.")])
        await made.world.ask("hello")
        await saved(made, 3, file)
    changed(file, lambda whole: whole["profile"].update(instructions="Be long.", limits={"steps": 2}))
    once = file.read_text().count("hello")
    renew(await play_file(file, redis_url), file)
    assert file.read_text().count("hello") == once
    report = await play_file(file, redis_url)
    assert report.is_equal, str(report)
    assert len(report.requests) == 2
    changed(file, lambda whole: whole["profile"].update(limits={"steps": 3}))
    with pytest.raises(NotPossible, match="record the turn anew"):
        renew(await play_file(file, redis_url), file)


async def test_people_who_have_to_say_yes_to_all_are_asked_again(
    opened: Opened, tmp_path: Path, redis_url: str
) -> None:
    file = tmp_path / "turn.yaml"
    async with opened(profile={"tools": ["send_file"], "roles": {"admin": ["chat/*"], "approver": ["chat/*"]}}) as made:
        await made.world.ask("/hitl on")
        made.world.model.answer_with([calls("send_file", {"name": "a.txt", "content": "x"}), says("Sent.")])
        [card] = await made.world.ask("send it")
        code = card.split("/approve ")[1][:6]
        await made.world.ask(f"/approve {code}")
        await saved(made, 2, file)
    assert yaml.safe_load(file.read_text())["asks_for_all"] is True
    report = await play_file(file, redis_url)
    assert report.is_equal, str(report)


async def test_a_tool_that_was_off_is_off_again(opened: Opened, tmp_path: Path, redis_url: str) -> None:
    file = tmp_path / "turn.yaml"
    async with opened(profile={"tools": ["send_file", "current_time"], "roles": {"admin": ["chat/*"]}}) as made:
        await made.world.ask("/tool off send_file")
        made.world.model.answer_with([calls("send_file", {"name": "a.txt", "content": "x"}), says("No.")])
        assert await made.world.ask("send it") == ["No."]
        await saved(made, 2, file)
        await made.world.ask("/tool on send_file")
    assert yaml.safe_load(file.read_text())["tools_off"] == ["send_file"]
    report = await play_file(file, redis_url)
    assert report.is_equal, str(report)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda whole: whole.pop("deskmate_replay"), "is no case: `deskmate replay CONVERSATION TURN --save FILE`"),
        (lambda whole: whole.update(deskmate_replay=7), "has version 7, this deskmate knows 1"),
        (lambda whole: whole.pop("records"), "is not whole: KeyError: 'records'"),
        (lambda whole: whole.update(records=[]), "is not whole: ValueError: records: the turn begins with no message"),
        (lambda whole: whole.update(turn="aaaaaaaaaaaa"), "the turn that these messages begin is"),
    ],
)
async def test_a_file_that_is_no_case_is_told(
    opened: Opened, tmp_path: Path, redis_url: str, change: Callable[[dict[str, Any]], None], why: str
) -> None:
    file = tmp_path / "turn.yaml"
    async with opened() as made:
        await made.world.ask("hello")
        await saved(made, 1, file)
    changed(file, change)
    with pytest.raises(NotPossible, match=why.replace("(", r"\(")):
        await play_file(file, redis_url)


def test_a_file_that_is_not_there_or_no_yaml_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotPossible, match="can't be read"):
        read(tmp_path / "nowhere.yaml")
    (tmp_path / "odd.yaml").write_text("a: [")
    with pytest.raises(NotPossible, match="can't be read"):
        read(tmp_path / "odd.yaml")


@pytest.mark.parametrize("content", [Content(b"text", False), Content(b"#!/bin/sh", True), Content(b"\xff\x00", False)])
def test_files_of_skills_come_back_as_they_were(content: Content) -> None:
    assert _content(json.loads(json.dumps(_dumped(content)))) == content


@pytest.mark.parametrize("path", ["../../out.md", "{here}/out.md", "a/../../out.md", ".hidden"])
async def test_the_files_of_a_case_stay_in_its_folder(
    opened: Opened, tmp_path: Path, redis_url: str, path: str
) -> None:
    write(tmp_path / "skills", "ops/triage", body="Look first.\n")
    settings = {"skills": {"folder": str(tmp_path / "skills")}}
    file = tmp_path / "turn.yaml"
    async with opened(profile={"skills": ["ops/*"], "tools": ["load_skill"]}, settings=settings) as made:
        await made.world.ask("hello")
        await saved(made, 1, file)

    def escape(whole: dict[str, Any]) -> None:
        whole["skills"][0]["files"][path.format(here=tmp_path)] = "out"

    changed(file, escape)
    with pytest.raises(NotPossible, match="can't be laid out"):
        await play_file(file, redis_url)
    assert not (tmp_path / "out.md").exists()


DAMAGES: dict[str, Any] = {
    "profile": [3, {"instructions": []}, {"tools": ["", 1]}],
    "settings": [3, {"attachments": "x"}, {"model": [1]}],
    "skills": [
        3,
        "x",
        [3],
        [{}],
        [{"id": 1, "tier": "x", "files": {"SKILL.md": {"base64": "?"}}}],
        [{"files": {"../x": "y"}}],
    ],
    "approved": [True, [3], [{"name": "x"}]],
    "requests": [3, [3], [{}], [{"at_ms": float("inf")}], [{"at_ms": 1}]],
    "records": [3, [3], [{}]],
    "before": [3, [{"type": "event", "at_ms": 1, "data": 3}]],
    "conversation": [3, [], [[]]],
}


@pytest.mark.parametrize(("name", "damage"), [(name, one) for name, those in DAMAGES.items() for one in those])
async def test_a_damaged_file_says_that_it_can_not_be_played(
    tmp_path: Path, redis_url: str, name: str, damage: Any
) -> None:
    whole = yaml.load(Path("tests/replays/skill-and-clock.yaml").read_text(), Loader=yaml.CSafeLoader)
    file = tmp_path / "turn.yaml"
    file.write_text(yaml.safe_dump({**whole, name: damage}))
    with pytest.raises(NotPossible):
        await play_file(file, redis_url)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a": ' * 2_000 + "1" + "}" * 2_000, "\0", "deskmate_replay: 1"])
async def test_what_is_no_case_says_so(tmp_path: Path, redis_url: str, text: str) -> None:
    (tmp_path / "turn.yaml").write_text(text)
    with pytest.raises(NotPossible):
        await play_file(tmp_path / "turn.yaml", redis_url)
