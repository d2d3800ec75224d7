"""A YAML file with its lines: what was written, where, and what the environment puts in.

Simpler than YAML 1.1 on purpose: keys are text, `yes` and `12:30` and dates are text, a key may stand once, and there
are no aliases, merges or tags. A JSON file is such a YAML file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import yaml

from config.problems import At, ConfigError, Problem, dotted, short

VARIABLE: Final = re.compile(r"\$([A-Z][A-Z0-9_]*)")
_INTEGER: Final = re.compile(r"[-+]?(0|[1-9][0-9_]*)")
_NUMBER: Final = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?")
_WORDS: Final = {"": None, "~": None, "null": None, "true": True, "false": False}
_TAGS: Final = frozenset(
    f"tag:yaml.org,2002:{name}"
    for name in ("bool", "float", "int", "map", "merge", "null", "seq", "str", "timestamp", "value")
)


class Variable(str):
    """Text that the environment gave. It knows its name, so that it can be shown without its content."""

    __slots__ = ("name",)
    name: str

    def __new__(cls, name: str, content: str) -> Self:
        made = super().__new__(cls, content)
        made.name = name
        return made

    def __repr__(self) -> str:
        return f"${self.name}"


@dataclass(frozen=True, slots=True)
class Source:
    """A file that was read. `tree` holds what is written: variables are still `$NAME`."""

    file: Path
    tree: dict[str, Any]
    lines: Mapping[At, int]
    problems: tuple[Problem, ...] = ()
    """Mistakes in the writing which still let the rest be read."""

    def line(self, at: At) -> int | None:
        """Where a key stands, or else the section that it is missing from."""
        while at and at not in self.lines:
            at = at[:-1]
        return self.lines.get(at) if at else None

    def written(self, at: At) -> Any:
        """What the file holds there; none when it holds nothing."""
        found: Any = self.tree
        for step in at:
            try:
                found = found[step]
            except (KeyError, IndexError, TypeError):
                return None
        return found

    def problem(self, at: At, what: str, wanted: str = "", nearest: str | None = None) -> Problem:
        return Problem(short(self.file), self.line(at), dotted(at), what, wanted, nearest)

    def filled(self, environment: Mapping[str, str]) -> tuple[dict[str, Any], list[Problem]]:
        """The tree with its variables filled in; and which of them are unset or empty."""
        problems: list[Problem] = []

        def fill(value: Any, at: At) -> Any:
            if isinstance(value, dict):
                return {name: fill(one, (*at, name)) for name, one in value.items()}
            if isinstance(value, list):
                return [fill(one, (*at, index)) for index, one in enumerate(value)]
            if not isinstance(value, str) or not (match := VARIABLE.fullmatch(value)):
                return value
            content = environment.get(match[1], "").strip()
            if not content:
                state = "empty" if match[1] in environment else "not set"
                wanted = f"set it, or take the key out; the value is read from the environment as {value}"
                problems.append(self.problem(at, f"the environment variable {match[1]} is {state}", wanted))
            return Variable(match[1], content)

        return fill(self.tree, ()), problems


def read(file: Path) -> Source:
    """Read a settings file. Raises `ConfigError` when nothing can be made of it."""
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ConfigError([Problem(short(file), None, "", f"can't be read: {error.strerror}")]) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError([Problem(short(file), line, "", "is not UTF-8 text")]) from None
    try:
        node = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise ConfigError([_syntax(file, text, error)]) from None
    if not isinstance(node, yaml.MappingNode):
        what = "the file is empty" if node is None else "the top level is not a mapping"
        raise ConfigError([Problem(short(file), 1, "", what, "wanted: keys and values, such as `model:`")])
    reading = _Reading(file)
    tree = reading.value(node, ())
    return Source(file, tree, reading.lines, tuple(reading.problems))


@dataclass(slots=True)
class _Reading:
    """One pass over the nodes of one file."""

    file: Path
    lines: dict[At, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)

    def value(self, node: yaml.Node, at: At) -> Any:
        if node.tag not in _TAGS:
            self._wrong(node, at, f"the tag {node.tag} is not allowed", "wanted: plain text, numbers, lists, mappings")
            return None
        if id(node) in self.seen and not isinstance(node, yaml.ScalarNode):
            self._wrong(node, at, "aliases (*name) are not allowed", "wanted: the value, written out")
            return None
        self.seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, at)
        if isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self.lines[*at, index] = item.start_mark.line + 1
            return [self.value(item, (*at, index)) for index, item in enumerate(node.value)]
        is_text = getattr(node, "style", None) or node.tag.endswith(":str")
        return node.value if is_text else _plain(node.value)

    def _mapping(self, node: yaml.MappingNode, at: At) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name, value in node.value:
            if not isinstance(name, yaml.ScalarNode):
                self._wrong(name, at, "a key is a list or a mapping", "wanted: keys that are text")
                continue
            here = (*at, name.value)
            if name.value in made:
                first = self.lines[here]
                self._wrong(name, here, f"is here a second time, first on line {first}", "wanted: each key once")
                continue
            self.lines[here] = name.start_mark.line + 1
            made[name.value] = self.value(value, here)
        return made

    def _wrong(self, node: yaml.Node, at: At, what: str, wanted: str) -> None:
        line = node.start_mark.line + 1
        self.problems.append(Problem(short(self.file), line, dotted(at), what, wanted))


def _plain(text: str) -> Any:
    """What an unquoted word means."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _INTEGER.fullmatch(text) and len(text) < 20:
        return int(text)
    if _NUMBER.fullmatch(text):
        return float(text)
    return text


def _syntax(file: Path, text: str, error: yaml.YAMLError) -> Problem:
    mark = getattr(error, "problem_mark", None)
    line = mark.line + 1 if mark else None
    written = text.splitlines()[line - 1] if line and line <= len(text.splitlines()) else ""
    if "\t" in written[: len(written) - len(written.lstrip())]:
        return Problem(short(file), line, "", "a tab in the indent", "wanted: spaces")
    # Only the parser's own words: what it quotes of the file could be a secret.
    what = str(getattr(error, "problem", None) or getattr(error, "reason", None) or "unreadable")
    return Problem(short(file), line, "", f"is not YAML: {what}")
