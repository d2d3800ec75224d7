"""`deskmate demo` shows what happens, and nothing that does not: random words come back through the real thing."""

from __future__ import annotations

import asyncio
import random
import re
import sys
from pathlib import Path

import pytest

from config.settings import environment
from gateway.cli.demo import SKILL, Shown


def word() -> str:
    return "".join(random.choices("bdfgklmnprtvz", k=9))


async def run(*arguments: str, folder: Path) -> tuple[int | None, str, str]:
    demo = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "gateway.cli", "demo", *arguments),
        cwd=folder,
        env={**environment(), "TMPDIR": str(folder), "REDIS_URL": "redis://127.0.0.1:1", "DESKMATE_CONFIG": "/nowhere"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await demo.communicate()
    return demo.returncode, out.decode(), err.decode()


async def test_words_of_skill_page_and_question_are_those_that_were_put_in(tmp_path: Path) -> None:
    skill, page, aim = word(), word(), word()
    code, out, err = await run(
        *("--skill-words", f"The {aim} of {skill}."),
        *("--page-text", f"Today {page} was seen."),
        *("--question", f"The {aim} of {skill}? {{page}}"),
        folder=tmp_path,
    )
    assert code == 0, out + err
    assert f"The {aim} of {skill}." in out
    assert f"Today {page} was seen." in out
    assert f"loaded the skill {SKILL} (done)" in out
    assert "ran web_fetch (done)" in out
    assert re.search(r"Gateway ready after \d+\.\d\d s, worker after \d+\.\d\d s; the reply took \d+\.\d\d s", out)
    assert list(tmp_path.iterdir()) == []  # the temporary folder is gone, and nothing else was touched


async def test_a_question_that_fits_no_skill_fails_although_a_reply_was_given(tmp_path: Path) -> None:
    code, out, err = await run("--question", word(), folder=tmp_path)
    assert code == 1, out + err
    assert "deskmate  " in out
    assert f"The records do not say that the skill {SKILL} was loaded, nor that web_fetch read the page." in err


STEPS = [
    {"kind": "step", "step": "skill", "name": SKILL, "state": "done"},
    {"kind": "step", "step": "tool", "name": "web_fetch", "state": "done"},
    {"kind": "reply", "text": "yes"},
]


@pytest.mark.parametrize(
    ("index", "changed", "missing"),
    [
        (0, {"name": "another"}, "skill"),
        (1, {"state": "failed"}, "web_fetch"),
        (1, {"state": "running"}, "web_fetch"),
        (2, {"notice": True}, "reply"),
    ],
)
def test_what_is_missing_in_the_records_is_named(index: int, changed: dict[str, object], missing: str) -> None:
    assert Shown(STEPS, 0, 0, 0).missing() == []
    items = [{**step, **changed} if at == index else step for at, step in enumerate(STEPS)]
    (claim,) = Shown(items, 0, 0, 0).missing()
    assert missing in claim
