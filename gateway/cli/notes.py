"""`deskmate skills notes`, `approve`, `reject`: what was written back to skills, as an operator decides on it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import click

from config.loading import Loaded
from gateway.cli import CHANNEL_HELP, ENGLISH, channel_option, pass_loaded
from gateway.cli.shelf import Open, do, tell
from gateway.commands.skill import answers
from gateway.shelf.note_acts import NoteActs
from skills.notes import Note


@click.command()
@click.argument("code")
@click.option("--channel", metavar="CONNECTION/CHANNEL", required=True, help=CHANNEL_HELP)
@pass_loaded
def approve(loaded: Loaded, code: str, channel: str) -> None:
    """Accept a note that waits."""
    _note(loaded, channel, lambda notes: notes.approve(code), "approved")


@click.command()
@click.argument("code")
@click.option("--channel", metavar="CONNECTION/CHANNEL", required=True, help=CHANNEL_HELP)
@pass_loaded
def reject(loaded: Loaded, code: str, channel: str) -> None:
    """Refuse a note that waits: nothing of it is kept."""
    _note(loaded, channel, lambda notes: notes.reject(code), "rejected")


@click.group()
def notes() -> None:
    """What was written back to skills: list, show, revert, expire, promote.

    Codes that begin with A are of notes that hold in all channels; for them, --channel can be left out.
    """


@notes.command("list")
@channel_option
@pass_loaded
def notes_list(loaded: Loaded, channel: str | None) -> None:
    """List the notes of a channel, those that wait first, and those of all channels."""
    tell(answers.notes_listed(do(loaded, channel, lambda there: there.notes.list()), ENGLISH))


@notes.command("show")
@click.argument("code")
@channel_option
@pass_loaded
def notes_show(loaded: Loaded, code: str, channel: str | None) -> None:
    """Show the text of a note, hidden characters named."""
    click.echo(answers.note_shown(do(loaded, channel, lambda there: there.notes.show(code)), ENGLISH))


@notes.command("revert")
@click.argument("code")
@channel_option
@pass_loaded
def notes_revert(loaded: Loaded, code: str, channel: str | None) -> None:
    """Take a note back. What it had overwritten is read again."""
    _note(loaded, channel, lambda notes: notes.revert(code), "reverted")


@notes.command("expire")
@click.argument("code")
@click.argument("when")
@channel_option
@pass_loaded
def notes_expire(loaded: Loaded, code: str, when: str, channel: str | None) -> None:
    """Let a note end: WHEN is `now`, `never`, a span such as 7d or 12h, or a day such as 2027-01-31."""

    async def work(there: Open) -> str:
        zone = (await there.acts.by.here()).profile.timezone
        return answers.note_ends(await there.notes.expire(code, when), zone, ENGLISH)

    tell(do(loaded, channel, work))


@notes.command("promote")
@click.argument("code")
@click.option("--channel", metavar="CONNECTION/CHANNEL", required=True, help=CHANNEL_HELP)
@pass_loaded
def notes_promote(loaded: Loaded, code: str, channel: str) -> None:
    """Let a note of a channel hold in all channels, under a new code."""
    _note(loaded, channel, lambda notes: notes.promote(code), "promoted")


def _note(loaded: Loaded, channel: str | None, act: Callable[[NoteActs], Awaitable[Note]], what: str) -> None:
    note = do(loaded, channel, lambda there: act(there.notes))
    tell(answers.note_done(what, note, ENGLISH))
