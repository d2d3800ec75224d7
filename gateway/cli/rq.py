"""`deskmate rq`: RQ's own command line, on our server and with our names of keys."""

from __future__ import annotations

import sys

import click

from config.loading import Loaded
from config.settings import export
from gateway.cli import Stop, pass_loaded
from gateway.embedded import NoServer, redis_url


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []}, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@pass_loaded
def rq(loaded: Loaded, arguments: tuple[str, ...]) -> None:
    """Run RQ's own commands: `deskmate rq info`, `suspend`, `resume`, ... RQ shows workers and bells, not turns."""
    settings = loaded.settings
    try:
        url = settings.rq.url.get_secret_value() if settings.rq.url else redis_url(settings)
    except NoServer as error:
        raise Stop(f"{error}.") from None
    export("RQ_KEY_PREFIX", settings.rq.key_prefix)
    export("RQ_REDIS_URL", url)
    from rq.cli.cli import main  # noqa: PLC0415  # RQ reads its key prefix when it is imported

    sys.argv = ["deskmate rq", *arguments]
    main()
