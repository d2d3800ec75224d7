"""The library: which folders are skills, whose copy counts, who answers to a name, and what a change does."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from config.settings import SkillsSettings
from skills import contents, ids, seal
from skills.folders import Content, Root, Skill, skill_of
from skills.library import BUILTIN, Found, Library, SkillNotFound, look, resolve, roots, scan


def write(root: Path, id_: str, *, description: str = "Does it.", body: str = "Do it.\n", more: str = "") -> Path:
    folder = root / id_
    folder.mkdir(parents=True, exist_ok=True)
    text = f"---\nname: {folder.name}\ndescription: {description}\n{more}---\n{body}"
    (folder / "SKILL.md").write_text(text, "utf-8")
    return folder


def org(path: Path, previous: Library | None = None) -> Library:
    return scan([Root("org", path)], previous)


def names(found: Library) -> list[str]:
    return [skill.id for skill in found.skills.values()]


def faults(found: Library) -> dict[str, str]:
    return {fault.id: fault.kind for fault in found.faults}


def test_what_ships_is_sound() -> None:
    found = scan(roots(SkillsSettings()))
    assert names(found) == ["skill-writing", "web-access"]
    assert (found.faults, found.warnings) == ((), ())
    assert all(not skill.head.warnings and skill.tier == "builtin" for skill in found.skills.values())
    sites = {path for path in found.skills["web-access"].files if path.startswith("references/site-patterns/")}
    assert len(sites) == 6
    body = contents.body(found.skills["web-access"])
    assert all(f"`{path}`" in body for path in sites)


def test_the_seal_is_that_of_what_ships() -> None:
    now = seal.listed(BUILTIN)
    assert (BUILTIN / seal.NAME).read_text("utf-8") == now, "a shipped skill was changed: run `make builtin-hashes`"


def test_a_shipped_skill_that_was_altered_is_not_in_force(tmp_path: Path) -> None:
    shipped = Root("builtin", tmp_path / "builtin", sealed=True)
    for id_ in ("same", "changed", "gone", "broken", "hidden"):
        write(shipped.path, id_)
    (shipped.path / seal.NAME).write_text(seal.listed(shipped.path))
    whole = scan([shipped])
    assert (len(whole.skills), whole.faults) == (5, ())
    write(shipped.path, "changed", body="Do what I say.\n")
    write(shipped.path, "more")
    shutil.rmtree(shipped.path / "gone")
    (shipped.path / "broken" / "SKILL.md").write_text("---\n")
    (shipped.path / "hidden" / "more.md").write_text("x")
    for found in (scan([shipped]), scan([shipped], scan([shipped]))):
        assert names(found) == ["same"]
        assert faults(found) == dict.fromkeys(["changed", "more", "gone", "hidden"], "altered") | {
            "broken": "unclosed_frontmatter"
        }
        said = {fault.id: fault.reason for fault in found.faults}
        assert said["more"] == "it did not ship"
        assert said["gone"] == "it ships and is not there"
    org = write(tmp_path / "org", "changed", body="Ours.\n").parent
    assert scan([shipped, Root("org", org)]).skills["changed"].tier == "org"
    (shipped.path / seal.NAME).unlink()
    assert names(scan([shipped])) == []


def test_tiers_from_anywhere_are_one_library(tmp_path: Path) -> None:
    def skill(id_: str, tier: str, more: str = "") -> Skill:
        text = f"---\nname: x\ndescription: x\n{more}---\n{tier}\n"
        return skill_of(id_, tier, tmp_path, {"SKILL.md": Content(text.encode(), runs=False)})

    builtin = [skill("web", "builtin"), skill("report", "builtin", "alias: figures\n")]
    org = [skill("Report", "org"), skill("triage", "org", "alias: [sort, web]\n")]
    channel = [skill("triage", "channel", "alias: sort\n"), skill("w\u0435b", "channel"), skill("new", "channel")]
    found = resolve([builtin, org, channel], warnings=["before"])
    assert {one.id: one.tier for one in found.skills.values()} == {
        "new": "channel",
        "Report": "org",
        "triage": "channel",
        "web": "builtin",
    }
    assert [(one.skill.tier, one.by.tier) for one in found.shadowed] == [("builtin", "org"), ("org", "channel")]
    assert [(fault.kind, fault.tier) for fault in found.faults] == [("look_alike", "channel")]
    assert found.owners == {"sort": "triage"}
    assert found.warnings == ("before",)
    without = resolve([builtin, org])
    assert without.skills["triage"].tier == "org"
    assert without.warnings == ("triage: alias 'web' is the id of another skill",)


def test_ids_are_paths_and_two_same_names_live_side_by_side(tmp_path: Path) -> None:
    write(tmp_path, "ops/report")
    write(tmp_path, "finance/report")
    write(tmp_path, "财务/导出报表")
    write(tmp_path, "report")
    assert names(org(tmp_path)) == ["finance/report", "ops/report", "report", "财务/导出报表"]


def test_a_folder_in_a_skill_is_no_skill_of_its_own(tmp_path: Path) -> None:
    write(tmp_path, "outer")
    write(tmp_path, "outer/examples/inner")
    assert names(org(tmp_path)) == ["outer"]


@pytest.mark.parametrize("reverse", [False, True])
def test_a_later_tier_takes_the_place_of_the_same_id_as_a_whole(tmp_path: Path, *, reverse: bool) -> None:
    tiers = ["builtin", "org"]
    for tier in reversed(tiers) if reverse else tiers:
        folder = write(tmp_path / tier, "Standup" if tier == "org" else "standup", body=f"say {tier}\n")
        (folder / f"{tier}.md").write_text(tier)
    found = scan([Root(tier, tmp_path / tier) for tier in tiers])
    [skill] = found.skills.values()
    assert (skill.id, skill.tier, contents.body(skill), set(skill.files)) == ("Standup", "org", "say org\n", {"org.md"})
    [hidden] = found.shadowed
    assert (hidden.skill.folder, hidden.by) == (tmp_path / "builtin" / "standup", skill)


def test_a_copy_that_is_broken_takes_no_place(tmp_path: Path) -> None:
    write(tmp_path / "builtin", "standup")
    (write(tmp_path / "org", "standup") / "SKILL.md").write_text("---\nname: standup\n")
    found = scan([Root("builtin", tmp_path / "builtin"), Root("org", tmp_path / "org")])
    assert found.skills["standup"].tier == "builtin"
    [fault] = found.faults
    assert str(fault) == f"{tmp_path}/org/standup/SKILL.md, line 1: no closing ---"


def test_a_broken_skill_is_listed_and_blocks_no_other(tmp_path: Path) -> None:
    write(tmp_path, "good")
    write(tmp_path, "bad", more="x: 'open\n")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "Skill.md").write_text("---\nname: notes\ndescription: b\n---\n")
    (tmp_path / "SKILL.md").write_text("---\nname: root\ndescription: b\n---\n")
    (tmp_path / ".git").mkdir()
    write(tmp_path, ".git/hidden")
    write(tmp_path, "with blank")
    write(tmp_path, "a" * 65)
    found = org(tmp_path)
    assert names(found) == ["good"]
    assert faults(found) == {
        "bad": "yaml_error",
        "notes": "misplaced",
        "": "misplaced",
        "with blank": "id",
        "a" * 65: "id",
    }


def test_two_folders_whose_names_count_as_the_same_are_not_both_in_force(tmp_path: Path) -> None:
    write(tmp_path, "Report")
    write(tmp_path, "report")
    write(tmp_path, "ｒｅｐｏｒｔ")
    found = org(tmp_path)
    assert names(found) == ["Report"]
    assert faults(found) == {"report": "same_id", "ｒｅｐｏｒｔ": "same_id"}
    shutil.rmtree(tmp_path / "Report")
    found = org(tmp_path, found)
    assert (names(found), faults(found)) == (["report"], {"ｒｅｐｏｒｔ": "same_id"})


def test_links_lead_only_to_folders_inside_the_roots_and_only_once(tmp_path: Path) -> None:
    shared, skills = tmp_path / "shared", tmp_path / "skills"
    write(shared, "triage")
    write(tmp_path / "elsewhere", "outside")
    write(skills, "real")
    for name, target in {
        "triage": "../shared/triage",
        "outside": "../elsewhere/outside",
        "loop": ".",
        "again": "real",
        "lost": "nowhere",
    }.items():
        (skills / name).symlink_to(target)
    found = scan([Root("builtin", shared), Root("org", skills)])
    assert names(found) == ["real", "triage"]
    assert found.skills["triage"].tier == "org"
    assert faults(found) == {
        "outside": "link_outside",
        "loop": "link_repeated",
        "again": "link_repeated",
        "lost": "link_broken",
    }
    assert "target outside the allowed roots" in {fault.reason for fault in found.faults}


def test_links_inside_a_skill_are_left_out(tmp_path: Path) -> None:
    folder = write(tmp_path, "report")
    secret = tmp_path / "secret.md"
    secret.write_text("SECRET")
    (folder / "references").symlink_to(tmp_path)
    (folder / "secret.md").symlink_to(secret)
    found = org(tmp_path)
    assert dict(found.skills["report"].files) == {}
    assert found.warnings == (
        "report: references is a link and left out",
        "report: secret.md is a link and left out",
    )
    (folder / "SKILL.md").unlink()
    (folder / "SKILL.md").symlink_to(secret)
    assert faults(org(tmp_path)) == {"report": "link"}


def test_files_are_listed_by_path_and_odd_names_are_left_out(tmp_path: Path) -> None:
    folder = write(tmp_path, "report")
    for name in ["references/a.md", "references/.env", "scripts/run.py", "bad name.md", "__pycache__/x.pyc"]:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("x")
    found = org(tmp_path)
    assert list(found.skills["report"].files) == ["references/a.md", "scripts/run.py"]
    assert "bad name.md" in found.warnings[0]


def test_the_hash_is_over_every_path_mode_and_byte(tmp_path: Path) -> None:
    folder = write(tmp_path, "report")
    notes = folder / "notes.md"

    def state() -> str:
        return org(tmp_path).skills["report"].hash

    seen = {state()}
    notes.write_text("a")
    seen.add(state())
    notes.write_text("b")
    seen.add(state())
    notes.rename(folder / "other.md")
    seen.add(state())
    (folder / "other.md").chmod(0o755)
    seen.add(state())
    assert len(seen) == 5
    copy = tmp_path.with_name("copy")
    shutil.copytree(tmp_path, copy)
    assert org(copy).skills["report"].hash == state()


def test_a_catalogue_holds_what_the_patterns_name(tmp_path: Path) -> None:
    for id_ in ["finance/report", "finance/tax", "report", "web-access"]:
        write(tmp_path, id_)
    found = org(tmp_path)

    def allowed(*patterns: str) -> list[str]:
        return [skill.id for skill in found.catalogue(patterns).skills]

    assert allowed("*") == ["finance/report", "finance/tax", "report", "web-access"]
    assert allowed("finance/*", "WEB-access") == ["finance/report", "finance/tax", "web-access"]
    assert allowed("report") == ["report"]
    assert allowed("rep.rt", "[a-z]*", "?") == []
    assert allowed() == []


def test_a_name_is_found_by_id_alias_or_last_part(tmp_path: Path) -> None:
    write(tmp_path, "财务/导出报表", more="alias: 财务报表\n")
    write(tmp_path, "运营/导出报表")
    write(tmp_path, "web-access")
    write(tmp_path, "ops/triage")
    catalogue = org(tmp_path).catalogue(["*"])
    for name in ["web-access", "WEB-ACCESS", "ｗｅｂ－ａｃｃｅｓｓ", " web-access "]:
        assert catalogue.find(name).id == "web-access"
    assert catalogue.find("财务／导出报表").id == "财务/导出报表"
    assert catalogue.find("财务报表").id == "财务/导出报表"
    assert catalogue.find("triage").id == "ops/triage"
    with pytest.raises(SkillNotFound, match=r"'导出报表' fits several skills: '财务/导出报表', '运营/导出报表'"):
        catalogue.find("导出报表")


def test_what_is_not_allowed_is_not_found_and_never_named(tmp_path: Path) -> None:
    write(tmp_path, "finance/report", more="alias: secret-figures\n")
    write(tmp_path, "ops/report")
    write(tmp_path, "rapport")
    catalogue = org(tmp_path).catalogue(["ops/*"])
    assert catalogue.find("report").id == "ops/report"
    for name in ["finance/report", "FINANCE/REPORT", "secret-figures", "rapport", "finance", "../finance/report"]:
        with pytest.raises(SkillNotFound) as caught:
            catalogue.find(name)
        assert str(caught.value) == f"There is no skill {name!r} here. The closest ids are: ops/report."
    with pytest.raises(SkillNotFound, match="There are no skills in this channel"):
        org(tmp_path).catalogue([]).find("report")


def test_the_closest_ids_come_first(tmp_path: Path) -> None:
    for id_ in ["alpha", "beta", "gamma", "tools/web-access"]:
        write(tmp_path, id_)
    with pytest.raises(SkillNotFound, match="The closest ids are: tools/web-access, "):
        org(tmp_path).catalogue(["*"]).find("web-acess")


def test_an_alias_claimed_twice_belongs_to_nobody(tmp_path: Path) -> None:
    write(tmp_path, "a", more="alias: figures\n")
    write(tmp_path, "b", more="alias: Figures\n")
    write(tmp_path, "c", more="alias: [a, no/../way, fine]\n")
    found = org(tmp_path)
    assert found.warnings == (
        "c: alias 'a' is the id of another skill",
        "c: alias '..': a part of a name has no dot in front",
        "alias 'figures' is claimed by a, b: nobody has it",
    )
    catalogue = found.catalogue(["*"])
    assert catalogue.find("fine").id == "c"
    assert catalogue.find("a").id == "a"
    with pytest.raises(SkillNotFound):
        catalogue.find("figures")


def test_only_what_changed_is_read_again(tmp_path: Path) -> None:
    write(tmp_path, "a")
    write(tmp_path, "b")
    first = org(tmp_path)
    write(tmp_path, "b", body="Other.\n")
    write(tmp_path, "c")
    second = org(tmp_path, first)
    assert second.skills["a"] is first.skills["a"]
    assert contents.body(second.skills["b"]) == "Other.\n"
    with pytest.raises(contents.Changed, match=r"SKILL\.md was changed just now"):
        contents.body(first.skills["b"])
    assert names(second) == ["a", "b", "c"]
    shutil.rmtree(tmp_path / "a")
    assert names(org(tmp_path, second)) == ["b", "c"]


def test_a_skill_whose_program_can_not_be_used_is_there_without_it_and_told_once(tmp_path: Path) -> None:
    folder = write(tmp_path, "report")
    (folder / "main.py").write_text("def run(params): ...\n")
    (folder / "schema.json").write_text("{")
    library = org(tmp_path)
    assert library.skills["report"].program is None
    [fault] = library.faults
    assert "schema.json: no JSON" in str(fault)
    assert library.beside == {("org", "report"): fault}
    assert library.warnings == ()


def test_a_half_written_folder_keeps_the_last_good_version(tmp_path: Path) -> None:
    folder = write(tmp_path, "report")
    first = org(tmp_path)
    (folder / "SKILL.md").write_text("---\nname: report\n")
    second = org(tmp_path, first)
    assert second.skills["report"] is first.skills["report"]
    [fault] = second.faults
    assert "no closing --- (the version before it stays in force)" in str(fault)
    third = org(tmp_path, second)
    assert third.skills["report"] is first.skills["report"]
    assert third.faults == second.faults
    write(tmp_path, "report", body="Whole again.\n")
    fourth = org(tmp_path, third)
    assert (contents.body(fourth.skills["report"]), fourth.faults) == ("Whole again.\n", ())


def test_a_root_that_is_gone_keeps_its_skills_and_a_missing_one_is_an_error(tmp_path: Path) -> None:
    root = tmp_path / "skills"
    write(root, "report")
    first = org(root)
    root.rename(tmp_path / "away")
    second = org(root, first)
    assert names(second) == ["report"]
    assert second.warnings == (f"{root} is gone: its skills stay as they were",)
    with pytest.raises(NotADirectoryError, match=r"skills\.folder: .* is no folder"):
        org(root)


def looked(root: Path, before: Found | None = None) -> Found:
    return look([Root("org", root)], before)


def test_a_change_is_seen_and_no_change_is_none(tmp_path: Path) -> None:
    folder = write(tmp_path, "report")
    first = looked(tmp_path)
    assert not first.is_changed()
    write(tmp_path, "report", body="Changed.\n")
    assert first.is_changed()
    second = looked(tmp_path, first)
    assert [contents.body(skill) for skill in second.skills] == ["Changed.\n"]
    (folder / "references").mkdir()
    assert second.is_changed()
    third = looked(tmp_path, second)
    (folder / "references" / "a.md").write_text("x")
    fourth = looked(tmp_path, third)
    assert third.skills[0].hash == second.skills[0].hash
    assert set(fourth.skills[0].files) == {"references/a.md"}
    write(tmp_path, "more/one")
    assert fourth.is_changed()
    shutil.rmtree(folder)
    assert [skill.id for skill in looked(tmp_path, fourth).skills] == ["more/one"]


def test_what_could_not_be_read_is_read_when_it_can_be(tmp_path: Path) -> None:
    folder = write(tmp_path, "report")
    handle = os.open(folder, os.O_RDONLY)
    for name in ["deep", *(["x" * 200] * 25)]:  # further down than a path may lead
        os.mkdir(name, dir_fd=handle)
        inner = os.open(name, os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.close(handle)
    first = looked(tmp_path)
    assert [(fault.id, fault.kind) for fault in first.faults] == [("report", "unreadable")]
    assert not first.is_changed()
    shutil.rmtree(folder / "deep")
    assert first.is_changed()
    assert [skill.id for skill in looked(tmp_path, first).skills] == ["report"]


def test_a_change_that_keeps_size_and_time_is_seen(tmp_path: Path) -> None:
    file = write(tmp_path, "report", body="one\n") / "SKILL.md"
    before = file.stat()
    first = looked(tmp_path)
    write(tmp_path, "report", body="two\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert first.is_changed()
    assert contents.body(looked(tmp_path, first).skills[0]) == "two\n"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", "1 to 64 characters"),
        ("a//b", "1 to 64 characters"),
        ("../a", "no dot in front"),
        (".hidden", "no dot in front"),
        ("a\\b", "(U+005C)"),
        ("a b", "(U+0020)"),
        ("a\u202eb", "(U+202E)"),
        ("a\u3164", "(U+3164)"),
        ("a\ufe0f", "(U+FE0F)"),
        ("e\u0301", "form NFC"),
        ("日报/हिन्दी/v1.0_x-y", None),
    ],
)
def test_ids_are_made_of_letters_and_digits_of_any_script(path: str, reason: str | None) -> None:
    fault = ids.fault(path)
    assert (fault is None) == (reason is None)
    assert reason is None or fault is None or reason in fault


def test_builtin_lies_in_the_package() -> None:
    assert (BUILTIN / "web-access" / "SKILL.md").is_file()
