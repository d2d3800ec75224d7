"""The sandbox: a program of a skill runs in a process that sees its own files, a private folder, and nothing else.

Three kinds of cage. In bubblewrap a program has a file system, a network and a list of processes of its own; in
sandlock the kernel refuses what is outside; bare, where the operator allowed that by name, it has only limits.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import secrets
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, cast

from skills import inside, seccomp

INSIDE: Final = Path(__file__).with_name("inside.py")
CONFINED: Final = Path(__file__).with_name("confined.py")
END_S: Final = 3.0
"""How long a program that must end may take to be gone, before it is killed from outside."""
CHATTER_MAX_BYTES: Final = 1_048_576
"""What a program may print beside its result."""
CHATTER_KEPT_BYTES: Final = 8_192
FIXED: Final = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}

Kind = Literal["bubblewrap", "sandlock", "bare"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run may use, all its processes together unless it says otherwise."""

    wall_s: float = 30.0
    cpu_s: int = 20
    """Of each process."""
    memory_bytes: int = 512 * 1_024 * 1_024
    disk_bytes: int = 64 * 1_024 * 1_024
    """In its private folder."""
    files: int = 2_000
    processes: int = 32
    output_bytes: int = 300_000
    """Its result."""


@dataclass(frozen=True, slots=True)
class Job:
    """What is to run."""

    bundle: Path
    """The folder with main.py. Nothing is written to it."""
    params: bytes
    """A JSON object, on one line."""
    env: Mapping[str, str] = field(default_factory=dict)
    """All of the program's environment, but for `FIXED`, HOME and TMPDIR."""
    network: bool = False
    packages: Path | None = None
    """A folder of Python packages that it may import."""


@dataclass(frozen=True, slots=True)
class Output:
    """What came of a run. Every byte of it is the program's word."""

    result: bytes
    failed: bool
    """It raised; the result says what."""
    chatter: str
    """The end of what it printed."""


class Stopped(Exception):
    """The program came to no result. `str()` goes on from its name: `took longer than 30 s`."""

    def __init__(self, why: str, chatter: str = "") -> None:
        super().__init__(why)
        self.chatter = chatter


@dataclass(frozen=True, slots=True)
class Cage:
    """A way to run programs that works on this machine."""

    kind: Kind
    program: str = ""
    """Where bubblewrap is."""
    as_root: bool = False
    """We are root: bubblewrap needs no user namespace, and each run gets a user of its own."""

    async def run(self, job: Job, limits: Limits) -> Output:
        """Run a job to its end. When this returns or raises, none of its processes is left. Raises `Stopped`."""
        if self.kind == "bare" and os.geteuid() == 0:
            # It could end every process of the machine: no list of names can allow that.
            raise Stopped("is not run without a sandbox, because deskmate runs as root")
        async with self._command(job, limits) as (command, handles, env):
            return await _run(command, handles, env, job.params, limits)

    @asynccontextmanager
    async def _command(
        self, job: Job, limits: Limits
    ) -> AsyncIterator[tuple[Sequence[str], Sequence[int], Mapping[str, str]]]:
        if self.kind == "bubblewrap":
            filtered = seccomp.filter_for()
            with contextlib.ExitStack() as opened:
                handles = [opened.enter_context(_in_memory(filtered))] if filtered else []
                env = {**job.env, **FIXED, "HOME": "/tmp", "TMPDIR": "/tmp"}  # noqa: S108  # the sandbox's own
                yield self._bubblewrap(job, limits, handles), handles, env
            return
        # Its files may be within reach of other programs: this run gets copies of its own.
        with tempfile.TemporaryDirectory(prefix="deskmate-program-", ignore_cleanup_errors=True) as folder:
            bundle, temp = Path(folder, "skill"), Path(folder, "temp")
            await asyncio.to_thread(shutil.copytree, job.bundle, bundle)
            temp.mkdir()
            command = [*_python(), str(INSIDE), json.dumps(_orders(limits, str(bundle), str(temp), job.packages))]
            if self.kind == "sandlock":
                policy = json.dumps(_policy(job, limits, bundle, temp))
                command = [sys.executable, "-I", "-B", str(CONFINED), policy, *command]
            yield command, (), {**job.env, **FIXED, "HOME": str(temp), "TMPDIR": str(temp)}

    def _bubblewrap(self, job: Job, limits: Limits, handles: Sequence[int]) -> list[str]:
        user = 61_184 + secrets.randbelow(4_000) if self.as_root else 0
        orders = _orders(limits, "/skill", "/tmp", Path("/packages") if job.packages else None)  # noqa: S108  # its own
        orders |= {"uid": user, "own_temp": True, "own_user": True}
        return [
            self.program,
            *(("--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID") if self.as_root else _USER_NAMESPACE),
            *("--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try", "--hostname", "skill"),
            *(() if job.network else ("--unshare-net",)),
            *("--die-with-parent", "--new-session", "--as-pid-1"),
            *_system(),
            *(_NETWORK_FILES if job.network else ()),
            *("--proc", "/proc", "--dev", "/dev"),
            *("--perms", "1777", "--size", str(limits.disk_bytes), "--tmpfs", "/tmp"),  # noqa: S108  # its own
            *("--ro-bind", str(job.bundle), "/skill", "--ro-bind", str(INSIDE), "/inside.py"),
            *(("--ro-bind", str(job.packages), "/packages") if job.packages else ()),
            *("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp"),  # noqa: S108  # its own
            *(("--seccomp", str(handles[0])) if handles else ()),
            *("--", *_python(), "/inside.py", json.dumps(orders)),
        ]


_USER_NAMESPACE: Final = ("--unshare-user", "--disable-userns", "--uid", "61184", "--gid", "61184")
_NETWORK_FILES: Final = tuple(
    word
    for path in ("resolv.conf", "hosts", "nsswitch.conf", "ssl", "pki", "ca-certificates")
    for word in ("--ro-bind-try", f"/etc/{path}", f"/etc/{path}")
)


def _system() -> list[str]:
    """What Python needs of this machine, to be read only."""
    mounts = [*_open_folder(Path("/etc")), "--ro-bind", "/usr", "/usr"]
    mounts += ["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        place = Path("/", name)
        if place.is_symlink():
            mounts += ["--symlink", str(place.readlink()), str(place)]
        elif place.is_dir():
            mounts += ["--ro-bind", str(place), str(place)]
    home = Path(sys.base_prefix).resolve()
    if not home.is_relative_to("/usr"):
        for parent in reversed(home.parents[:-1]):
            mounts += _open_folder(parent)
        mounts += ["--ro-bind", str(home), str(home)]
    return mounts


def _open_folder(place: Path) -> list[str]:
    """An empty folder. One that bubblewrap makes unasked, on its way to a mount, only its owner may enter."""
    return ["--perms", "0755", "--dir", str(place)]


def _policy(job: Job, limits: Limits, bundle: Path, temp: Path) -> dict[str, object]:
    """What sandlock allows. Whatever is not named is refused."""
    system = ["/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/proc", "/dev/null", "/dev/urandom"]
    network = ["/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/ssl", "/etc/pki", "/etc/ca-certificates"]
    readable = [*system, sys.base_prefix, *(network if job.network else ()), *([job.packages] if job.packages else ())]
    return {
        "fs_readable": [*(str(path) for path in readable if Path(path).exists()), str(bundle), str(INSIDE)],
        "fs_writable": [str(temp)],
        "net_allow": ["*:*"] if job.network else [],
        "max_memory": limits.memory_bytes,
        "max_processes": limits.processes,
        "no_coredump": True,
        "cwd": str(temp),
    }


def _python() -> list[str]:
    """The interpreter that we run on, without what was installed for us, deaf to the environment."""
    return [str(Path(sys.executable).resolve()), "-I", "-S", "-B", "-X", "utf8"]


def _orders(limits: Limits, bundle: str, temp: str, packages: Path | None) -> dict[str, object]:
    return {
        "bundle": bundle,
        "temp": temp,
        "packages": str(packages) if packages else None,
        "uid": 0,
        "own_temp": False,
        "own_user": False,
        "cpu_s": limits.cpu_s,
        "memory_bytes": limits.memory_bytes,
        "disk_bytes": limits.disk_bytes,
        "files": limits.files,
        "processes": limits.processes,
    }


@contextlib.contextmanager
def _in_memory(raw: bytes) -> Iterator[int]:
    """A file without a name that holds this, from its beginning."""
    handle = os.memfd_create("filter")
    try:
        os.write(handle, raw)
        os.lseek(handle, 0, os.SEEK_SET)
        yield handle
    finally:
        os.close(handle)


async def _run(
    command: Sequence[str], handles: Sequence[int], env: Mapping[str, str], params: bytes, limits: Limits
) -> Output:
    transport, listener = await asyncio.get_running_loop().subprocess_exec(
        lambda: _Listener(limits.output_bytes),
        *command,
        env=dict(env),
        cwd="/",
        pass_fds=tuple(handles),
        start_new_session=True,
    )
    try:
        leash = cast("asyncio.WriteTransport", transport.get_pipe_transport(0))
        leash.write(params + b"\n")
        async with asyncio.timeout(limits.wall_s):
            await listener.over.wait()
    except TimeoutError:
        raise Stopped(f"took longer than {limits.wall_s:g} s", listener.said) from None
    finally:
        await _end(transport, listener)
    code = transport.get_returncode()
    if listener.flooded:
        raise Stopped(listener.flooded, listener.said)
    if code in {0, inside.FAILED} and listener.result:
        return Output(bytes(listener.result), code == inside.FAILED, listener.said)
    raise Stopped(_why(code, limits), listener.said)


async def _end(transport: asyncio.SubprocessTransport, listener: _Listener) -> None:
    """Let go of the leash: who watches inside ends everybody and itself. If it does not, kill it from outside."""
    try:
        leash = cast("asyncio.WriteTransport", transport.get_pipe_transport(0))
        if not leash.is_closing():
            leash.abort()
        for _ in range(2):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(END_S):
                    await listener.exited.wait()
                break
            _kill(transport.get_pid())
    finally:
        if transport.get_returncode() is None:
            _kill(transport.get_pid())
        transport.close()


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _why(code: int | None, limits: Limits) -> str:
    match code:
        case inside.MEMORY:
            return f"used more than {limits.memory_bytes // 1_048_576} MiB of memory"
        case inside.PROCESSES:
            return f"started more than {limits.processes} processes"
        case inside.FILES:
            return f"made more than {limits.files:,} files or {limits.disk_bytes // 1_048_576} MiB of them"
        case inside.ENDED | inside.FAILED | 0:
            return f"ended without a result, or used more than {limits.cpu_s} s of CPU"
    return "could not be started, or was killed from outside"


class _Listener(asyncio.SubprocessProtocol):
    """Hears a program out, up to a limit, and knows when it has ended."""

    def __init__(self, result_max_bytes: int) -> None:
        self._result_max_bytes = result_max_bytes
        self._chatter_bytes = 0
        self._chatter = b""
        self.result = bytearray()
        self.flooded = ""
        self.exited = asyncio.Event()
        self.over = asyncio.Event()
        """There is nothing more to hear: everybody has ended, or has said too much."""

    @property
    def said(self) -> str:
        """The end of what it printed."""
        return self._chatter.decode(errors="replace")

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if self.flooded:
            return
        if fd == 1:
            self.result += data
        else:
            self._chatter_bytes += len(data)
            self._chatter = (self._chatter + data)[-CHATTER_KEPT_BYTES:]
        if len(self.result) > self._result_max_bytes:
            self.flooded = f"gave a result of more than {self._result_max_bytes:,} bytes"
        elif self._chatter_bytes > CHATTER_MAX_BYTES:
            self.flooded = f"printed more than {CHATTER_MAX_BYTES:,} bytes"
        if self.flooded:
            self.over.set()

    def process_exited(self) -> None:
        self.exited.set()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.over.set()


# ---- which cages there are ----


@dataclass(frozen=True, slots=True)
class Found:
    """The cage of this machine, or why there is none."""

    cage: Cage | None
    reasons: tuple[str, ...] = ()
    """What was tried in vain."""


async def find() -> Found:
    """The best cage that works here: each is tried with a program that only has to start."""
    reasons = []
    for cage in _candidates():
        try:
            with tempfile.TemporaryDirectory(prefix="deskmate-program-") as folder:
                Path(folder).chmod(0o755)
                Path(folder, "main.py").write_text("import socket, subprocess\ndef run(params):\n    return 'ok'\n")
                output = await cage.run(Job(Path(folder), b"{}"), Limits())
        except (Stopped, OSError) as error:
            said = getattr(error, "chatter", "").strip().rpartition("\n")[2]
            reasons.append(f"{cage.kind}: {said or error}")
        else:
            if not output.failed:
                return Found(cage, tuple(reasons))
            reasons.append(f"{cage.kind}: {output.result.decode(errors='replace')[:200]}")
    return Found(None, tuple(reasons) or ("neither bubblewrap nor sandlock is installed",))


def _candidates() -> Iterator[Cage]:
    if program := shutil.which("bwrap"):
        if os.geteuid() == 0:
            yield Cage("bubblewrap", program, as_root=True)
        yield Cage("bubblewrap", program)
    if importlib.util.find_spec("sandlock"):
        yield Cage("sandlock")


BARE: Final = Cage("bare")
"""No cage at all but for limits: only for programs that the operator named, and never as root."""
