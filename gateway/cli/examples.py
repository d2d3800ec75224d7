"""Examples of programs, run one after the other and told on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from skills import examples
from skills.examples import BrokenExample, Outcome
from skills.folders import Skill
from skills.programs import Grant, Programs

SHOWN_CHARACTERS: Final = 2_000
"""Of each text of an example that failed."""


async def run(programs: Programs, chosen: Sequence[Skill], grant: Grant) -> tuple[int, int]:
    """How many passed, how many failed. An example that lacks a file has failed."""
    passed = failed = 0
    for skill in chosen:
        outcomes = await examples.outcomes(programs, skill, grant)
        if not outcomes:
            click.echo(f"{click.style('none', fg='yellow')}  {skill.id}: no examples")
        for outcome in outcomes:
            if isinstance(outcome, BrokenExample):
                click.echo(f"{click.style('FAIL', fg='red')}  {outcome}")
                failed += 1
                continue
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
