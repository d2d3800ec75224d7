"""How much of what a long conversation sends can come from the provider's cache: 50 turns with tools and two skills.

A real worker asks a model on this machine, which follows a script: every other turn calls a tool or two, skills of 6 KB are
loaded in the first and the tenth turn. Measured as in `bench.deliveries`: a request's cacheable part is what it has in
common with the one before it, from its first byte on, in the order tools, system, messages.

    python -m bench.cache [--turns 50] [--seed 1]
"""

from __future__ import annotations

import argparse
import asyncio
import random

from bench._world import Verdicts
from bench.deliveries import SKILLS, converse, figures, words
from tests.harness.model_replies import Reply, calls, says, several

GOAL = 0.95


def script(turns: int, chance: random.Random) -> list[list[Reply]]:
    """By turn, what the model answers: always at last some words."""
    made = [[says(words(chance, chance.randint(200, 600)))] for _ in range(turns)]
    clock = ("current_time", {})
    for number in range(1, turns, 2):
        made[number].insert(0, several(clock, clock) if number % 4 == 1 else calls(*clock))
    made[0].insert(0, calls("load_skill", {"name": SKILLS[0]}))
    made[min(9, turns - 1)].insert(0, calls("load_skill", {"name": SKILLS[1]}))
    return made


async def measure(turns: int, seed: int) -> None:
    chance = random.Random(seed)
    found = figures(await converse({}, script(turns, chance), chance))
    verdicts = Verdicts()
    print(f"{turns} turns, {found.requests} requests, {found.tokens:,.0f} tokens in, {found.cacheable:,.0f} cacheable")
    print(f"cost: {found.cost / found.tokens:.1%} of what it would be without a cache")
    verdicts.tell("not cacheable", (1 - found.cacheable / found.tokens) * 100, (1 - GOAL) * 100, "%")
    verdicts.end()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--turns", type=int, default=50)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    asyncio.run(measure(given.turns, given.seed))


if __name__ == "__main__":
    main()
