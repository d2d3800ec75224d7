"""Addresses are read strictly: what could lead elsewhere than it looks is no address."""

from __future__ import annotations

import pytest

from gateway.text.urls import Addresses, ascii_host, is_on, place_of
from tests.harness.cpu import cpu_within


@pytest.mark.parametrize(
    ("url", "whole"),
    [
        ("https://example.com", "https://example.com/"),
        ("HTTPS://EXAMPLE.com:443/A?b=C#d", "https://example.com/A?b=C"),
        ("http://example.com:8080?x=/", "http://example.com:8080/?x=/"),
        ("https://Bücher.example/ü", "https://xn--bcher-kva.example/ü"),
        ("https://аpple.com/", "https://xn--pple-43d.com/"),
        ("https://example.com./", "https://example.com/"),
        ("http://[2001:DB8::1]/", "http://[2001:db8::1]/"),
    ],
)
def test_an_address_has_one_form(url: str, whole: str) -> None:
    place = place_of(url)
    assert place is not None
    assert place.whole == whole


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "//example.com/",
        "https:/example.com/",
        "https:///example.com/",
        "javascript:alert(1)",
        "data:text/html,x",
        "ftp://example.com/",
        "https://good.test@evil.test/",
        "https://good.test:pass@evil.test/",
        "https://good.test\\@evil.test/",
        "https://good.test\\.evil.test/",
        "https://ev\til.test/",
        "https://evil.test/a b",
        "https://evil.test/\n",
        "https://evil.test/\u200b",
        " https://evil.test/",
        "https://evil%2etest/",
        "https://0x7f.1/",
        "https://2130706433/",
        "http\u017f://evil.test/",
        "https://evil.test:x/",
        "https://[::1",
        "https://-/",
        "https://" + "a" * 300 + ".test/",
    ],
)
def test_what_may_lead_anywhere_is_no_address(url: str) -> None:
    assert place_of(url) is None


def test_a_host_that_can_not_be_is_none() -> None:
    assert ascii_host("☃.exa mple") is None


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://wiki.example/", True),
        ("http://wiki.example/x", True),
        ("https://a.docs.example/", True),
        ("https://b.a.docs.example/", True),
        ("https://docs.example/", False),
        ("https://evildocs.example/", False),
        ("https://wiki.example.evil.test/", False),
        ("https://x.wiki.example/", False),
        ("https://wiki.example:8443/", False),
    ],
)
def test_hosts_are_exact_or_below(url: str, expected: bool) -> None:
    place = place_of(url)
    assert place is not None
    assert is_on(place, ["wiki.example", "*.docs.example"]) is expected


def stands(url: str, text: str, *, without_scheme: bool = False) -> bool:
    place = place_of(url)
    assert place is not None
    addresses = Addresses()
    addresses.add(text, without_scheme=without_scheme)
    return addresses.has(place)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("https://a.test/x", "see https://a.test/x."),
        ("https://a.test/x", "[here](https://a.test/x)"),
        ("https://a.test/x", "<https://A.test/x#part>"),
        ("https://a.test/x#other", "https://a.test/x#part"),
        ("https://a.test/x", "https://a.test/x/y"),
        ("https://a.test/", "https://a.test/x/y?z=1"),
        ("https://a.test", "https://a.test, or"),
        ("https://a.test/x?q=1", "https://a.test/x?q=1&r=2"),
        ("https://a.test/x", "http://a.test/x"),
        ("https://bücher.test/x", "https://xn--bcher-kva.test/x"),
        ("https://xn--bcher-kva.test/x", "https://bücher.test/x"),
        ("https://a.test/x", "看https://a.test/x。好"),
        ("https://a.test/x", "看https://a.test/x好"),
    ],
)
def test_an_address_stands_in_a_text(url: str, text: str) -> None:
    assert stands(url, text)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("https://a.test/x?d=SECRET", "https://a.test/x"),
        ("https://a.test/xy", "https://a.test/x"),
        ("https://a.test/x", "https://a.test/xSECRET"),
        ("https://a.test/u/1", "https://a.test/u/12345"),
        ("https://secret.a.test/", "https://a.test/"),
        ("https://a.b/", "https://a.bank.test/"),
        ("https://a.test/", "https://b.a.test/"),
        ("https://a.test/", "https://a.test:8080/"),
        ("https://a.test/", "https://a.test.evil.test/"),
        ("https://a.test/", "https://a.testé/"),
        ("https://a.test/", "https://a.test@evil.test/"),
        ("https://evil.test/", "https://a.test@evil.test/"),
        ("https://evil.test/", "someone@evil.test"),
        ("https://a.test/", "https://b.test/?to=a.test/"),
        ("http://a.test/", "https://a.test/"),
        ("https://a.test/x", "a.test/x"),
    ],
)
def test_another_address_does_not_stand_there(url: str, text: str) -> None:
    assert not stands(url, text)


def test_people_may_leave_out_the_scheme() -> None:
    url = "https://a.test/x"
    assert stands(url, "look at a.test/x, please", without_scheme=True)
    assert stands(url, "看a.test/x吧", without_scheme=True)
    assert not stands(url, "look at ba.test/x", without_scheme=True)
    assert not stands(url, "https://b.test//a.test/x", without_scheme=True)


@pytest.mark.parametrize(
    "piece", ["https://a.test/x?", "a.test.", "https://a.test:", "https://", "a.test/@", "x", "a-", "a.", "https://a."]
)
def test_long_texts_are_searched_in_one_go(piece: str) -> None:
    with cpu_within(3):
        assert not stands("https://a.test/y", piece * (1_000_000 // len(piece)) + " a.test", without_scheme=True)
