"""What a skill's files hold, read where they lie when somebody asks, and only if it is what the snapshot lists."""

from __future__ import annotations

import hashlib

from skills import descent, document
from skills.folders import Content, Skill, read_file


class Changed(Exception):
    """A file is not what the snapshot lists: other bytes, or not to be read any more. `str()` names it and says so."""


def read(skill: Skill, path: str) -> bytes:
    """The bytes of one of the skill's files, by its path in the list; SKILL.md is one of them.

    Raises `Changed`, and `KeyError` for a path that is not in the list.
    """
    listed = skill.skill_md if path == document.NAME else skill.files[path]
    try:
        with descent.begun(skill.folder) as folder:
            raw, _ = read_file(folder, path)
    except OSError as error:
        raise Changed(f"{path} can't be read: {error.strerror}") from error
    if hashlib.sha256(raw).hexdigest() != listed.hash:
        raise Changed(f"{path} was changed just now")
    return raw


def body(skill: Skill) -> str:
    """The text after the frontmatter. Raises `Changed`."""
    return document.body_of(read(skill, document.NAME))


def whole(skill: Skill) -> dict[str, Content]:
    """All files of a skill, SKILL.md among them: what a bundle is made of. Raises `Changed`."""
    return {file.path: Content(read(skill, file.path), file.runs) for file in (skill.skill_md, *skill.files.values())}
