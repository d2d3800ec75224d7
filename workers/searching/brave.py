"""Brave Search (https://api-dashboard.search.brave.com/api-reference/web/search/get)."""

from __future__ import annotations

import aiohttp

from config.settings import WebSearchSettings
from workers.searching import Hit, ask, hits

SERVICE = "https://api.search.brave.com"


class Provider:
    """See `workers.searching.Provider`. A wrong key is answered with 401 or with 422 by the service."""

    def __init__(self, rules: WebSearchSettings, http: aiohttp.ClientSession) -> None:
        self._rules = rules
        self._http = http

    async def search(self, query: str, count: int) -> list[Hit]:
        assert self._rules.api_key, "demanded by the settings"  # noqa: S101
        said = await ask(
            self._http,
            self._rules,
            "GET",
            f"{self._rules.base_url or SERVICE}/res/v1/web/search",
            params={"q": query, "count": str(count), "text_decorations": "false"},
            headers={"Accept": "application/json", "X-Subscription-Token": self._rules.api_key.get_secret_value()},
        )
        web = said.get("web")
        if web is None:  # it is left out where nothing was found
            return []
        return hits(web.get("results") if isinstance(web, dict) else None, "title", "url", "description", count)
