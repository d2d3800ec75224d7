"""Where the `deskmate up` of a data folder answers, noted in the folder: its port may be any free one."""

from __future__ import annotations

import contextlib
import fcntl
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from config.settings import Settings
from gateway.logs import log
from gateway.running.machine import Machine, reachable

logger = logging.getLogger(__name__)

FILE: Final = "address"


@contextmanager
def address_noted(data: Path, address: str) -> Iterator[None]:
    """Note the address for the time of the block. Where that can't be done it is only logged: `--url` does as well.

    The note counts while its writer holds the lock, which the kernel takes from it however it ends.
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(_written(data, address))
        except OSError as error:
            log(logger, "address not noted", level=logging.WARNING, folder=str(data), reason=error.strerror)
        yield


def noted_address(data: Path) -> str | None:
    """The address of the `up` that runs on this folder; none if there is none."""
    try:
        with (data / FILE).open(encoding="ascii") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return file.read().strip() or None
    except (OSError, ValueError):
        return None
    return None  # left behind by one that was killed


def own_address(settings: Settings) -> str | None:
    """Where a gateway with these settings answers on this machine. A port of 0 is known only of a running `up`; else none."""
    if noted := noted_address(settings.data):
        return noted
    if settings.gateway.port == 0:
        return None
    return Machine(reachable(settings.gateway.host), settings.gateway.port, redis_url="").address


def noted_since_s(data: Path) -> float | None:
    """Since when it runs, by the clock of the folder; none if there is none."""
    try:
        return (data / FILE).stat().st_mtime if noted_address(data) else None
    except OSError:
        return None


@contextmanager
def _written(data: Path, address: str) -> Iterator[None]:
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    place = data / FILE
    with place.open("a+", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.truncate(0)
        file.write(f"{address}\n")
        file.flush()
        try:
            yield
        finally:
            place.unlink(missing_ok=True)
