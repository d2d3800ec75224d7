"""Acting: what a person who said a command may do to the channel, each time with the rights of now."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from gateway.acts import answers
from gateway.acts.outcomes import Refusal
from gateway.acts.skill_acts import Acts, By, not_for, rule_in
from gateway.commands import Command, Done, Said, find
from gateway.events import Actor
from gateway.rights.access import Here, Verdict
from gateway.rights.pairing import COMMAND, knock


def acts_of(said: Said, number: int = 0, *, everywhere: bool = False) -> Acts:
    """What the person who said this may do. One message can do several things of a kind: each has its `number`."""
    event, outside = said.event, said.outside
    here = partial(outside.shelf.here, event.conversation, outside.loaded)
    by = By(
        f"{said.turn} {number}" if number else said.turn,
        said.now_ms,
        event.actor,
        connection=event.conversation.connection,
        here=partial(outside.shelf.everywhere, outside.loaded) if everywhere else here,
        said_in=here if everywhere else None,
    )
    return Acts(outside.shelf, outside.loaded.settings.skills, by)


async def perform(name: str, command: Command, said: Said, *, about_others: bool = False) -> Done:
    """Run a command, if whoever said it is heard here and may give it. What it does of its own it asks for by itself."""
    if (told := await turned_down(name, said, about_others=about_others)) is not None:
        return told
    return await command.run(said)  # where nobody can read the switches, the command knows what can be done


async def turned_down(name: str, said: Said, *, about_others: bool = False) -> Done | None:
    """The answer to somebody who is not heard here, or may not give this command. None: they may."""
    acts, event = acts_of(said), said.event
    here = await acts.by.here()
    pair = find(COMMAND)
    if (
        pair
        and name != COMMAND
        and not (await said.outside.shelf.pairing.heard(here, event.actor, is_direct=event.is_direct)).allowed
    ):
        return await perform(COMMAND, pair, replace(said, event=knock(event), rest=""))
    try:
        rule_in(here, event.actor, name, about_others=about_others)
    except Refusal as refusal:
        await acts.refused(name, said.rest[:100], refusal)
        return refused(refusal, said.language)
    return None


def unallowed(actor: Actor | None, here: Here, name: str, verdict: Verdict, language: str) -> Done:
    """The same for a command that is talk, which the model answers."""
    return refused(not_for(here, actor, name, verdict), language)


def refused(refusal: Refusal, language: str) -> Done:
    """To whoever said it alone."""
    return Done(answers.refused(refusal, language), is_private=True)
