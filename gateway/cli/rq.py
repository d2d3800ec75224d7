"""`deskmate rq`: RQ's own command line, on our server and with our names of keys."""

from __future__ import annotations

import sys
from typing import Final

import click

from config.settings import Settings, export
from gateway.cli import Stop, pass_settings
from gateway.running.embedded import NoServer, redis_url

HELP: Final = frozenset({"--help", "-h", "--version"})
"""What RQ answers without looking at Redis."""


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []}, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@pass_settings
def rq(settings: Settings, arguments: tuple[str, ...]) -> None:
    """Run RQ's own commands: `deskmate rq info`, `suspend`, `resume`, ... RQ shows workers and bells, not turns."""
    export("RQ_KEY_PREFIX", settings.rq.key_prefix)
    if arguments and not HELP.intersection(arguments):
        try:
            export("RQ_REDIS_URL", settings.rq.url.get_secret_value() if settings.rq.url else redis_url(settings))
        except NoServer as error:
            raise Stop(f"{error}.") from None
    from rq.cli.cli import main  # noqa: PLC0415  # RQ reads its key prefix when it is imported

    sys.argv = ["deskmate rq", *arguments]
    main()
