"""What skills are made of: the same from a folder and from memory, and never other bytes than the snapshot lists."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from skills import contents
from skills.contents import Changed
from skills.document import BrokenSkill
from skills.folders import FILES_MAX, Content, Root, Skill, skill_of
from skills.library import scan
from tests.skills.test_library import write

HEAD = b"---\nname: report\ndescription: Does it.\n---\n"


def from_disk(root: Path) -> Skill:
    [skill] = scan([Root("org", root)]).skills.values()
    return skill


def made_of(**raws: bytes) -> Skill:
    files = {"SKILL.md": Content(HEAD, runs=False)}
    files |= {path: Content(raw, runs=False) for path, raw in raws.items()}
    return skill_of("report", "org", Path("/nowhere"), files)


def test_a_folder_and_its_contents_in_memory_are_the_same_skill(tmp_path: Path) -> None:
    folder = write(tmp_path, "ops/report", body="Tu es, 做.\r\n")
    for path in ("scripts/run.sh", "references/字.md", "a b.md", ".hidden"):
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(path)
    (folder / "scripts/run.sh").chmod(0o755)
    skill = from_disk(tmp_path)
    whole = contents.whole(skill)
    assert list(whole) == ["SKILL.md", "references/字.md", "scripts/run.sh"]
    assert whole["scripts/run.sh"] == Content(b"scripts/run.sh", runs=True)
    assert skill_of("ops/report", "org", folder, whole) == replace(skill, warnings=())
    assert [warning.split(":")[0] for warning in skill.warnings] == ["left out, for its name"]
    assert (skill.body_characters, skill.body_bytes) == (len("Tu es, 做.\n"), len("Tu es, 做.\n".encode()))
    assert contents.body(skill) == "Tu es, 做.\n"


def test_only_what_the_snapshot_lists_is_read(tmp_path: Path) -> None:
    folder = write(tmp_path, "report")
    (folder / "a.md").write_text("one")
    skill = from_disk(tmp_path)
    assert contents.read(skill, "a.md") == b"one"
    assert contents.read(skill, "SKILL.md") == (folder / "SKILL.md").read_bytes()
    (folder / "a.md").write_text("two")
    with pytest.raises(Changed, match=r"^a\.md was changed just now$"):
        contents.read(skill, "a.md")
    (folder / "a.md").unlink()
    (tmp_path / "secret").write_text("one")
    (folder / "a.md").symlink_to(tmp_path / "secret")
    with pytest.raises(Changed, match=r"^a\.md can't be read: "):
        contents.read(skill, "a.md")
    with pytest.raises(KeyError):
        contents.read(skill, "../secret")


def test_of_two_names_that_count_as_the_same_the_first_is_a_file_of_the_skill() -> None:
    skill = made_of(**{"README.md": b"1", "readme.md": b"2", "ＲＥＡＤＭＥ.md": b"3"})
    assert {path: file.size_bytes for path, file in skill.files.items()} == {"README.md": 1}
    assert skill.warnings == (
        "left out: readme.md counts as the same name as README.md",
        "left out: ＲＥＡＤＭＥ.md counts as the same name as README.md",
    )
    assert skill.hash == made_of(**{"README.md": b"1"}).hash


@pytest.mark.parametrize("path", ["../up.md", "/root.md", "a//b", "back\\slash", "e\u0301.md", "a/" * 256 + "b"])
def test_what_may_not_be_a_file_is_no_part_of_the_skill(path: str) -> None:
    skill = made_of(**{path: b"x"})
    assert not skill.files
    assert skill.warnings[0].startswith("left out, for its name: ")


def test_contents_that_make_no_skill_are_refused() -> None:
    one = Content(b"x", runs=False)
    for kind, id_, files in [
        ("id", "../report", {"SKILL.md": Content(HEAD, runs=False)}),
        ("no_file", "report", {"skill.md": one}),
        ("no_frontmatter", "report", {"SKILL.md": one}),
        ("bundle_too_large", "report", {f"{number}.md": one for number in range(FILES_MAX + 1)}),
    ]:
        with pytest.raises(BrokenSkill) as caught:
            skill_of(id_, "org", Path("/nowhere"), files)
        assert caught.value.kind == kind
