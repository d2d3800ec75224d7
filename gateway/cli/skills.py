"""`deskmate skills`: look after the skills there are."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from zoneinfo import ZoneInfo

import click

from config.loading import Loaded
from config.settings import environment
from gateway.cli import Stop, pass_loaded
from skills import examples, library
from skills.examples import BrokenExample, Outcome
from skills.folders import Skill
from skills.library import Library, SkillNotFound
from skills.programs import Grant, Programs

SHOWN_CHARACTERS = 2_000


@click.group()
def skills() -> None:
    """Look after the skills there are."""


@skills.command()
@click.argument("skill_id", metavar="[ID]", required=False)
@click.option("--profile", "profile_name", default="default", show_default=True, help="Whose time zone and variables.")
@pass_loaded
def test(loaded: Loaded, skill_id: str | None, profile_name: str) -> None:
    """Run the examples of skills that are programs, and say what came where something else was expected.

    Without ID, those of all. Exit code 1 if one fails.
    """
    profile = loaded.profiles.get(profile_name)
    if profile is None:
        raise Stop(f"There is no profile {profile_name!r}. There are: {', '.join(sorted(loaded.profiles))}.")
    try:
        found = library.scan(library.roots(loaded.settings.skills))
    except NotADirectoryError as error:
        raise Stop(str(error)) from None
    grant = Grant(ZoneInfo(profile.timezone), frozenset(profile.program_env))
    programs = Programs(loaded.settings.skills, loaded.settings.data / "programs", environment(), loaded.secret_values)
    chosen = [_program(found, skill_id)] if skill_id else _all_programs(found)
    passed, failed = asyncio.run(_run(programs, chosen, grant))
    if skill_id and not passed + failed:
        raise Stop(f"{chosen[0].id} has no examples: put NAME.input.json and NAME.expected.json into examples/.")
    if failed:
        raise Stop(f"{failed} of {passed + failed} examples failed.")
    click.echo(f"{passed} example{'s' if passed != 1 else ''} passed." if passed else "There are no examples.")


def _program(found: Library, skill_id: str) -> Skill:
    try:
        skill = found.catalogue(["*"]).find(skill_id)
    except SkillNotFound as error:
        raise Stop(str(error)) from None
    if skill.program is None:
        why = "; ".join(skill.warnings) or "it needs main.py and schema.json"
        raise Stop(f"{skill.id} is no program: {why}.")
    return skill


def _all_programs(found: Library) -> list[Skill]:
    return [skill for skill in found.skills.values() if skill.program is not None]


async def _run(programs: Programs, chosen: Sequence[Skill], grant: Grant) -> tuple[int, int]:
    passed = failed = 0
    for skill in chosen:
        try:
            outcomes = await examples.outcomes(programs, skill, grant)
        except BrokenExample as error:
            click.echo(f"{click.style('FAIL', fg='red')}  {error}")
            failed += 1
            continue
        if not outcomes:
            click.echo(f"{click.style('none', fg='yellow')}  {skill.id}: no examples")
        for outcome in outcomes:
            _show(skill, outcome)
            passed += outcome.passed
            failed += not outcome.passed
    return passed, failed


def _show(skill: Skill, outcome: Outcome) -> None:
    about = f"{skill.id}: {outcome.example.name}"
    if outcome.passed:
        click.echo(f"{click.style('ok  ', fg='green')}  {about} ({outcome.took_ms} ms)")
        return
    click.echo(f"{click.style('FAIL', fg='red')}  {about}")
    parts = {"input": outcome.example.given, "expected": outcome.example.expected, "came": outcome.came}
    parts |= {"printed": outcome.chatter} if outcome.chatter else {}
    for title, text in parts.items():
        click.echo(f"      {title}:")
        for line in examples.shown(text, SHOWN_CHARACTERS):
            click.echo(f"        {line}")
