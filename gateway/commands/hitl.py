"""/hitl: human in the loop, whether each call with an effect waits for a person's yes in this channel."""

from __future__ import annotations

from gateway.acting import acts_of, refused
from gateway.commands import Done, Said, WhenBusy, misused
from gateway.phrases import say
from gateway.shelf.outcomes import Refusal
from gateway.text.quoting import quoted

WHEN_BUSY: WhenBusy = "beside"


async def run(said: Said) -> Done:
    acts, to = acts_of(said), said.rest.lower()
    match to:
        case "":
            here = await acts.by.here()
        case "on" | "off":
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
    return Done("\n".join(lines))
