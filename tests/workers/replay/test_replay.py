"""A turn runs again from its recording: the same requests, no tool run, and what differs is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from PIL import Image

from gateway.events import Actor, Attachment
from gateway.store import Layout
from tests.harness.model_replies import calls, fails, says, several
from tests.harness.processes import until
from tests.harness.web import site
from tests.skills.test_library import write
from tests.workers.at_desk import WHERE
from tests.workers.calling.test_persons import code_in
from tests.workers.replay.world import Replays, replays
from tests.workers.room import Room
from workers.replay.case import NotPossible

Opened = Callable[..., AbstractAsyncContextManager[Replays]]


@pytest.fixture
def opened(tmp_path: Path, redis_url: str, layout: Layout) -> Opened:
    return lambda **more: replays(tmp_path, redis_url, layout, **more)


@pytest.fixture
async def made(opened: Opened) -> AsyncIterator[Replays]:
    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(opened(profile={"tools": ["current_time"]}))


async def test_a_turn_that_runs_again_asks_the_same_and_nobody_is_asked(made: Replays) -> None:
    made.world.model.answer_with([says("Hello."), calls("current_time"), says("It is noon.")])
    await made.world.ask("hello")
    await made.world.ask("what time is it?")
    report = await made.play(await made.case(2))
    assert report.is_equal, str(report)
    assert [one.name for one in report.requests] == ["answer, step 1", "answer, step 2"]
    assert report.reply_now == "It is noon."
    assert str(report).endswith("reply: equal\nequal")
    assert len(made.world.model.asked) == 3
    assert len(made.world.room.sent) == 2


async def test_a_changed_prompt_and_a_missing_tool_are_told_once(made: Replays) -> None:
    made.world.model.answer_with([calls("current_time"), says("It is noon.")])
    await made.world.ask("what time is it?")
    case = await made.case(2)
    before = await everything(made)
    report = await made.play(case, instructions="Speak like a sailor.", tools=["web_fetch"])
    assert await everything(made) == before  # not even what is refused in a replay is written down
    assert not report.is_equal
    told = str(report)
    assert told.count("+Speak like a sailor.") == 1
    assert told.count('-  "description"') == 0 or "tool current_time:" in told
    assert "tool web_fetch:" in told
    # what is not offered any more is refused now
    assert "block 1, the result of current_time in step 1:" in told
    assert [bool(one.differences) for one in report.requests] == [True, True]
    assert report.as_json()["requests"][0]["differences"][0]["where"] == "system prompt"


async def everything(made: Replays) -> dict[bytes, bytes]:
    """All that the Redis of the turns holds."""
    redis: Any = made.world.desk.mailbox.store.redis
    names = await redis.keys(f"{made.loaded.settings.redis.key_prefix}:*")
    return {name: await redis.dump(name) for name in names}


async def test_a_request_that_is_not_made_any_more_is_told(made: Replays) -> None:
    made.world.model.answer_with([calls("current_time"), calls("current_time"), says("It is noon.")])
    await made.world.ask("what time is it?")
    report = await made.play(
        await made.case(3), limits=made.loaded.profiles["default"].limits.model_copy(update={"steps": 2})
    )
    assert [bool(one.differences) for one in report.requests] == [False, False, True]
    assert "it was made then, and is not made now" in str(report)
    assert report.reply_now != report.reply_then


async def test_a_page_is_not_fetched_again_and_its_random_mark_is_no_difference(opened: Opened) -> None:
    fetched = []

    async def page(request: web.Request) -> web.Response:
        fetched.append(request.path)
        return web.Response(text=f"visit {len(fetched)} " + "word " * 300)

    async with site({"/": page}) as port:
        settings = {
            "tools": {"result_max_characters": 400, "web_fetch": {"allow_private": [f"127.0.0.1:{port}"]}},
        }
        async with opened(profile={"tools": ["web_fetch", "current_time"]}, settings=settings) as made:
            fetch = ("web_fetch", {"url": f"http://127.0.0.1:{port}/"})
            made.world.model.answer_with([several(fetch, ("current_time", {}), fetch), says("Read.")])
            await made.world.ask("read it")
            before = len(fetched)
            report = await made.play(await made.case(2))
            assert report.is_equal, str(report)
            assert len(fetched) == before == 2


async def test_skills_that_were_loaded_are_loaded_again(opened: Opened, tmp_path: Path) -> None:
    write(tmp_path / "skills", "ops/triage", body="Look at the DASHBOARD first.\n")
    settings = {"skills": {"folder": str(tmp_path / "skills")}}
    async with opened(
        profile={"tools": ["load_skill", "unload_skill"], "skills": ["ops/*"]}, settings=settings
    ) as made:
        script = [
            calls("load_skill", {"name": "ops/triage"}),
            says("Loaded."),
            calls("unload_skill", {"name": "ops/triage"}),
            says("Gone."),
        ]
        made.world.model.answer_with(script)
        await made.world.ask("load it")
        loading = await made.case(2)
        await made.world.ask("put it away")
        unloading = await made.case(2)
        for case in (loading, unloading):
            report = await made.play(case)
            assert report.is_equal, str(report)
        assert "DASHBOARD" in json.dumps(loading.requests)


@pytest.mark.parametrize("mode", ["steer", "interrupt"])
async def test_a_message_that_came_meanwhile_comes_again(opened: Opened, mode: str) -> None:
    async with opened(profile={"tools": ["current_time"], "queue": {"mode": mode}}) as made:
        hold = asyncio.Event()
        made.world.model.answer_with([calls("current_time", hold=hold), says("First and second."), says("More.")])
        async with made.world.busy("first") as claim:
            await until(lambda: made.world.model.in_flight > 0)
            await made.world.say("second")
            claim.news.set()
            if mode == "steer":
                hold.set()
            await until(lambda: bool(made.world.room.sent))
        case = await made.case(2)
        report = await made.play(case)
        assert report.is_equal, str(report)
        assert ("left" in case.requests[0]["outcome"]) == (mode == "interrupt")
        assert "second" in json.dumps(report.requests[1].exchange.now)


async def test_a_turn_that_was_stopped_ends_again_as_it_ended(made: Replays) -> None:
    made.world.model.answer_with([says("a long answer", deltas=20, between_s=0.05)])
    async with made.world.busy("tell me") as claim:
        await until(lambda: made.world.model.in_flight > 0)
        await made.world.say("/stop")
        claim.news.set()
        await until(lambda: bool(made.world.room.sent))
    report = await made.play(await made.case(1))
    assert report.is_equal, str(report)


async def test_failures_come_again_without_their_pauses(made: Replays) -> None:
    made.world.model.answer_with([says("Half", end_after_events=4), says("Half", end_after_events=4), says("Well.")])
    await made.world.ask("hello")
    case = await made.case(3)
    for entry in case.requests[:2]:
        entry["outcome"]["error"]["retry_after_s"] = 30.0
    report = await made.play(case)
    assert report.is_equal, str(report)
    assert len(report.requests) == 3


async def test_a_refused_request_ends_the_turn_again(made: Replays) -> None:
    made.world.model.answer_with(fails(400, "invalid_request_error", "no"))
    await made.world.ask("hello")
    report = await made.play(await made.case(1))
    assert report.is_equal, str(report)


async def test_people_say_again_what_they_said(opened: Opened) -> None:
    profile = {
        "tools": ["send_file", "ask_person"],
        "roles": {"approver": ["chat/U-LI"]},
        "approvals": {"ask": ["send_file"]},
    }
    async with opened(profile=profile) as made:
        file = {"name": "a.txt", "content": "words"}
        script = [calls("send_file", file), calls("ask_person", {"question": "Which year?"}), says("2024 it is.")]
        made.world.model.answer_with(script)
        [card] = await made.world.ask("send it")
        *_, question = await made.world.ask(f"/approve {code_in([card])}", actor=Actor("U-LI", "Li"))
        assert "Which year?" in question
        await made.world.ask("2024")
        sent = list(made.world.room.sent)
        case = await made.case(3)
        report = await made.play(case)
        assert report.is_equal, str(report)
        assert made.world.room.sent == sent
        freely = made.loaded.profiles["default"].approvals.model_copy(update={"ask": []})
        report = await made.play(case, approvals=freely)
        assert not report.is_equal
        assert "also different: send_file waited for a person's word (approval) then, and does not now" in str(report)


async def test_a_plan_is_carried_out_again(made: Replays) -> None:
    steps = [{"id": "a", "task": "time", "needs": []}, {"id": "b", "task": "more", "needs": []}]
    said = iter([says(json.dumps({"steps": steps})), calls("current_time"), calls("current_time")])
    made.world.model.answer_with(lambda _: next(said, says("Done.")))
    await made.world.ask("/plan what time")
    case = await made.case(6)
    report = await made.play(case)
    assert report.is_equal, str(report)
    assert {one.exchange.branch for one in report.requests} == {"plan", "step a", "step b", "closing"}


async def test_a_step_of_a_plan_loads_its_skill_again(opened: Opened, tmp_path: Path) -> None:
    write(tmp_path / "skills", "ops/triage", body="Look at the DASHBOARD first.\n")
    settings = {"skills": {"folder": str(tmp_path / "skills")}}
    async with opened(profile={"tools": ["load_skill"], "skills": ["ops/*"]}, settings=settings) as made:
        steps = [{"id": "a", "task": "triage", "needs": []}]
        load = calls("load_skill", {"name": "ops/triage"})
        made.world.model.answer_with([says(json.dumps({"steps": steps})), load, says("Done.")])
        await made.world.ask("/plan triage")
        report = await made.play(await made.case(3))
        assert report.is_equal, str(report)
        assert "DASHBOARD" in json.dumps(report.requests[2].exchange.now)
        assert report.requests[2].name == "step a: answer, step 2"


async def test_pictures_are_shown_again_and_one_that_is_gone_is_forgiven(opened: Opened, tmp_path: Path) -> None:
    Image.new("RGB", (8, 8), "red").save(tmp_path / "red.png")
    room = Room({"red.png": (tmp_path / "red.png").read_bytes(), "a.csv": b"a,b\n1,2\n"})
    async with opened(room=room) as made:
        files = (Attachment("image", "red.png", "image/png", 100), Attachment("file", "a.csv", "text/csv", 8))
        await made.world.ask("look", attachments=files)
        case = await made.case(1)
        assert len(case.pictures) == 1
        assert (await made.play(case)).is_equal
        store = made.world.desk.mailbox.store
        await store.redis.delete(store.layout.key(WHERE.id, "files"))
        case = await made.case(1)
        assert not case.pictures
        report = await made.play(case)
        assert report.is_equal, str(report)
        assert len(made.world.room.downloads) == 2


async def test_a_summary_is_asked_for_again(opened: Opened) -> None:
    model = {"context_tokens": 12_000, "answer_max_tokens": 500}
    async with opened(profile={"context": {"keep_messages": 1}}, settings={"model": model}) as made:
        purposes: list[str] = []
        while "summary" not in purposes:
            await made.world.ask("a long story " * 700)
            case = await made.case(1)
            purposes = [entry["purpose"] for entry in case.requests]
        report = await made.play(await made.case(2))
        assert report.is_equal, str(report)
        await made.world.ask("after it")
        case = await made.case(1)
        assert [one.type for one in case.before].count("summary") == 1
        assert "in short" in json.dumps(case.requests[-1]["request"]["messages"])
        assert len(case.before) < len(await made.world.history()) - len(case.records)  # of what was put away nothing
        report = await made.play(case)
        assert report.is_equal, str(report)


@pytest.mark.parametrize(
    ("conversation", "turn", "why"),
    [
        ("zzzz", "last", "there is no recording of conversation 'zzzz'; there are: "),
        (WHERE.id, "zzzz", "there is no recording of turn 'zzzz'; there are: "),
        ("chat/elsewhere", "last", "there is no recording of conversation"),
        ("[1", "last", "is no conversation's key"),
        ("", "last", "there is no recording of conversation ''"),
    ],
)
async def test_what_is_not_recorded_is_told_with_what_is(made: Replays, conversation: str, turn: str, why: str) -> None:
    await made.world.ask("hello")
    case = await made.case(1)
    with pytest.raises(NotPossible, match="(?s)" + why.replace("(", r"\(").replace("[", r"\[")):
        await made.archive.find(conversation, turn)
    for name in (WHERE.id, WHERE.id[:8], "chat/room/t", json.dumps(WHERE.parts())):
        assert (await made.archive.find(name, case.turn[:8])).turn == case.turn


async def test_where_nothing_is_recorded_it_is_said_how_to_have_it(opened: Opened) -> None:
    async with opened(settings={"recordings": {}}) as made:
        await made.world.ask("hello")
        with pytest.raises(NotPossible, match="keep: true"):
            await made.archive.find(WHERE.id, "last")


async def test_a_recording_that_is_not_whole_is_not_played(opened: Opened) -> None:
    async with opened(settings={"recordings": {"keep": True, "turn_max_bytes": 1_024}}) as made:
        await made.world.ask("hello " + " ".join(str(number) for number in range(3_000)))
        with pytest.raises(NotPossible, match=r"1 of 1 requests did not fit; raise recordings\.turn_max_bytes"):
            await made.case(0)
