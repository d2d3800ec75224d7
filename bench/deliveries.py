"""The same conversation of ten turns with each way for a skill's text to come: tokens that go in, and what a cache keeps.

A real worker asks a model on this machine, which follows a script: two skills of about 6 KB are loaded, one of them asked
for twice, and a tool is called. What counts are the requests as they were received. A request's cacheable part is what it
has in common with the one before it, from its first byte on, in the order in which the Messages API caches: tools,
system, messages. Tokens are an estimate, the same as for the list of skills: four characters of ASCII each (JSON's signs
included), one for a character of any other script.

    python -m bench.deliveries [--seed 1]
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import aiohttp
import yaml

from bench._talk import CONNECTION, conversation, put, replies, until_replies
from bench._world import measured_core, model, server, webhooks, world
from config.profiles import Delivery
from skills import document
from skills.index import tokens
from tests.harness.fake_model import Asked, FakeModel
from tests.harness.model_replies import Reply, calls, says

SKILLS = ("incident-reports", "release-notes")
BODY_CHARACTERS = 6_000
TURNS = 10
WITHIN_S = 60.0
FROM_CACHE, INTO_CACHE = 0.1, 1.25
"""What a token costs that is read from the cache, and one that is written into it, in tokens without a cache."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one conversation."""

    requests: int
    tokens: float
    """That went in, in all requests together."""
    cacheable: float
    """Of these, how many the request before had too, in the same place."""

    @property
    def cost(self) -> float:
        return self.cacheable * FROM_CACHE + (self.tokens - self.cacheable) * INTO_CACHE


def figures(asked: Sequence[Asked]) -> Figures:
    texts = [
        json.dumps([one.request["tools"], one.request["system"], one.request["messages"]], ensure_ascii=False)
        for one in asked
    ]
    shared = (both_begin_with(before, after) for before, after in itertools.pairwise(texts))
    return Figures(len(texts), sum(map(tokens, texts)), sum(map(tokens, shared)))


def both_begin_with(one: str, other: str) -> str:
    differs = (at for at, (left, right) in enumerate(zip(one, other, strict=False)) if left != right)
    return one[: next(differs, min(len(one), len(other)))]


def words(chance: random.Random, characters: int) -> str:
    made = ""
    while len(made) < characters:
        made += "".join(chance.choices("abcdefghijklmnop", k=chance.randint(2, 9))) + " "
    return made[:characters].strip()


def write_skills(folder: Path, chance: random.Random) -> list[str]:
    """Their bodies."""
    bodies = [words(chance, BODY_CHARACTERS) for _ in SKILLS]
    for name, body in zip(SKILLS, bodies, strict=True):
        (folder / name).mkdir(parents=True)
        head = f"---\nname: {name}\ndescription: {words(chance, 160)}\n---\n"
        (folder / name / document.NAME).write_text(head + body + "\n", encoding="utf-8")
    return bodies


def script(chance: random.Random) -> list[list[Reply]]:
    """By turn, what the model answers: always at last some words."""
    turns = [[says(words(chance, chance.randint(200, 600)))] for _ in range(TURNS)]
    turns[0].insert(0, calls("load_skill", {"name": SKILLS[0]}))
    turns[2].insert(0, calls("current_time"))
    turns[4].insert(0, calls("load_skill", {"name": SKILLS[1]}))
    turns[7].insert(0, calls("load_skill", {"name": SKILLS[0]}))
    return turns


async def converse(profile: dict[str, Any], turns: Sequence[Sequence[Reply]], chance: random.Random) -> list[Asked]:
    """Hold the conversation with a real worker; the requests as the model received them."""
    async with world() as here, aiohttp.ClientSession() as http:
        bodies = write_skills(here.folder / "skills", chance)
        (here.folder / "profiles").mkdir()
        whole = {"tools": ["load_skill", "current_time"], "skills": list(SKILLS), **profile}
        (here.folder / "profiles/default.yaml").write_text(yaml.safe_dump(whole), encoding="utf-8")
        with server("sink", "bench._sink", core=measured_core()) as (_, sink):
            async with FakeModel([reply for turn in turns for reply in turn]) as answering:
                here.configure(
                    connections={CONNECTION: webhooks(sink)},
                    model=model(answering.url),
                    skills={"folder": str(here.folder / "skills")},
                )
                key = conversation()
                with here.deskmate("worker") as worker:
                    await here.logged("worker", "worker ready")
                    for number in range(len(turns)):
                        before = await replies(http, sink)
                        await put(here, [key], words(chance, chance.randint(60, 300)))
                        await until_replies(http, sink, before + 1, WITHIN_S)
                        await here.until_settled(WITHIN_S)
                        asked = len(answering.asked)
                        wanted = sum(map(len, turns[: number + 1]))
                        assert asked == wanted, f"turn {number + 1}: {asked} requests, {wanted} are in the script"
                    worker.demand_alive()
                refused = [one.refused for one in answering.asked if one.refused]
                assert not refused, refused
                last = answering.asked[-1].body.decode()
                assert [last.count(body) for body in bodies] == [1, 1], "each skill's text has come, once"
                return answering.asked


async def compare(seed: int) -> None:
    print(f"{'delivery':14}{'requests':>10}{'tokens in':>12}{'cacheable':>12}{'share':>8}{'cost':>10}")
    for delivery in get_args(Delivery):
        chance = random.Random(seed)
        found = figures(await converse({"delivery": delivery}, script(chance), chance))
        share = found.cacheable / found.tokens
        print(
            f"{delivery:14}{found.requests:10}{found.tokens:12,.0f}{found.cacheable:12,.0f}{share:8.1%}{found.cost:10,.0f}",
            flush=True,
        )
    print(f"cost: tokens, {FROM_CACHE} each from the cache and {INTO_CACHE} each into it")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, default=1)
    asyncio.run(compare(options.parse_args().seed))


if __name__ == "__main__":
    main()
