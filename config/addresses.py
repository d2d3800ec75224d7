"""The kinds of addresses that settings hold, of people too, and what each must look like. Nothing is looked up."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult, urlsplit

from pydantic import SecretStr
from pydantic_core import PydanticCustomError

HOST_NAME: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*\.?")
NUMBER: Final = re.compile(r"\d+|0x[0-9a-f]*")
"""A name whose last part is one of these is read as an address by some programs and as a name by others."""
SHOWS_NOTHING: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Letters and marks that look like nothing at all, beside those that Python itself does not call printable."""
_STYLED: Final = re.compile("(?<=[\u2000-\u2bff\u3030-\u303d\u3297-\u3299\U0001f000-\U0001faff])[\ufe0e\ufe0f]")
"""What chooses between text and picture of a symbol."""
_PLACE: Final = re.compile(r"(?:\[(?P<v6>[0-9a-f:.]+)\]|(?P<name>[^\[\]:]+)):(?P<port>[1-9]\d{0,4})")


def web_address(value: str) -> str:
    """`http://` or `https://`; returned without the slash at the end."""
    parts = _split(value)
    if parts is None or parts.scheme not in {"http", "https"} or not parts.hostname or any(map(str.isspace, value)):
        raise PydanticCustomError("web_address", "not a web address")
    return value.rstrip("/")


def is_sealed(url: str) -> bool:
    """Whether what goes there can't be read on the way: https, or it stays on this machine."""
    parts = _split(url)
    if parts is None or not parts.hostname:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in {"localhost", "127.0.0.1", "::1"})


def redis_address(value: SecretStr) -> SecretStr:
    """`redis://`, `rediss://` or `unix://`."""
    parts = _split(value.get_secret_value())
    if parts is None or parts.scheme not in {"redis", "rediss", "unix"} or not (parts.hostname or parts.path):
        raise PydanticCustomError("redis_address", "not an address of a Redis")
    return value


def listening_host(value: str) -> str:
    """A host to listen on: a name or an IP address, without port; empty for all addresses."""
    if value and not is_host(value):
        raise PydanticCustomError("listening_host", "not a host")
    return value


def exact_place(value: str) -> str:
    """Exactly one host and one port: no scheme, no pattern, no network. Returned in lower case."""
    match = _PLACE.fullmatch(value.lower())
    if not match or int(match["port"]) > 65535:
        raise PydanticCustomError("exact_place", "not host:port")
    host = match["v6"] or match["name"]
    if not is_host(host) or (match["v6"] and str(ip_address(host)) != host):
        raise PydanticCustomError("exact_place", "not host:port")
    return value.lower()


def person(value: str) -> str:
    """Somebody on a connection, as the platform numbers them: `connection/id`. Blanks around it are nobody's; nobody has an id
    that looks like another (`is_plain`).
    """
    connection, _, id_ = value.strip().partition("/")
    if not connection or not id_ or any(map(str.isspace, value.strip())):
        raise PydanticCustomError("person", "nobody's id")
    if not is_plain(id_):
        raise PydanticCustomError("person", "nobody's id: characters that nobody sees are in it")
    return value.strip()


def is_plain(id_: str) -> bool:
    """Whether an id looks like no other one: nothing unseen is in it, nothing that turns the direction, no blank at an end, and
    none that an eye takes for another.
    """
    is_seen = id_.isprintable() and (id_.isascii() or not SHOWS_NOTHING.search(_STYLED.sub("", id_)))
    return is_seen and id_ == id_.strip() and "  " not in id_


def host_pattern(value: str) -> str:
    """A host name, or `*.` and one: no scheme, no port, other scripts in Punycode. Returned in lower case."""
    name = value.lower()
    if "_" in name or name.endswith(".") or not is_host(name.removeprefix("*.")):
        raise PydanticCustomError("host_pattern", "not a host")
    return name


def is_host(text: str) -> bool:
    """A host name, or an IP address in its usual form."""
    try:
        ip_address(text)
    except ValueError:
        name = text.lower()
        last = name.rstrip(".").rpartition(".")[2]
        return len(name) <= 253 and bool(HOST_NAME.fullmatch(name)) and not NUMBER.fullmatch(last)
    return True


def _split(address: str) -> SplitResult | None:
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        return None
    return parts
