"""What is told where somebody, or a channel, wrote too much in a minute, or a message came much too late. Nobody can say it:
intake puts it in a message's place.
"""

from __future__ import annotations

import re

from gateway.commands import OVER, Done, Said, WhenBusy, unknown
from gateway.phrases import say

WHEN_BUSY: WhenBusy = "beside"


async def run(said: Said) -> Done:
    words = re.fullmatch(r"(person|channel|late) (\d+)", said.rest)
    if words is None:
        return unknown(OVER, said.language)
    if words[1] == "late":
        return Done(say("rate.late", said.language, hours=max(1, int(words[2]))))
    return Done(say(f"rate.{words[1]}", said.language, limit=words[2]), is_private=words[1] == "person")
