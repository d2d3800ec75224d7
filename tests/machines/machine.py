"""What all machines share: an event loop of their own for each example."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from hypothesis.stateful import RuleBasedStateMachine

from gateway.store import Layout

T = TypeVar("T")


class Machine(RuleBasedStateMachine):
    """One example: a corner of Redis, a loop, and what is to be closed in the end."""

    def __init__(self) -> None:
        super().__init__()
        self.layout = Layout(prefix=f"m{secrets.token_hex(6)}", partitions=1)
        self.opened = AsyncExitStack()
        self._runner = asyncio.Runner()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    async def end(self) -> None:
        """What must hold in the end."""

    def teardown(self) -> None:
        try:
            self.do(self.end())
        finally:
            self.do(self.opened.aclose())
            self._runner.close()
