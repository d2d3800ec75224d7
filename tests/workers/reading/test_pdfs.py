"""PDFs are read by a process of its own: whatever a file does, the worker goes on and no reader is left."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import psutil
import pytest

from tests.harness.pdf import locked, pdf
from tests.harness.processes import until
from workers.reading.pdf_reader import CPU_S, MEMORY_MAX_BYTES
from workers.reading.pdfs import READER, Pdfs, Unreadable


def readers() -> list[int]:
    """Those that this process has started and that are there."""
    ours = {child.pid for child in psutil.Process().children()}
    every = psutil.process_iter(["cmdline"])
    return [one.pid for one in every if one.pid in ours and (one.info["cmdline"] or [""])[-1].endswith("reader.py")]


async def test_pages_are_read_under_their_numbers_with_the_title() -> None:
    pages = await Pdfs(30).read(pdf("Opening hours\nDaily", "Prices", title="The house"), 10_000)
    assert pages.text == "[Page 1]\nOpening hours\nDaily\n\n[Page 2]\nPrices"
    assert (pages.title, pages.read, pages.total, pages.in_time) == ("The house", 2, 2, True)
    assert (pages.goes_on, pages.is_blank) == (False, False)
    assert readers() == []


async def test_no_more_pages_are_read_than_are_enough_and_the_beginning_stays_the_same() -> None:
    raw = pdf(*(f"Page number {number}" for number in range(1, 41)))
    some, more = await Pdfs(30).read(raw, 60), await Pdfs(30).read(raw, 300)
    assert len(some.text) > 60
    assert some.read < more.read < some.total == 40
    assert more.text.startswith(some.text)
    assert some.goes_on


async def test_what_anybody_may_read_is_read_and_what_is_locked_is_told() -> None:
    assert "Hello" in (await Pdfs(30).read(locked(pdf("Hello"), ""), 100)).text
    with pytest.raises(Unreadable, match="locked by a password"):
        await Pdfs(30).read(locked(pdf("Hello"), "secret"), 100)


async def test_pages_without_a_text_are_told_apart() -> None:
    pages = await Pdfs(30).read(pdf(b"q 1 0 0 1 0 0 cm Q", b""), 100)
    assert (pages.is_blank, pages.total) == (True, 2)


@pytest.mark.parametrize("raw", [b"", b"%PDF-1.7\n", b"<html>", pdf("Hello")[:200], b"%PDF-1.7\n" + b"[" * 200_000])
async def test_what_is_no_pdf_is_told(raw: bytes) -> None:
    with pytest.raises(Unreadable, match="broken, or no PDF"):
        await Pdfs(30).read(raw, 100)


async def test_a_file_that_turns_in_circles_ends() -> None:
    kids = pdf("Hello").replace(b"/Kids [4 0 R]", b"/Kids [2 0 R]")
    with pytest.raises(Unreadable):
        await Pdfs(30).read(kids, 100)


async def test_a_page_that_unpacks_without_end_harms_no_other_page() -> None:
    bomb = b"BT /F 12 Tf " + bytes(120_000_000)
    pages = await Pdfs(30).read(pdf("Before", bomb, "After"), 10_000)
    assert pages.text.startswith("[Page 1]\nBefore\n\n[Page 2]")
    assert readers() == []


def script(folder: Path, does: str) -> Path:
    file = folder / "reader.py"
    file.write_text(f"import json, os, sys, time\n{does}")
    return file


SAYS = "print(json.dumps({'pages': 3, 'title': ''}))\nprint(json.dumps({'text': 'First'}), flush=True)\n"


async def test_a_reader_that_takes_for_ever_is_ended_and_what_it_had_read_is_told(tmp_path: Path) -> None:
    hangs = script(tmp_path, f"{SAYS}time.sleep(600)")
    pages = await Pdfs(2, reader=hangs).read(pdf("x"), 10_000)
    assert (pages.text, pages.read, pages.in_time) == ("[Page 1]\nFirst", 1, False)
    assert readers() == []


async def test_a_reader_that_says_nothing_is_told() -> None:
    with pytest.raises(Unreadable, match=r"could not be opened within 0\.01 s"):
        await Pdfs(0.01).read(pdf("x"), 100)
    assert readers() == []


LONG = "print(json.dumps({'text': 'x' * 5_000_000}))"


@pytest.mark.parametrize(
    "ends", ["os.kill(os.getpid(), 9)", LONG, "print('no JSON')", "print('[1]')", "print('{\"x\": 1}')"]
)
async def test_a_reader_that_breaks_off_or_says_anything_else_is_ended(tmp_path: Path, ends: str) -> None:
    pages = await Pdfs(30, reader=script(tmp_path, SAYS + ends)).read(pdf("x"), 10_000)
    assert (pages.text, pages.read, pages.in_time) == ("[Page 1]\nFirst", 1, False)


async def test_a_reader_that_does_not_listen_is_ended(tmp_path: Path) -> None:
    deaf = script(tmp_path, SAYS + "os.close(0)")
    assert (await Pdfs(30, reader=deaf).read(bytes(5_000_000), 10_000)).read == 1


async def test_who_gives_up_leaves_no_reader(tmp_path: Path) -> None:
    task = asyncio.create_task(Pdfs(600, reader=script(tmp_path, "time.sleep(600)")).read(b"x", 1))
    while not readers():
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert readers() == []


async def test_a_reader_has_nothing_of_our_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CANARY", "canary")
    said = script(
        tmp_path, "print(json.dumps({'pages': 1, 'title': ''}))\nprint(json.dumps({'text': str(dict(os.environ))}))"
    )
    assert "canary" not in (await Pdfs(30, reader=said).read(b"x", 1)).text


@pytest.mark.skipif(sys.platform != "linux", reason="a process's limits are read from /proc")
async def test_a_reader_has_limits() -> None:
    reader = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", str(READER)), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        limits = Path(f"/proc/{reader.pid}/limits")
        await until(lambda: re.search(r"Max file size +0 ", limits.read_text()) is not None)
        told = limits.read_text()
    finally:
        await reader.communicate(b"")
    assert re.search(rf"Max cpu time +{CPU_S} ", told)
    assert re.search(rf"Max address space +{MEMORY_MAX_BYTES} ", told)
