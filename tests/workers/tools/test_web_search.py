"""`web_search`, against strict doubles of the services."""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web
from pydantic import SecretStr, ValidationError

from config.settings import Settings, WebSearchSettings
from tests.harness.search_twin import KEY, Page, SearchTwin, search_twin
from workers.searching import hits
from workers.tools import Call, Outside, ToolError, ToolResult
from workers.tools.web_search import Tool

NO_CALL = cast("Call", None)
SERVICES = ("brave", "tavily", "searxng")
services = pytest.mark.parametrize("provider", SERVICES)

PAGES: list[Page] = [
    ("Opening &amp; closing", "https://good.test/a?b=c", "Open   <b>daily</b>,\nsays &lt;us&gt;."),
    ("二", "https://other.test/二", ""),
    *((f"More {number}", f"https://more.test/{number}", "x") for number in range(30)),
]


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(trust_env=False) as session:
        yield session


async def found(
    http: aiohttp.ClientSession, twin: SearchTwin, provider: str, key: str = KEY, **more: Any
) -> ToolResult:
    rules = {
        "provider": provider,
        "api_key": SecretStr(key),
        "base_url": twin.url,
        "timeout_s": more.pop("timeout_s", 5),
    }
    settings = Settings.model_validate({"tools": {"web_search": rules}})
    return await Tool(Outside(settings, http)).run({"query": "when  open", **more}, NO_CALL)


@services
async def test_results_are_numbered_cleaned_and_untrusted(http: aiohttp.ClientSession, provider: str) -> None:
    async with search_twin(pages=PAGES) as twin:
        result = await found(http, twin, provider, count=3)
    assert result.text == (
        "1. Opening & closing\n   https://good.test/a?b=c\n   Open daily, says <us>.\n\n"
        "2. 二\n   https://other.test/二\n\n"
        "3. More 0\n   https://more.test/0\n   x"
    )
    assert result.untrusted
    assert result.addresses == ("https://good.test/a?b=c", "https://other.test/二", "https://more.test/0")
    assert [one.get("q", one.get("query")) for one in twin.asked] == ["when open"]


@services
async def test_five_results_are_enough_unless_more_are_wanted(http: aiohttp.ClientSession, provider: str) -> None:
    async with search_twin(pages=PAGES) as twin:
        assert len((await found(http, twin, provider)).addresses) == 5
        assert len((await found(http, twin, provider, count=20)).addresses) == 20


@services
async def test_nothing_found_is_told_and_is_no_error(http: aiohttp.ClientSession, provider: str) -> None:
    async with search_twin() as twin:
        result = await found(http, twin, provider)
    assert (result.text, result.addresses) == ("No page fits these words. Try fewer or other ones.", ())


@services
async def test_what_is_no_address_of_the_web_is_left_out_and_no_page_comes_twice(
    http: aiohttp.ClientSession, provider: str
) -> None:
    odd = [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "",
        "https://",
        "https://[::1]x@",
        "https://a.test/\u202e",
        "https://a.test/ b",
    ]
    twice = [("One", "https://good.test/", ""), ("Two", "https://good.test/", "")]
    pages = [*(("Odd", url, "") for url in [*odd, "https://a.test/" + "x" * 2_050]), *twice]
    async with search_twin(pages=pages) as twin:
        assert (await found(http, twin, provider, count=20)).text == "1. One\n   https://good.test/"


def test_a_number_that_python_does_not_read_costs_no_search() -> None:
    [hit] = hits([{"t": "&#" + "9" * 5_000 + ";", "u": "http://a.example/", "s": ""}], "t", "u", "s", 5)
    assert hit.url == "http://a.example/"


async def test_long_titles_and_extracts_are_cut(http: aiohttp.ClientSession) -> None:
    async with search_twin(pages=[("t" * 500, "https://good.test/", "s" * 5_000)]) as twin:
        text = (await found(http, twin, "tavily")).text
    assert text.count("t" * 199 + "…") == 1
    assert text.count("s" * 599 + "…") == 1


ANSWERS = {
    "wrong key": (web.json_response({"detail": {"error": f"bad {KEY}"}}, status=401), "refused the key"),
    "no credit": (web.json_response({}, status=402), "plan with the search service is used up"),
    "no plan": (web.json_response({}, status=432), "plan with the search service is used up"),
    "too many": (web.Response(status=429), r"too many searches \(429\); try again later"),
    "too many, until": (web.Response(status=429, headers={"Retry-After": "7"}), "try again in 7 s"),
    "until a date": (web.Response(status=429, headers={"Retry-After": KEY}), "try again later"),
    "broken": (web.Response(status=503, text="<h1>Down</h1>"), r"in trouble \(503\)"),
    "deep": (web.Response(text='{"a": ' + "[" * 600 + "]" * 600 + "}", status=422), r"did not take the search \(422\)"),
    "odd": (web.json_response({"error": KEY}, status=422), r"did not take the search \(422\)"),
    "moved": (web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"}), r"redirects \(302\)"),
    "HTML": (web.Response(text=f"<html>{KEY}</html>", content_type="text/html"), "something else than JSON"),
    "nothing": (web.Response(text=""), "something else than JSON"),
    "a list": (web.json_response([1]), "something else than JSON"),
    "other JSON": (web.json_response({"results": {}, "web": []}), "something else than results"),
    "too much": (web.Response(text="[" + " " * 2_000_001), "more than 2,000,000 bytes"),
}


@services
@pytest.mark.parametrize(("answer", "why"), ANSWERS.values(), ids=ANSWERS)
async def test_what_went_wrong_is_one_clear_error_without_the_key(
    http: aiohttp.ClientSession,
    caplog: pytest.LogCaptureFixture,
    provider: str,
    answer: web.Response,
    why: str,
) -> None:
    caplog.set_level(logging.DEBUG)
    async with search_twin(instead=answer) as twin:
        with pytest.raises(ToolError, match=why) as caught:
            await found(http, twin, provider)
    assert len(twin.asked) == 1
    assert KEY not in f"{caught.value!r} {caught.value.__cause__} {caplog.text}"


@pytest.mark.parametrize("provider", ["brave", "tavily"])
async def test_a_key_that_the_service_does_not_know_is_told_to_be_corrected(
    http: aiohttp.ClientSession, provider: str
) -> None:
    async with search_twin(pages=PAGES) as twin:
        with pytest.raises(ToolError, match=r"refused the key .* has to correct tools\.web_search"):
            await found(http, twin, provider, key="other")


async def test_a_searxng_that_gives_no_json_is_told_with_what_to_set(http: aiohttp.ClientSession) -> None:
    async with search_twin(pages=PAGES, formats=["html"]) as twin:
        with pytest.raises(ToolError, match=r"`json` has to be in search\.formats"):
            await found(http, twin, "searxng")


@services
async def test_a_service_that_is_away_is_told(http: aiohttp.ClientSession, provider: str, unused_port: int) -> None:
    with pytest.raises(ToolError, match=r"can't be reached \(ClientConnectorError\)"):
        await found(http, SearchTwin(port=unused_port), provider)


async def test_a_service_that_does_not_answer_is_given_up(http: aiohttp.ClientSession) -> None:
    async with search_twin() as twin:
        with pytest.raises(ToolError, match=r"within 1e-05 s"):
            await found(http, twin, "brave", timeout_s=0.00001)


async def test_without_words_or_a_provider_nothing_is_searched(http: aiohttp.ClientSession) -> None:
    async with search_twin() as twin:
        with pytest.raises(ToolError, match="no words"):
            await found(http, twin, "tavily", query=" \n")
        assert twin.asked == []
    with pytest.raises(ToolError, match="no provider is set"):
        await Tool(Outside(Settings(), http)).run({"query": "x"}, NO_CALL)


@pytest.mark.parametrize(
    ("rules", "key"),
    [({"provider": "brave"}, "api_key"), ({"provider": "tavily"}, "api_key"), ({"provider": "searxng"}, "base_url")],
)
def test_a_provider_without_what_it_needs_is_refused_by_the_settings(rules: dict[str, str], key: str) -> None:
    with pytest.raises(ValidationError) as caught:
        WebSearchSettings.model_validate(rules)
    assert [(one["type"], one["ctx"]["key"]) for one in caught.value.errors()] == [("across", key)]
    assert WebSearchSettings.model_validate({"provider": "ddgs"}).provider == "ddgs"


# ---- ddgs: an extra, in place of which stands a module of a test's own ----

LIBRARY = """
from ddgs.exceptions import *
class DDGS:
    def __init__(self, proxy=None, timeout=5, *, verify=True):
        assert timeout == 3
    def text(self, query, **kwargs):
        assert kwargs == {"max_results": 5}
        {does}
"""
EXCEPTIONS = """
class DDGSException(Exception): pass
class RatelimitException(DDGSException): pass
class TimeoutException(DDGSException): pass
"""


async def by_library(monkeypatch: pytest.MonkeyPatch, folder: Path, does: str) -> ToolResult:
    if does:
        (folder / "ddgs").mkdir()
        (folder / "ddgs/__init__.py").write_text(LIBRARY.replace("{does}", does))
        (folder / "ddgs/exceptions.py").write_text(EXCEPTIONS)
    monkeypatch.setattr(sys, "path", [str(folder), *(one for one in sys.path if "site-packages" not in one)])
    for name in [name for name in sys.modules if name.split(".")[0] == "ddgs"]:
        monkeypatch.delitem(sys.modules, name)
    settings = Settings.model_validate({"tools": {"web_search": {"provider": "ddgs", "timeout_s": 2.5}}})
    try:
        return await Tool(Outside(settings, cast("Any", None))).run({"query": "when open"}, NO_CALL)
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == "ddgs"]:
            del sys.modules[name]


async def test_the_library_is_asked_and_its_results_are_ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    does = 'return [{"title": query, "href": "https://good.test/", "body": "Yes."}]'
    result = await by_library(monkeypatch, tmp_path, does)
    assert (result.text, result.untrusted) == ("1. when open\n   https://good.test/\n   Yes.", True)
    assert result.addresses == ("https://good.test/",)


@pytest.mark.parametrize(
    ("does", "why"),
    [
        ('raise RatelimitException("202")', "too many searches"),
        ('raise TimeoutException("x")', "within 3 s"),
        ('raise DDGSException("https://engine/?q=when open")', "did not answer as they should; try again later$"),
        ("", r"pip install -e '\.\[search\]'"),
    ],
)
async def test_what_the_library_says_is_a_clear_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, does: str, why: str
) -> None:
    with pytest.raises(ToolError, match=why):
        await by_library(monkeypatch, tmp_path, does)


async def test_a_library_that_finds_nothing_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    does = 'raise DDGSException("No results found.")'
    assert "No page fits" in (await by_library(monkeypatch, tmp_path, does)).text
