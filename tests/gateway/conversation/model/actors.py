"""Gateways, workers and platforms around the mailbox, and what may befall them, as one value: a `World`.

A step is one thing that somebody does and others can see: a script, a request to the platform, a bell. What a process works
out for itself belongs to the step before it. What a worker does next follows `workers/desk.py`, `workers/course.py`
and `workers/sending/delivery.py`, for turns of one question and one answer of one part.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from gateway.conversation.deaths import SOLE_AFTER
from tests.gateway.conversation.model.states import EPOCH_S, Ask, Frozen, Items, Key, P, States

NOW_MS: Final = EPOCH_S * 1000
LEASE_MS: Final = 60_000
FAR: Final = "100000000"
SETTINGS: Final = json.dumps(
    {
        "epoch": "E",
        "cap": 0,
        "bell_ms": int(FAR),
        "lease_ms": LEASE_MS,
        "inbox_max": 100,
        "waiting_max": 100,
        "dedupe_ms": int(FAR),
        "retention_ms": int(FAR),
        "sole_after": SOLE_AFTER,
    }
)
USED: Final = json.dumps({"offered": "", "count": ["t"]})
"""What a turn that ends has used: it counts as one."""
BELLS_MAX: Final = 2
"""More in the queue change nothing."""
IDS: Final = 3
"""Of writes of one revision, before they begin again: more copies than can be under way."""
DIGITS: Final = 12
NAME: Final = "w"
"""Of all workers, unless a play wants names: they are told apart by their fences alone, and worlds where they have changed
places are one.
"""

Fault = Literal["crash", "gateway", "lost", "late", "pause", "again", "bells", "tail", "idle"]
How = Literal["key", "look", "repeat", "skip"]
"""What the platform can do about a message whose fate nobody knows, or the profile says."""


class Message(NamedTuple):
    """Something that a person says."""

    name: str
    c: str = "a"
    control: bool = False
    delay_ms: int = 0


class Gateway(NamedTuple):
    """What it has in hand. `pc`: accept, ack, ring."""

    pc: str = ""
    m: int = -1
    ring: bool = False


class Worker(NamedTuple):
    """One with one place, and what it remembers of the conversation that it holds."""

    pc: str = "idle"
    c: str = ""
    token: str = ""
    rev: int = 0
    writes: int = 0
    """Asked since the revision changed: with it, the id of a write."""
    turn: tuple[str, Items] | None = None
    """Its id, and the messages that it answers."""
    asked: str = ""
    """What became of the question in the turn: asked, or over (its time)."""
    rows: tuple[tuple[str, str], ...] = ()
    inbox: Items = ()
    control: Items = ()
    seq: int = 0
    ring: bool = False
    paused: bool = False
    late: bool = False
    """Its own clock says that the lease is over."""
    is_sole: bool = False
    """It was told that this one begins with nothing beside it."""
    name: str = NAME
    misses: bool = False
    """An answer that may have held a grant did not come: it says what it holds."""


class World(NamedTuple):
    """Everything. `r`, `before`: Redis now, and before the last script that changed it."""

    r: int
    gateways: tuple[Gateway, ...]
    workers: tuple[Worker, ...]
    acked: frozenset[int] = frozenset()
    sent: Items = ()
    """Keys of rows that the platform has, in order."""
    late: tuple[Ask, ...] = ()
    """Requests that nobody waits for any more and that may still arrive."""
    bells: int = 0
    faults: int = 0
    before: int = -1
    excused: frozenset[int] = frozenset()
    """Messages that Redis itself has lost."""
    over: bool = False
    """The time to answer what was asked has ended."""
    begun: frozenset[str] = frozenset()
    """Tokens of those that have begun with nothing beside them."""
    doubles: int = 0
    """How many messages people may get twice: their sender stopped between the send and its mark, where the platform has
    no keys and can't be asked.
    """


@dataclass(frozen=True)
class Play:
    """What is searched: who says what, and what may happen."""

    messages: tuple[Message, ...] = (Message("m1"), Message("m2"))
    faults: int = 0
    kinds: frozenset[Fault] = frozenset()
    how: How = "key"
    polls: bool = True
    bell_ends: bool = True
    """The bell's flag may end at any time."""
    asks: bool = False
    """Turns ask a person first, and park until control answers or the time is over."""
    steers: bool = False
    """Newcomers join a running turn at its border."""
    takes: Literal["one", "all"] = "one"
    bury_after: int = 6
    tries: int = 0
    """So many holders died with each conversation before."""
    tells: bool = False
    """Workers have names, and say what they hold after an answer was lost."""
    accepted: bool = False
    """All has been said before."""
    workers: int = 2
    gateways: int = 2
    # what is taken out of the processes
    looks_at_clock: bool = True
    sends_leftovers: bool = True
    acks_first: bool = False
    dedupes_apart: bool = False
    looks_apart: bool = False
    clears_flag_after: bool = False
    asks_to_be_sole: bool = True


class Seen(NamedTuple):
    """What is stored of a conversation, as `Mailbox.load` reads it."""

    seq: int
    tries: int
    turn: tuple[str, Items] | None
    asked: str
    rows: tuple[tuple[str, str], ...]
    inbox: Items
    control: Items
    token: str


class Broken(Exception):
    """Something that must always hold does not."""


def pairs(key: Key | None) -> dict[str, str]:
    return dict(zip(key[3][::2], key[3][1::2], strict=True)) if key else {}


@dataclass
class Stage:
    """One play on its states: what can happen in a world, and what must hold in each."""

    play: Play
    states: States
    _seen: dict[tuple[int, str], Seen] = field(default_factory=dict)
    _fit: dict[int, str] = field(default_factory=dict)
    _keys: dict[int, dict[str, Key]] = field(default_factory=dict)
    _written: dict[int, list[list[str]]] = field(default_factory=dict)
    _held: dict[tuple[int, int], bool] = field(default_factory=dict)
    _due: dict[int, list[str]] = field(default_factory=dict)

    def first(self) -> World:
        p = self.play
        died = tuple((f"{P}c:{c}", "hash", False, ("tries", str(p.tries))) for c in self._conversations() if p.tries)
        nothing: Frozen = (0, died)
        _, r = self.states.do(self.states.number(nothing), ("open", (SETTINGS, "E", "1", "1")))
        if p.accepted:
            for m in range(len(p.messages)):
                ask = self.ask_of_gateway(Gateway("accept", m))
                assert ask
                _, r = self.states.do(r, ask)
        return World(
            r,
            (Gateway(),) * p.gateways,
            tuple(Worker(name=f"w{number}" if p.tells else NAME) for number in range(p.workers)),
            acked=frozenset(range(len(p.messages)) if p.accepted else ()),
            faults=p.faults,
            before=r if "tail" in p.kinds else -1,
        )

    # ---- reading ----

    def keys(self, r: int) -> dict[str, Key]:
        found = self._keys.get(r)
        if found is None:
            found = self._keys[r] = {key[0]: key for key in self.states[r][1]}
        return found

    def _conversations(self) -> list[str]:
        return sorted({message.c for message in self.play.messages})

    def written(self, r: int) -> list[list[str]]:
        """Rows of each conversation, in the order in which their answers were written."""
        found = self._written.get(r)
        if found is None:
            found = self._written[r] = [
                [_row(record["turn"]) for record in self._records(r, c) if record["type"] == "reply"]
                for c in self._conversations()
            ]
        return found

    def _records(self, r: int, c: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in _items(self.keys(r).get(f"{P}c:{c}:history"))]

    def seen(self, r: int, c: str) -> Seen:
        found = self._seen.get((r, c))
        if found is None:
            found = self._seen[r, c] = self._read(r, c)
        return found

    def _read(self, r: int, c: str) -> Seen:
        keys = self.keys(r)
        h = pairs(keys.get(f"{P}c:{c}"))
        records = self._records(r, c)
        turn, asked = None, ""
        if "turn" in h:
            name = json.loads(h["turn"])["id"]
            turn = (name, tuple(one["event"] for one in records if one.get("turn") == name and one["type"] == "event"))
            for one in records:
                if one.get("turn") == name and one["type"] in {"asked", "decided"}:
                    asked = one["type"]
        states = pairs(keys.get(f"{P}c:{c}:states"))
        rows = tuple(
            (name, states[name].split(" ")[0]) for name in _by_order(keys.get(f"{P}c:{c}:outbox")) if name in states
        )
        inbox = _items(keys.get(f"{P}c:{c}:inbox"))[::2]
        control = _items(keys.get(f"{P}c:{c}:control"))
        return Seen(int(h.get("seq", 0)), int(h.get("tries", 0)), turn, asked, rows, inbox, control, h.get("token", ""))

    # ---- what scripts are asked ----

    def ask_of_gateway(self, gateway: Gateway) -> Ask | None:
        if gateway.pc not in {"accept", "rest"}:
            return None
        m = self.play.messages[gateway.m]
        name = {"accept": "dedupe" if self.play.dedupes_apart else "accept", "rest": "rest"}[gateway.pc]
        kind = "control" if m.control else "inbox"
        return name, (
            SETTINGS,
            m.c,
            "room",
            "{}",
            str(NOW_MS),
            json.dumps(m.name),
            kind,
            str(m.delay_ms),
            f"d-{m.name}",
        )

    def ask_of_worker(self, w: Worker) -> Ask | None:
        """The script that it asks for next."""
        named = (SETTINGS, w.c, w.token, str(w.rev), f"{w.token}:{w.rev}.{w.writes}")
        match w.pc:
            case "claim" | "claim by bell":
                by_bell = w.pc == "claim by bell" and not self.play.clears_flag_after
                return "claim", (SETTINGS, w.name, "1", str(int(by_bell)))
            case "clear flag":
                return "clear", (SETTINGS,)
            case "take":
                return "take", (*named, *_taking(w, self.play))
            case "ask":
                record = _record("asked", turn=_turn(w)[0])
                return "append", (*named, "", "0", "", "1", "0", record, "")
            case "append":
                turn, events = _turn(w)
                key = _row(turn)
                records = [_record("reply", turn=turn, answers=events)]
                if w.asked:
                    records.insert(0, _record("decided", turn=turn))
                rows = (key, json.dumps({"order": 0}), "pending 0 null")
                return "append", (*named, "-", "1", "", str(len(records)), "1", *records, *rows, USED)
            case "mark sending" | "mark sent":
                return "mark", (*named, w.rows[0][0], f"{w.pc.removeprefix('mark ')} 0 null", "")
            case "settle" | "release":
                return w.pc, (*named, w.name, "1", FAR)
            case "park" | "later":
                saw, places, control = (w.seq, 1, len(w.control)) if w.pc == "park" else (-1, 0, 0)
                return "park", (*named, FAR, str(saw), w.name, str(places), str(control))
            case "skip":
                key = w.rows[0][0]
                given_up = (key, json.dumps({"order": 0}), "given_up 0 null", *_notice_of(key))
                count = str(len(given_up) // 3)
                return "bury", (*named, key, "send ambiguous", "0", "1", count, _record("failed"), *given_up, "")
            case "bury":
                turn, events = _turn(w)
                records = [_record("failed"), _record("reply", turn=turn, answers=events)]
                rows = (_row(turn), json.dumps({"order": 0}), "pending 0 null")
                return "bury", (*named, turn, "died", "1", "2", "1", *records, *rows, USED)
            case "hand over" | "hand over as a try" | "sole" | "sole begins":
                name = "sole" if w.pc.startswith("sole") else "hand_over"
                return name, (SETTINGS, w.c, w.token, str(int(w.pc.endswith(("try", "begins")))))
        return None

    def unheard(self, w: Worker) -> Ask:
        """What it says that it holds."""
        return "unheard", (SETTINGS, w.name, *filter(None, (w.token,)))

    def asks(self, world: World) -> Iterator[tuple[int, Ask]]:
        """All scripts that could run now: so that they can be run together."""
        for gateway in world.gateways:
            if ask := self.ask_of_gateway(gateway):
                yield world.r, ask
        for w in world.workers:
            if w.pc == "idle" and not w.paused:
                if self.play.polls and (ask := self.ask_of_worker(w._replace(pc="claim"))):
                    yield world.r, ask
            elif ask := self.ask_of_worker(w):
                yield world.r, ask
        for w in world.workers:
            if w.misses and not w.paused:
                yield world.r, self.unheard(w)
        for late in world.late:
            if late[0] != "send":
                yield world.r, late

    # ---- what can happen ----

    def steps(self, world: World) -> Iterator[tuple[str, World, bool]]:
        """Name, the world after it, and whether it is a fault."""
        yield from self._gateways(world)
        yield from self._workers(world)
        yield from self._time(world)
        for at, ask in enumerate(world.late):
            without = world._replace(late=world.late[:at] + world.late[at + 1 :])
            if ask[0] == "send":
                yield f"late send {ask[1][0]}", self._platform_gets(without, ask[1][0]), False
            else:
                _, after = self._done(world, ask)
                yield f"late {ask[0]}", after._replace(late=without.late), False
        if world.faults:
            for name, after in self._faults(world):
                yield name, after._replace(faults=world.faults - 1), True

    def _done(self, world: World, ask: Ask) -> tuple[Any, World]:
        """What a script answers, and the world after it."""
        answer, r = self.states.do(world.r, ask)
        self._check_writer(world, ask, answer)
        after = self._changed(world, r)
        if self.play.tries or self.play.tells:
            self._check_counted(world, ask, answer, r)
            begun = world.begun | ({ask[1][2]} if ask[0] == "sole" and ask[1][3] == "1" and answer == "OK" else set())
            after = after._replace(begun=begun & {self.seen(r, c).token for c in self._conversations()})
        return answer, after

    def _changed(self, world: World, r: int) -> World:
        if r == world.r:
            return world
        return world._replace(r=r, before=world.r if world.before >= 0 else -1)

    def _gateways(self, world: World) -> Iterator[tuple[str, World, bool]]:
        at_work = {gateway.m for gateway in world.gateways if gateway.pc}
        for m in range(len(self.play.messages)):
            if m not in world.acked and m not in at_work and self._before(m) <= world.acked:
                for number in self._free_gateways(world):
                    yield f"g{number} gets {self.play.messages[m].name}", _with(world, number, self._begins(m)), False
        for number, gateway in enumerate(world.gateways):
            name = f"g{number} {gateway.pc}"
            match gateway.pc:
                case "accept" | "rest":
                    ask = self.ask_of_gateway(gateway)
                    assert ask
                    yield name, self._accepted(world, number, gateway, *self.states.do(world.r, ask)), False
                case "ack":
                    after = Gateway("ring", gateway.m, True) if gateway.ring else Gateway()
                    if self.play.acks_first:
                        after = Gateway("accept", gateway.m)
                    yield name, _with(world._replace(acked=world.acked | {gateway.m}), number, after), False
                case "ring":
                    yield name, _with(world._replace(bells=min(world.bells + 1, BELLS_MAX)), number, Gateway()), False

    def _before(self, m: int) -> set[int]:
        """A person's messages in one conversation come one after the other, as platforms send them."""
        return {one for one in range(m) if self.play.messages[one].c == self.play.messages[m].c}

    def _free_gateways(self, world: World) -> list[int]:
        """One of those that have nothing in hand: they are all the same."""
        return [number for number, gateway in enumerate(world.gateways) if not gateway.pc][:1]

    def _begins(self, m: int) -> Gateway:
        return Gateway("ack" if self.play.acks_first else "accept", m)

    def _accepted(self, world: World, number: int, gateway: Gateway, answer: Any, r: int) -> World:
        verdict, ring, *_ = answer
        after = Gateway("ack", gateway.m, bool(ring)) if verdict in {"NEW", "KNOWN"} else Gateway()
        if gateway.pc == "accept" and self.play.dedupes_apart and verdict == "NEW":
            after = Gateway("rest", gateway.m)
        if self.play.acks_first:
            after = Gateway("ring", gateway.m, True) if ring else Gateway()
        return _with(self._changed(world, r), number, after)

    def _workers(self, world: World) -> Iterator[tuple[str, World, bool]]:
        for number, w in enumerate(world.workers):
            if w.paused:
                yield f"w{number} goes on", self._put(world, number, w._replace(paused=False)), False
                continue
            if w.ring:
                rung = world._replace(bells=min(world.bells + 1, BELLS_MAX))
                yield f"w{number} rings", self._put(rung, number, w._replace(ring=False)), False
            if w.misses:
                ring, after = self._done(world, self.unheard(w))
                if (told := self._put(after, number, w._replace(ring=w.ring or bool(ring)))) != world:
                    yield f"w{number} says what it holds", told, False
            if w.pc == "idle":
                yield from self._looks_for_work(world, number, w)
            else:
                yield f"w{number} {w.pc} {w.c}", self._does(world, number, w), False

    def _looks_for_work(self, world: World, number: int, w: Worker) -> Iterator[tuple[str, World, bool]]:
        if world.bells:
            popped = world._replace(bells=world.bells - 1)
            yield f"w{number} pops a bell", self._put(popped, number, w._replace(pc="claim by bell")), False
        if self.play.polls:
            polling = w._replace(pc="claim")
            after = self._does(world, number, polling)
            if after != world:
                yield f"w{number} polls", after, False

    def _does(self, world: World, number: int, w: Worker) -> World:
        """The one thing that it does next, and what it makes of the answer."""
        ask = self.ask_of_worker(w)
        if ask is not None:
            if w.late and w.pc not in {"hand over", "hand over as a try", "claim", "claim by bell"}:
                return self._put(world, number, w._replace(pc="hand over as a try"))
            answer, after = self._done(world, ask)
            return self._hears(after, number, w, answer)
        match w.pc:
            case "load" | "look" | "look once more":
                return self._put(world, number, self._decides(world, w))
            case "send":
                if w.late and self.play.looks_at_clock:
                    return self._put(world, number, w._replace(pc="hand over as a try"))
                return self._put(self._platform_gets(world, w.rows[0][0]), number, w._replace(pc="mark sent"))
            case "find":
                pc = "mark sent" if w.rows[0][0] in world.sent else "mark sending"
                return self._put(world, number, w._replace(pc=pc))
        raise AssertionError(w.pc)

    def _hears(self, world: World, number: int, w: Worker, answer: Any) -> World:
        if w.pc in {"claim", "claim by bell"}:
            after = self._granted(w._replace(late=False), answer)
            if w.pc == "claim by bell" and self.play.clears_flag_after:
                after = after._replace(asked=after.pc, pc="clear flag")
            return self._put(world, number, after)
        if w.pc == "clear flag":
            return self._put(world, number, w._replace(pc=w.asked, asked=""))
        if w.pc.startswith("hand over"):
            return self._put(world, number, Worker(ring=w.ring or bool(answer[1])))
        verdict = answer[0] if isinstance(answer, tuple) else answer
        wrote = w._replace(writes=(w.writes + 1) % IDS)
        if w.pc.startswith("sole"):
            may = {"sole": "sole begins", "sole begins": "load"}[w.pc]
            pc = {"OK": may, "WAIT": "later", "FENCED": "hand over as a try"}[verdict]
            return self._put(world, number, w._replace(pc=pc, is_sole=pc == "load"))
        if w.pc in {"settle", "park", "later", "release"}:
            if verdict == "OK":
                return self._put(world, number, self._granted(Worker(ring=w.ring), answer))
            if verdict == "STAY":
                return self._put(world, number, wrote._replace(pc="load"))
            return self._put(world, number, wrote._replace(pc="hand over as a try"))
        if verdict in {"OK", "DONE"}:
            return self._put(world, number, self._goes_on(w._replace(rev=w.rev + 1, writes=0)))
        if w.pc.startswith("mark") and verdict in {"SENT", "NO_ROW"}:
            return self._put(
                world, number, wrote._replace(pc="mark sent") if w.pc == "mark sending" else self._next_row(wrote)
            )
        return self._put(world, number, wrote._replace(pc="hand over as a try"))

    def _granted(self, w: Worker, answer: Any) -> Worker:
        _, grants, ring, _, _ = answer
        w = Worker(ring=w.ring or bool(ring))
        if not grants:
            return w
        c, token, rev, tries, *_ = grants[0]
        is_sole = tries >= SOLE_AFTER and self.play.tries > 0
        pc = "sole" if is_sole and self.play.asks_to_be_sole else "load"
        return w._replace(pc=pc, c=c, token=token, rev=rev, is_sole=is_sole and pc == "load")

    def _goes_on(self, w: Worker) -> Worker:
        match w.pc:
            case "take":
                turn, events = _turn(w)
                taken = [*(json.loads(one) for one in w.control[:1])]
                members = [] if w.control else _chosen(w, self.play)
                taken += [json.loads(one[DIGITS + 1 :]) for one in members]
                left = tuple(one for one in w.inbox if one not in members)
                w = w._replace(turn=(turn, (*events, *taken)), inbox=left, control=w.control[1:])
                return self._begins_turn(w)
            case "ask":
                return w._replace(pc="look", asked="asked")
            case "append" | "bury":
                return w._replace(
                    pc="mark sending", rows=((_row(_turn(w)[0]), "pending"),), turn=None, asked="", inbox=(), control=()
                )
            case "mark sending":
                return w._replace(pc="send")
            case "mark sent":
                return self._next_row(w)
            case "skip":
                if not (notice := _notice_of(w.rows[0][0])):
                    return self._next_row(w)
                return w._replace(pc="mark sending", rows=((notice[0], "pending"), *w.rows[1:]))
        raise AssertionError(w.pc)

    def _begins_turn(self, w: Worker) -> Worker:
        if self.play.asks and w.asked != "asked":
            return w._replace(pc="ask")
        return w._replace(pc="look" if self.play.steers else "append")

    def _decides(self, world: World, w: Worker) -> Worker:
        """What `Desk` does after a look at what is stored."""
        seen = self.seen(world.r, w.c)
        w = w._replace(inbox=seen.inbox, control=seen.control, seq=seen.seq)
        if w.pc == "look once more":
            return w._replace(pc="load" if seen.inbox or seen.control else "release")
        if w.pc == "load":
            w = w._replace(turn=seen.turn, asked=seen.asked, rows=())
            if seen.tries >= self.play.bury_after and (seen.turn or seen.inbox or seen.control):
                return w._replace(pc="bury") if seen.turn else self._takes(w)
            if seen.turn is None:
                open_rows = tuple(row for row in seen.rows if row[1] not in {"sent", "given_up"})
                if open_rows and self.play.sends_leftovers:
                    return self._row(w._replace(rows=open_rows))
                return self._takes(w)
            if not self.play.asks:
                return w._replace(pc="look" if self.play.steers else "append")
            if seen.asked != "asked":
                return w._replace(pc="ask")
        if self.play.asks:
            if seen.control:
                return w._replace(pc="take", inbox=(), asked="asked") if w.asked == "asked" else w._replace(pc="take")
            return w._replace(pc="append" if world.over else "park")
        return w._replace(pc="take" if seen.inbox or seen.control else "append")

    def _takes(self, w: Worker) -> Worker:
        if w.control or w.inbox:
            first = w.control[0] if w.control else _chosen(w, self.play)[0][DIGITS + 1 :]
            return w._replace(pc="take", turn=(f"t-{json.loads(first)}", ()), asked="")
        return w._replace(pc="settle" if not self.play.looks_apart else "look once more")

    def _row(self, w: Worker) -> Worker:
        if w.rows[0][1] != "sending":
            return w._replace(pc="mark sending")
        return w._replace(
            pc={"key": "mark sending", "look": "find", "repeat": "mark sending", "skip": "skip"}[self.play.how]
        )

    def _next_row(self, w: Worker) -> Worker:
        left = w._replace(rows=w.rows[1:])
        return self._row(left) if left.rows else self._takes(left)

    def _platform_gets(self, world: World, key: str) -> World:
        if self.play.how == "key" and key in world.sent:
            return world
        return world._replace(sent=(*world.sent, key))

    def _put(self, world: World, number: int, w: Worker) -> World:
        workers = list(world.workers)
        if self.play.tells:
            was = workers[number]
            w = w._replace(name=was.name, misses=w.misses or was.misses)
        workers[number] = w
        return world._replace(workers=tuple(workers))

    def _dead(self, world: World, number: int) -> World:
        """Another one begins in its place."""
        workers = list(world.workers)
        workers[number] = Worker(name=f"{workers[number].name}+" if self.play.tells else NAME)
        return world._replace(workers=tuple(workers))

    def alike(self, world: World) -> World:
        """Of worlds that differ only in who is first and who second, one."""
        first, *others = world.workers
        if self.play.tells:
            return world
        if all(first[:4] < other[:4] for other in others):
            return world
        return world._replace(workers=tuple(sorted(world.workers, key=repr)))

    # ---- time, and what it does ----

    def _time(self, world: World) -> Iterator[tuple[str, World, bool]]:
        keys = self.keys(world.r)
        if (bell := keys.get(f"{P}bell")) and bell[2] and self.play.bell_ends:
            yield "the flag ends", self._changed(world, self._without(world.r, {f"{P}bell"})), False
        if (due := self._due.get(world.r)) is None:
            due = self._due[world.r] = [c for c, score in pairs(keys.get(f"{P}due")).items() if score != "0"]
        for c in due:
            token = self.seen(world.r, c).token
            holders = [number for number, w in enumerate(world.workers) if w.token == token and w.pc != "idle"]
            holders += [number for number, w in enumerate(world.workers) if w.misses and token.endswith(f"-{w.name}")]
            if not token:
                if _sole(keys):
                    continue  # it would be told to wait once more, and nothing but a revision would be another
                waits = self.play.asks and self.seen(world.r, c).asked == "asked"
                yield (
                    f"{c} has waited",
                    self._changed(world, self._lapsed(world.r, c))._replace(over=world.over or waits),
                    False,
                )
            elif all(world.workers[number].paused for number in holders):
                after = self._changed(world, self._lapsed(world.r, c))
                for number in holders:
                    if after.workers[number].token == token:
                        after = self._put(after, number, after.workers[number]._replace(late=True))
                yield f"the lease of {c} ends", after, False

    def _lapsed(self, r: int, c: str) -> int:
        clock, keys = self.states[r]
        due = pairs(self.keys(r)[f"{P}due"]) | {c: "0"}
        members = sorted(due.items(), key=lambda one: (float(one[1]), one[0]))
        new = (f"{P}due", "zset", False, tuple(text for pair in members for text in pair))
        return self.states.number((clock, tuple(new if key[0] == new[0] else key for key in keys)))

    def _without(self, r: int, names: set[str]) -> int:
        clock, keys = self.states[r]
        return self.states.number((clock, tuple(key for key in keys if key[0] not in names)))

    # ---- faults ----

    def _faults(self, world: World) -> Iterator[tuple[str, World]]:
        kinds = self.play.kinds
        for number, gateway in enumerate(world.gateways):
            if gateway.pc and "gateway" in kinds:
                yield f"g{number} dies at {gateway.pc}", _with(world, number, Gateway())
            if gateway.pc in {"accept", "rest"} and (ask := self.ask_of_gateway(gateway)):
                if "lost" in kinds:  # it answers 503, and the platform sends it again
                    yield (
                        f"g{number}: answer lost",
                        _with(self._changed(world, self.states.do(world.r, ask)[1]), number, Gateway()),
                    )
                if "late" in kinds:
                    yield f"g{number}: accept delayed", _with(_delayed(world, ask), number, Gateway())
        for number, w in enumerate(world.workers):
            yield from self._faults_of(world, number, w)
        if "again" in kinds and (free := self._free_gateways(world)):
            for m in sorted(world.acked):
                yield f"{self.play.messages[m].name} comes again", _with(world, free[0], self._begins(m))
        if "bells" in kinds and world.bells:
            yield "the bells are lost", world._replace(bells=0)
        if "tail" in kinds and world.before not in {-1, world.r}:
            yield "the tail is lost", self._tail_lost(world)
        if "idle" in kinds and (ended := {key[0] for key in self.states[world.r][1] if key[2] and _expires(key[0])}):
            yield "what is idle ends", self._changed(world, self._without(world.r, ended))

    def _faults_of(self, world: World, number: int, w: Worker) -> Iterator[tuple[str, World]]:
        kinds, name = self.play.kinds, f"w{number}"
        if w.pc == "idle":
            if w.ring and "crash" in kinds:
                yield f"{name} dies before it rings", self._dead(world, number)
            return
        if self.play.how == "repeat" and w.pc == "mark sent":
            world = world._replace(doubles=world.doubles + 1)
        if "crash" in kinds:
            yield f"{name} dies at {w.pc}", self._dead(world, number)
        if w.paused:
            return
        if "pause" in kinds:
            yield f"{name} sleeps at {w.pc}", self._put(world, number, w._replace(paused=True))
        if (ask := self.ask_of_worker(w)) and not w.late:
            yield from self._faults_of_script(world, number, w, ask)
        if w.pc == "send" and not w.late:
            yield from self._faults_of_send(world, number, w)
        if w.pc == "load" and "lost" in kinds:
            yield f"{name}: no answer to load", self._put(world, number, w._replace(pc="hand over"))

    def _faults_of_script(self, world: World, number: int, w: Worker, ask: Ask) -> Iterator[tuple[str, World]]:
        kinds, name = self.play.kinds, f"w{number}"
        if "pause" in kinds and "late" in kinds:
            yield (
                f"{name} sleeps, its {w.pc} under way",
                self._put(_delayed(world, ask), number, w._replace(paused=True)),
            )
        away = Worker(ring=w.ring) if w.pc.startswith(("claim", "hand over")) else w
        if w.pc.startswith("sole"):
            away = w._replace(pc="hand over")
        if self.play.tells and w.pc.startswith(_GRANTS):
            away = away._replace(misses=True)
        if "late" in kinds:
            yield f"{name}: {w.pc} delayed", self._put(_delayed(world, ask), number, away)
        if "lost" in kinds:
            _, after = self._done(world, ask)
            yield f"{name}: answer to {w.pc} lost", self._put(after, number, away)

    def _faults_of_send(self, world: World, number: int, w: Worker) -> Iterator[tuple[str, World]]:
        kinds, name, row = self.play.kinds, f"w{number}", w.rows[0][0]
        unclear = self._row(w._replace(rows=((row, "sending"), *w.rows[1:])))
        if "lost" in kinds:
            got = self._platform_gets(world, row)
            got = got._replace(doubles=got.doubles + (self.play.how == "repeat"))
            yield f"{name}: answer to send lost", self._put(got, number, unclear)
        if "late" in kinds:
            yield f"{name}: send lost", self._put(world, number, unclear)
            if self.play.how == "key":
                yield f"{name}: send delayed", self._put(_delayed(world, ("send", (row,))), number, unclear)

    def _tail_lost(self, world: World) -> World:
        """The server comes back without its last script; its clock has gone on."""
        clock, keys = self.states[world.before]
        r = self.states.number((clock + 1, keys))
        told = world.acked | {gateway.m for gateway in world.gateways if gateway.pc == "ack"}
        gone = {m for m in told if not self.holds(r, m) and self.holds(world.r, m)}
        return world._replace(r=r, before=r, excused=world.excused | gone)

    def holds(self, r: int, m: int) -> bool:
        """Whether a message is anywhere in a conversation."""
        found = self._held.get((r, m))
        if found is None:
            c, text = self.play.messages[m].c, json.dumps(self.play.messages[m].name)
            kept = [_items(self.keys(r).get(f"{P}c:{c}:{kind}")) for kind in ("inbox", "control", "history")]
            found = self._held[r, m] = any(text in one for items in kept for one in items)
        return found

    # ---- what must hold ----

    def check(self, world: World) -> None:
        """Raises `Broken`."""
        if (fault := self._unfit(world.r)) and fault:
            raise Broken(fault)
        for m in world.acked - world.excused:
            said = self.play.messages[m]
            accepted = not self.play.acks_first and not self.holds(world.r, m)
            if (
                accepted
                and not any(said.name in _answered(one) for one in world.sent)
                and "idle" not in self.play.kinds
            ):
                raise Broken(f"{said.name} was acknowledged and is nowhere")
        self._check_sent(world)
        self._check_holders(world)
        if not self.play.polls and not self.play.faults:
            self._check_bell(world)
        bell = self.keys(world.r).get(f"{P}bell")
        if self.play.polls and bell and not bell[2]:
            raise Broken("the bell's flag stays for ever: if that bell is lost, every newcomer waits for the next poll")

    def _unfit(self, r: int) -> str:
        if r not in self._fit:
            self._fit[r] = self._look(r)
        return self._fit[r]

    def _look(self, r: int) -> str:
        keys = self.keys(r)
        ready, due = _items(keys.get(f"{P}ready:room"))[::2], _items(keys.get(f"{P}due"))[::2]
        if set(ready) & set(due):
            return "a conversation is in ready and in due"
        waiting = int((_items(keys.get(f"{P}waiting")) or ("0",))[0])
        if waiting != len(ready):
            return "the count of those who wait is wrong"
        if ready and "room" not in _items(keys.get(f"{P}channels")):
            return "somebody is ready in a channel that nobody looks at"
        held = 0
        for c in self._conversations():
            seen = self.seen(r, c)
            busy = (
                seen.inbox or seen.control or seen.turn or any(row[1] not in {"sent", "given_up"} for row in seen.rows)
            )
            if busy and c not in {*ready, *due}:
                return f"{c} has work and is nowhere"
            if seen.token and c not in due:
                return f"{c} is claimed without an end"
            if seen.control and not seen.token and c in due:
                return f"something was pressed in {c}, and it waits as if nothing was"
            if c in due and not (busy or seen.token):
                return f"{c} waits for nothing"
            held += bool(seen.token)
            if (its := _sole(keys)) and its[0] == c and its[1] != seen.token:
                return f"{c} had a worker for itself, and something of that is left"
            if fault := self._history_fault(r, c):
                return fault
        counted = next((int(pairs(key)["t"]) for name, key in keys.items() if name.startswith(f"{P}uses:")), 0)
        if counted != sum(map(len, self.written(r))) and "idle" not in self.play.kinds:
            return f"{counted} turns are counted, and that is wrong"
        if int(pairs(keys.get(f"{P}running")).get("room", 0)) != held:
            return "the count of places is wrong"
        return ""

    def _history_fault(self, r: int, c: str) -> str:
        events: list[str] = []
        replied: list[str] = []
        for record in self._records(r, c):
            if record["type"] == "event":
                if record["event"] in events:
                    return f"{record['event']} is twice in history"
                events.append(record["event"])
            if record["type"] == "reply":
                if record["turn"] in replied:
                    return f"the answer of {record['turn']} is twice in history"
                if not set(record["answers"]) <= set(events):
                    return f"{record['turn']} answers what is not in history"
                replied.append(record["turn"])
        return ""

    def _check_sent(self, world: World) -> None:
        if len(world.sent) - len(set(world.sent)) > world.doubles:
            raise Broken("people got an answer twice")
        for order in self.written(world.r) if world.sent else ():
            got = [order.index(key) for key in dict.fromkeys(world.sent) if key in order]
            if got != (sorted(got) if self.play.how == "skip" else list(range(len(got)))):
                raise Broken("answers came in another order than they were written")

    def _check_holders(self, world: World) -> None:
        holding = [w for w in world.workers if w.token]
        if len({w.token for w in holding}) != len(holding):
            raise Broken("two workers hold the same number")
        if "tail" in self.play.kinds:
            return
        if sum(w.is_sole and not w.late and w.pc not in _GIVES_BACK for w in holding) > 1:
            raise Broken("two have a worker for themselves at a time")
        awake = [w.c for w in holding if not w.paused and not w.late and w.pc not in _GIVES_BACK]
        if len(set(awake)) != len(awake):
            raise Broken("two workers work on one conversation")

    def _check_writer(self, world: World, ask: Ask, answer: Any) -> None:
        name, (_, c, token, *_) = ask[0], (*ask[1], "", "")
        verdict = answer[0] if isinstance(answer, tuple) else answer
        if name not in {"accept", "claim"} and verdict == "OK" and self.seen(world.r, c).token != token:
            raise Broken(f"{name} of a worker that does not hold {c}")

    def _check_counted(self, world: World, ask: Ask, answer: Any, r: int) -> None:
        """A try is the death of a holder that has begun, and nothing else."""
        name, (_, its, *arguments) = ask[0], (*ask[1], "")
        is_done = (answer[0] if isinstance(answer, tuple) else answer) == "OK"
        for c in self._conversations():
            was, now = self.seen(world.r, c), self.seen(r, c)
            counted = was.tries
            if was.token and now.token != was.token and name != "unheard":
                is_given_back = its == c and name in {"settle", "park"}
                died = arguments[1] == "1" if name == "hand_over" else not is_given_back
                counted += died and (was.tries < SOLE_AFTER or was.token in world.begun)
            if is_done and its == c and (name in {"settle", "bury"} or (name == "append" and arguments[4] == "1")):
                counted = 0
            if now.tries != counted:
                raise Broken(f"{now.tries} deaths are counted in {c}, and there were {counted}")

    def _check_bell(self, world: World) -> None:
        idle = any(w.pc == "idle" and not w.ring for w in world.workers)
        coming = (
            world.bells
            or any(gateway.pc == "ring" or gateway.ring for gateway in world.gateways)
            or any(w.ring or w.pc in {"claim", "claim by bell"} for w in world.workers)
        )
        if idle and not coming and _items(self.keys(world.r).get(f"{P}channels")):
            raise Broken("somebody is ready, a worker is idle, and no bell is on its way")

    def is_finished(self, world: World) -> bool:
        """Everybody has an answer, or the operator a letter that not even the notice came; and nothing is left."""
        if any(gateway.pc for gateway in world.gateways) or any(w.pc != "idle" or w.ring for w in world.workers):
            return False
        keys = self.keys(world.r)
        if len(world.acked) != len(self.play.messages) or keys.get(f"{P}due") or keys.get(f"{P}ready:room"):
            return False
        answered = {name for key in world.sent for name in _answered(key)}
        answered |= {name for key in _items(keys.get(f"{P}dead")) if key.endswith("-notice") for name in _answered(key)}
        for m, message in enumerate(self.play.messages):
            if m in world.excused or self._joined(world, message) & answered:
                continue
            return False
        return True

    def _joined(self, world: World, message: Message) -> set[str]:
        """The message, or the one whose turn it joined."""
        names = {message.name}
        for record in self._records(world.r, message.c):
            if record["type"] == "event" and record["event"] == message.name:
                names.add(record["turn"].removeprefix("t-"))
        return names


_GIVES_BACK: Final = ("hand over", "hand over as a try", "settle", "park", "later", "release")
"""Where a worker may hold a conversation no more and not know it yet: it does nothing but ask."""


_GRANTS: Final = ("claim", "settle", "park", "later")
"""Whose answer may hold a grant."""


def _sole(keys: dict[str, Key]) -> list[str]:
    """The conversation that has a worker for itself, and its token."""
    return " ".join(_items(keys.get(f"{P}sole"))).split()


def _items(key: Key | None) -> Items:
    return key[3] if key else ()


def _by_order(outbox: Key | None) -> list[str]:
    """Rows by when they were made: the order of their conversation's messages, which their names keep."""
    return sorted(pairs(outbox))


def _expires(name: str) -> bool:
    return name.startswith(f"{P}c:") and not name.endswith(":seen")


def _turn(w: Worker) -> tuple[str, Items]:
    assert w.turn
    return w.turn


def _row(turn: str) -> str:
    return f"r-{turn.removeprefix('t-')}"


def _answered(key: str) -> Items:
    return (key.removeprefix("r-").removesuffix("-notice"),)


def _notice_of(key: str) -> Items:
    """The row that tells a person that another one may not have come; about itself there is none."""
    return () if key.endswith("-notice") else (f"{key}-notice", json.dumps({"order": 0}), "pending 0 null")


def _record(kind: str, **data: Any) -> str:
    return json.dumps({"v": 1, "type": kind, "at": 0, **data})


def _chosen(w: Worker, play: Play) -> list[str]:
    joins = play.takes == "all" or (play.steers and w.turn is not None and bool(w.turn[1]))
    return list(w.inbox if joins else w.inbox[:1])


def _taking(w: Worker, play: Play) -> Items:
    turn, _ = _turn(w)
    members = [] if w.control else _chosen(w, play)
    controls = str(min(1, len(w.control)))
    state = json.dumps({"id": turn, "start": 0, "at_ms": 0, "to": {}})
    return (state, turn, controls, str(len(members)), "0", "0", "0", *members)


def _delayed(world: World, ask: Ask) -> World:
    return world._replace(late=tuple(sorted({*world.late, ask})))


def _with(world: World, number: int, gateway: Gateway) -> World:
    gateways = list(world.gateways)
    gateways[number] = gateway
    return world._replace(gateways=tuple(sorted(gateways)))
