"""What lint says about `env`: the variables that a skill asks for, and those that its program reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from config.profiles import may_be_granted
from skills import contents
from skills.contents import Changed
from skills.findings import Finding
from skills.folders import MAIN, Skill

_READS: Final = re.compile(r"""\bos\.(?:environ(?:\.get\(|\[)|getenv\()\s*(?:"(\w+)"|'(\w+)')""")


def inspect(skill: Skill) -> Iterator[Finding]:
    """All of it."""
    value = skill.head.fields.get("env", "")
    if not isinstance(value, (str, list)) or not all(isinstance(one, str) for one in value):
        yield Finding("env_form", "env should be a list of names such as METRICS_TOKEN")
    for name in skill.head.env:
        if not may_be_granted(name):
            yield Finding(
                "env_form", f"env: {name[:80]!r} can't be granted to any program, so this skill is never in force"
            )
    if skill.program is not None:
        yield from _undeclared(skill)


def _undeclared(skill: Skill) -> Iterator[Finding]:
    for path in sorted(path for path in skill.files if path == MAIN or path.endswith(".py")):
        with suppress(Changed):  # `lint.scan` says so
            code = contents.read(skill, path).decode(errors="replace")
            for name, at in {(found[1] or found[2]): found.start() for found in _READS.finditer(code)}.items():
                if name not in skill.head.env and may_be_granted(name):
                    text = f"reads {name}, which `env` does not ask for: it is not there when it runs"
                    yield Finding("env_undeclared", text, path, code.count("\n", 0, at) + 1)
