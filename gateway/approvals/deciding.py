"""Deciding: a person's word on what the agent asks, by a command or by the button that carries it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gateway.acting import acts_of, refused
from gateway.acts import answers
from gateway.acts.outcomes import Refusal
from gateway.acts.skill_acts import not_for
from gateway.approvals.asked import (
    COMMANDS,
    TEXT_MAX,
    Asked,
    Word,
    answer_line,
    asked_in,
    decided,
    is_always,
    key_of,
    open_in,
    unclear_of,
)
from gateway.audit.log import Change
from gateway.commands import Done, Said
from gateway.conversation.records import Record
from gateway.events import Actor
from gateway.phrases import LANGUAGES, say
from gateway.rights.access import Approval, Here, Reply, Verdict, may
from gateway.rights.roles import named, person_of
from gateway.text.quoting import few, quoted


async def decide(said: Said, word: Word) -> Done:
    """`CODE` and what follows it: one word on one request, in this conversation or another one of the channel."""
    code, _, rest = said.rest.partition(" ")
    code, rest, language = code.upper(), rest.strip()[:TEXT_MAX], said.language
    here = asked_in([*said.history, *said.open])
    if not code:
        codes = ", ".join(f"`{one.code}`" for one in open_in(said.open))
        return Done(say("asked.which", language, codes=codes) if codes else say("asked.nothing", language))
    asked = next((one for one in reversed(here) if one.code == code), None)
    if asked is None:
        match await said.outside.pass_on(said.event, code):
            case "there":
                if said.event.kind == "action":
                    return Done("")  # it is answered there, and whoever presses sees what came of it
                return Done(say("asked.passed", language, code=code), is_private=True)
            case "no_room":
                return Done(say("asked.no_room", language, code=code), is_private=True, is_settled=False)
            case "nowhere":
                return Done(say("asked.unknown", language, code=quoted(code, 20)))
    if asked.word:
        return Done(say(f"asked.was.{asked.word}", language, code=code, who=_who(asked)), is_private=True)
    if asked not in open_in(said.open):  # its turn has ended
        return Done(say("asked.over", language, code=code), is_private=True)
    return await _word(said, asked, word, rest)


async def _word(said: Said, asked: Asked, word: Word, rest: str) -> Done:
    actor, language = said.event.actor, said.language
    if asked.until_ms <= said.now_ms:
        return Done(say("asked.over", language, code=asked.code), is_private=True)
    place = await said.outside.shelf.here(said.event.conversation, said.outside.loaded)
    if asked.kind == "question" or (asked.kind == "plan" and word == "answer"):
        if word != "answer":
            return Done(say("asked.is_question", language, code=asked.code), is_settled=False)
        verdict = may(actor, place, Reply(asked.requester))
        if not verdict.allowed:
            is_bot = verdict.reason == "nobody"
            told = say("asked.no_bot", language) if is_bot else _may_not(said, asked, place, word, verdict)
            return Done(told, is_private=True, is_settled=False)
        done = _answer(said, asked, rest)
        if done.records:
            await _note(said, place, asked, verdict, answer_line(asked))
        return done
    if word == "answer":
        return Done(say("asked.is_approval", language, code=asked.code), is_settled=False)
    verdict = may(actor, place, Approval(asked.requester))
    if not verdict.allowed:
        return Done(_may_not(said, asked, place, word, verdict), is_private=True, is_settled=False)
    if word == "yes" and is_always(rest, language):
        return await _always(said, asked, place, verdict)
    await _note(said, place, asked, verdict, _line(asked, word))
    return _decided(said, asked, word, rest)


def _may_not(said: Said, asked: Asked, place: Here, word: Word, verdict: Verdict) -> str:
    """What this person would have to be, and, of a call or a plan, who may say the word."""
    language = said.language
    why = answers.refused(not_for(place, said.event.actor, COMMANDS[word], verdict, "approver"), language)
    lines = [say("asked.no_right", language, code=asked.code, why=why)]
    if word != "answer":
        given = named(place)
        people = [*given["approver"], *given["owner"]]
        if asked.requester and place.profile.approvals.own:
            people.append(person_of(place.room, Actor.by_id(asked.requester)))
        who = few([quoted(one) for one in dict.fromkeys(people)], answers.LINES_MAX, language)
        lines.append(say("asked.who_may", language, who=", ".join(who) or say("skill.added.nobody", language)))
    return "\n".join(lines)


def _line(asked: Asked, word: Word) -> tuple[str, str]:
    return f"approval {word}", f"{asked.code} {asked.tool or asked.kind} {asked.bound[:12]}".strip()


async def _note(said: Said, place: Here, asked: Asked, verdict: Verdict, line: tuple[str, str]) -> None:
    """In the audit log, before it counts."""
    who = person_of(place.room, said.event.actor)
    change = Change(f"{said.turn} {asked.code}", who, place.room, place.channel_id, verdict.rule)
    await said.outside.shelf.note(change, *line)


async def _always(said: Said, asked: Asked, place: Here, verdict: Verdict) -> Done:
    """A yes to this call and to each one like it, to the letter, which takes an approver."""
    if not asked.form:
        return Done(say("asked.not_always", said.language, code=asked.code), is_private=True, is_settled=False)
    acts = acts_of(said)
    try:
        await acts.allow_always(asked.bound, asked.tool, asked.form)
    except Refusal as refusal:
        await acts.refused("approve always", asked.tool, refusal)
        return replace(refused(refusal, said.language), is_settled=False)
    await _note(said, place, asked, verdict, _line(asked, "yes"))
    done = _decided(said, asked, "yes", "always")
    told = say("asked.now.always", said.language, code=asked.code, who=_by(said), tool=quoted(asked.tool))
    return replace(done, text=told)


def _answer(said: Said, asked: Asked, rest: str) -> Done:
    """What stands behind the code, with the files that came along; if that is nothing, what this person wrote before and
    nobody could tell what it answers.
    """
    event = said.event
    if event.attachments:
        return _decided(said, asked, "answer", rest, event.dedupe_keys[:1])
    if rest:
        return _decided(said, asked, "answer", _chosen(asked, rest))
    before = unclear_of(said.open, event.actor.id)
    if not before:
        return Done(say("asked.no_answer", said.language, code=asked.code), is_private=True, is_settled=False)
    text = "\n".join(str(one.data["event"].get("text", "")) for one in before)[:TEXT_MAX]
    return _decided(said, asked, "answer", text, [key_of(one) for one in before])


def _decided(said: Said, asked: Asked, word: Word, text: str, messages: Sequence[str] = ()) -> Done:
    actor = said.event.actor
    record = decided(asked, word, said.now_ms, turn=said.turn, by=actor, text=text, messages=messages)
    return Done(say(f"asked.now.{word}", said.language, code=asked.code, who=_by(said)), (record,))


def _by(said: Said) -> str:
    actor = said.event.actor
    return quoted(actor.name or actor.id, 80)


def plainly(text: str, word: Word) -> bool:
    """Whether somebody just said yes, or no, in one of the words for it."""
    words = {one for language in LANGUAGES for one in say(f"words.{word}", language).split()}
    return "".join(filter(str.isalnum, text.casefold())) in words


def wants_word(said: str, records: Sequence[Record]) -> bool:
    """Whether this is a plain yes or no while calls wait for a word, and nothing waits that it could answer.

    Such a word never decides on a call: it says neither which nor that the call was read, and anything may have brought it.
    """
    kinds = {one.kind for one in open_in(records)}
    return kinds == {"approval"} and (plainly(said, "yes") or plainly(said, "no"))


async def told_how(said: Said) -> Done:
    """The answer to a plain yes or no: what to type, or the rule by which this person may not."""
    waiting, language = open_in(said.open), said.language
    place = await said.outside.shelf.here(said.event.conversation, said.outside.loaded)
    for one in waiting:
        verdict = may(said.event.actor, place, Approval(one.requester))
        if not verdict.allowed:
            return Done(_may_not(said, one, place, "yes", verdict), is_private=True)
    ways = "\n".join("- " + say("asked.approval.how", language, code=one.code) for one in waiting)
    return Done(say("asked.plain_word", language, ways=ways))


def _chosen(asked: Asked, rest: str) -> str:
    """The choice whose number was said, else what was said."""
    number = int(rest) if rest.isascii() and rest.isdigit() and len(rest) < 4 else 0
    return asked.choices[number - 1] if 0 < number <= len(asked.choices) else rest


def _who(asked: Asked) -> str:
    return quoted(asked.name or asked.by, 80) if asked.by else "–"
