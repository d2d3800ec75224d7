"""`deskmate dead`: turns that were given up; asking once more, or letting go."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final

import click

from config.loading import Loaded
from gateway.acts.letter_acts import LetterActs
from gateway.acts.letter_answers import dropped, for_programs, reason_in_words, retried, why
from gateway.cli import ENGLISH, Stop, for_example, pass_readable
from gateway.cli.acts import Open, do, look
from gateway.conversation.letters import ID, Letter, done_in, letter_named, letters
from gateway.conversation.mailbox import Mailbox
from gateway.conversation.records import Record
from gateway.events import Event
from skills.visible import one_line, visible

CALL_MAX: Final = 2_000
"""Characters of a call's arguments that are shown."""


@click.group(epilog=for_example("dead list", "dead show 0-1796030400000-0", "dead retry 0-1796030400000-0"))
def dead() -> None:
    """Turns that were given up, and parts of replies that did not arrive: see them, ask once more, let go."""


@dead.command("list", epilog=for_example("dead list -n 100 --json"))
@click.option("-n", "most", type=click.IntRange(1, 10_000), default=50, show_default=True, help="How many at most.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a letter, each on a line of its own.")
@pass_readable
def list_(loaded: Loaded, most: int, as_json: bool) -> None:
    """List dead letters, one a turn, the latest first: id, when, where, turn, and all that went wrong."""
    found = look(loaded, None, lambda there: letters(there.store, most))
    for one in found:
        click.echo(json.dumps(for_programs(one, ENGLISH), ensure_ascii=False) if as_json else _told(one))
    if not found and not as_json:
        click.echo("There are no dead letters.")


@dead.command(epilog=for_example("dead show 0-1796030400000-0", "dead show wdldgoja"))
@click.argument("named", metavar="ID")
@pass_readable
def show(loaded: Loaded, named: str) -> None:
    """Show what a turn was to answer, what it called, and what it came to.

    ID is that of a letter, or the reference that the person read in the notice.
    """

    async def read(there: Open) -> tuple[Letter, list[str]]:
        found = await _found(there, named)
        return found, list(_said(await done_in(there.store, found)))

    one, told = look(loaded, None, read)
    click.echo(_told(one))
    for line in told or ["What was said is not kept any more."]:
        click.echo(f"  {line}")


@dead.command(epilog=for_example("dead retry 0-1796030400000-0", "dead retry wdldgoja"))
@click.argument("named", metavar="ID")
@pass_readable
def retry(loaded: Loaded, named: str) -> None:
    """Ask once more what a turn answered: it is a new turn, and the letter is gone with that.

    ID is that of a letter, or the reference that the person read in the notice.
    """
    click.echo(retried(_act(loaded, named, LetterActs.retry), ENGLISH))


@dead.command(epilog=for_example("dead drop 0-1796030400000-0", "dead drop wdldgoja"))
@click.argument("named", metavar="ID")
@pass_readable
def drop(loaded: Loaded, named: str) -> None:
    """Take a letter off the list. What was said stays in its conversation.

    ID is that of a letter, or the reference that the person read in the notice.
    """
    click.echo(dropped(_act(loaded, named, LetterActs.drop), ENGLISH))


def _act(loaded: Loaded, named: str, act: Callable[[LetterActs, str], Awaitable[Letter]]) -> Letter:
    async def work(there: Open) -> Letter:
        found = await _found(there, named)
        mailbox = Mailbox(there.store, loaded.settings.mailbox, data=loaded.settings.data)
        await mailbox.open()  # it has a letter: nothing new begins there
        return await act(LetterActs(there.acts, mailbox), found.id)

    return do(loaded, None, work)


async def _found(there: Open, named: str) -> Letter:
    found = await letter_named(there.store, named)
    if found is None:
        shown = one_line(named)
        at = (
            ""
            if ID.fullmatch(named)
            else f" A notice without a letter has one as well: look for reference={shown} in the log."
        )
        raise Stop(f"There is no dead letter {shown}: see `deskmate dead list`.{at}")
    return found


def _told(one: Letter) -> str:
    where = "/".join(filter(None, (one.key.connection, one.key.channel))) if one.key else "forgotten"
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one.at_ms / 1_000))
    return "  ".join(one_line(part) for part in (one.id, at, where, f"turn {one.turn[:8]}", why(one, ENGLISH)))


def _said(records: Sequence[Record]) -> Iterator[str]:
    """A turn, line by line."""
    come_back = {_call(one, one.data.get("id")) for one in records if one.type == "tool_result"}
    for one in records:
        data = one.data
        match one.type:
            case "event":
                event = Event.of(dict(data["event"]))
                said = f"/{event.name} {event.text}" if event.kind == "command" else event.text
                yield f"{event.actor.name or event.actor.id}: {visible(said.strip())}"
            case "answer":
                for block in data.get("content") or ():
                    if block.get("type") == "tool_use":
                        given = json.dumps(block.get("input"), ensure_ascii=False)[:CALL_MAX]
                        lost = "" if _call(one, block.get("id")) in come_back else "  (no result)"
                        yield f"call {one_line(str(block.get('name')))} {one_line(given)}{lost}"
            case "tool_result":
                yield f"result of {one_line(str(data.get('name')))}{' (error)' if data.get('error') else ''}"
            case "failed":
                yield f"failed: {reason_in_words(str(data.get('reason')), ENGLISH)}"
            case "reply":
                yield f"{'notice' if data.get('notice') else 'reply'}: {one_line(str(data.get('text')))}"


def _call(record: Record, id_: object) -> tuple[str, object, object]:
    """Which call of its turn."""
    return record.branch, record.data.get("step"), id_
