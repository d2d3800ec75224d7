"""S-L2, S-L3: every secret that an operator can give, with services that tell in their errors all that they were sent.

Whatever goes wrong then, none of them stands in a log, in Redis, in what the model reads, in a chat, on an admin page or in
what a command prints.
"""

from __future__ import annotations

import asyncio
import base64
import re
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest
from aiohttp import web
from redis.asyncio import Redis

from gateway.cli import run
from gateway.web.admin.pages import PAGES
from tests.end_to_end.conftest import QUICK
from tests.harness import mcp_server, slack_twin, telegram_twin, webhook_twin
from tests.harness.deployment import Deployment
from tests.harness.fake_model import Asked, FakeModel
from tests.harness.held import held
from tests.harness.model_replies import Reply, fails, says
from tests.harness.processes import until
from tests.harness.slack_twin import SlackTwin
from tests.harness.telegram_twin import TelegramTwin
from tests.harness.webhook_twin import WebhookTwin

SECRETS: Final = {
    "MODEL_KEY": "sk-canary-model-7QX",
    "MODEL_HEADER": "canary-header/of+the=proxy-7QX",
    "SLACK_SECRET": slack_twin.SIGNING_SECRET,
    "SLACK_TOKEN": slack_twin.BOT_TOKEN,
    "TELEGRAM_TOKEN": telegram_twin.BOT_TOKEN,
    "TELEGRAM_SECRET": telegram_twin.SECRET,
    "BRIDGE_SECRET": webhook_twin.SECRET,
    "REPLY_SECRET": webhook_twin.REPLY_SECRET,
    "CHAT_PASSWORD": "canary of the page 7QX",
    "SEARCH_KEY": "canary-search-7QX",
    "MCP_TOKEN": "canary-mcp-env-7QX",
    "MCP_HEADER": "Bearer canary-mcp-header-7QX",
    "BYSTANDER": "canary-bystander-7QX",
}
"""All that the settings name, and one in the environment that nothing names."""
COMMANDS: Final = ("status", "doctor", "config check", "config show", "mcp list", "audit", "usage", "connect telegram")
"""That tell of the installation."""
TOOLS: Final = ("web_search", "near__env", "far__anything")


@dataclass
class Mirror:
    """A service of which every answer is a fault that holds the request: its address, its headers, its body. What is sent again
    and again meets one kind after the other.
    """

    port: int = 0
    asked: list[str] = field(default_factory=list)
    count: Counter[str] = field(default_factory=Counter)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def answer(self, request: web.Request) -> web.StreamResponse:
        shown = f"{request.method} {request.url}\n{dict(request.headers)}\n{await request.text()}"
        self.asked.append(shown)
        self.count[request.path] += 1
        match self.count[request.path] % 4 if request.path.endswith("/sendMessage") else 1:
            case 0:
                return web.Response(status=401, text=shown, headers={"WWW-Authenticate": "Bearer"})
            case 1:
                return web.json_response({"ok": False, "error": shown, "description": shown}, status=400)
            case 2:
                return web.Response(text=f"<html>{shown}</html>", content_type="text/html")
            case _:
                return web.Response(status=500, text=shown)


@asynccontextmanager
async def mirror() -> AsyncIterator[Mirror]:
    made = Mirror()
    app = web.Application()
    app.add_routes([web.route("*", "/{path:.*}", made.answer)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.port = runner.addresses[0][1]
    try:
        yield made
    finally:
        await runner.cleanup()


def settings(model: str, slack: str, broken: str, folder: Path) -> dict[str, Any]:
    script = str(Path(mcp_server.__file__))
    near = {"command": [sys.executable, "-I", script, str(folder)], "env": {"TOKEN": "$MCP_TOKEN"}}
    return {
        "model": {
            "provider": "anthropic",
            "name": "fake",
            "base_url": model,
            "api_key": "$MODEL_KEY",
            "headers": {"x-proxy": "$MODEL_HEADER"},
            "max_retries": 0,
            "retry_for_s": 0.5,
        },
        "mailbox": {**QUICK, "send_for_s": 0.5},
        "recordings": {"keep": True},
        "log": {"format": "json", "level": "debug"},
        "chat": {"password": "$CHAT_PASSWORD"},
        "tools": {"web_search": {"provider": "brave", "api_key": "$SEARCH_KEY", "base_url": broken}},
        "mcp": {
            "servers": {
                "near": {**near, "tools": {"env": {"effect": "read", "reach": "inside"}}},
                "dying": {"command": ["/bin/sh", "-c", "echo $TOKEN >&2; exit 1"], "env": {"TOKEN": "$MCP_TOKEN"}},
                "far": {"url": f"{broken}/mcp", "headers": {"Authorization": "$MCP_HEADER"}},
            }
        },
        "connections": {
            "slack-main": {
                "platform": "slack",
                "api_base": slack,
                "signing_secret": "$SLACK_SECRET",
                "bot_token": "$SLACK_TOKEN",
                "timeout_s": 0.7,
            },
            "telegram": {
                "platform": "telegram",
                "api_base": broken,
                "bot_token": "$TELEGRAM_TOKEN",
                "secret_token": "$TELEGRAM_SECRET",
                "username": telegram_twin.USERNAME,
            },
            "bridge": {
                "platform": "standard_webhooks",
                "secret": "$BRIDGE_SECRET",
                "reply_secret": "$REPLY_SECRET",
                "reply_url": f"{broken}/replies",
            },
        },
    }


def shapes(secret: str) -> Iterator[str]:
    """As it is, in an address, and as a login in a header has it."""
    yield from {secret, quote(secret), quote(secret, safe="")}
    yield base64.b64encode(secret.encode()).decode().rstrip("=")


def hits(told: Mapping[str, str], secrets: Mapping[str, str]) -> list[str]:
    """Which secret stands where."""
    return [
        f"{name} in {where}: ...{text[max(0, text.index(shape) - 60) : text.index(shape) + 60]!r}"
        for name, secret in secrets.items()
        for shape in shapes(secret)
        for where, text in told.items()
        if shape in text
    ]


def answers(asked: Asked) -> Reply:
    """All tools once, then all that it was sent; or as the service does to a key that it does not know."""
    last = asked.text
    if "be refused" in last:
        return fails(401, "authentication_error", f"invalid x-api-key: {dict(asked.headers)}")
    if "use them" in last:
        arguments: dict[str, Any] = {"web_search": {"query": "x"}}
        return Reply([
            {"type": "tool_use", "id": f"toolu_{name}", "name": name, "input": arguments.get(name, {})}
            for name in TOOLS if name in {tool["name"] for tool in asked.request["tools"]}
        ], stop_reason="tool_use")  # fmt: skip
    return says(str(asked.request)[-3_000:])


@asynccontextmanager
async def staged(folder: Path, redis_url: str) -> AsyncIterator[tuple[Deployment, FakeModel, SlackTwin, Mirror]]:
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(FakeModel(answers, key=SECRETS["MODEL_KEY"]))
        slack = await stack.enter_async_context(SlackTwin())
        broken = await stack.enter_async_context(mirror())
        deskmate = await stack.enter_async_context(Deployment(folder, redis_url, {}, dict(SECRETS)))
        deskmate.write(settings(model.url, slack.url, broken.url, folder), {"tools": list(TOOLS), "skills": ["*"]})
        yield deskmate, model, slack, broken


@dataclass(frozen=True)
class Shell:
    """The command line, in this process: that is quick, and starts what it needs all the same."""

    deskmate: Deployment
    capsys: pytest.CaptureFixture[str]

    async def __call__(self, command: str) -> str:
        file = self.deskmate.folder / "deskmate.yaml"
        await asyncio.to_thread(run, ["--config", str(file), *command.split()])
        printed = self.capsys.readouterr()
        return printed.out + printed.err


async def pages(deskmate: Deployment, shell: Shell) -> tuple[dict[str, str], dict[str, str]]:
    """What the operator sees, and the secrets of having signed in for it."""
    found = re.search(r"link=([\w-]+)", await shell("admin link"))
    assert found
    form, headers = {"link": found[1]}, {"Origin": deskmate.url}
    async with deskmate.http.post(
        f"{deskmate.url}/admin/login", data=form, headers=headers, allow_redirects=False
    ) as answer:
        assert answer.status == 303, await answer.text()
        session = "; ".join(f"{name}={one.value}" for name, one in answer.cookies.items())
    told = {}
    for page in PAGES:
        async with deskmate.http.get(f"{deskmate.url}{page.path}", headers={"Cookie": session}) as answer:
            told[f"page {page.path}"] = f"{answer.status} {await answer.text()}"
    return told, {"login link": found[1], "session": session.partition("=")[2]}


async def test_s_l2_whatever_goes_wrong_no_secret_stands_anywhere(
    tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """S-L2, S-L3."""
    for name, one in {**SECRETS, "REDIS_URL": redis_url}.items():
        monkeypatch.setenv(name, one)
    async with staged(tmp_path, redis_url) as (deskmate, model, slack, broken):
        shell = Shell(deskmate, capsys)
        await asyncio.gather(deskmate.start_gateway(), deskmate.start_worker())
        assert "is approved" in await shell("mcp approve near__env --yes")

        # A forged event that holds the secret, and people who ask for what goes wrong.
        forged = {"X-Telegram-Bot-Api-Secret-Token": f"{SECRETS['TELEGRAM_SECRET']}x"}
        async with deskmate.http.post(deskmate.hook("telegram"), data=b"{}", headers=forged) as answer:
            told = {"answer to a forged event": f"{answer.status} {await answer.text()}"}
        async with TelegramTwin() as telegram, WebhookTwin() as chat:
            used, *_ = await asyncio.gather(
                slack.say(deskmate.hook("slack-main"), "use them"),
                telegram.say(deskmate.hook("telegram"), "hello"),
                chat.say(deskmate.hook("bridge"), "hello"),
            )
        replied = (await slack.reply_to(used)).text
        refused = await slack.say(deskmate.hook("slack-main"), "be refused")
        told["reply"] = (await slack.reply_to(refused)).text
        await slack.say(deskmate.hook("slack-main"), "/why", thread_ts=refused.ts)
        worker = deskmate.running[-1]
        await until(lambda: bool(worker.lines("send given up")), within_s=20)
        await slack.until(lambda: any("/why skill" in one.text for one in slack.messages))

        seen, people = await pages(deskmate, shell)
        told |= seen | {f"deskmate {command}": await shell(command) for command in COMMANDS}

        # It all happened: the tool told its environment, the service what it was sent, and replies did not arrive.
        assert "PATH" in replied or "TOKEN" in replied
        for name in ("SEARCH_KEY", "TELEGRAM_TOKEN", "MCP_HEADER"):
            assert any(SECRETS[name] in one for one in broken.asked), name
        assert "401" in worker.lines("model failed")[-1]["fields"]["reason"]

        told |= {one.log.name: one.log.read_text() for one in deskmate.running}
        told |= {f"asked {number}": one.body.decode() for number, one in enumerate(model.asked)}
        told |= {f"in the chat {number}": one.text for number, one in enumerate(slack.messages)}
        async with Redis.from_url(redis_url) as redis:
            told |= await held(redis, deskmate.prefix)
        assert not hits(told, {**SECRETS, **people})
        assert hits({"a test of the test": f"x{SECRETS['MODEL_HEADER']}"}, SECRETS)
