"""The command line, `deskmate`. Commands are named by string: each imports its own part only when it is called.

May import: `gateway`, `config`. What prints is here; everything else logs.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Concatenate, Final, NoReturn, ParamSpec, TypeVar

import click

from config.loading import Loaded
from config.problems import ConfigError
from config.settings import Settings

P = ParamSpec("P")
R = TypeVar("R")


class Stop(click.ClickException):
    """An expected end: one message for the operator, no traceback."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


def no_redis(error: Exception) -> Stop:
    """The end of a command that only looks into Redis, or writes to it once."""
    return Stop(f"Redis does not answer: {str(error).rstrip('.')}. Start it, or correct redis.url (REDIS_URL).")


def cold(why: str) -> str:
    """What the operator is told of a Redis whose data is unknown, by `Mailbox.why_cold`; `""` where it is not."""
    return (
        f"Nothing goes on: {why}. Put its data back, or go on with what is there: `deskmate redis adopt`."
        if why
        else ""
    )


@dataclass(slots=True, weakref_slot=True)
class _Given:
    """What stands before the command."""

    config: Path | None = None


@dataclass(frozen=True, slots=True)
class _Command:
    where: str
    """`module:attribute`."""
    summary: str


COMMANDS: Final = {
    "Run it": {
        "up": _Command("gateway.cli.up:up", "Everything on this machine: storage, gateway, workers."),
        "gateway": _Command("gateway.cli.gateway:gateway", "The HTTP side: webhooks and pages."),
        "worker": _Command("workers.cli:worker", "One process that answers, many turns at once."),
        "listen": _Command("gateway.cli.listen:listen", "Connections that we hold, where webhooks bring no messages."),
    },
    "Talk to it": {
        "say": _Command("gateway.cli.say:say", "Send a message to a running gateway and print the reply."),
        "demo": _Command("gateway.cli.demo:demo", "See a whole conversation, offline, without keys."),
    },
    "Look after it": {
        "connect": _Command(
            "gateway.cli.connect:connect", "How to connect a platform, step by step; check that it is."
        ),
        "doctor": _Command("gateway.cli.doctor:doctor", "Check everything that it needs, and say what to do."),
        "status": _Command("gateway.cli.status:status", "What runs, what waits, what was given up."),
        "dead": _Command("gateway.cli.dead:dead", "Turns that were given up: see, ask once more, let go."),
        "skills": _Command("gateway.cli.skills:skills", "List, show, switch, trust, add, check, try and test skills."),
        "tools": _Command("gateway.cli.tools:tools", "List the tools of a channel, switch them off and on there."),
        "mcp": _Command("workers.mcp.cli:mcp", "See and approve the tools of MCP servers."),
        "explain": _Command("gateway.cli.explain:explain", "What may be done where, and which line decides."),
        "roles": _Command("gateway.cli.people:roles", "Who may what in a channel; name its admins."),
        "pair": _Command("gateway.cli.people:pair", "Let somebody in who wrote to us directly."),
        "replay": _Command("workers.replay.cli:replay", "Run a recorded turn again, and see what is different."),
        "admin": _Command("gateway.cli.admin:admin", "Who may come to the admin pages and their API: links, tokens."),
        "audit": _Command("gateway.cli.audit:audit", "Who changed what, and what was refused."),
        "usage": _Command("gateway.cli.usage:usage", "Who spent what: turns, tokens, money."),
        "config": _Command("gateway.cli.config:config", "Check and show the settings."),
        "rq": _Command("gateway.cli.rq:rq", "RQ's own command line, with our names of keys."),
        "redis": _Command("gateway.cli.redis:redis", "The embedded server and its folder."),
    },
}
_EXAMPLES: Final = """\
Examples:
  deskmate up                          everything, on this machine
  deskmate say "What can you do?"      from another terminal
  deskmate --config prod.yaml doctor   is all as it should be?
  deskmate worker --concurrency 200    one more worker, on any machine that reaches the same Redis"""


class _Group(click.Group):
    """Knows its commands by name; imports a command's module when it is called."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """All that was typed passes here. What is no text goes into no key of Redis and no line of ours."""
        for one in args:
            try:
                one.encode()
            except UnicodeEncodeError:
                raise Stop(f"{one[:100]!r} is not UTF-8: nothing here is called so.", code=2) from None
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return [name for group in COMMANDS.values() for name in group]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        known = {name: command for group in COMMANDS.values() for name, command in group.items()}
        if cmd_name not in known:
            return None
        module, _, attribute = known[cmd_name].where.partition(":")
        try:
            command = getattr(importlib.import_module(module), attribute)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module}.".startswith(f"{error.name}."):
                raise  # the command is there, and something that it needs is not
            raise Stop(f"`deskmate {cmd_name}` is not part of this installation ({module} is missing).") from None
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        for title, group in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<8}", command.summary) for name, command in group.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        formatter.write_paragraph()
        formatter.write(_EXAMPLES + "\n")


def _version(ctx: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    del parameter
    if wanted:
        click.echo(f"deskmate {metadata.version('deskmate')}")
        ctx.exit()


def _config_given(ctx: click.Context, parameter: click.Parameter, path: Path | None) -> None:
    del parameter
    if path is not None:
        ctx.find_root().ensure_object(_Given).config = path


config_option = click.option(
    "--config",
    metavar="FILE",
    type=click.Path(path_type=Path),
    expose_value=False,
    callback=_config_given,
    help="The settings file. [default: $DESKMATE_CONFIG, else ./deskmate.yaml, ./config/deskmate.yaml, the shipped one]",
)
"""Accepted before the command, and by each command that `pass_loaded` or `pass_settings` is on."""


ENGLISH: Final = "en"
"""What the command line speaks, also where it uses phrases of the chat."""
CHANNEL_HELP: Final = "Such as slack-main/C0123: the last lines of `/skill list` in that channel name it."
channel_option = click.option("--channel", metavar="CONNECTION/CHANNEL", help=CHANNEL_HELP)
needed_channel_option = click.option("--channel", metavar="CONNECTION/CHANNEL", required=True, help=CHANNEL_HELP)


def for_example(*lines: str) -> str:
    """The last lines of a command's help."""
    return "\b\nExamples:\n" + "\n".join(f"  deskmate {line}" for line in lines)


def given_config() -> Path | None:
    """The file that `--config` names. For commands that work with broken settings."""
    return click.get_current_context().find_root().ensure_object(_Given).config


def pass_loaded(command: Callable[Concatenate[Loaded, P], R]) -> Callable[P, R]:
    """Give a command the settings as its first argument. Broken settings end it with all problems and code 2."""

    @functools.wraps(command)
    def with_loaded(*args: P.args, **kwargs: P.kwargs) -> R:
        from gateway.inventory import load_checked  # noqa: PLC0415  # help needs neither platforms nor skills

        return command(load_checked(given_config()), *args, **kwargs)

    return config_option(with_loaded)


def pass_settings(command: Callable[Concatenate[Settings, P], R]) -> Callable[P, R]:
    """For a command that only visits what runs: what accounts and the model need may be unset."""

    @functools.wraps(command)
    def with_settings(*args: P.args, **kwargs: P.kwargs) -> R:
        from gateway.inventory import load_for_visitor  # noqa: PLC0415  # as above

        return command(load_for_visitor(given_config()).settings, *args, **kwargs)

    return config_option(with_settings)


def pass_readable(command: Callable[Concatenate[Loaded, P], R]) -> Callable[P, R]:
    """For a command that is needed just when something else is wrong: that is told, and the rest counts."""

    @functools.wraps(command)
    def with_readable(*args: P.args, **kwargs: P.kwargs) -> R:
        from gateway.inventory import load_for_operator  # noqa: PLC0415  # as above

        loaded = load_for_operator(given_config())
        for mistake in loaded.mistakes:
            click.echo(f"Warning: {mistake}", err=True)
        if loaded.profiles.keys() != loaded.profile_sources.keys():
            click.echo("Warning: a profile that can't be read is taken for one that lists all skills.", err=True)
        return command(loaded, *args, **kwargs)

    return config_option(with_readable)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@config_option
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Print the version."
)
def deskmate() -> None:
    """deskmate: an agent that sits in your team's chat, with skills, and loses no message."""


def run(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code. What is expected to fail prints a message, not a traceback."""
    try:
        code = deskmate.main(list(arguments), prog_name="deskmate", standalone_mode=False)
    except ConfigError as error:
        click.echo(f"The settings can't be used:\n{error}", err=True)
        return 2
    except click.ClickException as error:
        error.show()
        return error.code if isinstance(error, Stop) else error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return 130
    except BrokenPipeError:
        # Whoever read our output has left, as in `deskmate config show | head`: nothing more to say, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code if isinstance(code, int) else 0


def main() -> NoReturn:
    """The installed command."""
    sys.exit(run(sys.argv[1:]))
