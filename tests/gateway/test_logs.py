from __future__ import annotations

import asyncio
import io
import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any, Literal

import aiohttp
import pytest

from config.settings import LogSettings
from gateway.logs import LINE_MAX_BYTES, log, log_soon, start_logging
from tests.harness.logs import put_back

TOKEN = "123456:AA-canary/token+x"
Start = Callable[..., io.StringIO]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts logging into a text; the process's own logging is put back afterwards."""

    def begin(form: Literal["text", "json"] = "json", level: Any = "info", secrets: Any = ()) -> io.StringIO:
        stream = io.StringIO()
        start_logging(LogSettings(format=form, level=level), process="gateway", secrets=secrets, stream=stream)
        return stream

    with put_back():
        logging.getLogger("rq.worker").setLevel(logging.NOTSET)  # RQ sets it where a worker was registered before
        yield begin


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().split("\n") if line]


def test_a_line_says_when_where_and_what(start: Start) -> None:
    stream = start()
    log(logging.getLogger("gateway.intake"), "accepted", conversation="abc", waiting=3)
    (line,) = lines(stream)
    assert line["ts"].endswith("Z")
    assert (line["level"], line["process"], line["logger"]) == ("info", "gateway", "gateway.intake")
    assert line["event"] == "accepted"
    assert line["fields"] == {"conversation": "abc", "waiting": 3}
    assert isinstance(line["pid"], int)


def test_the_text_form_holds_the_same_in_words(start: Start) -> None:
    stream = start("text")
    log(logging.getLogger("gateway.intake"), "accepted", why="two words", waiting=3, name="你好")
    assert stream.getvalue().endswith(' gateway.intake: accepted why="two words" waiting=3 name=你好\n')


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize(
    "text",
    [
        "a\r\n2026 INFO approved by admin",
        "\x1b[2J\x1b[31mred",
        "a\u2028b\u2029c\u0085d",
        "\u202eright to left\u2066",
        "\x00\x07\x7f\x9b",
        "\ud800 alone",
        "100 % {not} a $format %s",
    ],
)
def test_one_event_stays_one_printable_line(start: Start, form: Literal["text", "json"], text: str) -> None:
    """S-L1."""
    stream = start(form)
    log(logging.getLogger("gateway"), text, field=text, inner={"a\nkey": [text]})
    logging.getLogger("gateway").info("said: %s", text)
    written = stream.getvalue()
    assert written.count("\n") == 2
    assert written.replace("\n", "").isprintable()
    if form == "json":
        first, second = lines(stream)
        assert first["event"] == text
        assert first["fields"]["field"] == text
        assert second["event"] == f"said: {text}"


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("text", ["x" * 1_048_576, "你" * 100_000, "\x1b" * 100_000])
def test_a_long_line_is_cut_and_stays_whole_json(start: Start, form: Literal["text", "json"], text: str) -> None:
    """S-L1: a line of a million characters."""
    stream = start(form)
    log(logging.getLogger("gateway"), text, field=text, many={str(one): text[:100] for one in range(1_000)})
    written = stream.getvalue()
    assert written.count("\n") == 1
    assert len(written.encode()) <= LINE_MAX_BYTES + 1
    if form == "json":
        assert lines(stream)[0]["level"] == "info"


def test_secrets_are_masked_wherever_they_turn_up(start: Start) -> None:
    """S-L2: in logs. What is stored and sent: tests/attacks/test_secrets.py."""
    for form in ("text", "json"):
        secrets = {TOKEN}
        stream = start(form, secrets=secrets)
        logger = logging.getLogger("gateway.platforms.telegram")
        log(logger, f"about {TOKEN}", url=f"https://api/bot{TOKEN}/send", deep={"a": [{"b": (TOKEN, TOKEN.encode())}]})
        log(logger, "quoted", url="https://api/bot123456%3AAA-canary%2Ftoken%2Bx/send", other=f"{{'key': {TOKEN!r}}}")
        logger.warning("rate limited: %s", TOKEN, extra={"fields": {TOKEN: 1}})
        secrets.add("joined-later")
        logger.error("then joined-later came", extra={"fields": {"short": "a" * 40_000 + TOKEN + "b" * 40_000}})
        written = stream.getvalue()
        assert "canary" not in written
        assert "joined-later" not in written
        assert written.count("***") >= 7


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("secret", ['can"ary', "can\\ary", 'can\u00fc"ary', "can\nary", "can ary=1"])
def test_a_secret_that_a_line_writes_in_another_way_is_masked(
    start: Start, form: Literal["text", "json"], secret: str
) -> None:
    stream = start(form, secrets={secret})
    log(logging.getLogger("gateway"), "short", one=secret, deep=[{"b": secret}], told=json.dumps(secret))
    written = stream.getvalue()
    assert "ary" not in written
    assert written.count("***") == 3


def test_a_password_in_any_address_is_masked(start: Start) -> None:
    stream = start()
    log(logging.getLogger("gateway"), "connecting", url="redis://me:hunter2@host:6379/0", plain="https://host:80/a@b")
    assert lines(stream)[0]["fields"] == {"url": "redis://me:***@host:6379/0", "plain": "https://host:80/a@b"}


async def test_an_exception_that_holds_the_token_is_one_masked_line(start: Start) -> None:
    """S-L3."""
    stream = start(secrets={TOKEN})
    async with aiohttp.ClientSession() as http:
        try:
            await http.get(f"http://127.0.0.1:1/bot{TOKEN}/getMe")
        except aiohttp.ClientError as error:
            error.add_note(f"asked for {TOKEN}")
            log(logging.getLogger("gateway"), "failed", logging.ERROR, error=error)
    written = stream.getvalue()
    (line,) = lines(stream)
    assert "canary" not in written
    assert "Traceback" in line["error"]
    assert "asked for ***" in line["error"]


def test_of_a_long_traceback_the_end_is_kept(start: Start) -> None:
    stream = start()
    try:
        raise ValueError("x" * 100_000 + " the very reason")
    except ValueError:
        logging.getLogger("workers.turn").exception("broken")
    assert lines(stream)[0]["error"].endswith("the very reason")


def test_a_line_with_wrong_arguments_is_written_all_the_same(start: Start) -> None:
    stream = start(secrets={TOKEN})
    logging.getLogger("gateway").warning("%d messages", TOKEN)
    assert lines(stream)[0]["event"] == "%d messages (its arguments do not fit)"

    class Broken:
        def __str__(self) -> str:
            raise RuntimeError(TOKEN)

    log(logging.getLogger("gateway"), "next", field=Broken())
    rest = stream.getvalue().splitlines()[1]
    assert "could not be written" in rest
    assert "canary" not in stream.getvalue()


def test_our_level_is_for_us_and_others_speak_from_warning_on(start: Start) -> None:
    stream = start(level="debug")
    for name in ("gateway.app", "workers.turn", "rq.worker", "anthropic._base_client", "asyncio"):
        logging.getLogger(name).debug("detail")
        logging.getLogger(name).warning("trouble")
    logging.getLogger("aiohttp.access").error("GET /webhooks/slack")
    told = [(line["logger"], line["level"]) for line in lines(stream)]
    assert told[:6] == [
        ("gateway.app", "debug"),
        ("gateway.app", "warning"),
        ("workers.turn", "debug"),
        ("workers.turn", "warning"),
        ("rq.worker", "debug"),
        ("rq.worker", "warning"),
    ]
    assert told[6:8] == [("anthropic._base_client", "warning"), ("asyncio", "warning")]


@pytest.mark.parametrize("form", ["text", "json"])
async def test_lines_of_a_tick_are_the_same_lines_in_the_same_order(
    start: Start, form: Literal["text", "json"]
) -> None:
    stream, logger = start(form, secrets={TOKEN}), logging.getLogger("gateway.intake")
    for number in range(3):
        log_soon(logger, "message", number=number, text="two words", secret=TOKEN)
    log(logger, "after them")
    log_soon(logger, "last")
    assert [line.count("last") for line in stream.getvalue().splitlines()] == [0, 0, 0, 0]
    await asyncio.sleep(0)
    soon = stream.getvalue().splitlines()
    for number in range(3):
        log(logger, "message", number=number, text="two words", secret=TOKEN)
    at_once = stream.getvalue().splitlines()[len(soon) :]
    assert [line[40:] for line in soon[:3]] == [line[40:] for line in at_once]
    assert ["after them" in soon[3], "last" in soon[4]] == [True, True]
    assert TOKEN not in stream.getvalue()


async def test_a_line_of_a_tick_that_breaks_takes_no_other_with_it(start: Start) -> None:
    class Broken:
        def __str__(self) -> str:
            raise RuntimeError(TOKEN)

    stream, logger = start("text"), logging.getLogger("gateway")
    log_soon(logger, "one", field=Broken())
    log_soon(logger, "two")
    await asyncio.sleep(0)
    first, second = stream.getvalue().splitlines()
    assert "could not be written" in first
    assert TOKEN not in first
    assert second.endswith("gateway: two")


def test_lines_of_the_last_tick_are_written_when_the_process_ends() -> None:
    script = (
        "import asyncio, logging\n"
        "from config.settings import LogSettings\n"
        "from gateway.logs import log_soon, start_logging\n"
        "start_logging(LogSettings(), process='gateway')\n"
        "async def main():\n"
        "    log_soon(logging.getLogger('gateway'), 'farewell')\n"
        "    raise SystemExit(0)\n"
        "asyncio.run(main())\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False)
    assert ended.stderr.endswith("gateway: farewell\n")


def test_what_nobody_catches_is_a_masked_line_too() -> None:
    script = (
        "from config.settings import LogSettings\n"
        "from gateway.logs import start_logging\n"
        f"start_logging(LogSettings(format='json'), process='worker', secrets={{{TOKEN!r}}})\n"
        f"raise RuntimeError('with ' + {TOKEN!r})\n"
    )
    died = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False)
    line = json.loads(died.stderr)
    assert died.returncode == 1
    assert (line["event"], line["level"], line["process"]) == ("not caught", "critical", "worker")
    assert "RuntimeError: with ***" in line["error"]
