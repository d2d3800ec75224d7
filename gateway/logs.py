"""What the processes write to stderr: one line an event, text or JSON, no control characters, no secrets.

Use `log(logger, "claimed", conversation=id)`; the standard calls of `logging` come out in the same form.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import json
import logging
import os
import re
import sys
import threading
import time
import traceback
from collections.abc import Collection, Iterator, Mapping
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import IO, Any, Final
from urllib.parse import quote, quote_plus

from config.settings import LogSettings

LINE_MAX_BYTES: Final = 16_384
BASE64_MIN_BYTES: Final = 8
"""A shorter secret is not looked for in Base64: what is sure of it there is too short to be nothing else."""
SECRET_MIN_CHARACTERS: Final = 4
"""A shorter secret is not masked: it would take ordinary words with it."""

_OURS: Final = ("config", "skills", "gateway", "workers", "rq", "aiohttp")
_PASSWORD: Final = re.compile(r"(?<=://)([^\s/:@]*):([^\s/@]+)@")
_MASKED: Final = "***"
_URL_SAFE: Final = str.maketrans("+/", "-_")


def log(
    logger: logging.Logger,
    event: str,
    /,
    level: int = logging.INFO,
    *,
    error: BaseException | None = None,
    **fields: object,
) -> None:
    """Log `event`, a few fixed words, with what varies in `fields`. `error` adds its traceback."""
    if not logger.isEnabledFor(level):
        return
    if error is None and (ours := _only_handler()) and ours.write_plain(logger.name, level, event, fields):
        return
    raised = (type(error), error, error.__traceback__) if error else None
    # Made here, because `Logger.log` looks through the stack for the caller, whom no line shows.
    logger.handle(logger.makeRecord(logger.name, level, "", 0, event, (), raised, extra={"fields": fields}))


def log_soon(logger: logging.Logger, event: str, /, **fields: object) -> None:
    """As `log`, but the line is written at the end of this tick of the loop. For a line that each message has.

    Lines of a tick are made one after the other and written in one go, for a third of the CPU. Order is kept: whatever
    else is logged meanwhile comes after them. A process that is killed within the tick does not say them.
    """
    if not logger.isEnabledFor(logging.INFO):
        return
    if ours := _only_handler():
        ours.write_soon(logger.name, event, fields)
    else:
        log(logger, event, **fields)  # type: ignore[arg-type]  # mypy takes them for level and error


def _only_handler() -> _Handler | None:
    """Ours, if nobody else listens."""
    handlers = logging.root.handlers
    return handlers[0] if len(handlers) == 1 and isinstance(handlers[0], _Handler) else None


def start_logging(
    settings: LogSettings, *, process: str, secrets: Collection[str] = (), stream: IO[str] | None = None
) -> None:
    """Set up logging for this process, once, before anything else runs.

    `secrets` are masked wherever they turn up; the collection may grow later. What other libraries log below a warning
    is left out: it tells more of people's text than of us. Exceptions that nobody catches become a line as well.
    """
    form = _Form(process, Mask(secrets), as_json=settings.format == "json")
    handler = _Handler(stream or sys.stderr, form)
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(level, logging.WARNING))
    for name in _OURS:
        logging.getLogger(name).setLevel(level)
    logging.getLogger("aiohttp.access").disabled = True
    logging.captureWarnings(True)
    sys.excepthook = _uncaught
    threading.excepthook = lambda died: _uncaught(died.exc_type, died.exc_value, died.exc_traceback)


def _uncaught(kind: type[BaseException], error: BaseException | None, where: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        return
    logging.getLogger("gateway").critical("not caught", exc_info=(kind, error or kind(), where))


class _Handler(logging.StreamHandler[IO[str]]):
    """Tells of a line that could not be written, without the line: `logging` itself would print its arguments."""

    def __init__(self, stream: IO[str], form: _Form) -> None:
        super().__init__(stream)
        self.setFormatter(form)
        self._form = form
        self._due: list[tuple[float, str, str, Mapping[str, object]]] = []

    def write_plain(self, logger: str, level: int, event: str, fields: Mapping[str, object]) -> bool:
        """Write a line in which nothing is masked, cut or escaped, as in almost all. False: nothing was written.

        No record of `logging`'s is made for it, which costs as much as the line.
        """
        line = self._form.plain(time.time(), logger, level, event, fields)
        if line is None:
            return False
        try:
            with self.lock or nullcontext():
                self._write_due()
                self.stream.write(f"{line}\n")
                self.stream.flush()
        except (OSError, ValueError):
            return False
        return True

    def write_soon(self, logger: str, event: str, fields: Mapping[str, object]) -> None:
        """Write a line at the end of this tick of the loop."""
        with self.lock or nullcontext():
            self._due.append((time.time(), logger, event, fields))
            if len(self._due) == 1:
                asyncio.get_running_loop().call_soon(self.flush)

    def emit(self, record: logging.LogRecord) -> None:
        self._write_due()
        super().emit(record)

    def flush(self) -> None:
        """Also called by `logging` when the process ends."""
        with self.lock or nullcontext():
            self._write_due()
            super().flush()

    def _write_due(self) -> None:
        if self._due:
            due, self._due = self._due, []
            with suppress(OSError, ValueError):  # with stderr gone there is nobody to tell
                self.stream.write("".join([f"{self._due_line(*one)}\n" for one in due]))

    def _due_line(self, at_s: float, logger: str, event: str, fields: Mapping[str, object]) -> str:
        try:
            plain = self._form.plain(at_s, logger, logging.INFO, event, fields)
            return plain or self._form.any(at_s, logger, logging.INFO, event, fields)
        except Exception as error:  # noqa: BLE001  # one line must not take the others with it
            return f"a log line could not be written: {logger}: {type(error).__name__}"

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is logging's
        error = sys.exception()
        if not isinstance(error, OSError):  # with stderr gone there is nobody to tell
            self.stream.write(
                f"a log line could not be written: {record.name}, {record.pathname}:{record.lineno}: {type(error).__name__}\n"
            )


class _Form(logging.Formatter):
    """One record, one line of at most `LINE_MAX_BYTES`."""

    def __init__(self, process: str, mask: Mask, *, as_json: bool) -> None:
        super().__init__()
        self._process = process
        self._pid = os.getpid()
        self._mask = mask
        self._as_json = as_json
        self._write = _json_line if as_json else _text_line

    def plain(self, at_s: float, logger: str, level: int, event: str, fields: Mapping[str, object]) -> str | None:
        """The line, if one look at the whole tells that nothing in it needs a mask, a cut or an escape."""
        try:
            if self._as_json:
                line = self._write(self._told(at_s, logger, level, event, fields))
            else:
                words = _words(tuple(fields.values()))
                line = _stamp(at_s) + _template(self._process, self._pid, logger, level, event, *fields) % words
        except Exception:  # noqa: BLE001  # whatever a value raises is told by the way that all records go
            return None
        # A backslash says that something was escaped, and a secret might hide behind that.
        is_plain = len(line) <= LINE_MAX_BYTES // 4 and "\\" not in line and line.isprintable()
        return line if is_plain and self._mask(line) is line else None

    def format(self, record: logging.LogRecord) -> str:
        try:
            event = record.getMessage()
        except (TypeError, ValueError):
            event = f"{record.msg} (its arguments do not fit)"
        error = ""
        if record.exc_info and record.exc_info[0]:
            error = "".join(traceback.format_exception(*record.exc_info)).strip()
        return self.any(
            record.created, record.name, record.levelno, event, getattr(record, "fields", None), error=error
        )

    def any(self, at_s: float, logger: str, level: int, event: str, fields: Any, *, error: str = "") -> str:
        """The line, masked, cut and escaped where it has to be."""
        told = self._told(at_s, logger, level, event, fields)
        if error:
            told["error"] = error
        for limit in (LINE_MAX_BYTES, 4_096, 1_024, 256, 64):
            line = self._write(_ready(told, self._mask, limit))
            if len(line.encode()) <= LINE_MAX_BYTES:
                return line
        return self._write(_ready({**told, "fields": "too many to show", "error": ""}, self._mask, 64))

    def _told(self, at_s: float, logger: str, level: int, event: str, fields: Any) -> dict[str, Any]:
        told: dict[str, Any] = {
            "ts": _stamp(at_s),
            "level": logging.getLevelName(level).lower(),
            "process": self._process,
            "pid": self._pid,
            "logger": logger,
            "event": event,
        }
        if fields:
            told["fields"] = fields
        return told


class Mask:
    """Takes secrets out of text, and passwords out of addresses. Its pattern follows the collection, which grows as connections are opened."""

    def __init__(self, secrets: Collection[str], *, thorough: bool = False, passwords: bool = True) -> None:
        """`thorough`: also as `_disguised` says, for what is kept for days. Each spelling is looked for in each text.
        `passwords`: those in addresses, too, whosever they are.
        """
        self._secrets = secrets
        self._passwords = passwords
        self._thorough = thorough
        self._known = 0
        self._forms: list[str] = []
        self._pattern = re.compile("")

    def __call__(self, text: str) -> str:
        known = len(self._secrets)
        if known != self._known:
            long = [secret for secret in list(self._secrets) if len(secret) >= SECRET_MIN_CHARACTERS]
            # As written, inside an address, inside a repr or JSON.
            forms = {form for one in long for form in (one, quote(one), quote(one, safe=""), json.dumps(one)[1:-1])}
            if self._thorough:
                forms |= {form for one in long for form in _disguised(one)}
            self._forms = sorted(forms, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(re.escape, self._forms)))
            self._known = known  # at last: another thread must not go on with the forms of before
        for (
            form
        ) in self._forms:  # almost no line holds one, and that much is found out far sooner so than by the pattern
            if form in text:
                text = self._pattern.sub(_MASKED, text)
                break
        return _PASSWORD.sub(rf"\1:{_MASKED}@", text) if self._passwords and "://" in text else text


def _disguised(secret: str) -> Iterator[str]:
    """As a header, a request within a request or another writer of addresses spells it: Base64, JSON in JSON, `%2f`."""
    for form in (secret, json.dumps(secret)[1:-1]):
        for plain in (False, True):
            once = json.dumps(form, ensure_ascii=plain)[1:-1]
            yield once
            yield json.dumps(once, ensure_ascii=plain)[1:-1]
    for form in (quote_plus(secret), quote(secret), quote(secret, safe="")):
        yield form
        yield re.sub("%..", lambda found: found[0].lower(), form)
    raw = secret.encode("utf-8", "replace")
    if len(raw) < BASE64_MIN_BYTES:
        return
    for before in range(3):  # of three bytes, so many are another's: `user:`
        whole = base64.b64encode(bytes(before) + raw).decode().rstrip("=")
        # The characters at the borders hold bits of what is beside it as well.
        own = whole[(0, 2, 3)[before] : len(whole) - ((before + len(raw)) % 3 > 0)]
        yield own
        yield own.translate(_URL_SAFE)


def _ready(value: Any, mask: Mask, limit: int) -> Any:
    """Masked, and each text at most `limit` characters long: of a long one the beginning and more of the end."""
    if isinstance(value, Mapping):
        return {mask(str(name))[:limit]: _ready(one, mask, limit) for name, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_ready(one, mask, limit) for one in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = value if isinstance(value, str) else repr(value) if isinstance(value, bytes) else str(value)
    if len(text) > 8 * LINE_MAX_BYTES:  # where a secret is cut in two here, the cut below takes both halves
        text = text[: 4 * LINE_MAX_BYTES] + text[-4 * LINE_MAX_BYTES :]
    text = mask(text)
    return text if len(text) <= limit else f"{text[: limit // 4]} [...] {text[-(limit - limit // 4) :]}"


def _plain(value: Any) -> Any:
    """What JSON has no word for."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return list(value)
    return repr(value) if isinstance(value, bytes) else str(value)


@functools.lru_cache(maxsize=2)
def _second(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _stamp(at_s: float) -> str:
    return f"{_second(int(at_s))}.{int(at_s % 1 * 1000):03d}Z"


_JSON: Final = json.JSONEncoder(ensure_ascii=False, default=_plain)
_BARE: Final = re.compile(r'[^ "=]+')


def _json_line(told: Mapping[str, Any]) -> str:
    # What is no printable character is escaped, line and paragraph separators included: one event stays one line.
    return _escaped(_JSON.encode(told), json_form=True)


def _text_line(told: Mapping[str, Any]) -> str:
    fields = told.get("fields", {})
    pairs = fields.items() if isinstance(fields, Mapping) else [("fields", fields)]
    line = f"{told['ts']} {told['level']:<7} {told['process']}[{told['pid']}] {told['logger']}: {told['event']}"
    line += "".join(f" {name}={_word(value)}" for name, value in pairs)
    return _escaped(f"{line} | {told['error']}" if told.get("error") else line, json_form=False)


@functools.lru_cache(maxsize=512)  # events are few, and their fields have always the same names
def _template(process: str, pid: int, logger: str, level: int, event: str, *names: str) -> str:
    """A text line from its level on; `%s` stands for each field's word."""
    begin = f" {logging.getLevelName(level).lower():<7} {process}[{pid}] {logger}: {event}"
    return begin.replace("%", "%%") + "".join(f" {name.replace('%', '%%')}=%s" for name in names)


def _words(values: tuple[Any, ...]) -> tuple[str, ...]:
    try:
        if "" not in values and _BARE.fullmatch("".join(values)):
            return values  # one look at all of them
    except TypeError:
        pass  # not all of them are text
    return tuple(map(_word, values))


def _word(value: Any) -> str:
    return value if isinstance(value, str) and _BARE.fullmatch(value) else _JSON.encode(value)


def _escaped(text: str, *, json_form: bool) -> str:
    if text.isprintable():
        return text
    return "".join(
        mark if mark.isprintable() else json.dumps(mark)[1:-1] if json_form else mark.encode("unicode_escape").decode()
        for mark in text
    )
