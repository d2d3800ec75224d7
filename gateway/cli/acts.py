"""Acts of the operator: what the command line changes in channels in force, by the acts that the chat has."""

from __future__ import annotations

import asyncio
import os
import pwd
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import click

from config.loading import Loaded
from gateway.acts import answers
from gateway.acts.note_acts import NoteActs
from gateway.acts.outcomes import Outcome, Refusal, Shown
from gateway.acts.rooms import NoConnection, NoRoom, room_named
from gateway.acts.skill_acts import Acts, By
from gateway.audit.log import Change
from gateway.cli import ENGLISH, Stop, channel_option, cold, for_example, needed_channel_option, no_redis, pass_readable
from gateway.cli.words import typed
from gateway.connections import PAGE
from gateway.conversation.key import ConversationKey
from gateway.conversation.mailbox import Mailbox
from gateway.conversation.rooms import was_written_in
from gateway.platforms import webchat
from gateway.rights.access import Here, Operator, named_as
from gateway.rights.roles import COMMAND_LINE
from gateway.running.embedded import NoServer, redis_url
from gateway.shelf.decisions import ORG, scope_of
from gateway.shelf.notes import Notes
from gateway.shelf.shelf import OtherBundle, Readable, Shelf
from gateway.shelf.stock import Gone
from gateway.store import Layout, Store, Unreachable, open_store
from skills.bundles import BrokenBundle, Cache
from skills.folders import Skill

T = TypeVar("T")

everywhere_option = click.option("--everywhere", is_flag=True, help="For the whole organisation.")


@dataclass(frozen=True, slots=True)
class Open:
    """What a command works with, for one channel or the whole organisation."""

    store: Store
    acts: Acts
    notes: NoteActs
    cold: str
    """What is wrong with the data in Redis, as sentences; `""`: nothing."""


def look(loaded: Loaded, channel: str | None, work: Callable[[Open], Awaitable[T]]) -> T:
    """See something that is so in a channel, or everywhere; of a Redis whose data is unknown, with a warning. Else as `do`."""
    return do(loaded, channel, work, changes=False)


def do(loaded: Loaded, channel: str | None, work: Callable[[Open], Awaitable[T]], *, changes: bool = True) -> T:
    """Do something in a channel, or everywhere. Ends with a message for the operator where that can't be: `changes` are not
    made in a Redis whose data is unknown.
    """
    key = key_of(loaded, channel) if channel else None

    async def run() -> T:
        async with opened(loaded, key) as there:
            if there.cold and changes:
                raise Stop(f"{there.cold} Nothing was changed.")
            if there.cold:
                click.echo(f"Warning: {there.cold}", err=True)
            try:
                return await work(there)
            except Refusal as refusal:
                if refusal.kind != "unreadable":
                    raise Stop(typed(answers.refused(refusal, ENGLISH), channel)) from None
                where, way_out = channel or "the whole organisation", await _way_out(there.acts.shelf, key, channel)
                raise Stop(
                    f"What is on and trusted in {where} can't be read, so that nothing is on. {way_out}"
                ) from None
            except ValueError as error:
                way_out = await _way_out(there.acts.shelf, key, channel)
                raise Stop(f"What Redis holds about skills can't be read: {error}. {way_out}") from None

    try:
        return asyncio.run(run())
    except NoServer as error:
        raise Stop(f"{error}.") from None
    except Unreachable as error:
        raise no_redis(error) from None
    except ValueError as error:
        raise Stop(f"What Redis holds about skills can't be read: {error}.") from None


async def _way_out(shelf: Shelf, key: ConversationKey | None, channel: str | None) -> str:
    """What an operator does about decisions that can't be read. Raises `Unreachable`."""
    places = {ORG: "--everywhere"} | ({scope_of(key.channel_id): f"--channel {channel}"} if key else {})
    if lost := await shelf.unread(places):
        ways = " and ".join(f"`deskmate skills anew {places[scope]}`" for scope in lost)
        return (
            "Put back from a backup what is gone; or see with `deskmate audit` what was decided, and let it begin "
            f"with nothing decided: {ways}."
        )
    return "See `deskmate doctor`, and the log of the gateway."


@asynccontextmanager
async def opened(loaded: Loaded, key: ConversationKey | None) -> AsyncIterator[Open]:
    """Raises `NoServer`, `Unreachable`."""
    settings = loaded.settings
    layout = Layout(settings.redis.key_prefix, settings.redis.partitions)
    store = open_store(redis_url(settings), layout, timeout_s=settings.redis.timeout_s)
    try:
        shelf = Shelf(store, Cache(settings.data / "skills"), present=None)  # that of workers is not ours
        here: Callable[[], Awaitable[Here]] = (
            partial(shelf.here, key, loaded) if key else partial(shelf.everywhere, loaded)
        )
        by = By(f"cli {secrets.token_hex(12)}", await store.now_ms(), Operator(user()), here=here)
        acts = Acts(shelf, settings.skills, by)
        why = await Mailbox(store, settings.mailbox, data=settings.data).why_cold(notes=False)
        yield Open(store, acts, NoteActs(acts, Notes(store)), cold(why))
    finally:
        await store.close()


def user() -> str:
    """Who types, by this machine's account."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # as in a container that runs as any number
        return str(os.getuid())


def key_of(loaded: Loaded, channel: str) -> ConversationKey:
    """The channel that an operator names."""
    try:
        return room_named(loaded, channel)
    except NoConnection as error:
        hint = f"did you mean {error.closest}?" if error.closest else f"there are: {', '.join(error.there)}."
        raise Stop(f"channel: there is no connection {error.name!r}; {hint}") from None
    except NoRoom:
        connection = channel.partition("/")[0]
        if connection == PAGE[0]:
            only = f"{PAGE[0]}/{webchat.CHANNEL}"
            raise Stop(f"channel: the chat page has one channel, {only}; {channel!r} came.") from None
        raise Stop(f"channel: wanted is CONNECTION/CHANNEL, such as {connection}/C0123; {channel!r} came.") from None


def one_place(channel: str | None, everywhere: bool) -> None:
    if (channel is None) != everywhere:
        raise click.UsageError("Give either --channel CONNECTION/CHANNEL or --everywhere.")


def act(loaded: Loaded, channel: str | None, work: Callable[[Open], Awaitable[Outcome]]) -> None:
    """Do something, and say what came of it: the words of the chat, as they are right in a terminal."""
    click.echo(typed(answers.told(acted(loaded, channel, work), ENGLISH), channel))


def acted(loaded: Loaded, channel: str | None, work: Callable[[Open], Awaitable[T]]) -> T:
    """Do something, with a warning where it may hold for a channel that there is not."""
    key = key_of(loaded, channel) if channel else None

    async def looked(there: Open) -> tuple[T, bool | None]:
        done = await work(there)
        return done, await was_written_in(there.store, key.channel_id) if key else None

    done, was_seen = do(loaded, channel, looked)
    if was_seen is False:
        click.echo(f"Warning: nobody has written in {channel} yet, as far as Redis knows.", err=True)
    return done


# ---- what `skills list` and `skills show` ask with --channel ----


def here(loaded: Loaded, channel: str) -> tuple[Here, Collection[str]]:
    """What holds in a channel now, and the hashes of bundles that wait there with signs of harm."""

    async def work(there: Open) -> tuple[Here, Collection[str]]:
        found, _ = await there.acts.may("skill list")
        return found, await there.acts.harmful(found)

    return look(loaded, channel, work)


def shown(loaded: Loaded, channel: str, name: str, path: str) -> tuple[Shown, list[str]]:
    """A file, and what else whoever looks after skills is told of its skill."""
    found = look(loaded, channel, lambda there: there.acts.show(name, path))
    lines = answers.lines_since(found, ENGLISH)
    return found, [*(typed(one, channel) for one in answers.beside(found, ENGLISH)), *([lines] if lines else [])]


def at_hand(loaded: Loaded, channel: str, skills: Iterable[Skill]) -> None:
    """See that the files of skills in a channel lie on this machine."""

    async def work(there: Open) -> None:
        for one in skills:
            try:
                await there.acts.shelf.stock.at_hand(one)
            except (Gone, BrokenBundle, OSError) as error:
                raise Stop(f"{one.id} can't be read: {error}.") from None

    look(loaded, channel, work)


# ---- switches, trust, bundles ----


@click.command(
    epilog=for_example("skills on web-access --channel slack-main/C0123", "skills on web-access --everywhere")
)
@click.argument("name", metavar="ID")
@channel_option
@everywhere_option
@pass_readable
def on(loaded: Loaded, name: str, channel: str | None, everywhere: bool) -> None:
    """Switch a skill on. One of --channel and --everywhere is needed.

    Off for the whole organisation beats on in a channel.
    """
    one_place(channel, everywhere)
    act(loaded, channel, lambda there: there.acts.switch(name, "on"))


@click.command(
    epilog=for_example("skills off web-access --channel slack-main/C0123", "skills off web-access --everywhere")
)
@click.argument("name", metavar="ID")
@channel_option
@everywhere_option
@pass_readable
def off(loaded: Loaded, name: str, channel: str | None, everywhere: bool) -> None:
    """Switch a skill off. One of --channel and --everywhere is needed.

    It stays off over restarts, new versions, and when its folder goes and comes back.
    """
    one_place(channel, everywhere)
    act(loaded, channel, lambda there: there.acts.switch(name, "off"))


@click.command(
    epilog=for_example(
        "skills show checklist --channel slack-main/C0123", "skills trust checklist 3fa91c --channel slack-main/C0123"
    )
)
@click.argument("name", metavar="ID")
@click.argument("digits", metavar="[DIGITS]", default="")
@needed_channel_option
@pass_readable
def trust(loaded: Loaded, name: str, digits: str, channel: str) -> None:
    """Trust exactly the bytes of a bundle that was added to a channel.

    Look at them first. With the first digits of the hash, 6 or more, it is trusted only if it is that one.
    """
    act(loaded, channel, lambda there: there.acts.trust(name, digits))


@click.command(
    epilog=for_example("skills add checklist.zip --channel slack-main/C0123", "skills add checklist.zip --everywhere")
)
@click.argument("file", metavar="ZIP", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@channel_option
@everywhere_option
@pass_readable
def add(loaded: Loaded, file: Path, channel: str | None, everywhere: bool) -> None:
    """Add the skill in a zip. One of --channel and --everywhere is needed.

    In a channel it has to be trusted before it is in force; for the whole organisation it is in force at once. SKILL.md
    lies at the top of the zip, or in its one folder, whose name is the id then.
    """
    one_place(channel, everywhere)
    act(loaded, channel, lambda there: there.acts.add(file.name, file.read_bytes()))


@click.command(epilog=for_example("skills remove checklist --channel slack-main/C0123"))
@click.argument("name", metavar="ID")
@channel_option
@everywhere_option
@pass_readable
def remove(loaded: Loaded, name: str, channel: str | None, everywhere: bool) -> None:
    """Take away a skill that was added. One of --channel and --everywhere is needed.

    Its switch and its trust are kept.
    """
    one_place(channel, everywhere)
    act(loaded, channel, lambda there: there.acts.remove(name))


@click.command(epilog=for_example("skills reload", "skills reload --channel slack-main/C0123"))
@channel_option
@pass_readable
def reload(loaded: Loaded, channel: str | None) -> None:
    """Have a running gateway look at the folders of skills.

    Says what is otherwise than at the last reload. With --channel, figures and list are those of that channel.
    """
    act(loaded, channel, lambda there: there.acts.reload())


@click.command(epilog=for_example("skills anew --channel slack-main/C0123", "skills anew --everywhere"))
@channel_option
@everywhere_option
@pass_readable
def anew(loaded: Loaded, channel: str | None, everywhere: bool) -> None:
    """Where switches are gone or can't be read, begin again with none. One of --channel and --everywhere is needed.

    Everything that was decided there with /skill, /tool, /hitl and /role is decided no more, so that what was off is on:
    see `deskmate audit --channel ...` first, which tells what was. What lies there is kept aside for 30 days.
    """
    one_place(channel, everywhere)
    key = key_of(loaded, channel) if channel else None
    where, channel_id = (channel or "", key.channel_id) if key else ("", "")

    async def work(there: Open) -> None:
        change = Change(there.acts.by.id, named_as(there.acts.by.who, ""), where, channel_id, COMMAND_LINE)
        try:
            await there.acts.shelf.begin_anew(scope_of(channel_id) if key else ORG, change)
        except Readable:
            raise Stop("What was decided there can be read: nothing has to begin again.") from None
        except OtherBundle:
            raise Stop("Somebody has changed it at this moment: look again.") from None

    do(loaded, channel, work)
    click.echo(f"Nothing is decided any more {f'in {channel}' if channel else 'for the whole organisation'}.")
