"""The library `ddgs`, which asks public search engines without a key. It is the extra `search`."""

from __future__ import annotations

import asyncio
from math import ceil
from typing import Any

import aiohttp

from config.settings import WebSearchSettings
from gateway.inventory import installing
from workers.searching import Hit, NotSearched, hits


class Provider:
    """See `workers.searching.Provider`. The library blocks, so it works in a thread, and ends by its own timeout."""

    def __init__(self, rules: WebSearchSettings, http: aiohttp.ClientSession) -> None:
        del http
        self._rules = rules

    async def search(self, query: str, count: int) -> list[Hit]:
        found = await asyncio.to_thread(_search, query, count, ceil(self._rules.timeout_s))
        return hits(found, "title", "href", "body", count)


def _search(query: str, count: int, timeout_s: int) -> Any:
    try:
        from ddgs import DDGS  # noqa: PLC0415  # only where it was chosen
        from ddgs.exceptions import DDGSException, RatelimitException, TimeoutException  # noqa: PLC0415
    except ImportError:
        raise NotSearched(
            f"searching with ddgs is not installed; whoever runs deskmate has to: {installing('search')}"
        ) from None
    try:
        return DDGS(timeout=timeout_s).text(query, max_results=count)
    except RatelimitException:
        raise NotSearched("the search engines have had too many searches; try again later") from None
    except TimeoutException:
        raise NotSearched(f"the search engines did not answer within {timeout_s} s") from None
    except DDGSException as error:
        if "No results found" in str(error):
            return []
        raise NotSearched("the search engines did not answer as they should; try again later") from None
