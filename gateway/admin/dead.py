"""Dead letters: turns that were given up, and parts of replies that did not arrive; asking once more, or letting go."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from gateway.acts.letter_acts import LetterActs
from gateway.acts.letter_answers import dropped, retried, why
from gateway.admin.conversations import tell_read
from gateway.admin.operations import SOMEWHERE, Act, Anywhere, Input, Result, Told, operation
from gateway.admin.transcript import TranscriptLine, said_in
from gateway.admin.visits import Visit
from gateway.conversation.key import ConversationKey
from gateway.conversation.letters import Letter, done_in, letters
from gateway.rights.access import Here

LOOKED_AT_MAX: Final = 1_000

Id = Annotated[str, Field(pattern=r"^[0-9]{1,4}-[0-9]{1,16}-[0-9]{1,16}$")]


class LettersWanted(Input):
    most: Annotated[int, Field(ge=1, le=500)] = 100


class Dead(Result):
    """A turn that was given up, or of whose reply parts did not arrive. One a turn, whatever else went wrong in it."""

    id: str
    channel: str
    """`connection/channel`; empty: somebody's own conversation, or one that is forgotten."""
    conversation: str
    turn: str
    reason: str
    """What went wrong first."""
    why: str
    """All that went wrong, in words."""
    at_ms: int
    """When something did last."""
    is_kept: bool
    """Whether its conversation is still there; else nothing can be asked once more."""
    may_show: bool
    """Whether you may read what was said."""
    may_retry: bool
    may_drop: bool


class AllDead(Result):
    letters: list[Dead]
    """The latest first."""
    is_whole: bool
    """Whether these are all; there may be too many to tell."""


@operation(SOMEWHERE)
async def list_(visit: Visit, given: LettersWanted) -> AllDead:
    """The dead letters of all channels that you look after."""
    found = await letters(visit.house.store, LOOKED_AT_MAX)
    mine = await of_mine(visit, found)
    heres = {room: await visit.now(key) for room, key in {room_of(one): _room(one) for one in mine}.items() if key}
    return AllDead(
        letters=[_dead(visit, one, heres.get(room_of(one))) for one in mine[: given.most]],
        is_whole=len(mine) <= given.most and len(found) < LOOKED_AT_MAX,
    )


class OneLetter(Anywhere):
    letter: Id


class ShownLetter(Result):
    letter: Dead
    said: list[TranscriptLine]
    """What was said and done in its turn, in its order; empty: it is not kept any more."""


@operation(Act("conversation show", "letter"))
async def show(visit: Visit, given: OneLetter) -> ShownLetter:
    """One dead letter, with what was said and done in its turn. Who reads it stands in the audit log, as with conversations."""
    acts = visit.acts(given.channel)
    here, _ = await acts.may("conversation show")
    found = await LetterActs(acts, visit.house.mailbox).find(given.letter, here)
    await tell_read(visit, given.channel, found.conversation)
    records = await done_in(visit.house.store, found)
    said = [one for place, record in enumerate(records) for one in said_in(place, found.turn, record, visit.language)]
    key = _room(found)
    return ShownLetter(letter=_dead(visit, found, await visit.now(key) if key else None), said=said)


@operation(Act("dead retry", "letter"), is_safe=False)
async def retry(visit: Visit, given: OneLetter) -> Told:
    """Ask once more what the turn of a dead letter answered: it is a new turn, by the same people with the rights that they have now.

    The letter is gone with that, so that it happens once.
    """
    was = await LetterActs(visit.acts(given.channel), visit.house.mailbox).retry(given.letter)
    return Told(told=retried(was, visit.language))


@operation(Act("dead drop", "letter"), is_safe=False)
async def drop(visit: Visit, given: OneLetter) -> Told:
    """Take a dead letter off the list. What was said stays in its conversation."""
    was = await LetterActs(visit.acts(given.channel), visit.house.mailbox).drop(given.letter)
    return Told(told=dropped(was, visit.language))


async def of_mine(visit: Visit, found: list[Letter]) -> list[Letter]:
    """Those of channels that this person looks after; for who looks after all, all."""
    if visit.sees_all:
        return found
    rooms = {room_of(one): key for one in found if (key := _room(one))}
    mine = {one.channel_id for one in await visit.mine(rooms.values())}
    return [one for one in found if (key := _room(one)) and key.channel_id in mine]


def room_of(one: Letter) -> str:
    """`connection/channel`; empty: somebody's own conversation, or one that is forgotten."""
    key = _room(one)
    return f"{key.connection}/{key.channel}" if key else ""


def _room(one: Letter) -> ConversationKey | None:
    return ConversationKey(one.key.connection, one.key.channel) if one.key and one.key.channel else None


def _dead(visit: Visit, one: Letter, here: Here | None) -> Dead:
    may = [
        visit.may_here(command, here or visit.organisation)
        for command in ("conversation show", "dead retry", "dead drop")
    ]
    return Dead(
        id=one.id,
        channel=room_of(one),
        conversation=one.conversation,
        turn=one.turn,
        reason=one.reason,
        why=why(one, visit.language),
        at_ms=one.at_ms,
        is_kept=one.key is not None,
        may_show=may[0] and one.key is not None,
        may_retry=may[1] and one.key is not None,
        may_drop=may[2],
    )
