"""Searching the web: one module a provider, `workers/searching/<name>.py`, chosen by a setting. A module offers `Provider`."""

from __future__ import annotations

import html
import importlib
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

import aiohttp
import orjson

from config.settings import WebSearchSettings
from gateway.logs import log
from gateway.text.urls import address_of
from skills import depth

ANSWER_MAX_BYTES: Final = 2_000_000
TITLE_MAX: Final = 200
SNIPPET_MAX: Final = 600
URL_MAX: Final = 2_048
SOURCE_MAX: Final = 4_000
"""Characters of a text before `&amp;` and the like are read: Python refuses to read a number with more digits than 4,300."""
_TAG: Final = re.compile(r"</?[a-zA-Z][^<>]*>")

logger = logging.getLogger(__name__)


class NotSearched(Exception):
    """There are no results. `str()` says to the model what was wrong; it never holds the key, nor a text of the service."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A page that was found, in words of its own."""

    title: str
    url: str
    snippet: str


class Provider(Protocol):
    """A service that searches."""

    def __init__(self, rules: WebSearchSettings, http: aiohttp.ClientSession) -> None:
        """`rules` hold what this provider needs."""
        ...

    async def search(self, query: str, count: int) -> list[Hit]:
        """The best first, at most `count`. Raises `NotSearched`."""
        ...


def load_provider(rules: WebSearchSettings, http: aiohttp.ClientSession) -> Provider:
    """The one that the settings name."""
    module = importlib.import_module(f"{__name__}.{rules.provider}")
    return cast("Provider", module.Provider(rules, http))


async def ask(
    http: aiohttp.ClientSession, rules: WebSearchSettings, method: str, url: str, *, forbidden: str = "", **request: Any
) -> Mapping[str, Any]:
    """The JSON object that a service answers with status 200. Raises `NotSearched`; `forbidden` is what 403 means there.

    Redirects are not followed: they would take the key along.
    """
    try:
        async with http.request(
            method, url, allow_redirects=False, timeout=aiohttp.ClientTimeout(total=rules.timeout_s), **request
        ) as response:
            status, retry_after = response.status, response.headers.get("Retry-After", "")
            value = await _json(response)
    except TimeoutError:
        raise NotSearched(f"the search service did not answer within {rules.timeout_s:g} s") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        log(logger, "search service away", level=logging.WARNING, provider=rules.provider, reason=type(error).__name__)
        raise NotSearched(f"the search service can't be reached ({type(error).__name__})") from None
    if status != 200:
        log(logger, "search refused", level=logging.WARNING, provider=rules.provider, status=status)
        raise NotSearched(forbidden if status == 403 and forbidden else _refusal(status, value, retry_after))
    if not isinstance(value, dict):
        raise NotSearched(
            "the search service answered with something else than JSON; is tools.web_search.base_url right?"
        )
    return value


async def _json(response: aiohttp.ClientResponse) -> Any:
    """None: it is no JSON."""
    raw = bytearray()
    async for piece in response.content.iter_chunked(65_536):
        raw += piece
        if len(raw) > ANSWER_MAX_BYTES:
            raise NotSearched(f"the search service answered with more than {ANSWER_MAX_BYTES:,} bytes")
    try:
        return depth.read(bytes(raw))
    except ValueError:
        return None


def _refusal(status: int, value: Any, retry_after: str) -> str:
    """What a status other than 200 means, where the services agree."""
    operator = "whoever runs deskmate has to correct"
    if status in {401, 403} or (status == 422 and b"TOKEN_INVALID" in orjson.dumps(value)):  # so says Brave
        return f"the search service refused the key ({status}); {operator} tools.web_search"
    if status in {402, 432, 433}:  # the last two are Tavily's own
        return f"the plan with the search service is used up ({status})"
    if status == 429:
        wait = f"in {retry_after} s" if re.fullmatch(r"\d{1,6}", retry_after) else "later"
        return f"the search service has had too many searches (429); try again {wait}"
    if status >= 500:
        return f"the search service is in trouble ({status}); try again later"
    if 300 <= status < 400:
        return f"the search service redirects ({status}); {operator} tools.web_search.base_url"
    return f"the search service did not take the search ({status}); try other words, or fewer"


def hits(found: Any, title: str, url: str, snippet: str, count: int) -> list[Hit]:
    """Results by the names of their fields, cleaned: no tags, no page twice, web addresses only. Raises `NotSearched`."""
    if not isinstance(found, list):
        raise NotSearched("the search service answered with something else than results")
    made: dict[str, Hit] = {}
    for one in found:
        if isinstance(one, dict) and (address := _address(one.get(url))):
            text = _cleaned(one.get(title), TITLE_MAX) or address
            made.setdefault(address, Hit(text, address, _cleaned(one.get(snippet), SNIPPET_MAX)))
    return list(made.values())[:count]


def shown(found: Iterable[Hit]) -> str:
    """Numbered, as the model reads them."""
    return "\n\n".join(
        "\n".join(filter(None, (f"{number}. {hit.title}", f"   {hit.url}", f"   {hit.snippet}" if hit.snippet else "")))
        for number, hit in enumerate(found, 1)
    )


def _address(given: Any) -> str:
    """Empty: it is no address of the web."""
    if not isinstance(given, str) or len(given) > URL_MAX or not given.isprintable() or " " in given.strip():
        return ""
    try:
        parsed = address_of(given.strip())
    except ValueError:
        return ""
    return given.strip() if parsed.scheme in {"http", "https"} and parsed.host else ""


def _cleaned(given: Any, most: int) -> str:
    if not isinstance(given, str):
        return ""
    text = " ".join(html.unescape(_TAG.sub("", given[: most * 20])[:SOURCE_MAX]).split())
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"
