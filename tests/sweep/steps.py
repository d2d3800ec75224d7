"""The steps of a turn at which a process may die, W1 to W24, and the points of a sweep that are there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tests.sweep.trap import Point


@dataclass(frozen=True, slots=True)
class Step:
    """One of them."""

    about: str
    kind: str
    """A kind of turn that comes by."""
    at: str
    """A regular expression: points of such a turn on the platform `keyed` that are there, as for `--at`."""

    def meets(self, points: Iterable[Point]) -> list[Point]:
        return [point for point in points if re.search(self.at, str(point))]


STEPS: Final[Mapping[str, Step]] = {
    "W1": Step("woken, nothing claimed", "plain", "after worker redis bell"),
    "W2": Step("granted, with its fence", "plain", "after worker redis grant"),
    "W3": Step("the history is loaded", "plain", "after worker redis LRANGE .*:history"),
    "W4": Step("what it works with is fixed", "plain", "after worker redis append prompt"),
    "W5": Step("that the model will be asked is written", "plain", "after worker redis append call"),
    "W6": Step("the model is asked, no byte of the answer", "plain", "after worker model POST /v1/messages"),
    "W7": Step("in the midst of its answer", "plain", "during worker model POST /v1/messages"),
    "W8": Step("its answer is whole and not saved", "plain", "before worker redis append answer"),
    "W9": Step("its answer is saved, tools are to run", "once", r"after worker redis append answer\b(?!\+)"),
    "W10": Step("a card is sent, not noted", "asks", "after worker platform POST /replies #1"),
    "W11": Step("a yes is waited for", "asks", "after worker redis park"),
    "W12": Step("that a tool will run is written", "once", "after worker redis append tool_start"),
    "W13": Step("a tool runs, its effect is not done", "once", "within worker tools tools/call"),
    "W14": Step("its effect is done, its answer not heard", "once", "after worker tools tools/call"),
    "W15": Step("its result is saved", "once", "after worker redis append tool_result"),
    "W16": Step("between tools of one answer", "batch", "before worker tools tools/call #[23]"),
    "W17": Step("a note is sent, the platform's answer not heard", "asks", "after worker platform POST /replies #2"),
    "W18": Step("the reply waits to be sent", "plain", "after worker redis append answer.*reply"),
    "W19": Step("it is being sent", "plain", "before worker platform POST /replies"),
    "W20": Step("the platform has it, not noted", "plain", "after worker platform POST /replies"),
    "W21": Step("the second of three parts is sent", "long", "(during|after) worker platform POST /replies #2"),
    "W22": Step("noted as sent, still held", "plain", "before worker redis settle"),
    "W23": Step("given back", "plain", "after worker redis settle"),
    "W24": Step("what was said is being put away", "compact", "(before|after) worker redis append summary"),
}
