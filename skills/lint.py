"""Lint: what keeps a skill from being found, followed or trusted, said before anybody has to find out.

Three kinds of findings: what the reader says (`document`, in its words), what makes a skill weak (this module), and
what an approver should look at (`danger`).
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from skills import contents, danger, document, env_advice, folders, ids, overlap, parts, paths, schema_advice, schemas
from skills.bundles import BrokenBundle, Cache
from skills.contents import Changed
from skills.document import BrokenSkill, Head, Remark
from skills.findings import Finding
from skills.folders import MAIN, NO_PROGRAM, PROGRAM, Fault, Reading, Root, Skill
from skills.overlap import Described
from skills.visible import one_line
from skills.zips import from_zip

TIER: Final = "lint"
SCANNED_MAX_BYTES: Final = 2 * 1_024 * 1_024
"""Of all texts of a skill together: whoever hides a line behind megabytes is told of."""
DESCRIPTION_MIN: Final = 40
"""In characters; one of Chinese or Japanese counts as two."""
COMPATIBILITY_MAX: Final = 500
BODY_MAX_BYTES: Final = 20_480
"""What one load delivers, unless the settings say otherwise."""

MAIN_MAX_BYTES: Final = 1_024 * 1_024
"""Of a main.py that is compiled; a larger one is taken for fine."""
UNUSABLE: Final = frozenset({"schema_invalid", "schema_outside", "main_invalid"})
"""Findings with which a program is not offered, or fails each time."""

_WHEN: Final = re.compile(
    r"\b(?:when(?:ever)?|use (?:it|this|for|to|if|after|before|with)|used? (?:for|to)|if (?:the|a|an|you|somebody|someone|asked)|trigger|invoke|for (?:any|all|requests?|questions?|tasks?)|"
    r"asks? (?:for|to|about|how)|wants? to|needs? to|mentions?)\b|当|用于|适用|用来|场景|触发|时使用|时用|的时候|如果|遇到|需要.{0,20}时|想要|要求.{0,12}时|提到|使う|場合|とき|際に",
    re.IGNORECASE,
)
_WHEN_NOT: Final = re.compile(
    r"\b(?:not (?:for|when|if|to|intended|meant|needed)|do(?:es)? not (?:use|apply|cover)|don't use|never (?:for|use)|except (?:for|when)|instead use|use \S+ instead|"
    r"only (?:for|when|if)|rather than|unless|skip (?:for|when|if))\b|不用于|不适用|不要用|不用来|不处理|不负责|不包括|不涉及|而不是|除外|仅限|仅用于|只用于|只在|请用|请改用|改用|使わない|対象外|ではなく",
    re.IGNORECASE,
)
_EXAMPLE: Final = re.compile(
    r"\b(?:examples?|for instance|e\.g\.|sample|input:|output:)|```|~~~|示例|例子|例如|比如|样例|举例|例[:：]|输入[:：]",
    re.IGNORECASE,
)
_WIDE: Final = re.compile("[\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]")
_CJK_NAME: Final = re.compile(
    "(?=.{1,64}$)[a-z0-9\u3005\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
    "(?:-[a-z0-9\u3005\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+)*"
)
_STANDARD_FIELDS: Final = {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
_OUR_FIELDS: Final = {"version", "author", "tags", "alias", "arguments", "returns", "env", "paths"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What lint says about one folder."""

    path: Path
    """Its SKILL.md, or what stands in its place."""
    id: str
    reason: str | None
    """Why it does not load, as a fixed word; none if it loads."""
    name: str | None = None
    description: str | None = None
    """As parsed, uncut."""
    findings: tuple[Finding, ...] = field(default=())

    @property
    def loads(self) -> bool:
        return self.reason is None

    @property
    def is_sound(self) -> bool:
        """It loads, what it brings to run can be used, and nothing is a sign of harm."""
        return self.loads and not any(one.danger or one.kind in UNUSABLE for one in self.findings)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Kinds of the findings of a skill that loads, each once, sorted."""
        return tuple(sorted({finding.kind for finding in self.findings})) if self.loads else ()

    def as_json(self) -> dict[str, Any]:
        """One object for programs. `findings` has the sentences to the kinds in `warnings`."""
        findings = [asdict(one) for one in self.findings]
        return {
            "path": str(self.path), "id": self.id, "loads": self.loads, "reason": self.reason, "name": self.name,
            "description": self.description, "warnings": list(self.warnings), "findings": findings,
        }  # fmt: skip


def lint(places: Sequence[Path], body_max_bytes: int = BODY_MAX_BYTES) -> list[Verdict]:
    """Everything at `places`: a skill's folder, its SKILL.md, a zip of one, or a folder in which skills lie.

    All that is given is compared with each other. Raises `FileNotFoundError` for a path that is not there.
    """
    with TemporaryDirectory(prefix="deskmate-lint-") as spare:
        return _verdicts(
            [(path, reading) for path in places for reading in _readings(path, Path(spare))], body_max_bytes
        )


def _verdicts(readings: Sequence[tuple[Path, Reading]], body_max_bytes: int) -> list[Verdict]:
    skills = [(path, reading.skill) for path, reading in readings if reading.skill]
    others = _neighbours([skill for _, skill in skills])
    verdicts: list[Verdict] = []
    for path, reading in readings:
        verdicts += [_broken(fault) for fault in reading.faults if fault.kind != NO_PROGRAM]  # that of a skill: below
        if skill := reading.skill:
            findings = (*inspect(skill, body_max_bytes), *_main(skill), *others.get(id(skill), ()))
            verdicts.append(_fine(skill, path if _is_zip(path) else skill.folder / document.NAME, findings))
    return verdicts


def remarks(head: Head) -> Iterator[Remark]:
    """What the reader puts up with, and people should know. Names in Chinese, Japanese and Korean are no fault: the
    standard's own checker takes letters of any script.
    """
    return (one for one in head.warnings if one.kind != "name_pattern" or not _CJK_NAME.fullmatch(head.name))


def inspect(skill: Skill, body_max_bytes: int = BODY_MAX_BYTES) -> Iterator[Finding]:
    """All findings about one skill for itself."""
    for remark in remarks(skill.head):
        yield Finding(remark.kind, remark.text, line=remark.line)
    for warning in skill.warnings:
        yield Finding("left_out", warning)
    yield from _standard(skill)
    yield from _description(skill)
    yield from _body(skill, body_max_bytes)
    yield from _program(skill)
    yield from env_advice.inspect(skill)
    yield from (Finding("paths_form", f"paths: {fault}") for fault in paths.faults(skill.head))
    yield from scan(skill)


def scan(skill: Skill) -> Iterator[Finding]:
    """Signs of harm in all files of a skill. What is too much to read, or no longer what it was, is named."""
    searched = 0
    for path in sorted((document.NAME, *skill.files)):
        try:
            raw = contents.read(skill, path)
        except Changed as error:
            yield Finding("unreadable", str(error), path, danger=True)
            continue
        yield from danger.signs_in_bytes(raw[: max(SCANNED_MAX_BYTES - searched, 0)], path)
        searched += len(raw) if b"\0" not in raw else 0
        if searched > SCANNED_MAX_BYTES:
            yield Finding(
                "not_scanned", f"only the first {SCANNED_MAX_BYTES:,} bytes of text were searched", path, danger=True
            )
            return
    if skill.skill_md.runs:
        yield Finding("text_runs", "may be run as a program, and is a text")


def _is_zip(path: Path) -> bool:
    return path.suffix.casefold() == ".zip" and path.is_file()


def _zipped(path: Path, spare: Path) -> Reading:
    """The skill in a zip, laid out below `spare`."""
    id_ = path.stem
    try:
        id_, files, left_out = from_zip(path.read_bytes(), path.name)
        skill = folders.skill_of(id_, TIER, Path(), files, left_out)
    except BrokenBundle as error:
        return Reading(str(path), {}, id_, faults=(Fault(id_, TIER, path, "zip", str(error)),))
    except BrokenSkill as error:
        return Reading(str(path), {}, id_, faults=(Fault(id_, TIER, path, error.kind, error.reason, error.line),))
    kept = {file.path: files[file.path] for file in (skill.skill_md, *skill.files.values())}
    return Reading(str(path), {}, id_, replace(skill, folder=Cache(spare).lay_out(skill.hash, kept)))


def _readings(path: Path, spare: Path) -> Sequence[Reading]:
    if _is_zip(path):
        return [_zipped(path, spare)]
    folder = path.parent if path.is_file() and path.name.casefold() == document.NAME.casefold() else path
    if not folder.exists():
        raise FileNotFoundError(str(path))
    if not folder.is_dir():
        raise NotADirectoryError(str(path))
    if any(entry.name.casefold() == document.NAME.casefold() for entry in folder.iterdir()):
        return [folders.read_one(folder, TIER)]
    found = folders.read_root(Root(TIER, folder), [folder], ())
    return [one for one in found if one.skill or one.faults]


def _broken(fault: Fault) -> Verdict:
    finding = Finding(fault.kind, fault.reason, line=fault.line or 1)
    return Verdict(fault.place, fault.id, fault.kind, findings=(finding,))


def _fine(skill: Skill, path: Path, findings: Sequence[Finding]) -> Verdict:
    head = skill.head
    return Verdict(path, skill.id, None, head.name, head.description, tuple(findings))


def _standard(skill: Skill) -> Iterator[Finding]:
    """Rules of the open format that our reader is kinder about than others are."""
    fields = skill.head.fields
    if unknown := sorted(fields.keys() - _STANDARD_FIELDS - _OUR_FIELDS):
        yield Finding("unknown_field", f"fields that nobody reads: {', '.join(unknown)}")
    if "compatibility" in fields:
        value = fields["compatibility"]
        if not isinstance(value, str):
            yield Finding("compatibility_not_text", "compatibility should be text")
        elif len(value) > COMPATIBILITY_MAX:
            yield Finding("compatibility_too_long", f"{len(value)} characters, the standard allows {COMPATIBILITY_MAX}")
    if "metadata" in fields and not isinstance(fields["metadata"], Mapping):
        yield Finding("metadata_form", "metadata should be `key: value` lines")


def _description(skill: Skill) -> Iterator[Finding]:
    text = skill.head.description
    if len(text) + len(_WIDE.findall(text)) < DESCRIPTION_MIN:
        yield Finding("description_thin", f"{len(text)} characters: what it gives, when to use it, when not")
    if not _WHEN.search(overlap.NOT_FOR.sub(" ", text)):
        yield Finding("description_no_when", "the description does not say when to use it: `Use it when ...`")
    if not _WHEN_NOT.search(text):
        yield Finding("description_no_when_not", "the description does not say when not to: `Not for ...: that is ...`")


def _body(skill: Skill, max_bytes: int) -> Iterator[Finding]:
    try:
        raw = contents.read(skill, document.NAME)
    except Changed:
        return  # `scan` says so
    body = document.body_of(raw)
    line = len(raw.splitlines()) - len(body.encode().splitlines()) + 1
    if not body.strip():
        yield Finding("body_empty", "there is no text to follow", line=line)
        return
    if skill.body_bytes > max_bytes:
        text = f"{skill.body_bytes:,} bytes, delivered in parts of {max_bytes:,}: move what only some tasks need to references/"
        yield Finding("body_over_budget", text, line=line)
    if not _EXAMPLE.search(body) and not any(path.startswith("examples/") for path in skill.files):
        yield Finding("no_examples", "neither the text nor examples/ shows one", line=line)
    for path in _mentioned(body):
        if path not in skill.files:
            yield Finding("file_missing", f"the text names {path}, which is not there", line=line)


def _mentioned(body: str) -> list[str]:
    """Files of its own that a text sends the model to."""
    found = re.findall(r"(?<![\w/.-])(?:\./)?((?:references|scripts|assets)/[\w./-]*\w\.\w{1,8})\b", parts.prose(body))
    return list(dict.fromkeys(found))


def _program(skill: Skill) -> Iterator[Finding]:
    """A skill that is a tool, too: its schema, and the examples that are its tests."""
    has = PROGRAM & skill.files.keys()
    if len(has) == 1:
        [there] = has
        yield Finding("half_a_program", f"{there} without {min(PROGRAM - has)}: it is read as a plain skill", there)
    if schemas.NAME in has:
        with suppress(Changed):  # `scan` says so
            yield from schema_advice.inspect(contents.read(skill, schemas.NAME))
    if has == PROGRAM:
        if not any(path.startswith("examples/") for path in skill.files):
            yield Finding("no_examples", "a program without examples/ can't be tested: input and expected output", MAIN)
        if "returns" not in skill.head.fields:
            yield Finding("returns_missing", "the model is not told what comes back: set `returns`")


def _main(skill: Skill) -> Iterator[Finding]:
    """What Python says of a program's text. It is compiled and never run; for its author, on the author's machine."""
    if not skill.files.keys() >= PROGRAM or skill.files[MAIN].size_bytes > MAIN_MAX_BYTES:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(contents.read(skill, MAIN), MAIN, "exec", dont_inherit=True)
    except Changed:
        return  # `scan` says so
    except SyntaxError as error:
        yield Finding("main_invalid", f"is no Python: {one_line(error.msg)[:200]}", MAIN, error.lineno or 1)
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        yield Finding("main_invalid", f"is no Python: {one_line(str(error))[:200] or 'nested too deep'}", MAIN)


def _neighbours(skills: Sequence[Skill]) -> dict[int, list[Finding]]:
    """What is easily confused with what: by description, and by the look of the ids. By `id()` of the skill."""
    found: dict[int, list[Finding]] = {}
    described = [Described(skill.id, skill.head.description) for skill in skills]
    for one in overlap.overlaps(described):
        words = ", ".join(one.common)
        for mine, other in ((one.first, one.second), (one.second, one.first)):
            text = f"easily confused with {described[other].id} (both: {words}): say in each what is the other's"
            found.setdefault(id(skills[mine]), []).append(Finding("easily_confused", text))
    looks: dict[str, Skill] = {}
    for skill in skills:
        first = looks.setdefault(ids.skeleton(skill.id), skill)
        if ids.key(first.id) != ids.key(skill.id):
            text = f"its id looks like {first.id} and is another: in one library it is refused"
            found.setdefault(id(skill), []).append(Finding("look_alike", text, danger=True))
    return found
