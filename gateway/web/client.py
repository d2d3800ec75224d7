"""A client of the chat page's HTTP API, for the command line: says something and hears what becomes of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import aiohttp

AGAIN_S: Final = 0.5
QUIET_S: Final = 45.0
"""A stream without even a heartbeat for so long is dead."""


class NotReachable(Exception):
    """Nobody answers at this address, or it is no gateway."""


class Refused(Exception):
    """The gateway answered no; `str()` is what it tells people."""

    def __init__(self, status: int, told: str) -> None:
        super().__init__(told)
        self.status = status


@dataclass(frozen=True, slots=True)
class Heard:
    """What happens after something was said. `text` is always whole: the answer so far, or the reply."""

    kind: Literal["text", "step", "card", "reply", "notice"]
    """`card`: what the product says in the midst of the turn. A `reply` or a `notice` is the end: what answers the message."""
    text: str = ""
    step: str = ""
    """`skill` or `tool`, for a step that has ended."""
    name: str = ""
    state: str = ""


class Visit:
    """One visitor at one gateway. `cookies` say who it is: keep them, and the conversations are found again."""

    def __init__(self, http: aiohttp.ClientSession, url: str, cookies: Mapping[str, str] | None = None) -> None:
        self._http = http
        self._url = url.rstrip("/")
        self.cookies = dict(cookies or {})

    async def log_in(self, password: str) -> None:
        """Give the password. Raises `Refused`, `NotReachable`."""
        form = {"password": password}
        async with await self._ask("POST", "/chat/login", data=form, allow_redirects=False) as answer:
            if answer.status != 303:
                raise Refused(answer.status, "the password was not accepted")

    async def conversation(self, conversation: str) -> dict[str, Any]:
        """Its items and state, from the records. Raises `Refused`, `NotReachable`."""
        return await self._json("GET", "/chat/api/conversation", params={"conversation": conversation})

    async def say(self, conversation: str, text: str) -> AsyncGenerator[Heard, None]:
        """Say it, then give what is heard up to the reply or notice that answers it. Goes on over a broken connection.

        Raises `Refused`, and `NotReachable` when it could not even be said.
        """
        number = secrets.token_hex(8)
        place = (await self.conversation(conversation))["place"]
        message = {"conversation": conversation, "text": text, "id": number}
        await self._json("POST", "/chat/api/messages", json=message)
        told: set[tuple[int, str]] = set()
        while True:
            try:
                async with contextlib.aclosing(self._hear(conversation, place, number, told)) as hearing:
                    async for heard in hearing:
                        yield heard
                        if heard.kind in {"reply", "notice"}:
                            return
                shown = await self.conversation(conversation)
            except (NotReachable, TimeoutError):
                await asyncio.sleep(AGAIN_S)
                continue
            except Refused as why:
                if why.status < 500:
                    raise
                await asyncio.sleep(AGAIN_S)
                continue
            place = shown["place"]
            for heard in _news(shown, number, told):
                yield heard
                if heard.kind in {"reply", "notice"}:
                    return

    async def _hear(
        self, conversation: str, place: str, number: str, told: set[tuple[int, str]]
    ) -> AsyncGenerator[Heard, None]:
        """What one stream tells of the turn that took the message `number`. The records are the truth."""
        steps: list[Any] | None = None
        async with contextlib.aclosing(self._follow(conversation, place)) as following:
            async for entry in following:
                if entry["type"] != "text" or entry["steps"] != steps or not told:
                    steps = entry.get("steps")
                    for heard in _news(await self.conversation(conversation), number, told):
                        yield heard
                if entry["type"] == "text" and told:
                    yield Heard("text", entry["text"])

    async def _follow(self, conversation: str, place: str) -> AsyncGenerator[dict[str, Any], None]:
        """Entries, until the stream ends or says that something was missed."""
        where = {"conversation": conversation, "after": place}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=QUIET_S)
        async with await self._ask("GET", "/chat/api/stream", params=where, timeout=timeout) as answer:
            await _check(answer)
            fields: dict[str, str] = {}
            try:
                async for raw in answer.content:
                    line = raw.decode().rstrip("\n")
                    name, _, value = line.partition(": ")
                    if line:
                        fields[name] = value
                    elif fields.pop("event", "") == "gone":
                        return
                    elif "data" in fields:
                        yield json.loads(fields.pop("data"))
            except aiohttp.ClientError as error:
                raise NotReachable(str(error)) from error

    async def _json(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        async with await self._ask(method, path, **options) as answer:
            await _check(answer)
            try:
                told: dict[str, Any] = await answer.json()
            except (aiohttp.ClientError, ValueError) as error:
                raise NotReachable(f"{self._url} is no deskmate gateway") from error
            return told

    async def _ask(self, method: str, path: str, **options: Any) -> aiohttp.ClientResponse:
        options.setdefault("timeout", aiohttp.ClientTimeout(total=15, sock_connect=5))
        cookies = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        try:
            answer = await self._http.request(
                method, self._url + path, headers=cookies if self.cookies else None, **options
            )
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise NotReachable(_why(error)) from error
        self.cookies |= {name: cookie.value for name, cookie in answer.cookies.items()}
        return answer


def _why(error: Exception) -> str:
    """In few words: the library's own name its settings as well."""
    if isinstance(error, aiohttp.ClientConnectorError):
        return error.os_error.strerror or str(error.os_error)
    return str(error) or type(error).__name__


async def _check(answer: aiohttp.ClientResponse) -> None:
    if answer.status < 400:
        return
    try:
        told = (await answer.json())["error"]
    except (aiohttp.ClientError, ValueError, LookupError, TypeError):
        told = f"the answer was {answer.status}"
    raise Refused(answer.status, told)


def _news(shown: dict[str, Any], number: str, told: set[tuple[int, str]]) -> list[Heard]:
    """What has happened since the message `number` was taken, and was not told yet.

    `told` takes the records' places, with the ids of what stands there (a plan has several steps); the message's own among
    them says that it was taken.
    """
    items = shown["items"]
    at = next((at for at, item in enumerate(items) if item.get("id") == number and not item.get("waiting")), None)
    if at is None:
        return []
    told.add((items[at]["index"], number))
    news = []
    for item in items[at + 1 :]:
        place = (item["index"], item.get("id", ""))
        if place in told or item["kind"] == "person" or item.get("state") in {"running", "waiting"}:
            continue
        told.add(place)
        if item.get("answers") == number:  # beside a turn, or it has ended one: it was asked for
            news.append(Heard("reply", item["text"]))
            break
        if item.get("card"):
            news.append(Heard("card", item["text"]))
        elif item["kind"] == "step":
            news.append(Heard("step", step=item["step"], name=item["name"], state=item["state"]))
        else:
            is_notice = item.get("notice") and not item.get("command")  # what a command leads to was asked for
            news.append(Heard("notice" if is_notice else "reply", item["text"]))
            break
    return news
