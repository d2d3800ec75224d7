"""Judging: the rule that forbids a call is the one that decided."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from config.profiles import Approvals, Profile
from gateway.conversation.records import Record
from gateway.rights.access import Here
from gateway.shelf.decisions import Decisions
from skills import ids
from skills.programs import tool_name
from tests.skills.test_programs import library, write_program
from tests.workers.places import place
from workers.agent.moves import Pending
from workers.calling.judging import Barred, Judge, Waits
from workers.prompt.memo import Memo


def refused(here: Here, name: str) -> Barred:
    call = Pending("c1", name, {}, 1, None, was_started=False)
    judged = Judge({}, ZoneInfo("UTC"), Memo()).judge(call, here, ())
    assert isinstance(judged, Barred)
    return judged


@pytest.mark.parametrize(
    ("profile", "off", "rule"),
    [
        (Profile(name="p", skills=["*"], programs=["*"]), True, "report is switched off in slack-main/C1"),
        (Profile(name="p", skills=["*"]), False, "p.yaml: programs report"),
        (Profile(name="p", programs=["*"]), False, "p.yaml: skills report"),
    ],
)
def test_a_program_that_was_not_offered_is_refused_by_what_kept_it_away(
    tmp_path: Path, profile: Profile, off: bool, rule: str
) -> None:
    write_program(tmp_path, "report")
    own = Decisions("1", {ids.skeleton("report"): "off"}) if off else Decisions()
    assert refused(place(library(tmp_path), profile, own=own), tool_name("report")).rule == rule


def test_what_is_no_tool_at_all_is_refused_by_the_profiles_list(tmp_path: Path) -> None:
    tmp_path.joinpath("x").mkdir()
    assert refused(place(library(tmp_path)), "run_tool").rule == "p.yaml: tools run_tool"


WORDS = {"type": "object", "properties": {"text": {"type": "string"}}, "additionalProperties": False}
CHOICE = {
    "type": "object",
    "properties": {"to": {"enum": ["a", "b"]}, "many": {"type": "array", "items": {"type": "integer"}}},
    "additionalProperties": False,
}
OPEN = {"type": "object", "properties": {"to": {"enum": ["a"]}}}


@dataclass(frozen=True)
class Deploys:
    """A tool whose effect can't be taken back, unless told otherwise."""

    input_schema: Any
    effect: str = "once"
    name: str = "deploy"
    description: str = "Deploys."
    reach: str = "inside"


@pytest.mark.parametrize(
    ("tool", "given", "tainted", "can"),
    [
        (Deploys(CHOICE), {"to": "a", "many": [1]}, False, True),
        (Deploys(CHOICE), {"to": "a"}, True, False),
        (Deploys(WORDS), {"text": "rm"}, False, False),
        (Deploys(OPEN), {"to": "a", "more": "words"}, False, False),
        (Deploys(WORDS, effect="idempotent"), {"text": "rm"}, False, True),
        (Deploys(WORDS, effect="idempotent"), {"text": "x" * 1_001}, False, False),
    ],
)
def test_what_cant_be_undone_is_allowed_for_good_only_in_closed_forms(
    tmp_path: Path, tool: Any, given: dict[str, Any], tainted: bool, can: bool
) -> None:
    profile = Profile(tools=["deploy"], approvals=Approvals(ask=["deploy"]))
    here = place(library(tmp_path), profile)
    read = Record(
        "tool_result", 1, {"text": "from outside", "untrusted": True, "name": "web_fetch", "id": "c0", "step": 1}
    )
    call = Pending("c1", "deploy", given, 1, None, was_started=False)
    judge = Judge({"deploy": tool}, ZoneInfo("UTC"), Memo(), [read] if tainted else [])
    waits = judge.judge(call, here, ())
    assert isinstance(waits, Waits)
    assert bool(waits.form) == can
