"""`deskmate dead`: turns that were given up; asking once more, or letting go."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict

import click

from config.loading import Loaded
from gateway.acts.letter_acts import LetterActs
from gateway.acts.letter_answers import dropped, reason_in_words, retried, why
from gateway.cli import ENGLISH, Stop, for_example, pass_readable
from gateway.cli.acts import Open, do
from gateway.conversation.letters import Letter, done_in, letter, letters
from gateway.conversation.mailbox import Mailbox
from gateway.events import Event
from skills.visible import one_line, visible


@click.group(epilog=for_example("dead list", "dead show 0-1796030400000-0", "dead retry 0-1796030400000-0"))
def dead() -> None:
    """Turns that were given up, and parts of replies that did not arrive: see them, ask once more, let go."""


@dead.command("list", epilog=for_example("dead list -n 100 --json"))
@click.option("-n", "most", type=click.IntRange(1, 10_000), default=50, show_default=True, help="How many at most.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a letter, each on a line of its own.")
@pass_readable
def list_(loaded: Loaded, most: int, as_json: bool) -> None:
    """List dead letters, one a turn, the latest first: id, when, where, turn, and all that went wrong."""
    found = do(loaded, None, lambda there: letters(there.store, most))
    for one in found:
        click.echo(json.dumps(_dump(one), ensure_ascii=False) if as_json else _told(one))
    if not found and not as_json:
        click.echo("There are no dead letters.")


@dead.command(epilog=for_example("dead show 0-1796030400000-0"))
@click.argument("id_", metavar="ID")
@pass_readable
def show(loaded: Loaded, id_: str) -> None:
    """Show what a turn was to answer, and what it came to."""

    async def look(there: Open) -> tuple[Letter, list[str]]:
        found = await _found(there, id_)
        told = [line for record in await done_in(there.store, found) for line in _record(record.type, record.data)]
        return found, told

    one, told = do(loaded, None, look)
    click.echo(_told(one))
    for line in told or ["What was said is not kept any more."]:
        click.echo(f"  {line}")


@dead.command(epilog=for_example("dead retry 0-1796030400000-0"))
@click.argument("id_", metavar="ID")
@pass_readable
def retry(loaded: Loaded, id_: str) -> None:
    """Ask once more what a turn answered: it is a new turn, and the letter is gone with that."""
    click.echo(retried(_act(loaded, id_, lambda acts: acts.retry(id_)), ENGLISH))


@dead.command(epilog=for_example("dead drop 0-1796030400000-0"))
@click.argument("id_", metavar="ID")
@pass_readable
def drop(loaded: Loaded, id_: str) -> None:
    """Take a letter off the list. What was said stays in its conversation."""
    click.echo(dropped(_act(loaded, id_, lambda acts: acts.drop(id_)), ENGLISH))


def _act(loaded: Loaded, id_: str, act: Callable[[LetterActs], Awaitable[Letter]]) -> Letter:
    async def work(there: Open) -> Letter:
        await _found(there, id_)
        mailbox = Mailbox(there.store, loaded.settings.mailbox)
        await mailbox.open()  # it has a letter: nothing new begins there
        return await act(LetterActs(there.acts, mailbox))

    return do(loaded, None, work)


async def _found(there: Open, id_: str) -> Letter:
    found = await letter(there.store, id_)
    if found is None:
        raise Stop(f"There is no dead letter {id_}: see `deskmate dead list`.")
    return found


def _told(one: Letter) -> str:
    where = "/".join(filter(None, (one.key.connection, one.key.channel))) if one.key else "forgotten"
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one.at_ms / 1_000))
    return "  ".join(one_line(part) for part in (one.id, at, where, f"turn {one.turn[:8]}", why(one, ENGLISH)))


def _dump(one: Letter) -> dict[str, object]:
    return {**asdict(one), "key": one.key.parts() if one.key else None}


def _record(kind: str, data: dict[str, object]) -> list[str]:
    if kind == "event":
        event = Event.of(dict(data["event"]))  # type: ignore[call-overload]
        said = f"/{event.name} {event.text}" if event.kind == "command" else event.text
        return [f"{event.actor.name or event.actor.id}: {visible(said.strip())}"]
    if kind == "failed":
        return [f"failed: {reason_in_words(str(data.get('reason')), ENGLISH)}"]
    if kind in {"reply", "tool_result"}:
        return [f"{kind}: {one_line(str(data.get('text') or data.get('name')))}"]
    return []
