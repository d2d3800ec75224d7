"""A town: one deskmate of several gateways and workers, each behind wires of its own, kept up as a supervisor would."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self
from urllib.parse import urlsplit

import yaml
from redis.asyncio import Redis

from tests.chaos.server import Server
from tests.harness.fake_model import Asked
from tests.harness.history import Accepted, Began, Ended, Event, now_s
from tests.harness.leavings import Leavings
from tests.harness.model_replies import Reply
from tests.harness.tap import Ends, Message, Place
from tests.harness.webhook_twin import Taken
from tests.sweep import kinds
from tests.sweep.book import Book
from tests.sweep.lane import Lane, Running, Stands, scripts, whose
from tests.sweep.stands import Keyed, Keyless, Model, Searched, Tools
from tests.sweep.trap import Wires


class Tally(Book):
    """The ledgers, and how far each message is: what is written is not kept in memory."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.answered: dict[str, float] = {}
        """When the last part of each answer came."""
        self.came = asyncio.Event()
        """Set with each answer; whoever waits for one clears it."""
        self._parts: dict[str, set[int]] = {}

    def note(self, event: Event) -> None:
        if not isinstance(event, Accepted) or event.what not in {"reply", "notice"}:
            return
        for message in event.answers:
            parts = self._parts.setdefault(message, set())
            parts.add(event.part)
            if len(parts) >= event.parts and message not in self.answered:
                self.answered[message] = event.at_s
                del self._parts[message]
                self.came.set()


class Watching(Wires):
    """Writes down who holds what, and strikes nothing: many turns run at once."""

    async def __call__(self, message: Message, place: Place) -> bool:
        if message.link == "redis":
            self._note(message, place)
        return True

    def _learn(self, words: tuple[bytes, ...]) -> None:
        """A conversation is called by its thread, if it is one."""
        _, channel, thread, user = json.loads(words[7])
        name = thread or channel or user
        self.names[words[5].decode()] = name
        self.ids[name] = words[5].decode()


class Scene(Protocol):
    """What people and the nemesis need of a town, whatever runs there. Processes are named by roles."""

    book: Tally

    def alive(self, role: str) -> Sequence[Any]: ...

    def serving(self) -> Sequence[tuple[str, str]]: ...

    def kill(self, one: Any) -> None: ...

    async def pause(self, one: Any, for_s: float) -> None: ...

    async def kill_redis(self, away_s: float) -> None: ...

    async def at_rest(self) -> bool: ...


class Street(Lane):
    """Many turns at once: only what passes to and from Redis goes through wires, the rest directly."""

    def share(self, other: Lane) -> None:
        """The same deskmate as there, on another machine: the same keys, files of its own."""
        self.prefix = other.prefix
        self._environment["RQ_KEY_PREFIX"] = f"{self.prefix}:rq"

    def _configure(self, name: str, urls: Mapping[str, str]) -> Path:
        stands = self.stands
        direct = {"model": f"{stands.model.url}/{name}", "telegram": stands.keyless.url, "tools": stands.tools.url}
        direct["slack"] = stands.searched.url
        file = super()._configure(name, {**urls, **direct, "platform": f"{stands.keyed.url}/{name}"})
        settings = yaml.safe_load(file.read_text())
        for connection in settings["connections"].values():  # as shipped, or a little less than a send may take
            connection.pop("timeout_s", None)
            if "send_timeout_s" in settings.get("mailbox", {}):
                connection["timeout_s"] = settings["mailbox"]["send_timeout_s"] * 0.8
        file.write_text(yaml.safe_dump(settings))
        return file


class Town:
    """Starts `gateways` and `workers`, and others in place of those that die, until it is closed. Where no others can be
    started, the run is over.
    """

    def __init__(self, lanes: Sequence[Lane], server: Server, book: Tally, gateways: int, workers: int) -> None:
        self.lanes = lanes
        self.server = server
        self.book = book
        self.wanted = {"gateway": gateways, "worker": workers}
        self._tasks = asyncio.TaskGroup()

    async def __aenter__(self) -> Self:
        for lane in self.lanes:
            started = [await lane.start(role) for role, number in self.wanted.items() for _ in range(number)]
            await asyncio.gather(*(lane.ready(one) for one in started))
        await self._tasks.__aenter__()
        self._keeping = self._tasks.create_task(self._keep())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._keeping.cancel()
        await self._tasks.__aexit__(kind, error, trace)

    def alive(self, role: str) -> list[Running]:
        return [one for lane in self.lanes for one in lane.of(role) if one.born.runs]

    def serving(self) -> list[tuple[str, str]]:
        """Gateways that run: name and address."""
        return [(one.name, f"http://127.0.0.1:{one.port}/webhooks/hook") for one in self.alive("gateway")]

    def ports(self) -> dict[int | None, str]:
        """Who answers there, of those that are spoken to directly."""
        stands = self.lanes[0].stands
        urls = {"model": stands.model.url, "platform": stands.keyed.url, "telegram": stands.keyless.url}
        return {urlsplit(url).port: name for name, url in {**urls, "tools": stands.tools.url}.items()}

    async def ready(self) -> None:
        """As many as are wanted run, and are ready."""
        for lane in self.lanes:
            for role, number in self.wanted.items():
                while len([one for one in lane.of(role) if one.born.runs]) < number:
                    await asyncio.sleep(0.1)
                await asyncio.gather(*(lane.ready(one) for one in lane.of(role)))

    async def _keep(self) -> None:
        """Whoever died has a successor at once, as under systemd."""
        while True:
            for lane in self.lanes:
                for one in [one for one in lane.running if not one.born.runs]:
                    await lane.end(one)
                for role, number in self.wanted.items():
                    for _ in range(number - len(lane.of(role))):
                        await lane.start(role)
            await asyncio.sleep(0.1)

    # ---- the nemesis' hands ----

    def fault(self, target: str, what: Any, detail: str = "") -> None:
        self.lanes[0].fault(target, what, detail)

    def kill(self, one: Running) -> None:
        self.fault(one.name, "kill")
        one.born.kill()

    async def pause(self, one: Running, for_s: float) -> None:
        """Stopped, and going on again later if it still lives."""
        one.born.signal(signal.SIGSTOP)
        self.fault(one.name, "stop")
        try:
            await asyncio.sleep(for_s)
        finally:
            if one.born.runs:
                one.born.signal(signal.SIGCONT)
                self.fault(one.name, "continue")

    async def kill_redis(self, away_s: float) -> None:
        """It is away for so long, and until it has read its files."""
        self.fault("redis", "away", "kill -9")
        await self.server.kill()
        await asyncio.sleep(away_s)
        await self.server.start()
        self.fault("redis", "back")

    # ---- the end ----

    async def at_rest(self) -> bool:
        """Nobody holds anything, and nothing waits."""
        async with Redis.from_url(self.server.url) as redis:
            return not await redis.exists(f"{self.lanes[0].prefix}:{{0}}:due", f"{self.lanes[0].prefix}:{{0}}:channels")

    async def look_around(self) -> None:
        """What is left that should be gone, and where the words of conversations lie."""
        logs = [file for lane in self.lanes for file in lane.folder.glob("*.log")]
        folders = [lane.folder / "data" for lane in self.lanes]
        leavings = Leavings(self.lanes[0].wires.names, kinds.CANARY, kinds.owner_of, logs, folders)
        async for one in leavings.all(self.server.url):
            self.book.pages["faults"].write(one)


def thinking(for_s: float) -> Callable[[Asked], Reply]:
    """The scripted model, which takes its time before each answer."""
    return lambda asked: replace(kinds.answer(asked), before_s=for_s)


class Platform(Keyed):
    """Several requests at once: each knows its own beginning and sender."""

    _of_request: ContextVar[tuple[float, str]] = ContextVar("of_request")

    @property
    def _now(self) -> tuple[float, str]:
        return self._of_request.get()

    @_now.setter
    def _now(self, value: tuple[float, str]) -> None:
        self._of_request.set(value)

    def _keep(self, taken: Taken) -> None:
        data = taken.data
        super()._keep(replace(taken, data={**data, "conversation": data["thread"] or data["conversation"]}))
        self.taken.clear()  # the ledger has them


@dataclass(frozen=True, slots=True)
class Plan:
    """What a town is like."""

    name: str
    seed: int
    gateways: int = 2
    workers: int = 3
    waits: Mapping[str, Any] = field(default_factory=dict)
    """Settings that differ from those shipped."""
    rules: Mapping[str, Any] = field(default_factory=dict)
    """Of `tests.harness.checking.Rules`."""
    think_s: float = 0.3
    """How long the model takes before each answer."""
    machines: int = 1
    """Sets of processes, each with a data folder of its own, that share one Redis. Each has so many gateways and workers."""


@asynccontextmanager
async def town(folder: Path, plan: Plan) -> AsyncIterator[Town]:
    """It runs. Ledgers lie in `folder/ledgers`, logs in `folder/deskmate-1`."""
    lanes: list[Lane] = []

    def process(ends: Ends) -> str:
        return whose(lanes, ends)

    async with AsyncExitStack() as stack:
        book = Tally(folder / "ledgers")
        stack.enter_context(book)
        book.pages["faults"].write(Began(now_s(), plan.name, plan.seed, dict(plan.rules)))
        server = await stack.enter_async_context(Server(folder / "redis"))
        async with Redis.from_url(server.url) as redis:
            for script in scripts():
                await redis.script_load(script.text)
        model = await stack.enter_async_context(Model(book.pages["model"], process))
        model.answer_with(thinking(plan.think_s))
        stands = Stands(
            book,
            server.url,
            model,
            await stack.enter_async_context(Platform(book.pages["platform"])),
            await stack.enter_async_context(Keyless(book.pages["platform"], process)),
            await stack.enter_async_context(Tools(folder, book.pages["tools"])),
            await stack.enter_async_context(Searched(book.pages["platform"], process)),
        )
        wires = Watching(book.pages["wire"], stands.keyless.called)
        for number in range(1, plan.machines + 1):
            lane = await stack.enter_async_context(Street(number, folder / f"deskmate-{number}", stands, plan.waits))
            lane.wires = wires
            lane.share(lanes[0] if lanes else lane)
            lanes.append(lane)
        made = await stack.enter_async_context(Town(lanes, server, book, plan.gateways, plan.workers))
        yield made
        with contextlib.suppress(OSError):
            await made.look_around()
        book.pages["faults"].write(Ended(now_s()))
