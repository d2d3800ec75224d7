"""One run of a program: started, heard out up to its limits, and ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from skills import inside

END_S: Final = 3.0
"""How long a program that must end may take to be gone, before it is killed from outside."""
CHATTER_MAX_BYTES: Final = 1_048_576
"""What a program may print beside its result."""
CHATTER_KEPT_BYTES: Final = 8_192


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


async def run(
    command: Sequence[str], handles: Sequence[int], env: Mapping[str, str], params: bytes, limits: Limits
) -> Output:
    """Run a command that `inside` watches over, to its end. When this returns or raises, all of it is gone.

    `handles` are open files that the command gets. Raises `Stopped`.
    """
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
