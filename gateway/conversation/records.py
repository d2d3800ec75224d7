"""Records: the typed, append-only history of a conversation.

State (which skills are loaded, what runs) is read from types and fields, never from text. Each record is stored as one
JSON line with its version; unknown fields and types of a later version are kept as they are.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Record:
    """One entry. `data` by `type`:

    `event`        event (as dumped), turn: what a person did, taken into a turn
    `prompt`       hash, snapshot: the system prompt and tools changed from here on (an expected cache miss)
    `call`         step, model: about to ask the model
    `answer`       step, content (blocks as the API gave them), stop_reason, usage, model
    `tool_start`   step, id, name, effect: about to run this tool
    `tool_result`  step, id, name, text, error, untrusted
    `skill`        id, tier, hash, text, characters: a skill's body, delivered as guidance
    `dropped`      step, why: an answer under way was dropped (interrupt, crash): nothing of it is sent
    `reply`        text, notice: what the person was told (text as Markdown), notice: by the product itself
    `failed`       reason: the turn was closed without an answer
    """

    type: str
    at_ms: int
    data: dict[str, Any] = field(default_factory=dict)

    def dump(self) -> str:
        return json.dumps({"v": VERSION, "type": self.type, "at": self.at_ms, **self.data}, ensure_ascii=False)

    @classmethod
    def load(cls, line: str | bytes) -> Record:
        return cls._of(json.loads(line))

    @classmethod
    def load_all(cls, lines: Sequence[bytes]) -> list[Record]:
        """The same of many lines. Read as one text they share the strings of their keys: half the memory of a history."""
        return [cls._of(data) for data in json.loads(b"[%b]" % b",".join(lines))]

    @classmethod
    def _of(cls, data: dict[str, Any]) -> Record:
        data.pop("v", None)
        return cls(data.pop("type"), data.pop("at"), data)
