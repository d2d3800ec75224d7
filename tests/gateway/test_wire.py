from __future__ import annotations

import hmac
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from gateway import wire
from gateway.platforms import Malformed, Outcome


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://a.example/x?y#z", "https://a.example:443"),
        ("http://A.example:8080", "http://a.example:8080"),
        ("http://[::1]:9/x", "http://[::1]:9"),
    ],
)
def test_an_origin_is_scheme_host_and_port(url: str, origin: str) -> None:
    assert wire.origin(url) == origin


@pytest.mark.parametrize(
    "url", ["", "a.example", "//a.example", "ftp://a.example", "https://", "https://u@a.example", "https://a.example:x"]
)
def test_what_is_no_plain_web_address_has_no_origin(url: str) -> None:
    with pytest.raises(ValueError, match="address"):
        wire.origin(url)


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_a_form_is_read_or_refused(body: bytes) -> None:
    try:
        fields = wire.read_form(body)
    except Malformed:
        return
    "".join(fields.values()).encode()


def test_a_form_of_many_fields_is_refused() -> None:
    with pytest.raises(Malformed):
        wire.read_form(b"&".join(b"a%d=1" % number for number in range(wire.FORM_FIELDS_MAX + 1)))


@given(st.binary(max_size=200), st.lists(st.binary(max_size=300), max_size=3))
def test_a_signature_is_the_one_of_the_standard_library(key: bytes, messages: list[bytes]) -> None:
    signer = wire.Signer(key)
    for message in messages:
        assert signer.digest(message) == hmac.digest(key, message, "sha256")


def test_json_says_what_is_wrong_without_saying_what_it_held() -> None:
    for body in (b'{"secret":1,"secret":2}', b'{"secret"', b'{"secret":Infinity}', b"\xffsecret"):
        with pytest.raises(Malformed) as caught:
            wire.read_json(body)
        assert "secret" not in str(caught.value)


@pytest.fixture
async def endless() -> AsyncIterator[URL]:
    """A server whose answer is longer than any platform's."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"x" * 1_048_576)
        except ConnectionError:
            return response

    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield URL(f"http://127.0.0.1:{runner.addresses[0][1]}/")
    await runner.cleanup()


async def test_an_answer_without_end_is_not_read_to_its_end(endless: URL) -> None:
    async with aiohttp.ClientSession() as http:
        outcome = await wire.call(http, "GET", endless, headers={}, timeout_s=10)
    assert isinstance(outcome, Outcome)
    assert (outcome.kind, "more than" in outcome.detail) == ("ambiguous", True)
