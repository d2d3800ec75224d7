"""Recording: a model that keeps what it is asked and what it answers, around the one that does the work.

Writing it down begins when the answer is over, beside the turn: what goes wrong there is logged, and costs no turn.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import asdict
from typing import Any, Final, cast

from gateway.conversation.recordings import Entry, Recordings, pack
from gateway.logs import Mask, log
from gateway.store import Unreachable
from workers.models import Answer, Model, ModelError, Request, TextDelta

logger = logging.getLogger(__name__)

UNDER_WAY_MAX: Final = 200
"""So many that are not written down yet; of more, the newest are not kept."""
END_S: Final = 3.0
"""How long the end of the process waits for those."""


class Recording:
    """See `workers.models.Model`."""

    def __init__(self, model: Model, recordings: Recordings, mask: Mask, now_ms: Callable[[], int]) -> None:
        """`now_ms`: the server's time. Who goes on with a turn adds to its recording, which is read in this order."""
        self.label = model.label
        self._model = model
        self._recordings = recordings
        self._mask = mask
        self._now_ms = now_ms
        self._writing: set[asyncio.Task[None]] = set()

    async def stream(self, request: Request) -> AsyncIterator[TextDelta | Answer]:
        """What the model says, as it says it. Raises `ModelError`."""
        begun_ms = self._now_ms()
        said: list[str] = []
        outcome: dict[str, Any] = {}
        try:
            async with aclosing(cast("Any", self._model.stream(request))) as pieces:
                async for piece in pieces:
                    if isinstance(piece, Answer):
                        outcome = {"answer": asdict(piece)}
                    else:
                        said.append(piece.text)
                    yield piece
        except ModelError as error:
            outcome = {"error": as_json(error), "said": "".join(said)}
            raise
        finally:
            # Whoever listened has left: a person stopped it, or interrupted.
            self._note(request, begun_ms, outcome or {"left": True, "said": "".join(said)})

    async def check(self) -> str:
        return await self._model.check()

    async def close(self) -> None:
        """What is under way is written first."""
        if self._writing:
            await asyncio.wait(self._writing, timeout=END_S)
        await self._model.close()

    def _note(self, request: Request, begun_ms: int, outcome: Mapping[str, Any]) -> None:
        about = request.occasion
        if not about.conversation:
            return
        if len(self._writing) >= UNDER_WAY_MAX:
            log(logger, "not recorded: too many wait", level=logging.WARNING, turn=about.turn[:8])
            return
        more = {
            "at_ms": begun_ms,
            "ms": self._now_ms() - begun_ms,
            "branch": about.branch,
            "step": about.step,
            "purpose": about.purpose,
            "outcome": outcome,
        }
        task = asyncio.create_task(self._keep(request, more), name="recording")
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def _keep(self, request: Request, more: Mapping[str, Any]) -> None:
        about = request.occasion
        try:
            entry = await asyncio.to_thread(self._packed, request, more)
            if not await self._recordings.keep(about.conversation, about.turn, entry, about.keep_s):
                reason = "recordings.turn_max_bytes"
                log(logger, "not recorded: no room", conversation=about.conversation, turn=about.turn[:8], limit=reason)
        except Unreachable as error:
            log(logger, "not recorded", level=logging.WARNING, turn=about.turn[:8], reason=str(error))
        except Exception as error:  # noqa: BLE001  # whatever it is, the turn goes on
            log(logger, "not recorded", level=logging.ERROR, error=error, turn=about.turn[:8])

    def _packed(self, request: Request, more: Mapping[str, Any]) -> Entry:
        return pack(wire(request, self._mask), masked(more, self._mask))


def wire(request: Request, mask: Mask) -> dict[str, Any]:
    """A request as recordings have it: masked, and without the bytes of pictures."""
    told = {
        "model": request.model,
        "max_tokens": request.max_tokens,
        "system": request.system,
        "tools": request.tools,
        "messages": request.messages,
    }
    return cast("dict[str, Any]", masked(told, mask))


def masked(value: Any, mask: Mask) -> Any:
    """JSON without secrets, and with hashes in the place of what is given in base64."""
    match value:
        case str():
            return mask(value)
        case {"type": "base64", "data": str(data), **rest}:
            return {**masked(rest, mask), "type": "sha256", "data": _hash(data)}
        case Mapping():
            return {mask(str(name)): masked(one, mask) for name, one in value.items()}
        case list() | tuple():
            return [masked(one, mask) for one in value]
    return value


def as_json(error: ModelError) -> dict[str, Any]:
    """All that `ModelError` is made of."""
    return {
        "detail": error.detail,
        "passing": error.passing,
        "retry_after_s": error.retry_after_s,
        "kind": error.kind,
    }


def _hash(data: str) -> str:
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        content = data.encode("utf-8", "replace")
    return hashlib.sha256(content).hexdigest()
