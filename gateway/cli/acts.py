"""Acts of the operator: what `deskmate skills` does to skills in force, the same as `/skill` does in the chat."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import click

from config.checks import nearest
from config.loading import Loaded
from config.rules import rule_of
from gateway.access import Here
from gateway.cli import ENGLISH, Stop, channel_option, needed_channel_option, pass_readable
from gateway.cli.words import typed
from gateway.commands.skill import answers
from gateway.connections import PAGE
from gateway.conversation.key import ConversationKey
from gateway.embedded import NoServer, redis_url
from gateway.shelf.acts import Acts, By
from gateway.shelf.note_acts import NoteActs
from gateway.shelf.notes import Notes
from gateway.shelf.outcomes import Outcome, Refusal, Shown
from gateway.shelf.shelf import Shelf
from gateway.store import Layout, Store, Unreachable, open_store, reading
from skills.bundles import Cache

T = TypeVar("T")

everywhere_option = click.option("--everywhere", is_flag=True, help="For the whole organisation.")


@dataclass(frozen=True, slots=True)
class Open:
    """What a command works with, for one channel or the whole organisation."""

    store: Store
    acts: Acts
    notes: NoteActs


def do(loaded: Loaded, channel: str | None, work: Callable[[Open], Awaitable[T]]) -> T:
    """Do something in a channel, or everywhere. Ends with a message for the operator where that can't be."""
    key = key_of(loaded, channel) if channel else None

    async def run() -> T:
        async with opened(loaded, key) as there:
            try:
                return await work(there)
            except Refusal as refusal:
                raise Stop(typed(answers.refused(refusal, ENGLISH), channel)) from None

    try:
        return asyncio.run(run())
    except NoServer as error:
        raise Stop(f"{error}.") from None
    except Unreachable as error:
        raise Stop(
            f"Redis does not answer: {str(error).rstrip('.')}. Start it, or correct redis.url (REDIS_URL)."
        ) from None
    except ValueError as error:
        raise Stop(f"What Redis holds about skills can't be read: {error}.") from None


@asynccontextmanager
async def opened(loaded: Loaded, key: ConversationKey | None) -> AsyncIterator[Open]:
    """Raises `NoServer`, `Unreachable`."""
    settings = loaded.settings
    layout = Layout(settings.redis.key_prefix, settings.redis.partitions)
    store = open_store(redis_url(settings), layout, timeout_s=settings.redis.timeout_s)
    try:
        shelf = Shelf(store, Cache(settings.data / "skills"), rule=rule_of, present=None)  # that of workers is not ours
        here: Callable[[], Awaitable[Here]] = (
            partial(shelf.here, key, loaded) if key else partial(shelf.everywhere, loaded)
        )
        with reading():
            seconds, microseconds = await store.redis.time()
        by = By(f"cli {secrets.token_hex(12)}", seconds * 1_000 + microseconds // 1_000, here=here)
        acts = Acts(shelf, settings.skills, by)
        yield Open(store, acts, NoteActs(acts, Notes(store)))
    finally:
        await store.close()


def key_of(loaded: Loaded, channel: str) -> ConversationKey:
    """The channel that an operator names."""
    connection, _, name = channel.partition("/")
    there = sorted({PAGE[0], *loaded.settings.connections})
    if connection not in there:
        close = nearest(connection, there)
        hint = f"did you mean {close}?" if close else f"there are: {', '.join(there)}."
        raise Stop(f"--channel: there is no connection {connection!r}; {hint}")
    try:
        return ConversationKey(connection, name)
    except ValueError:
        raise Stop(f"--channel: wanted is CONNECTION/CHANNEL, such as {connection}/C0123; {channel!r} came.") from None


def one_place(channel: str | None, everywhere: bool) -> None:
    if (channel is None) != everywhere:
        raise click.UsageError("Give either --channel CONNECTION/CHANNEL or --everywhere.")


def act(loaded: Loaded, channel: str | None, work: Callable[[Open], Awaitable[Outcome]]) -> None:
    """Do something, and say what came of it: the words of the chat, as they are right in a terminal."""
    click.echo(typed(answers.told(do(loaded, channel, work), ENGLISH), channel))


# ---- what `skills list` and `skills show` ask with --channel ----


def here(loaded: Loaded, channel: str) -> tuple[Here, Collection[str]]:
    """What holds in a channel now, and the hashes of bundles that wait there with signs of harm."""

    async def work(there: Open) -> tuple[Here, Collection[str]]:
        found, _ = await there.acts.may("skill list")
        return found, await there.acts.harmful(found)

    return do(loaded, channel, work)


def shown(loaded: Loaded, channel: str, name: str) -> Shown:
    return do(loaded, channel, lambda there: there.acts.show(name))


# ---- switches, trust, bundles ----


@click.command()
@click.argument("name", metavar="ID")
@channel_option
@everywhere_option
@pass_readable
def on(loaded: Loaded, name: str, channel: str | None, everywhere: bool) -> None:
    """Switch a skill on. Off for the whole organisation beats on in a channel."""
    one_place(channel, everywhere)
    act(loaded, channel, lambda there: there.acts.switch(name, "on"))


@click.command()
@click.argument("name", metavar="ID")
@channel_option
@everywhere_option
@pass_readable
def off(loaded: Loaded, name: str, channel: str | None, everywhere: bool) -> None:
    """Switch a skill off. It stays off over restarts, new versions, and when its folder goes and comes back."""
    one_place(channel, everywhere)
    act(loaded, channel, lambda there: there.acts.switch(name, "off"))


@click.command()
@click.argument("name", metavar="ID")
@click.argument("digits", metavar="[DIGITS]", default="")
@needed_channel_option
@pass_readable
def trust(loaded: Loaded, name: str, digits: str, channel: str) -> None:
    """Trust exactly the bytes of a bundle that was added to a channel. Look at them first: `skills show --channel`.

    With the first digits of the hash it is trusted only if it is that one.
    """
    act(loaded, channel, lambda there: there.acts.trust(name, digits))


@click.command()
@click.argument("file", metavar="ZIP", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@channel_option
@everywhere_option
@pass_readable
def add(loaded: Loaded, file: Path, channel: str | None, everywhere: bool) -> None:
    """Add the skill in a zip: to a channel, where it has to be trusted, or for the whole organisation.

    SKILL.md lies at the top of the zip, or in its one folder, whose name is the id then.
    """
    one_place(channel, everywhere)
    act(loaded, channel, lambda there: there.acts.add(file.name, file.read_bytes()))


@click.command()
@click.argument("name", metavar="ID")
@channel_option
@everywhere_option
@pass_readable
def remove(loaded: Loaded, name: str, channel: str | None, everywhere: bool) -> None:
    """Take away a skill that was added. Its switch and its trust are kept."""
    one_place(channel, everywhere)
    act(loaded, channel, lambda there: there.acts.remove(name))


@click.command()
@channel_option
@pass_readable
def reload(loaded: Loaded, channel: str | None) -> None:
    """Have a running gateway look at the folders of skills, and say what is otherwise than at the last reload.

    With --channel, figures and list are those of that channel.
    """
    act(loaded, channel, lambda there: there.acts.reload())
