"""`deskmate config`: check the settings, show what is in force, tell where it is written."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import click
import yaml
from pydantic import SecretStr

from config.checks import nearest
from config.loading import Loaded, find, load
from config.problems import ConfigError, Problem, short
from config.reference import reference as tables
from config.settings import ENVIRONMENT_DEFAULTS, Section
from config.source import VARIABLE
from gateway.cli import config_option, given_config, pass_loaded
from gateway.connections import open_connections, platform_names, platform_settings
from skills.library import roots, scan


@click.group()
def config() -> None:
    """Check and show the settings."""


@config.command()
@config_option
@click.pass_context
def check(ctx: click.Context) -> None:
    """Find everything that is wrong with the settings and profiles. Exit code 0 or 1."""
    try:
        loaded = load(given_config(), platforms=platform_settings)
        problems = list(_unknown(loaded))
    except ConfigError as error:
        problems = list(error.problems)
    for problem in problems:
        click.echo(str(problem), err=True)
    if problems:
        click.echo(f"{len(problems)} problem{'s' if len(problems) > 1 else ''}.", err=True)
        ctx.exit(1)
    connections = ", ".join(loaded.settings.connections) or "none"
    click.echo(
        f"{short(loaded.path)} is fine. Connections: {connections}. Profiles: {', '.join(sorted(loaded.profiles))}."
    )


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


def tool_names() -> list[str]:
    """The tools that exist, one for each module of `workers.tools`: found by file name, nothing is imported."""
    folder = resources.files("workers") / "tools"
    return sorted(module.name for module in pkgutil.iter_modules([str(folder)]))


def _unknown(loaded: Loaded) -> Iterator[Problem]:
    """Tools and skills in profiles that are not there. Not the loader's matter: a gateway may run without either."""
    known = tool_names()
    try:
        library = scan(roots(loaded.settings.skills))
    except NotADirectoryError:
        folder = short(loaded.settings.skills.folder or Path())
        yield loaded.source.problem(("skills", "folder"), f"there is no folder {folder}")
        library = None
    for name, profile in loaded.profiles.items():
        source = loaded.profile_sources[name]
        for index, tool in enumerate(profile.tools):
            if tool not in known:
                wanted = f"there are: {', '.join(known)}"
                yield source.problem(("tools", index), f"there is no tool {tool!r}", wanted, nearest(tool, known))
        for index, pattern in enumerate(profile.skills if library else ()):
            if library and "*" not in pattern and not library.catalogue([pattern]).skills:
                ids = [skill.id for skill in library.skills.values()]
                wanted = "wanted: the id of a skill, or a pattern with *"
                yield source.problem(("skills", index), f"there is no skill {pattern!r}", wanted, nearest(pattern, ids))
        for index, pattern in enumerate(profile.programs if library else ()):
            if library and "*" not in pattern and not any(one.program for one in library.catalogue([pattern]).skills):
                ids = [skill.id for skill in library.skills.values() if skill.program]
                wanted = (
                    "wanted: the id of a skill with main.py and a schema.json that can be used, or a pattern with *"
                )
                yield source.problem(
                    ("programs", index), f"there is no program {pattern!r}", wanted, nearest(pattern, ids)
                )
