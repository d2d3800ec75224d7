"""Judging: the rule that forbids a call is the one that decided."""

from __future__ import annotations

from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from config.profiles import Profile
from gateway.access import Here
from gateway.shelf.decisions import Decisions
from skills import ids
from skills.programs import tool_name
from tests.skills.test_programs import library, write_program
from tests.workers.places import place
from workers.judging import Judge, Refusal
from workers.memo import Memo
from workers.moves import Pending


def refused(here: Here, name: str) -> Refusal:
    call = Pending("c1", name, {}, 1, None, was_started=False)
    judged = Judge({}, ZoneInfo("UTC"), Memo()).judge(call, here, ())
    assert isinstance(judged, Refusal)
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
