"""SearXNG, on a server of one's own (https://docs.searxng.org/dev/search_api.html)."""

from __future__ import annotations

import aiohttp

from config.settings import WebSearchSettings
from workers.searching import Hit, ask, hits


class Provider:
    """See `workers.searching.Provider`. It gives as many results as it likes; `json` must be in its `search.formats`."""

    def __init__(self, rules: WebSearchSettings, http: aiohttp.ClientSession) -> None:
        self._rules = rules
        self._http = http

    async def search(self, query: str, count: int) -> list[Hit]:
        key = self._rules.api_key
        said = await ask(
            self._http,
            self._rules,
            "GET",
            f"{self._rules.base_url}/search",
            params={"q": query, "format": "json"},
            headers={"Authorization": f"Bearer {key.get_secret_value()}"} if key else {},
            forbidden="the search service does not give JSON (403): `json` has to be in search.formats of SearXNG's settings",
        )
        return hits(said.get("results"), "title", "url", "content", count)
