"""The YAML of a frontmatter: a small, safe part of it, read from the parser's events.

Every scalar is text (`yes`, `1.10` and `2024-01-01` stay as they are written, an empty value is the empty text). Tags,
aliases, several documents and keys that are no text are refused; depth is bounded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import yaml

DEPTH_MAX: Final = 32
_SHORT: Final = 32
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml where PyYAML was built with it: seven times as fast."""


class YamlFault(Exception):
    """What is wrong, and in which line of the text (counted from 1)."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A key met twice in one mapping; the last value counts."""

    key: str
    line: int


def read(text: str) -> tuple[Any, list[Duplicate]]:
    """The one value in `text` (`None` if there is none) and the keys met twice. Raises `YamlFault`."""
    duplicates: list[Duplicate] = []
    loader = None
    try:
        loader = _LOADER(text)
        value = _document(loader.get_event, duplicates)
    except yaml.reader.ReaderError as error:
        # Its own str() says where in a text that we cut, and differs between the two loaders.
        raise YamlFault(f"{error.reason} (U+{_code(error.character):04X})", _line_of(text, error)) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlFault(error.problem or error.context or "no valid YAML", mark.line + 1 if mark else 1) from error
    except yaml.YAMLError as error:
        raise YamlFault(str(error), 1) from error
    finally:
        if loader:
            loader.dispose()
    return value, duplicates


def _document(next_event: Callable[[], yaml.Event], duplicates: list[Duplicate]) -> Any:
    next_event()  # the stream begins
    if isinstance(next_event(), yaml.StreamEndEvent):
        return None
    value = _value(next_event(), next_event, duplicates, 0)
    next_event()  # the document ends
    event = next_event()
    if not isinstance(event, yaml.StreamEndEvent):
        raise YamlFault("a second document begins", _line(event))
    return value


def _value(event: yaml.Event, next_event: Callable[[], yaml.Event], duplicates: list[Duplicate], depth: int) -> Any:
    if isinstance(event, yaml.AliasEvent):
        raise YamlFault("aliases (*name) are not allowed", _line(event))
    if not isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent) or event.tag is not None:
        raise YamlFault("tags (!name) are not allowed", _line(event))
    if isinstance(event, yaml.ScalarEvent):
        # Names of fields, licences, versions, tags: the same few stand in thousands of files, and are kept once.
        return sys.intern(event.value) if len(event.value) <= _SHORT else event.value
    if depth == DEPTH_MAX:
        raise YamlFault(f"nested deeper than {DEPTH_MAX} levels", _line(event))
    if isinstance(event, yaml.SequenceStartEvent):
        items = []
        while not isinstance(event := next_event(), yaml.SequenceEndEvent):
            items.append(_value(event, next_event, duplicates, depth + 1))
        return items
    mapping: dict[str, Any] = {}
    while not isinstance(event := next_event(), yaml.MappingEndEvent):
        key = _value(event, next_event, duplicates, depth + 1)
        if not isinstance(key, str):
            raise YamlFault("a key must be text", _line(event))
        if key in mapping:
            duplicates.append(Duplicate(key, _line(event)))
        mapping[key] = _value(next_event(), next_event, duplicates, depth + 1)
    return mapping


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


def _code(character: int | str | bytes) -> int:
    return character if isinstance(character, int) else ord(character)


def _line_of(text: str, error: yaml.reader.ReaderError) -> int:
    """The C reader counts bytes, the other one characters; the first such character is the one either means."""
    at = text.find(chr(_code(error.character)))
    return text.count("\n", 0, at) + 1 if at >= 0 else 1
