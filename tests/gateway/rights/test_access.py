"""Access: who may what in a channel, and the rule that decided."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.profiles import Profile, Roles
from gateway.events import Actor
from gateway.rights.access import CHANNEL, Act, Approval, CommandUse, Here, Reason, SkillUse, ToolUse, may
from gateway.shelf.decisions import Decisions, Installed
from skills import ids
from skills.folders import Root, Skill, read_one
from skills.library import Library, SkillNotFound, scan
from skills.programs import tool_name
from tests.skills.test_library import write
from tests.skills.test_programs import write_program


def everything(path: Path) -> Library:
    for id_ in ("report", "finance/export", "ops/export"):
        write(path, id_, more="alias: money\n" if id_ == "finance/export" else "")
    return scan([Root("org", path)])


def switched(**to: str) -> Decisions:
    return Decisions("1", {ids.skeleton(id_.replace("__", "/")): to[id_] for id_ in to})  # type: ignore[misc]


def here(library: Library, *, profile: Profile | None = None, **more: object) -> Here:
    profile = profile or Profile(name="p", skills=["*"], tools=["load_skill"])
    return Here("slack-main/C1", "ch", profile, lambda key, value: f"p.yaml: {key} {value}", library, **more)  # type: ignore[arg-type]


def use(library: Library, id_: str, act: Act = "load") -> SkillUse:
    return SkillUse(library.skills[ids.key(id_)], act)


@pytest.mark.parametrize(
    ("org", "own", "new", "reason"),
    [
        ({}, {}, "on", "allowed"),
        ({}, {}, "off", "not_on"),
        ({}, {"report": "on"}, "off", "allowed"),
        ({"report": "on"}, {}, "off", "allowed"),
        ({"report": "on"}, {"report": "off"}, "on", "off_here"),
        ({"report": "off"}, {"report": "on"}, "on", "off_everywhere"),
        ({}, {"REPORT": "off"}, "on", "off_here"),
        ({}, {"repοrt": "off"}, "on", "off_here"),
    ],
)
def test_the_organisation_beats_the_channel_and_the_channel_the_setting(
    tmp_path: Path, org: dict[str, str], own: dict[str, str], new: str, reason: Reason
) -> None:
    library = everything(tmp_path)
    place = here(library, org=switched(**org), own=switched(**own), new_skills=new)
    verdict = may(None, place, use(library, "report"))
    assert (verdict.reason, verdict.allowed) == (reason, reason == "allowed")
    assert (library.skills["report"] in place.catalogue) == verdict.allowed


def test_the_profile_is_the_ceiling(tmp_path: Path) -> None:
    library = everything(tmp_path)
    place = here(library, profile=Profile(name="p", skills=["finance/*"]), own=switched(report="on"))
    verdict = may(None, place, use(library, "report"))
    assert (verdict.reason, verdict.rule) == ("profile", "p.yaml: skills report")
    assert [skill.id for skill in place.catalogue.skills] == ["finance/export"]


def test_a_skill_that_is_off_is_told_off_only_to_who_names_it(tmp_path: Path) -> None:
    library = everything(tmp_path)
    place = here(library, own=switched(finance__export="off"))
    for name in ("finance/export", "FINANCE/Export", "ｆｉｎａｎｃｅ／export", "money"):
        with pytest.raises(SkillNotFound, match="switched off in this channel"):
            place.find(name)
    with pytest.raises(SkillNotFound) as caught:
        place.find("finance")
    assert "finance" not in str(caught.value).replace("'finance'", "")
    assert place.find("export").id == "ops/export", "the other one of this name is meant: it is the only one here"


def test_what_the_profile_does_not_list_does_not_exist(tmp_path: Path) -> None:
    place = here(everything(tmp_path), profile=Profile(name="p", skills=["ops/*"]))
    with pytest.raises(SkillNotFound, match="There is no skill 'report' here"):
        place.find("report")


def test_when_the_switches_cannot_be_read_nothing_is_on(tmp_path: Path) -> None:
    library = everything(tmp_path)
    place = here(library, is_readable=False)
    assert place.catalogue.skills == ()
    assert may(None, place, use(library, "report")).reason == "unreadable"


def added(tmp_path: Path) -> Skill:
    skill = read_one(write(tmp_path / "channel", "checklist"), CHANNEL).skill
    assert skill
    return skill


def test_a_bundle_of_the_channel_is_data_until_somebody_trusts_its_very_bytes(tmp_path: Path) -> None:
    skill = added(tmp_path)
    skeleton = ids.skeleton(skill.id)
    installed = {skeleton: Installed(skill.id, skill.hash, "u", 0)}
    waiting = here(Library({}), own=Decisions("1", {}, installed), waiting={ids.key(skill.id): skill})
    for act, allowed in (("load", True), ("read", True), ("note", False), ("run", False)):
        verdict = may(None, waiting, SkillUse(skill, act))  # type: ignore[arg-type]
        assert (verdict.allowed, verdict.reason, verdict.as_data) == (allowed, "untrusted", True)
    assert waiting.catalogue.skills == ()
    assert waiting.find("checklist") is skill
    trusted = here(Library({}), own=Decisions("2", {}, installed, {(skeleton, skill.hash): 1}))
    assert may(None, trusted, SkillUse(skill, "load")).allowed
    assert not may(None, trusted, SkillUse(skill, "load")).as_data
    other = here(Library({}), own=Decisions("3", {}, installed, {(skeleton, "0" * 64): 1}))
    assert may(None, other, SkillUse(skill, "load")).reason == "untrusted"


def test_a_bundle_that_another_one_has_replaced_is_out_of_force_at_once(tmp_path: Path) -> None:
    skill = added(tmp_path)
    skeleton = ids.skeleton(skill.id)
    newer = {skeleton: Installed(skill.id, "f" * 64, "u", 0)}
    place = here(Library({}), own=Decisions("1", {}, newer, {(skeleton, skill.hash): 1}))
    assert may(None, place, SkillUse(skill, "load")).reason == "gone"


def test_what_is_waiting_and_off_is_off(tmp_path: Path) -> None:
    skill = added(tmp_path)
    installed = {ids.skeleton(skill.id): Installed(skill.id, skill.hash, "u", 0)}
    own = Decisions("1", {ids.skeleton(skill.id): "off"}, installed)
    place = here(Library({}), own=own, waiting={ids.key(skill.id): skill})
    with pytest.raises(SkillNotFound):
        place.find("checklist")


def test_what_is_needed_and_missing_keeps_a_skill_out(tmp_path: Path) -> None:
    library = everything(tmp_path)
    place = here(library, unmet=lambda skill, _: "needs a moon" if skill.id == "report" else None)
    verdict = may(None, place, use(library, "report"))
    assert (verdict.reason, verdict.rule) == ("needs", "needs a moon")


def test_a_program_runs_where_the_profile_lists_programs(tmp_path: Path) -> None:
    library = everything(tmp_path)
    listed = Profile(name="p", skills=["*"], programs=["ops/*"])
    place = here(library, profile=listed)
    verdict = may(None, place, use(library, "ops/export", "run"))
    assert (verdict.allowed, verdict.rule) == (True, "p.yaml: programs ops/export")
    assert may(None, place, use(library, "ops/export")).rule == "p.yaml: skills ops/export"
    refused = may(None, place, use(library, "report", "run"))
    assert (refused.reason, refused.rule) == ("profile", "p.yaml: programs report")


@pytest.mark.parametrize(
    ("name", "allowed"),
    [("load_skill", True), ("find_skills", True), ("unload_skill", True), ("web_fetch", False), ("LOAD_SKILL", False)],
)
def test_a_tool_is_allowed_by_its_exact_name(tmp_path: Path, name: str, allowed: bool) -> None:
    assert may(None, here(everything(tmp_path)), ToolUse(name)).allowed is allowed


@pytest.mark.parametrize(
    ("command", "person", "allowed"),
    [
        ("skill list", "U-MAX", True),
        ("skill show", "U-MAX", True),
        ("skill off", "U-MAX", False),
        ("skill off", "U-ANA", True),
        ("skill trust", "U-ANA", False),
        ("skill trust", "U-LI", True),
        ("skill approve", "U-LI", True),
        ("skill reload", "U-LI", False),
        ("skill off", "u-ana", False),
        ("skill off", "", False),
    ],
)
def test_a_role_is_given_by_the_platforms_own_id(tmp_path: Path, command: str, person: str, allowed: bool) -> None:
    roles = Roles(admin=["slack-main/U-ANA"], approver=["slack-main/U-LI"])
    place = here(everything(tmp_path), profile=Profile(name="p", roles=roles))
    actor = Actor(person, name="U-ANA")
    assert may(actor, place, CommandUse(command)).allowed is allowed


def test_nobody_and_no_bot_has_a_role(tmp_path: Path) -> None:
    place = here(everything(tmp_path), profile=Profile(name="p", roles=Roles(admin=["*/*"])))
    assert may(Actor("U1"), place, CommandUse("skill off")).allowed
    assert not may(None, place, CommandUse("skill off")).allowed
    assert not may(Actor("B1", is_bot=True), place, CommandUse("skill off")).allowed
    for who in (Actor("B1", is_bot=True), Actor("")):  # what they ask for themselves
        assert not may(who, place, Approval(who.id)).allowed


def test_an_id_on_another_connection_is_another_person(tmp_path: Path) -> None:
    place = here(everything(tmp_path), profile=Profile(name="p", roles=Roles(admin=["slack-other/U-ANA"])))
    assert not may(Actor("U-ANA"), place, CommandUse("skill off")).allowed


PROFILE = Profile(name="p", skills=["*"], programs=["*"], tools=["load_skill", "web_fetch", "web_search"])


@pytest.mark.parametrize(
    ("off", "called", "reason"),
    [
        ("web_fetch", "web_fetch", "off_here"),
        ("web_fetch", "WEB_FETCH", "off_here"),
        ("web_fetch", "wеb_fetch", "off_here"),
        ("wеb_fetch", "web_fetch", "off_here"),
        ("web_fetch", "web_search", "allowed"),
        ("send_file", "send_file", "profile"),
        ("load_skill", "load_skill", "off_here"),
        ("load_skill", "find_skills", "off_here"),
        ("load_skill", "unload_skill", "allowed"),
        ("unload_skill", "unload_skill", "allowed"),
        ("read_result", "read_result", "allowed"),
    ],
)
def test_a_tool_that_is_off_is_off_by_all_that_looks_like_its_name(off: str, called: str, reason: Reason) -> None:
    place = here(Library({}), profile=PROFILE, own=Decisions("1", tools={ids.skeleton(off): "off"}))
    verdict = may(None, place, ToolUse(called))
    assert (verdict.reason, verdict.allowed) == (reason, reason == "allowed")
    if reason == "off_here":
        assert verdict.rule == f"{off.replace('е', 'e')} is switched off in slack-main/C1"


@pytest.mark.parametrize("name", ["web_fetch", "load_skill", "find_skills"])
def test_when_the_switches_cannot_be_read_no_tool_is_on(name: str) -> None:
    place = here(Library({}), profile=PROFILE, is_readable=False)
    assert (may(None, place, ToolUse(name)).reason, may(None, place, ToolUse("unload_skill")).allowed) == (
        "unreadable",
        True,
    )
    assert may(None, place, ToolUse("send_file")).reason == "profile"


def test_a_program_that_is_off_leaves_the_text_of_its_skill(tmp_path: Path) -> None:
    write_program(tmp_path, "ops/report", "def run(p): return 1")
    library = scan([Root("org", tmp_path)])
    skill = library.skills["ops/report"]
    place = here(library, profile=PROFILE, own=Decisions("1", tools={ids.skeleton(tool_name("ops/report")): "off"}))
    told = may(None, place, SkillUse(skill, "run"))
    assert (told.reason, told.rule) == ("off_here", "the program of ops/report is switched off in slack-main/C1")
    assert may(None, place, SkillUse(skill, "load")).allowed
    both = here(library, profile=PROFILE, own=switched(ops__report="off"))
    assert may(None, both, SkillUse(skill, "run")).rule == "ops/report is switched off in slack-main/C1"
