from __future__ import annotations

import asyncio
import hmac
import json
import re
from collections.abc import AsyncIterator, Mapping

import aiohttp
import pytest
from aiohttp import web
from aiohttp.base_protocol import BaseProtocol
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from gateway import wire
from gateway.events import Attachment
from gateway.platforms import Malformed, NotDownloaded, Outcome


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
    "url",
    [
        "",
        "a.example",
        "//a.example",
        "ftp://a.example",
        "https://",
        "https://u@a.example",
        "https://a.example:x",
        "https://[]@",
    ],
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


def answer(status: int = 200, body: bytes = b"", headers: Mapping[str, str] | None = None) -> wire.Answer:
    return wire.Answer(status, headers or {}, body)


FILE = Attachment("file", "a.txt", "text/plain", 4)


@pytest.mark.parametrize("value", [None, 1, "", "U1 ", "u1", "U1\n", ["U1"]])
def test_an_id_is_text_that_fits_as_a_whole(value: object) -> None:
    pattern = re.compile("U[0-9]")
    assert wire.id_of("user", "U1", pattern) == "U1"
    with pytest.raises(Malformed, match="user: missing, or not an id"):
        wire.id_of("user", value, pattern)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *((401, "auth_failed"), (403, "auth_failed"), (413, "too_long"), (429, "rate_limited"), (408, "transient")),
        *((503, "transient"), (500, "ambiguous"), (502, "ambiguous"), (400, "rejected"), (404, "rejected")),
    ],
)
def test_a_status_has_one_meaning(status: int, kind: str) -> None:
    assert wire.by_status(status) == kind


@pytest.mark.parametrize(
    ("asked", "header", "wait_s"),
    [
        (2, "9", 2.0),
        (0.5, None, 0.5),
        (0, "9", 0.0),
        (True, "9", 9.0),
        (-1, "9", 9.0),
        (float("inf"), None, 7.0),
        ("3", None, 7.0),
        (None, "0", 0.0),
        (1e9, None, wire.RETRY_AFTER_MAX_S),
    ],
)
def test_the_wait_is_the_one_that_is_asked_for(asked: object, header: str | None, wait_s: float) -> None:
    given = answer(429, headers={"Retry-After": header} if header else None)
    assert wire.waits(given, 7.0, asked=asked) == wait_s


def test_what_may_be_repeated_is_never_ambiguous() -> None:
    assert wire.harmless(Outcome("ambiguous", detail="x")) == Outcome("transient", detail="x")
    assert wire.harmless(Outcome("rejected")) == Outcome("rejected")


@given(st.dictionaries(st.text(), st.text(st.characters())))
def test_any_text_can_be_written_as_json(body: dict[str, str]) -> None:
    assert isinstance(json.loads(wire.dumped(body).decode()), dict)


def test_half_a_sign_is_written_as_a_question_mark() -> None:
    assert wire.dumped({"a": "x\ud83d", "b": "é"}) == '{"a":"x?","b":"é"}'.encode()


@pytest.mark.parametrize(
    ("name", "mime", "read"),
    [
        ("ä 1.png", "image/png", ("ä 1.png", "image/png")),
        ('a"\r\n\x85/..\\b', "text/plain; x", ("a_____.._b", "application/octet-stream")),
        ("", "multipart/mixed", ("file", "application/octet-stream")),
        ("x\ud83d", "image/png\r\nX: y", ("x?", "application/octet-stream")),
    ],
)
async def test_a_form_is_read_as_it_was_meant(name: str, mime: str, read: tuple[str, str]) -> None:
    file = Attachment("file", name, mime, 0)
    kind, raw = wire.form({"a": "x\r\né", "b": wire.dumped({"c": 1})}, {"f": (file, b"\r\n--\0")})
    found = {}
    reader = aiohttp.MultipartReader({"Content-Type": kind}, _stream(raw))
    while isinstance(part := await reader.next(), aiohttp.BodyPartReader):
        found[part.name] = (part.filename, part.headers.get("Content-Type"), bytes(await part.read()))
    assert found == {
        "a": (None, None, "x\r\né".encode()),
        "b": (None, "application/json", b'{"c":1}'),
        "f": (*read, b"\r\n--\0"),
    }


def _stream(raw: bytes) -> aiohttp.StreamReader:
    loop = asyncio.get_running_loop()
    stream = aiohttp.StreamReader(BaseProtocol(loop), 2**16, loop=loop)
    stream.feed_data(raw)
    stream.feed_eof()
    return stream


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (Outcome("ambiguous", detail="no answer"), "Acme did not give it: no answer"),
        (answer(404), r"it is not there any more \(ask again\)"),
        (answer(410), "it is not there any more"),
        (answer(500), "Acme did not give it: status 500$"),
        (answer(403), r"Acme did not give it: status 403 \(ask again\)"),
        (answer(302, b"1234"), "Acme did not give it: status 302"),
        (
            answer(200, b"<html>", {"Content-Type": "Text/HTML; charset=x"}),
            "Acme sent a page of text/html in its place",
        ),
        (answer(200, b"{}", {"Content-Type": "application/json"}), "Acme sent a page of application/json"),
        (answer(200), "it is empty"),
    ],
)
def test_what_is_no_file_is_not_taken_for_one(given: wire.Answer | Outcome, reason: str) -> None:
    with pytest.raises(NotDownloaded, match=reason):
        wire.file_of(given, "Acme", FILE, why="ask again")


def test_a_page_of_the_length_that_was_said_is_the_file() -> None:
    assert wire.file_of(answer(200, b"<br>", {"Content-Type": "text/html"}), "Acme", FILE) == b"<br>"
    assert wire.file_of(answer(200, b"12345"), "Acme", FILE) == b"12345"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://a.example.evil.test/x", "https://a.example.evil.test:443, which is not Acme's"),
        ("http://a.example/x", "http://a.example:80"),
        ("https://b.a.example:444/", ":444"),
        ("https://u@a.example/", "no address of Acme"),
        ("", "no address of Acme"),
    ],
)
def test_only_the_platforms_own_addresses_are_opened(url: str, reason: str) -> None:
    places: list[str | re.Pattern[str]] = ["https://a.example:443", re.compile(r"https://[a-z]\.a\.example:443")]
    assert wire.may_open("https://a.example/x", "Acme", places) == URL("https://a.example/x")
    assert wire.may_open("https://b.a.example/x", "Acme", places) == URL("https://b.a.example/x")
    with pytest.raises(NotDownloaded, match=reason):
        wire.may_open(url, "Acme", places)


class Mint:
    """Gives tokens, each good for `lasts_s`."""

    def __init__(self, lasts_s: float, ending: Outcome | None = None) -> None:
        self.made = 0
        self._lasts_s = lasts_s
        self._ending = ending

    async def fetch(self) -> tuple[str, float] | Outcome:
        self.made += 1
        await asyncio.sleep(0)
        return self._ending or (f"t{self.made}", self._lasts_s)


async def test_a_token_is_fetched_once_for_all_who_ask() -> None:
    mint = Mint(7_200)
    token = wire.Token(mint.fetch)
    assert await asyncio.gather(*(token.get() for _ in range(5))) == ["t1"] * 5
    assert mint.made == 1


async def test_a_token_is_renewed_before_its_end() -> None:
    mint = Mint(0)
    token = wire.Token(mint.fetch)
    assert [await token.get(), await token.get()] == ["t1", "t2"]
    long = wire.Token(Mint(200).fetch)  # shorter than what is spared: half of its life
    assert [await long.get(), await long.get()] == ["t1", "t1"]


async def test_a_refused_token_is_dropped_and_its_successor_is_not() -> None:
    token = wire.Token(Mint(7_200).fetch)
    assert await token.get() == "t1"
    token.drop("t1")
    assert await token.get() == "t2"
    token.drop("t1")
    assert await token.get() == "t2"


async def test_without_a_token_nothing_has_left() -> None:
    mint = Mint(0, Outcome("ambiguous", detail="no answer"))
    token = wire.Token(mint.fetch)
    assert await token.get() == Outcome("transient", detail="no answer")
    assert await token.get() == Outcome("transient", detail="no answer")
    assert mint.made == 2
