"""/compact: put away what was said before, in short, and keep the last messages whole."""

from __future__ import annotations

from gateway.commands import Done, Said, WhenBusy
from gateway.phrases import say

WHEN_BUSY: WhenBusy = "waits"


async def run(said: Said) -> Done:
    found = await said.outside.compact()
    if found is None:
        return Done(say("compact.nothing", said.language))
    record, messages = found
    skills = ", ".join(f"`{one}`" for one in record.data["skills"])
    lines = [say("compact.done", said.language, messages=messages)]
    lines += [say("compact.skills", said.language, skills=skills)] if skills else []
    lines += [say("compact.by_rules", said.language)] if record.data["by"] == "rules" else []
    return Done("\n".join(lines), (record,))
