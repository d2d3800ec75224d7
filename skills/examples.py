"""Examples of a program: what goes in, what has to come out. They lie in its folder, and are its regression tests.

A pair of files each: `examples/NAME.input.json`, and `examples/NAME.expected.json` or `NAME.expected.txt`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final

from skills import contents
from skills.arguments import fit
from skills.contents import Changed
from skills.folders import Skill
from skills.programs import Grant, ProgramFailed, Programs

FOLDER: Final = "examples/"
INPUT: Final = ".input.json"
EXPECTED: Final = (".expected.json", ".expected.txt")


@dataclass(frozen=True, slots=True)
class Example:
    """One pair of files. Texts are as they lie there, without the line's end at the end."""

    name: str
    given: str
    expected: str
    is_json: bool
    """Whether values are compared, or characters."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an example."""

    example: Example
    came: str
    """The result, or why there is none."""
    passed: bool
    took_ms: int = 0
    chatter: str = ""


class BrokenExample(Exception):
    """Files that make no example. `str()` names them."""


def read(skill: Skill) -> list[Example | BrokenExample]:
    """All examples of a skill, in the order of their names, and what was meant as one."""
    files = {path.removeprefix(FOLDER) for path in skill.files if path.startswith(FOLDER)}
    names = sorted({path.removesuffix(end) for path in files for end in (INPUT, *EXPECTED) if path.endswith(end)})
    return [_example(skill, name, files) for name in names]


async def outcomes(programs: Programs, skill: Skill, grant: Grant) -> list[Outcome | BrokenExample]:
    """Run every example of a program, one after the other; broken ones stand in their places."""
    found = read(skill)
    return [one if isinstance(one, BrokenExample) else await _outcome(programs, skill, grant, one) for one in found]


def _example(skill: Skill, name: str, files: Collection[str]) -> Example | BrokenExample:
    ends = [end for end in EXPECTED if name + end in files]
    if name + INPUT not in files or len(ends) != 1:
        return BrokenExample(
            f"{skill.id}: {FOLDER}{name}: wanted {name}{INPUT} and one of {name}{{{','.join(EXPECTED)}}}"
        )
    try:
        given, expected = (_text(skill, FOLDER + name + end) for end in (INPUT, ends[0]))
    except BrokenExample as error:
        return error
    return Example(name, given, expected, is_json=ends[0] == EXPECTED[0])


def _text(skill: Skill, path: str) -> str:
    try:
        return contents.read(skill, path).decode("utf-8-sig").replace("\r\n", "\n").removesuffix("\n")
    except Changed as error:
        raise BrokenExample(f"{skill.id}: {error}") from error
    except UnicodeDecodeError as error:
        raise BrokenExample(f"{skill.id}: {path}: {error}") from error


async def _outcome(programs: Programs, skill: Skill, grant: Grant, example: Example) -> Outcome:
    try:
        given = json.loads(example.given)
        wanted = json.loads(example.expected) if example.is_json else example.expected
    except (ValueError, RecursionError) as error:
        return Outcome(example, f"the example is no JSON: {error}", passed=False)
    if not isinstance(given, dict) or skill.program is None:
        return Outcome(example, "the input is no object", passed=False)
    fitted = fit(skill.program.arguments, given, grant.zone)
    if fitted.faults:
        return Outcome(example, f"the input does not fit schema.json: {'; '.join(fitted.faults)}", passed=False)
    try:
        result = await programs.run(skill, fitted.values, grant)
    except ProgramFailed as error:
        return Outcome(example, str(error), passed=False, chatter=error.chatter)
    came = result.text.removesuffix("\n") if isinstance(result.value, str) else result.text
    same = _canonical(wanted) == _canonical(came if isinstance(result.value, str) else result.value)
    return Outcome(example, came, same, result.took_ms, result.chatter)


def _canonical(value: Any) -> str:
    """Equal for equal JSON: order of keys does not count, 1 and true are two things."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def shown(text: str, limit: int) -> Iterator[str]:
    """Lines of a text for a terminal, as many as fit; what could steer the terminal is made visible."""
    lines = text[:limit].splitlines() or [""]
    for line in lines:
        yield "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in line)
    if len(text) > limit:
        yield f"[... {len(text) - limit:,} more characters]"
