"""One session with a server: whatever it does, the session ends in time and says why, and nothing of it is left."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp_types import CallToolResult

from config.settings import McpServerSettings
from gateway.conversation.claim import Fenced
from tests.harness.mcp_server import McpTwin
from tests.harness.processes import is_alive, until
from tests.workers.mcp.twins import ledger, like, program
from workers.mcp.results import text_of
from workers.mcp.sessions import Interrupted, NotOpened, NotRun, ServerError, Session, TooSlow


@asynccontextmanager
async def opened(server: McpServerSettings) -> AsyncIterator[Session]:
    session = Session("twin", server)
    try:
        await session.ready()
        yield session
    finally:
        await session.close()


@pytest.fixture(params=["stdio", "json", "sse"])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[McpServerSettings]:
    """The same server, over each way."""
    if request.param == "stdio":
        yield program(tmp_path, timeout_s=20)
        return
    async with McpTwin(tmp_path, key="k", streams=request.param == "sse") as twin:
        yield McpServerSettings(url=twin.url, headers={"Authorization": "Bearer k"}, timeout_s=20)


async def test_tools_are_listed_and_called(server: McpServerSettings, tmp_path: Path) -> None:
    async with opened(server) as session:
        assert {"twin__echo", "twin__all", "twin__refuse"} <= session.tools.definitions.keys(), "all pages"
        assert session.tools.definitions["twin__echo"].description == "Does echo."
        answers = await asyncio.gather(*(session.call("echo", {"text": str(n)}) for n in range(5)))
        assert [text_of(one) for one in answers] == list("01234")
    [greeted] = ledger(tmp_path, "initialize")
    assert greeted["params"]["clientInfo"]["name"] == "deskmate"
    assert not {"sampling", "elicitation", "roots"} & greeted["params"]["capabilities"].keys(), "it may ask us nothing"
    assert not ledger(tmp_path, "malformed")
    assert not ledger(tmp_path, "listens"), "what it says unasked is not for us"
    await until(lambda: bool(ledger(tmp_path, "end")), 10)


@pytest.mark.parametrize("server", ["json", "sse"], indirect=True)
async def test_what_is_somebody_elses_by_the_time_a_connection_is_there_is_not_sent(
    server: McpServerSettings, tmp_path: Path
) -> None:
    """A process that is stopped while it connects goes on with it when it wakes, past its lease."""
    answers = iter([True])

    def still_ours() -> None:
        if not next(answers, False):
            raise Fenced("c")

    async with opened(server) as session:
        late, beside = (
            asyncio.create_task(session.call("echo", {"text": text}, asked))
            for text, asked in (("late", still_ours), ("beside", lambda: None))
        )
        told = await asyncio.gather(late, beside, return_exceptions=True)
        after = await session.call("echo", {"text": "after"})
        with pytest.raises(Fenced):
            await session.call("echo", {"text": "later still"}, still_ours)
    assert [type(one) for one in (*told, after)] == [ServerError, CallToolResult, CallToolResult], (
        "it goes on for everybody else"
    )
    assert sorted(one["arguments"]["text"] for one in ledger(tmp_path, "call")) == ["after", "beside"]


async def test_an_error_of_the_protocol_is_the_servers_word(server: McpServerSettings) -> None:
    async with opened(server) as session:
        with pytest.raises(ServerError, match="out of paper"):
            await session.call("refuse", {})
        with pytest.raises(ServerError, match="not what the protocol wants"):
            await session.call("lie", {})
        assert text_of(await session.call("echo", {"text": "still there"})) == "still there"


async def test_whoever_is_stopped_stops_the_server(server: McpServerSettings, tmp_path: Path) -> None:
    async with opened(server) as session:
        call = asyncio.create_task(session.call("hang", {}))
        await until(lambda: bool(ledger(tmp_path, "call")))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await until(lambda: bool(ledger(tmp_path, "cancelled")))
        assert not session.busy
        assert text_of(await session.call("echo", {"text": "on"})) == "on"


async def test_a_call_that_takes_too_long_is_given_up_and_the_server_told(
    server: McpServerSettings, tmp_path: Path
) -> None:
    async with opened(server.model_copy(update={"timeout_s": 0.3})) as session:
        with pytest.raises(TooSlow):
            await session.call("hang", {})
        await until(lambda: bool(ledger(tmp_path, "cancelled")))


async def test_a_server_that_sends_too_much_is_ended(server: McpServerSettings) -> None:
    async with opened(server.model_copy(update={"message_max_bytes": 65_536})) as session:
        with pytest.raises((Interrupted, ServerError)):
            await session.call("long", {})


@pytest.mark.parametrize("block", [0, {}, {"type": "text"}, {"type": "text", "text": ""}])
async def test_an_answer_of_too_many_blocks_is_an_error_that_says_so(server: McpServerSettings, block: Any) -> None:
    async with opened(server) as session:
        with pytest.raises(ServerError, match="its answer holds more than 1,000 blocks"):
            await session.call("flood", {"content": [block], "times": 1_001})
        with pytest.raises(ServerError, match="its answer holds more than 20,000 parts"):
            await session.call("flood", {"content": [], "_other": [block], "times": 20_001})
        assert text_of(await session.call("echo", {"text": "still there"})) == "still there"


async def test_a_table_may_have_many_cells(server: McpServerSettings) -> None:
    async with opened(server) as session:
        answer = await session.call("flood", {"content": [], "structuredContent": {"cells": [7] * 50_000}, "times": 1})
        assert text_of(answer).count("7") == 50_000


async def test_who_sends_hundreds_of_thousands_of_parts_is_not_read(server: McpServerSettings) -> None:
    async with opened(server) as session:
        with pytest.raises((Interrupted, ServerError)):
            await session.call("flood", {"content": [0], "times": 300_000})


async def test_a_flood_of_bytes_between_two_requests_ends_it(tmp_path: Path) -> None:
    async with opened(program(tmp_path, message_max_bytes=65_536)) as session:
        with pytest.raises(Interrupted, match="bytes between two requests"):
            await session.call("rush", {"length": 60_000})


async def test_tools_of_too_many_parts_are_no_list_of_tools(tmp_path: Path) -> None:
    like(tmp_path, tools=[["odd", "Asks for much.", {"type": "object", "required": [0] * 20_001}]])
    session = Session("twin", program(tmp_path))
    with pytest.raises(NotOpened, match="holds more than 20,000 parts"):
        await session.ready()
    await session.close()


async def test_a_program_gets_what_the_settings_name_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "not for servers")
    async with opened(program(tmp_path, env={"TOKEN": "t"}, cwd=tmp_path)) as session:
        env, cwd = json.loads(text_of(await session.call("env", {})))
    env.pop("LC_CTYPE", None)  # Python's own doing
    assert (env, cwd) == ({"TOKEN": "t"}, str(tmp_path))


async def test_a_crash_interrupts_the_calls_under_way_and_is_no_session_any_more(tmp_path: Path) -> None:
    async with opened(program(tmp_path)) as session:
        hanging = asyncio.create_task(session.call("hang", {}))
        with pytest.raises(Interrupted, match="ended"):
            await session.call("crash", {})
        with pytest.raises(Interrupted):
            await hanging
        assert session.is_over
        with pytest.raises(NotRun):
            await session.call("echo", {"text": "x"})


async def test_what_it_prints_during_a_call_is_not_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It may be what people wrote."""
    caplog.set_level("INFO")
    async with opened(program(tmp_path)) as session:
        with pytest.raises(Interrupted) as caught:
            await session.call("blurt", {"text": "canary"})
    assert "canary" not in str(caught.value)
    assert not any("canary" in str(vars(record)) for record in caplog.records)


async def test_all_that_a_server_started_ends_with_it(tmp_path: Path) -> None:
    async with opened(program(tmp_path)) as session:
        child = int(text_of(await session.call("family", {})))
        [start] = ledger(tmp_path, "start")
        assert is_alive(child)
    assert not is_alive(child)
    assert not is_alive(start["pid"])


async def test_a_stream_that_does_not_end_is_cut(tmp_path: Path) -> None:
    async with McpTwin(tmp_path, streams=True) as twin:
        server = McpServerSettings(url=twin.url, message_max_bytes=65_536)
        async with opened(server) as session:
            with pytest.raises((Interrupted, ServerError)):
                await session.call("chatter", {})


@pytest.mark.parametrize("method", ["sampling/createMessage", "elicitation/create", "roots/list", "tools/call"])
async def test_a_server_may_ask_us_nothing(tmp_path: Path, method: str) -> None:
    async with opened(program(tmp_path)) as session:
        told = json.loads(text_of(await session.call("ask", {"method": method})))
    assert "result" not in told
    assert told["error"]["code"] < 0


async def test_a_flood_of_what_nobody_asked_for_ends_it(tmp_path: Path) -> None:
    async with opened(program(tmp_path)) as session:
        with pytest.raises(Interrupted, match="messages that nobody had asked for"):
            await session.call("chatter", {})


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("die", "ended; the last that it printed: no paper in tray 2"),
        ("hang", "was not ready within 0.5 s"),
        ("long", "sent a message that is too long"),
    ],
)
async def test_a_server_that_does_not_start_says_why(tmp_path: Path, how: str, said: str) -> None:
    like(tmp_path, start=how)
    session = Session("twin", program(tmp_path, start_timeout_s=0.5 if how == "hang" else 20))
    with pytest.raises(NotOpened, match=said):
        await session.ready()
    assert session.is_over
    await session.close()
    assert not any(is_alive(one["pid"]) for one in ledger(tmp_path, "start"))


async def test_what_it_greets_with_harms_nothing(tmp_path: Path) -> None:
    like(tmp_path, start="greet")
    async with opened(program(tmp_path)) as session:
        assert text_of(await session.call("echo", {"text": "x"})) == "x"


@pytest.mark.parametrize(
    ("command", "said"),
    [(["no-such-program"], "No such file or directory"), ([sys.executable, "-c", "pass"], "ended")],
)
async def test_a_command_that_is_no_server(command: list[str], said: str) -> None:
    session = Session("twin", McpServerSettings(command=command))
    with pytest.raises(NotOpened, match=said):
        await session.ready()
    await session.close()


async def test_nobody_at_the_address(unused_port: int) -> None:
    session = Session("twin", McpServerSettings(url=f"http://127.0.0.1:{unused_port}/mcp"))
    with pytest.raises(NotOpened, match="can't be reached"):
        await session.ready()
    await session.close()


async def test_a_key_that_is_wrong(tmp_path: Path) -> None:
    async with McpTwin(tmp_path, key="k") as twin:
        session = Session("twin", McpServerSettings(url=twin.url, headers={"Authorization": "Bearer z"}))
        with pytest.raises(NotOpened, match="can't be reached"):
            await session.ready()
        await session.close()


async def test_a_server_that_was_restarted_did_not_run_the_call(tmp_path: Path) -> None:
    async with McpTwin(tmp_path) as twin, opened(McpServerSettings(url=twin.url)) as session:
        twin.forget()
        with pytest.raises(NotRun):
            await session.call("echo", {"text": "x"})
        assert session.is_over


async def test_a_session_that_is_put_away_before_it_is_open_ends_at_once(tmp_path: Path) -> None:
    like(tmp_path, start="hang")
    session = Session("twin", program(tmp_path))
    await until(lambda: bool(ledger(tmp_path, "start")))
    async with asyncio.timeout(15):
        await session.close()
    with pytest.raises(NotOpened, match="was put away"):
        await session.ready()
    assert not is_alive(ledger(tmp_path, "start")[0]["pid"])


async def test_a_list_of_tools_that_is_none(tmp_path: Path) -> None:
    like(tmp_path, tools=[["odd", "Has no schema.", "none"]])
    session = Session("twin", program(tmp_path))
    with pytest.raises(NotOpened, match="answers what the protocol does not allow"):
        await session.ready()
    await session.close()
