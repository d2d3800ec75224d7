"""Commands: a line of the shell, run in the sandbox over some files. What it says of itself is checked before it is believed."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from skills.programs import Programs
from skills.runs import Output, Stopped
from skills.sandbox import Job

BUNDLE: Final = Path(__file__).with_name("command")
GRACE_S: Final = 5.0
"""How long laying out files and collecting them may take, beside the command itself."""
_SEQUENCES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_MOSTLY: Final = 0.1
"""A text with a larger share of what can't be shown is none."""


class CommandFailed(Exception):
    """It came to no end that could be told of, and no file was changed. `str()` is for the model."""


@dataclass(frozen=True, slots=True)
class Command:
    """What is to run, and over what."""

    line: str
    """For `/bin/sh -c`."""
    files: Mapping[str, bytes]
    """By path; they lie in the folder that it works in."""
    timeout_s: float
    printed_bytes: int
    """How much of each of its two outputs is kept, from the beginning and from the end."""
    file_max_bytes: int
    files_max: int
    total_max_bytes: int
    """Of the files that may come back."""


@dataclass(frozen=True, slots=True)
class Ended:
    """What came of a command."""

    code: int | None
    """Its exit code, negative for a signal. None: its time was over, and its files are as they were then."""
    out: str
    err: str
    files: Mapping[str, bytes]
    """New ones and those that have other contents now, by path. Neither is checked."""
    taken: tuple[str, ...]
    """Those that are gone."""
    left: tuple[tuple[str, str], ...]
    """Some that did not come back, each with the reason."""
    left_total: int


async def run(programs: Programs, command: Command) -> Ended:
    """Run a command to its end. Raises `CommandFailed`."""
    params = {
        "command": command.line,
        "files": {path: base64.b64encode(content).decode() for path, content in command.files.items()},
        "timeout_s": command.timeout_s,
        "printed_bytes": command.printed_bytes,
        "file_max_bytes": command.file_max_bytes,
        "files_max": command.files_max,
        "total_max_bytes": command.total_max_bytes,
    }
    limits = replace(
        programs.limits(),
        wall_s=command.timeout_s + GRACE_S,
        output_bytes=command.total_max_bytes * 4 // 3 + command.printed_bytes * 4 + 1_000_000,
    )
    try:
        output = await programs.run_caged(Job(BUNDLE, json.dumps(params).encode()), limits)
    except Stopped as why:
        raise CommandFailed(f"The command {why}.") from None
    except OSError as error:
        raise CommandFailed(f"The command could not be started: {error.strerror}.") from error
    try:
        return _ended(output, command)
    except (ValueError, TypeError, KeyError, RecursionError):
        raise CommandFailed("The command gave no account of itself that could be read.") from None


def _ended(output: Output, command: Command) -> Ended:
    """The bytes may be the command's own: nothing in them is taken for granted. Raises all that a wrong form leads to."""
    if output.failed:  # what it says of that may be the command's word, and an error is not marked as such
        raise CommandFailed("The command could not be run: its files could not be laid out or not be collected.")
    said: Any = json.loads(output.result)["json"]
    code = said["code"]
    if code is not None and type(code) is not int:
        raise TypeError
    files = {str(path): base64.b64decode(packed, validate=True) for path, packed in said["files"].items()}
    left = tuple((str(path)[:200], str(why)[:200]) for path, why in said["left"])
    taken = tuple(path for path in command.files if path in set(map(str, said["taken"])))
    return Ended(code, _printed(said["out"]), _printed(said["err"]), files, taken, left, int(said["left_total"]))


def _printed(said: Any) -> str:
    head, tail, total = said
    parts = [base64.b64decode(part, validate=True) for part in (head, tail)]
    cut = int(total) - sum(map(len, parts))
    texts = [part.decode(errors="replace") for part in ([b"".join(parts)] if cut <= 0 else parts)]
    whole = "".join(texts)
    strange = len(_CONTROLS.findall(_SEQUENCES.sub("", whole).replace("\r\n", "\n"))) + whole.count(
        "\N{REPLACEMENT CHARACTER}"
    )
    if strange > len(whole) * _MOSTLY + 2:
        return f"(no text: {int(total):,} bytes)"
    return f"\n[... {cut:,} bytes left out ...]\n".join(map(_shown, texts))


def _shown(text: str) -> str:
    """Without colours; what else can't be seen is marked."""
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", _SEQUENCES.sub("", text).replace("\r\n", "\n"))
