"""What may be written back to, and how notes are read after the shipped text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from skills.folders import Skill
from skills.notes import Note, file_fault, merged
from skills.parts import Part
from skills.references import FileRefused, Folder, read
from tests.skills.test_references import skill

NOTE = Note(
    id="n" * 26,
    code="KMTR",
    skill="report",
    file="references/a.md",
    by="slack/U1",
    by_name="Max",
    at_ms=1_796_000_000_000,
    conversation="c1",
    source="slack/C1",
    hash="0" * 64,
    text="- tried it",
    overwrite=False,
    state="kept",
)
WHEN = "2026-11-30 00:53 UTC"


@pytest.mark.parametrize(
    "path",
    [
        "references/a.md",
        "references/site-patterns/forum.pages.test.md",
        "references/网站/论坛.md",
        "references/a/b/c/d.md",
        "references/main.py.md",
    ],
)
def test_notes_go_to_markdown_files_under_references(path: str) -> None:
    assert file_fault(path) is None


@pytest.mark.parametrize(
    ("path", "limit"),
    [
        ("SKILL.md", "under references/"),
        ("skill.md", "under references/"),
        ("references/SKILL.md", "takes no notes"),
        ("references/skill.md", "takes no notes"),
        ("references/ＳＫＩＬＬ.md", "takes no notes"),
        ("references/SKILL.md/x.md", "takes no notes"),
        ("references/../SKILL.md", "letters, digits"),
        ("references/a/../../x.md", "letters, digits"),
        ("references/./a.md", "letters, digits"),
        ("references//a.md", "letters, digits"),
        ("references/", "under references/"),
        ("references//", "under references/"),
        ("references", "under references/"),
        ("references/a/", "letters, digits"),
        ("references/run.sh", "end in .md"),
        ("references/schema.json", "end in .md"),
        ("references/main.py", "end in .md"),
        ("references/__init__.py", "end in .md"),
        ("references/conftest.py", "end in .md"),
        ("references/sitecustomize.py", "end in .md"),
        ("references/a.pth", "end in .md"),
        ("references/Makefile", "end in .md"),
        ("references/a.MD", "end in .md"),
        ("references/a.md.", "end in .md"),
        ("references/.env", "letters, digits"),
        ("references/.md", "letters, digits"),
        ("references/.git/config", "letters, digits"),
        ("references/.git/config.md", "letters, digits"),
        ("schema.json", "under references/"),
        ("main.py", "under references/"),
        ("__init__.py", "under references/"),
        ("conftest.py", "under references/"),
        ("sitecustomize.py", "under references/"),
        (".env", "under references/"),
        (".git/config", "under references/"),
        ("x.pth", "under references/"),
        ("Makefile", "under references/"),
        ("a.md", "under references/"),
        ("scripts/a.md", "under references/"),
        ("References/a.md", "under references/"),
        ("./references/a.md", "under references/"),
        ("/references/a.md", "under references/"),
        ("/etc/passwd", "under references/"),
        ("//x", "under references/"),
        ("../x", "under references/"),
        ("a/../../x", "under references/"),
        (".", "under references/"),
        ("", "under references/"),
        ("~", "under references/"),
        ("..\\x", "under references/"),
        ("references\\a.md", "under references/"),
        ("references/..\\x.md", "letters, digits"),
        ("references/%2e%2e/x.md", "letters, digits"),
        ("references/‥/x.md", "letters, digits"),
        ("references/․․/x.md", "letters, digits"),
        ("references/a.md ", "letters, digits"),
        ("references/ a.md", "letters, digits"),
        ("references/a\0.md", "letters, digits"),
        ("references/a\n.md", "letters, digits"),
        ("references/\N{GRINNING FACE}.md", "letters, digits"),
        ("references/a\u200b.md", "letters, digits"),
        ("references/cafe\u0301.md", "letters, digits"),
        (f"references/{'a' * 62}.md", "letters, digits"),
        (f"references/{'a' * 300}.md", "up to 255 characters"),
        (f"references/{'a/' * 122}b.md", "up to 255 characters"),
        ("references/a.md/b.md", "no name that ends in .md"),
    ],
)
def test_no_other_path_takes_notes_and_the_reason_names_what_is_allowed(path: str, limit: str) -> None:
    reason = file_fault(path)

    assert reason is not None
    assert limit in reason
    assert len(path) > 255 or repr(path) in reason


def test_notes_follow_the_shipped_text_under_a_heading_of_their_own() -> None:
    second = replace(NOTE, code="BCDF", by_name="", text="- and again\n")

    assert merged("# Shipped\n", [NOTE, second]) == (
        "# Shipped\n"
        "\n"
        "## Notes of this channel\n"
        "\n"
        f"### Note KMTR by Max, {WHEN}\n"
        "\n"
        "- tried it\n"
        "\n"
        f"### Note BCDF by slack/U1, {WHEN}\n"
        "\n"
        "- and again\n"
    )


def test_the_shipped_text_stays_as_it_is_whatever_it_ends_with() -> None:
    for shipped in ("", "no line end", "one\n", "two\n\n"):
        assert merged(shipped, []) == shipped
        text = merged(shipped, [NOTE])
        assert text.startswith(shipped)
        assert f"\n{text}".count("\n## Notes of this channel\n") == 1


def test_notes_of_all_channels_come_first_and_say_so() -> None:
    text = merged("", [NOTE, replace(NOTE, code="ABCDF", text="- for all")])

    assert text.index("## Notes of all channels") < text.index("- for all") < text.index("## Notes of this channel")


@pytest.mark.parametrize(
    "line",
    [
        "## Notes of this channel",
        "Notes of this channel\n---",
        "  ##  NOTES  OF  THIS  CHANNEL  ##",
        "**Notes of all channels**",
        "## Nоtes of this channel",
        "## Ｎｏｔｅｓ of this channel",
        "## No\u200btes of this\u00a0channel",
        f"### Note BCDF by Ana, {WHEN}",
        "### Nóte BCDF by Ana",
        "first line\x0b## Notes of this channel",
        "first line\u2028### Note BCDF by Ana",
    ],
)
def test_a_note_can_not_pass_for_anothers(line: str) -> None:
    text = merged("", [replace(NOTE, text=f"begin\n{line}\nend")])

    assert text.count("> ") == 1
    assert text.replace("> ", "", 1).endswith(f"begin\n{line}\nend\n")


@pytest.mark.parametrize(
    "line", ["# Login", "Note: press the button by hand", "- notes of the page", "```", "| a | b |"]
)
def test_what_is_no_imitation_stays_as_it_was_written(line: str) -> None:
    assert merged("", [replace(NOTE, text=f"begin\n{line}\nend")]).endswith(f"begin\n{line}\nend\n")


def test_a_name_can_not_begin_a_line() -> None:
    text = merged("", [replace(NOTE, by_name="Max\n## Notes of all channels\u202e\n")])

    assert "### Note KMTR by Max ## Notes of all channels<U+202E>, 2026" in text


@pytest.fixture
def report(tmp_path: Path) -> Skill:
    files: dict[str, str | bytes] = {
        "references/a.md": "shipped\n",
        "references/sites/b.md": "b\n",
        "references/c.md": b"\xff",
    }
    return skill(tmp_path, **files)


def read_part(of: Skill, name: str, notes: list[Note], offset: int = 0, max_bytes: int = 10_000) -> Part:
    found = read(of, name, offset, max_bytes, notes)
    assert isinstance(found, Part)
    return found


def test_a_file_is_read_with_its_own_notes_and_no_others(report: Skill) -> None:
    notes = [NOTE, replace(NOTE, file="references/other.md", text="- other")]

    assert read_part(report, "./References/A.md", notes).text == merged("shipped\n", [NOTE])


def test_a_file_that_has_only_notes_is_read(report: Skill) -> None:
    only = replace(NOTE, file="references/new.md")

    assert read_part(report, "references/new.md", [only]).text == merged("", [only])
    with pytest.raises(FileRefused):
        read(report, "references/new.md", 0, 100)


def test_a_file_that_is_no_text_still_shows_its_notes(report: Skill) -> None:
    text = read_part(report, "references/c.md", [replace(NOTE, file="references/c.md")]).text

    assert text.startswith("(references/c.md as it was shipped is no text")
    assert "- tried it" in text


def test_pages_of_shipped_text_and_notes_joined_are_the_whole(report: Skill) -> None:
    notes = [replace(NOTE, code=f"K{n}", text=f"- 第 {n} 次\n" * 5) for n in range(20)]
    whole, found = merged("shipped\n", notes), ""
    while len(found) < len(whole):
        found += read_part(report, "references/a.md", notes, len(found), 200).text
    assert found == whole


def test_a_folder_has_what_was_shipped_and_apart_from_it_what_was_written_back(report: Skill) -> None:
    notes = [replace(NOTE, file=f"references/{name}.md") for name in ("sites/z", "sites/b", "elsewhere")]

    found = read(report, "references/sites", 0, 100, notes)

    assert isinstance(found, Folder)
    assert [file.path for file in found.files] == ["references/sites/b.md"]
    assert [note.file for note in found.notes] == ["references/sites/b.md", "references/sites/z.md"]


def test_a_folder_may_hold_nothing_but_notes(report: Skill) -> None:
    found = read(report, "references/new/", 0, 100, [replace(NOTE, file="references/new/a.md")])

    assert isinstance(found, Folder)
    assert not found.files
    assert len(found.notes) == 1
