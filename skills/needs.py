"""Needs: what a skill asks of the channel and of the machine, and whether it is there.

`env` is exact. `compatibility` is free text for people: of it only a closed list of forms is judged, those that
docs/skills.md shows. Whatever else stands there is kept, shown, and held against no skill.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import metadata
from typing import Final

from skills.document import Head
from skills.visible import visible
from skills.words import folded

_SYSTEMS: Final = {"linux": "Linux", "macos": "macOS", "os x": "macOS", "darwin": "macOS", "windows": "Windows"}
_EVERYWHERE: Final = re.compile(
    r"\b(?:any|all|every|cross|multi)[\s-]*(?:os|platforms?|operating systems?)\b|\bunix|\bposix|\bwsl|跨平台"
)
_UNSURE: Final = re.compile(
    r"\b(?:or|either|optional(?:ly)?|recommend\w*|suggest\w*|prefer\w*|tested|ideally|if|when|unless|except"
    r"|e\.g|such as)\b|[?？]|可选|推荐|建议|最好|如果|或|测试|除"
)
"""A sentence with one of these is no plain demand."""

_UP: Final = r"(?:\+|(?:or|and)\s+(?:newer|later|higher|above|up)|[及或]?以上)"
_NEED: Final = r"(?:(?:requires?|needs?|需要|要求)\s*:?\s*)"
_SYSTEM: Final = rf"(?:{'|'.join(_SYSTEMS)})(?:\s+\d[\d.]*(?:\s*{_UP})?)?"
_LIST: Final = rf"(?P<systems>{_SYSTEM}(?:\s*(?:/|\bor\b|或)\s*{_SYSTEM})*)"
_BARE: Final = re.compile(_LIST)
_ONLY: Final = tuple(
    re.compile(form)
    for form in (
        rf"{_NEED}{_LIST}",
        rf"{_LIST}[\s-]+only",
        rf"(?:(?:runs?|works?)\s+)?only\s+(?:(?:runs?|works?)\s+)?(?:on\s+)?{_LIST}",
        rf"(?:仅限|仅支持|只支持|仅适用于|只能在)\s*{_LIST}(?:\s*上?(?:运行|使用))?",
    )
)
_NUMBER: Final = r"\d{1,6}(?:\.\d{1,6}){0,3}"
_VERSION: Final = re.compile(
    rf"{_NEED}?(?P<what>python|deskmate)\s*(?:(?:>=|≥)\s*(?P<least>{_NUMBER})|(?P<same>{_NUMBER})\s*{_UP})"
)
_SENTENCE: Final = re.compile(r"[;；。\n]|\.(?=\s|\Z)")
_CLAUSE: Final = re.compile(r"[,，、&]|\band\b(?!\s+(?:newer|later|higher|above|up)\b)|和|以及|\((?:[^()]*)\)")


@dataclass(frozen=True, slots=True)
class Machine:
    """What a skill may ask for by name."""

    system: str
    """`Linux`, `macOS` or `Windows`."""
    python: str
    """Its version, as is that of `deskmate`."""
    deskmate: str


@cache
def this_machine() -> Machine:
    """The one that runs this."""
    system = {"Darwin": "macOS"}.get(platform.system(), platform.system())
    return Machine(system, platform.python_version(), metadata.version("deskmate"))


def unmet(
    head: Head, granted_env: Collection[str], present_env: Collection[str] | None = None, machine: Machine | None = None
) -> str | None:
    """The first need of a skill that is not met, as a sentence that goes on from its id, or none.

    `granted_env`: names that the profile grants to programs; `present_env`: names that are set and may be handed over,
    where that is known; where it is not, no need is held against them.
    """
    for name in head.env:
        shown = visible(name[:80])
        if name not in granted_env:
            return f"needs the variable {shown}, which the profile does not grant (program_env)"
        if present_env is not None and name not in present_env:
            return f"needs the variable {shown}, which is not set where workers run"
    text = head.text("compatibility")
    return _incompatible(text, machine or this_machine()) if text else None


@lru_cache(maxsize=16_384)
def _incompatible(text: str, machine: Machine) -> str | None:
    """What a text demands that this machine is not. Kept, since it is asked of each skill wherever one may be loaded."""
    return next(_demands(folded(text), machine), None)


def _demands(text: str, machine: Machine) -> Iterator[str]:
    names_ours = any(_SYSTEMS[one] == machine.system for one in _systems(text)) or _EVERYWHERE.search(text)
    for sentence in _SENTENCE.split(text):
        clauses = [clause.strip() for clause in _CLAUSE.split(sentence) if clause.strip()]
        if _UNSURE.search(_without_plain_or(sentence)):
            continue
        for at, clause in enumerate(clauses):
            forms = (*_ONLY, _BARE) if at == 0 else _ONLY
            if not names_ours and (found := next((one for form in forms if (one := form.fullmatch(clause))), None)):
                wanted = dict.fromkeys(_SYSTEMS[one] for one in _systems(found["systems"]))
                yield f"needs {' or '.join(wanted)}; here is {machine.system}"
            if found := _VERSION.fullmatch(clause):
                least, what = found["least"] or found["same"], found["what"]
                name, ours = ("Python", machine.python) if what == "python" else (what, machine.deskmate)
                if _numbers(ours) < _numbers(least):
                    yield f"needs {name} {least} or newer; here is {ours}"


def _systems(text: str) -> list[str]:
    return re.findall(rf"\b(?:{'|'.join(_SYSTEMS)})\b", text, re.ASCII)


def _without_plain_or(sentence: str) -> str:
    """Without the `or` of `3.12 or newer` and of `macOS or Windows`, which leave nothing open."""
    return re.sub(_LIST, " ", re.sub(_UP, " ", sentence))


def _numbers(version: str) -> tuple[int, ...]:
    """`3.9` is less than `3.10`, and the same as `3.9.0`."""
    numbers = [int(one) for one in re.findall(r"\d+", version)]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)
