"""Files beside a SKILL.md: found by list, paged, and confined."""

from __future__ import annotations

from pathlib import Path

import pytest

from skills.folders import Root, Skill
from skills.library import scan
from skills.parts import OffsetOutside, Part
from skills.references import Binary, FileRefused, Folder, read, readable
from tests.skills.test_library import write


def skill(root: Path, **files: str | bytes) -> Skill:
    folder = write(root, "report")
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return scan([Root("org", root)]).skills["report"]


def test_a_file_is_read_in_parts(tmp_path: Path) -> None:
    text = "字 line\n" * 100
    report = skill(tmp_path, **{"references/a.md": b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()})
    found = ""
    while len(found) < len(text):
        part = read(report, "references/a.md", len(found), 200)
        assert isinstance(part, Part)
        assert part.text.endswith("\n")
        assert len(part.text.encode()) <= 200
        found += part.text
    assert found == text
    with pytest.raises(OffsetOutside):
        read(report, "references/a.md", len(text), 200)


def test_a_folder_is_listed_with_all_that_is_below_it(tmp_path: Path) -> None:
    report = skill(tmp_path, **{"references/b/c.md": "x", "references/a.md": "xx", "README.md": "xxx"})

    def listed(name: str) -> list[str]:
        found = read(report, name, 0, 200)
        assert isinstance(found, Folder)
        return [file.path for file in found.files]

    assert listed("references") == listed("./References/") == ["references/a.md", "references/b/c.md"]
    assert listed(".") == ["README.md", "references/a.md", "references/b/c.md"]
    with pytest.raises(FileRefused, match="'references' is a folder"):
        read(report, "references", 5, 200)


@pytest.mark.parametrize("content", [b"\x89PNG\r\n\x1a\n\xff", b"a\0b"])
def test_what_is_no_text_is_named_with_type_and_size(tmp_path: Path, content: bytes) -> None:
    found = read(skill(tmp_path, **{"assets/logo.png": content}), "assets/logo.png", 0, 200)
    assert isinstance(found, Binary)
    assert (found.mime, found.file.size_bytes) == ("image/png", len(content))


@pytest.mark.parametrize(
    "name",
    [
        "../secret.md",
        "references/../../secret.md",
        "/etc/passwd",
        "references\\a.md",
        "nope.md",
        "report/SKILL.md",
        "~",
    ],
)
def test_nothing_outside_the_list_can_be_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret.md").write_text("SECRET")
    report = skill(tmp_path, **{"references/a.md": "x"})
    with pytest.raises(FileRefused) as caught:
        read(report, name, 0, 200)
    assert str(caught.value) == f"report has no file {name!r} to read. It has: references/a.md."


def test_a_skill_without_files_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileRefused, match=r"report has no file 'x\.md' to read\. It has none\."):
        read(skill(tmp_path), "x.md", 0, 200)


def test_code_of_a_skill_that_runs_is_not_readable(tmp_path: Path) -> None:
    files = {"main.py": "x", "schema.json": "{}", "lib/db.py": "x", "README.md": "x", "references/a.py": "x"}
    assert [file.path for file in readable(skill(tmp_path, **files))] == ["README.md", "references/a.py"]


def test_a_file_that_changed_since_the_snapshot_is_not_read(tmp_path: Path) -> None:
    report = skill(tmp_path, **{"a.md": "one"})
    (report.folder / "a.md").write_text("two")
    with pytest.raises(FileRefused, match=r"a\.md was changed just now"):
        read(report, "a.md", 0, 200)
    (report.folder / "a.md").unlink()
    with pytest.raises(FileRefused, match="can't be read"):
        read(report, "a.md", 0, 200)
    secret = tmp_path / "secret"
    secret.write_text("one")
    (report.folder / "a.md").symlink_to(secret)
    with pytest.raises(FileRefused, match="can't be read"):
        read(report, "a.md", 0, 200)


def test_a_huge_file_is_named_with_its_size(tmp_path: Path) -> None:
    with pytest.raises(FileRefused, match="has 1,048,577 bytes; up to 1,048,576 can be read"):
        read(skill(tmp_path, **{"a.md": b"x" * 1_048_577}), "a.md", 0, 200)
