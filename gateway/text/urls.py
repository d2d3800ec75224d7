"""Where an address in a text leads, read in one way for all who have to know: strictly, and without looking anything up."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from yarl import URL

from config.addresses import is_host

_URL: Final = re.compile(
    r"(?P<scheme>[hH][tT]{2}[pP][sS]?)://(?P<host>\[[0-9a-fA-F:.]+\]|[^\s/?#:@\[\]%\\<>\"'`|^{}]+)(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<rest>[/?][^\s#\\]*)?(?:#[^\s\\]*)?"
)
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Place:
    """What an address names, without its fragment."""

    scheme: str
    """`http` or `https`."""
    host: str
    """In small letters of ASCII: names of other scripts in Punycode."""
    port: int
    rest: str
    """Path and query, as written."""

    @property
    def whole(self) -> str:
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{self.host}{port}{self.rest}"


def place_of(url: str) -> Place | None:
    """None: it is no plain address of the web, and nobody can be sure where it leads (a name before an `@`, a backslash,
    a blank, another scheme, a number in a form of its own).
    """
    found = _URL.fullmatch(url)
    if found is None or not url.isprintable():
        return None
    host = ascii_host(found["host"])
    if host is None:
        return None
    scheme, rest = found["scheme"].lower(), found["rest"] or ""
    port = int(found["port"]) if found["port"] else _PORTS[scheme]
    return Place(scheme, host, port, rest if rest.startswith("/") else f"/{rest}")


def ascii_host(host: str) -> str | None:
    """A host as the network knows it. None: there is no such host."""
    if not host.isascii():
        try:
            host = URL(f"http://{host}/").raw_host or ""
        except ValueError:
            return None
    bare = host.lower().removesuffix(".")
    return bare if is_host(bare.removeprefix("[").removesuffix("]")) else None


def is_on(place: Place, hosts: Iterable[str]) -> bool:
    """Whether its host is one of those: exact, or `*.` and what follows it for each host below. No other port."""
    if place.port != _PORTS[place.scheme]:
        return False
    return any(place.host.endswith(one[1:]) if one.startswith("*.") else place.host == one for one in hosts)


def stands_in(place: Place, text: str, *, without_scheme: bool = False) -> bool:
    """Whether the text has this address: whole, or a longer one that begins with it and goes on behind a border.

    `without_scheme`: `example.com/a` stands for an address as well.
    """
    lowered = text.lower()
    hosts = {place.host, URL.build(scheme="http", host=place.host.strip("[]")).host or ""}
    hosts = {one for one in hosts if one in lowered}
    if not hosts:
        return False
    return any(_fits(place, found, without_scheme) for found in _written(hosts).finditer(text))


_LETTER: Final = r"[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
"""Of a word that an address may be a part of. Chinese, Japanese and Korean stand beside one without a blank."""
_BORDER: Final = re.compile(rf"(?!{_LETTER}|[%~=+-])")


def _written(hosts: Iterable[str]) -> re.Pattern[str]:
    names = "|".join(map(re.escape, sorted(hosts)))
    return re.compile(
        rf"(?:(?P<scheme>(?ai:https?))://|(?<!{_LETTER})(?<![@./:%-]))(?:{names})\.?(?::(?P<port>[0-9]{{1,5}}))?"
        rf"(?:(?P<rest>[/?#][^\s<>\"'`]*)|(?!\.?(?:{_LETTER}|[@-])|[:%\\]\S))",
        re.IGNORECASE,
    )


def _fits(place: Place, found: re.Match[str], without_scheme: bool) -> bool:
    scheme = (found["scheme"] or "").lower()
    if not scheme and not without_scheme:
        return False
    if scheme and scheme != place.scheme and place.scheme == "http":
        return False  # what was given encrypted is not asked for in the open
    port = int(found["port"]) if found["port"] else None
    if (port or _PORTS[place.scheme]) != place.port:
        return False
    given = (found["rest"] or "").partition("#")[0]
    given = given if given.startswith("/") else f"/{given}"
    if not given.startswith(place.rest):
        return False
    after = given[len(place.rest) :]
    return place.rest[-1] in "/?&" or _BORDER.match(after) is not None
