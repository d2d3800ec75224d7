"""/pair: let somebody in who wrote to us directly. It is also what is left of whatever somebody writes who is not heard:
they are told why, and get a code.
"""

from __future__ import annotations

from gateway.acting import acts_of, refused
from gateway.acts.outcomes import Refusal
from gateway.acts.pair_acts import PairActs
from gateway.commands import Done, Said, WhenBusy, misused
from gateway.phrases import say
from gateway.rights.pairing import is_code, shown
from gateway.rights.roles import typed_person
from gateway.text.durations import duration
from gateway.text.quoting import few, quoted

WHEN_BUSY: WhenBusy = "beside"

NAMED_MAX = 20


async def run(said: Said) -> Done:
    acts = PairActs(acts_of(said), said.outside.loaded)
    here = await acts.acts.by.here()
    event, language = said.event, said.language
    verdict = await said.outside.shelf.pairing.heard(here, event.actor, is_direct=event.is_direct)
    if not verdict.allowed:
        return await _unheard(said, acts, verdict.reason)
    words = said.rest.split()
    try:
        match words:
            case []:
                told = await _listed(acts, said)
                if event.is_direct or said.outside.capabilities.ephemeral:
                    return Done(told, is_private=True)
                return Done(say("pair.list_private", language))  # everybody in the channel would read it
            case [what, who] if what.lower() == "end":
                done = await acts.end(typed_person(who, event.conversation.connection) or who)
                return Done(say("pair.ended" if done else "pair.ended.was", language, who=quoted(who)))
            case [_] | [_, _] if is_code("".join(words)):  # read out in two halves
                waits = await acts.accept("".join(words))
                return Done(say("pair.accepted", language, who=quoted(waits.person), name=quoted(waits.name or "–")))
    except Refusal as refusal:
        command = str(refusal.values.get("command", "pair accept"))
        await acts.acts.refused(command, " ".join(words[1:]) if command == "pair end" else "", refusal)
        if refusal.kind.startswith("pair."):
            return Done(say(refusal.kind, language), is_private=True)
        return refused(refusal, language)
    return misused("pair", language)


async def _unheard(said: Said, acts: PairActs, reason: str) -> Done:
    """Whom nobody knows gets a code; others hear why they get none. The same again while the code counts."""
    language = said.language
    if reason != "unpaired":
        return Done(say("pair.guests" if reason == "guests" else "pair.closed", language))
    ask = await said.outside.shelf.pairing.ask(await acts.acts.by.here(), said.event)
    if ask.state in {"new", "waits"}:
        return Done(say("pair.code", language, code=shown(ask.code), minutes=max(1, round(ask.left_ms / 60_000))))
    return Done(say("pair.known" if ask.state == "paired" else f"pair.{ask.state}", language))


async def _listed(acts: PairActs, said: Said) -> str:
    language = said.language
    waiting = await acts.waiting()
    if not waiting:
        return say("pair.nobody", language)
    lines = [
        say(
            "pair.waiting.line",
            language,
            who=quoted(one.person),
            name=quoted(one.name or "–", 80),
            ago=duration(max(0, said.now_ms - one.at_ms), language),
        )
        for one in waiting
    ]
    return "\n".join([say("pair.waiting", language), *few(lines, NAMED_MAX, language)])
