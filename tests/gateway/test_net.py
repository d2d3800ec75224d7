from __future__ import annotations

import asyncio
import gzip
import json
import socket
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver
from hypothesis import given, settings
from hypothesis import strategies as st
from yarl import URL

from config.settings import WebFetchSettings
from gateway.net import Fetched, Fetcher, NotFetched, is_public
from tests.harness.web import Names, canary, public, site

PRIVATE = [
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200", "127.0.0.1",
    "127.255.255.254", "168.63.129.16", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1",
    "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.0.1", "198.18.0.1", "198.19.255.255", "198.51.100.1",
    "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "::", "::1", "::127.0.0.1",
    "::8.8.8.8", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:0:127.0.0.1",
    "::ffff:0:8.8.8.8", "64:ff9b::a9fe:a9fe", "64:ff9b::7f00:1", "64:ff9b:1::a9fe:a9fe", "64:ff9b:1::808:808",
    "100::1", "2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:10::1", "2001:20::1", "2001:db8::1",
    "2002:7f00:1::", "2002:808:808::1", "3fff::1", "4000::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1",
    "fec0::1", "ff02::1", "ff0e::1",
]  # fmt: skip
PUBLIC = [
    "1.1.1.1", "8.8.8.8", "93.184.216.34", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1", "192.0.1.1",
    "198.17.0.1", "198.20.0.1", "223.255.255.255", "2606:4700:4700::1111", "2a00:1450:4001::1",
    "2001:4860:4860::8888", "2400:3200::1", "::ffff:8.8.8.8", "64:ff9b::808:808",
]  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
def test_what_is_not_of_the_public_internet_is_closed(address: str) -> None:
    assert not is_public(ip_address(address))


@pytest.mark.parametrize("address", PUBLIC)
def test_the_public_internet_is_open(address: str) -> None:
    assert is_public(ip_address(address))


@settings(deadline=None)
@given(st.ip_addresses(v=4))
def test_an_address_is_judged_alike_in_all_the_forms_that_are_looked_through(address: IPv4Address) -> None:
    for net in ("::ffff:0:0", "64:ff9b::"):
        assert is_public(IPv6Address(int(IPv6Address(net)) + int(address))) == is_public(address)


@settings(deadline=None)
@given(st.ip_addresses(v=4))
def test_nothing_that_python_calls_local_is_public(address: IPv4Address) -> None:
    if address.is_private or address.is_loopback or address.is_link_local or address.is_multicast:
        assert not is_public(address)


def fetcher(*ports: int, names: AbstractResolver | None = None, strict: bool = False, **rules: Any) -> Fetcher:
    given_rules = WebFetchSettings(**{"ports": list(ports), "timeout_s": 5, **rules})
    return Fetcher(given_rules, resolver=names) if strict else Fetcher(given_rules, resolver=names, public=public)


async def refused(fetch: Fetcher, url: str) -> str:
    with pytest.raises(NotFetched) as caught:
        await fetch.fetch(url, bool)
    return str(caught.value)


async def test_a_page_is_fetched_from_the_address_that_was_checked() -> None:
    pages = {"/a?b=c": web.Response(text="hello", content_type="text/plain")}
    async with site(pages) as port:
        names = Names({"good.test": [["127.0.0.1"]]})
        found = await fetcher(port, names=names).fetch(f"http://GOOD.test:{port}/a?b=c#part", bool)
    assert found == Fetched(f"http://good.test:{port}/a?b=c", 200, "text/plain", "utf-8", b"hello", 5, is_cut=False)


async def test_a_content_type_is_not_left_to_a_reader_that_takes_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    flood = "text/html; charset=l1;" + '"' * 7_000
    pages = {"/": web.Response(body=b"hello", headers={"Content-Type": flood})}
    async with site(pages) as port:
        monkeypatch.setattr("aiohttp.helpers.parse_content_type", asked.append)
        found = await fetcher(port, names=Names({"good.test": [["127.0.0.1"]]})).fetch(
            f"http://good.test:{port}/", bool
        )
    assert (found.content_type, found.charset, found.body) == ("text/html", "l1", b"hello")
    assert not asked


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "127.1", "0", "0.0.0.0", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "017700000001",
        "①②⑦.⓪.⓪.①", "127。0。0。1", "127%2E0.0.1", "%31%32%37.0.0.1", "127.0.0.1.", "127.0.0.2", "127.255.255.254",
        "localhost", "LOCALHOST", "localhost.", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
        "[0:0:0:0:0:ffff:127.0.0.1]", "[::127.0.0.1]", "[::ffff:0:127.0.0.1]", "[64:ff9b::7f00:1]", "[::1%25lo]",
        "good.test@127.0.0.1", "user:secret@127.0.0.1", "127.0.0.1\\@good.test", "127.0.0.1\t", "127.0\n.0.1",
    ],
)  # fmt: skip
async def test_no_way_to_write_a_loopback_address_reaches_it(host: str) -> None:
    """The system's own resolver is asked; the canaries listen on the IPv4 and IPv6 loopback, on one port."""
    with canary() as four, canary("::1", four.port, socket.AF_INET6) as six:
        await refused(fetcher(four.port, strict=True), f"http://{host}:{four.port}/")
        assert (four.visits(), six.visits()) == (0, 0)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("", "only http:// and https://"),
        ("http://[::1]x@", "not a URL"),
        ("example.com", "https://example.com/"),
        ("/etc/passwd", "only http://"),
        ("file:///etc/passwd", "only http://"),
        ("gopher://good.test/", "only http://"),
        ("dict://good.test:80/", "only http://"),
        ("ftp://good.test/", "only http://"),
        ("data:text/html,hi", "only http://"),
        ("jar:http://good.test!/", "only http://"),
        ("unix:/run/x.sock", "only http://"),
        ("redis://good.test/", "only http://"),
        ("javascript:alert(1)", "only http://"),
        ("http:///x", "no host"),
        ("http://", "no host"),
        ("http://?x", "no host"),
        ("http://good.test:0/", "port 0"),
        ("http://good.test:22/", "port 22"),
        ("http://good.test:65536/", "not a URL"),
        ("http://good.test:-1/", "not a URL"),
        ("http://good.test:x/", "not a URL"),
        ("http://[::1/", "not a URL"),
        ("http://a..b/", "not a host name"),
        ("http://-a.test/", "not a host name"),
        ("http://a_b!.test/", "not a host name"),
        ("http://1.2.3.4.5/", "nor an address in its usual form"),
        ("http://good.0x7f/", "nor an address in its usual form"),
        ("http://good.test/a b", "percent-encode"),
        ("http://good.test/\x00", "percent-encode"),
        ("http://good.test\\x", "percent-encode"),
        ("http://user@good.test/", "before the @"),
        ("http://good.test/" + "a" * 9_000, "longer than 8192"),
        ("http://" + "a" * 300 + ".test/", "not a host name"),
    ],
)
async def test_what_can_never_be_fetched_is_refused_with_the_reason(url: str, told: str) -> None:
    names = Names({"good.test": [["127.0.0.1"]]})
    assert told in await refused(fetcher(80, 443, names=names), url)
    assert names.asked == []


async def test_a_secret_before_the_at_sign_is_not_repeated() -> None:
    assert "hunter2" not in await refused(fetcher(80), "http://user:hunter2@good.test/")


async def test_what_follows_the_hash_is_no_host() -> None:
    names = Names({})
    assert "there is no host real.test" in await refused(fetcher(80, names=names), "http://real.test#@good.test/")
    assert set(names.asked) == {"real.test"}


async def test_a_name_that_leads_inside_is_refused_without_telling_where() -> None:
    with canary("127.0.0.2") as inside:
        names = Names({"inside.test": [["127.0.0.2"]]})
        told = await refused(fetcher(inside.port, names=names), f"http://inside.test:{inside.port}/")
        assert inside.visits() == 0
    assert "inside.test is not on the public internet" in told
    assert "127.0.0.2" not in told


async def test_of_two_addresses_of_a_name_only_the_public_one_is_used() -> None:
    async with site({"/": web.Response(text="public")}) as port:
        with canary("127.0.0.2", port) as inside:
            names = Names({"both.test": [["127.0.0.2", "127.0.0.1"]]})
            found = await fetcher(port, names=names).fetch(f"http://both.test:{port}/", bool)
            assert found.body == b"public"
            assert inside.visits() == 0


async def test_a_name_that_changes_its_answer_between_two_fetches_gains_nothing() -> None:
    async with site({"/": web.Response(text="public")}) as port:
        with canary("127.0.0.2", port) as inside:
            names = Names({"rebinds.test": [["127.0.0.1"], ["127.0.0.2"]]})
            fetch = fetcher(port, names=names)
            assert (await fetch.fetch(f"http://rebinds.test:{port}/", bool)).body == b"public"
            await refused(fetch, f"http://rebinds.test:{port}/")
            assert inside.visits() == 0


async def test_a_name_that_changes_its_answer_between_two_hops_gains_nothing() -> None:
    pages = {"/": web.Response(status=302, headers={"Location": "/again"}), "/again": web.Response(text="never")}
    async with site(pages) as port:
        with canary("127.0.0.2", port) as inside:
            names = Names({"rebinds.test": [["127.0.0.1"], ["127.0.0.2"]]})
            await refused(fetcher(port, names=names), f"http://rebinds.test:{port}/")
            assert inside.visits() == 0


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_each_hop_of_a_redirect_is_checked(status: int) -> None:
    with canary("127.0.0.2") as inside:
        for target in (
            f"http://127.0.0.2:{inside.port}/",
            f"//127.0.0.2:{inside.port}/",
            f"http://in.test:{inside.port}",
        ):
            pages = {"/": web.Response(status=status, headers={"Location": target})}
            async with site(pages) as port:
                names = Names({"good.test": [["127.0.0.1"]], "in.test": [["127.0.0.2"]]})
                await refused(fetcher(port, inside.port, names=names), f"http://good.test:{port}/")
        assert inside.visits() == 0


@pytest.mark.parametrize(
    "target",
    ["file:///etc/passwd", "http://u:p@good.test/", "http://good.test:22/", "http://[", "http://[::1]x@", "//0x7f.1/"],
)
async def test_a_redirect_can_not_lead_where_nobody_may_go_directly(target: str) -> None:
    async with site({"/": web.Response(status=302, headers={"Location": target})}) as port:
        names = Names({"good.test": [["127.0.0.1"]]})
        assert "good.test redirects to" in await refused(fetcher(port, names=names), f"http://good.test:{port}/")


async def test_redirects_are_followed_to_the_end_and_no_further_than_allowed() -> None:
    async def down(request: web.Request) -> web.Response:
        left = int(request.path.strip("/"))
        return web.Response(status=302, headers={"Location": f"/{left - 1}"}) if left else web.Response(text="here")

    async with site({f"/{n}": down for n in range(9)}) as port:
        fetch = fetcher(port, names=Names({"good.test": [["127.0.0.1"]]}), max_redirects=3)
        found = await fetch.fetch(f"http://good.test:{port}/3", bool)
        assert (found.url, found.body) == (f"http://good.test:{port}/0", b"here")
        assert "more than 3 redirects" in await refused(fetch, f"http://good.test:{port}/4")


async def test_no_cookie_and_no_credential_goes_along(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / "netrc").write_text("machine good.test login me password hunter2\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")

    async def first(_: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": "/second", "Set-Cookie": "a=b"})

    async def second(request: web.Request) -> web.Response:
        return web.json_response(dict(request.headers))

    async with site({"/first": first, "/second": second}) as port:
        names = Names({"good.test": [["127.0.0.1"]]})
        found = await fetcher(port, names=names).fetch(f"http://good.test:{port}/first", bool)
    assert {name.lower() for name in json.loads(found.body)} <= {
        "host", "user-agent", "accept", "accept-encoding", "connection",
    }  # fmt: skip


async def test_an_exception_of_the_operator_holds_for_that_host_and_port_alone() -> None:
    async with site({"/": web.Response(text="intranet")}, "127.0.0.2") as port, site({}, "127.0.0.2") as other:
        fetch = fetcher(
            80, allow_private=[f"127.0.0.2:{port}", f"Wiki.test:{port}"], names=Names({"wiki.test": [["127.0.0.2"]]})
        )
        assert (await fetch.fetch(f"http://127.0.0.2:{port}/", bool)).body == b"intranet"
        assert (await fetch.fetch(f"http://wiki.TEST:{port}/", bool)).body == b"intranet"
        assert f"port {other}" in await refused(fetch, f"http://127.0.0.2:{other}/")
        assert f"port {port}" in await refused(fetch, f"http://127.0.0.3:{port}/")


async def test_an_exception_does_not_reach_from_one_hop_to_the_next() -> None:
    with canary("127.0.0.2") as inside:
        pages = {"/": web.Response(status=302, headers={"Location": f"http://127.0.0.2:{inside.port}/"})}
        async with site(pages, "127.0.0.3") as port:
            await refused(fetcher(inside.port, allow_private=[f"127.0.0.3:{port}"]), f"http://127.0.0.3:{port}/")
        assert inside.visits() == 0


async def test_a_body_is_cut_where_the_limit_is() -> None:
    pages = {"/exact": web.Response(body=b"x" * 2_000), "/more": web.Response(body=b"x" * 2_001)}
    async with site(pages) as port:
        fetch = fetcher(port, max_bytes=2_000, names=Names({"good.test": [["127.0.0.1"]]}))
        exact, more = [await fetch.fetch(f"http://good.test:{port}{path}", lambda _: True) for path in pages]
    assert (len(exact.body), exact.is_cut) == (2_000, False)
    assert (len(more.body), more.is_cut) == (2_000, True)


async def test_the_limit_counts_what_was_unpacked() -> None:
    bomb = gzip.compress(b"\0" * 30_000_000)
    assert len(bomb) < 40_000
    async with site({"/": web.Response(body=bomb, headers={"Content-Encoding": "gzip"})}) as port:
        fetch = fetcher(port, max_bytes=50_000, names=Names({"good.test": [["127.0.0.1"]]}))
        found = await fetch.fetch(f"http://good.test:{port}/", lambda _: True)
    assert (len(found.body), found.is_cut) == (50_000, True)


async def test_a_body_that_can_not_be_unpacked_is_told() -> None:
    async with site({"/": web.Response(body=b"no gzip", headers={"Content-Encoding": "gzip"})}) as port:
        fetch = fetcher(port, names=Names({"good.test": [["127.0.0.1"]]}))
        assert "could not be unpacked" in await refused(fetch, f"http://good.test:{port}/")


async def test_the_body_of_a_type_that_is_not_wanted_is_not_read() -> None:
    async with site({"/": web.Response(body=b"\x89PNG", content_type="image/png")}) as port:
        fetch = fetcher(port, names=Names({"good.test": [["127.0.0.1"]]}))
        found = await fetch.fetch(f"http://good.test:{port}/", lambda kind: kind != "image/png")
    assert (found.content_type, found.body, found.size_bytes) == ("image/png", b"", 4)


async def test_a_server_that_never_ends_is_left_in_time() -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"x")
        await asyncio.Event().wait()
        return response

    async with site({"/": endless}) as port:
        fetch = fetcher(port, timeout_s=0.1, names=Names({"good.test": [["127.0.0.1"]]}))
        assert "did not answer in full within 0.1 s" in await refused(fetch, f"http://good.test:{port}/")


async def test_what_is_no_web_server_is_told() -> None:
    names = Names({"good.test": [["127.0.0.1"]]})
    async with site({}) as port:
        assert "is it an http:// address?" in await refused(fetcher(port, names=names), f"https://good.test:{port}/")
    assert "does not accept connections" in await refused(fetcher(port, names=names), f"http://good.test:{port}/")
    assert "there is no host" in await refused(fetcher(port, names=names), f"http://nowhere.test:{port}/")


class Led(Fetcher):
    """Finds what a test says: this world has no certificates, so https can't be had for real."""

    def __init__(self, *hops: Fetched | URL) -> None:
        super().__init__(WebFetchSettings())
        self._hops = list(hops)

    async def _hop(self, url: URL, wanted: Callable[[str], bool]) -> Fetched | URL:  # noqa: ARG002  # as it is asked
        return self._hops.pop(0)


async def test_going_from_https_to_http_is_noted() -> None:
    end = Fetched("http://good.test/", 200, "", "", b"", None, is_cut=False)
    found = await Led(URL("http://good.test/"), end).fetch("https://good.test/", bool)
    assert found.notes == ("redirected from https to unencrypted http at good.test",)
    assert (await Led(URL("https://good.test/"), end).fetch("http://good.test/", bool)).notes == ()
