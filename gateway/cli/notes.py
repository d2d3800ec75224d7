"""`deskmate skills notes`, `approve`, `reject`: what was written back to skills, as an operator decides on it.

All that is done to notes is below `notes`; what is done to one note is also there without it.
"""

from __future__ import annotations

import click

from config.loading import Loaded
from gateway.acts import answers
from gateway.cli import ENGLISH, channel_option, for_example, needed_channel_option, pass_readable
from gateway.cli.acts import act, look
from gateway.shelf.notes import is_everywhere
from gateway.text.unmarked import plain


def known(code: str, channel: str | None) -> None:
    """Whether it can be told which note is meant: only codes of all channels are without a channel."""
    if channel is None and not is_everywhere(code):
        raise click.UsageError(f"{code} is the code of a note in one channel: give --channel CONNECTION/CHANNEL.")


@click.command()
@click.argument("code")
@needed_channel_option
@pass_readable
def approve(loaded: Loaded, code: str, channel: str) -> None:
    """Accept a note that waits.

    CODE is what stands before it in `deskmate skills notes list`, and on the card in the chat.
    """
    act(loaded, channel, lambda there: there.notes.approve(code))


@click.command()
@click.argument("code")
@needed_channel_option
@pass_readable
def reject(loaded: Loaded, code: str, channel: str) -> None:
    """Refuse a note that waits.

    Nothing of it is kept. CODE is what stands before it in `deskmate skills notes list`, and on the card in the chat.
    """
    act(loaded, channel, lambda there: there.notes.reject(code))


@click.group(
    epilog=for_example(
        "skills notes list --channel slack-main/C0123",
        "skills notes approve KMTR --channel slack-main/C0123",
        "skills notes expire KMTR 7d --channel slack-main/C0123",
    )
)
def notes() -> None:
    """See and decide on what was written back to skills.

    CODE is what stands before a note in `deskmate skills notes list`, and on the card in the chat. Codes that begin with A
    are of notes that hold in all channels; for them, --channel can be left out.
    """


@notes.command("list")
@channel_option
@pass_readable
def notes_list(loaded: Loaded, channel: str | None) -> None:
    """List notes, those that wait first.

    Of a channel and of all channels; without --channel only the latter.
    """
    act(loaded, channel, lambda there: there.notes.list())


@notes.command("show")
@click.argument("code")
@channel_option
@pass_readable
def notes_show(loaded: Loaded, code: str, channel: str | None) -> None:
    """Show a note, hidden characters named."""
    known(code, channel)
    click.echo(plain(answers.told(look(loaded, channel, lambda there: there.notes.show(code)), ENGLISH)))


@notes.command("revert")
@click.argument("code")
@channel_option
@pass_readable
def notes_revert(loaded: Loaded, code: str, channel: str | None) -> None:
    """Take a note back.

    What it had overwritten is read again.
    """
    known(code, channel)
    act(loaded, channel, lambda there: there.notes.revert(code))


@notes.command("expire")
@click.argument("code")
@click.argument("when")
@channel_option
@pass_readable
def notes_expire(loaded: Loaded, code: str, when: str, channel: str | None) -> None:
    """Let a note end.

    WHEN is `now`, `never`, a span such as 7d or 12h, or a day such as 2027-01-31.
    """
    known(code, channel)
    act(loaded, channel, lambda there: there.notes.expire(code, when))


@notes.command("promote")
@click.argument("code")
@needed_channel_option
@pass_readable
def notes_promote(loaded: Loaded, code: str, channel: str) -> None:
    """Let it hold in all channels.

    It gets a new code.
    """
    act(loaded, channel, lambda there: there.notes.promote(code))


notes.add_command(approve)
notes.add_command(reject)
revert, expire, promote = notes_revert, notes_expire, notes_promote
