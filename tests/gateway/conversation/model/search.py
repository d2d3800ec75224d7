"""All worlds of a play, each once, the nearest first: what must hold is looked at in every one.

From each world a finished one can be reached without further faults: looked at backwards, when all are known.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.gateway.conversation.model.actors import Broken, Stage, World

CHUNK = 256


@dataclass
class Found:
    """What a search saw. `fault`: the first thing that is wrong, with the steps that lead there."""

    worlds: int = 0
    states: int = 0
    scripts: int = 0
    finished: int = 0
    fault: str = ""
    steps: list[str] = field(default_factory=list)
    is_whole: bool = True


class Search:
    """One search. `run` it."""

    def __init__(self, stage: Stage, at_most: int = 0) -> None:
        """`at_most`: so many worlds; 0: all."""
        self.stage = stage
        self.at_most = at_most
        self._number: dict[World, int] = {}
        self._parts: dict[Any, Any] = {}
        self._parent = array("l")
        self._by = array("l")
        self._labels: dict[str, int] = {}
        self._from = array("l")
        self._to = array("l")
        self._finished: list[int] = []

    def run(self) -> Found:
        stage = self.stage
        layer = [(self._add(first := stage.first(), -1, "the beginning"), first)]
        is_whole = True
        try:
            stage.check(first)
            while layer:
                after: list[tuple[int, World]] = []
                for at in range(0, len(layer), CHUNK):
                    chunk = layer[at : at + CHUNK]
                    stage.states.run(ask for _, world in chunk for ask in stage.asks(world))
                    for number, world in chunk:
                        after += self._expand(number, world)
                    if self.at_most and len(self._number) >= self.at_most:
                        is_whole = False
                        break
                layer = after if is_whole else []
        except _At as broken:
            return self._found(str(broken), broken.number, is_whole=False)
        stranded = self._stranded() if is_whole else None
        if stranded is not None:
            return self._found("nothing that can still happen ends it", stranded, is_whole=True)
        return self._found("", -1, is_whole=is_whole)

    def _expand(self, number: int, world: World) -> Iterator[tuple[int, World]]:
        stage, number_at = self.stage, number
        if stage.is_finished(world):
            self._finished.append(number)
        try:
            for label, then, is_fault in stage.steps(world):
                after = stage.alike(then)
                known = self._number.get(after)
                if known is None:
                    number_at = known = self._add(after := self._shared(after), number, label)
                    stage.check(after)
                    number_at = number
                    yield known, after
                if not is_fault:
                    self._from.append(number)
                    self._to.append(known)
        except Broken as broken:
            raise _At(str(broken), number_at) from broken

    def _add(self, world: World, parent: int, label: str) -> int:
        number = self._number[world] = len(self._parent)
        self._parent.append(parent)
        self._by.append(self._labels.setdefault(label, len(self._labels)))
        return number

    def _shared(self, world: World) -> World:
        """The same with parts that others have as well: a world is small then."""
        workers = tuple(self._parts.setdefault(w, w) for w in world.workers)
        return world._replace(
            workers=self._parts.setdefault(workers, workers),
            gateways=self._parts.setdefault(world.gateways, world.gateways),
            sent=self._parts.setdefault(world.sent, world.sent),
            late=self._parts.setdefault(world.late, world.late),
            acked=self._parts.setdefault(world.acked, world.acked),
        )

    def _stranded(self) -> int | None:
        """The nearest world from which no finished one can be reached without a fault."""
        before: dict[int, list[int]] = {}
        for one, other in zip(self._from, self._to, strict=True):
            before.setdefault(other, []).append(one)
        ends = bytearray(len(self._parent))
        todo = list(self._finished)
        for number in todo:
            ends[number] = 1
        while todo:
            for number in before.get(todo.pop(), ()):
                if not ends[number]:
                    ends[number] = 1
                    todo.append(number)
        at = ends.find(0)
        return None if at < 0 else at

    def _found(self, fault: str, number: int, *, is_whole: bool) -> Found:
        labels = list(self._labels)
        steps: list[str] = []
        while number > 0:
            steps.append(labels[self._by[number]])
            number = self._parent[number]
        return Found(
            worlds=len(self._number),
            states=len(self.stage.states),
            scripts=self.stage.states.ran,
            finished=len(self._finished),
            fault=fault,
            steps=steps[::-1],
            is_whole=is_whole,
        )


class _At(Exception):
    def __init__(self, fault: str, number: int) -> None:
        super().__init__(fault)
        self.number = number
