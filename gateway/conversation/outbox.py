"""The outbox: parts of a reply, from the script that writes the answer to the platform that has them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """One part of a reply in the outbox. `state` is `pending`, `live`, `sending`, `sent` or `given_up`.

    `live`: a message of ours that shows a growing answer; it becomes the reply by an edit. `since_ms` is when the state
    began; of `pending`, when it may be tried.
    """

    key: str
    turn: str
    order: int
    part: dict[str, Any]
    to: dict[str, Any]
    made_ms: int
    state: str = "pending"
    since_ms: int = 0
    ref: dict[str, Any] | None = None

    @property
    def is_open(self) -> bool:
        return self.state not in {"sent", "given_up"}

    def body(self) -> str:
        body = {"turn": self.turn, "order": self.order, "part": self.part, "to": self.to, "made_ms": self.made_ms}
        return json.dumps(body, ensure_ascii=False)

    def mark(self) -> str:
        return row_state(self.state, self.since_ms, self.ref)

    @classmethod
    def load(cls, key: str, body: bytes, state: bytes) -> Row:
        word, since_ms, ref = state_of(state)
        return cls(key, state=word, since_ms=since_ms, ref=ref, **json.loads(body))


def row_state(state: str, since_ms: int, ref: dict[str, Any] | None) -> str:
    return f"{state} {since_ms} {json.dumps(ref, ensure_ascii=False)}"


def state_of(stored: bytes) -> tuple[str, int, dict[str, Any] | None]:
    """What `row_state` wrote."""
    word, since, ref = stored.decode().split(" ", 2)
    return word, int(since), json.loads(ref)
