"""What is wrong with a file of the operator's, told so that it can be put right: file, line, key, and what is wanted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

At: TypeAlias = tuple[str | int, ...]
"""Where in a file: `("channels", 0, "profile")`."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake. `str()` is one line and never holds a secret's value."""

    file: str
    line: int | None
    """Counted from 1; none when the key is not in the file at all."""
    key: str
    """Dotted, such as `channels[0].profile`; empty for the file as a whole."""
    what: str
    """`unknown key`, `missing`, `'four' is not allowed` ..."""
    wanted: str = ""
    nearest: str | None = None

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        told = [self.what]
        if self.nearest:
            told.append(f"did you mean {self.nearest}?")
        if self.wanted:
            told.append(self.wanted)
        head = f"{place}: {self.key}: " if self.key else f"{place}: "
        text = head + (f"{told[0]}; {' '.join(told[1:])}" if told[1:] else told[0])
        return "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in text)


class ConfigError(Exception):
    """The process must not start like this. Holds everything that was found, not only the first."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: Sequence[Problem] = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


def dotted(at: At) -> str:
    """`channels[0].profile`."""
    text = ""
    for step in at:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def short(file: Path) -> str:
    """The file's name as the operator would type it: relative where it is below the working folder."""
    absolute = file.absolute()
    here = Path.cwd()
    return str(absolute.relative_to(here)) if absolute.is_relative_to(here) else str(absolute)
