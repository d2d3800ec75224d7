"""Differences: what is otherwise in one bundle than in another, for whoever trusted the one and looks at the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import takewhile
from typing import Final

from skills.folders import Content
from skills.visible import visible

COMPARED_MAX: Final = 200
"""Lines that are matched with each other, which takes the cube of their number; of more all go and all come."""
TEXT_MAX_BYTES: Final = 1_024 * 1_024
"""A longer one is named and not compared."""
AROUND: Final = 2
"""Lines that are shown before the first difference of a file."""


@dataclass(frozen=True, slots=True)
class Difference:
    """By paths, in their order."""

    new: tuple[str, ...]
    gone: tuple[str, ...]
    changed: tuple[str, ...]
    lines: tuple[str, ...]
    """Of changed texts, with nothing hidden: `+` comes, `-` goes, a blank stays; a file's lines follow its path."""


def between(old: Mapping[str, Content], new: Mapping[str, Content]) -> Difference:
    changed = tuple(path for path in sorted(old.keys() & new.keys()) if old[path] != new[path])
    lines = tuple(line for path in changed for line in _lines(path, old[path], new[path]))
    return Difference(tuple(sorted(new.keys() - old.keys())), tuple(sorted(old.keys() - new.keys())), changed, lines)


def _lines(path: str, old: Content, new: Content) -> Iterator[str]:
    if old.runs != new.runs:
        yield f"{path}: may {'' if new.runs else 'no longer '}be run as a program"
    if max(len(old.raw), len(new.raw)) > TEXT_MAX_BYTES or b"\0" in old.raw or b"\0" in new.raw or old.raw == new.raw:
        return
    yield path
    going, coming = _text(old), _text(new)
    begin = shared(going, coming)
    end = shared(going[begin:][::-1], coming[begin:][::-1])
    yield from (f"  {line}" for line in coming[max(begin - AROUND, 0) : begin])
    yield from _matched(going[begin : len(going) - end], coming[begin : len(coming) - end])


def _matched(going: Sequence[str], coming: Sequence[str]) -> Iterator[str]:
    if max(len(going), len(coming)) > COMPARED_MAX:
        parts = [("replace", 0, len(going), 0, len(coming))]
    else:
        parts = list(SequenceMatcher(None, going, coming, autojunk=False).get_opcodes())
    for kind, a, b, c, d in parts:
        if kind == "equal":
            yield from (f"  {line}" for line in going[a:b])
        else:
            yield from (f"- {line}" for line in going[a:b])
            yield from (f"+ {line}" for line in coming[c:d])


def _text(content: Content) -> list[str]:
    return visible(content.raw.decode("utf-8", "backslashreplace")).split("\n")


def shared(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
