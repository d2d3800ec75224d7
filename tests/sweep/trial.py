"""One trial: a turn of one kind, struck at one point, and what became of it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any, Final, Literal

from gateway.conversation.deaths import ALONE_AFTER, SOLE_AFTER
from tests.harness.checking import check
from tests.harness.history import Accepted, Asked, Began, Effect, Event, Fault, Found, now_s
from tests.harness.judging.run import Rules
from tests.harness.processes import is_alive
from tests.harness.tap import Message
from tests.sweep.kinds import BESIDE, GROWN, KINDS, Kind
from tests.sweep.lane import Lane, Running
from tests.sweep.people import Person
from tests.sweep.plan import Outcome, Plan, Platform
from tests.sweep.row import Row
from tests.sweep.trap import Point, Trap

WITHIN_S: Final = 90.0
"""From the beginning to the end of a trial; what is not answered then is lost. Machines are busy, and a turn whose holders
died twice waits for the start of a process."""
TOLD_WITHIN_S: Final = 60.0
WAKES_WITHIN_S: Final = 10.0
LOOKS: Final = 4
"""So often a process that was stopped asks for work until it has surely come to what it was about to do."""
SENDING: Final[Mapping[Platform, Literal["keyed", "repeat", "skip"]]] = {
    "keyed": "keyed", "keyless": "repeat", "skipping": "skip", "searched": "keyed",
}  # fmt: skip
"""Where one can look nothing comes twice, and nothing is left out."""
DEATH_S: Final = 20.0
"""So much longer all may take for each holder that dies on the way to the row, with a process of its own that has to start."""


class Trial:
    """Runs a plan in a lane."""

    def __init__(self, lane: Lane, plan: Plan, again_s: float) -> None:
        """`again_s`: longer than a lease."""
        self._lane = lane
        self._plan = plan
        self._again_s = again_s
        self._book = lane.stands.book
        self._person = Person(lane, plan)
        self._people = [self._person]
        if plan.stage == "sole":
            self._people.append(Person(lane, replace(plan, conversation=plan.neighbour, kind=BESIDE)))
        self._first = Trap(plan.point, self._strike) if plan.point else None
        self._traps = [self._first] if self._first else []
        if self._first and plan.second:
            self._traps.append(Trap(self._first.point, self._strike, countdown=plan.second))
        self._stopped: list[Running] = []
        self._struck: list[tuple[float, str]] = []
        """When, and which process."""
        self._mending: list[asyncio.Task[None]] = []
        self._is_broken_off = False
        """Nobody takes the place of whoever is struck now."""
        self._held: Message | None = None
        """What a process that was stopped had on its way to Redis."""
        self._resumed = asyncio.Event()

    async def run(self) -> Outcome:
        """Raises nothing for what the product did: that is in the outcome."""
        lane, plan = self._lane, self._plan
        faults_before = len(lane.faults)
        lane.wires.begin([])  # no trap of the turn before
        await self._prepare()
        late = await self._play()
        points = list(dict.fromkeys(lane.wires.seen))
        left = await self._rest() if late else ""
        await self._clear(late=late)
        if late:
            self._note(Found(now_s(), "redis", f"not at rest: {left or 'not all is answered'}", "", plan.conversation))
        outcome = Outcome(plan, points, struck=len(self._struck))
        outcome.missed = bool(self._first and not self._first.sprung.is_set())
        self._judge(outcome, lane.faults[faults_before:])
        outcome.takeover_s = self._takeover_s()
        if not outcome.violations:
            for person in self._people:
                self._book.forget(person.plan.conversation)
        return outcome

    def _note(self, event: Event) -> None:
        self._book.pages["faults"].write(event)

    def _judge(self, outcome: Outcome, faults: Sequence[Fault]) -> None:
        plan = self._plan
        rules = Rules(
            told_within_s=TOLD_WITHIN_S + DEATH_S * len(plan.deaths),
            notices_max=0,
            sending=SENDING[plan.platform],
            summarises=plan.kind.compacts,
        )
        conversations = [person.plan.conversation for person in self._people]
        for one in conversations:  # at the end: what stands before it in the ledgers is judged by it as well
            self._note(Began(now_s(), "trial", rules=asdict(rules), conversation=one))
        verdict = check(self._book.history(conversations, faults))
        outcome.violations = list(verdict.violations)
        outcome.remarks = verdict.counts["remarks"]

    async def _prepare(self) -> None:
        """A gateway and a worker; no worker yet where the turn runs alone: it comes to what it finds."""
        lane, plan = self._lane, self._plan
        for role, is_new in {"gateway": plan.begins, "worker": plan.begins or plan.stage}.items():
            for one in lane.of(role) if is_new else ():
                await lane.end(one)
        await lane.redis.delete(f"{lane.prefix}:{{0}}:bell")  # one that nobody answered is as one of long ago
        for role, number in {"gateway": plan.gateways, "worker": 0 if plan.stage else 1}.items():
            while len(lane.of(role)) < number:
                await lane.ready(await lane.start(role))

    async def _play(self) -> bool:
        """All of it, to the end. True: there was none in time."""
        try:
            async with asyncio.timeout(WITHIN_S + DEATH_S * len(self._plan.deaths)):
                _end_if_broken_off()
                await self._talk()
                await self._settled()
                _end_if_broken_off()
                await asyncio.gather(*self._mending)
                await self._settled()
        except TimeoutError:
            return True
        except asyncio.CancelledError:
            self._is_broken_off = True
            raise
        finally:
            for task in self._mending:
                task.cancel()
            await asyncio.gather(*self._mending, return_exceptions=True)
        return False

    # ---- what people do ----

    async def _talk(self) -> None:
        plan, person = self._plan, self._person
        if plan.kind.compacts:
            await self._talk_before()
        row = Row(plan.conversation, plan.deaths, self._die) if plan.stage == "sole" else None
        beside = [word for one in self._people[1:] for word in (one.plan.conversation, one.room)]
        self._lane.wires.begin(list(self._traps), row, beside)
        if plan.kind.compacts:
            await self._put_away()
            return
        await person.say(0, plan.kind.text(person.message(0), person.canary), plan.kind.calls)
        await self._pass_on()
        if plan.kind.asks:
            card = await _until(lambda: self._seen("card"))
            assert card.code, card.text
            await person.say(1, f"/approve {card.code}", 0)
        if plan.follows and self._first:
            sprung = self._first.sprung
            await _until(lambda: sprung.is_set() or self._seen("reply"))
            await person.say(2, KINDS["plain"].text(person.message(2), person.canary), 1)

    async def _talk_before(self) -> None:
        """Two messages and their answers, without a fault; a worker is there for it in any case."""
        for place, kind in enumerate((KINDS["plain"], KINDS["plain"] if self._plan.kind.is_command else GROWN)):
            await self._say(place, kind)
            if not self._lane.of("worker"):
                await self._lane.ready(await self._lane.start("worker"))
            await self._settled()
        if self._plan.stage:
            for worker in self._lane.of("worker"):
                await self._lane.end(worker)

    async def _put_away(self) -> None:
        if self._plan.kind.is_command:
            await self._person.say(2, "/compact", 1)
        else:
            await self._say(2, self._plan.kind)
        await self._pass_on()
        sprung = self._first.sprung if self._first else None
        await _until(lambda: (sprung and sprung.is_set()) or self._answered(self._person))
        await self._say(3, KINDS["plain"])

    async def _say(self, place: int, kind: Kind, person: Person | None = None) -> None:
        person = person or self._person
        await person.say(place, kind.text(person.message(place), person.canary), kind.calls)

    async def _pass_on(self) -> None:
        """Where the turn goes on in a later stage: to whoever finds that others have died with it."""
        lane, plan = self._lane, self._plan
        if not plan.stage:
            return
        tries = (ALONE_AFTER if plan.stage == "alone" else SOLE_AFTER) - len(plan.deaths)
        conversation = lane.wires.ids[plan.conversation]
        await lane.redis.hset(f"{lane.prefix}:{{0}}:c:{conversation}", "tries", str(tries))
        neighbours = self._people[1:]
        if not plan.speaks_after:
            for one in neighbours:
                await self._say(0, BESIDE, one)
        await lane.start("worker")
        if plan.speaks_after:
            await _until(lambda: len(self._struck) >= plan.speaks_after)
            for one in neighbours:
                await self._say(0, BESIDE, one)

    def _seen(self, what: str) -> Accepted | None:
        events = self._book.of(self._plan.conversation)
        return next((one for one in events if isinstance(one, Accepted) and one.what == what), None)

    # ---- the fault ----

    async def _strike(self, message: Message, point: Point) -> bool:
        """At the message: it is held as long as this takes. Whether it goes on then."""
        lane, how = self._lane, self._plan.how
        running = lane.named(message.process)
        trap = next(one for one in self._traps if not one.sprung.is_set())
        if message.link == "model" and point.place == "during":
            await asyncio.sleep(0.3)  # so that what is shown of it so far gets there
        children = lane.children(running) if self._plan.stage else []
        self._struck.append((now_s(), running.name))
        self._begin_to_go_on(running, children)
        trap.sprung.set()
        match how:
            case "stop":
                running.born.signal(signal.SIGSTOP)
                lane.fault(running.name, "stop", str(point))
                self._stopped.append(running)
                if message.link == "redis":  # a write comes late; what is sent elsewhere has left before the pause
                    self._held = message if point.place == "before" else None
                    await self._resumed.wait()
                return True
            case "term":
                running.born.signal(signal.SIGTERM)
                lane.fault(running.name, "exit", str(point))
                return True
            case "parent":
                running.born.kill()
                lane.fault(running.name, "kill", str(point))
                return True  # the child lives for now
            case _:
                running.born.kill_group() if how == "group" else running.born.kill()
                lane.fault(running.name, "kill", str(point))
                return False

    async def _die(self, message: Message) -> None:
        """One of those that die on the way to the row."""
        running = self._lane.named(message.process)
        children = self._lane.children(running)
        running.born.kill_group()
        self._struck.append((now_s(), running.name))
        self._lane.fault(running.name, "kill", f"death {len(self._struck)}: {message.name}")
        self._begin_to_go_on(running, children)

    def _begin_to_go_on(self, struck: Running, children: Sequence[int]) -> None:
        if not self._is_broken_off:
            self._mending.append(asyncio.create_task(self._go_on(struck, children)))

    async def _go_on(self, struck: Running, children: Sequence[int]) -> None:
        """Another process takes its place at once, as whoever looks after processes would have it."""
        lane = self._lane
        await lane.ready(await lane.start(struck.name.split("-")[0]))
        match self._plan.how:
            case "term":
                await struck.born.ended.wait()
                lane.fault(struck.name, "ended", str(struck.born.code))
            case "stop":
                await asyncio.sleep(self._again_s)  # nothing tells that it is long enough
                asked = lane.wires.looks[struck.name]
                self._resumed.set()
                if held := self._held:  # it gets there before its process wakes, and leaves the line that it came by
                    with suppress(TimeoutError):
                        async with asyncio.timeout(WAKES_WITHIN_S):
                            await _until(lambda: held.answer)
                struck.born.signal(signal.SIGCONT)
                lane.fault(struck.name, "continue")
                if struck.name.startswith("worker"):
                    with suppress(TimeoutError):
                        async with asyncio.timeout(WAKES_WITHIN_S):
                            await _until(lambda: lane.wires.looks[struck.name] >= asked + LOOKS)
            case "parent" | "sole":
                await _until(lambda: not any(map(is_alive, children)))

    # ---- the end ----

    async def _settled(self) -> None:
        """All is answered, and the conversations at rest."""
        await _until(lambda: all(map(self._answered, self._people)))
        while await self._rest():
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.02)  # what a settling process hears of it is struck before

    def _answered(self, person: Person) -> bool:
        wanted = dict.fromkeys(person.posted, 1)
        seen: dict[str, set[int]] = {}
        for one in self._book.of(person.plan.conversation):
            if not isinstance(one, Accepted):
                continue
            if self._plan.platform == "skipping" and one.what == "remark":
                return True  # something will never come; what does is seen when nothing is left to do
            if one.what in {"reply", "notice"}:
                for message in one.answers or tuple(wanted):
                    seen.setdefault(message, set()).add(one.part)
                    wanted[message] = one.parts
        return all(len(seen.get(message, ())) >= parts for message, parts in wanted.items())

    async def _rest(self) -> str:
        """What is still open in Redis; nothing when all is at rest."""
        spoke = [person.plan.conversation for person in self._people if person.posted]
        return ", ".join([left for one in spoke if (left := await self._open(one))])

    async def _open(self, name: str) -> str:
        lane = self._lane
        conversation = lane.wires.ids.get(name)
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

    async def _clear(self, *, late: bool) -> None:
        """One worker and the gateways stay, the youngest that live; none after a trial that did not end."""
        lane = self._lane
        for one in self._stopped:
            one.born.signal(signal.SIGCONT)
        for role, number in {"gateway": self._plan.gateways, "worker": 1}.items():
            living = [one for one in lane.of(role) if one.born.runs]
            stay = [] if late else living[-number:]
            for one in lane.of(role):
                if one not in stay:
                    await lane.end(one)

    def _takeover_s(self) -> float | None:
        """Of one that was killed, where the next one had something left to do."""
        point = self._plan.point
        if len(self._struck) != 1 or self._plan.how not in {"kill", "group"} or not point or point.role != "worker":
            return None
        [(at_s, process)] = self._struck
        seen = (one for one in self._book.of(self._plan.conversation) if isinstance(one, (Accepted, Asked, Effect)))
        after = [one.at_s for one in seen if one.at_s > at_s and one.process != process]
        return min(after) - at_s if after else None


async def _until(found: Callable[[], Any]) -> Any:
    while not (it := found()):
        _end_if_broken_off()
        await asyncio.sleep(0.01)
    return it


def _end_if_broken_off() -> None:
    """A client of Redis or HTTP may have taken the word that all is over for an end of its own."""
    task = asyncio.current_task()
    if task and task.cancelling():
        raise asyncio.CancelledError
