"""The way to a server that is a program here: JSON-RPC, a message a line, over its standard input and output.

Instead of the SDK's own: lines have a limit, the environment is what the settings name, standard error goes to our log,
and nothing of it outlives the worker, however that ends (`skills/kept.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, TypeVar

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, jsonrpc_message_adapter
from pydantic import ValidationError

from config.settings import McpServerSettings
from gateway.logs import log
from skills import inside
from workers.mcp.bounds import Commas, Gate, TooMany

logger = logging.getLogger(__name__)

END_S: Final = 2.0
"""How long a server may take to end once its standard input is closed, before it is told to."""
KEPT: Final = Path(inside.__file__).with_name("kept.py")
GONE_S: Final = 5.0
"""And how long all of it may take to be gone after that, before it is killed from outside."""
UNASKED_MAX: Final = 5_000
"""Messages between two requests of ours: progress, log lines. A server that sends more is ended."""
UNASKED_MESSAGES: Final = 8
"""And their bytes, in messages of the greatest length. Answers are among them, of all calls under way."""
JUNK_MAX: Final = 100
"""Lines that are no message. Some servers greet."""
PRINTED_MAX: Final = 200
"""Lines of standard error that reach the log, of one session."""
LINE_MAX: Final = 500

T = TypeVar("T")
Incoming = MemoryObjectSendStream[SessionMessage | Exception]
Outgoing = MemoryObjectReceiveStream[SessionMessage]


class Life:
    """What becomes of one process, for whoever holds the session."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.over = asyncio.Event()
        self.why = ""
        """Why it can't be used any more."""
        self.said = ""
        """The last line that it wrote to standard error."""
        self.unasked = 0
        self.unasked_bytes = 0
        self.is_asked_to_end = False
        """It did nothing wrong: it gets its time."""

    def end(self, why: str) -> None:
        """The first reason counts."""
        self.why = self.why or why
        self.over.set()

    def broke(self, error: BaseException) -> None:
        """By the first of what went wrong at once."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, ValidationError):
            self.end("answers what the protocol does not allow")
        elif isinstance(error, Exception):
            self.end(f"can't be reached: {' '.join(str(error).split())[:LINE_MAX] or type(error).__name__}")
        else:
            self.end("was put away")


@asynccontextmanager
async def stdio(server: McpServerSettings, life: Life) -> AsyncIterator[TransportStreams]:
    """Start it, and end it with all that it started. Raises `OSError`, `ValueError`."""
    holds, leash = os.pipe()
    script = [sys.executable, "-I", "-S", str(KEPT), str(holds)]
    loop = asyncio.get_running_loop()
    pipes = asyncio.subprocess.PIPE
    try:
        transport, protocol = await loop.subprocess_exec(
            lambda: asyncio.subprocess.SubprocessStreamProtocol(server.message_max_bytes, loop),
            *script,
            *server.command,
            stdin=pipes,
            stdout=pipes,
            stderr=pipes,
            env=dict(server.env),
            cwd=server.cwd or "/",
            pass_fds=(holds,),
            start_new_session=True,
        )
    except BaseException:
        os.close(leash)
        raise
    finally:
        os.close(holds)
    process = asyncio.subprocess.Process(transport, protocol, loop)
    heard_in, heard = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    said, said_out = anyio.create_memory_object_stream[SessionMessage](0)
    works = [
        asyncio.create_task(_hear(process, heard_in, life, UNASKED_MESSAGES * server.message_max_bytes)),
        asyncio.create_task(_tell(process, said_out, life)),
        asyncio.create_task(_overhear(process, life)),
    ]
    try:
        yield Gate(heard), said
    except BaseException as error:
        life.broke(error)  # before its end becomes the reason
        raise
    finally:
        with anyio.CancelScope(shield=True):
            heard.close()
            said.close()
            await _end(process, leash, END_S if life.is_asked_to_end else 0)
            for work in works:
                work.cancel()
            await asyncio.gather(*works, return_exceptions=True)
            transport.close()  # it may wait for room that nobody makes any more
            heard_in.close()
            said_out.close()


async def _hear(process: asyncio.subprocess.Process, heard: Incoming, life: Life, unasked_max_bytes: int) -> None:
    junk = 0
    try:
        while line := await _line(process.stdout):
            life.unasked += 1
            life.unasked_bytes += len(line)
            Commas().take(line)
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                junk += bool(line.strip())
                if junk > JUNK_MAX:
                    return life.end(f"wrote more than {JUNK_MAX} lines that are no messages")
                continue
            if life.unasked > UNASKED_MAX:
                return life.end(f"sent more than {UNASKED_MAX:,} messages that nobody had asked for")
            if life.unasked_bytes > unasked_max_bytes:
                return life.end(f"sent more than {unasked_max_bytes:,} bytes between two requests")
            await heard.send(SessionMessage(message))
        life.end("ended")
    except TooMany as why:
        life.end(f"sent a message that {why}")
    except ValueError:
        life.end("sent a message that is too long")
    except (anyio.ClosedResourceError, anyio.BrokenResourceError):
        life.end("ended")
    finally:
        heard.close()  # whoever waits for an answer hears that none will come


async def _tell(process: asyncio.subprocess.Process, said: Outgoing, life: Life) -> None:
    stdin = _there(process.stdin)
    try:
        async for one in said:
            if isinstance(one.message, JSONRPCRequest):
                life.unasked = life.unasked_bytes = 0
            stdin.write(one.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            await stdin.drain()
    except OSError:
        life.end("ended")
    finally:
        with contextlib.suppress(OSError):
            stdin.close()


async def _overhear(process: asyncio.subprocess.Process, life: Life) -> None:
    """What it prints besides may hold what people wrote: it is for who debugs. It is read to its end, as a full pipe
    would hold up the server.
    """
    printed = 0
    stderr = _there(process.stderr)
    while chunk := await stderr.read(65_536):
        for line in chunk.decode("utf-8", "replace").splitlines():
            if not line.strip():
                continue
            life.said = line.strip()[:LINE_MAX]
            printed += 1
            if printed <= PRINTED_MAX:
                rest = printed == PRINTED_MAX
                log(logger, "mcp server printed", level=logging.DEBUG, server=life.name, text=life.said, last=rest)


async def _end(process: asyncio.subprocess.Process, leash: int, within_s: float) -> None:
    """As the protocol wants it: its input is closed, and what does not end by that is told to, and then killed."""
    with contextlib.suppress(OSError):
        _there(process.stdin).close()
    if not await _ended(process, within_s):
        os.close(leash)
        leash = -1
        if not await _ended(process, GONE_S):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await _ended(process, GONE_S)
    if leash >= 0:
        os.close(leash)


async def _ended(process: asyncio.subprocess.Process, within_s: float) -> bool:
    """Not `process.wait()`, which waits for the end of what it prints, too."""
    until_s = asyncio.get_running_loop().time() + within_s
    while process.returncode is None:
        if asyncio.get_running_loop().time() >= until_s:
            return False
        await asyncio.sleep(0.01)
    return True


async def _line(stream: asyncio.StreamReader | None) -> bytes:
    return await _there(stream).readline()


def _there(pipe: T | None) -> T:
    if pipe is None:
        raise ValueError("a process without the pipes that were asked for")
    return pipe
