"""From the `connections` of the settings to platform modules: the file's name is the registration."""

from __future__ import annotations

import importlib
import pkgutil
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import gateway.platforms
from config.settings import Connection

if TYPE_CHECKING:
    from config.loading import Loaded
    from gateway.platforms import Platform

_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")


@dataclass(frozen=True, slots=True)
class Opened:
    """A connection with its platform's module and its own settings, all keys checked."""

    name: str
    platform: Platform
    settings: Connection


def platform_names() -> list[str]:
    """The platforms that exist: one for each module, found without importing any."""
    return sorted(
        module.name for module in pkgutil.iter_modules(gateway.platforms.__path__) if _NAME.fullmatch(module.name)
    )


def platform(name: str) -> Platform:
    """The module of a platform. Raises `LookupError`, its arguments being the names that exist."""
    names = platform_names()
    if name not in names:
        raise LookupError(*names)
    return cast("Platform", importlib.import_module(f"gateway.platforms.{name}"))


def platform_settings(name: str) -> type[Connection]:
    """What `config.loading.load` wants to know about platforms. Raises `LookupError` as `platform` does."""
    return cast("type[Connection]", platform(name).Settings)


def open_connections(loaded: Loaded) -> dict[str, Opened]:
    """All connections of the settings, by name. Raises `ConfigError`: a connection without its secret is refused."""
    return {
        name: Opened(
            name, platform(written.platform), loaded.section(("connections", name), platform_settings(written.platform))
        )
        for name, written in loaded.settings.connections.items()
    }
