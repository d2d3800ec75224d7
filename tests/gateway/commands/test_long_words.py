"""Whatever stands behind a command, an answer repeats little of it, and nothing of it is markup."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway.commands import spoken
from gateway.commands.skill import SUBS
from gateway.store import Layout
from tests.workers.at_desk import at_desk

LONG = 40_000
ROLES = {"admin": ["chat/U-MAX"], "approver": ["chat/U-MAX"]}
BEHIND = {
    "skill": ["", *(f"{sub} " for sub in SUBS)],
    "why": ["", "skill ", "tool "],
    "queue": ["", "clear "],
    "pair": ["", "accept ", "end "],
    "role": ["", "add admin ", "of "],
}


@pytest.mark.timeout(120)
async def test_no_answer_repeats_a_long_word_whole(tmp_path: Path, redis_url: str, layout: Layout) -> None:
    async with at_desk(tmp_path, redis_url, layout.prefix, profile={"roles": ROLES}) as world:
        for name in sorted(set(spoken()) - {"plan", "team"}):
            for begin in BEHIND.get(name, [""]):
                for word in ("a" * LONG, "a " * (LONG // 2), "[a](http://evil.example/)"):
                    told = "\n".join(await world.ask(f"/{name} {begin}{word}"))
                    assert len(told) < LONG // 4, (name, begin, told[:200])
                    assert "](http" not in re.sub("`[^`]*`", "", told), (name, begin, told[:200])
