"""A worker begins when its Redis does."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.running.children import leashed

ROOT = Path(__file__).parents[2]


@asynccontextmanager
async def worker(folder: Path, redis: str) -> AsyncIterator[Process]:
    prefix = f"t{secrets.token_hex(6)}"
    file = folder / "deskmate.yaml"
    file.write_text(f"redis: {{url: $REDIS_URL, key_prefix: {prefix}}}\nrq: {{key_prefix: '{prefix}:rq'}}\n")
    process = await asyncio.create_subprocess_exec(
        *leashed([sys.executable, "-m", "gateway.cli", "--config", str(file), "worker"]),
        cwd=folder,
        env={"PATH": os.defpath, "PYTHONPATH": str(ROOT), "REDIS_URL": redis},
        stdout=PIPE,
        stderr=STDOUT,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def said(process: Process, words: str) -> str:
    """The line with these words, as soon as it is there."""
    assert process.stdout
    async with asyncio.timeout(60):
        while line := (await process.stdout.readline()).decode():
            assert "Traceback" not in line
            if words in line:
                return line
    raise AssertionError(f"ended without {words!r}")


async def test_a_redis_that_is_away_is_waited_for_and_said_so(tmp_path: Path, redis_url: str) -> None:
    place = tmp_path / "later.sock"
    async with worker(tmp_path, f"unix://{place}") as process:
        line = await said(process, "redis not reachable, waiting")
        assert "start it, or correct redis.url (REDIS_URL)" in line
        place.symlink_to(redis_url.removeprefix("unix://"))
        await said(process, "worker ready")
        process.send_signal(signal.SIGTERM)
        await process.communicate()
        assert process.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_while_it_waits_it_can_be_stopped(tmp_path: Path, number: signal.Signals) -> None:
    async with worker(tmp_path, "redis://127.0.0.1:1") as process:
        await said(process, "redis not reachable, waiting")
        process.send_signal(number)
        rest, _ = await asyncio.wait_for(process.communicate(), 60)
        assert (process.returncode, rest) == (0, b"")
