"""`deskmate config`: check the settings, show what is in force, tell where it is written."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import yaml
from pydantic import SecretStr

from config.loading import Loaded, find
from config.problems import ConfigError, Problem, short
from config.reference import reference as tables
from config.settings import ENVIRONMENT_DEFAULTS, Section
from config.source import VARIABLE
from gateway.cli import config_option, given_config, pass_loaded
from gateway.connections import open_connections, platform_names, platform_settings
from gateway.inventory import load_checked


@click.group()
def config() -> None:
    """Check and show the settings."""


@config.command()
@config_option
@click.pass_context
def check(ctx: click.Context) -> None:
    """Find everything that is wrong with the settings and profiles. Exit code 0 or 1.

    A budget under which nobody is ever answered is a warning, and no more.
    """
    try:
        loaded = load_checked(given_config())
    except ConfigError as error:
        for problem in error.problems:
            click.echo(str(problem), err=True)
        click.echo(f"{len(error.problems)} problem{'s' if len(error.problems) > 1 else ''}.", err=True)
        ctx.exit(1)
    for problem in too_small(loaded):
        click.echo(f"warning: {problem}", err=True)
    connections = ", ".join(loaded.settings.connections) or "none"
    click.echo(
        f"{short(loaded.path)} is fine. Connections: {connections}. Profiles: {', '.join(sorted(loaded.profiles))}."
    )


def too_small(loaded: Loaded) -> list[Problem]:
    """Limits that are below one call of the model. Where no worker is installed that can't be told."""
    if find_spec("workers") is None:
        return []
    return asyncio.run(importlib.import_module("workers.prompt.least").too_small(loaded))


@config.command()
@pass_loaded
def show(loaded: Loaded) -> None:
    """Print the settings in force, defaults included, as YAML. Secrets are told by name only."""
    tree = _plain(loaded.settings, loaded.source.tree)
    opened = open_connections(loaded)
    for name in loaded.settings.connections:
        tree["connections"][name] = _plain(opened[name].settings, loaded.source.written(("connections", name)))
    for (section, key), variable in ENVIRONMENT_DEFAULTS.items():
        if tree[section][key] == _SET:
            tree[section][key] = f"${variable} (set)"
    click.echo(f"# {short(loaded.path)}")
    click.echo(yaml.safe_dump(tree, sort_keys=False, allow_unicode=True), nl=False)
    click.echo("# profiles")
    profiles = {name: _plain(profile, None) for name, profile in sorted(loaded.profiles.items())}
    click.echo(yaml.safe_dump(profiles, sort_keys=False, allow_unicode=True), nl=False)


@config.command()
@config_option
def path() -> None:
    """Print which settings file is used."""
    click.echo(find(given_config()).absolute())


@config.command()
def reference() -> None:
    """Print the tables of docs/settings.md: every key there is."""
    click.echo(tables({name: platform_settings(name) for name in platform_names()}), nl=False)


_SET = "(set)"


def _plain(value: Any, written: Any) -> Any:
    """Ready for YAML. What the file names as a variable is shown as that, whatever it holds."""
    if isinstance(written, str) and VARIABLE.fullmatch(written) and value is not None:
        return f"{written} (set)"
    if isinstance(value, SecretStr):
        return _SET
    if isinstance(value, Section):
        value = {name: getattr(value, name) for name in type(value).model_fields}
    if isinstance(value, Mapping):
        below = written if isinstance(written, Mapping) else {}
        return {name: _plain(one, below.get(name)) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        items = written if isinstance(written, list) and len(written) == len(value) else [None] * len(value)
        return [_plain(one, item) for one, item in zip(value, items, strict=True)]
    return str(value) if isinstance(value, Path) else value
