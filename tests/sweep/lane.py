"""A lane: one deskmate of its own, one gateway and one worker at a time, in which one turn after the other is struck."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Final, Self

import aiohttp
import psutil
import yaml
from redis.asyncio import Redis

from gateway.conversation import mailbox
from gateway.store import Script, script_of
from tests.harness.deployment import free_port
from tests.harness.fake_model import KEY
from tests.harness.history import Fault, now_s
from tests.harness.nursery import Born, Nursery
from tests.harness.slack_twin import BOT_TOKEN as SLACK_TOKEN
from tests.harness.slack_twin import SIGNING_SECRET
from tests.harness.tap import Ends, Names, Tap
from tests.harness.telegram_twin import BOT_TOKEN, USERNAME
from tests.harness.telegram_twin import SECRET as TELEGRAM_SECRET
from tests.harness.webhook_twin import REPLY_SECRET, SECRET
from tests.sweep.book import Book
from tests.sweep.kinds import PART_CHARACTERS, SERVER
from tests.sweep.stands import Keyed, Keyless, Model, Searched, Tools
from tests.sweep.trap import Wires

SHORT: Final = {
    "mailbox": {"lease_s": 2.5, "poll_s": 0.3, "send_timeout_s": 1.0},
    "gateway": {"shutdown_s": 5},
    "worker": {"grace_s": 5},
    "model": {
        "max_retries": 2,
        "retry_for_s": 2,
        "first_byte_timeout_s": 2,
        "idle_timeout_s": 2,
        "breaker_open_s": 0.5,
    },
}
"""A profile of short waits: a dead worker is missed after 2.5 s instead of 6. With less, a busy machine takes leases away."""
SHIPPED: Final[Mapping[str, Any]] = {}
"""Waits as they are shipped."""
PROFILE: Final[Mapping[str, Any]] = {
    "context": {"keep_messages": 1},
    "tools": ["load_skill", "current_time", f"{SERVER}__look", f"{SERVER}__pay", f"{SERVER}__sign"],
    "approvals": {"ask": [f"{SERVER}__sign"], "tainted": "allow"},
    "instructions": "You are a test.",
}
BEGINS_WITHIN_S: Final = 120.0
NAMED: Final = {"read": {"look"}, "once": {"pay", "sign"}}


@dataclass(slots=True)
class Stands:
    """Who plays the rest of the world, for all lanes."""

    book: Book
    redis_url: str
    model: Model
    keyed: Keyed
    keyless: Keyless
    tools: Tools
    searched: Searched

    def called(self, room: str) -> str:
        """The driver's name of the conversation in a room of whichever platform."""
        return self.searched.conversations.get(room) or self.keyless.called(room)


@dataclass(slots=True)
class Running:
    """One process of deskmate, and its wires."""

    name: str
    born: Born
    tap: Tap
    port: int = 0
    """A gateway's own; `hook` leads there through the tap."""
    hook: str = ""


@dataclass
class Lane:
    """`waits`: settings beyond the usual, `SHORT` or `SHIPPED`."""

    number: int
    folder: Path
    stands: Stands
    waits: Mapping[str, Any]
    faults: list[Fault] = field(default_factory=list)
    running: list[Running] = field(default_factory=list)

    async def __aenter__(self) -> Self:
        self.folder.mkdir(parents=True)
        self.prefix = f"k{self.number}"
        self.wires = Wires(self.stands.book.pages["wire"], self.stands.called)
        self._numbers = itertools.count(1)
        self._stack = AsyncExitStack()
        async with AsyncExitStack() as opening:
            opening.push_async_exit(self._stack)
            await self._open()
            opening.pop_all()
        return self

    async def _open(self) -> None:
        self.http = await self._stack.enter_async_context(aiohttp.ClientSession())
        self.redis = await self._stack.enter_async_context(Redis.from_url(self.stands.redis_url))
        here = str(Path(__file__).parents[2])
        environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": here}
        self._nursery = await self._stack.enter_async_context(Nursery(environment))
        self._environment = {
            **environment, "RQ_KEY_PREFIX": f"{self.prefix}:rq", "MODEL_KEY": KEY, "HOOK_SECRET": SECRET,
            "HOOK_REPLY_SECRET": REPLY_SECRET, "TELEGRAM_TOKEN": BOT_TOKEN, "TELEGRAM_SECRET": TELEGRAM_SECRET,
            "SLACK_TOKEN": SLACK_TOKEN, "SLACK_SECRET": SIGNING_SECRET,
        }  # fmt: skip
        (self.folder / "profiles").mkdir()
        (self.folder / "profiles" / "default.yaml").write_text(yaml.safe_dump(PROFILE))
        (self.folder / "profiles" / "skipping.yaml").write_text(yaml.safe_dump({**PROFILE, "unclear_send": "skip"}))
        self._names = Names({script.sha: script.name for script in scripts()}, (f"{self.prefix}:",))
        await self._approve_tools()

    async def __aexit__(self, *_: object) -> None:
        for one in list(self.running):
            await self.end(one)
        await self._stack.aclose()

    # ---- processes ----

    async def start(self, role: str) -> Running:
        """A gateway or a worker, behind wires of its own; it may not be ready yet."""
        name = f"{role}-{self.number}.{next(self._numbers)}"
        links = {
            "model": self.stands.model.url,
            "platform": f"{self.stands.keyed.url}/{name}",
            "telegram": self.stands.keyless.url,
            "tools": self.stands.tools.url,
            "slack": self.stands.searched.url,
        }
        tap = await Tap(name, self.wires, self.stands.redis_url, links, self._names).__aenter__()
        config = self._configure(name, tap.urls)
        command = ["--config", str(config), role]
        running = Running(name, born=None, tap=tap)  # type: ignore[arg-type]  # it is born below
        if role == "gateway":
            running.port = free_port()
            running.hook = await tap.open("webhook", f"http://127.0.0.1:{running.port}")
            command += ["--port", str(running.port), "--shared"]
        environment = {**self._environment, "REDIS_URL": tap.redis_url}
        running.born = await self._nursery.start(name, command, self.folder / f"{name}.log", environment, self.folder)
        self.running.append(running)
        self.fault(name, "started")
        return running

    async def ready(self, running: Running) -> Running:
        """It serves, or asks for work. One that could not begin is followed by another, as by whoever looks after it."""
        while not await self._begins(running):
            await self.end(running)
            running = await self.start(running.name.split("-")[0])
        return running

    async def _begins(self, running: Running) -> bool:
        async with asyncio.timeout(BEGINS_WITHIN_S):
            while running.born.runs:
                if await self._serves(running) if running.port else self.wires.looks[running.name] > 0:
                    return True
                await asyncio.sleep(0.02)
        return False

    async def _serves(self, running: Running) -> bool:
        try:
            async with self.http.get(f"http://127.0.0.1:{running.port}/readyz") as answer:
                return bool((await answer.json())["data"])
        except aiohttp.ClientError:
            return False

    async def end(self, running: Running) -> None:
        """It is needed no more."""
        running.born.kill()
        await running.born.ended.wait()
        await running.tap.__aexit__()
        self.running.remove(running)

    def children(self, running: Running) -> list[int]:
        """Processes that it started."""
        return [child.pid for child in psutil.Process(running.born.pid).children(recursive=True)]

    def of(self, role: str) -> list[Running]:
        return [one for one in self.running if one.name.startswith(role)]

    def named(self, process: str) -> Running:
        return next(one for one in self.running if one.name == process)

    def has(self, process: str) -> bool:
        return any(one.name == process for one in self.running)

    def fault(self, target: str, what: Any, detail: str = "") -> Fault:
        fault = Fault(now_s(), target, what, detail)
        self.faults.append(fault)
        self.stands.book.pages["faults"].write(fault)
        return fault

    # ---- settings ----

    def _configure(self, name: str, urls: Mapping[str, str]) -> Path:
        tools = {tool: {"effect": effect, "reach": "inside"} for effect, tools in NAMED.items() for tool in tools}
        telegram: dict[str, Any] = {
            "platform": "telegram", "api_base": urls["telegram"], "bot_token": "$TELEGRAM_TOKEN",
            "secret_token": "$TELEGRAM_SECRET", "username": USERNAME,
        }  # fmt: skip
        usual: dict[str, Any] = {
            "data": str(self.folder / "data"),
            "log": {"format": "json", "level": "info"},
            "redis": {"key_prefix": self.prefix, "url": "$REDIS_URL"},
            "rq": {"key_prefix": f"{self.prefix}:rq"},
            "model": {"provider": "anthropic", "name": "fake", "base_url": urls["model"], "api_key": "$MODEL_KEY"},
            "connections": {
                "hook": {
                    "platform": "standard_webhooks", "secret": "$HOOK_SECRET", "reply_secret": "$HOOK_REPLY_SECRET",
                    "reply_url": urls["platform"], "text_limit": PART_CHARACTERS,
                },
                "tg": telegram,
                "tgs": telegram.copy(),
                "sl": {
                    "platform": "slack", "api_base": urls["slack"], "bot_token": "$SLACK_TOKEN",
                    "signing_secret": "$SLACK_SECRET", "messages_per_s": 0,
                },
            },
            "channels": [{"match": "tgs/*", "profile": "skipping"}],
            "mcp": {
                "servers": {
                    SERVER: {"url": urls["tools"], "headers": {"X-Process": name}, "per": "worker", "tools": tools}
                }
            },
        }  # fmt: skip
        waits = dict(self.waits)
        if waits:
            for connection in usual["connections"].values():
                connection["timeout_s"] = 0.8
        for section, values in waits.items():
            usual[section] = {**usual.get(section, {}), **values}
        path = self.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(usual))
        return path

    async def _approve_tools(self) -> None:
        """As an operator does it, once."""
        links = {"model": self.stands.model.url, "platform": self.stands.keyed.url}
        links |= {"telegram": self.stands.keyless.url, "tools": self.stands.tools.url}
        links["slack"] = self.stands.searched.url
        config = self._configure("operator-0", links)
        log = self.folder / "operator-0.log"
        environment = {**self._environment, "REDIS_URL": self.stands.redis_url}
        command = ["--config", str(config), "mcp", "approve", SERVER, "--yes"]
        born = await self._nursery.start("operator-0", command, log, environment, self.folder)
        await born.ended.wait()
        assert born.code == 0, log.read_text()


def scripts() -> list[Script]:
    """All scripts that deskmate has."""
    modules = [module for name, module in list(sys.modules.items()) if name.startswith(("gateway.", "workers."))]
    found = [value for module in modules for value in vars(module).values() if isinstance(value, Script)]
    for package in ("gateway.conversation", "gateway.shelf"):
        for file in (resources.files(package) / "scripts").iterdir():
            name = file.name.removesuffix(".lua")
            if name != "prelude":
                found.append(mailbox.script(name) if package.endswith("conversation") else script_of(package, name))
                if name.startswith("note_"):
                    found.append(script_of(package, "note", name))
    return found


def whose(lanes: Sequence[Lane], ends: Ends) -> str:
    """The process behind a connection: who opened it last. Empty: nobody's."""
    found = [(one.tap.ends[ends], one.name) for lane in lanes for one in lane.running if ends in one.tap.ends]
    return max(found, default=(0.0, ""))[1]
