"""`deskmate skills notes`, `approve`, `reject`: what was written back to skills, as an operator decides on it."""

from __future__ import annotations

import click

from config.loading import Loaded
from gateway.cli import ENGLISH, channel_option, needed_channel_option, pass_readable
from gateway.cli.acts import act, do
from gateway.commands.skill import answers


@click.command()
@click.argument("code")
@needed_channel_option
@pass_readable
def approve(loaded: Loaded, code: str, channel: str) -> None:
    """Accept a note that waits."""
    act(loaded, channel, lambda there: there.notes.approve(code))


@click.command()
@click.argument("code")
@needed_channel_option
@pass_readable
def reject(loaded: Loaded, code: str, channel: str) -> None:
    """Refuse a note that waits: nothing of it is kept."""
    act(loaded, channel, lambda there: there.notes.reject(code))


@click.group()
def notes() -> None:
    """What was written back to skills: list, show, revert, expire, promote.

    Codes that begin with A are of notes that hold in all channels; for them, --channel can be left out.
    """


@notes.command("list")
@channel_option
@pass_readable
def notes_list(loaded: Loaded, channel: str | None) -> None:
    """List the notes of a channel, those that wait first, and those of all channels."""
    act(loaded, channel, lambda there: there.notes.list())


@notes.command("show")
@click.argument("code")
@channel_option
@pass_readable
def notes_show(loaded: Loaded, code: str, channel: str | None) -> None:
    """Show the text of a note, hidden characters named."""
    # As it is: a note may hold what `plain` takes out.
    click.echo(answers.told(do(loaded, channel, lambda there: there.notes.show(code)), ENGLISH))


@notes.command("revert")
@click.argument("code")
@channel_option
@pass_readable
def notes_revert(loaded: Loaded, code: str, channel: str | None) -> None:
    """Take a note back. What it had overwritten is read again."""
    act(loaded, channel, lambda there: there.notes.revert(code))


@notes.command("expire")
@click.argument("code")
@click.argument("when")
@channel_option
@pass_readable
def notes_expire(loaded: Loaded, code: str, when: str, channel: str | None) -> None:
    """Let a note end: WHEN is `now`, `never`, a span such as 7d or 12h, or a day such as 2027-01-31."""
    act(loaded, channel, lambda there: there.notes.expire(code, when))


@notes.command("promote")
@click.argument("code")
@needed_channel_option
@pass_readable
def notes_promote(loaded: Loaded, code: str, channel: str) -> None:
    """Let a note of a channel hold in all channels, under a new code."""
    act(loaded, channel, lambda there: there.notes.promote(code))
