"""Intake: which events become work, and one line in the log for each."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Literal

from config.profiles import Profile, Rate
from config.rules import rule_of
from config.watching import Watched
from gateway import loop_guard
from gateway.bell import Bell
from gateway.commands import OVER, command_of, find
from gateway.connections import direct_policy
from gateway.conversation.albums import join
from gateway.conversation.mailbox import Mailbox
from gateway.conversation.overheard import hear
from gateway.costs.rates import Over, take
from gateway.events import Event
from gateway.files import Files
from gateway.logs import log, log_soon
from gateway.once import Once
from gateway.rights.pairing import Pairing, knock
from gateway.rights.places import place
from gateway.store import Unreachable

logger = logging.getLogger(__name__)

NO_RATE: Final = Rate()
GROUP_MS: Final = 1_000
"""How long an album waits for its next picture."""


@dataclass(frozen=True, slots=True)
class Received:
    """What became of one event."""

    state: Literal["new", "known", "full", "cold", "away", "ignored", "over", "late"]
    """`over`: one message too many; `late`: it was said long ago. `away`: nobody knows whether it was stored; then it is known."""
    reason: str = ""

    @property
    def comes_again(self) -> bool:
        """It is not stored, nor is what would be told of it: the platform has to send it again."""
        return self.state in {"full", "cold", "away"}


class Intake:
    """One a gateway process."""

    def __init__(self, mailbox: Mailbox, bell: Bell, watched: Watched) -> None:
        self._mailbox = mailbox
        self._bell = bell
        self._watched = watched
        self._files = Files(mailbox.store)
        self._pairing = Pairing(mailbox.store)

    async def receive(self, events: Sequence[Event]) -> list[Received]:
        """Put the events of one delivery into their mailboxes, in their order. Raises `Unreachable`.

        It ends with the first that can't be stored now: the platform sends all again, and the stored ones are known.
        """
        received: list[Received] = []
        for at, event in enumerate(events):
            try:
                one = await self._receive(event)
            except (Unreachable, asyncio.CancelledError):
                _tell(events[at:], Received("away", "redis did not answer in time"))
                raise
            _tell([event], one)
            received.append(one)
            if one.comes_again:
                _tell(events[at + 1 :], Received("away", "one before it could not be stored"))
                break
        return received

    async def _receive(self, event: Event) -> Received:
        key = event.conversation
        profile = self._watched.latest().profile_for(key.connection, key.channel)
        if reason := _why_not(event, profile):
            return Received("ignored", reason)
        before: list[Event] = []
        is_ours = event.addressed or await self._is_for_us(event, profile)
        if why := await self._why_unheard(event, profile):  # before any of it is kept, for an album or to be overheard
            return await self._unheard(event, profile, why, is_ours=is_ours)
        if event.group and not event.actor.is_bot:
            is_ours, before = await join(self._mailbox.store, event, is_ours=is_ours)
        if not is_ours:
            return await self._not_ours(event, profile)
        if not_taken := await self._not_taken(event, profile):
            return not_taken
        for one in before:
            if (received := await self._accept(one, profile)).comes_again:
                return received  # the platform sends again, and they are asked for again
        return await self._accept(event, profile)

    async def _not_taken(self, event: Event, profile: Profile) -> Received | None:
        """What becomes of a message for us that is not to be read. None: it is. Nothing here counts what is known already."""
        late_s, is_rated = self._late_s(event), self._is_rated(event, profile)
        if not (event.actor.is_bot or late_s or is_rated):
            return None
        if known := await self._known(event):
            return known
        if event.actor.is_bot and not await self._passes(event, profile):
            return Received("ignored", "the loop guard: too many turns of this bot in a minute")
        if late_s:
            return await self._too_late(event, late_s, profile)
        if is_rated and (over := await take(self._mailbox.store, event, profile.rate)):
            return await self._too_many(event, over, profile)
        return None

    async def _too_many(self, event: Event, over: Over, profile: Profile) -> Received:
        """Nothing of what it said is kept. That there was one too many is, the first time in a minute, and told."""
        told = await self._told_once(over.once, event, too_many(event, over), profile)
        if told and told.comes_again:
            return told
        rule = rule_of(self._watched.latest(), profile, over.key)
        return Received("over", f"more than {over.limit} messages of this {over.scope} in a minute: {rule}")

    async def _too_late(self, event: Event, late_s: int, profile: Profile) -> Received:
        """Nothing of what it said is kept. That something came too late is, once in a conversation, and told."""
        told = await self._accept(too_late(event, late_s), profile)
        if told.comes_again:
            return told
        return Received("late", f"said {late_s} s ago: mailbox.late_after_s")

    async def _told_once(self, once: Once, event: Event, notice: Event, profile: Profile) -> Received | None:
        """Store what tells of an event in its place, if it is time to. None: it was told not long ago."""
        store = self._mailbox.store
        match await once.begin(store, event):
            case "told":
                return None
            case "wait":
                return Received("away", "what is told of the one before it is not stored yet")
        received = await self._accept(notice, profile)
        if received.state == "new":
            await once.told(store)
        else:
            await once.leave(store, event)
        return received

    async def _known(self, event: Event) -> Received | None:
        """What becomes of an event that came before, or can't be taken at all. None: it is asked further."""
        state = await self._mailbox.known(event.conversation, event.dedupe_keys)
        return None if state == "new" else Received(state)

    async def _not_ours(self, event: Event, profile: Profile) -> Received:
        if profile.overhear and not event.actor.is_bot and event.text.strip() and not event.is_empty:
            with suppress(Unreachable):  # nobody has to know it
                await hear(self._mailbox.store, event, profile.overhear)
        return Received("ignored", "not addressed")

    async def _unheard(self, event: Event, profile: Profile, why: str, *, is_ours: bool) -> Received:
        """That somebody knocked is all that is stored, once in a while."""
        here = place(self._watched.latest(), event.conversation)
        ignored = Received("ignored", f"not heard: {why}")
        if not is_ours:
            return ignored
        if known := await self._known(event):
            return known
        return await self._told_once(self._pairing.telling(here, event.actor), event, knock(event), profile) or ignored

    async def _accept(self, event: Event, profile: Profile) -> Received:
        key = event.conversation
        event = await self._files.put_away(event)
        accepted = await self._mailbox.accept(
            key,
            event.dump(),
            dedupe_keys=event.dedupe_keys,
            at_ms=event.at_ms,
            control=_overtakes(event),
            delay_ms=0 if command_of(event) else self._delay_ms(event, profile),
        )
        if accepted.ring:
            self._bell.ring(self._mailbox.store.layout.partition(key.id))
        return Received(accepted.state)

    async def _why_unheard(self, event: Event, profile: Profile) -> str:
        """Why nobody answers this person here. Most rooms are open to all who can write there: nothing is to be asked."""
        key, loaded = event.conversation, self._watched.latest()
        is_shut = event.is_direct and direct_policy(loaded, profile, key.connection) != "open"
        if event.actor.id and not is_shut and profile.guests != "nothing":
            return ""
        verdict = await self._pairing.heard(place(loaded, key), event.actor, is_direct=event.is_direct)
        return "" if verdict.allowed else verdict.rule

    async def _is_for_us(self, event: Event, profile: Profile) -> bool:
        """Of a message that does not say so by itself. What a bot says is for us only if it says so."""
        key = event.conversation
        if event.actor.is_bot:
            return not profile.needs_mention
        if not profile.needs_mention:
            return True
        if key.thread and profile.thread_follow and await self._mailbox.has_answered(key):
            return True
        return bool(event.parent_id) and await self._mailbox.is_ours(key, event.parent_id)

    async def _passes(self, event: Event, profile: Profile) -> bool:
        store = self._mailbox.store
        once = await loop_guard.too_many(store, event, profile.bot_turns_per_minute)
        if once and await once.begin(store, event) == "tell":
            key, bot = event.conversation, event.actor.id
            log(logger, "loop guard", logging.WARNING, connection=key.connection, channel=key.channel, bot=bot)
            await once.told(store)
        return once is None

    def _is_rated(self, event: Event, profile: Profile) -> bool:
        """Whether it counts. Bots have a limit of their own; what stops a turn is for when much goes on."""
        return not event.actor.is_bot and profile.rate != NO_RATE and not _overtakes(event)

    def _late_s(self, event: Event) -> int:
        """How old it is, if that is too old."""
        most_s = self._mailbox.settings.late_after_s
        age_s = (self._mailbox.now_ms() - event.at_ms) // 1_000
        return age_s if most_s and age_s > most_s else 0

    def _delay_ms(self, event: Event, profile: Profile) -> int:
        delay_ms = profile.queue.gather_ms or self._mailbox.settings.hold_back_ms
        return max(delay_ms, GROUP_MS) if event.group else delay_ms


def too_many(event: Event, over: Over) -> Event:
    """What is stored in its place: nothing of what it said is read, and that is told. Whoever sends the same once more, when there
    is room again, is heard.
    """
    return _in_place_of(event, f"{over.scope} {over.limit}")


def too_late(event: Event, late_s: int) -> Event:
    """What is stored in its place, once in a conversation: those that were late before it have told it already."""
    once = f"late:{event.conversation.id}"
    told = _in_place_of(event, f"late {late_s // 3_600}")
    return replace(told, dedupe_keys=(*told.dedupe_keys, once))


def _in_place_of(event: Event, said: str) -> Event:
    """By another name: the message itself is not known by it."""
    names = tuple(f"{OVER} {key}" for key in event.dedupe_keys)
    told = replace(event, kind="command", name=OVER, text=said, dedupe_keys=names)
    return replace(told, value="", quoted="", forwarded="", group="", attachments=())


def _overtakes(event: Event) -> bool:
    """A command for when much goes on."""
    command = command_of(event)
    known = find(command[0]) if command else None
    return bool(known and known.WHEN_BUSY == "overtakes")


def _why_not(event: Event, profile: Profile) -> str:
    """Why an event is none of our business. An ignored event leaves no trace: a later copy may be for us."""
    if event.actor.is_self:
        return "own message"
    if event.odd_id:  # webhooks refuse it as malformed; what we listen to has nobody to refuse it to
        return "an id that looks like another"
    if event.actor.is_bot and profile.other_bots == "ignore":
        return "another bot"
    if event.kind == "action" and not command_of(event):
        return "not a button of ours"
    if event.kind not in {"message", "command", "action"}:
        return f"{event.kind} events have no effect"
    return ""


def _tell(events: Sequence[Event], became: Received) -> None:
    why = {"reason": became.reason} if became.reason else {}
    for event in events:
        log_soon(
            logger,
            "message",
            outcome=became.state,
            **why,
            connection=event.conversation.connection,
            channel=event.conversation.channel,
            conversation=event.conversation.id,
            message=event.message_id,
            kind=event.kind,
        )
