"""The HTTP side of the chat page, asked as programs ask."""

import asyncio
import contextlib
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gateway.files import FILE_MAX_BYTES
from gateway.platforms.webchat import TEXT_MAX
from gateway.store import Store
from gateway.web import chat as module
from gateway.web.door import SECURITY_HEADERS, TRIES
from tests.gateway.web.world import World, served

MESSAGE = {"conversation": "c1", "text": "hello", "id": "m1"}
PASSWORD = ["chat: {password: $SECRET}"]


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    """A visitor with cookies."""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        yield session


async def items(http: aiohttp.ClientSession, world: World, conversation: str = "c1") -> list[dict[str, Any]]:
    async with http.get(f"{world.url}/chat/api/conversation?conversation={conversation}") as answer:
        assert answer.status == 200
        found: list[dict[str, Any]] = (await answer.json())["items"]
        return found


async def post(http: aiohttp.ClientSession, world: World, **changed: Any) -> int:
    async with http.post(f"{world.url}/chat/api/messages", json={**MESSAGE, **changed}) as answer:
        return answer.status


async def lines(answer: aiohttp.ClientResponse, until: str) -> list[str]:
    """Lines of an event stream up to the one that begins so."""
    read = []
    async with asyncio.timeout(30):
        async for line in answer.content:
            read.append(line.decode().rstrip("\n"))
            if read[-1].startswith(until):
                return read
    return read


async def test_a_message_is_accepted_once(world: World, http: aiohttp.ClientSession) -> None:
    answers = []
    for _ in range(2):
        async with http.post(f"{world.url}/chat/api/messages", json=MESSAGE) as answer:
            answers.append((answer.status, await answer.json()))
    assert answers == [(202, {"accepted": "new"}), (202, {"accepted": "known"})]
    event = await world.worker.take()
    assert (event.text, event.is_direct, event.conversation.parts()[:3]) == ("hello", True, ["web", "web", "c1"])
    assert event.actor.id == event.conversation.user
    assert [(item["kind"], item["text"]) for item in await items(http, world)] == [("person", "hello")]


async def test_a_conversation_belongs_to_the_browser_that_began_it(world: World, http: aiohttp.ClientSession) -> None:
    assert await post(http, world) == 202
    mine = await world.converse("hello", "for you alone")
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as other:
        assert await items(other, world) == []
        assert await post(other, world) == 202
        theirs = await world.worker.take()
        assert theirs.conversation.id != mine.conversation.id
        async with other.get(f"{world.url}/chat/api/stream?conversation=c1&after=0-0") as stream:
            assert (await lines(stream, "event: gone"))[-1] == "event: gone"
        async with other.get(f"{world.url}/chat/api/stream?conversation=c1") as stream:
            await world.worker.send(mine, "more for you alone", key="key 2")
            await world.worker.send(theirs, "for them")
            assert "for them" in (await lines(stream, "data:"))[-1]
    assert len(await items(http, world)) == 2


async def test_the_browsers_cookie_is_kept_from_scripts_and_other_sites(
    world: World, http: aiohttp.ClientSession
) -> None:
    async with http.get(f"{world.url}/chat/api/conversation?conversation=c1") as answer:
        cookie = answer.cookies["deskmate_browser"]
    assert (cookie["httponly"], cookie["samesite"], cookie["path"], cookie["secure"]) == (True, "Strict", "/chat", "")
    assert len(cookie.value) * 6 >= 128
    async with http.get(f"{world.url}/chat/api/conversation?conversation=c1") as answer:
        assert not answer.cookies


async def test_a_page_reached_from_elsewhere_does_not_replace_the_cookie(world: World) -> None:
    """A strict cookie does not come along with a link from another site; a new one would lose the conversations."""
    async with aiohttp.request("GET", f"{world.url}/chat", headers={"Sec-Fetch-Site": "cross-site"}) as answer:
        assert answer.status == 200
        assert not answer.cookies


async def test_behind_https_the_cookie_is_secure(store: Store, redis_url: str, tmp_path: Path) -> None:
    public = ["gateway: {public_url: 'https://chat.example'}"]
    async with (
        served(store, redis_url, tmp_path, settings=public) as world,
        aiohttp.request("GET", f"{world.url}/chat/api/conversation?conversation=c1") as answer,
    ):
        assert answer.cookies["deskmate_browser"]["secure"] is True


async def test_the_stream_goes_on_after_the_last_id(world: World, http: aiohttp.ClientSession) -> None:
    await post(http, world)
    event = await world.worker.take()
    for n in range(3):
        await world.worker.send(event, f"reply {n}", key=f"key {n}")
    url = f"{world.url}/chat/api/stream?conversation=c1"
    async with http.get(url) as stream:
        assert stream.headers["Content-Type"] == "text/event-stream"
        first = await lines(stream, "data:")
    last_id = next(line for line in first if line.startswith("id: "))[4:]
    for headers, after in (({"Last-Event-ID": last_id}, "0-0"), ({}, last_id)):
        async with http.get(f"{url}&after={after}", headers=headers) as stream:
            assert json.loads((await lines(stream, "data:"))[-1][6:])["text"] == "reply 1"


async def test_whoever_was_away_too_long_is_told_to_read_anew(world: World, http: aiohttp.ClientSession) -> None:
    async with http.get(f"{world.url}/chat/api/stream?conversation=c1&after=1-0") as stream:
        assert "event: gone" in await lines(stream, "data:")
        assert await stream.content.read() == b"\n"


async def test_a_silent_stream_beats(
    world: World, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HEARTBEAT_S", 0.01)
    async with http.get(f"{world.url}/chat/api/stream?conversation=c1") as stream:
        assert (await lines(stream, ":"))[-1] == ":"


async def test_a_page_that_has_gone_is_noticed(
    world: World, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HEARTBEAT_S", 0.01)
    stream = await http.get(f"{world.url}/chat/api/stream?conversation=c1")
    await lines(stream, ":")
    assert world.feed._ears
    stream.close()
    async with asyncio.timeout(30):
        while world.feed._ears:
            await asyncio.sleep(0.01)


async def test_a_stream_ends_with_the_session(
    store: Store, redis_url: str, tmp_path: Path, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HEARTBEAT_S", 0.01)
    async with served(store, redis_url, tmp_path, settings=PASSWORD, secret="the right one") as world:
        await log_in(http, world, "the right one")
        async with http.get(f"{world.url}/chat/api/stream?conversation=c1") as stream:
            await lines(stream, ":")
            [session] = [key async for key in store.redis.scan_iter(match=f"{store.layout.prefix}:web:session:*")]
            await store.redis.delete(session)
            async with asyncio.timeout(30):
                await stream.content.read()


async def test_streams_end_when_the_gateway_stops(
    store: Store, redis_url: str, tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with served(store, redis_url, tmp_path) as world:
        stream = await http.get(f"{world.url}/chat/api/stream?conversation=c1")
        await lines(stream, "retry:")
    async with asyncio.timeout(1):
        assert await stream.content.read() == b"\n"


async def test_one_browser_can_not_take_all_streams(world: World, http: aiohttp.ClientSession) -> None:
    url = f"{world.url}/chat/api/stream?conversation=c1"
    await items(http, world)  # one cookie for all
    async with contextlib.AsyncExitStack() as streams:
        for _ in range(module.STREAMS_PER_BROWSER):
            answer = await streams.enter_async_context(http.get(url))
            assert answer.status == 200
        async with http.get(url) as answer:
            assert answer.status == 429
        async with aiohttp.request("GET", url) as answer:
            assert answer.status == 200


async def test_steps_are_read_from_the_records(world: World, http: aiohttp.ClientSession) -> None:
    await post(http, world)
    event = await world.worker.take()
    await world.worker.skill(event, "web-access")
    await world.worker.tool(event, "web_fetch")
    await world.worker.tool(event, "current_time", failed=None)
    async with http.get(f"{world.url}/chat/api/conversation?conversation=c1") as answer:
        shown = await answer.json()
    assert [(item["step"], item["name"], item["state"]) for item in shown["items"][1:]] == [
        ("skill", "web-access", "done"),
        ("tool", "web_fetch", "done"),
        ("tool", "current_time", "running"),
    ]
    assert shown["running"] is True


async def test_a_message_too_many_is_said_at_once_and_not_kept(
    store: Store, redis_url: str, tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/default.yaml").write_text("rate: {person_per_minute: 1}\n")
    async with served(store, redis_url, tmp_path) as world:
        assert await post(http, world, id="m1") == 202
        assert await post(http, world, id="m2") == 429, "the one that is told in the conversation, too"
        assert await post(http, world, id="m3") == 429
        assert len(await items(http, world)) == 1


async def test_a_full_inbox_is_said_and_takes_nothing(
    store: Store, redis_url: str, tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with served(store, redis_url, tmp_path, settings=["mailbox: {inbox_max: 1}"]) as world:
        assert await post(http, world, id="m1") == 202
        assert await post(http, world, id="m2") == 429
        assert await post(http, world, id="m1") == 202
        assert len(await items(http, world)) == 1


async def test_without_a_store_it_says_try_again(
    store: Store, redis_url: str, tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with served(store, redis_url, tmp_path) as world:
        await store.redis.delete(f"{store.layout.root(0)}:meta")
        assert await post(http, world) == 503
        pool: Any = store.redis.connection_pool
        await pool.disconnect()
        pool.reset()
        pool.connection_kwargs["path"] = "/nowhere"
        assert await post(http, world) == 503
        async with http.get(f"{world.url}/chat/api/conversation?conversation=c1") as answer:
            assert answer.status == 503
            assert "please try again" in (await answer.json())["error"]


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"text": ""}, 400),
        ({"text": "  \n"}, 400),
        ({"text": 5}, 400),
        ({"text": None}, 400),
        ({"text": "x" * (TEXT_MAX + 1)}, 413),
        ({"text": "x" * TEXT_MAX}, 202),
        ({"text": "\ud800"}, 202),
        ({"text": "\u0000"}, 202),
        ({"conversation": ""}, 400),
        ({"conversation": "a" * 65}, 400),
        ({"conversation": "a:b"}, 400),
        ({"conversation": "ａ"}, 400),
        ({"conversation": ["a"]}, 400),
        ({"id": ""}, 400),
        ({"id": None}, 400),
        ({"id": "a\n"}, 400),
        ({"browser": "0" * 32}, 202),
    ],
)
async def test_each_field_is_checked(
    world: World, http: aiohttp.ClientSession, changed: dict[str, Any], status: int
) -> None:
    assert await post(http, world, **changed) == status


async def test_who_one_is_can_not_be_said_in_the_body(world: World, http: aiohttp.ClientSession) -> None:
    await post(http, world, browser="0" * 32)
    assert (await world.worker.take()).actor.id != "0" * 32


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"a"', b"\xff", b"[" * 100_000, b"NaN"])
async def test_a_body_that_is_no_object_is_refused(world: World, http: aiohttp.ClientSession, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    async with http.post(f"{world.url}/chat/api/messages", data=body, headers=headers) as answer:
        assert answer.status == 400
        assert await answer.json() == {"error": "This request was not understood."}


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
async def test_a_form_of_another_site_can_not_post(world: World, content_type: str) -> None:
    headers = {"Content-Type": content_type}
    async with aiohttp.request(
        "POST", f"{world.url}/chat/api/messages", data=json.dumps(MESSAGE), headers=headers
    ) as answer:
        assert answer.status == 415


@pytest.mark.parametrize("path", ["/chat/login", "/chat/api/messages", "/chat/api/files?conversation=c1"])
async def test_a_content_type_is_not_left_to_a_reader_that_takes_seconds(
    world: World, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    asked: list[str] = []
    headers = {"Content-Type": "x/y;" + '"' * 7_000}
    monkeypatch.setattr("aiohttp.helpers.parse_content_type", asked.append)
    async with aiohttp.request("POST", world.url + path, data=b"x", headers=headers) as answer:
        assert answer.status == 415
    assert not asked


async def test_a_login_that_is_no_form_is_refused(world: World) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    for body in (b"password=a&password=b", b"\xff"):
        async with aiohttp.request("POST", f"{world.url}/chat/login", data=body, headers=headers) as answer:
            assert answer.status == 400


async def test_a_huge_body_is_refused(store: Store, redis_url: str, tmp_path: Path) -> None:
    large = {**MESSAGE, "x": "y" * 3000}
    async with (
        served(store, redis_url, tmp_path, settings=["gateway: {body_max_bytes: 2000}"]) as world,
        aiohttp.request("POST", f"{world.url}/chat/api/messages", json=large) as answer,
    ):
        assert answer.status == 413


async def test_a_body_that_never_ends_is_given_up(store: Store, redis_url: str, tmp_path: Path) -> None:
    async with served(store, redis_url, tmp_path, settings=["gateway: {body_timeout_s: 0.05}"]) as world:
        host, _, port = world.url.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = f"POST /chat/api/messages HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: 100\r\n\r\n{{".encode())
        assert (await asyncio.wait_for(reader.readline(), 2)).split()[1] == b"408"
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize("path", ["/chat", "/chat/static/chat.js", "/chat/api/conversation?conversation=c1", "/chat/x"])
async def test_answers_carry_the_headers_that_protect_them(world: World, path: str) -> None:
    async with aiohttp.request("GET", world.url + path) as answer:
        if path == "/chat/x":
            assert answer.status == 404
            return
        for name, value in SECURITY_HEADERS.items():
            if name != "Cache-Control":
                assert answer.headers[name] == value
        assert answer.headers["Cache-Control"] == ("no-cache" if "static" in path else "no-store")


async def test_files_are_asked_for_again_only_when_they_changed(world: World, http: aiohttp.ClientSession) -> None:
    async with http.get(f"{world.url}/chat/static/chat.js") as answer:
        etag = answer.headers["ETag"]
        assert answer.content_type == "text/javascript"
    async with http.get(f"{world.url}/chat/static/chat.js", headers={"If-None-Match": etag}) as answer:
        assert answer.status == 304


@pytest.mark.parametrize("name", ["nothing.js", "..%2Fpages%2Fchat.html", "%2e%2e%2fchat.py", "chat.js%00"])
async def test_only_the_pages_own_files_are_served(world: World, name: str) -> None:
    async with aiohttp.ClientSession() as http, http.get(f"{world.url}/chat/static/{name}") as answer:
        assert answer.status == 404


async def test_the_page_is_filled_in_without_gaps(world: World) -> None:
    for language, word in (("en", "New conversation"), ("zh-TW", "新对话"), ("fr", "New conversation"), ("", "New")):
        async with aiohttp.request("GET", f"{world.url}/chat", headers={"Accept-Language": language}) as answer:
            page = await answer.text()
        assert word in page
        assert "{{" not in page


# ---- the door ----


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:80"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "localhost.evil.example"},
        {"Host": "127.0.0.1@evil.example"},
        {"Host": "[::1].evil.example"},
        {"Host": "0.0.0.0"},
        {"X-Forwarded-For": "127.0.0.1"},
        {"X-Forwarded-Host": "localhost"},
        {"x-forwarded-proto": "https"},
        {"Forwarded": "for=127.0.0.1"},
        {"X-Real-IP": "127.0.0.1"},
        {"Via": "1.1 proxy"},
    ],
)
@pytest.mark.parametrize("path", ["/chat", "/chat/api/conversation?conversation=c1"])
async def test_without_a_password_only_this_machine_itself_comes_in(
    world: World, headers: dict[str, str], path: str
) -> None:
    async with aiohttp.request("GET", world.url + path, headers=headers) as answer:
        assert answer.status == 403
        assert "only on the computer that it runs on" in await answer.text()
        assert not answer.cookies


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:99", "[::1]", "[::1]:8080"])
async def test_this_machines_own_names_come_in(world: World, host: str) -> None:
    async with aiohttp.request("GET", f"{world.url}/chat", headers={"Host": host}) as answer:
        assert answer.status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_another_sites_page_can_not_ask(world: World, headers: dict[str, str]) -> None:
    url = f"{world.url}/chat/api/messages"
    async with aiohttp.request("POST", url, json=MESSAGE, headers=headers) as answer:
        assert answer.status == 403
        assert (await answer.json())["error"] == "This request came from another site and was refused."
    async with aiohttp.request("GET", f"{world.url}/chat/api/stream?conversation=c1", headers=headers) as answer:
        assert answer.status == 403


async def test_our_own_page_can_ask(world: World) -> None:
    headers = {"Origin": world.url, "Sec-Fetch-Site": "same-origin"}
    async with aiohttp.request("POST", f"{world.url}/chat/api/messages", json=MESSAGE, headers=headers) as answer:
        assert answer.status == 202


# ---- the password ----


async def log_in(http: aiohttp.ClientSession, world: World, password: str) -> int:
    async with http.post(f"{world.url}/chat/login", data={"password": password}, allow_redirects=False) as answer:
        return answer.status


async def test_with_a_password_nothing_is_given_before_it(
    store: Store, redis_url: str, tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with served(store, redis_url, tmp_path, settings=PASSWORD, secret="the right one") as world:
        assert await post(http, world) == 401
        for path in ("api/conversation?conversation=c1", "api/stream?conversation=c1"):
            async with http.get(f"{world.url}/chat/{path}") as answer:
                assert answer.status == 401
        async with http.get(f"{world.url}/chat", allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (303, "/chat/login")
        assert await log_in(http, world, "the wrong one") == 403
        assert await post(http, world) == 401
        assert await log_in(http, world, "the right one") == 303
        assert await post(http, world) == 202


async def test_with_a_password_a_proxy_may_stand_in_front(store: Store, redis_url: str, tmp_path: Path) -> None:
    async with served(store, redis_url, tmp_path, settings=PASSWORD, secret="the right one") as world:
        proxied = {"Host": "chat.example", "X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https"}
        async with aiohttp.ClientSession(headers=proxied, cookie_jar=aiohttp.DummyCookieJar()) as http:
            form = {"password": "the right one"}
            async with http.post(f"{world.url}/chat/login", data=form, allow_redirects=False) as answer:
                session = answer.cookies["deskmate_session"]
            assert (session["secure"], session["httponly"], session["samesite"]) == (True, True, "Strict")
            cookies = {"Cookie": f"deskmate_session={session.value}", "Origin": "https://chat.example"}
            async with http.post(f"{world.url}/chat/api/messages", json=MESSAGE, headers=cookies) as answer:
                assert answer.status == 202


async def test_the_password_can_not_be_guessed_for_long(
    store: Store, redis_url: str, tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with served(store, redis_url, tmp_path, settings=PASSWORD, secret="the right one") as world:
        assert {await log_in(http, world, f"guess {n}") for n in range(TRIES)} == {403}
        assert await log_in(http, world, "the right one") == 429
        [tries] = [key async for key in store.redis.scan_iter(match=f"{store.layout.prefix}:web:tries:*")]
        assert await store.redis.ttl(tries) > 0
        await store.redis.delete(tries)
        assert await log_in(http, world, "the right one") == 303


async def test_logging_out_ends_the_session_everywhere(
    store: Store, redis_url: str, tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with served(store, redis_url, tmp_path, settings=PASSWORD, secret="the right one") as world:
        await log_in(http, world, "the right one")
        stolen = {cookie.key: cookie.value for cookie in http.cookie_jar}
        async with http.post(f"{world.url}/chat/logout", allow_redirects=False) as answer:
            assert answer.status == 303
        async with aiohttp.ClientSession(cookies=stolen) as thief:
            assert await post(thief, world) == 401


async def test_a_session_and_a_count_that_can_not_be_read_are_none(
    store: Store, redis_url: str, tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    redis: Any = store.redis
    async with served(store, redis_url, tmp_path, settings=PASSWORD, secret="the right one") as world:
        await log_in(http, world, "the right one")
        [session] = [key async for key in redis.scan_iter(match=f"{store.layout.prefix}:web:session:*")]
        assert await log_in(http, world, "the wrong one") == 403
        [tries] = [key async for key in redis.scan_iter(match=f"{store.layout.prefix}:web:tries:*")]
        for place in (session, tries):
            await redis.delete(place)
            await redis.rpush(place, "x")
        assert await post(http, world) == 401
        assert await log_in(http, world, "the wrong one") == 403
        assert await redis.ttl(tries) > 0
        assert await log_in(http, world, "the right one") == 303
        assert await post(http, world) == 202


async def test_a_new_password_ends_all_sessions(
    store: Store, redis_url: str, tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with served(store, redis_url, tmp_path, settings=PASSWORD, secret="the first one") as world:
        await log_in(http, world, "the first one")
        assert await post(http, world) == 202
    async with served(
        store, redis_url, tmp_path, settings=PASSWORD, secret="the next one", port=int(world.url.rpartition(":")[2])
    ) as again:
        assert await post(http, again) == 401


async def test_neither_password_nor_cookies_are_stored_as_they_are(
    store: Store, redis_url: str, tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with served(store, redis_url, tmp_path, settings=PASSWORD, secret="the right one") as world:
        await log_in(http, world, "the right one")
        await post(http, world)
        secrets = [b"the right one", *(cookie.value.encode() for cookie in http.cookie_jar)]
        assert len(secrets) == 3
        kept = [key async for key in store.redis.scan_iter(match=f"{store.layout.prefix}:*")]
        everything = b"".join(kept) + b"".join([await store.redis.dump(key) or b"" for key in kept])
        assert [secret for secret in secrets if secret in everything] == []


async def test_a_link_from_elsewhere_asks_once_more_for_the_strict_cookie(
    store: Store, redis_url: str, tmp_path: Path
) -> None:
    async with served(store, redis_url, tmp_path, settings=PASSWORD, secret="the right one") as world:
        headers = {"Sec-Fetch-Site": "cross-site"}
        async with aiohttp.request("GET", f"{world.url}/chat", headers=headers, allow_redirects=False) as answer:
            assert answer.status == 200
            assert 'http-equiv="refresh"' in await answer.text()


# files


async def bring(http: aiohttp.ClientSession, world: World, content: bytes, *, conversation: str = "c1") -> Any:
    """A file for a message that follows: what the page is told of it, or the status of a refusal."""
    url = f"{world.url}/chat/api/files?conversation={conversation}"
    async with http.post(url, data=io.BytesIO(content), headers={"Content-Type": "application/octet-stream"}) as answer:
        return await answer.json() if answer.status == 201 else answer.status


async def test_a_file_comes_before_its_message_and_is_downloaded_from_it(
    world: World, http: aiohttp.ClientSession
) -> None:
    brought = await bring(http, world, b"a;b\x00\n")
    file = {"file": brought["file"], "name": "zahlen.csv", "mime": "text/csv", "size_bytes": 999}
    assert await post(http, world, text="", files=[file]) == 202
    event = await world.worker.take()
    [attached] = event.attachments
    assert (attached.kind, attached.name, attached.mime, attached.size_bytes) == ("file", "zahlen.csv", "text/csv", 5)
    assert await world.worker.adapter.download(attached, 5) == b"a;b\x00\n"
    assert "a;b" not in event.dump()
    assert [(item["kind"], item["files"]) for item in await items(http, world)] == [("person", ["zahlen.csv"])]


async def test_nobody_else_and_no_other_conversation_can_attach_a_file(
    world: World, http: aiohttp.ClientSession
) -> None:
    brought = await bring(http, world, b"mine")
    file = {"file": brought["file"], "name": "x"}
    assert await post(http, world, files=[file], conversation="c2") == 410
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as other:
        assert await post(other, world, files=[file]) == 410
    assert await post(http, world, files=[file]) == 202


async def test_a_file_over_the_limit_an_empty_one_and_one_of_another_kind_are_refused(
    world: World, http: aiohttp.ClientSession
) -> None:
    assert (await bring(http, world, bytes(FILE_MAX_BYTES)))["size_bytes"] == FILE_MAX_BYTES
    assert await bring(http, world, bytes(FILE_MAX_BYTES + 1)) == 413
    assert await bring(http, world, b"") == 400
    assert await bring(http, world, b"x", conversation="../c1") == 400
    async with http.post(f"{world.url}/chat/api/files?conversation=c1", json={}) as answer:
        assert answer.status == 415
    headers = {"Content-Type": "application/octet-stream", "Origin": "https://evil.example"}
    async with http.post(f"{world.url}/chat/api/files?conversation=c1", data=b"x", headers=headers) as answer:
        assert answer.status == 403


GOOD = {"file": "0" * 32, "name": "x", "mime": ""}


@pytest.mark.parametrize(
    "files",
    [
        "x",
        [GOOD] * 11,
        [7],
        [{**GOOD, "file": "../../etc"}],
        [{**GOOD, "name": ""}],
        [{**GOOD, "name": "a\nb"}],
        [{**GOOD, "name": "n" * 256}],
        [{**GOOD, "mime": "text"}],
        [{**GOOD, "mime": 7}],
    ],
)
async def test_files_that_can_not_be_read_are_refused(world: World, http: aiohttp.ClientSession, files: Any) -> None:
    assert await post(http, world, files=files) == 400


async def test_stop_takes_no_files_along(world: World, http: aiohttp.ClientSession) -> None:
    said = {"conversation": "c1", "id": "m1", "files": [GOOD]}
    async with http.post(f"{world.url}/chat/api/stop", json=said) as answer:
        assert answer.status == 202


async def test_the_address_alone_leads_to_the_page(world: World, http: aiohttp.ClientSession) -> None:
    async with http.get(f"{world.url}/", allow_redirects=False) as answer:
        assert (answer.status, answer.headers["Location"]) == (303, "/chat")
