"""/model: which model answers in this conversation; /model NAME: another one of those that the operator allows here."""

from __future__ import annotations

from gateway.commands import Done, Said, WhenBusy, misused
from gateway.conversation.records import Record
from gateway.model_choice import allowed, chosen
from gateway.phrases import say
from gateway.text.quoting import quoted

WHEN_BUSY: WhenBusy = "beside"


async def run(said: Said) -> Done:
    key, language, loaded = said.event.conversation, said.language, said.outside.loaded
    profile = loaded.profile_for(key.connection, key.channel)
    names = allowed(profile, loaded.settings.model.name)
    own = names[0]
    now = chosen([*said.history, *said.open], profile) or own
    words = said.rest.split()
    if len(words) > 1:
        return misused("model", language)
    if not words:
        lines = [say("model.now" if now == own else "model.chosen", language, model=quoted(now), own=quoted(own))]
        if profile.fallback_model:
            lines.append(say("model.fallback", language, model=quoted(profile.fallback_model)))
        others = ", ".join(quoted(name) for name in names if name != now)
        lines.append(say("model.others", language, models=others) if others else say("model.no_others", language))
        return Done("\n".join(lines))
    name = next((one for one in names if one.casefold() == words[0].casefold()), None)
    if name is None:
        there = ", ".join(map(quoted, names))
        return Done(say("model.unknown", language, name=quoted(words[0]), models=there))
    if name == now:
        return Done(say("model.same", language, model=quoted(name)))
    data = {"turn": said.turn, "name": "" if name == own else name, "by": said.event.actor.id}
    return Done(say("model.switched", language, model=quoted(name)), (Record("model", said.now_ms, data),))
