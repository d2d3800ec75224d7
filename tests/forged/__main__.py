"""`make forged`."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
from pathlib import Path

from tests.forged.run import forged
from tests.harness.arguments import count

ABOUT = """\
Forged and fuzzed webhooks at a real gateway, with a connection of each platform.

Four of five are forged: without proof, with another secret's, of another time, of another body, of another platform, with two
signatures, out of nothing, made to break whoever reads them. None of them may be accepted, or stored. One of five is rightly
signed and holds what no platform says. None of all may be answered 5xx. What is genuine is sent before and after, and has to
be taken.
"""


def main() -> int:
    options = argparse.ArgumentParser(
        prog="python -m tests.forged", description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--count", type=count, default=100_000, help="how many (default 100000, about two minutes)")
    options.add_argument("--seed", type=int, help="which ones (default: others each time)")
    given = options.parse_args()
    seed = random.SystemRandom().randrange(1_000_000) if given.seed is None else given.seed
    with tempfile.TemporaryDirectory(prefix="forged-") as folder:
        found = asyncio.run(forged(given.count, seed, Path(folder), _tell))
    for line in found.lines():
        _tell(line)
    return 1 if found.accepted or found.stored or found.broken or found.faults else 0


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
