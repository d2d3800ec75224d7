"""The text of PDF files, read by a process of its own (`pdf_reader`) that has limits and ends with the reading."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from gateway.running.children import leashed

READER: Final = Path(__file__).with_name("pdf_reader.py")
LINE_MAX_BYTES: Final = 4 * 1_024 * 1_024
_AT_ONCE: Final = 2
"""Readers of a process; the others wait."""


class Unreadable(Exception):
    """There is no text to be had. `str()` goes on from the file's name."""


@dataclass(frozen=True, slots=True)
class Pages:
    """What was read."""

    text: str
    """Page by page, each under its number."""
    title: str
    read: int
    """How many pages stand in `text`."""
    total: int
    in_time: bool
    """False: the time was over before there was enough."""

    is_blank: bool
    """None of these pages has any text."""

    @property
    def goes_on(self) -> bool:
        return self.read < self.total


class Pdfs:
    """One a process."""

    def __init__(self, timeout_s: float, *, reader: Path = READER) -> None:
        self._timeout_s = timeout_s
        self._reader = reader
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def read(self, raw: bytes, enough: int) -> Pages:
        """Pages from the first one on, until there are more than `enough` characters. Raises `Unreadable`.

        What was read before stays the same however much is wanted.
        """
        async with self._places:
            child = await asyncio.create_subprocess_exec(
                *leashed([sys.executable, "-I", "-B", str(self._reader)]),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env={},
                start_new_session=True,
                limit=LINE_MAX_BYTES,
            )
            feeding = asyncio.create_task(_feed(child, raw))
            try:
                return await self._hear(child, enough)
            finally:
                feeding.cancel()
                with contextlib.suppress(ProcessLookupError):
                    child.kill()
                await child.wait()
                await asyncio.gather(feeding, return_exceptions=True)

    async def _hear(self, child: asyncio.subprocess.Process, enough: int) -> Pages:
        head: dict[str, Any] = {}
        pages: list[str] = []
        is_blank = True
        length, in_time = 0, True
        try:
            async with asyncio.timeout(self._timeout_s):
                head = await _line(child)
                while length <= enough and (said := await _line(child)):
                    number = len(pages) + 1
                    text = said["text"]
                    is_blank = is_blank and not (text and text.strip())
                    pages.append(f"[Page {number}]\n{'(it can not be read)' if text is None else text.strip()}")
                    length += len(pages[-1]) + 2
        except TimeoutError:
            in_time = False
        if head.get("refused") == "locked":
            raise Unreadable("is locked by a password, so its text can't be read")
        if "pages" not in head:
            raise Unreadable("is broken, or no PDF" if in_time else f"could not be opened within {self._timeout_s:g} s")
        # A reader that ends early was ended by its limits.
        is_whole = len(pages) == head["pages"] or length > enough
        return Pages("\n\n".join(pages), head["title"], len(pages), head["pages"], in_time and is_whole, is_blank)


async def _feed(child: asyncio.subprocess.Process, raw: bytes) -> None:
    assert child.stdin is not None  # noqa: S101  # asked for
    child.stdin.write(raw)
    await child.stdin.drain()  # one that has ended meanwhile is noticed by who hears it
    child.stdin.close()


async def _line(child: asyncio.subprocess.Process) -> dict[str, Any]:
    """The next thing that it says; nothing at its end."""
    assert child.stdout is not None  # noqa: S101  # asked for
    try:
        said = orjson.loads(await child.stdout.readline())
    except ValueError:  # it broke off, said too much, or something else
        return {}
    return said if isinstance(said, dict) and said.keys() & {"pages", "refused", "text"} else {}
