"""Search services as strict doubles: each takes exactly what its documentation says, and answers as the real one does.

Brave: https://api-dashboard.search.brave.com/api-reference/web/search/get. Tavily: https://docs.tavily.com/documentation/
api-reference/endpoint/search. SearXNG: https://docs.searxng.org/dev/search_api.html, and `searx/webutils.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

KEY = "KEY-7QX-secret"
Page = tuple[str, str, str]
"""Title, address, extract."""


@dataclass
class SearchTwin:
    """All three services behind one address."""

    pages: Sequence[Page] = ()
    formats: Sequence[str] = ("html", "json")
    """Of SearXNG's settings."""
    instead: web.Response | None = None
    """Answered to whatever comes."""
    asked: list[dict[str, Any]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    """What was not as the services want it."""
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def brave(self, request: web.Request) -> web.Response:
        asked = dict(request.query)
        self.asked.append(asked)
        if request.headers.get("X-Subscription-Token") != KEY:
            detail = {
                "code": "SUBSCRIPTION_TOKEN_INVALID",
                "detail": f"The provided token {KEY} is invalid.",
                "status": 422,
            }
            return web.json_response({"type": "ErrorResponse", "error": detail, "time": 1}, status=422)
        known = {"q", "count", "offset", "safesearch", "text_decorations", "country", "search_lang"}
        if (
            set(asked) - known
            or not 1 <= int(asked.get("count", "20")) <= 20
            or not 1 <= len(asked.get("q", "")) <= 400
        ):
            self.faults.append(f"brave: {asked}")
        if "application/json" not in request.headers["Accept"]:
            self.faults.append("brave: Accept")
        decorated = asked.get("text_decorations") != "false"
        results = [
            {
                "title": title,
                "url": url,
                "description": f"<strong>{text}</strong>" if decorated else text,
                "is_source_local": False,
                "profile": {"name": "x"},
            }
            for title, url, text in self.pages[: int(asked.get("count", "20"))]
        ]
        found = {"web": {"type": "search", "results": results, "family_friendly": True}} if results else {}
        return web.json_response({"type": "search", "query": {"original": asked["q"]}, "mixed": {}, **found})

    async def tavily(self, request: web.Request) -> web.Response:
        asked: dict[str, Any] = await request.json()
        self.asked.append(asked)
        if request.headers.get("Authorization") != f"Bearer {KEY}":
            return web.json_response({"detail": {"error": f"Unauthorized: invalid API key {KEY}."}}, status=401)
        known = {"query": str, "max_results": int, "search_depth": str, "topic": str}
        if any(not isinstance(value, known.get(name, type(None))) for name, value in asked.items()):
            self.faults.append(f"tavily: {asked}")
        if not 0 <= asked.get("max_results", 5) <= 20 or asked.get("search_depth", "basic") not in {
            "basic",
            "advanced",
        }:
            self.faults.append(f"tavily: {asked}")
        results = [
            {"title": title, "url": url, "content": text, "score": 0.9, "raw_content": None}
            for title, url, text in self.pages[: asked.get("max_results", 5)]
        ]
        about = {"query": asked["query"], "answer": None, "images": [], "follow_up_questions": None}
        return web.json_response({**about, "results": results, "response_time": 1.1, "request_id": "r"})

    async def searxng(self, request: web.Request) -> web.Response:
        asked = dict(request.query)
        self.asked.append(asked)
        if not asked.get("q"):
            return web.json_response({"error": "No query"}, status=400)
        if asked.get("format", "html") not in self.formats:
            return web.Response(status=403, text="<title>403 Forbidden</title>", content_type="text/html")
        results = [
            {"title": title, "url": url, "content": text or None, "engine": "x", "engines": ["x"], "score": 1.0}
            for title, url, text in self.pages
        ]
        rest: dict[str, Any] = {
            "answers": [],
            "corrections": [],
            "infoboxes": [],
            "suggestions": [],
            "unresponsive_engines": [],
        }
        return web.json_response({"query": asked["q"], "number_of_results": 0, "results": results, **rest})


@asynccontextmanager
async def search_twin(**given: Any) -> AsyncIterator[SearchTwin]:
    """The services, on a port of their own. At the end nothing may have been asked in a way that they do not take."""
    twin = SearchTwin(**given)

    @web.middleware
    async def perhaps_instead(request: web.Request, handler: Any) -> web.StreamResponse:
        if (one := twin.instead) is not None:
            twin.asked.append({"headers": dict(request.headers)})
            return web.Response(status=one.status, body=one.body, headers=one.headers.copy())
        answer: web.StreamResponse = await handler(request)
        return answer

    app = web.Application(middlewares=[perhaps_instead])
    app.router.add_get("/res/v1/web/search", twin.brave)
    app.router.add_post("/search", twin.tavily)
    app.router.add_get("/search", twin.searxng)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    twin.port = runner.addresses[0][1]
    try:
        yield twin
    finally:
        await runner.cleanup()
    assert twin.faults == []
