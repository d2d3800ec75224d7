"""The outbox: parts of a reply, from the script that writes the answer to the platform that has them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final

_BODY: Final = ("turn", "order", "to", "made_ms", "part")
"""What may be long comes last: see `InHand`."""


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
    more: dict[str, Any] = field(default_factory=dict)
    """What another version has written beside: it is kept as it is."""

    @property
    def is_open(self) -> bool:
        return self.state not in {"sent", "given_up"}

    @property
    def is_card(self) -> bool:
        """It goes out in the midst of a turn: it asks somebody, or brings what a tool made."""
        return self.order < 0

    def body(self) -> str:
        return json.dumps({**self.more, **{name: getattr(self, name) for name in _BODY}}, ensure_ascii=False)

    def mark(self) -> str:
        return row_state(self.state, self.since_ms, self.ref)

    @classmethod
    def load(cls, key: str, body: bytes, state: bytes) -> Row:
        word, since_ms, ref = state_of(state)
        stored = json.loads(body)
        known = {name: stored.pop(name) for name in _BODY}
        return cls(key, state=word, since_ms=since_ms, ref=ref, more=stored, **known)


def row_state(state: str, since_ms: int, ref: dict[str, Any] | None) -> str:
    return f"{state} {since_ms} {json.dumps(ref, ensure_ascii=False)}"


def state_of(stored: bytes) -> tuple[str, int, dict[str, Any] | None]:
    """What `row_state` wrote."""
    word, since, ref = stored.decode().split(" ", 2)
    return word, int(since), json.loads(ref)
