"""What of a settings file with mistakes can be used all the same, by commands that are needed just then."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from config.problems import At, Problem

_STEP: Final = re.compile(r"\[(\d+)\]|([^.\[\]]+)")


def top(problem: Problem) -> str:
    """The key at the top of the file that a mistake is under; empty for one of the file as a whole."""
    at = _at(problem.key)
    return str(at[0]) if at else ""


def without(tree: Mapping[str, Any], mistakes: Iterable[Problem]) -> dict[str, Any]:
    """A file's content as if what is wrong were not written: the key, or the whole entry of a list that it is in.

    Of a key that is missing, what it is missing from.
    """
    wrong = {_to_leave_out(tree, _at(one.key)) for one in mistakes}
    rest: dict[str, Any] = _rest(tree, (), wrong)
    return rest


def _at(key: str) -> At:
    return tuple(int(number) if number else name for number, name in _STEP.findall(key))


def _to_leave_out(tree: Any, at: At) -> At:
    found = tree
    for depth, step in enumerate(at):
        if isinstance(found, list):
            return at[: depth + 1]
        if not isinstance(found, Mapping) or step not in found:
            return at[:depth]
        found = found[step]
    return at


def _rest(value: Any, at: At, wrong: Collection[At]) -> Any:
    if isinstance(value, Mapping):
        return {name: _rest(one, (*at, name), wrong) for name, one in value.items() if (*at, name) not in wrong}
    if isinstance(value, list):
        return [_rest(one, (*at, index), wrong) for index, one in enumerate(value) if (*at, index) not in wrong]
    return value
