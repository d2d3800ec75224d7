"""Processes that are kept running, and the port that they share."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from gateway.running.machine import Failed, Machine, PortTaken, Readiness, _keep, _Post, free_port
from tests.harness.processes import is_alive, until

VARIABLES = {"PATH": os.defpath}


@asynccontextmanager
async def kept(command: list[str]) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(_keep(_Post("thing", command, 5.0), VARIABLES))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


async def test_a_process_that_ends_is_started_again_and_said_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "starts"
    async with kept(["sh", "-c", f"echo again >> {file}; kill -9 $$"]):
        await until(lambda: len(lines(file)) >= 2)
    assert "thing ended, it is started again" in caplog.text
    assert {record.levelno for record in caplog.records if record.name == "gateway.running.machine"} == {logging.ERROR}


@pytest.mark.parametrize("ends", ["exit 0", "kill -TERM $$"])
async def test_a_process_that_was_told_to_end_is_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, ends: str
) -> None:
    caplog.set_level(logging.INFO, "gateway.running.machine")
    file = tmp_path / "starts"
    async with kept(["sh", "-c", f"echo again >> {file}; {ends}"]):
        await until(lambda: len(lines(file)) >= 2)
    assert "thing ended, it is started again" in caplog.text
    assert {record.levelno for record in caplog.records if record.name == "gateway.running.machine"} == {logging.INFO}


async def test_kill_9_even_at_once_is_no_reason_to_give_up(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    async with kept(["sh", "-c", f"echo $$ >> {file}; exec sleep 60"]):
        await until(lambda: len(lines(file)) == 1)
        os.kill(int(lines(file)[0]), signal.SIGKILL)
        await until(lambda: len(lines(file)) == 2)
        second = int(lines(file)[1])
        assert is_alive(second)
    assert not is_alive(second)


async def test_a_process_that_refuses_to_start_is_not_tried_again() -> None:
    async with kept(["sh", "-c", "exit 2"]) as task:
        with pytest.raises(Failed, match="thing ended at once, status 2"):
            await asyncio.wait_for(task, 5)


def test_a_taken_port_is_told_in_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(PortTaken, match=rf"^port {port} on 127\.0\.0\.1 can't be used: Address already in use$"):
            free_port("127.0.0.1", port)
    assert free_port("127.0.0.1", port) == port


def test_port_0_becomes_a_free_one() -> None:
    assert free_port("127.0.0.1", 0) > 0


def test_an_address_that_is_not_ours_is_told() -> None:
    with pytest.raises(PortTaken, match="Cannot assign requested address") as caught:
        free_port("192.0.2.1", 8080)
    assert caught.value.advice == "Set gateway.host to an address of this machine"


@pytest.mark.skipif(os.getuid() == 0, reason="root may listen anywhere")
def test_a_port_for_root_is_told() -> None:
    with pytest.raises(PortTaken, match="Permission denied") as caught:
        free_port("127.0.0.1", 80)
    assert "below 1024" in caught.value.advice


@asynccontextmanager
async def gateway(status: int, text: str) -> AsyncIterator[Machine]:
    async def readyz(_: web.Request) -> web.Response:
        return web.Response(status=status, text=text)

    app = web.Application()
    app.router.add_get("/readyz", readyz)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield Machine("127.0.0.1", runner.addresses[0][1], "")
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("status", "text", "found"),
    [
        (503, '{"ready": false, "redis": true, "data": true, "workers": 0}', Readiness(redis=True, workers=0)),
        (200, '{"ready": true, "redis": true, "data": true, "workers": 3}', Readiness(redis=True, workers=3)),
        (200, "<html>something else", None),
    ],
)
async def test_readiness_is_what_the_gateway_says(status: int, text: str, found: Readiness | None) -> None:
    async with gateway(status, text) as machine:
        assert await machine.readiness() == found


async def test_nobody_there_is_not_ready(unused_port: int) -> None:
    assert await Machine("127.0.0.1", unused_port, "").readiness() is None


def test_the_address_of_a_machine_is_one_for_a_browser() -> None:
    assert Machine("127.0.0.1", 80, "").address == "http://127.0.0.1:80"
    assert Machine("::1", 80, "").address == "http://[::1]:80"
