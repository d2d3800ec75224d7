"""/skill: which skills there are here, and what people decide about them and their notes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from config.checks import nearest
from gateway.access import CommandUse, may
from gateway.commands import Done, Said
from gateway.commands.skill import answers, listing
from gateway.events import Attachment
from gateway.phrases import say
from gateway.platforms import NotDownloaded
from gateway.quoting import quoted
from gateway.shelf.acts import Acts, By
from gateway.shelf.note_acts import NoteActs
from gateway.shelf.outcomes import Refusal
from skills import ids
from skills.document import NAME as SKILL_MD
from skills.folders import BUNDLE_MAX_BYTES

CONTROL = False
ASIDE = True

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
    def notes(self) -> NoteActs:
        return NoteActs(self.acts, self.said.outside.notes)


@dataclass(frozen=True, slots=True)
class _Sub:
    """A subcommand: how many words follow it, and what it does."""

    run: Callable[[_Asked], Awaitable[str]]
    least: int = 0
    most: int = 0


async def run(said: Said) -> Done:
    words = tuple(said.rest.split())
    name = ids.key(words[0]) if words else ""
    name, words = (f"notes {ids.key(words[1])}", words[2:]) if name == "notes" and words[1:] else (name, words[1:])
    acts = acts_of(said)
    if not name:
        return Done(await _usage(said, acts))
    sub = SUBS.get(name)
    if sub is None:
        known = [one for one in SUBS if one.startswith("notes ") == name.startswith("notes ")]
        return Done(_no_such(name, nearest(name, known), said.language))
    if not sub.least <= len(words) <= sub.most:
        return Done(say("skill.words", said.language, usage=use_of(name, said.language)))
    try:
        return Done(await sub.run(_Asked(said, acts, words)))
    except Refusal as refusal:
        await acts.refused(f"skill {name}", " ".join(words), refusal)
        return Done(
            answers.refused(refusal, said.language), is_private=refusal.kind in {"role", "hidden", "hidden_file"}
        )


def acts_of(said: Said, number: int = 0) -> Acts:
    """What the person who said this may do. One message can do several things of a kind: each has its `number`."""
    event, outside = said.event, said.outside
    here = partial(outside.shelf.here, event.conversation, outside.loaded)
    made = f"{said.turn} {number}" if number else said.turn
    return Acts(outside.shelf, outside.loaded.settings.skills, By(made, said.now_ms, event.actor, here=here))


def use_of(name: str, language: str) -> str:
    """How a subcommand is written, and what it does."""
    return say(f"skill.use.{name.replace(' ', '_')}", language)


async def _usage(said: Said, acts: Acts) -> str:
    here = await acts.by.here()
    allowed = [may(said.event.actor, here, CommandUse(f"skill {name}")).allowed for name in SUBS]
    mine = [f"- {use_of(name, said.language)}" for name, is_mine in zip(SUBS, allowed, strict=True) if is_mine]
    others = [f"`{name}`" for name, is_mine in zip(SUBS, allowed, strict=True) if not is_mine]
    lines = [say("skill.usage", said.language, commands="\n".join(mine))]
    lines += [say("skill.usage.others", said.language, commands=", ".join(others))] if others else []
    return "\n\n".join(lines)


def _no_such(name: str, near: str | None, language: str) -> str:
    if near is None:
        return say("skill.no_such", language, name=quoted(name), commands=", ".join(f"`{one}`" for one in SUBS))
    return say("skill.no_such_near", language, name=quoted(name), usage=use_of(near, language))


async def _list(asked: _Asked) -> str:
    here, _ = await asked.acts.may("skill list")
    chat, unlisted = asked.said.outside.capabilities, asked.acts.looks_after(here)
    # There can be thousands, and others' turns go on meanwhile.
    return await asyncio.to_thread(listing.told, here, asked.language, chat, *asked.words, unlisted=unlisted)


async def _show(asked: _Asked) -> str:
    here = await asked.acts.by.here()
    shown = await asked.acts.show(asked.words[0], asked.words[1] if asked.words[1:] else SKILL_MD)
    return answers.shown(shown, here.room, asked.language)


async def _on(asked: _Asked) -> str:
    return await _switch(asked, on=True)


async def _off(asked: _Asked) -> str:
    return await _switch(asked, on=False)


async def _switch(asked: _Asked, *, on: bool) -> str:
    done = await asked.acts.switch(asked.words[0], "on" if on else "off")
    return answers.switched(done, await asked.acts.by.here(), asked.language)


async def _trust(asked: _Asked) -> str:
    done = await asked.acts.trust(*asked.words)
    return answers.trusted(done, await asked.acts.by.here(), asked.language)


async def _reload(asked: _Asked) -> str:
    return answers.reloaded(await asked.acts.reload(), asked.language)


async def _remove(asked: _Asked) -> str:
    done = await asked.acts.remove(asked.words[0])
    return answers.removed(done, await asked.acts.by.here(), asked.language)


async def _add(asked: _Asked) -> str:
    """Each zip for itself: one that is refused keeps no other out."""
    said = asked.said
    here, _ = await asked.acts.may("skill add")
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
            told.append(answers.added(done, here, asked.language))
    return "\n\n".join(told)


def _is_zip(one: Attachment) -> bool:
    return one.name.casefold().endswith(".zip") or one.mime in {"application/zip", "application/x-zip-compressed"}


async def _notes(asked: _Asked) -> str:
    return answers.notes_listed(await asked.notes.list(), asked.language)


async def _note(asked: _Asked) -> str:
    return answers.note_shown(await asked.notes.show(asked.words[0]), asked.language)


async def _approve(asked: _Asked) -> str:
    return answers.note_done("approved", await asked.notes.approve(asked.words[0]), asked.language)


async def _reject(asked: _Asked) -> str:
    return answers.note_done("rejected", await asked.notes.reject(asked.words[0]), asked.language)


async def _revert(asked: _Asked) -> str:
    return answers.note_done("reverted", await asked.notes.revert(asked.words[0]), asked.language)


async def _expire(asked: _Asked) -> str:
    here = await asked.acts.by.here()
    note = await asked.notes.expire(*asked.words)
    return answers.note_ends(note, here.profile.timezone, asked.language)


SUBS: Final[Mapping[str, _Sub]] = {
    "list": _Sub(_list, 0, 1),
    "show": _Sub(_show, 1, 2),
    "on": _Sub(_on, 1, 1),
    "off": _Sub(_off, 1, 1),
    "trust": _Sub(_trust, 1, 2),
    "reload": _Sub(_reload),
    "add": _Sub(_add),
    "remove": _Sub(_remove, 1, 1),
    "notes": _Sub(_notes),
    "notes list": _Sub(_notes),
    "notes show": _Sub(_note, 1, 1),
    "notes revert": _Sub(_revert, 1, 1),
    "notes expire": _Sub(_expire, 2, 2),
    "approve": _Sub(_approve, 1, 1),
    "reject": _Sub(_reject, 1, 1),
}
