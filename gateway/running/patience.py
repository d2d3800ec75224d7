"""How long many may wait, all of them equally long."""

from __future__ import annotations

import asyncio
from types import TracebackType


class Patience:
    """What `asyncio.timeout` does, with one timer for all who wait instead of a timer each. For tasks of one loop.

    `with patience:` raises `TimeoutError` after `wait_s`. A task may be in it once, and not be cancelled before.
    """

    def __init__(self, wait_s: float) -> None:
        self._wait_s = wait_s
        self._until_s: dict[asyncio.Task[object], float] = {}
        """Who waits, longest first."""
        self._alarm: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        task = _this_task()
        loop = task.get_loop()
        self._until_s[task] = until_s = loop.time() + self._wait_s
        if self._alarm is None:
            self._alarm = loop.call_at(until_s, self._look, loop)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        task = _this_task()
        if self._until_s.pop(task, None) is not None:
            return
        # It was us who cancelled it; somebody else may have as well, and then that counts.
        if task.uncancel() == 0 and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._alarm = None
        for task, until_s in list(self._until_s.items()):
            if until_s > loop.time():
                self._alarm = loop.call_at(until_s, self._look, loop)
                break
            del self._until_s[task]
            task.cancel()


def _this_task() -> asyncio.Task[object]:
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("only a task can wait")
    return task
