"""Runs one command for `skills.commands`, in the sandbox, as the program of a skill is run.

The files come with the parameters and are laid out in a folder of their own, which the command works in; those that it changed go
back with the result. Nothing else of what it leaves counts.
"""

from __future__ import annotations

import base64
import hashlib
import os
import selectors
import stat
import subprocess
import sys
import time
from typing import Any

LOOK_EVERY_S = 0.02
DRAIN_S = 0.2
"""How long after its end its last words may take, where somebody that it left behind holds its output."""
LEFT_TOLD = 10


def run(params: dict[str, Any]) -> dict[str, Any]:
    os.mkdir("work")
    before = {}
    for path, packed in params["files"].items():
        content = base64.b64decode(packed)
        before[path] = hashlib.sha1(content, usedforsecurity=False).hexdigest()
        os.makedirs(os.path.join("work", os.path.dirname(path)), exist_ok=True)
        with open(os.path.join("work", path), "wb") as file:
            file.write(content)
    out, err = Printed(params["printed_bytes"]), Printed(params["printed_bytes"])
    code = carry_out(params["command"], params["timeout_s"], out, err)
    return {"code": code, "out": out.said(), "err": err.said(), **collected(before, params)}


def carry_out(command: str, timeout_s: float, out: Printed, err: Printed) -> int | None:
    """Its exit code, negative for a signal; None if its time was over."""
    own = os.environ  # noqa: TID251  # the sandbox's
    child = subprocess.Popen(
        ["/bin/sh", "-c", command],
        cwd="work",
        env={**own, "PATH": f"{own['PATH']}:{os.path.dirname(sys.executable)}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    ends, code = time.monotonic() + timeout_s, None
    with selectors.DefaultSelector() as reading:
        for pipe, kept in ((child.stdout, out), (child.stderr, err)):
            assert pipe is not None  # noqa: S101  # asked for
            reading.register(pipe, selectors.EVENT_READ, kept)
        while time.monotonic() < ends and (code is None or reading.get_map()):
            for key, _ in reading.select(LOOK_EVERY_S):
                piece = os.read(key.fd, 65_536)
                key.data.add(piece)
                if not piece:
                    reading.unregister(key.fileobj)
            if code is None and (code := child.poll()) is not None:
                ends = min(ends, time.monotonic() + DRAIN_S)
    return code


class Printed:
    """The beginning and the end of what was printed, and how long all of it is."""

    def __init__(self, most: int) -> None:
        self._head_bytes = most * 3 // 4
        self._tail_bytes = most - self._head_bytes
        self._head = b""
        self._tail = b""
        self._total = 0

    def add(self, piece: bytes) -> None:
        self._total += len(piece)
        room = self._head_bytes - len(self._head)
        self._head += piece[:room]
        self._tail = (self._tail + piece[room:])[-self._tail_bytes :]

    def said(self) -> list[Any]:
        return [*(base64.b64encode(part).decode() for part in (self._head, self._tail)), self._total]


def collected(before: dict[str, str], params: dict[str, Any]) -> dict[str, Any]:
    """What became of the files: those with other contents, those that are gone, and what is not taken along."""
    files: dict[str, str] = {}
    seen: set[str] = set()
    left: list[list[str]] = []
    left_total = size = 0
    unseen: list[OSError] = []
    for folder, folders, names in os.walk("work", onerror=unseen.append):
        folders[:] = sorted(one for one in folders if not one.startswith("."))
        for name in sorted(one for one in names if not one.startswith(".")):
            whole = os.path.join(folder, name)
            path = os.path.relpath(whole, "work")
            content, why = contents(whole, params["file_max_bytes"])
            if why is None:
                seen.add(path)
                if hashlib.sha1(content, usedforsecurity=False).hexdigest() == before.get(path):
                    continue
                size += len(content)
                if len(files) < params["files_max"] and size <= params["total_max_bytes"]:
                    files[path] = base64.b64encode(content).decode()
                    continue
                why = "too much altogether"
            seen.add(path)
            left_total += 1
            left += [[path, why]] if len(left) < LEFT_TOLD else []
    taken = [] if unseen else sorted(before.keys() - seen)
    return {"files": files, "taken": taken, "left": left, "left_total": left_total}


def contents(path: str, most: int) -> tuple[bytes, str | None]:
    """What is in a file, or why it is not taken along. Nothing that is no plain file is opened for long."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        return b"", "a link" if os.path.islink(path) else str(error.strerror)
    with open(handle, "rb") as file:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            return b"", "no plain file"
        if about.st_size > most:
            return b"", f"{about.st_size:,} bytes, {most:,} may be kept"
        return file.read(most), None
