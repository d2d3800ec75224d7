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
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from skills import runs, seccomp
from skills.runs import Limits, Output, Stopped

INSIDE: Final = Path(__file__).with_name("inside.py")
CONFINED: Final = Path(__file__).with_name("confined.py")
FIXED: Final = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}

Kind = Literal["bubblewrap", "sandlock", "bare"]


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
            return await runs.run(command, handles, env, job.params, limits)

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
    if not home.is_relative_to("/usr") and home != Path("/"):
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
