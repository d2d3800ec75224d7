"""/hitl: human in the loop, whether each call with an effect waits for a person's yes in this channel."""

from __future__ import annotations

from typing import Final

from gateway.acting import acts_of, refused
from gateway.acts.outcomes import Refusal
from gateway.commands import Done, Said, WhenBusy, misused
from gateway.phrases import say
from gateway.text.quoting import quoted

WHEN_BUSY: WhenBusy = "beside"
CODE: Final = 8
"""Digits of its hash by which a call that was allowed for good is named."""
FORM_SHOWN: Final = 200


async def run(said: Said) -> Done:
    acts, (to, _, code) = acts_of(said), said.rest.lower().partition(" ")
    match to:
        case "":
            here = await acts.by.here()
        case "forget" if code:
            try:
                here, call = await acts.ask_again(code.strip())
            except Refusal as refusal:
                await acts.refused("hitl forget", code, refusal)
                return refused(refusal, said.language)
            return Done(
                say("hitl.forgotten", said.language, tool=quoted(call.tool), form=quoted(call.form, FORM_SHOWN))
            )
        case "on" | "off" if not code:
            try:
                here = await acts.watch_calls(to)
            except Refusal as refusal:
                await acts.refused(f"hitl {to}", "calls", refusal)
                return refused(refusal, said.language)
        case _:
            return misused("hitl", said.language)
    listed = ", ".join(quoted(name) for name in here.profile.approvals.ask)
    lines = [say("hitl.on" if here.asks_for_all else "hitl.off", said.language, room=quoted(here.room))]
    lines += [say("hitl.listed", said.language, tools=listed)] if listed else []
    if here.profile.approvals.tainted == "ask" and not here.asks_for_all:
        lines.append(say("hitl.tainted", said.language))
    if here.own.always:
        lines.append(say("hitl.always", said.language))
        lines += [
            f"- `{bound[:CODE]}` {quoted(one.tool)} {quoted(one.form, FORM_SHOWN)} ({quoted(one.by)})"
            for bound, one in sorted(here.own.always.items())
        ]
    return Done("\n".join(lines))
