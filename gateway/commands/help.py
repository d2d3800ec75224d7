"""/help: which commands there are; /help NAME: how one is said, and what becomes of it while a turn runs."""

from __future__ import annotations

from gateway.commands import ALSO, Done, Said, WhenBusy, find, misused, names, unknown
from gateway.phrases import say

WHEN_BUSY: WhenBusy = "beside"


async def run(said: Said) -> Done:
    words = said.rest.lower().split()
    if not words:
        return Done(
            say("command.help", said.language, commands="\n".join(_line(one, said.language) for one in names()))
        )
    if len(words) > 1:
        return misused("help", said.language)
    asked = words[0].removeprefix("/")
    name = ALSO.get(asked, asked)
    command = find(name)
    if command is None:
        return unknown(asked, said.language)
    lines = [
        _line(name, said.language),
        say(f"command.{name}.usage", said.language),
        say(f"command.busy.{command.WHEN_BUSY}", said.language),
    ]
    return Done("\n\n".join(lines))


def _line(name: str, language: str) -> str:
    also = "".join(f", `/{other}`" for other, meant in ALSO.items() if meant == name)
    return f"- `/{name}`{also} {say(f'command.{name}.summary', language)}"
