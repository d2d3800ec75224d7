"""/status: what runs here, what it waits for, and what the conversation holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gateway.approvals.asked import open_in
from gateway.commands import Done, Said, WhenBusy, misused
from gateway.conversation.plans import progress
from gateway.conversation.records import Record
from gateway.model_choice import chosen
from gateway.phrases import say
from gateway.text.durations import duration
from gateway.text.quoting import few, quoted

WHEN_BUSY: WhenBusy = "beside"

NAMED_MAX = 20
ID_CHARACTERS = 8
"""Of a conversation's id: as operators see it, who find it by these."""
SHRINKS = frozenset({"cleared", "summary"})
"""Records after which what was counted before says nothing."""


async def run(said: Said) -> Done:
    if said.rest:
        return misused("status", said.language)
    lines = [*(_running(said) if said.open else [say("status.idle", said.language)]), *_holds(said)]
    return Done("\n".join(f"- {line}" for line in lines))


def _running(said: Said) -> Iterator[str]:
    """The turn that runs: since when, how far it is, and what it does or waits for now."""
    records, language, now_ms = said.open, said.language, said.now_ms
    since = duration(now_ms - records[0].at_ms, language)
    calls = sum(record.type == "call" for record in records)
    yield say("status.running", language, since=since, calls=calls)
    plan = progress(records)
    if plan.steps:
        yield say("status.plan", language, done=len(plan.done), steps=len(plan.steps))
    if asked := open_in(records):
        for one in asked:
            left = duration(one.until_ms - now_ms, language)
            yield say(f"status.asked.{one.kind}", language, code=f"`{one.code}`", left=left)
    elif tools := _tools(records):
        for tool in tools:
            shown = tool.data.get("shown", tool.data["name"])
            name = quoted(shown if shown == tool.data["name"] else f"{tool.data['name']} {shown}", 200)
            yield say("status.tool", language, tool=name, since=duration(now_ms - tool.at_ms, language))
    elif waiting := _asks(records):
        yield say("status.asks", language, since=duration(now_ms - waiting.at_ms, language))


def _tools(records: Sequence[Record]) -> list[Record]:
    """Those that have begun and not ended, of all branches."""
    done = {record.data["id"] for record in records if record.type == "tool_result"}
    return [record for record in records if record.type == "tool_start" and record.data["id"] not in done]


def _asks(records: Sequence[Record]) -> Record | None:
    """The newest model call, if nothing came of it yet."""
    last = next((record for record in reversed(records) if record.type in {"call", "answer", "dropped"}), None)
    return last if last and last.type == "call" else None


def _holds(said: Said) -> Iterator[str]:
    key, language, loaded = said.event.conversation, said.language, said.outside.loaded
    profile = loaded.profile_for(key.connection, key.channel)
    model = chosen([*said.history, *said.open], profile) or profile.model or loaded.settings.model.name
    if said.inbox:
        yield say("status.waits", language, count=len(said.inbox))
    yield say("status.model", language, model=quoted(model))
    yield say("status.id", language, id=quoted(key.id[:ID_CHARACTERS]))
    if size := _size([*said.history, *said.open]):
        most = loaded.settings.model.context_tokens
        yield say("status.context", language, tokens=f"{size:,}", most=f"{most:,}", share=round(100 * size / most))
    if said.skills:
        skills = ", ".join(few(map(quoted, said.skills), NAMED_MAX, language))
        yield say("status.skills", language, skills=skills)
    else:
        yield say("status.no_skills", language)


def _size(records: Sequence[Record]) -> int:
    """Tokens of the last request and its answer, as the model's service counted them. 0: nobody knows."""
    for record in reversed(records):
        if record.branch:
            continue
        if record.type in SHRINKS:
            return 0
        if record.type == "answer" and any(record.data["usage"].values()):
            return sum(record.data["usage"].values())
    return 0
