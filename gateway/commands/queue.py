"""/queue: what waits in this conversation, in its order; /queue clear: take back what one has written oneself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.acting import acts_of, refused
from gateway.acts.outcomes import Refusal
from gateway.commands import Done, Said, WhenBusy, misused
from gateway.conversation.mailbox import event_of
from gateway.events import Event
from gateway.phrases import say
from gateway.text.durations import duration
from gateway.text.quoting import few, quoted

WHEN_BUSY: WhenBusy = "beside"

NAMED_MAX: Final = 20
WORDS_CHARACTERS: Final = 60
CLEAR_ALL: Final = "queue clear all"


async def run(said: Said) -> Done:
    match said.rest.lower().split():
        case []:
            return Done(_list(said))
        case ["clear"]:
            return _clear(said, [one for one in _sooner(said) if _who(one) == said.event.actor.id])
        case ["clear", "all"]:
            acts = acts_of(said)
            try:
                await acts.may(CLEAR_ALL)
            except Refusal as refusal:
                await acts.refused(CLEAR_ALL, "messages", refusal)
                return refused(refusal, said.language)
            return _clear(said, _sooner(said))
    return misused("queue", said.language)


def _list(said: Said) -> str:
    key, language = said.event.conversation, said.language
    mode = say(f"queue.mode.{said.outside.loaded.profile_for(key.connection, key.channel).queue.mode}", language)
    if not said.inbox:
        return f"{say('queue.empty', language)} {mode}"
    lines = [f"{number}. {_line(one, said)}" for number, one in enumerate(said.inbox, 1)]
    head = say("queue.head", language, count=len(lines))
    return "\n".join([head, *few(lines, NAMED_MAX, language), "", mode])


def _clear(said: Said, members: Sequence[bytes]) -> Done:
    if not members:
        return Done(say("queue.none_cleared", said.language))
    lines = [f"- {_line(one, said)}" for one in members]
    return Done("\n".join([say("queue.cleared", said.language), *lines]), withdrawn=tuple(members))


def _sooner(said: Said) -> Sequence[bytes]:
    """What was said later was said knowing of this."""
    return said.inbox[: said.before]


def _who(member: bytes) -> str | None:
    event = _event(member)
    return event.actor.id if event and event.actor.id else None


def _line(member: bytes, said: Said) -> str:
    event = _event(member)
    if event is None:
        return say("queue.unreadable", said.language)
    files = ", ".join(file.name for file in event.attachments)
    text = {"command": f"/{event.name} {event.text}", "action": f"/{event.value}"}.get(event.kind, event.text)
    return say(
        "queue.line",
        said.language,
        who=quoted(event.actor.name or event.actor.id or "?", WORDS_CHARACTERS),
        words=quoted(text.strip() or files or "…", WORDS_CHARACTERS),
        ago=duration(said.now_ms - event.at_ms, said.language),
    )


def _event(member: bytes) -> Event | None:
    try:
        return Event.load(event_of(member))
    except ValueError:
        return None
