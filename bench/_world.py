"""What the benches stand on: processes pinned to cores, their CPU and memory, and a deskmate in a temporary folder.

What is measured runs on the first core that we may use, everything else on the last. CPU time is the figure, not the
clock on the wall: other work on the machine stretches waiting, and leaves CPU time alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

from config.settings import MailboxSettings, RqSettings, environment
from gateway.bell import Bell, open_bell
from gateway.conversation.mailbox import Mailbox
from gateway.running.embedded import find_program, server_command, socket_url
from gateway.store import Layout, Store, open_store
from tests.harness.fake_model import KEY

ROOT: Final = Path(__file__).parent.parent
SIGNING_SECRET: Final = "bench-signing-secret"
WEBHOOK_SECRET: Final = "whsec_" + "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFB"
TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")
FILES: Final = 16_384
ROOMY: Final = {"waiting_max": 1_000_000, "inbox_max": 1_000_000}

_ON_STOCK_LOOP: Final = (
    "import sys; sys.modules['uvloop'] = None; from gateway.cli import run; sys.exit(run(sys.argv[1:]))"
)


@dataclass(frozen=True, slots=True)
class Process:
    """A process of the bench."""

    name: str
    started: subprocess.Popen[str]

    @property
    def pid(self) -> int:
        return self.started.pid

    def cpu_s(self) -> float:
        """User and system time so far, of all threads."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * TICK_S

    def memory_kib(self) -> tuple[int, int]:
        """RSS, and PSS: shared pages counted by share."""
        found = dict(line.split(":", 1) for line in Path(f"/proc/{self.pid}/smaps_rollup").read_text().splitlines()[1:])
        return int(found["Rss"].split()[0]), int(found["Pss"].split()[0])

    def connections_to(self, url: str) -> int:
        """Open TCP connections of this process to a server on this machine."""
        port = urlsplit(url).port or 0
        mine = set()
        for file in Path(f"/proc/{self.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                mine.add(str(file.readlink()))
        rows = [line.split() for line in Path(f"/proc/{self.pid}/net/tcp").read_text().splitlines()[1:]]
        return sum(row[2].endswith(f":{port:04X}") and f"socket:[{row[9]}]" in mine for row in rows if row[3] == "01")

    def demand_alive(self) -> None:
        if self.started.poll() is not None:
            raise SystemExit(f"{self.name} ended with {self.started.returncode}")


def measured_core() -> int:
    return min(os.sched_getaffinity(0))


def other_core() -> int:
    return max(os.sched_getaffinity(0))


@contextmanager
def process(name: str, command: Sequence[str], *, core: int, **how: Any) -> Iterator[Process]:
    """Run a command on one core, stopped at the end."""
    started = subprocess.Popen(command, text=True, cwd=ROOT, **how)
    os.sched_setaffinity(started.pid, {core})
    try:
        yield Process(name, started)
    finally:
        started.terminate()
        try:
            started.wait(10)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()
        if started.stdout:
            started.stdout.close()


@contextmanager
def server(name: str, *command: str, core: int) -> Iterator[tuple[Process, str]]:
    """A Python module that serves and prints its address first."""
    with process(name, [sys.executable, "-m", *command], core=core, stdout=subprocess.PIPE) as running:
        assert running.started.stdout
        yield running, running.started.stdout.readline().strip()


@dataclass(frozen=True, slots=True)
class World:
    """A folder with settings, and the storage that they name. Processes of deskmate run in it."""

    folder: Path
    redis: Process
    redis_url: str
    store: Store
    mailbox: Mailbox
    bell: Bell

    @property
    def settings(self) -> Path:
        return self.folder / "deskmate.yaml"

    def configure(self, **sections: Any) -> None:
        """Write the settings: those given, on top of a default without the chat page and with a roomy mailbox."""
        settings = {"chat": {"enabled": False}, "gateway": {"port": 0}, "mailbox": ROOMY, **sections}
        self.settings.write_text(yaml.safe_dump(settings), encoding="utf-8")

    @contextmanager
    def deskmate(self, *arguments: str, stock_loop: bool = False, core: int | None = None) -> Iterator[Process]:
        """A process of the product. Its log goes to a file, at the level of the settings."""
        log = self.folder / f"{arguments[0]}.log"
        start = ["-c", _ON_STOCK_LOOP] if stock_loop else ["-m", "gateway.cli"]
        command = [sys.executable, *start, "--config", str(self.settings), *arguments]
        variables = {**environment(), "REDIS_URL": self.redis_url}
        with log.open("a", encoding="utf-8") as written:
            where = measured_core() if core is None else core
            with process(arguments[0], command, core=where, stderr=written, env=variables) as running:
                yield running

    async def logged(self, name: str, event: str, within_s: float = 30.0) -> str:
        """Wait for a line of a process's log."""
        file = self.folder / f"{name}.log"
        async with asyncio.timeout(within_s):
            while True:
                for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
                    if event in line:
                        return line
                await asyncio.sleep(0.02)

    async def until_settled(self, within_s: float) -> None:
        """Wait until no conversation is held or waits."""

        async def quiet() -> bool:
            root = self.store.layout.root(0)
            return not int(await self.store.redis.zcard(f"{root}:due") or 0) and not int(
                await self.store.redis.get(f"{root}:waiting") or 0
            )

        await until(quiet, within_s)


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    """Storage as `deskmate up` would start it, and settings with a mailbox that is never full."""
    with tempfile.TemporaryDirectory(prefix="deskmate-bench-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        place = folder / "redis.sock"
        command = server_command(find_program(), folder, place, fsync=False)
        redis = stack.enter_context(process("redis", command, core=other_core(), stdout=subprocess.DEVNULL))
        url = socket_url(place)
        store = open_store(url, Layout("dm", 1), timeout_s=10.0)
        async with asyncio.timeout(10):
            while not place.exists():  # noqa: ASYNC110  # another process gives no event
                await asyncio.sleep(0.01)
        mailbox = Mailbox(store, MailboxSettings.model_validate(ROOMY))
        bell = open_bell(url, RqSettings(), wait_s=2.0)
        await mailbox.open()
        try:
            here = World(folder, redis, url, store, mailbox, bell)
            here.configure()
            yield here
        finally:
            await bell.close()
            await store.close()


def slack(api_base: str) -> dict[str, Any]:
    """A connection's settings; secrets are named, as the settings demand, and put into the environment."""
    os.environ["BENCH_SLACK_SECRET"] = SIGNING_SECRET  # noqa: TID251  # for the processes that we start
    os.environ["BENCH_SLACK_TOKEN"] = "xoxb-bench"  # noqa: TID251
    return {
        "platform": "slack",
        "api_base": api_base,
        "signing_secret": "$BENCH_SLACK_SECRET",
        "bot_token": "$BENCH_SLACK_TOKEN",
    }


def webhooks(sink: str) -> dict[str, Any]:
    os.environ["BENCH_WEBHOOK_SECRET"] = WEBHOOK_SECRET  # noqa: TID251
    return {"platform": "standard_webhooks", "secret": "$BENCH_WEBHOOK_SECRET", "reply_url": f"{sink}/replies"}


def model(url: str) -> dict[str, Any]:
    os.environ["BENCH_MODEL_KEY"] = KEY  # noqa: TID251
    return {"provider": "anthropic", "name": "fake", "base_url": url, "api_key": "$BENCH_MODEL_KEY"}


async def until(holds: Callable[[], Any], within_s: float, every_s: float = 0.02) -> None:
    """Wait until it holds. Raises `TimeoutError`."""
    async with asyncio.timeout(within_s):
        while not await holds():  # noqa: ASYNC110  # another process gives no event
            await asyncio.sleep(every_s)


def allow_files() -> None:
    """Thousands of connections need as many open files, here and in what we start."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def rounds_of(*names: str, rounds: int) -> list[str]:
    """A B, then B A, then A B ...: what drifts meanwhile falls on all alike."""
    return [name for number in range(rounds) for name in (names if number % 2 == 0 else names[::-1])]


MARGIN: Final = 1.25
"""What the noise of a shared machine may add to a figure before the command fails."""


@dataclass(slots=True)
class Verdicts:
    """Figures against goals, printed as they come."""

    missed: int = 0

    def tell(self, name: str, value: float, goal: float, unit: str = "") -> None:
        verdict = "met" if value <= goal else "within the margin" if value <= goal * MARGIN else "MISSED"
        self.missed += verdict == "MISSED"
        print(f"{name:44} {value:9.2f} {unit:6} goal <= {goal:g}: {verdict}", flush=True)

    def end(self) -> None:
        if self.missed:
            sys.exit(1)


def told(name: str, values: Sequence[float], unit: str) -> float:
    """Print the median and all values; gives the median."""
    middle = statistics.median(values)
    print(f"{name:44} {middle:9.2f} {unit:6} ({', '.join(f'{value:.2f}' for value in values)})", flush=True)
    return middle


def first_line(file: Path) -> dict[str, Any]:
    with file.open(encoding="utf-8") as lines:
        found: dict[str, Any] = json.loads(next(lines))
        return found
