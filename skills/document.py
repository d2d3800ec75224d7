"""SKILL.md: a frontmatter of fields, and a body. Bytes in; a document, or the reason why it is none, out.

The format is the open one of agentskills.io. What is read more kindly than there is said where it happens.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from skills import frontmatter

NAME: Final = "SKILL.md"
DESCRIPTION_MAX: Final = 1_024
NAME_MAX: Final = 64
FRONTMATTER_MAX_BYTES: Final = 64 * 1_024
FILE_MAX_BYTES: Final = 1_024 * 1_024

_MARKER: Final = re.compile(r"^---[ \t]*(?:\n|\Z)", re.MULTILINE)
_STANDARD_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_NO_BLANKS: Final = re.compile("[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")
_FIELD: Final = re.compile(r"(\w[^:]*|\"[^\"]*\"|'[^']*'):[ \t]+(?=\S)")


@dataclass(frozen=True, slots=True)
class Remark:
    """Something about a skill that its author should know; it works all the same."""

    kind: str
    """A fixed word, such as `name_missing`."""
    text: str
    line: int = 1


class BrokenSkill(Exception):
    """The bytes are no skill. `kind` is a fixed word, `reason` a sentence, `line` counts from 1."""

    def __init__(self, kind: str, reason: str, line: int = 1) -> None:
        super().__init__(f"line {line}: {reason}")
        self.kind = kind
        self.reason = reason
        self.line = line


@dataclass(frozen=True, slots=True)
class Head:
    """What the frontmatter of a SKILL.md says."""

    name: str
    description: str
    """As parsed, outer white space removed, however long."""
    fields: Mapping[str, Any]
    """All of the frontmatter, unknown fields too. Scalars are text."""
    warnings: tuple[Remark, ...] = ()

    @property
    def summary(self) -> str:
        """The description within the standard's limit, cut at a word."""
        return cut_at_word(self.description, DESCRIPTION_MAX)

    @property
    def tags(self) -> tuple[str, ...]:
        return _words(self.fields.get("tags"))

    @property
    def aliases(self) -> tuple[str, ...]:
        return _words(self.fields.get("alias"), spaces=False)

    @property
    def env(self) -> tuple[str, ...]:
        """Names of the environment variables that its program needs."""
        return _words(self.fields.get("env"))

    @property
    def paths(self) -> tuple[str, ...]:
        """Patterns of the files that it is for, see `skills.paths`."""
        return _words(self.fields.get("paths"))

    @property
    def allowed_tools(self) -> tuple[str, ...] | None:
        """Entries of `allowed-tools` (`Shell(cal -m *)` is one), or none if the field is absent.

        A field that is there but can't be read restricts to nothing: a restriction is never dropped.
        """
        return _words(self.fields["allowed-tools"]) if "allowed-tools" in self.fields else None

    def text(self, name: str) -> str:
        """A field that should be text, such as `version`; empty if it is absent or something else."""
        value = self.fields.get(name, "")
        return value.strip() if isinstance(value, str) else ""


@dataclass(frozen=True, slots=True)
class Document(Head):
    """One whole SKILL.md."""

    body: str = field(kw_only=True)
    """What follows the frontmatter, with LF as the only line ending."""

    @property
    def head(self) -> Head:
        """The same without the body, for those who keep many."""
        return Head(self.name, self.description, self.fields, self.warnings)


def parse(raw: bytes, directory: str) -> Document:
    """Read one SKILL.md that lies in a folder called `directory`. Raises `BrokenSkill`."""
    block, body = _split(_decode(raw))
    remarks: list[Remark] = []
    fields = _fields(block, remarks)
    name = _name(fields, directory, remarks)
    description = _description(fields, remarks)
    if "allowed-tools" in fields and not _readable(fields["allowed-tools"]):
        remarks.append(Remark("allowed_tools_form", "allowed-tools should be a list of names; the rest allows nothing"))
    return Document(name, description, fields, tuple(remarks), body=body)


def body_of(raw: bytes) -> str:
    """The body of a SKILL.md that `parse` reads. Raises `BrokenSkill`."""
    return _split(_decode(raw))[1]


def cut_at_word(text: str, limit: int) -> str:
    """At most `limit` characters of `text`, cut between words and marked with an ellipsis where it was longer."""
    if len(text) <= limit:
        return text
    end = max(limit - 1, 0)
    # A very long word is cut in the middle rather than half of the text being lost.
    if (second_half := text[end // 2 : end + 1]).isascii() and second_half.isprintable():
        blank = text.rfind(" ", end // 2, end + 1)
        border = min(blank + 1, end) if blank >= 0 else end
    else:
        border = next((at for at in range(end, end // 2, -1) if _between_words(text[at - 1], text[at])), end)
    return text[:border].rstrip(" \t\n,;:，；：、") + "…"


def _between_words(before: str, after: str) -> bool:
    """At a blank; in scripts that have none between words, such as Chinese, anywhere."""
    return before.isspace() or after.isspace() or bool(_NO_BLANKS.match(before) or _NO_BLANKS.match(after))


def _decode(raw: bytes) -> str:
    if len(raw) > FILE_MAX_BYTES:
        raise BrokenSkill("file_too_large", f"{len(raw):,} bytes, allowed are {FILE_MAX_BYTES:,}")
    try:
        text = raw.removeprefix(b"\xef\xbb\xbf").decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise BrokenSkill("not_utf8", f"not UTF-8: byte 0x{raw[error.start]:02x}", line) from error
    if not text.strip():
        raise BrokenSkill("empty_file", "the file is empty")
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _split(text: str) -> tuple[str, str]:
    opening = _MARKER.match(text)
    if not opening:
        raise BrokenSkill("no_frontmatter", "the first line must be ---")
    closing = _MARKER.search(text, opening.end())
    if not closing:
        raise BrokenSkill("unclosed_frontmatter", "no closing ---")
    block = text[opening.end() : closing.start()]
    if (size := len(block.encode())) > FRONTMATTER_MAX_BYTES:
        raise BrokenSkill(
            "frontmatter_too_large", f"frontmatter of {size:,} bytes, allowed are {FRONTMATTER_MAX_BYTES:,}"
        )
    return block, text[closing.end() :]


def _fields(block: str, remarks: list[Remark]) -> dict[str, Any]:
    try:
        value, duplicates = frontmatter.read(block)
    except frontmatter.YamlFault as fault:
        try:
            value, duplicates = frontmatter.read(_repair(block))
        except frontmatter.YamlFault:
            raise BrokenSkill("yaml_error", fault.reason, fault.line + 1) from fault
        repaired = f"{fault.reason}: read as if plain values stood in quotes; put them in quotes"
        remarks.append(Remark("yaml_repaired", repaired, fault.line + 1))
    if value is None:
        raise BrokenSkill("frontmatter_empty", "no fields between the two ---")
    if not isinstance(value, dict):
        raise BrokenSkill("frontmatter_not_mapping", "the frontmatter must be `field: value` lines", 2)
    remarks += [Remark("duplicate_key", f"{one.key}: given twice, the last counts", one.line + 1) for one in duplicates]
    return value


def _repair(block: str) -> str:
    """The frontmatter with quotes around top-level plain values that YAML reads otherwise or not at all.

    That is the one repair, and it is tried only on a frontmatter that does not parse. The lines that follow a value
    indented by spaces belong to it. Lines keep their numbers.
    """
    lines = block.split("\n")
    repaired: list[str] = []
    at = 0
    while at < len(lines):
        end = at + 1
        start = _FIELD.match(lines[at])
        if start:
            end = _end_of_value(lines, end)
            value = "\n".join([lines[at][start.end() :], *lines[at + 1 : end]]).rstrip()
            if _needs_quotes(value):
                tail = "\n" * (end - at - 1 - value.count("\n"))
                repaired.append(start[0] + "'" + value.replace("'", "''") + "'" + tail)
                at = end
                continue
        repaired += lines[at:end]
        at = end
    return "\n".join(repaired)


def _end_of_value(lines: list[str], at: int) -> int:
    """The line after the last indented one; blank lines count only in between."""
    end = at
    while at < len(lines) and (lines[at].startswith(" ") or not lines[at]):
        at += 1
        if lines[at - 1].strip():
            end = at
    return end


def _needs_quotes(value: str) -> bool:
    if value[0] in "\"'|>":
        return False
    if value[0] in "@%&*!,]}`" or re.match(r"[-?:](?:\s|\Z)", value):
        return True
    if value[0] in "[{":
        try:
            parsed, _ = frontmatter.read(value)
        except frontmatter.YamlFault:
            return True
        return isinstance(parsed, str)
    return re.search(r":(?:\s|\Z)|\s#", value, re.MULTILINE) is not None


def _name(fields: Mapping[str, Any], directory: str, remarks: list[Remark]) -> str:
    value = fields.get("name", "")
    if not isinstance(value, str):
        raise BrokenSkill("name_not_text", "name must be text")
    name = value.strip()
    if not name:
        remarks.append(Remark("name_missing", f"no name: the folder's is taken, {directory}"))
        return directory
    if re.search(r"[/\\]", name) or any(unicodedata.category(character) == "Cc" for character in name):
        raise BrokenSkill("name_unsafe", r"name holds /, \ or a control character")
    if len(name) > NAME_MAX:
        remarks.append(Remark("name_pattern", f"name of {len(name)} characters, the standard allows {NAME_MAX}"))
    elif not _STANDARD_NAME.fullmatch(name):
        remarks.append(Remark("name_pattern", "the standard has names of a-z, 0-9 and single hyphens between them"))
    if unicodedata.normalize("NFC", name) != unicodedata.normalize("NFC", directory):
        remarks.append(Remark("name_directory_mismatch", f"name is {name}, the folder is called {directory}"))
    return name


def _description(fields: Mapping[str, Any], remarks: list[Remark]) -> str:
    if "description" not in fields:
        raise BrokenSkill("description_missing", "no description")
    value = fields["description"]
    if not isinstance(value, str):
        raise BrokenSkill("description_not_text", "description must be text")
    description = value.strip()
    if not description:
        raise BrokenSkill("description_empty", "description is empty")
    if len(description) > DESCRIPTION_MAX:
        remarks.append(
            Remark("description_too_long", f"description of {len(description):,} characters, {DESCRIPTION_MAX:,} count")
        )
    return description


def _words(value: Any, *, spaces: bool = True) -> tuple[str, ...]:
    """A list, or text with commas or blanks between entries; what stands in brackets stays together."""
    if isinstance(value, list):
        return tuple(item.strip() for item in value if isinstance(item, str) and item.strip())
    if not isinstance(value, str):
        return ()
    words = [""]
    depth = 0
    for character in value:
        depth += (character == "(") - (character == ")" and depth > 0)
        if depth == 0 and (character in ",，、\n" or (spaces and character.isspace())):
            words.append("")
        else:
            words[-1] += character
    return tuple(word.strip() for word in words if word.strip())


def _readable(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(item, str) and item.strip() for item in value)
    return isinstance(value, str) and bool(value.strip())
