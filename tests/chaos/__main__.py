"""The commands `make chaos`, `make soak` and `make figures`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import workers.alone
import workers.opening  # noqa: F401  # so that all scripts are known by their names
from tests.chaos import figures, soak
from tests.chaos.naive import naive_town
from tests.chaos.run import Order, chaos
from tests.harness.arguments import amount, count

ABOUT: Final = """\
Whole runs of deskmate: real gateways, workers and a Redis, with stand-ins for people, platform, model and tools.

What the stand-ins see, what people's side sends, and what passes on the wires to Redis goes into ledgers;
tests/harness/checking.py decides from these alone whether ten things held (no loss, no double, no double effect, order,
one writer, told in time, well-formed, sealed, bounded, alone). Nothing that deskmate says about itself counts.
"""
MORE: Final = """\
runs:
  chaos    a crowd talks while processes and Redis are killed; then each conversation has to answer once more
  plain    the same crowd and deaths on a webhook that puts jobs into RQ, for comparison: it loses and doubles
  soak     an even load for long: memory, keys, descriptors and threads have to stay as they are
  outage   Redis is away for 30 s under load: nothing lost, the first answer within 5 s after it is back
  scale    turns a second of one worker process and of two
  fair     a quiet channel beside a loud one
  pair     two machines with data folders of their own on one Redis; one dies whole
  figures  outage, scale, fair and pair, one after the other

examples:
  make chaos                                          20,000 messages, 1,000 conversations, about a quarter of an hour
  make chaos MESSAGES=2000 CONVERSATIONS=100 SEED=7   what is said and who dies is the same for the same seed
  make soak MINUTES=10
  python -m tests.harness.checking FOLDER/ledgers     judge once more what was kept, in the folder that the last line names

Exit code: 0 all held; 1 something did not; 2 nothing was tried; 130 Ctrl-C. But after 0 ledgers and logs are kept in a folder
that the last line names.
"""
RUNS: Final = ("chaos", "plain", "soak", "outage", "scale", "fair", "pair", "figures")


def main() -> int:
    options = argparse.ArgumentParser(
        prog="python -m tests.chaos",
        description=ABOUT,
        epilog=MORE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument("run", choices=RUNS, metavar="RUN", help=f"one of {', '.join(RUNS)}")
    options.add_argument("--seed", type=int, help="what is said and who dies (default: another one each time)")
    options.add_argument("--messages", type=count, default=20_000, help="of chaos and plain (default 20000)")
    options.add_argument("--conversations", type=count, default=1_000, help="of chaos and plain (default 1000)")
    options.add_argument("--rate", type=amount, help="messages a second (default: 25 of chaos and plain, 8 of soak); less on a busy machine")  # fmt: skip
    options.add_argument(
        "--redis-s", type=amount, default=60.0, help="seconds between two deaths of Redis (default 60)"
    )
    options.add_argument("--minutes", type=amount, default=60.0, help="of soak (default 60)")
    options.add_argument("--folder", type=Path, help="where ledgers and logs go; kept then (default: a temporary one)")
    given = options.parse_args()
    for name in ("aiohttp.server", "asyncio"):  # whoever dies in the midst of an answer is no news here
        logging.getLogger(name).setLevel(logging.CRITICAL)
    seed = random.SystemRandom().randrange(1_000_000) if given.seed is None else given.seed
    folder = given.folder or Path(tempfile.mkdtemp(prefix="chaos-"))
    names = ("outage", "scale", "fair", "pair") if given.run == "figures" else (given.run,)
    broken: list[str] = []
    for name in names:
        _tell(f"== {name}, seed {seed}")
        place = folder / f"{name}-{time.strftime('%H%M%S')}"
        try:
            is_good = asyncio.run(_run(name, seed, place, given))
        except KeyboardInterrupt:
            _tell(f"broken off, seed {seed}: ledgers and logs in {', '.join([*broken, str(place)])}")
            return 130
        except NothingTried as why:
            _tell(f"{why}, so nothing is shown, seed {seed}: ledgers and logs in {place}")
            return 2
        if not is_good:
            broken.append(str(place))
    if broken:
        _tell(f"BROKEN, seed {seed}: ledgers and logs in {', '.join(broken)}")
        return 1
    if not given.folder:
        shutil.rmtree(folder)
    _tell(f"all held, seed {seed}")
    return 0


class NothingTried(Exception):
    """It was too short; why."""


async def _run(name: str, seed: int, folder: Path, given: Any) -> bool:
    """Whether it is as it should be. Raises `NothingTried`."""
    crowd = (seed, given.messages, given.conversations, given.rate or 25.0)
    if name == "chaos":
        came = await chaos(Order(*crowd, redis_s=given.redis_s), folder, _tell)
        _tell(*came.lines())
        if not came.verdict.violations and not came.kills + came.stops + came.redis_kills:
            raise NothingTried("nothing died in it")
        return not came.verdict.violations
    if name == "plain":
        came = await chaos(Order(*crowd, redis_s=None, kinds=(("plain", 1.0),)), folder, _tell, naive_town)
        _tell(*came.lines())
        return bool(came.verdict.broken("I1") and came.verdict.broken("I2"))  # else the checker is blind
    if name == "soak":
        soaked = await soak.soak(soak.Order(seed, given.minutes, given.rate or 8.0), folder, _tell)
        _tell(*soaked.lines())
        if not soaked.samples:
            raise NothingTried("nothing was measured in so short a time")
        return not soaked.verdict.violations and not soaked.too_much
    figure: Callable[..., Awaitable[bool]] = getattr(figures, name)
    return await figure(seed, folder, _tell)


def _tell(*lines: str) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
