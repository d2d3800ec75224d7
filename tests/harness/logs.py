"""The process's own logging, put back after what sets it up anew."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

NAMES = ("config", "skills", "gateway", "workers", "rq", "rq.worker", "aiohttp")


@contextmanager
def put_back() -> Iterator[None]:
    """What the block does to logging ends with it."""
    root = logging.getLogger()
    handlers, level, hook, thread_hook = root.handlers[:], root.level, sys.excepthook, threading.excepthook
    levels = {name: logging.getLogger(name).level for name in NAMES}
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        sys.excepthook, threading.excepthook = hook, thread_hook
        logging.captureWarnings(False)
        logging.getLogger("aiohttp.access").disabled = False
        for name, one in levels.items():
            logging.getLogger(name).setLevel(one)
