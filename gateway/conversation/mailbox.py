"""The mailbox: a conversation's inbox, its claim (who may write) and its outbox, as scripts in Redis.

The protocol in one paragraph: `accept` puts an event into the inbox and its conversation into `ready`. `claim` gives a
ready conversation to one worker, with a lease and a token; whoever claims first returns to `ready` all whose lease ran
out. Each write names the token, the revision it builds on and its own id, so that a zombie's write, a repeated write
and a write on top of a lost tail are told apart. `settle` looks for more work and gives back the claim in one script.
Keys and scripts: `scripts/`, one file each. What must hold: ARCHITECTURE.md.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import logging
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal

from config.settings import MailboxSettings
from gateway.conversation.claim import Behind, Claim, Claimed, Fenced, boot_clock_s
from gateway.conversation.deaths import SOLE_AFTER
from gateway.conversation.kept import KeptEpoch
from gateway.conversation.key import ConversationKey, of_parts
from gateway.conversation.outbox import Row, row_state, state_of
from gateway.conversation.records import History, Record, is_newer
from gateway.conversation.uses import Listed, Used
from gateway.logs import log
from gateway.running.unbroken import unbroken
from gateway.store import Refused, Script, Store, Unreachable, reading, script_of

logger = logging.getLogger(__name__)

SCHEMA: Final = 1
SEQ_DIGITS: Final = 12
"""In front of each member of the inbox, so that they sort by it."""
RETRY_PAUSE_S: Final = 0.2
WORKER_SEEN_MS: Final = 5_000
NUDGE_WAIT_S: Final = 1.0
LISTED_AGAIN_S: Final = 3_600
"""What turns are offered is written so often, should Redis have lost it."""
EMPTY: Final = "redis is empty, and was not"
PARTLY: Final = "a part of redis is empty"
OTHER: Final = "redis holds other data than was known here"
"""Why what is there is not gone on with."""
COLD_ADVICE: Final = "put its data back, or go on with what is there: `deskmate redis adopt`"


class Cold(Exception):
    """Redis is empty, or holds another epoch than this process knows: an operator has to look. `str()` says which."""


class WrongPartitions(Exception):
    """The number of partitions is fixed at the first start."""


@dataclass(frozen=True, slots=True)
class _Found:
    """What one partition says of itself."""

    epoch: str
    """`""`: it is empty."""
    schema: int
    partitions: int
    follows: bool
    """It is the epoch that is known here, or goes on for it."""
    is_awaited: bool
    """Somebody knew another epoch, and waits for an operator's word."""


def _why_cold(found: Sequence[_Found]) -> str:
    epochs = {one.epoch for one in found}
    if "" in epochs:
        return EMPTY if len(epochs) == 1 else PARTLY
    return "" if len(epochs) == 1 and all(one.follows for one in found) else OTHER


@dataclass(frozen=True, slots=True)
class Accepted:
    """How `accept` ended. `new` and `known` are answered 2xx."""

    state: Literal["new", "known", "full", "cold"]
    ring: bool = False
    seq: int = 0


@dataclass(frozen=True, slots=True)
class Stored:
    """All that is stored of a conversation, as read after a grant."""

    key: ConversationKey
    seq: int
    turn: dict[str, Any] | None
    history: History
    rows: list[Row]
    inbox: list[bytes]
    """Members, oldest first: `<seq 12 digits>:<event>`."""
    control: list[bytes]
    is_newer: bool = False
    """A later version wrote something of it in a form that this one does not know."""


def event_of(member: bytes) -> bytes:
    """The event (JSON) of a member of the inbox."""
    return member[SEQ_DIGITS + 1 :]


def number_of(member: bytes) -> int:
    """Which message of its conversation a member of the inbox is, counted from the first one ever."""
    return int(member[:SEQ_DIGITS])


def dedupe_hash(dedupe_key: str) -> bytes:
    return hashlib.sha256(dedupe_key.encode()).digest()[:10]


def script(name: str) -> Script:
    return script_of("gateway.conversation", name)


class Mailbox:
    """The scripts, from Python. One a process; `open` before anything else."""

    def __init__(self, store: Store, settings: MailboxSettings, *, data: Path | None = None) -> None:
        """`data`: the data folder, which keeps the epoch for processes that start later."""
        self.store = store
        self.settings = settings
        self._kept = KeptEpoch(data, store.layout.prefix) if data else None
        self.epoch = ""
        self._ahead_ms = 0
        """How far the server's clock is ahead of ours."""
        self._settings = ""
        self._said_ms = 0
        """When the worker of this process said last that it is there, by the server's clock."""
        self._listed_s: dict[tuple[str, str], float] = {}
        """When this process wrote last what turns are offered, by partition and hash."""

    def now_ms(self) -> int:
        """The server's time: what one process writes down others compare, and their own clocks differ."""
        return int(time.time() * 1000) + self._ahead_ms

    def _hear_time(self, server_ms: int) -> None:
        """From what is asked anyway, the first time by `open`: nobody takes or writes anything before it is known."""
        self._ahead_ms = server_ms - int(time.time() * 1000)

    # ---- the epoch: is this the data that we know? ----

    async def open(self) -> bool:
        """Learn the epoch. True: Redis was empty, nobody has known another one, and a new one began.

        Raises `Cold`, `WrongPartitions`, `Unreachable`.
        """
        known = self._known()
        found = await self._look(known)
        self._check_partitions(found)
        if not known and not any(one.epoch for one in found):
            return await self._begin()
        if why := _why_cold(found):
            raise Cold(why)
        self._know(found[0].epoch)
        return False

    async def _begin(self) -> bool:
        """Begin a new epoch, unless somebody waits who knew another one. The first partition decides between processes that start
        at once.
        """
        epoch, is_first = secrets.token_hex(8), False
        for partition in range(self.store.layout.partitions):
            answer = await self._run("open", partition, epoch, SCHEMA, self.store.layout.partitions)
            if not answer or (partition and answer[0].decode() != epoch):
                raise Cold(EMPTY if not answer else OTHER)
            epoch = answer[0].decode()
            is_first = is_first or bool(answer[1])
        self._know(epoch)
        return is_first

    async def is_warm(self) -> bool:
        """Does Redis hold the epoch that we know, or one that an operator has adopted since? Raises `Unreachable`."""
        return not await self.why_cold()

    async def why_cold(self, *, notes: bool = True) -> str:
        """What is wrong with the data in Redis, if it is not what is known here, and nobody has adopted it; else `""`.

        Without `notes` nothing is written: for who only looks. Raises `Unreachable`.
        """
        known = self._known()
        found = await self._look(known, notes=notes)
        if not known and not any(one.epoch or one.is_awaited for one in found):
            return ""  # nothing has begun
        why = _why_cold(found)
        if not why and self.epoch and self.epoch != found[0].epoch:
            self._know(found[0].epoch)
        return why

    async def adopt(self) -> str:
        """The operator's word that what is in Redis now is the truth; all processes follow within a poll.

        Raises `WrongPartitions`, `Unreachable`.
        """
        partitions, known, epoch = self.store.layout.partitions, self._known(), secrets.token_hex(8)
        self._check_partitions(await self._look(known))
        for partition in range(partitions):
            answer = await self._run("adopt", partition, epoch, SCHEMA, partitions, known, int(partition > 0))
            epoch = answer.decode()
        self._know(epoch)
        return epoch

    def _known(self) -> str:
        return self.epoch or (self._kept.read() if self._kept else "")

    async def _look(self, known: str, *, notes: bool = True) -> list[_Found]:
        """At all partitions: in a cluster one may be lost alone."""
        asked = (self._run("meta", one, known, int(notes)) for one in range(self.store.layout.partitions))
        answers = await asyncio.gather(*asked)
        self._hear_time(answers[0][-1])
        return [
            _Found(epoch.decode(), schema, partitions, bool(follows), bool(strangers))
            for epoch, schema, partitions, follows, strangers, _ in answers
        ]

    def _check_partitions(self, found: Sequence[_Found]) -> None:
        partitions = self.store.layout.partitions
        for one in found:
            if one.epoch and one.partitions != partitions:
                raise WrongPartitions(
                    f"redis.partitions is {partitions}, but this Redis was started with {one.partitions}; "
                    "the number is fixed"
                )
            if one.schema > SCHEMA:
                raise WrongPartitions(
                    f"Redis holds schema {one.schema}, this version knows {SCHEMA}: start a newer one"
                )

    # ---- gateway ----

    async def accept(
        self,
        key: ConversationKey,
        event: str,
        *,
        dedupe_keys: Sequence[str],
        at_ms: int,
        control: bool = False,
        delay_ms: int = 0,
    ) -> Accepted:
        """Put one event (JSON) into the inbox, or into control, unless one of its keys is known. Raises `Unreachable`."""
        c = key.id
        arguments = (
            c,
            key.channel_id,
            key.dumped,
            at_ms,
            event,
            "control" if control else "inbox",
            delay_ms,
            *(dedupe_hash(one) for one in dedupe_keys),
        )
        state, ring, seq, server_ms = await self._run_warm("accept", c, *arguments)
        self._hear_time(server_ms)
        return Accepted(state.decode().lower(), bool(ring), seq)

    async def known(self, key: ConversationKey, dedupe_keys: Sequence[str]) -> Literal["new", "known", "cold"]:
        """Whether one of its keys is known; nothing is written. Raises `Unreachable`."""
        [said] = await self._run_warm("known", key.id, key.id, *map(dedupe_hash, dedupe_keys))
        state: Literal["new", "known", "cold"] = said.decode().lower()
        return state

    async def _run_warm(self, name: str, conversation: str, *arguments: str | bytes | int) -> Any:
        partition = self.store.layout.partition(conversation)
        answer = await self._run(name, partition, *arguments)
        if answer[0] == b"COLD" and await self.is_warm():  # an operator has adopted what is there since
            answer = await self._run(name, partition, *arguments)
        return answer

    async def has_answered(self, key: ConversationKey) -> bool:
        """Have we ever replied in this conversation (within retention)? Raises `Unreachable`."""
        with reading():
            return bool(await self.store.redis.hexists(self.store.layout.key(key.id), "answered"))

    async def is_ours(self, key: ConversationKey, message_id: str) -> bool:
        """Is it a message of ours, one of the last (where a platform does not say whose is answered)? Raises `Unreachable`."""
        with reading():
            return await self.store.redis.zscore(self.store.layout.key(key.id, "ours"), message_id) is not None

    async def is_idle(self, key: ConversationKey) -> bool:
        """Has it nothing left to do: no message waits, no turn is open, all is sent? Raises `Unreachable`."""
        with reading():
            return bool(await self.store.redis.hexists(self.store.layout.key(key.id), "idle"))

    # ---- workers ----

    async def beat(self, worker: str) -> int:
        """Say that this worker is there; readiness asks for it. Raises `Unreachable`.

        How much Redis has lost of what it had, in milliseconds; 0: nothing that can be told. What this worker said last is not
        there any more if the server came back without its last writes, or another one without them took over.
        """
        keep_ms = 10 * WORKER_SEEN_MS
        before_ms, now_ms = await self._run("beat", 0, worker, keep_ms)
        self._hear_time(now_ms)
        said_ms, self._said_ms = self._said_ms, now_ms
        is_kept = 0 <= now_ms - said_ms < keep_ms  # below 0: its clock was put back, and it has forgotten all of us
        return max(0, said_ms - before_ms) if is_kept else 0

    async def leave(self, worker: str) -> None:
        """This worker ends. Raises `Unreachable`."""
        await self._run("leave", 0, worker)

    async def workers(self) -> list[str]:
        """Workers that were heard of lately. Raises `Unreachable`."""
        return [name.decode() for name in await self._run("workers", 0, WORKER_SEEN_MS)]

    async def claim(self, partition: int, worker: str, places: int, *, by_bell: bool = False) -> Claimed:
        """Up to `places` conversations, the channel served longest ago first. Raises `Cold`, `Unreachable`."""
        asked_s = boot_clock_s()
        verdict, *claimed = await self._run("claim", partition, worker, places, int(by_bell))
        if verdict == b"COLD":
            raise Cold
        return self._claimed(partition, claimed, asked_s)

    async def renew(self, claims: Sequence[Claim]) -> None:
        """Lengthen the leases; mark those that are lost, wake those with news. Raises `Unreachable`."""
        by_root: dict[str, list[Claim]] = {}
        for claim in claims:
            by_root.setdefault(claim.root, []).append(claim)
        await asyncio.gather(
            *(
                self._renew(root, held[at : at + 200])
                for root, held in by_root.items()
                for at in range(0, len(held), 200)
            )
        )

    async def _renew(self, root: str, claims: Sequence[Claim]) -> None:
        asked_s = boot_clock_s()
        named = [text for claim in claims for text in (claim.conversation, claim.token)]
        for claim in claims:
            claim.unheard = claim.unheard or asked_s < claim.deadline_s
        lost, news, server_ms = await self.store.run(script("renew"), root, self._settings, *named)
        self._hear_time(server_ms)
        gone, fresh = {c.decode() for c in lost}, {c.decode() for c in news}
        for claim in claims:
            claim.unheard = False
            if claim.conversation in gone:
                claim.lost = True
            else:
                claim.deadline_s = asked_s + self.settings.lease_s
            if claim.conversation in fresh or claim.lost:
                claim.news.set()

    async def nudges(self, worker: str) -> AsyncIterator[str]:
        """Conversations held by this worker that somebody has written to. Raises `Unreachable`."""
        layout = self.store.layout
        async with self.store.redis.pubsub(ignore_subscribe_messages=True) as listening:
            with reading():
                await listening.subscribe(*(f"{layout.root(one)}:nudge:{worker}" for one in range(layout.partitions)))
                while True:
                    nudge = await listening.get_message(timeout=NUDGE_WAIT_S)
                    if nudge:
                        yield nudge["data"].decode()

    async def load(self, conversation: str, begin: int = 0) -> Stored:
        """What is stored of a conversation, its history from the place `begin` on. Raises `Unreachable`."""
        name = functools.partial(self.store.layout.key, conversation)
        with reading():
            async with self.store.redis.pipeline(transaction=False) as pipeline:
                pipeline.hmget(name(), "parts", "seq", "turn")
                pipeline.lrange(name("history"), begin, -1)
                pipeline.hgetall(name("outbox"))
                pipeline.hgetall(name("states"))
                pipeline.zrange(name("inbox"), 0, -1)
                pipeline.lrange(name("control"), 0, -1)
                (parts, seq, turn), history, outbox, states, inbox, control = await pipeline.execute()
        if parts is None:
            raise Behind(conversation)
        rows = [Row.load(row.decode(), body, states[row]) for row, body in outbox.items() if row in states]
        return Stored(
            key=of_parts(json.loads(parts)),
            seq=int(seq or 0),
            turn=json.loads(turn) if turn else None,
            history=History(history, begin),
            rows=sorted(rows, key=lambda row: (row.order, row.made_ms, row.key)),
            inbox=inbox,
            control=control,
            is_newer=any(map(is_newer, chain(history, map(event_of, inbox), control))),
        )

    async def waiting(self, conversation: str) -> tuple[list[bytes], list[bytes]]:
        """What waits in control and in the inbox now. Raises `Unreachable`."""
        name = functools.partial(self.store.layout.key, conversation)
        with reading():
            async with self.store.redis.pipeline(transaction=False) as pipeline:
                pipeline.lrange(name("control"), 0, -1)
                pipeline.zrange(name("inbox"), 0, -1)
                control, inbox = await pipeline.execute()
        return control, inbox

    async def sent_as(self, conversation: str, rows: Sequence[str]) -> dict[str, str]:
        """The message's id for each of these rows (keys) that was sent and is still kept. Raises `Unreachable`."""
        if not rows:
            return {}
        with reading():
            states: Any = await self.store.redis.hmget(self.store.layout.key(conversation, "states"), list(rows))
        refs = {row: state_of(state)[2] for row, state in zip(rows, states, strict=True) if state}
        return {row: str(ref["message_id"]) for row, ref in refs.items() if ref}

    async def take(
        self,
        claim: Claim,
        turn: dict[str, Any],
        *,
        members: Sequence[bytes] = (),
        withdrawn: Sequence[bytes] = (),
        control: int = 0,
        records: Sequence[Record] = (),
        rows: Sequence[Row] = (),
    ) -> None:
        """Move chosen events into history and open (or keep) `turn`, in one script. Raises `Lost`.

        `withdrawn`: members, or events in control, that no turn will answer; they become records of that type.
        """
        await self._write(
            claim,
            "take",
            {"OK", "DONE"},
            json.dumps(turn),
            turn["id"],
            control,
            len(members),
            len(withdrawn),
            len(records),
            len(rows),
            *members,
            *withdrawn,
            *(record.dump() for record in records),
            *_flat(rows),
        )

    async def append(
        self,
        claim: Claim,
        *,
        records: Sequence[Record] = (),
        rows: Sequence[Row] = (),
        turn: dict[str, Any] | Literal["close"] | None = None,
        finished_step: bool = False,
        begin: int | None = None,
        listed: Listed | None = None,
        used: Used | None = None,
    ) -> None:
        """Add records, and rows to the outbox; change or close the open turn. Raises `Lost`.

        `begin`: what still counts of the history begins at this place from now on. `listed`: the skills that the turn is
        offered; `used`: what it has used, where this closes it.
        """
        is_news = listed is not None and self._is_news(claim, listed)
        await self._write(
            claim,
            "append",
            {"OK", "DONE"},
            "-" if turn == "close" else "" if turn is None else json.dumps(turn),
            int(finished_step),
            "" if begin is None else begin,
            len(records),
            len(rows),
            *(record.dump() for record in records),
            *_flat(rows),
            _uses(listed if is_news else None, used),
        )
        if listed and is_news:
            self._listed_s[claim.root, listed.hash] = time.monotonic()
        claim.begin = claim.begin if begin is None else begin

    async def mark(
        self,
        claim: Claim,
        row: Row,
        state: str,
        ref: dict[str, Any] | None = None,
        *,
        in_ms: int = 0,
        known_as: str = "",
    ) -> bool:
        """Note how far a part's sending has come. False: it was sent before, or there is no such row. Raises `Lost`.

        `in_ms`, with `pending`: not to be tried again before. `known_as`, with `sent`: the message's id, for `is_ours`.
        """
        good = {"OK", "DONE", "SENT", "NO_ROW"}
        verdict = await self._write(
            claim, "mark", good, row.key, row_state(state, self.now_ms() + in_ms, ref), known_as
        )
        return verdict in {"OK", "DONE"}

    async def settle(self, claim: Claim, worker: str, places: int, keep_s: int | None = None) -> Claimed | None:
        """Give the claim back, and claim anew. None: something is still open, we hold it. Raises `Lost`.

        `keep_s`: for how long it is kept from now, if nobody says anything; by default as the settings say.
        """
        keep_s = self.settings.retention_s if keep_s is None else keep_s
        return await self._release(claim, "settle", worker, places, keep_s * 1000)

    async def park(
        self, claim: Claim, wait_ms: int, saw_seq: int | None, worker: str, places: int, *, saw_control: int = 0
    ) -> Claimed | None:
        """Give the place back until `wait_ms` are over or somebody writes. None: somebody has written. Raises `Lost`.

        Without `saw_seq` it is given back whatever was written: this worker could do nothing with it. `saw_control`: how much
        lay in control when it looked, and has to wait as well.
        """
        saw = -1 if saw_seq is None else saw_seq
        return await self._release(claim, "park", wait_ms, saw, worker, places, saw_control)

    async def catch_up(self, claim: Claim) -> None:
        """Learn the revision after somebody else wrote with our token (a child process). Raises `Lost`, `Unreachable`."""
        with reading():
            token, rev, begin = await self.store.redis.hmget(
                self.store.layout.key(claim.conversation), "token", "rev", "begin"
            )
        if token != claim.token.encode():
            claim.lost = True
            raise Fenced(claim.conversation)
        claim.rev, claim.begin = int(rev or 0), int(begin or 0)

    async def hand_over(self, claim: Claim, *, counts: bool = False) -> bool:
        """Back to `ready` for another worker, as a try only if it `counts`. True: the bell is due.

        Asked until Redis answers, whatever becomes of whoever asks: else it would count as a death that Redis was away.
        Whoever renews it meanwhile keeps it from being counted before.
        """
        claim.lost = True
        named = (claim.conversation, claim.token, int(counts))
        told = f"conversation {claim.conversation} is given back"
        answer = await asyncio.shield(
            self.store.see_to(script("hand_over"), claim.root, self._settings, *named, told=told)
        )
        return bool(answer and answer[0] == b"OK" and answer[1])

    async def give_back_unheard(self, partition: int, worker: str, held: Sequence[Claim]) -> bool:
        """All that was granted to this worker and is not among what it holds: the answer was lost, and its lease would run out as
        that of a dead one does. True: the bell is due. Raises `Unreachable`.
        """
        root = self.store.layout.root(partition)
        return bool(await self._run("unheard", partition, worker, *(one.token for one in held if one.root == root)))

    async def sole(self, claim: Claim, *, begins: bool) -> bool:
        """May it go on with nothing beside it? No: another one does. From when it `begins`, its holder's death counts.

        Raises `Lost`, `Unreachable`.
        """
        claim.check()
        verdict = await self.store.run(
            script("sole"), claim.root, self._settings, claim.conversation, claim.token, int(begins)
        )
        if verdict == b"FENCED":
            claim.lost = True
            raise Fenced(claim.conversation)
        return bool(verdict == b"OK")

    async def bury(
        self,
        claim: Claim,
        turn_id: str,
        reason: str,
        *,
        records: Sequence[Record],
        rows: Sequence[Row],
        closes: bool = True,
        takes: str = "",
        given_up: Sequence[str] = (),
        used: Used | None = None,
    ) -> None:
        """A dead letter, with the notice for the person in `rows`. It closes the open turn, unless it is only about a part
        of what is sent, or about what no turn has taken yet (`takes`, see `InHand.where`); `used` as in `append`. `given_up`: keys of
        rows that are not sent any more. Raises `Lost`.
        """
        over = [text for key in given_up for text in (key, "", row_state("given_up", self.now_ms(), None))]
        arguments: Sequence[str | bytes | float] = (
            turn_id,
            reason,
            takes or int(closes),
            len(records),
            len(rows) + len(given_up),
            *(record.dump() for record in records),
            *_flat(rows),
            *over,
            _uses(None, used),
        )
        _, forgotten = await self._insist(claim, "bury", {"OK", "DONE"}, arguments)
        if forgotten:
            advice = "there were too many: see `deskmate dead list`"
            log(logger, "dead letters forgotten", logging.ERROR, entries=forgotten, advice=advice)

    async def retry(
        self, key: ConversationKey, letter: str, events: Sequence[str], *, act: str
    ) -> Literal["ok", "gone", "forgotten", "full", "cold"]:
        """What the turn of a dead letter (the number of any of its entries) answered, as JSON, comes in once more, and the
        letter is gone with all of its entries: both or none (`forgotten`: the conversation is). The same `act` is done once, and
        was done whenever it is asked for again. Raises `Unreachable`.
        """
        partition = self.store.layout.partition(key.id)
        verdict = await self._run("retry", partition, key.id, key.channel_id, letter, act, *events)
        became: Literal["ok", "gone", "forgotten", "full", "cold"] = verdict.decode().lower()
        return became

    async def drop(self, conversation: str, letter: str, *, act: str) -> Literal["ok", "gone"]:
        """A dead letter is not listed any more; else as in `retry`. Raises `Unreachable`."""
        verdict = await self._run("drop", self.store.layout.partition(conversation), letter, act)
        became: Literal["ok", "gone"] = verdict.decode().lower()
        return became

    # ---- inside ----

    def _is_news(self, claim: Claim, listed: Listed) -> bool:
        """Whether this has to be written. What was not for long is forgotten here, so that this stays small."""
        since_s = time.monotonic() - LISTED_AGAIN_S
        self._listed_s = {name: at_s for name, at_s in self._listed_s.items() if at_s > since_s}
        return (claim.root, listed.hash) not in self._listed_s

    def _know(self, epoch: str) -> None:
        self.epoch = epoch
        if self._kept:
            self._kept.write(epoch)
        self._listed_s.clear()
        self._settings = json.dumps(
            {
                "epoch": epoch,
                "cap": self.settings.places_per_channel or 0,
                "bell_ms": self.settings.bell_ms,
                "lease_ms": int(self.settings.lease_s * 1000),
                "inbox_max": self.settings.inbox_max,
                "waiting_max": self.settings.waiting_max,
                "dedupe_ms": self.settings.dedupe_s * 1000,
                "retention_ms": self.settings.retention_s * 1000,
                "sole_after": SOLE_AFTER,
            }
        )

    async def _run(self, name: str, partition: int, *arguments: str | bytes | float) -> Any:
        return await self.store.run(
            script(name), self.store.layout.root(partition), self._settings or '{"epoch":""}', *arguments
        )

    def _claimed(self, partition: int, answer: Sequence[Any], asked_s: float) -> Claimed:
        grants, ring, wait_ms, server_ms = answer
        self._hear_time(server_ms)
        root = self.store.layout.root(partition)
        return Claimed(
            grants=tuple(
                Claim(c.decode(), root, token.decode(), rev, tries, begin, asked_s + self.settings.lease_s)
                for c, token, rev, tries, begin in grants
            ),
            ring=bool(ring),
            wait_ms=None if wait_ms < 0 else wait_ms,
        )

    async def _write(self, claim: Claim, name: str, good: AbstractSet[str], *arguments: str | bytes | float) -> str:
        answer = await self._insist(claim, name, good, arguments)
        return str(answer.decode())

    async def _release(self, claim: Claim, name: str, *arguments: str | bytes | float) -> Claimed | None:
        asked_s = boot_clock_s()
        verdict, *claimed = await self._insist(claim, name, {"OK", "STAY"}, arguments)
        if verdict == b"STAY":
            return None
        claim.lost = True
        return self._claimed(self.store.layout.partition(claim.conversation), claimed, asked_s)

    async def _insist(
        self, claim: Claim, name: str, good: AbstractSet[str], arguments: Sequence[str | bytes | float]
    ) -> Any:
        """Ask until there is an answer: the same write id makes a repetition harmless. Ends with the lease.

        Who cancels it gets it after its end: else the claim would not know the revision, and its next write were lost.
        """
        return await unbroken(self._insist_on(claim, name, good, arguments))

    async def _insist_on(
        self, claim: Claim, name: str, good: AbstractSet[str], arguments: Sequence[str | bytes | float]
    ) -> Any:
        async with claim.writing:
            claim.check()
            claim.writes += 1
            named = (claim.conversation, claim.token, claim.rev, f"{claim.token}:{claim.writes}")
            while True:
                try:
                    answer = await self.store.run(script(name), claim.root, self._settings, *named, *arguments)
                    break
                except Refused:
                    raise  # asked again it would be refused again
                except Unreachable:
                    claim.check()
                    await asyncio.sleep(RETRY_PAUSE_S)
                    claim.check()
            verdict = (answer[0] if isinstance(answer, list) else answer).decode()
            if verdict not in good:
                claim.lost = True
                raise Behind(claim.conversation) if verdict == "BEHIND" else Fenced(claim.conversation)
            if verdict in {"OK", "DONE"}:
                claim.rev += 1
            return answer


def _uses(listed: Listed | None, used: Used | None) -> str:
    """See `note_uses` in `prelude.lua`; empty: nothing."""
    if listed:
        return json.dumps({"offered": listed.hash, "list": listed.dump()})
    return json.dumps({"offered": used.offered, "count": used.fields()}, ensure_ascii=False) if used else ""


def _flat(rows: Sequence[Row]) -> list[str]:
    return [text for row in rows for text in (row.key, row.body(), row.mark())]
