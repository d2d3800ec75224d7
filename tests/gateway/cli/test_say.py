"""`deskmate say`, as a program of its own, against the chat page of a gateway."""

import asyncio
import contextlib
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from config.settings import ChatSettings, Settings
from gateway.cli.say import _password
from gateway.store import Store
from gateway.web.client import Refused
from tests.gateway.web.world import World, served

PASSWORD = "a password of some length"


@pytest.fixture
async def world(store: Store, redis_url: str, tmp_path: Path) -> AsyncIterator[World]:
    async with served(store, redis_url, tmp_path) as world:
        yield world


@contextlib.asynccontextmanager
async def saying(folder: Path, *arguments: str, settings: str = "{}", secret: str = "") -> AsyncIterator[Process]:
    file = folder / "say.yaml"
    file.write_text(settings)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway.cli", "--config", str(file), "say", *arguments),
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        cwd=folder,
        env={"PYTHONPATH": str(Path(__file__).parents[3]), "SECRET": secret, "PYTHONIOENCODING": "utf-8"},
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def ended(process: Process, stdin: str = "") -> tuple[int | None, str, str]:
    out, err = await asyncio.wait_for(process.communicate(stdin.encode()), 10)
    return process.returncode, out.decode(), err.decode()


async def test_the_reply_grows_on_stdout_and_steps_go_to_stderr(world: World, tmp_path: Path) -> None:
    async with saying(tmp_path, "读一下", "--conversation", "c1", "--url", world.url) as process:
        assert process.stdout
        event = await world.worker.take()
        assert (event.text, event.conversation.thread) == ("读一下", "c1")
        await world.worker.skill(event, "web-access")
        await world.worker.tool(event, "web_fetch", failed=True)
        await world.worker.show(event, "three ")
        assert await asyncio.wait_for(process.stdout.readexactly(6), 5) == b"three "
        await world.worker.show(event, "three points")
        assert await asyncio.wait_for(process.stdout.readexactly(6), 5) == b"points"
        await world.worker.reply(event, "three points.")
        code, out, err = await ended(process)
    assert (code, out) == (0, ".\n")
    assert err.splitlines() == ["conversation: c1", "loaded skill web-access", "web_fetch failed"]


async def test_the_steps_of_a_plan_are_told_as_they_end(world: World, tmp_path: Path) -> None:
    async with saying(tmp_path, "/plan x", "--url", world.url) as process:
        event = await world.worker.take()
        steps: list[Any] = [{"id": name, "task": f"read {name}", "needs": []} for name in ("a", "b", "c")]
        await world.worker.record(event, "plan", steps=steps, turn="t")
        await world.worker.show(event, "wait")
        await world.worker.record(event, "step_done", id="a", text="1", turn="t")
        await world.worker.record(event, "step_done", id="b", text="no", failed=True, turn="t")
        await world.worker.record(event, "step_done", id="c", text="3", turn="t")
        await world.worker.reply(event, "wait: done")
        code, out, err = await ended(process)
    assert (code, out) == (0, "wait: done\n")
    assert err.splitlines()[1:] == ["step done: read a", "step failed: read b", "step done: read c"]


async def test_a_text_that_changes_ends_with_the_whole_reply(world: World, tmp_path: Path) -> None:
    async with saying(tmp_path, "hello", "--url", world.url) as process:
        assert process.stdout
        event = await world.worker.take()
        await world.worker.show(event, "let me look")
        await process.stdout.readexactly(11)
        await world.worker.show(event, "here")
        await world.worker.reply(event, "here it is")
        assert (await ended(process))[:2] == (0, "\nhere it is\n")


async def test_a_notice_is_no_reply(world: World, tmp_path: Path) -> None:
    async with saying(tmp_path, "hello", "--url", world.url) as process:
        await world.worker.reply(await world.worker.take(), "The model is away.", notice=True)
        code, out, err = await ended(process)
    assert (code, out) == (1, "")
    assert "The model is away." in err


async def test_what_is_said_in_the_midst_of_the_turn_is_not_its_end(world: World, tmp_path: Path) -> None:
    async with saying(tmp_path, "hello", "--url", world.url) as process:
        event = await world.worker.take()
        asked = "**A note waits**\n```diff\n+ a `line` of **it**\n```\n`/skill approve X` accepts it."
        await world.worker.record(event, "card", text=asked, turn="t")
        await world.worker.send(event, asked, notice=True, key="card")
        await world.worker.tool(event, "save_skill_reference")
        await world.worker.reply(event, "It is written down.")
        code, out, err = await ended(process)
    assert (code, out) == (0, "It is written down.\n")
    assert err.splitlines()[1:] == [
        "A note waits",
        "+ a `line` of **it**",
        "/skill approve X accepts it.",
        "ran save_skill_reference",
    ]


async def test_what_is_answered_beside_a_turn_is_a_reply_and_the_turn_is_not_waited_for(
    world: World, tmp_path: Path
) -> None:
    async with saying(tmp_path, "delete it", "--conversation", "c1", "--url", world.url) as first:
        event = await world.worker.take()
        await world.worker.record(event, "card", text="May I?", turn="t")
        await world.worker.send(event, "May I?", notice=True, key="card")
        async with saying(tmp_path, "/status", "--conversation", "c1", "--url", world.url) as second:
            asked = await world.worker.take()
            await world.worker.record(asked, "card", text="A word is waited for.", of=asked.dedupe_keys[0], turn="t")
            await world.worker.send(asked, "A word is waited for.", notice=True, key="beside")
            assert (await ended(second))[:2] == (0, "A word is waited for.\n")
        await world.worker.reply(event, "Deleted.")
        code, out, err = await ended(first)
    assert (code, out) == (0, "Deleted.\n")
    assert "A word is waited for." in err


async def test_a_stop_has_its_answer_and_who_is_stopped_has_no_reply(world: World, tmp_path: Path) -> None:
    async with saying(tmp_path, "a long story", "--conversation", "c1", "--url", world.url) as first:
        event = await world.worker.take()
        async with saying(tmp_path, "/stop", "--conversation", "c1", "--url", world.url) as second:
            control = world.store.layout.key(event.conversation.id, "control")
            async with asyncio.timeout(30):
                while not await world.store.redis.llen(control):
                    await asyncio.sleep(0.01)
            [stop] = await world.store.redis.lrange(control, 0, -1)
            await world.worker.record(event, "event", event=json.loads(stop), turn="t")
            await world.worker.reply(event, "Stopped.", notice=True)
            assert (await ended(second))[:2] == (0, "Stopped.\n")
        assert (await ended(first))[:2] == (1, "")


async def test_a_gateway_on_another_port_of_this_machine_meets_the_same_person(
    store: Store, redis_url: str, tmp_path: Path
) -> None:
    people = []
    for _ in range(2):
        async with served(store, redis_url, tmp_path) as world, saying(tmp_path, "hi", "--url", world.url) as process:
            people.append((await world.converse("hi", "hello")).actor)
            assert (await ended(process))[0] == 0
    assert people[0] == people[1]


async def test_what_a_command_leads_to_is_a_reply(world: World, tmp_path: Path) -> None:
    async with saying(tmp_path, "/help", "--url", world.url) as process:
        event = await world.worker.take()
        await world.worker.record(event, "reply", text="Commands: …", notice=True, command=True, turn="t")
        await world.worker.send(event, "Commands: …", notice=True)
        assert (await ended(process))[:2] == (0, "Commands: …\n")


async def test_the_same_conversation_goes_on_and_an_earlier_reply_is_not_ours(world: World, tmp_path: Path) -> None:
    async with saying(tmp_path, "one", "--conversation", "c1", "--url", world.url) as first:
        one = await world.worker.take()
        async with saying(tmp_path, "two", "--conversation", "c1", "--url", world.url) as second:
            inbox = world.store.layout.key(one.conversation.id, "inbox")
            while not await world.store.redis.zcard(inbox):
                await asyncio.sleep(0.01)
            await world.worker.show(one, "reply one")
            await world.worker.reply(one, "reply one")
            assert (await ended(first))[:2] == (0, "reply one\n")
            two = await world.worker.take()
            assert two.conversation == one.conversation
            await world.worker.reply(two, "reply two", key="key 2")
            assert (await ended(second))[:2] == (0, "reply two\n")


async def test_the_cookie_is_for_its_owner_alone(world: World, tmp_path: Path) -> None:
    async with saying(tmp_path, "-", "--url", world.url, settings="data: kept") as process:
        answering = asyncio.create_task(world.converse("from stdin", "heard"))
        assert (await ended(process, "from stdin"))[:2] == (0, "heard\n")
        await answering
    file = tmp_path / "kept" / "say.cookie"
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(json.loads(file.read_text())["this machine"]) == ["deskmate_browser"]


async def test_a_cookie_that_can_not_be_kept_does_not_stop_the_message(world: World, tmp_path: Path) -> None:
    (tmp_path / "kept").touch()
    async with saying(tmp_path, "hello", "--url", world.url, settings="data: kept") as process:
        answering = asyncio.create_task(world.converse("hello", "heard"))
        code, out, err = await ended(process)
        await answering
    assert (code, out) == (0, "heard\n")
    assert "Warning: " in err
    assert "say.cookie can't be written: File exists" in err
    assert "Traceback" not in err


async def test_nobody_there_is_code_3(unused_port: int, tmp_path: Path) -> None:
    async with saying(tmp_path, "hello", settings=f"gateway: {{port: {unused_port}}}") as process:
        code, out, err = await ended(process)
    assert (code, out) == (3, "")
    assert f"The gateway at http://127.0.0.1:{unused_port} can't be reached" in err
    assert "ssl" not in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("/approve", "ZZZ"), 'put it in quotes: deskmate say "/approve ZZZ"'),
        (("",), "TEXT is empty: there is nothing to say."),
        ((" \n",), "TEXT is empty: there is nothing to say."),
    ],
)
async def test_what_is_no_message_is_said_before_anybody_is_asked(
    tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    async with saying(tmp_path, *words) as process:
        code, out, err = await ended(process)
    assert (code, out) == (2, "")
    assert told in err


async def test_no_reply_in_time_is_code_1(world: World, tmp_path: Path) -> None:
    async with saying(tmp_path, "hello", "--url", world.url, "--timeout", "0.5") as process:
        code, _, err = await ended(process)
    assert code == 1
    assert "No reply within 0.5 s" in err


async def test_a_gateway_that_starts_again_is_waited_for(store: Store, redis_url: str, tmp_path: Path) -> None:
    async with served(store, redis_url, tmp_path) as world:
        saying_it = saying(tmp_path, "hello", "--url", world.url)
        process = await saying_it.__aenter__()
        event = await world.worker.take()
    await world.worker.reply(event, "said meanwhile")
    async with served(store, redis_url, tmp_path, port=int(world.url.rpartition(":")[2])):
        assert (await ended(process))[:2] == (0, "said meanwhile\n")
    await saying_it.__aexit__(None, None, None)


async def test_the_password_of_the_settings_opens_the_door(store: Store, redis_url: str, tmp_path: Path) -> None:
    lines = ["chat: {password: $SECRET}"]
    async with served(store, redis_url, tmp_path, settings=lines, secret=PASSWORD) as world:
        async with saying(tmp_path, "hello", "--url", world.url, settings=lines[0], secret=PASSWORD) as process:
            await world.converse("hello", "come in")
            assert (await ended(process))[:2] == (0, "come in\n")
        for settings, secret, why in (
            ("{}", "", "chat.password is not set in these settings"),
            (lines[0], "another password", "the password was not accepted"),
        ):
            (tmp_path / ".deskmate" / "say.cookie").unlink(missing_ok=True)
            async with saying(tmp_path, "hello", "--url", world.url, settings=settings, secret=secret) as process:
                code, out, err = await ended(process)
            assert (code, out) == (1, "")
            assert why in err
            assert PASSWORD not in err


def test_the_password_goes_to_another_machine_over_https_only() -> None:
    settings = Settings(chat=ChatSettings(password=SecretStr(PASSWORD)))
    for address in ("https://chat.example", "http://localhost:8080", "http://[::1]:8080"):
        assert _password(settings, address) == PASSWORD
    for address in ("http://chat.example", "http://localhost.chat.example", "http://127.0.0.1@chat.example"):
        with pytest.raises(Refused, match="over https only"):
            _password(settings, address)


@pytest.mark.parametrize("conversation", ["a b", "", "ä", "x" * 65])
async def test_an_id_that_is_none_is_refused(tmp_path: Path, conversation: str) -> None:
    async with saying(tmp_path, "hello", f"--conversation={conversation}") as process:
        code, _, err = await ended(process)
    assert code == 2
    assert "1 to 64 letters, digits, - and _ are allowed" in err
