"""What the processes write to stderr: one line an event, text or JSON, no control characters, no secrets.

Use `log(logger, "claimed", conversation=id)`; the standard calls of `logging` come out in the same form.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import threading
import traceback
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import IO, Any, Final
from urllib.parse import quote

from config.settings import LogSettings

LINE_MAX_BYTES: Final = 16_384
SECRET_MIN_CHARACTERS: Final = 4
"""A shorter secret is not masked: it would take ordinary words with it."""

_OURS: Final = ("config", "skills", "gateway", "workers", "rq", "aiohttp")
_PASSWORD: Final = re.compile(r"(?<=://)([^\s/:@]*):([^\s/@]+)@")
_MASKED: Final = "***"


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
    if logger.isEnabledFor(level):
        raised = (type(error), error, error.__traceback__) if error else None
        # Made here, because `Logger.log` looks through the stack for the caller, whom no line shows.
        logger.handle(logger.makeRecord(logger.name, level, "", 0, event, (), raised, extra={"fields": fields}))


def start_logging(
    settings: LogSettings, *, process: str, secrets: Collection[str] = (), stream: IO[str] | None = None
) -> None:
    """Set up logging for this process, once, before anything else runs.

    `secrets` are masked wherever they turn up; the collection may grow later. What other libraries log below a warning
    is left out: it tells more of people's text than of us. Exceptions that nobody catches become a line as well.
    """
    form = _Form(process, _Mask(secrets), as_json=settings.format == "json")
    handler = _Handler(stream or sys.stderr)
    handler.setFormatter(form)
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

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is logging's
        error = sys.exception()
        if not isinstance(error, OSError):  # with stderr gone there is nobody to tell
            self.stream.write(
                f"a log line could not be written: {record.name}, {record.pathname}:{record.lineno}: {type(error).__name__}\n"
            )


class _Form(logging.Formatter):
    """One record, one line of at most `LINE_MAX_BYTES`."""

    def __init__(self, process: str, mask: _Mask, *, as_json: bool) -> None:
        super().__init__()
        self._process = process
        self._mask = mask
        self._write = _json_line if as_json else _text_line

    def format(self, record: logging.LogRecord) -> str:
        try:
            event = record.getMessage()
        except (TypeError, ValueError):
            event = f"{record.msg} (its arguments do not fit)"
        told: dict[str, Any] = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "process": self._process,
            "pid": os.getpid(),
            "logger": record.name,
            "event": event,
        }
        if fields := getattr(record, "fields", None):
            told["fields"] = fields
        if record.exc_info and record.exc_info[0]:
            told["error"] = "".join(traceback.format_exception(*record.exc_info)).strip()
        if line := self._as_it_is(told):
            return line
        for limit in (LINE_MAX_BYTES, 4_096, 1_024, 256, 64):
            line = self._write(_ready(told, self._mask, limit))
            if len(line.encode()) <= LINE_MAX_BYTES:
                return line
        return self._write(_ready({**told, "fields": "too many to show", "error": ""}, self._mask, 64))

    def _as_it_is(self, told: Mapping[str, Any]) -> str | None:
        """The line, if it needs no mask, no cut and no escape, as almost all do: then one look tells it of all parts."""
        try:
            line = self._write(told)
        except (TypeError, ValueError):
            return None
        # A backslash says that something was escaped, and a secret might hide behind that.
        is_plain = len(line) <= LINE_MAX_BYTES // 4 and "\\" not in line
        return line if is_plain and self._mask(line) is line else None


class _Mask:
    """Takes secrets out of text. Its pattern follows the collection, which grows as connections are opened."""

    def __init__(self, secrets: Collection[str]) -> None:
        self._secrets = secrets
        self._known = 0
        self._pattern: re.Pattern[str] | None = None

    def __call__(self, text: str) -> str:
        if len(self._secrets) != self._known:
            self._known = len(self._secrets)
            long = [secret for secret in list(self._secrets) if len(secret) >= SECRET_MIN_CHARACTERS]
            # As written, inside an address, inside a repr or JSON.
            forms = {form for one in long for form in (one, quote(one), quote(one, safe=""), json.dumps(one)[1:-1])}
            parts = map(re.escape, sorted(forms, key=len, reverse=True))
            self._pattern = re.compile("|".join(parts)) if forms else None
        if self._pattern is not None:
            text = self._pattern.sub(_MASKED, text)
        return _PASSWORD.sub(rf"\1:{_MASKED}@", text) if "://" in text else text


def _ready(value: Any, mask: _Mask, limit: int) -> Any:
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


def _word(value: Any) -> str:
    return value if isinstance(value, str) and _BARE.fullmatch(value) else _JSON.encode(value)


def _escaped(text: str, *, json_form: bool) -> str:
    if text.isprintable():
        return text
    return "".join(
        mark if mark.isprintable() else json.dumps(mark)[1:-1] if json_form else mark.encode("unicode_escape").decode()
        for mark in text
    )
