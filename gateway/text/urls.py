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


def address_of(text: str) -> URL:
    """As the client that asks will read it. Raises `ValueError` alone, where the library has other words, too."""
    try:
        return URL(text)
    except IndexError:  # `http://[::1]x@`
        raise ValueError("nothing can be read after the @") from None


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


_CJK: Final = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
"""Letters that stand beside an address without a blank."""
_LETTER: Final = rf"[^\W{_CJK}]"
"""Of a word that an address may be a part of."""
_BORDER: Final = re.compile(rf"(?!{_LETTER}|[%~=+-])")
_FOUND: Final = re.compile(
    rf"(?:(?P<scheme>(?ai:https?))://(?P<host>\[[0-9a-fA-F:.]+\]|[\w.-]+)"
    rf"|(?<!{_LETTER})(?<![@./:%-])(?P<bare>(?:(?:{_LETTER}|-)+\.)+(?:{_LETTER}|-)+)\.?)"
    rf"(?::(?P<port>[0-9]{{1,5}}))?(?:(?P<rest>[/?#][^\s<>\"'`]*)|(?!\.?(?:{_LETTER}|[@-])|[:%\\]\S))"
)
_BESIDE: Final = re.compile(rf"[{_CJK}].*")


@dataclass(frozen=True, slots=True)
class _Stands:
    """An address as it stands in a text; its host is known."""

    scheme: str
    """Empty where it was left out."""
    port: int | None
    rest: str

    def gives(self, place: Place) -> bool:
        if self.scheme not in {place.scheme, ""} and place.scheme == "http":
            return False  # what was given encrypted is not asked for in the open
        if (self.port or _PORTS[place.scheme]) != place.port or not self.rest.startswith(place.rest):
            return False
        return place.rest[-1] in "/?&" or _BORDER.match(self.rest, len(place.rest)) is not None


class Addresses:
    """Those that stand in texts."""

    def __init__(self) -> None:
        self._of: dict[str, set[_Stands]] = {}

    @classmethod
    def in_text(cls, text: str) -> Addresses:
        """Those with their scheme."""
        found = cls()
        found.add(text)
        return found

    @classmethod
    def as_said(cls, text: str) -> Addresses:
        """In what people write `example.com/a` stands for an address as well."""
        found = cls()
        found.add(text, without_scheme=True)
        return found

    def add(self, text: str, *, without_scheme: bool = False) -> None:
        for found in _FOUND.finditer(text):
            host, rest = found["host"] or found["bare"], found["rest"] or ""
            if found["scheme"] or without_scheme:
                self._put(host, found, rest)
            if host != (cut := _BESIDE.sub("", host)) and found["scheme"]:
                self._put(cut, found, "")

    def has(self, place: Place) -> bool:
        """Whether this address stands there: whole, or a longer one that begins with it and goes on behind a border."""
        return any(one.gives(place) for one in self._of.get(place.host, ()))

    def _put(self, host: str, found: re.Match[str], rest: str) -> None:
        if name := ascii_host(host):
            given = rest.partition("#")[0]
            given = given if given.startswith("/") else f"/{given}"
            port = int(found["port"]) if found["port"] else None
            self._of.setdefault(name, set()).add(_Stands((found["scheme"] or "").lower(), port, given))
