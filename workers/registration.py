"""What RQ's tools see of a worker: that it is there, whether it is busy; and what they tell it: suspend, shut down.

RQ's own loop is not used (see docs/decisions.md); its bookkeeping of workers is. RQ's calls are synchronous: they run
in a thread, never in the loop. What is used of RQ is held by a contract test.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import Any, Final

from redis import Redis
from redis.exceptions import RedisError
from rq.serializers import JSONSerializer
from rq.suspension import is_suspended
from rq.worker import BaseWorker, WorkerStatus

from gateway.logs import log

logger = logging.getLogger(__name__)

HEARTBEAT_S: Final = 10.0
TTL_S: Final = 60


class LoopWorker(BaseWorker):
    """A worker whose work is done by an asyncio loop; RQ knows only that it lives and whether it is busy."""

    is_leaving = False

    def execute_job(self, job: Any, queue: Any) -> None:  # RQ's signature
        raise NotImplementedError("bells are answered by the runner")

    def _pubsub_exception_handler(self, exc: Exception, pubsub: Any, pubsub_thread: Any) -> None:
        """RQ waits a second for its thread, then takes the connection away beneath it: no matter when we leave."""
        if self.is_leaving:
            pubsub_thread.stop()
        else:
            super()._pubsub_exception_handler(exc, pubsub, pubsub_thread)


class Registration:
    """This process in RQ's list of workers, from the first `look` to `leave`.

    RQ's `shutdown` command arrives as SIGINT, like Ctrl-C.
    """

    def __init__(self, url: str, queue: str, name: str) -> None:
        self.name = name
        self._redis = Redis.from_url(url, socket_timeout=5, socket_connect_timeout=5)
        self._queue = queue
        self._worker: LoopWorker | None = None
        self._beaten_s = 0.0
        self._state = ""
        self._suspended = False
        self._has_left = False
        self._in_turn = threading.Lock()
        """A `look` that is broken off goes on in its thread: `leave` waits for it, and takes no connection away beneath it."""

    async def look(self, *, busy: bool, draining: bool) -> bool:
        """Say that we live and what we do; learn whether an operator has suspended all workers.

        While RQ's server is away the last answer holds: suspension is a wish, not a lock.
        """
        try:
            self._suspended = await asyncio.to_thread(self._look_in_turn, busy, draining)
        except (RedisError, OSError) as error:
            log(logger, "rq away", level=logging.WARNING, reason=str(error))
        return self._suspended

    async def leave(self) -> None:
        """Say that we end."""
        try:
            await asyncio.to_thread(self._leave)
        except (RedisError, OSError) as error:
            log(logger, "not unregistered", level=logging.WARNING, reason=str(error))

    def _enter(self) -> None:
        worker = LoopWorker(
            [self._queue], name=self.name, connection=self._redis, serializer=JSONSerializer, worker_ttl=TTL_S
        )
        worker.bootstrap(logging_level="WARNING")
        self._worker = worker
        self._beaten_s = time.monotonic()

    def _look_in_turn(self, busy: bool, draining: bool) -> bool:
        with self._in_turn:
            return self._suspended if self._has_left else self._look(busy, draining)

    def _look(self, busy: bool, draining: bool) -> bool:
        if self._worker is None:
            self._enter()
        worker = self._worker
        assert worker is not None  # noqa: S101  # for the type checker
        suspended = bool(is_suspended(self._redis))
        state = (
            WorkerStatus.SUSPENDED
            if suspended and not busy
            else WorkerStatus.BUSY
            if busy or draining
            else WorkerStatus.IDLE
        )
        if time.monotonic() - self._beaten_s > HEARTBEAT_S:
            if not self._redis.exists(worker.key):
                worker.register_birth()  # RQ's server was away longer than it remembers us
                self._state = ""
            worker.heartbeat()
            self._beaten_s = time.monotonic()
        if state != self._state:
            worker.set_state(state)
            self._state = state
        return suspended

    def _leave(self) -> None:
        with self._in_turn:
            self._has_left = True
            if self._worker is not None:
                self._worker.is_leaving = True
                self._worker.register_death()
                self._worker.unsubscribe()
            self._redis.close()
