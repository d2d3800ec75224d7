"""From the `connections` of the settings to platform modules: the file's name is the registration."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

import gateway.platforms
from config.loading import Loaded, no_platform
from config.problems import ConfigError
from config.settings import Connection

if TYPE_CHECKING:
    from config.profiles import Profile
    from config.settings import Settings
    from gateway.platforms import Adapter, Outside, Platform, TellsGuests
    from gateway.rights.access import DirectPolicy

PAGE: Final = ("web", "webchat")
"""Connection and platform of the built-in page. It is set up in the section `chat`, not among the connections."""

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")


@dataclass(frozen=True, slots=True)
class Opened:
    """A connection with its platform's module and its own settings, all keys checked."""

    name: str
    platform: Platform
    settings: Connection


def connection_names(settings: Settings) -> list[str]:
    """Those that there are, the built-in page's among them."""
    return sorted({PAGE[0], *settings.connections})


def platform_names() -> list[str]:
    """The platforms that a connection may name: one for each module, found without importing any."""
    names = (module.name for module in pkgutil.iter_modules(gateway.platforms.__path__))
    return sorted(name for name in names if _NAME.fullmatch(name) and name != PAGE[1])


def platform_module(name: str) -> Platform:
    """The module of a platform that is there."""
    return cast("Platform", importlib.import_module(f"gateway.platforms.{name}"))


def platform_settings(name: str) -> type[Connection]:
    """The keys of a connection on this platform. Raises `LookupError`, its arguments being the names that exist."""
    names = platform_names()
    if name not in names:
        raise LookupError(*names)
    return cast("type[Connection]", platform_module(name).Settings)


def direct_policy(loaded: Loaded, profile: Profile, connection: str) -> DirectPolicy:
    """Who is answered in direct chats of a room with this profile. Where the profile does not say and anybody in the world
    can write to us, whoever is let in.
    """
    if profile.direct:
        return profile.direct
    written = loaded.settings.connections.get(connection)
    return "paired" if written and _is_open_to_all(written.platform) else "open"


@functools.cache
def _is_open_to_all(platform: str) -> bool:
    return platform in platform_names() and platform_module(platform).GUIDE.anybody_writes


def tells_guests(settings: Settings, connection: str) -> TellsGuests:
    """See `Guide.tells_guests`. Of a connection that there is not any more nobody is told."""
    if connection == PAGE[0]:
        return platform_module(PAGE[1]).GUIDE.tells_guests
    written = settings.connections.get(connection)
    return _tells_guests(written.platform) if written else "events"


@functools.cache
def _tells_guests(platform: str) -> TellsGuests:
    return platform_module(platform).GUIDE.tells_guests if platform in platform_names() else "events"


def open_connections(loaded: Loaded) -> dict[str, Opened]:
    """All connections by name, the built-in page's too. Raises `ConfigError`: none is opened without its secret."""
    opened: dict[str, Opened] = {}
    for name, written in loaded.settings.connections.items():
        try:
            model = platform_settings(written.platform)
        except LookupError as error:
            raise ConfigError([no_platform(loaded.source, name, written.platform, error)]) from None
        opened[name] = Opened(name, platform_module(written.platform), loaded.section(("connections", name), model))
    chat = loaded.settings.chat
    if chat.enabled:
        name, platform = PAGE
        module = platform_module(platform)
        settings = module.Settings.model_validate({"platform": platform, "stream_interval_ms": chat.stream_interval_ms})
        opened[name] = Opened(name, module, cast("Connection", settings))
    return opened


def that_listen(loaded: Loaded) -> tuple[str, ...]:
    """The connections over which messages come that no webhook brings. Raises `ConfigError`."""
    return tuple(name for name, one in open_connections(loaded).items() if one.settings.listens)


def adapters(loaded: Loaded, outside: Outside) -> dict[str, Adapter]:
    """An adapter for each connection, by the connection's name. Raises `ConfigError`."""
    return {name: one.platform.Adapter(name, one.settings, outside) for name, one in open_connections(loaded).items()}
