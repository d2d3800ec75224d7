"""Standing: whether a skill is in force in a place, and what its program may do there, for whoever tells people of it."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.rights.access import Here, Reason, SkillUse, may
from skills import ids
from skills.folders import Skill
from skills.schemas import Effect


@dataclass(frozen=True, slots=True)
class Program:
    """What comes with a skill that runs."""

    effect: Effect
    is_listed: bool
    """Whether the profile lets it run, once the skill is in force."""
    rule: str
    """Where the profile says so, or does not."""


@dataclass(frozen=True, slots=True)
class Standing:
    reason: Reason
    """What keeps the skill out, else `allowed`."""
    rule: str
    program: Program | None = None
    no_program: str = ""
    """Why nothing of it runs, though it has a file of a program."""


def standing(here: Here, skill: Skill) -> Standing:
    """How a skill stands here, a bundle that waits too."""
    verdict = may(None, here, SkillUse(skill, "load"))
    return Standing(verdict.reason, verdict.rule, _program(here, skill), skill.no_program)


def _program(here: Here, skill: Skill) -> Program | None:
    if skill.program is None:
        return None
    is_listed = here.fits_programs(ids.key(skill.id)) is not None
    return Program(skill.program.effect, is_listed, here.rule("programs", skill.id))
