"""`deskmate up`: everything starts, is kept running, and ends with it."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from config.settings import environment
from gateway.running.machine import Machine
from tests.harness.discord_twin import DiscordTwin
from tests.harness.processes import is_alive, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")


@dataclass
class Up:
    process: asyncio.subprocess.Process
    machine: Machine
    said: str = ""

    def children(self) -> dict[int, str]:
        """The processes that it started, with the command lines that they show."""
        found = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                parent = int(stat.read_text().rpartition(")")[2].split()[1])
                shown = (stat.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if parent == self.process.pid:
                found[int(stat.parent.name)] = shown
        return found

    def workers(self) -> set[int]:
        return {pid for pid, shown in self.children().items() if "deskmate worker" in shown}

    async def ready(self, *, workers: int = 1) -> None:
        """Wait until it says so."""
        assert self.process.stdout
        async with asyncio.timeout(60):
            while "Ready after" not in self.said:
                line = await self.process.stdout.readline()
                assert line, self.said
                self.said += line.decode()
            await self.machine.until_ready(workers=workers)

    async def ends(self) -> tuple[int, str]:
        out, _ = await asyncio.wait_for(self.process.communicate(), 60)
        assert self.process.returncode is not None
        return self.process.returncode, self.said + out.decode()


@asynccontextmanager
async def up(folder: Path, port: int, *arguments: str) -> AsyncIterator[Up]:
    file = folder / "deskmate.yaml"
    if not file.exists():
        file.write_text("data: data\nworker: {grace_s: 5}\n")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "gateway.cli", "--config", str(file), "up", "--port", str(port), *arguments),
        cwd=folder,
        env=environment(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield Up(process, Machine("127.0.0.1", port, ""))
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def command(folder: Path, *arguments: str) -> tuple[int, str]:
    """Another command on the same settings: its exit code and what it said."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "gateway.cli", "--config", str(folder / "deskmate.yaml"), *arguments),
        cwd=folder,
        env=environment(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode or 0, out.decode()


async def test_sigterm_stops_everything_and_the_addresses_were_told(tmp_path: Path, unused_port: int) -> None:
    async with up(tmp_path, unused_port, "--workers", "2") as started:
        await started.ready(workers=2)
        children = started.children()
        assert len(children) == 4, children  # server, gateway, two workers
        started.process.send_signal(signal.SIGTERM)
        code, said = await started.ends()
    assert code == 0, said
    assert f"http://127.0.0.1:{unused_port}/chat" in said
    assert "rehearsal: offline and scripted, no model at all" in said
    assert str(tmp_path / "data") in said
    assert "Traceback" not in said, said
    assert not any(map(is_alive, children))


async def test_where_a_platform_needs_it_somebody_listens_too(
    tmp_path: Path, unused_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with DiscordTwin() as twin:
        for name, value in twin.environment.items():
            monkeypatch.setenv(name, value)
        settings = {"data": "data", "connections": {"discord-main": twin.connection}}
        (tmp_path / "deskmate.yaml").write_text(yaml.safe_dump(settings))
        (tmp_path / "profiles").mkdir()
        (tmp_path / "profiles/default.yaml").write_text("direct: open\n")
        async with up(tmp_path, unused_port) as started:
            await started.ready()
            said = await twin.direct("", "hello")
            assert "rehearsal" in (await twin.reply_to(said)).text
            started.process.send_signal(signal.SIGTERM)
            code, told = await started.ends()
    assert code == 0, told
    assert "Traceback" not in told, told


async def test_a_second_one_on_the_folder_names_the_first(tmp_path: Path, unused_port: int) -> None:
    async with up(tmp_path, unused_port) as first:
        await first.ready()
        async with up(tmp_path, unused_port) as second:
            code, said = await second.ends()
        assert code == 1
        assert said == f"Error: deskmate runs already on {tmp_path / 'data'} (process {first.process.pid}).\n"
        assert await first.machine.readiness()


async def test_kill_9_of_a_worker_brings_another_one_and_kill_9_of_up_ends_all(
    tmp_path: Path, unused_port: int
) -> None:
    async with up(tmp_path, unused_port) as started:
        await started.ready()
        (worker,) = started.workers()
        os.kill(worker, signal.SIGKILL)
        await until(lambda: bool(started.workers() - {worker}))
        children = started.children()
        assert worker not in children
        started.process.kill()
        await until(lambda: not any(map(is_alive, children)))


async def test_a_port_in_use_is_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with up(tmp_path, port) as started:
            code, said = await started.ends()
    assert code == 1
    assert said == (
        f"Error: port {port} on 127.0.0.1 can't be used: Address already in use. "
        "Stop what uses it, or choose another with --port.\n"
    )


async def test_a_process_that_refuses_to_start_ends_it_with_the_reason(
    tmp_path: Path, unused_port: int, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDIS_URL", redis_url)
    (tmp_path / "deskmate.yaml").write_text("data: data\nredis: {durability: fsync}\n")
    async with up(tmp_path, unused_port) as started:
        code, said = await started.ends()
    assert code == 1
    assert "appendfsync is everysec" in said
    assert "ended at once" in said


@pytest.mark.parametrize(
    ("data", "why"), [("file", "it is not a folder"), ("file/below", "Not a directory"), ("/proc/1/data", "")]
)
async def test_a_data_folder_that_can_not_be_used_is_one_sentence(
    tmp_path: Path, unused_port: int, data: str, why: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "deskmate.yaml").write_text(f"data: {data}\n")
    async with up(tmp_path, unused_port) as started:
        code, said = await started.ends()
    assert (code, said.count("\n")) == (1, 1), said
    assert said.startswith(f"Error: the data folder {(tmp_path / data).resolve()} can't be used: {why}")
    assert "--data" in said


async def test_an_empty_data_folder_is_refused(tmp_path: Path, unused_port: int) -> None:
    async with up(tmp_path, unused_port, "--data", "") as started:
        code, said = await started.ends()
    assert code == 2
    assert "--data" in said
    assert "the path is empty" in said


async def test_on_any_free_port_it_is_found_by_say_and_doctor(tmp_path: Path) -> None:
    async with up(tmp_path, 0) as started:
        assert started.process.stdout
        async with asyncio.timeout(60):
            while "Ready after" not in started.said:
                started.said += (await started.process.stdout.readline()).decode()
        address = started.said.partition("  page ")[2].partition("/chat")[0].strip()
        said = await command(tmp_path, "say", "hello")
        assert (said[0], "This is a rehearsal" in said[1]) == (0, True), said
        code, found = await command(tmp_path, "doctor")
        assert code == 0, found
        assert f"a gateway listens there: {address}" in found
        started.process.send_signal(signal.SIGTERM)
        assert (await started.ends())[0] == 0
    (tmp_path / "deskmate.yaml").write_text("data: data\ngateway: {port: 0}\n")
    code, said_then = await command(tmp_path, "say", "hello")
    assert code == 3
    assert "give --url" in said_then


async def test_a_redis_elsewhere_that_is_away_for_a_moment_ends_nothing(
    tmp_path: Path, unused_port: int, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "later.sock"
    monkeypatch.setenv("REDIS_URL", f"unix://{place}")
    prefix = f"t{secrets.token_hex(6)}"
    (tmp_path / "deskmate.yaml").write_text(
        f"data: data\nredis: {{key_prefix: {prefix}}}\nrq: {{key_prefix: {prefix}}}\n"
    )
    async with up(tmp_path, unused_port) as started:
        assert started.process.stdout
        async with asyncio.timeout(60):
            while "redis not reachable, waiting" not in started.said:
                started.said += (await started.process.stdout.readline()).decode()
        place.symlink_to(redis_url.removeprefix("unix://"))
        await started.ready()
        started.process.send_signal(signal.SIGTERM)
        code, said = await started.ends()
    assert code == 0, said
    assert "ended" not in said
