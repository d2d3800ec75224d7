"""/skill: which skills there are here, and what people decide about them and their notes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from config.checks import nearest
from gateway.acting import acts_of
from gateway.acts import answers
from gateway.acts.note_acts import NoteActs
from gateway.acts.outcomes import Outcome, Refusal
from gateway.acts.skill_acts import EVERYWHERE, Acts
from gateway.commands import Done, Said, WhenBusy
from gateway.commands.skill import listing
from gateway.events import Attachment
from gateway.phrases import say
from gateway.platforms import NotDownloaded
from gateway.rights.access import CommandUse, may
from gateway.rights.roles import person_of
from gateway.text.quoting import quoted
from skills import ids
from skills.folders import BUNDLE_MAX_BYTES

WHEN_BUSY: WhenBusy = "beside"

ZIPS_MAX: Final = 5
"""In one message."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a subcommand works with."""

    said: Said
    acts: Acts
    words: tuple[str, ...]

    @property
    def language(self) -> str:
        return self.said.language

    @property
    def where(self) -> Acts:
        """For the channel, or, with a last word, for the whole organisation."""
        return acts_of(self.said, everywhere=True) if self.words[1:] else self.acts

    @property
    def notes(self) -> NoteActs:
        return NoteActs(self.acts, self.said.outside.notes)


@dataclass(frozen=True, slots=True)
class _Sub:
    """A subcommand: what it does, and how many words follow it."""

    run: Callable[[_Asked], Awaitable[Outcome | str]]
    """What came of it, or an answer of its own."""
    least: int = 0
    most: int = 0
    last: str = ""
    """What the last of them has to be, where there are `most`."""

    def fits(self, words: Sequence[str]) -> bool:
        is_last = not self.last or len(words) < self.most or words[-1].lower() == self.last
        return self.least <= len(words) <= self.most and is_last


async def run(said: Said) -> Done:
    words = tuple(said.rest.split())
    name = ids.key(words[0]) if words else ""
    name, words = (f"notes {ids.key(words[1])}", words[2:]) if name == "notes" and words[1:] else (name, words[1:])
    acts = acts_of(said)
    if not name:
        return Done(await _usage(said, acts))
    name = ALSO.get(name, name)
    sub = SUBS.get(name)
    if sub is None:
        known = [one for one in (*SUBS, *ALSO) if one.startswith("notes ") == name.startswith("notes ")]
        near = nearest(name, known)
        return Done(_no_such(name, ALSO.get(near, near) if near else None, said.language))
    if not sub.fits(words):
        return Done(say("skill.words", said.language, usage=use_of(name, said.language)))
    try:
        done = await sub.run(_Asked(said, acts, words))
    except Refusal as refusal:
        await acts.refused(f"skill {name}", " ".join(words), refusal)
        return Done(
            answers.refused(refusal, said.language),
            is_private=refusal.kind in {"role", "guest", "hidden", "hidden_file"},
            is_settled=refusal.kind in {"no_note", "note_decided"},
        )
    return Done(done if isinstance(done, str) else answers.told(done, said.language))


def right_of(name: str) -> str:
    """The command of `access.COMMANDS` whose right a subcommand takes."""
    return "skill notes list" if name == "notes" else f"skill {name}"


def use_of(name: str, language: str) -> str:
    """How a subcommand is written, and what it does."""
    return say(f"skill.use.{name.replace(' ', '_')}", language)


async def _usage(said: Said, acts: Acts) -> str:
    here = await acts.by.here()
    allowed = [may(said.event.actor, here, CommandUse(right_of(name))).allowed for name in SUBS]
    mine = [f"- {use_of(name, said.language)}" for name, is_mine in zip(SUBS, allowed, strict=True) if is_mine]
    others = [f"`{name}`" for name, is_mine in zip(SUBS, allowed, strict=True) if not is_mine]
    lines = [say("skill.usage", said.language, commands="\n".join(mine))]
    lines += [say("skill.usage.others", said.language, commands=", ".join(others))] if others else []
    if said.event.actor:
        lines.append(say("skill.usage.you", said.language, who=quoted(person_of(here.room, said.event.actor))))
    return "\n\n".join(lines)


def _no_such(name: str, near: str | None, language: str) -> str:
    if near is None:
        return say("skill.no_such", language, name=quoted(name), commands=", ".join(f"`{one}`" for one in SUBS))
    return say("skill.no_such_near", language, name=quoted(name), usage=use_of(near, language))


async def _list(asked: _Asked) -> str:
    here, _ = await asked.acts.may("skill list")
    chat, unlisted = asked.said.outside.capabilities, asked.acts.looks_after(here)
    harmful = await asked.acts.harmful(here)
    # There can be thousands, and others' turns go on meanwhile.
    return await asyncio.to_thread(
        listing.told, here, asked.language, chat, *asked.words, unlisted=unlisted, harmful=harmful
    )


async def _add(asked: _Asked) -> str:
    """Each zip for itself: one that is refused keeps no other out."""
    said = asked.said
    await asked.acts.may("skill add")
    zips = [one for one in said.event.attachments if _is_zip(one)]
    if not zips:
        came = tuple(one.name for one in said.event.attachments)
        raise Refusal("other_files", files=came) if came else Refusal("no_files")
    if len(zips) > ZIPS_MAX:
        raise Refusal("many_files", count=len(zips), most=ZIPS_MAX)
    told = []
    for number, one in enumerate(zips):
        acts = acts_of(said, number)
        try:
            raw = await said.outside.download(one, BUNDLE_MAX_BYTES)
            done = await acts.add(one.name, raw)
        except NotDownloaded as error:
            told.append(answers.refused(Refusal("zip", file=one.name, reason=str(error)), asked.language))
        except Refusal as refusal:
            await acts.refused("skill add", one.name, refusal)
            told.append(answers.refused(refusal, asked.language))
        else:
            told.append(answers.told(done, asked.language))
    return "\n\n".join(told)


def _is_zip(one: Attachment) -> bool:
    return one.name.casefold().endswith(".zip") or one.mime in {"application/zip", "application/x-zip-compressed"}


SUBS: Final[Mapping[str, _Sub]] = {
    "list": _Sub(_list, 0, 1),
    "show": _Sub(lambda asked: asked.acts.show(*asked.words), 1, 2),
    "on": _Sub(lambda asked: asked.where.switch(asked.words[0], "on"), 1, 2, EVERYWHERE),
    "off": _Sub(lambda asked: asked.where.switch(asked.words[0], "off"), 1, 2, EVERYWHERE),
    "trust": _Sub(lambda asked: asked.acts.trust(*asked.words), 1, 2),
    "reload": _Sub(lambda asked: asked.acts.reload()),
    "add": _Sub(_add),
    "remove": _Sub(lambda asked: asked.acts.remove(*asked.words), 1, 1),
    "notes": _Sub(lambda asked: asked.notes.list()),
    "notes list": _Sub(lambda asked: asked.notes.list()),
    "notes show": _Sub(lambda asked: asked.notes.show(*asked.words), 1, 1),
    "notes revert": _Sub(lambda asked: asked.notes.revert(*asked.words), 1, 1),
    "notes expire": _Sub(lambda asked: asked.notes.expire(*asked.words), 2, 2),
    "approve": _Sub(lambda asked: asked.notes.approve(*asked.words), 1, 1),
    "reject": _Sub(lambda asked: asked.notes.reject(*asked.words), 1, 1),
}
ALSO: Final[Mapping[str, str]] = {
    "notes approve": "approve",
    "notes reject": "reject",
    "revert": "notes revert",
    "expire": "notes expire",
}
"""Other words for subcommands: what is done to a note goes with and without `notes`."""
