"""SKILL.md: what is read, what is repaired, what is refused, and what is said about it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from skills.document import BrokenSkill, Document, cut_at_word, parse

CORPUS = Path(__file__).parent / "corpus"
MANIFEST: list[dict[str, Any]] = json.loads((CORPUS / "manifest.json").read_text("utf-8"))


def read(frontmatter: str, body: str = "Body.\n", directory: str = "report-maker") -> Document:
    return parse(f"---\n{frontmatter}\n---\n{body}".encode(), directory)


def read_field(line: str) -> Document:
    return read(f"name: report-maker\ndescription: Reports.\n{line}")


def kinds(document: Document) -> set[str]:
    return {remark.kind for remark in document.warnings}


def refusal(raw: bytes) -> BrokenSkill:
    with pytest.raises(BrokenSkill) as caught:
        parse(raw, "report-maker")
    return caught.value


@pytest.mark.parametrize("entry", MANIFEST, ids=[entry["id"] for entry in MANIFEST])
def test_a_published_file_comes_out_as_its_manifest_says(entry: dict[str, Any]) -> None:
    raw = (CORPUS / entry["id"] / "SKILL.md").read_bytes()
    assert hashlib.sha256(raw).hexdigest() == entry["sha256"], "the file was changed, perhaps by a checkout"
    expect = entry["expect"]
    if not expect["loads"]:
        with pytest.raises(BrokenSkill) as caught:
            parse(raw, entry["directory"])
        assert caught.value.kind == expect["reason"]
        return
    document = parse(raw, entry["directory"])
    assert (document.name, document.description) == (expect["name"], expect["description"])
    assert sorted(kinds(document)) == expect["warnings"]


def test_scalars_are_the_text_that_was_written() -> None:
    document = read(
        "name: yes\ndescription: 12:30:45\nversion: 1.10\nnothing:\nday: 2024-01-01\non: off", directory="yes"
    )
    assert document.name == "yes"
    assert document.description == "12:30:45"
    assert document.text("version") == "1.10"
    assert (document.fields["nothing"], document.fields["day"], document.fields["on"]) == ("", "2024-01-01", "off")


def test_an_unquoted_colon_is_repaired_and_keeps_the_restriction() -> None:
    document = read(
        "name: report-maker\n"
        "description: Builds weekly reports. IMPORTANT: use the house template, it's new\n"
        "  and says: never the old one\n"
        "allowed-tools: [read_file]"
    )
    expected = "Builds weekly reports. IMPORTANT: use the house template, it's new and says: never the old one"
    assert document.description == expected
    assert document.allowed_tools == ("read_file",)
    assert [(one.kind, one.line) for one in document.warnings] == [("yaml_repaired", 3)]


@pytest.mark.parametrize(
    ("value", "read_as"),
    [
        ("@team reports", "@team reports"),
        ("*bold* reports", "*bold* reports"),
        ("!important reports", "!important reports"),
        ("&co reports: all", "&co reports: all"),
        ("- reports: all", "- reports: all"),
        ("[week] or [month]", "[week] or [month]"),
        ("{open", "{open"),
        ("one: two # three", "one: two # three"),
        ("`code` first", "`code` first"),
        ("ends with a colon:", "ends with a colon:"),
    ],
)
def test_the_repair_quotes_what_yaml_would_not_read(value: str, read_as: str) -> None:
    document = read(f"name: report-maker\ndescription: {value}")
    assert document.description == read_as
    assert "yaml_repaired" in kinds(document)


def test_the_repair_leaves_lines_where_they_were() -> None:
    document = read(
        "name: report-maker\ndescription: a: b\n\n  c\n\nname: twice\nx:\n  y: 1\n  y: 2", directory="twice"
    )
    assert {(one.kind, one.line) for one in document.warnings} == {
        ("yaml_repaired", 3),
        ("duplicate_key", 7),
        ("duplicate_key", 10),
    }
    assert document.fields["x"] == {"y": "2"}


@pytest.mark.parametrize(
    ("raw", "kind", "line"),
    [
        (b"", "empty_file", 1),
        (b"\xef\xbb\xbf \r\n", "empty_file", 1),
        (b"# Title\n", "no_frontmatter", 1),
        (b"\n---\nname: a\n---\n", "no_frontmatter", 1),
        (b"---\nname: a\ndescription: b\n", "unclosed_frontmatter", 1),
        (b"---\nname: a\ndescription: b\n --- \n", "unclosed_frontmatter", 1),
        (b"---\nname: a\ndescription: \xff\n---\n", "not_utf8", 3),
        ("---\nname: a\n---\n".encode("utf-16"), "not_utf8", 1),
        (b"---\n---\n", "frontmatter_empty", 1),
        (b"---\n# only a comment\n---\n", "frontmatter_empty", 1),
        (b"---\n- name\n---\n", "frontmatter_not_mapping", 2),
        (b"---\njust text\n---\n", "frontmatter_not_mapping", 2),
        (b"---\nname: a\n---\n", "description_missing", 1),
        (b"---\nname: a\ndescription: ' '\n---\n", "description_empty", 1),
        (b"---\nname: a\ndescription: [b]\n---\n", "description_not_text", 1),
        (b"---\nname: {a: b}\ndescription: b\n---\n", "name_not_text", 1),
        (b"---\nname: ../a\ndescription: b\n---\n", "name_unsafe", 1),
        (b'---\nname: "a\\u0007"\ndescription: b\n---\n', "name_unsafe", 1),
        (b"---\nname: a\ndescription: b\nx: 'open\n---\n", "yaml_error", 5),
        (b"---\nname: a\ndescription: b\x07\n---\n", "yaml_error", 3),
        (b"---\nname: a\n\tdescription: b\n---\n", "yaml_error", 3),
        (b"---\nx:\n - &a [1]\n - *a\nname: a\ndescription: b\n---\n", "yaml_error", 4),
        (b"---\nx:\n - !!python/name:os.system y\nname: a\ndescription: b\n---\n", "yaml_error", 3),
        (b"---\nx:\n  ? [a]\n  : b\nname: a\ndescription: b\n---\n", "yaml_error", 3),
        (b"---\nname: a\ndescription: b\n...\nx: y\n---\n", "yaml_error", 5),
        (b"---\nname: a\ndescription: b\nx: '" + b"y" * 65_536 + b"'\n---\n", "frontmatter_too_large", 1),
        (b"---\nname: a\ndescription: b\n---\n" + b"y" * 1_048_576, "file_too_large", 1),
    ],
)
def test_what_is_no_skill_is_refused_with_reason_and_line(raw: bytes, kind: str, line: int) -> None:
    fault = refusal(raw)
    assert (fault.kind, fault.line) == (kind, line)
    assert str(fault) == f"line {line}: {fault.reason}"


@pytest.mark.parametrize("opening", ["[", "{a: "])
def test_nesting_has_an_end(opening: str) -> None:
    closing = "]" if opening == "[" else "}"

    def nested(depth: int) -> bytes:
        return f"---\nname: a\ndescription: b\nx:\n  - {opening * depth}1{closing * depth}\n---\n".encode()

    assert parse(nested(20), "a").name == "a"
    fault = refusal(nested(200))
    assert (fault.kind, fault.line) == ("yaml_error", 5)
    assert refusal(f"---\nx:\n  - {'[' * 60_000}\n---\n".encode()).kind == "yaml_error"


def test_windows_files_are_read_like_others() -> None:
    windows = (
        b"\xef\xbb\xbf---  \r\nname: report-maker\r\ndescription: |-\r\n  One.\r\n  Two.\r\n--- \r\nLine\rline\r\n"
    )
    document = parse(windows, "report-maker")
    assert document.description == "One.\nTwo."
    assert document.body == "Line\nline\n"
    assert document.warnings == ()


def test_the_body_is_kept_to_the_character() -> None:
    body = "\n  # Title\n\n---\nnot: yaml\n---\n\x0b\u2028 end"
    assert read("name: report-maker\ndescription: b", body).body == body
    assert parse(b"---\nname: a\ndescription: b\n---", "a").body == ""


@pytest.mark.parametrize(
    ("line", "tools"),
    [
        ("allowed-tools: Read Search Shell(cal -m *)", ("Read", "Search", "Shell(cal -m *)")),
        ("allowed-tools: Shell(cal add:*), Shell(cal list:*), Read", ("Shell(cal add:*)", "Shell(cal list:*)", "Read")),
        ("allowed-tools:\n  - read_file\n  - run_command", ("read_file", "run_command")),
        ("allowed-tools: [read_file, 'Shell(a, b)']", ("read_file", "Shell(a, b)")),
        ("allowed-tools: Read", ("Read",)),
        ("license: MIT", None),
    ],
)
def test_every_spelling_of_allowed_tools_gives_a_list(line: str, tools: tuple[str, ...] | None) -> None:
    document = read_field(line)
    assert document.allowed_tools == tools
    assert document.warnings == ()


@pytest.mark.parametrize(
    ("line", "tools"),
    [
        ("allowed-tools:", ()),
        ("allowed-tools: {Read: yes}", ()),
        ("allowed-tools: [Read, {Shell: all}]", ("Read",)),
    ],
)
def test_a_restriction_that_cannot_be_read_allows_nothing(line: str, tools: tuple[str, ...]) -> None:
    document = read_field(line)
    assert document.allowed_tools == tools
    assert kinds(document) == {"allowed_tools_form"}


def test_other_fields_are_kept_and_do_no_harm() -> None:
    document = read_field(
        'metadata: {"acme":{"emoji":"🗓️","needs":{"programs":["cal"]}}}\nargument-hint: [week]\nunknown-key: 7\n'
        "tags: reports, weekly\nalias: 周报"
    )
    assert document.fields["metadata"]["acme"]["needs"] == {"programs": ["cal"]}
    assert (document.fields["argument-hint"], document.fields["unknown-key"]) == (["week"], "7")
    assert document.tags == ("reports", "weekly")
    assert document.aliases == ("周报",)
    assert document.text("argument-hint") == ""


def test_a_name_is_measured_against_folder_and_standard() -> None:
    assert kinds(read("description: b")) == {"name_missing"}
    assert read("description: b").name == "report-maker"
    assert kinds(read("name: Report Maker\ndescription: b")) == {"name_pattern", "name_directory_mismatch"}
    assert kinds(read(f"name: {'a' * 65}\ndescription: b", directory="a" * 65)) == {"name_pattern"}
    assert kinds(read(f"name: {'a' * 64}\ndescription: b", directory="a" * 64)) == set()


@pytest.mark.parametrize("text", ["x" * 1_024, "字" * 400])
def test_length_is_counted_in_characters_of_the_parsed_text(text: str) -> None:
    document = read(f"name: report-maker\ndescription: {text}")
    assert document.warnings == ()
    assert document.summary == text


def test_a_description_that_is_too_long_is_cut_at_a_word_where_it_is_shown() -> None:
    lines = "\n".join(["  " + "word " * 15 + "end"] * 14)
    document = read(f"name: report-maker\ndescription: >-\n{lines}")
    assert len(document.description) == 14 * 79 - 1
    assert len(document.summary) <= 1_024
    assert document.summary.endswith(("word…", "end…"))
    [remark] = document.warnings
    assert (remark.kind, "1,105" in remark.text, "1,024" in remark.text) == ("description_too_long", True, True)


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("short", 5, "short"),
        ("one two three", 8, "one two…"),
        ("one two, three", 9, "one two…"),
        ("one two three", 9, "one two…"),
        ("先问内网，外网其次", 6, "先问内网…"),
        ("先问内网，外网其次", 5, "先问内网…"),
        ("unbreakable-word", 8, "unbreak…"),
        ("anything", 1, "…"),
    ],
)
def test_a_cut_never_leaves_half_a_word_where_it_can_be_helped(text: str, limit: int, expected: str) -> None:
    assert cut_at_word(text, limit) == expected
    assert len(expected) <= limit
