"""`deskmate replay`."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Coroutine
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from config.loading import Loaded
from config.settings import LogSettings
from gateway.cli import Stop, config_option, for_example, given_config, no_redis
from gateway.conversation.recordings import RecordedTurn
from gateway.inventory import load_checked
from gateway.logs import start_logging
from gateway.running.embedded import NoServer, redis_url
from gateway.running.serving import Unfit
from gateway.store import Unreachable

if TYPE_CHECKING:  # help needs none of it
    from workers.replay.case import About

T = TypeVar("T")
FILES: Final = {".yaml", ".yml", ".json"}
EQUAL, DIFFERENT, NOT_POSSIBLE = 0, 1, 2


@click.command(
    epilog=for_example(
        "replay --list                             what is kept",
        "replay kwgedboi last                      the last recorded turn of a conversation",
        "replay slack-main/C0123/1712.5 6tq2ab4x   a turn by its id, as the log and `status` show it",
        "replay kwgedboi last --against live       what would the model of the settings answer now?",
        "replay kwgedboi last --save turn.yaml     make a test of it",
        "replay turn.yaml                          play that, anywhere",
    )
)
@click.argument("what", metavar="[CONVERSATION|FILE]", required=False)
@click.argument("turn", required=False)
@click.option("--list", "lists", is_flag=True, help="Show what is kept, of all conversations or of one.")
@click.option(
    "--against",
    type=click.Choice(["recording", "live"]),
    default="recording",
    show_default=True,
    help="`live` asks the model of the settings, which costs what it costs.",
)
@click.option(
    "--steps",
    type=click.IntRange(1, 1_000),
    default=10,
    show_default=True,
    help="With `live`: at most so many requests.",
)
@click.option(
    "--save",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the turn into a file (.yaml or .json).",
)
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@config_option
@click.pass_context
def replay(
    ctx: click.Context,
    *,
    what: str | None,
    turn: str | None,
    lists: bool,
    against: str,
    steps: int,
    file: Path | None,
    as_json: bool,
) -> None:
    """Run a recorded turn again, and compare each request to the model with the one of then.

    Turns are recorded where the settings say `recordings: {keep: true}`. A replay runs the real agent, in a Redis of its own
    that is gone afterwards, under the settings, profiles, skills and switches of now. The model answers what it answered
    then, tools give what they gave then, people say what they said: nothing runs, nothing is sent, nothing is written. So
    a difference is one of the product, its settings or its skills. Each is shown as a diff, with what it is made of.

    CONVERSATION is an id or its beginning, as `deskmate status` shows it, or `connection/channel/thread`; TURN an id, its
    beginning, or `last`.

    With `--against live` each request of now goes to the model of the settings, and its answer is shown beside the one of
    then. No tool runs: recorded results are used where it calls what was called then, and it ends where it calls
    something else.

    With `--save` the turn becomes a file with all that it needs: settings, profile, skills, records, requests, answers and
    results, without secrets. A file in tests/replays is a test. With a FILE, `--save` writes what is asked and replied now
    as what is right from now on.

    Exit code 0: equal; 1: different; 2: not possible, with the reason.
    """
    start_logging(LogSettings(level="error"), process="replay")
    if file and file.suffix not in FILES:
        raise click.UsageError(f"--save: {file} has to end in .yaml or .json.")
    if lists:
        _run(_show(load_checked(given_config()), what, as_json=as_json))
    elif what is None:
        raise click.UsageError("Name a conversation and a turn, or a file; --list shows what is kept.")
    elif turn is None and Path(what).suffix in FILES:
        if against == "live":
            raise click.UsageError("--against live is for turns that Redis has, not for files.")
        ctx.exit(_run(_play_file(Path(what), file, as_json=as_json)))
    elif turn is None:
        raise click.UsageError("Which turn? Its id, or `last`; a file of a case ends in .yaml or .json.")
    else:
        loaded = load_checked(given_config())
        start_logging(LogSettings(level="error"), process="replay", secrets=loaded.secret_values)
        steps = steps if against == "live" else 0
        ctx.exit(_run(_replay(loaded, what, turn, file, steps, as_json=as_json)))


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run it; what is expected to fail ends with a sentence."""
    from workers.models import ModelError  # noqa: PLC0415  # help needs none of it
    from workers.replay.case import NotPossible  # noqa: PLC0415

    try:
        return asyncio.run(work)
    except NotPossible as error:
        raise Stop(f"Not possible: {error}", NOT_POSSIBLE) from None
    except ModelError as error:
        raise Stop(f"The model gave no answer: {error}", NOT_POSSIBLE) from None
    except Unreachable as error:
        raise Stop(no_redis(error).message, NOT_POSSIBLE) from None
    except (NoServer, Unfit, OSError, LookupError) as error:
        raise Stop(f"{error}.", NOT_POSSIBLE) from None


async def _show(loaded: Loaded, conversation: str | None, *, as_json: bool) -> None:
    from workers.replay.case import id_of  # noqa: PLC0415
    from workers.replay.playing import archive  # noqa: PLC0415

    async with archive(loaded, redis_url(loaded.settings)) as (there, _):
        kept = await there.recordings.turns()
        about = dict(zip(kept, await there.about(kept), strict=True))
    if conversation:
        wanted = id_of(conversation)
        kept = [one for one in kept if one.conversation.startswith(wanted) or about[one].place == conversation]
    if as_json:
        click.echo(json.dumps([asdict(one) | asdict(about[one]) for one in kept], ensure_ascii=False))
    elif kept:
        click.echo("\n".join(_line(one, about[one]) for one in kept))
    else:
        click.echo(f"Nothing is recorded. {there.how()}")


def _line(kept: RecordedTurn, about: About) -> str:
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(kept.at_ms / 1000))
    left = f", {kept.left_out} did not fit" if kept.left_out else ""
    requests = f"{kept.requests} request{'s' if kept.requests != 1 else ''}"
    return f"{at}  {kept.conversation[:8]}  turn {kept.turn[:8]}  {requests}, {kept.bytes:,} bytes{left}{_whose(about)}"


def _whose(about: About) -> str:
    said = f"{about.who}: {about.text}" if about.who else ""
    return "".join(f"  {part}" for part in (about.place, said) if part)


async def _play_file(file: Path, to: Path | None, *, as_json: bool) -> int:
    from workers.replay.playing import play_file, renew  # noqa: PLC0415
    from workers.replay.stage import scratch  # noqa: PLC0415

    async with scratch() as url:
        report = await play_file(file, url)
    if to:
        renew(report, to)
        click.echo(f"Written: {to}. What is asked and replied now counts as right there.", err=True)
    return _told(report, as_json=as_json)


async def _replay(
    loaded: Loaded, conversation: str, turn: str, file: Path | None, live_steps: int, *, as_json: bool
) -> int:
    from workers.models import load_model  # noqa: PLC0415
    from workers.replay.live import live  # noqa: PLC0415
    from workers.replay.playing import archive, play_recorded, save  # noqa: PLC0415
    from workers.replay.stage import scratch  # noqa: PLC0415

    async with archive(loaded, redis_url(loaded.settings)) as (there, store), scratch() as url:
        case = await there.find(conversation, turn)
        report = await play_recorded(case, loaded, store, url)
        if file:
            await save(case, loaded, store, file)
            click.echo(f"Written: {file}. It holds what people wrote; `deskmate replay {file}` plays it.", err=True)
    if not live_steps:
        return _told(report, as_json=as_json)
    model = load_model(loaded.settings.model)
    try:
        return _told(await live(report, model, live_steps), as_json=as_json)
    finally:
        await model.close()


def _told(found: Any, *, as_json: bool) -> int:
    click.echo(json.dumps(found.as_json(), ensure_ascii=False) if as_json else str(found))
    return EQUAL if found.is_equal else DIFFERENT
