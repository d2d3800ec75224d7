"""Phrases whose key is put together when it is said: each that can come of it is there. One that has no row here fails."""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, get_args, get_type_hints

import pytest

from config.limits import Period, Scope, Unit
from config.profiles import QueueMode
from gateway import commands
from gateway.acts.letter_answers import KINDS
from gateway.acts.outcomes import NotedAs
from gateway.acts.skill_table import HEADINGS
from gateway.admin.approvals import Deciding
from gateway.admin.overview import Working
from gateway.admin.spending import BudgetRow, Ledger
from gateway.admin.transcript import What
from gateway.approvals.asked import Kind, Word
from gateway.commands.skill import SUBS
from gateway.phrases import phrases
from gateway.platforms import StepLine
from gateway.rights.access import Reason
from gateway.rights.explaining import Kind as Told
from gateway.rights.roles import Role
from gateway.shelf.decisions import Switch
from gateway.web.admin.templates import span
from skills.notes import State
from skills.summary import Change
from workers.calling.judging import Why

ROOT: Final = Path(__file__).parents[2]


def field(owner: type, name: str) -> tuple[str, ...]:
    """What a field may hold."""
    return get_args(get_type_hints(owner)[name])


def without(all_: Any, *others: str) -> list[str]:
    assert set(others) <= set(get_args(all_))
    return [one for one in get_args(all_) if one not in others]


SKILL_REASONS: Final = without(
    Reason, "allowed", "changed", "unapproved", "reworded", "role", "guest", "guests", "closed", "unpaired", "nobody"
)
"""Those of whether a skill may be used, and not a text of it that a conversation holds."""
EVERY_COMMAND: Final = [*commands.names()]
PYTHON: Final[dict[str, Sequence[str]]] = {
    "asked.now.{}": field(Deciding, "word"),  # what people say; that time ran out nobody is told as news
    "asked.was.{}": get_args(Word),
    "asked.why.{}": get_args(Why),
    "attached.{}": ("too_large", "too_many", "unread"),
    "budget.{}": get_args(Unit),
    "budget.{}.{}": [f"{scope}.{period}" for scope in get_args(Scope) for period in get_args(Period)],
    "command.busy.{}": get_args(commands.WhenBusy),
    "command.{}.summary": EVERY_COMMAND,
    "command.{}.usage": EVERY_COMMAND,
    "dead.send.{}": KINDS,
    "admin.span.{}": ("d", "h", "min", "s"),
    "pair.{}": ("full", "often"),  # of who asks for a code; the other states have phrases with values
    "queue.mode.{}": get_args(QueueMode),
    "rate.{}": ("person", "channel"),
    "role.name.{}": get_args(Role),
    "role.{}{}": ("granted", "revoked", "granted.was", "revoked.was"),
    "skill.change.{}": field(Change, "kind"),
    "skill.list.{}": HEADINGS[1:],
    "skill.note.{}": without(NotedAs, "shown", "ends"),
    "skill.notes.{}": ("waiting", "kept", "everywhere"),
    "skill.program.{}": ("everywhere", "listed", "unlisted"),
    "skill.removed.{}": ("here", "everywhere"),
    "skill.since.{}": ("new", "gone", "changed"),
    "skill.state.{}": get_args(State),
    "skill.tier.{}": ("builtin", "org", "channel"),
    "skill.use.{}": [name.replace(" ", "_") for name in SUBS],
    "skill.why.{}": SKILL_REASONS,
    "skill.{}.{}": [f"{to}.{place}" for to in get_args(Switch) for place in ("here", "everywhere")],
    "status.asked.{}": get_args(Kind),
    "step.{}_{}": [
        f"{kind}_{state}"
        for kind in field(StepLine, "kind")
        for state in field(StepLine, "state")
        if state != "waiting" or kind == "step"
    ],
    "turn.send_{}": ("refused", "failed"),
    "usage.{}": ("running", "last", "conversation", "your_day", "your_month", "day", "month"),
    "why.step_{}": ("open", "failed", "done"),
    "words.{}": ("yes", "no"),
}
"""What stands in the place of `{}`, by the pattern; where there are two, what stands from the first to the last."""
ELSEWHERE: Final = {"skill.no.{}", "rate.{}_per_minute", "rate.{}"}
"""Kinds of refusals, below; and names of a profile's keys, which are no phrases."""
PAGES: Final[dict[str, Sequence[str]]] = {
    "admin.approvals.": without(Kind, "approval"),
    "admin.col.": field(Ledger, "by"),
    "admin.conversation.what.": get_args(What),
    "admin.explain.kind.": get_args(Told),
    "admin.now.state.": field(Working, "state"),
    "admin.skill.": ("yes", "no"),
    "admin.spending.by.": field(Ledger, "by"),
    "admin.spending.period.": field(BudgetRow, "period"),
    "admin.spending.scope.": get_args(Scope),
    "budget.": field(BudgetRow, "unit"),
    "role.name.": get_args(Role),
}
"""The same of pages: what is put behind."""


def sources(*folders: str) -> Iterator[ast.AST]:
    for folder in folders:
        for file in sorted((ROOT / folder).rglob("*.py")):
            yield from ast.walk(ast.parse(file.read_text(encoding="utf-8")))


def built() -> set[str]:
    families = {key.partition(".")[0] for key in phrases("en")}
    found = set[str]()
    for node in sources("gateway", "workers"):
        if isinstance(node, ast.JoinedStr):
            pattern = "".join(str(one.value) if isinstance(one, ast.Constant) else "{}" for one in node.values)
            if re.fullmatch(r"[a-z_]+\.[a-z_.]*\{\}[a-z_.{}]*", pattern) and pattern.partition(".")[0] in families:
                found.add(pattern)
    return found


def test_each_way_to_put_a_key_together_has_its_row() -> None:
    assert built() - ELSEWHERE == PYTHON.keys() - ELSEWHERE


@pytest.mark.parametrize("pattern", PYTHON)
def test_whatever_comes_of_it_is_a_phrase(pattern: str) -> None:
    begin, _, rest = pattern.partition("{}")
    end = rest.rpartition("{}")[2]
    assert PYTHON[pattern]
    assert [one for one in PYTHON[pattern] if f"{begin}{one}{end}" not in phrases("en")] == []


def test_each_kind_of_refusal_has_a_phrase_and_its_values() -> None:
    english, wrong, seen = phrases("en"), list[str](), set[str]()
    for node in sources("gateway"):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Refusal"):
            continue
        kind = node.args[0]
        for one in [kind.body, kind.orelse] if isinstance(kind, ast.IfExp) else [kind]:
            if not isinstance(one, ast.Constant):
                continue  # a name for one of these: OVERTAKEN
            name = str(one.value)
            key = name if name.startswith(("asked.", "pair.")) else f"skill.no.{name}"
            seen.add(key)
            given = {word.arg for word in node.keywords}
            wants = {name for _, name, _, _ in string.Formatter().parse(english.get(key, "")) if name}
            if key not in english or (None not in given and wants - given):
                wrong.append(f"{key}: wants {wants}, gets {given}")
    assert wrong == []
    assert {"skill.no.role", "pair.no_code", "skill.no.no_request"} <= seen


def test_pages_put_together_no_key_that_is_none() -> None:
    pages = "".join(one.read_text(encoding="utf-8") for one in (ROOT / "gateway/web/pages").rglob("*.html"))
    assert set(re.findall(r'"((?:[a-z_]+\.)+)" ~ ', pages)) == PAGES.keys()
    made = {f"{begin}{one}" for begin, ends in PAGES.items() for one in ends}
    said = {key for key in re.findall(r"""say\(["']([a-z_.]+)["'][,)]""", pages) if not key.endswith(".")}
    assert len(said) > 50
    assert (made | said) - phrases("en").keys() == set()


@pytest.mark.parametrize(("seconds", "told"), [(1, "1 s"), (300, "5 min"), (7_300, "2 h"), (200_000, "2 d")])
def test_a_span_is_told_in_its_unit(seconds: float, told: str) -> None:
    assert span("en", seconds) == told
