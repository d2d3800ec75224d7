"""One trial: a turn of one kind, struck at one point, and what became of it."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import aiohttp

from tests.harness.checking import Rules, Violation, check
from tests.harness.history import Accepted, Asked, Effect, Posted, now_s
from tests.harness.tap import Message
from tests.harness.telegram_twin import HEADERS, USERNAME
from tests.harness.webhook_twin import sign
from tests.sweep.kinds import KINDS, Kind
from tests.sweep.lane import Lane, Running
from tests.sweep.trap import Point, Trap

How = Literal["kill", "group", "stop", "term"]
WITHIN_S: Final = 40.0
"""From the beginning to the end of a trial; what is not answered then is lost."""
ANSWER_S: Final = 15.0
RETRY_S: Final = 0.1
CODE: Final = re.compile(r"\b([A-Z2-7]{6})\b")


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done. Without a point nothing is struck: a turn without fault."""

    conversation: str
    kind: Kind
    platform: Literal["keyed", "keyless"] = "keyed"
    point: Point | None = None
    how: How = "kill"
    follows: bool = False
    """Another message comes right behind the fault."""


@dataclass(slots=True)
class Outcome:
    """How it ended."""

    plan: Plan
    points: list[Point]
    """All that the turn came by."""
    struck: bool = False
    violations: list[Violation] = field(default_factory=list)
    takeover_s: float | None = None
    """From a worker's death to the first effect of the next one."""
    seconds: float = 0.0
    remarks: int = 0


class Trial:
    """Runs a plan in a lane."""

    def __init__(self, lane: Lane, plan: Plan, again_s: float) -> None:
        """`again_s`: longer than a lease."""
        self._lane = lane
        self._plan = plan
        self._again_s = again_s
        self._book = lane.stands.book
        self._posted: list[str] = []
        self._stopped: list[Running] = []
        self._struck_s, self._struck = 0.0, ""
        self._chat = 0
        self._wrong: list[str] = []
        self._resumed = asyncio.Event()

    async def run(self) -> Outcome:
        """Raises nothing for what the product did: that is in the outcome."""
        lane, plan = self._lane, self._plan
        begun_s, faults_before = now_s(), len(lane.faults)
        trap = Trap(plan.point, self._strike) if plan.point else None
        for role in ("gateway", "worker"):
            if not lane.of(role):
                await lane.ready(await lane.start(role))
        lane.wires.begin(trap)
        mending = asyncio.create_task(self._go_on(trap)) if trap else None
        late = ""
        try:
            async with asyncio.timeout(WITHIN_S):
                await self._talk(trap)
                await self._settled()
                if mending and trap and trap.sprung.is_set():
                    await mending
                    await self._settled()
        except TimeoutError:
            late = "not at rest"
        finally:
            if mending:
                mending.cancel()
                await asyncio.gather(mending, return_exceptions=True)
        points = list(dict.fromkeys(lane.wires.seen))
        await self._clear(late)
        outcome = Outcome(plan, points, struck=trap is not None and trap.sprung.is_set())
        rules = Rules(told_within_s=30.0, sending="keyed" if plan.platform == "keyed" else "repeat")
        verdict = check(self._book.history(plan.conversation, lane.faults[faults_before:]), rules)
        outcome.violations = list(verdict.violations)
        if late:
            self._wrong.append(f"{late}: {await self._rest()}")
        outcome.violations += [Violation("I10", wrong, plan.conversation, str(plan.point)) for wrong in self._wrong]
        outcome.remarks = verdict.counts["remarks"]
        outcome.takeover_s = self._takeover_s()
        outcome.seconds = now_s() - begun_s
        if not outcome.violations:
            self._book.forget(plan.conversation)
        return outcome

    # ---- people ----

    async def _talk(self, trap: Trap | None) -> None:
        plan = self._plan
        await self._say(0, plan.kind.text(self._message(0), self._canary), plan.kind.calls)
        if plan.kind.asks:
            card = await self._until(lambda: self._first("card"))
            found = CODE.search(card.text)
            assert found, card.text
            await self._say(1, f"/approve {found[1]}", 0)
        if plan.follows and trap:
            waiting = asyncio.create_task(trap.sprung.wait())
            done = asyncio.create_task(self._until(lambda: self._first("reply")))
            await asyncio.wait([waiting, done], return_when=asyncio.FIRST_COMPLETED)
            for task in (waiting, done):
                task.cancel()
            place = 2
            await self._say(place, KINDS["plain"].text(self._message(place), self._canary), 1)

    def _message(self, place: int) -> str:
        return f"{self._plan.conversation}.{place}"

    @property
    def _canary(self) -> str:
        return f"QX{self._plan.conversation}Z"

    async def _say(self, place: int, text: str, calls: int) -> None:
        """Until it is taken: what was not answered 2xx is delivered again, with the same id."""
        message = self._message(place)
        is_word = text.startswith("/")
        if not is_word:
            self._posted.append(message)
        while True:
            gateway = self._lane.of("gateway")
            if not gateway:
                await asyncio.sleep(RETRY_S)
                continue
            begin_s = now_s()
            status = await self._deliver(gateway[-1], message, text)
            if not is_word:  # a yes is answered by what it lets go on
                self._book.pages["people"].write(
                    Posted(
                        now_s(), conversation=self._plan.conversation, message=message, begin_s=begin_s, status=status,
                        place=place, delivery=f"d-{message}", process=gateway[-1].name, calls=calls,
                        canary=self._canary,
                    )
                )  # fmt: skip
            if 200 <= status < 300:
                return
            await asyncio.sleep(RETRY_S)

    async def _deliver(self, gateway: Running, message: str, text: str) -> int:
        url, raw, headers = self._event(gateway, message, text)
        try:
            async with self._lane.http.post(
                url, data=raw, headers=headers, timeout=aiohttp.ClientTimeout(total=5)
            ) as answer:
                return answer.status
        except (TimeoutError, aiohttp.ClientError):
            return 0

    def _event(self, gateway: Running, message: str, text: str) -> tuple[str, str, dict[str, str]]:
        plan = self._plan
        if plan.platform == "keyed":
            data: dict[str, Any] = {
                "conversation": plan.conversation, "thread": None, "message_id": message,
                "user": {"id": "u1", "name": "U1"}, "text": text, "attachments": [],
            }  # fmt: skip
            raw = json.dumps({"type": "message.created", "timestamp": "2026-01-01T00:00:00Z", "data": data})
            return f"{gateway.hook}/webhooks/hook", raw, sign(f"d-{message}", raw)
        twin = self._lane.stands.keyless
        if not self._chat:
            self._chat = -(1_000_000 + int(re.sub(r"\D", "", plan.conversation)))
            twin.chats[self._chat] = {"id": self._chat, "type": "supergroup", "title": plan.conversation}
            twin.conversations[self._chat] = plan.conversation
        number = -self._chat * 10 + int(message.rsplit(".", 1)[1])
        text = text.replace("/approve", f"/approve@{USERNAME}") if text.startswith("/") else f"@{USERNAME} {text}"
        kind = "bot_command" if text.startswith("/") else "mention"
        body = {
            "message_id": number, "chat": twin.chats[self._chat], "date": int(time.time()), "text": text,
            "from": {"id": 77, "is_bot": False, "first_name": "Test", "language_code": "en"},
            "entities": [{"type": kind, "offset": 0, "length": len(text.split()[0])}],
        }  # fmt: skip
        return f"{gateway.hook}/webhooks/tg", json.dumps({"update_id": number, "message": body}), HEADERS

    # ---- the fault ----

    async def _strike(self, message: Message) -> bool:
        """At the message: it is held as long as this takes. Whether it goes on then."""
        lane, how = self._lane, self._plan.how
        running = lane.named(message.process)
        if message.link == "model" and self._plan.point and self._plan.point.place == "during":
            await asyncio.sleep(0.3)  # so that what is shown of it so far gets there
        self._struck_s, self._struck = now_s(), running.name
        detail = str(self._plan.point)
        match how:
            case "kill" | "group":
                running.born.kill() if how == "kill" else running.born.kill_group()
                lane.fault(running.name, "kill", detail)
                return False
            case "stop":
                running.born.signal(signal.SIGSTOP)
                lane.fault(running.name, "stop", detail)
                self._stopped.append(running)
                if message.link == "redis":  # a write comes late; what is sent elsewhere has left before the pause
                    await self._resumed.wait()
                return True
            case "term":
                running.born.signal(signal.SIGTERM)
                lane.fault(running.name, "exit", detail)
                return True

    async def _go_on(self, trap: Trap) -> None:
        """Another process takes its place at once, as whoever looks after processes would have it."""
        await trap.sprung.wait()
        lane = self._lane
        struck = next(one for one in lane.running if one.name.startswith(trap.point.role))
        successor = await lane.start(trap.point.role)
        await lane.ready(successor)
        if self._plan.how == "term":
            await struck.born.ended.wait()
            if struck.born.code:
                self._wrong.append(f"{struck.name} ended with {struck.born.code}")
        if self._plan.how == "stop":
            await asyncio.sleep(self._again_s)  # nothing tells that it is long enough
            struck.born.signal(signal.SIGCONT)
            lane.fault(struck.name, "continue")
            self._resumed.set()

    # ---- the end ----

    def _first(self, what: str) -> Accepted | None:
        events = self._book.of(self._plan.conversation)
        return next((one for one in events if isinstance(one, Accepted) and one.what == what), None)

    async def _until(self, found: Callable[[], Any]) -> Any:
        while not (it := found()):
            await asyncio.sleep(0.01)
        return it

    async def _settled(self) -> None:
        """All is answered, and the conversation at rest."""
        await self._until(self._answered)
        while await self._rest():
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.02)  # what a settling process hears of it is struck before

    def _answered(self) -> bool:
        open_ones = dict.fromkeys(self._posted, 1)
        seen: dict[str, set[int]] = {}
        for one in self._book.of(self._plan.conversation):
            if isinstance(one, Accepted) and one.what in {"reply", "notice"}:
                for message in one.answers or tuple(open_ones):
                    seen.setdefault(message, set()).add(one.part)
                    open_ones[message] = one.parts
        return all(len(seen.get(message, ())) >= parts for message, parts in open_ones.items())

    async def _rest(self) -> str:
        """What is still open of it in Redis; nothing when it is at rest."""
        lane = self._lane
        conversation = lane.wires.ids.get(self._plan.conversation)
        if not conversation:
            return "never accepted"
        root = f"{lane.prefix}:{{0}}"
        async with lane.redis.pipeline(transaction=False) as asked:
            asked.hmget(f"{root}:c:{conversation}", "token", "turn", "idle")
            asked.zscore(f"{root}:due", conversation)
            asked.exists(*(f"{root}:c:{conversation}:{what}" for what in ("inbox", "control", "outbox", "states")))
            (token, turn, idle), due, left = await asked.execute()
        is_open = {"token": token, "turn": turn, "due": due, "keys": left, "no idle": not idle}
        return ", ".join(name for name, there in is_open.items() if there)

    async def _clear(self, late: str) -> None:
        """One worker and one gateway stay, the youngest; none after a trial that did not end."""
        lane = self._lane
        for one in self._stopped:
            one.born.signal(signal.SIGCONT)
        for role in ("gateway", "worker"):
            there = lane.of(role)
            for one in there if late else there[:-1]:
                await lane.end(one)
            if there and not late and not there[-1].born.runs:
                await lane.end(there[-1])

    def _takeover_s(self) -> float | None:
        point = self._plan.point
        if not self._struck_s or point is None or point.role != "worker":
            return None
        events = self._book.of(self._plan.conversation)
        after = [
            one.at_s for one in events
            if isinstance(one, (Accepted, Asked, Effect)) and one.at_s > self._struck_s and one.process != self._struck
        ]  # fmt: skip
        return min(after) - self._struck_s if after else None
