from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from config.loading import Draft, load
from config.problems import Problem
from config.watching import Watched

ROOM: Final = ("slack-main", "C1")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Settings with one room of its own, and a profile for it."""
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/finance.yaml").write_text("tools: [load_skill]\n")
    (tmp_path / "deskmate.yaml").write_text(
        "connections: {slack-main: {platform: slack}}\nchannels: [{match: 'slack-main/C1', profile: finance}]\n"
    )
    return tmp_path


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.INFO, "config.watching"):
        yield caplog


def watched(place: Path, *, every_s: float = 0.0) -> Watched:
    return Watched(load(place / "deskmate.yaml", variables={}), every_s=every_s)


async def tools(watched: Watched) -> list[str]:
    return (await watched.current()).profile_for(*ROOM).tools


async def test_a_change_of_a_profile_counts_without_a_restart(place: Path, told: pytest.LogCaptureFixture) -> None:
    here = watched(place)
    assert await tools(here) == ["load_skill"]
    (place / "profiles/finance.yaml").write_text("tools: [load_skill, web_fetch]\n")
    assert await tools(here) == ["load_skill", "web_fetch"]
    assert told.messages == ["settings: in force now: finance"]


async def test_a_new_profile_and_a_new_rule_count_together(place: Path) -> None:
    here = watched(place)
    (place / "profiles/quiet.yaml").write_text("tools: []\n")
    text = (place / "deskmate.yaml").read_text()
    (place / "deskmate.yaml").write_text(text.replace("finance", "quiet"))
    assert await tools(here) == []


async def test_without_a_change_nothing_is_read_again(place: Path) -> None:
    here = watched(place)
    first = await here.current()
    assert await here.current() is first


async def test_files_are_looked_at_once_a_second_at_most(place: Path) -> None:
    here = watched(place, every_s=3600)
    first = await here.current()
    (place / "profiles/finance.yaml").write_text("tools: []\n")
    assert await here.current() is first


async def test_who_can_not_wait_gets_what_was_read_and_the_look_happens_meanwhile(place: Path) -> None:
    here = watched(place)
    (place / "profiles/finance.yaml").write_text("tools: []\n")
    assert here.latest().profile_for(*ROOM).tools == ["load_skill"]
    while here.latest().profile_for(*ROOM).tools:
        await asyncio.sleep(0.01)


async def test_many_who_ask_at_once_wait_for_one_look(place: Path, told: pytest.LogCaptureFixture) -> None:
    here = watched(place)
    (place / "profiles/finance.yaml").write_text("tools: []\n")
    assert await asyncio.gather(*[tools(here) for _ in range(20)]) == [[]] * 20
    assert told.messages == ["settings: in force now: finance"]


async def test_who_leaves_while_waiting_ends_the_look_for_nobody_else(place: Path) -> None:
    here = watched(place)
    (place / "profiles/finance.yaml").write_text("tools: []\n")
    leaving, staying = (asyncio.create_task(tools(here)) for _ in range(2))
    await asyncio.sleep(0)
    leaving.cancel()
    assert await staying == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("tools: [load_skill]\nprogramms: []\n", "profiles/finance.yaml:2: programms: unknown key"),
        ("tools: [web_fetch\n", "profiles/finance.yaml:2: is not YAML"),
        ("", "profiles/finance.yaml:1: the file is empty"),
    ],
)
async def test_a_broken_profile_keeps_what_it_said_and_the_log_names_the_line(
    place: Path, told: pytest.LogCaptureFixture, text: str, line: str
) -> None:
    here = watched(place)
    (place / "profiles/finance.yaml").write_text(text)
    for _ in range(3):
        assert await tools(here) == ["load_skill"]
    (place / "profiles/other.yaml").write_text("tools: []\n")
    assert await tools(here) == ["load_skill"]
    assert told.messages[1:] == ["settings: in force now: other"]
    assert line in told.messages[0]
    assert told.messages[0].endswith("; what it said before stays in force")
    (place / "profiles/finance.yaml").write_text("tools: []\n")
    assert await tools(here) == []


async def test_a_profile_that_names_what_is_not_there_keeps_what_it_said(place: Path) -> None:
    """What only other layers can know is a mistake like any other."""

    def no_such_tool(draft: Draft) -> Iterator[Problem]:
        for source in draft.profiles.values():
            if "nothing" in (source.tree.get("tools") or ()):
                yield source.problem(("tools",), "there is no tool 'nothing'")

    here = Watched(load(place / "deskmate.yaml", variables={}, further=no_such_tool), every_s=0)
    (place / "profiles/finance.yaml").write_text("tools: [nothing]\n")
    (place / "profiles/other.yaml").write_text("tools: []\n")
    assert await tools(here) == ["load_skill"]
    assert "other" in (await here.current()).profiles


@pytest.mark.parametrize("broken", ["deskmate.yaml", "profiles/other.yaml"])
async def test_beside_a_broken_file_the_others_count(place: Path, broken: str) -> None:
    here = watched(place)
    (place / broken).write_text("tools: {\n")
    (place / "profiles/finance.yaml").write_text("tools: []\n")
    assert await tools(here) == []


async def test_a_profile_that_a_rule_names_can_not_be_taken_away(place: Path, told: pytest.LogCaptureFixture) -> None:
    here = watched(place)
    (place / "profiles/finance.yaml").unlink()
    assert await tools(here) == ["load_skill"]
    assert "deskmate.yaml:2: channels[0].profile: there is no profile 'finance'" in told.messages[0]


async def test_a_folder_of_profiles_that_goes_away_leaves_them_in_force(
    place: Path, told: pytest.LogCaptureFixture
) -> None:
    (place / "profiles/default.yaml").write_text("tools: []\n")
    here = watched(place)
    (place / "profiles").rename(place / "elsewhere")
    for _ in range(3):
        assert (await here.current()).profile_for("web", "x").tools == []
    assert len(told.messages) == 1
    assert "profiles is gone" in told.messages[0]


async def test_a_file_that_is_away_while_an_editor_saves_it_was_never_away(place: Path) -> None:
    """Between the two names of an editor that moves the old file aside, the shipped profile must not hold."""
    profile = place / "profiles/default.yaml"
    profile.write_text("tools: []\n")
    here = watched(place)
    saved = threading.Timer(0.02, profile.write_text, ["tools: [current_time]\n"])
    profile.rename(place / "profiles/default.yaml~")
    saved.start()
    try:
        assert (await here.current()).profile_for("web", "x").tools == ["current_time"]
    finally:
        saved.join()


async def test_somebody_who_never_stops_writing_holds_up_nobody(place: Path) -> None:
    here = watched(place)
    writes = itertools.count()
    stop = threading.Event()

    def write() -> None:
        while not stop.wait(0.01):
            (place / "profiles/busy.yaml").write_text(f"instructions: {next(writes)}\ntools: []\n")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        while not (place / "profiles/busy.yaml").exists():
            await asyncio.sleep(0.005)
        async with asyncio.timeout(10):
            await here.current()
    finally:
        stop.set()
        writer.join()
    assert next(writes) > 10


async def test_what_needs_a_restart_stays_and_is_told_once(place: Path, told: pytest.LogCaptureFixture) -> None:
    here = watched(place)
    before = await here.current()
    text = (place / "deskmate.yaml").read_text()
    (place / "deskmate.yaml").write_text(f"{text}model: {{provider: rehearsal, answer_max_tokens: 77}}\n")
    (place / "profiles/finance.yaml").write_text("tools: []\n")
    assert await tools(here) == []
    (place / "profiles/finance.yaml").write_text("tools: [web_fetch]\n")
    assert await tools(here) == ["web_fetch"]
    now = await here.current()
    assert now.settings == before.settings
    assert [one for one in told.messages if "restart" in one] == [
        "settings: model: changed in the file, counts after a restart"
    ]


async def test_a_secret_that_a_changed_file_names_is_masked_before_a_restart(place: Path) -> None:
    loaded = load(place / "deskmate.yaml", variables={"NEW_KEY": "sk-canary-271828"})
    here = Watched(loaded, every_s=0)
    text = (place / "deskmate.yaml").read_text()
    (place / "deskmate.yaml").write_text(f"{text}model: {{provider: anthropic, api_key: $NEW_KEY}}\n")
    now = await here.current()
    assert "sk-canary-271828" in loaded.secret_values
    assert now.secret_values is loaded.secret_values, "the logs mask what is in the set that they were given"


async def test_a_change_from_before_the_first_look_is_seen(place: Path) -> None:
    loaded = load(place / "deskmate.yaml", variables={})
    (place / "profiles/finance.yaml").write_text("tools: []\n")
    assert await tools(Watched(loaded)) == []


async def test_a_mistake_is_told_while_nobody_asks(place: Path, told: pytest.LogCaptureFixture) -> None:
    here = Watched(load(place / "deskmate.yaml", variables={}), every_s=0.01)
    following = asyncio.create_task(here.follow())
    try:
        (place / "profiles/finance.yaml").write_text("toolz: []\n")
        async with asyncio.timeout(10):
            while not any("toolz: unknown key" in one for one in told.messages):
                await asyncio.sleep(0.01)
    finally:
        following.cancel()
