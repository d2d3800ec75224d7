"""Opening addresses that came from outside: only the public internet, checked on the very address connected to.

A name that looks harmless can lead into our own network: by its DNS record, by a redirect, by a second answer of the
resolver after a check (rebinding), by one of the many ways to write an address. So nothing is concluded from the
text alone: the check sits where the socket is made, for each attempt of each hop. Proxies, cookies, credentials and
`.netrc` play no part.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from config.addresses import HOST_NAME, NUMBER
from config.settings import WebFetchSettings
from gateway import content_types
from gateway.logs import log
from gateway.text.urls import address_of

Address: TypeAlias = IPv4Address | IPv6Address

CLOSED_V4: Final = tuple(
    ip_network(net)
    for net in (
        "192.0.0.0/24",  # protocol assignments; a cloud's metadata lives at 192.0.0.192
        "192.88.99.0/24",  # relays of 6to4
        "168.63.129.16/32",  # a cloud's metadata, at an address that is public by its number
        "224.0.0.0/4",  # multicast: `is_global` is true for it
    )
)
CLOSED_V6: Final = tuple(
    ip_network(net)
    for net in (
        "2001::/23",  # protocol assignments, Teredo among them
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: an IPv4 address in disguise
        "3fff::/20",  # documentation
    )
)
UNICAST_V6: Final = IPv6Network("2000::/3")
NAT64: Final = IPv6Network("64:ff9b::/96")
"""What a network without IPv4 makes of every IPv4 address (RFC 6052): looked through, as the mapped ones are."""

NOT_IN_A_URL: Final = re.compile(r"[\x00-\x20\x7f\\]")
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
URL_MAX_CHARACTERS: Final = 8_192
PIECE_BYTES: Final = 65_536

logger = logging.getLogger(__name__)


class NotFetched(Exception):
    """`str()` says to whoever asked what was wrong and, where it is known, what would be right."""

    def __init__(self, why: str, *, was_led: bool = False) -> None:
        """`was_led`: by a redirect. Whoever wrote that has a say in the words, by the names in it."""
        super().__init__(why)
        self.was_led = was_led


@dataclass(frozen=True, slots=True)
class Fetched:
    """What was found at an address. `body` is empty if its type was not wanted."""

    url: str
    """Where it really is, after redirects."""
    status: int
    content_type: str
    """Without parameters, in lower case; empty if the server did not say."""
    charset: str
    """As the server named it; empty if it did not."""
    body: bytes
    size_bytes: int | None
    """What the server announced; compressed bodies announce the compressed size."""
    is_cut: bool
    """The body was longer than allowed; `body` is its beginning."""
    notes: tuple[str, ...] = ()
    """What a reader should know about the way there."""
    was_led: bool = False
    """A redirect led there: `url` is in others' words."""


def is_public(address: Address) -> bool:
    """Whether it is an address of the public internet, seen through the forms that hide an IPv4 address in IPv6.

    Stricter than `ipaddress.is_global`, which takes multicast, site-local, IPv4-compatible, 6to4 and NAT64 addresses
    for global (Python 3.11). Of IPv6 only 2000::/3 is in use for the public (IANA, IPv6 address space).
    """
    if isinstance(address, IPv4Address):
        return address.is_global and not any(address in net for net in CLOSED_V4)
    hidden = address.ipv4_mapped
    if hidden is None and address in NAT64:
        hidden = IPv4Address(int(address) & 0xFFFF_FFFF)
    if hidden is not None:
        return is_public(hidden)
    return address.is_global and address in UNICAST_V6 and not any(address in net for net in CLOSED_V6)


class Fetcher:
    """Fetches by GET under the operator's rules. Holds no connection: each hop has one of its own.

    `larger` names content types whose bodies may be longer than others. `resolver` and `public` are for tests: who turns
    names into addresses, and which addresses pass.
    """

    def __init__(
        self,
        rules: WebFetchSettings,
        *,
        larger: Mapping[str, int] | None = None,
        resolver: AbstractResolver | None = None,
        public: Callable[[Address], bool] = is_public,
    ) -> None:
        self._rules = rules
        self._larger = larger or {}
        self._exceptions = frozenset(entry.lower() for entry in rules.allow_private)
        self._resolver = resolver
        self._public = public

    async def fetch(self, url: str, wanted: Callable[[str], bool]) -> Fetched:
        """What is at the address; the body only if `wanted` says yes to its content type. Raises `NotFetched`."""
        here = self.checked(url)
        try:
            async with asyncio.timeout(self._rules.timeout_s):
                return await self._follow(here, wanted)
        except TimeoutError:
            raise NotFetched(f"{here.host} did not answer in full within {self._rules.timeout_s:g} s") from None

    def checked(self, url: str) -> URL:
        """The address as the client will use it, or `NotFetched` for what its text alone rules out."""
        text = url.strip()
        if len(text) > URL_MAX_CHARACTERS:
            raise NotFetched(f"the URL is longer than {URL_MAX_CHARACTERS} characters")
        if NOT_IN_A_URL.search(text):
            raise NotFetched(
                "a URL has no spaces, control characters or backslashes; percent-encode what must be there"
            )
        try:
            parsed = address_of(text)
            port = parsed.port
        except ValueError as error:
            raise NotFetched(f"this is not a URL: {error}") from None
        if parsed.scheme not in {"http", "https"}:
            raise NotFetched(
                "only http:// and https:// URLs are fetched, written in full, such as https://example.com/"
            )
        if "@" in parsed.raw_authority:
            raise NotFetched("a URL with a user name or password is not fetched; leave out what is before the @")
        host = (parsed.raw_host or "").lower()
        _check_host(host)
        if not self._is_exception(parsed) and port not in self._rules.ports:
            allowed = ", ".join(map(str, self._rules.ports))
            raise NotFetched(f"port {port} is not fetched; allowed: {allowed}")
        return parsed.with_fragment(None)

    def _is_exception(self, url: URL) -> bool:
        host = (url.raw_host or "").lower()
        return f"{f'[{host}]' if ':' in host else host}:{url.port}" in self._exceptions

    async def _follow(self, here: URL, wanted: Callable[[str], bool]) -> Fetched:
        notes: list[str] = []
        for hops in range(self._rules.max_redirects + 1):
            try:
                found = await self._hop(here, wanted)
            except NotFetched as error:
                error.was_led = error.was_led or hops > 0
                raise
            if isinstance(found, Fetched):
                return replace(found, notes=tuple(notes), was_led=hops > 0)
            if here.scheme == "https" and found.scheme == "http":
                notes.append(f"redirected from https to unencrypted http at {here.host}")
            here = found
        most = self._rules.max_redirects
        raise NotFetched(f"more than {most} redirects; the last one led to {here}", was_led=True)

    async def _hop(self, url: URL, wanted: Callable[[str], bool]) -> Fetched | URL:
        """One request on a connection of its own: what is there, or where it is said to be."""
        closed: list[Address] = []
        is_exception = self._is_exception(url)

        def make_socket(info: aiohttp.AddrInfoType) -> socket.socket:
            family, kind, protocol, _, where = info
            address = ip_address(str(where[0]).partition("%")[0])
            if not is_exception and not self._public(address):
                closed.append(address)
                raise OSError(f"{address} is not public")
            return socket.socket(family, kind, protocol)

        connector = aiohttp.TCPConnector(
            resolver=self._resolver, use_dns_cache=False, force_close=True, socket_factory=make_socket
        )
        try:
            async with (
                aiohttp.ClientSession(
                    connector=connector,
                    cookie_jar=aiohttp.DummyCookieJar(),
                    trust_env=False,
                    timeout=aiohttp.ClientTimeout(total=None),
                    headers={"User-Agent": "deskmate", "Accept": "text/html, text/*;q=0.9, */*;q=0.5"},
                ) as session,
                session.get(url, allow_redirects=False) as response,
            ):
                if response.status in REDIRECTS and "Location" in response.headers:
                    return self._target(url, response.headers["Location"])
                return await self._read(response, wanted)
        except aiohttp.ClientConnectorDNSError:
            raise NotFetched(f"there is no host {url.host}") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if closed:
                log(
                    logger,
                    "fetch refused",
                    level=logging.WARNING,
                    host=url.host,
                    leads_to=[str(one) for one in closed],
                )
                raise NotFetched(f"{url.host} is not on the public internet, and only that is fetched") from None
            raise NotFetched(_reason(url, error)) from None

    def _target(self, here: URL, location: str) -> URL:
        try:
            return self.checked(str(here.join(address_of(location.strip()))))
        except ValueError:
            raise NotFetched(f"{here.host} redirects to something that is not a URL") from None
        except NotFetched as error:
            text = f"{here.host} redirects to an address that is not fetched: {error}"
            raise NotFetched(text, was_led=True) from None

    async def _read(self, response: aiohttp.ClientResponse, wanted: Callable[[str], bool]) -> Fetched:
        header = response.headers.get("Content-Type", "")
        kind = content_types.media_type(header)
        body, is_cut = bytearray(), False
        most = self._larger.get(kind, self._rules.max_bytes)
        if wanted(kind):
            async for piece in response.content.iter_chunked(PIECE_BYTES):
                body += piece
                if len(body) > most:
                    del body[most:]
                    is_cut = True
                    break
        return Fetched(
            url=str(response.url),
            status=response.status,
            content_type=kind,
            charset=content_types.charset(header),
            body=bytes(body),
            size_bytes=response.content_length,
            is_cut=is_cut,
        )


def _check_host(host: str) -> None:
    """Names and canonical addresses only: any other way to write a number is read differently by different readers."""
    if not host:
        raise NotFetched("the URL has no host, such as example.com")
    try:
        zone = ip_address(host).version == 6 and "%" in host
    except ValueError:
        if not HOST_NAME.fullmatch(host) or len(host) > 253:
            raise NotFetched(f"{host!r} is not a host name") from None
        if NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]):
            raise NotFetched(f"{host!r} is neither a host name nor an address in its usual form") from None
    else:
        if zone:
            raise NotFetched("an address with a zone belongs to this machine's own networks and is not fetched")


def _reason(url: URL, error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"the certificate of {url.host} is not valid: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return f"{url.host} does not speak TLS as it should; is it an http:// address?"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"{url.host} does not accept connections on port {url.port}"
    if isinstance(error, aiohttp.ClientPayloadError):
        return f"the answer of {url.host} broke off or could not be unpacked"
    return f"{url.host} did not answer as a web server does ({type(error).__name__})"
