"""A turn: from the events taken to the reply."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal

from config.limits import Limit
from config.profiles import Profile
from config.settings import Language
from gateway.approvals.asked import Asked
from gateway.approvals.waited import waited_ms
from gateway.commands import said_to_model
from gateway.conversation.claim import Claim
from gateway.conversation.mailbox import Mailbox, Stored, event_of
from gateway.conversation.outbox import Row
from gateway.conversation.records import Record
from gateway.conversation.uses import Listed, Used
from gateway.costs import spending
from gateway.costs.spending import Accounts, Charge, Spent
from gateway.events import Actor, Attachment, Event, ReplyHandle
from gateway.model_choice import chosen
from gateway.phrases import language_of
from gateway.platforms import Address, Part
from gateway.running.unbroken import unbroken
from workers.agent.moves import read_event
from workers.models import Occasion
from workers.prompt.context import begin_after, main_line
from workers.prompt.memo import Memo

SETTLE_WAIT_S: Final = 2.0
"""How long who wants to see what is settled waits for a Redis that does not answer."""
OF_THE_WHOLE: Final = frozenset({"id", "start", "at_ms", "to", "skills", "offered", "chosen", "counted", "branches"})
"""What a turn's state says for its branches as well."""


class Ended(Exception):
    """The turn ends with a notice to the person instead of an answer. `phrase` is a key of the phrase catalogue."""

    def __init__(self, phrase: str, **values: object) -> None:
        super().__init__(phrase)
        self.phrase = phrase
        self.rule = ""
        self.values = values

    def by(self, rule: str) -> Ended:
        """The same, with the key of the profile that says so."""
        self.rule = rule
        return self


class Parked(Exception):
    """The turn waits and gives its place to others meanwhile."""

    def __init__(self, wait_s: float, *, for_others: bool = False) -> None:
        """`for_others`: there is nothing that this worker could do here, whatever comes."""
        super().__init__(f"{wait_s:.1f} s")
        self.wait_s = wait_s
        self.for_others = for_others


@dataclass(slots=True)
class Turn:
    """One turn in the hands of a worker. All writing goes through it, so that memory and Redis stay the same."""

    mailbox: Mailbox
    claim: Claim
    stored: Stored
    profile: Profile
    state: dict[str, Any]
    """As stored: `id`, `chosen` (the model that people chose, if any), `start` (where its records begin in history), `at_ms`, `to` (where the reply goes, and the
    person's locale), `skills` (`Here.pin`: those that it works with, whoever goes on), and `model` (its failures in a row, since when, not to be asked before);
    `offered`: the hash of the skills that it is offered, where there are any; `counted`: among what its accounts have spent in turns; `branches`: by name, what a branch has otherwise than its turn.
    """
    live_rows: dict[str, Row] = field(default_factory=dict)
    """Messages of ours that show the growing answer."""
    rest: Callable[[], AbstractAsyncContextManager[Sequence[Row]]] | None = None
    """Nothing grows within it, and its rows finish what has grown: for a card that people are to find at the end."""
    before_talk: Callable[[], Awaitable[None]] | None = None
    """What has to happen before what people write meanwhile joins the turn. Raises `Lost`, `Unreachable`."""
    aside: Callable[[Sequence[bytes]], Awaitable[bool]] | None = None
    """Runs what in the inbox does not wait for the turn's end; whether there was anything. Raises `Lost`, `Unreachable`."""
    hear: Callable[[], Awaitable[bool]] | None = None
    """Takes what waits and answers a question that is open; whether there was anything. Raises `Lost`, `Unreachable`."""
    may_stop: Callable[[Event], Awaitable[bool]] | None = None
    """Whether who says /stop may end this turn. None: nobody asks. Raises `Unreachable`."""
    refuse: Callable[[Sequence[bytes]], Awaitable[None]] | None = None
    """Tells those whose /stop waits in control that it is not theirs to say. Raises `Lost`, `Unreachable`."""
    may_answer: Callable[[Event, str], Awaitable[bool]] | None = None
    """Whether what somebody writes may be the answer to a question that is asked on that person's behalf."""
    answers: Callable[[Event, Asked], Awaitable[None]] | None = None
    """Notes for good that what somebody writes is taken as the answer to that. Raises `Unreachable`."""
    branch: str = ""
    """Its name, where this is a branch of a turn (`workers.planning.branches`)."""
    trunk: Turn | None = None
    """Of a branch: the turn that it belongs to."""
    memo: Memo = field(default_factory=Memo)
    """Of the whole turn."""
    listed: Listed | None = None
    """Of the whole turn: the skills of its `offered`, as far as this worker knows them."""
    charges: list[Charge] = field(default_factory=list)
    """Of the whole turn: what is over and not on its way yet."""
    is_counted_now: bool = False
    """Of the whole turn: its state says since the last time that it was stored that the turn was counted."""
    near: dict[Limit, tuple[Accounts, int]] = field(default_factory=dict)
    """Of the whole turn: limits that hold here, with their accounts and what is spent of them, as far as is known."""
    looking: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One look at what waits at a time: several things of a turn may take theirs, and each command is run once."""
    news: asyncio.Event = field(init=False)
    """Somebody wrote meanwhile. A branch hears nothing of it: whoever looks after the whole turn does."""

    def __post_init__(self) -> None:
        self.news = asyncio.Event() if self.trunk else self.claim.news

    @property
    def id(self) -> str:
        return str(self.state["id"])

    @property
    def whole(self) -> Turn:
        """The turn that limits and costs count for: of a branch, the one that it belongs to."""
        return self.trunk or self

    @property
    def records(self) -> list[Record]:
        """Those of this turn, without its branches; of a branch, its own."""
        return main_line(self.all_records)

    @property
    def all_records(self) -> list[Record]:
        """Those of this turn, with its branches."""
        return self.stored.history.since(self.state["start"])

    @property
    def actor(self) -> Actor | None:
        """Who said the last of what this turn answers."""
        return self.actors[-1] if self.actors else None

    @property
    def actors(self) -> Sequence[Actor]:
        """All who said what this turn answers, in order."""
        return [event.actor for event in self.said]

    @property
    def payer(self) -> Actor | None:
        """For whom it is counted what this turn asks a model now: whoever wrote last. Who answers what the turn has asked helps
        it, and pays nothing.
        """
        answers = {
            key
            for record in self.whole.all_records
            if record.type in {"decided", "unclear"}
            for key in record.data.get("messages", ())
        }
        asked = [event.actor for event in self.said if event.dedupe_keys[0] not in answers]
        return asked[-1] if asked else self.actor

    @property
    def said(self) -> Sequence[Event]:
        """What this turn answers. Commands that were run beside it are none of that."""
        if self.trunk:
            return self.trunk.said
        try:
            said = [Event.of(record.data["event"]) for record in self.records if record.type == "event"]
        except ValueError:
            return ()
        return [event for event in said if said_to_model(event)] or said

    @property
    def language(self) -> Language:
        return language_of(self.profile.language, self.state["to"].get("locale"))

    @property
    def model(self) -> str | None:
        """That it began with, where people chose one and the profile still allows it; else the profile's own, if it has one."""
        name = self.whole.state.get("chosen")
        return name if name in self.profile.models else self.profile.model

    @property
    def address(self) -> Address:
        return address(self.stored, self.state["to"])

    @property
    def seconds_left(self) -> float:
        """Until the turn's limit of time. It does not count while all that is under way waits for people."""
        now_ms = self.now_ms()
        worked_ms = now_ms - int(self.state["at_ms"]) - waited_ms(self.whole.all_records, now_ms)
        return self.profile.limits.turn_s - worked_ms / 1000

    @property
    def accounts(self) -> Accounts:
        """Where it goes what this turn spends now."""
        return Accounts.under(self.profile, self.stored.key, self.payer, self.now_ms())

    @property
    def used(self) -> Used | None:
        """What it has used of skills, for the write that closes it."""
        return Used.of(self.all_records, str(self.state.get("offered", "")))

    def offer(self, listed: Listed) -> None:
        """The model is offered these skills. What it is offered first is what counts, and is stored when it is asked."""
        whole = self.whole
        if listed.ids and whole.state.setdefault("offered", listed.hash) == listed.hash:
            whole.listed = listed

    def now_ms(self) -> int:
        """The server's time."""
        return self.mailbox.now_ms()

    def occasion(self, step: int, purpose: str = "answer") -> Occasion:
        """Of a call of the model that is made for this turn."""
        keep_s = self.profile.kept_s(self.mailbox.settings.retention_s)
        return Occasion(self.stored.key.id, self.id, self.branch, step, purpose, keep_s)

    def row_key(self, part: int) -> str:
        """The same after a crash and after a lost tail, so that a platform with idempotency keys sees one message. What
        comes below a card that asked somebody is another one than what grew above it.
        """
        above = sum(one.type == "asked" and one.data.get("closes", False) for one in self.whole.all_records)
        return stable_key(self.stored.key.id, self.id, "part", str(part), *([str(above)] if above else []))

    def key(self, *parts: str) -> str:
        """Of something that is done once in this turn, or in this branch of it: the same whoever goes on."""
        return stable_key(self.id, *([self.branch] if self.branch else []), *parts)

    async def write(
        self,
        *records: Record,
        rows: Sequence[Row] = (),
        state: Literal["keep", "save", "close"] = "keep",
        finished_step: bool = False,
    ) -> None:
        """Append records and rows in one script. Raises `Lost`. Cancelled, it ends first: memory and Redis stay the same."""
        await unbroken(self._write(records, rows, state, finished_step=finished_step))

    async def _write(
        self,
        records: Sequence[Record],
        rows: Sequence[Row],
        state: Literal["keep", "save", "close"],
        *,
        finished_step: bool,
    ) -> None:
        was_counted = self.whole.is_counted_now  # it may be while this is written
        saves = state == "save" or (state == "keep" and was_counted)
        turn: Any = self._to_store() if saves else {"keep": None, "close": "close"}[state]
        stored = [replace(record, branch=self.branch) for record in records] if self.branch else records
        history = self.whole.stored.history
        begin = begin_after(stored, history.end)
        self._pay(is_end=state == "close")
        await self.mailbox.append(
            self.claim,
            records=stored,
            rows=rows,
            turn=turn,
            finished_step=finished_step,
            begin=begin,
            listed=self.whole.listed if state == "save" else None,
            used=self.used if state == "close" else None,
        )
        if was_counted:
            self.whole.is_counted_now = False
        history.extend(stored)
        if self.trunk:
            self.stored.history.extend(records)

    def pay(self) -> None:
        """What calls cost, and no write has taken along: for whoever lays the turn down, in whatever way."""
        self._pay(is_end=False)

    async def settle(self) -> None:
        """Now, and not with the next write."""
        if paying := self._pay(is_end=False):
            await asyncio.wait(paying, timeout=SETTLE_WAIT_S)

    def _pay(self, *, is_end: bool) -> list[asyncio.Task[None]]:
        """What calls cost is on its way to the server now, in front of a write that follows: it was spent, even if that fails
        because this worker has lost its claim. A figure is not worth a turn: nobody waits for it.
        """
        charges, self.whole.charges = self.whole.charges, []
        if is_end and not self.state.get("counted") and any(record.type == "call" for record in self.all_records):
            accounts = self.accounts
            if charges and charges[-1].accounts == accounts:
                charges[-1] = replace(charges[-1], counts=True)
            else:
                charges.append(Charge(accounts, Spent(), counts=True))
        if is_end and charges:
            charges[-1] = replace(charges[-1], ends=True)
        store, keep_ms = self.mailbox.store, self.mailbox.settings.retention_s * 1000
        named = [replace(one, turn=self.id, name=secrets.token_hex(6)) for one in charges]
        return [spending.see_to(store, one, conversation_ms=keep_ms) for one in named]

    def _to_store(self) -> dict[str, Any]:
        """The turn's state; a branch puts its own in there."""
        if self.trunk:
            own = {name: value for name, value in self.state.items() if name not in OF_THE_WHOLE}
            self.trunk.state.setdefault("branches", {})[self.branch] = own
        return self.whole.state

    async def take(
        self,
        members: Sequence[bytes] = (),
        control: Sequence[bytes] = (),
        *also: Record,
        rows: Sequence[Row] = (),
        withdrawn: Sequence[bytes] = (),
        refused: Sequence[bytes] = (),
    ) -> None:
        """Move waiting events into this turn, `also` after them; those `withdrawn`, and those `refused` of control, are for
        the record alone. Raises `Lost`.
        """
        unanswered = {**{one: event_of(one) for one in withdrawn}, **{one: one for one in refused}}
        await unbroken(self._take(members, control, also, rows, unanswered))

    async def _take(
        self,
        members: Sequence[bytes],
        control: Sequence[bytes],
        also: Sequence[Record],
        rows: Sequence[Row],
        unanswered: Mapping[bytes, bytes],
    ) -> None:
        """`unanswered`: events by what waits, in the inbox or in control."""
        await self.mailbox.take(
            self.claim,
            self.state,
            members=members,
            withdrawn=tuple(unanswered),
            control=len(control),
            records=also,
            rows=rows,
        )
        events = [("event", event) for event in [*control, *map(event_of, members)]]
        events += [("withdrawn", event) for event in unanswered.values()]
        gone = {*members, *unanswered}
        self.stored.inbox[:] = [one for one in self.stored.inbox if one not in gone]
        self.stored.history.extend(
            Record(kind, self.now_ms(), {"turn": self.id, "event": read_event(event)}) for kind, event in events
        )
        self.stored.history.extend(also)


def begin(mailbox: Mailbox, claim: Claim, stored: Stored, profile: Profile, first: Event) -> Turn:
    """A new turn for `first` and what is taken with it; nothing is written yet."""
    state = {
        "id": turn_id(first),
        "start": stored.history.end,
        "at_ms": mailbox.now_ms(),
        "to": reply_to(first),
    }
    if name := chosen(stored.history, profile):
        state["chosen"] = name
    return Turn(mailbox, claim, stored, profile, state)


def turn_id(first: Event) -> str:
    """The id of the turn that an event begins: the same whenever it is begun again."""
    return stable_key(*first.dedupe_keys[:1], first.conversation.id)


def reply_to(event: Event) -> dict[str, Any]:
    """Where an answer to it goes, as it is stored."""
    handle = event.reply_handle
    return {"extra": event.extra, "handle": asdict(handle) if handle else None, "locale": event.actor.language}


def without_handle(to: dict[str, Any]) -> dict[str, Any]:
    """The normal address alone: what came with a message to reply to is for the first part of the reply."""
    return {**to, "handle": None}


def leftover(mailbox: Mailbox, claim: Claim, stored: Stored, profile: Profile, row: Row) -> Turn:
    """The turn that a row belongs to, when it is closed and only the sending is left."""
    state = {"id": row.turn, "start": stored.history.end, "at_ms": row.made_ms, "to": row.to}
    return Turn(mailbox, claim, stored, profile, state)


def address(stored: Stored, to: dict[str, Any]) -> Address:
    handle = to.get("handle")
    return Address(stored.key, to.get("extra") or {}, ReplyHandle.of(handle) if handle else None)


def rows_for(turn: Turn, parts: Sequence[Part]) -> list[Row]:
    """The outbox rows of a reply. A live message of the same key becomes the reply by an edit."""
    rows = []
    for number, part in enumerate(parts):
        key = turn.row_key(number)
        live = None if part.only_for else turn.live_rows.get(key)
        rows.append(
            Row(
                key=key,
                turn=turn.id,
                order=number,
                part=part_body(part),
                to=turn.state["to"] if number == 0 else without_handle(turn.state["to"]),
                made_ms=turn.now_ms(),
                state="sending" if live and live.ref is None else "pending",  # is the live one there? nobody knows
                since_ms=live.since_ms if live else 0,
                ref=live.ref if live else None,
            )
        )
    return rows


def part_body(part: Part) -> dict[str, Any]:
    """As a row keeps it; `part_of` gives it back."""
    body: dict[str, Any] = {"payload": part.payload, "fallback": part.fallback}
    if part.only_for:
        body["only_for"] = part.only_for
    if part.file:
        body["file"] = part.file.dump()
    return body


def part_of(body: dict[str, Any]) -> Part:
    file = body.get("file")
    return Part(body["payload"], body.get("fallback"), body.get("only_for"), Attachment.of(file) if file else None)


def stable_key(*parts: str) -> str:
    """24 characters of `a-z2-7`: a hash over length-prefixed parts."""
    hashed = hashlib.sha256()
    for part in parts:
        raw = part.encode()
        hashed.update(b"%d:" % len(raw) + raw)
    return base64.b32encode(hashed.digest()).decode().lower()[:24]
