"""What the audit log may hold stands in docs/audit.md: each kind of line that is written anywhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from gateway.audit.chain import Link
from gateway.audit.log import Line

ROOT: Final = Path(__file__).parents[3]
WRITTEN: Final = (
    r'\.line\("([a-z ]+)"',
    r'line_of\(\w+, "([a-z ]+)"',
    r'note\(change, "([a-z -]+)"',
    r'_change\(\s*"note_[a-z]+", "([a-z ]+)"',
    r'\("(approval [a-z]+|question [a-z]+)"',
    r'return "(question answer)"',
    r'"((?:skill|approve|hitl|role) [a-z]+)"(?: if \w+ else "(role revoke)")?, f"',
    r'"(admin (?:link|token|revoke|logout))",',
)
BUILT: Final = {"skill on", "skill off", "hitl on", "hitl off", "approval yes", "approval no"}


def written() -> set[str]:
    found = set(BUILT)
    for folder in ("gateway", "workers"):
        for file in (ROOT / folder).rglob("*.py"):
            source = file.read_text(encoding="utf-8")
            for pattern in WRITTEN:
                found |= {name for one in re.finditer(pattern, source) for name in one.groups() if name}
    return found


def test_each_kind_of_line_stands_in_the_docs() -> None:
    rows = [line for line in (ROOT / "docs/audit.md").read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    named: set[str] = set()
    for row in rows[2:]:
        first = ""
        for one in re.findall(r"`([a-z .-]+)`", row.split("|")[1]):
            words = one.split()
            first = words[0] if len(words) > 1 else first
            named.add(one if len(words) > 1 or not first else f"{first} {one}")
    found = written()
    assert {"skill trust", "note save", "approval run", "question answer", "pair end", "mcp approve"} <= found
    assert found - named == set()


def test_each_field_of_a_line_stands_in_the_docs_and_in_its_hash() -> None:
    text = (ROOT / "docs/audit.md").read_text(encoding="utf-8")
    for name in ("who", "channel", "what", "thing", "rule", "before", "after"):
        assert name in Line.__dataclass_fields__
        assert f"`{name}`" in text
    link = Link("changes", "1-0", "said", "before", "after", 1, "9", "0" * 64, "")
    for name in ("said", "before", "after", "n", "at", "prev"):
        other = Link(
            **{**{one: getattr(link, one) for one in Link.__dataclass_fields__}, name: 7 if name == "n" else "x"}
        )
        assert other.reckoned != link.reckoned
