"""`deskmate demo`: a message in, a reply out, on the real thing: gateway, storage, worker, a skill, a tool, a page.

Only the model is none: the rehearsal follows the list of skills by its words and reads the page that the message names.
What is claimed at the end is read from the conversation's records.
"""

from __future__ import annotations

import asyncio
import html
import json
import sys
import tempfile
import textwrap
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import click
import yaml
from aiohttp import web

from config.loading import load
from gateway.cli import Stop
from gateway.cli.up import stop_on_signals
from gateway.logs import start_logging
from gateway.running.embedded import NoServer
from gateway.running.machine import Failed, Machine, machine

SKILL: Final = "harbour-releases"
WITHIN_S: Final = 60.0
"""For each of the three waits: gateway, worker, reply."""


@dataclass(frozen=True, slots=True)
class Scene:
    """The words of the demo. A test swaps them, to see that nothing is made up."""

    skill_words: str = (
        "Release notes of Harbour: which version is current and what changed in it. "
        "Name the version first, then what changes for the people who use it."
    )
    page_text: str = "Harbour 4.2 is out. Exports run in the background now, and the search finds attachments."
    question: str = "What changed in the current Harbour release? The notes are at {page}"


SCENE: Final = Scene()


@dataclass(frozen=True, slots=True)
class Shown:
    """What came of it, from the records."""

    items: Sequence[Mapping[str, Any]]
    gateway_s: float
    worker_s: float
    reply_s: float

    def missing(self) -> list[str]:
        """What should be in the records and is not."""
        done = {(item["step"], item["name"]) for item in self.items if item.get("state") == "done"}
        replies = [item for item in self.items if item["kind"] == "reply" and not item.get("notice")]
        found = {
            f"the skill {SKILL} was loaded": ("skill", SKILL) in done,
            "web_fetch read the page": ("tool", "web_fetch") in done,
            "a reply was given": bool(replies),
        }
        return [claim for claim, is_so in found.items() if not is_so]


@click.command()
@click.option("--skill-words", default=SCENE.skill_words, hidden=True)
@click.option("--page-text", default=SCENE.page_text, hidden=True)
@click.option("--question", default=SCENE.question, hidden=True)
def demo(skill_words: str, page_text: str, question: str) -> None:
    """Start everything in a temporary folder, ask one question, and show what happens. Needs no key and no network.

    In a terminal the chat page stays open until Ctrl-C.
    """
    try:
        asyncio.run(_demo(Scene(skill_words, page_text, question)))
    except (NoServer, Failed) as error:
        raise Stop(f"{error}.") from None
    except TimeoutError:
        raise Stop(f"Nothing came within {WITHIN_S:.0f} s.") from None


async def _demo(scene: Scene) -> None:
    with tempfile.TemporaryDirectory(prefix="deskmate-demo-") as folder:
        async with _page(scene.page_text) as page:
            loaded = load(_furnish(Path(folder), scene, page), variables={})
            start_logging(loaded.settings.log, process="demo")
            click.echo("deskmate demo: real gateway, storage and worker; the model is a script (rehearsal).\n")
            asked_to_stop = asyncio.Event()
            started = time.monotonic()
            async with machine(loaded.settings, loaded.path) as running:
                shown = await _play(scene.question.replace("{page}", page), running, started)
                _print(shown)
                if missing := shown.missing():
                    raise Stop(f"The records do not say that {', nor that '.join(missing)}.")
                click.echo(
                    f"\nGateway ready after {shown.gateway_s:.2f} s, worker after {shown.worker_s:.2f} s; the reply took "
                    f"{shown.reply_s:.2f} s. That the skill was loaded and the tool ran is read from the records."
                )
                if sys.stdout.isatty():
                    stop_on_signals(asked_to_stop)
                    click.echo(f"\nTry it yourself: {running.address}/chat (Ctrl-C ends the demo)")
                    await asked_to_stop.wait()


def _furnish(folder: Path, scene: Scene, page: str) -> Path:
    """Settings and one skill, as an operator would write them; gives the settings file."""
    skill = folder / "skills" / SKILL
    skill.mkdir(parents=True)
    head = yaml.safe_dump({"name": SKILL, "description": scene.skill_words}, allow_unicode=True)
    (skill / "SKILL.md").write_text(f"---\n{head}---\n{scene.skill_words}\n", encoding="utf-8")
    settings = {
        "data": "data",
        "gateway": {"port": 0},
        "model": {"provider": "rehearsal"},
        "skills": {"folder": "skills"},
        "tools": {"web_fetch": {"allow_private": [page.split("/")[2]]}},
        "log": {"level": "error"},
    }
    file = folder / "deskmate.yaml"
    file.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return file


@asynccontextmanager
async def _page(text: str) -> AsyncIterator[str]:
    """A page on this machine, for `web_fetch` to read."""

    async def notes(_: web.Request) -> web.Response:
        body = f"<!doctype html><title>Release notes</title><main><p>{html.escape(text)}</p></main>"
        return web.Response(text=body, content_type="text/html")

    app = web.Application()
    app.router.add_get("/notes", notes)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/notes"
    finally:
        await runner.cleanup()


async def _play(question: str, running: Machine, started: float) -> Shown:
    """Ask over the chat page's own API and wait for the reply. Raises `TimeoutError`."""
    async with asyncio.timeout(WITHIN_S):
        await running.until_ready(workers=0)
    gateway_s = time.monotonic() - started
    async with asyncio.timeout(WITHIN_S):
        await running.until_ready()
    worker_s = time.monotonic() - started
    jar = aiohttp.CookieJar(unsafe=True)  # a conversation belongs to the browser that began it; its host is an address
    async with aiohttp.ClientSession(running.address, cookie_jar=jar, trust_env=False) as browser:
        where = {"conversation": "demo"}
        place = (await _conversation(browser, where))["place"]
        asked = time.monotonic()
        message = {**where, "id": "demo-1", "text": question}
        async with browser.post("/chat/api/messages", json=message, raise_for_status=True):
            pass
        async with asyncio.timeout(WITHIN_S):
            await _until_reply(browser, {**where, "after": place})
            reply_s = time.monotonic() - asked
            while (found := await _conversation(browser, where))["running"]:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.02)
    return Shown(found["items"], gateway_s, worker_s, reply_s)


async def _conversation(browser: aiohttp.ClientSession, where: dict[str, str]) -> dict[str, Any]:
    async with browser.get("/chat/api/conversation", params=where, raise_for_status=True) as response:
        found: dict[str, Any] = await response.json()
        return found


async def _until_reply(browser: aiohttp.ClientSession, where: dict[str, str]) -> None:
    async with browser.get("/chat/api/stream", params=where, raise_for_status=True) as stream:
        async for line in stream.content:
            if line.startswith(b"data:") and json.loads(line[5:])["type"] == "reply":
                return


def _print(shown: Shown) -> None:
    for item in shown.items:
        if item["kind"] == "person":
            _say("you", item["text"])
        elif item["kind"] == "step":
            verb = {"skill": "loaded the skill", "tool": "ran", "step": "step:"}[item["step"]]
            click.secho(f"{'':10}{verb} {item['name']} ({item['state']})", dim=True)
        else:
            _say("deskmate", item["text"])


def _say(who: str, text: str) -> None:
    lines = [part for line in text.splitlines() for part in textwrap.wrap(line, 90) or [""]]
    for name, line in zip([who, *[""] * len(lines)], lines, strict=False):
        click.echo(f"{click.style(f'{name:<10}', bold=True)}{line}" if name or line else "")
