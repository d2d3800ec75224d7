"""Tavily (https://docs.tavily.com/documentation/api-reference/endpoint/search)."""

from __future__ import annotations

import aiohttp

from config.settings import WebSearchSettings
from workers.searching import Hit, ask, hits

SERVICE = "https://api.tavily.com"


class Provider:
    """See `workers.searching.Provider`."""

    def __init__(self, rules: WebSearchSettings, http: aiohttp.ClientSession) -> None:
        self._rules = rules
        self._http = http

    async def search(self, query: str, count: int) -> list[Hit]:
        assert self._rules.api_key, "demanded by the settings"  # noqa: S101
        said = await ask(
            self._http,
            self._rules,
            "POST",
            f"{self._rules.base_url or SERVICE}/search",
            json={"query": query, "max_results": count, "search_depth": "basic"},
            headers={"Authorization": f"Bearer {self._rules.api_key.get_secret_value()}"},
        )
        return hits(said.get("results"), "title", "url", "content", count)
