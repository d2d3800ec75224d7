"""The command `make kill-sweep`."""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final, get_args

import workers.alone
import workers.opening  # noqa: F401  # so that all scripts are known by their names
from gateway.conversation.deaths import SOLE_AFTER
from tests.harness.arguments import amount_or_none, count, count_or_none
from tests.sweep.choosing import PLATFORMS, NoPoint, Order
from tests.sweep.kinds import KINDS
from tests.sweep.plan import How
from tests.sweep.run import WAITS, summary, sweep

ABOUT: Final = """\
Kills deskmate at every message of a turn, and looks from outside whether anything was lost, doubled or done twice.

First each kind of turn runs once without fault, and every message that a gateway or a worker sends meanwhile is
written down: commands to Redis, requests to the model, to the platform, to tools, and the platform's own to the gateway.
Then the turn runs again for each of them. At that message, before it arrives or after it was done and before anything
of its answer is heard, the process is struck, and another one takes its place. What people, the model, the tools and
Redis saw goes into ledgers; `tests/harness/checking.py` decides from these alone whether I1 to I10 held.

The product has no hooks for this: it is told other addresses in its settings, nothing else. Processes are real ones,
forked from one that has imported what they import.
"""
MORE: Final = """\
faults (--how):
  kill    SIGKILL of the process
  group   SIGKILL of its process group
  stop    SIGSTOP for longer than a lease, the message held meanwhile; SIGCONT when another one has taken over
  term    SIGTERM; the process has to end by itself, with code 0
  twice   SIGKILL, and soon after another one of whoever took over: then the turn goes on in a child process, alone
  parent  SIGKILL of a worker alone whose turn runs in such a child process, the child's message let through
  sole    SIGKILL of six holders, one after the other, where they have got the turn or ask the model; then it has a worker for
          itself, and that one is killed once as well. Its points are those from there on; what a slow neighbour says,
          which has to leave or waits, is called `beside ...`

kinds of turn (--kinds):
"""
EXAMPLES: Final = """
examples:
  make kill-sweep                                    1,200 kills, another seed each time
  make kill-sweep SEED=7 KINDS=once,asks COUNT=200   the same points in the same order as any run with seed 7
  python -m tests.sweep --gateways 2 --roles gateway --count 100
                                                     two gateways, and each gets every message
  python -m tests.sweep --how stop,group,term,twice,parent --count 600
  python -m tests.sweep --how sole --count 40        six deaths of each turn, then one more
  python -m tests.sweep --waits shipped --model-s 3 --roles worker --lanes 20 --count 200 --at 'model|append #[3-9]|mark'
                                                     how long a takeover takes with the shipped waits
  python -m tests.sweep --list --kinds once          the messages of such a turn
  python -m tests.harness.checking FOLDER/ledgers    judge once more what was kept, in the folder that the last line names

Exit code: 0 nothing was broken; 1 something was; 2 no fault fell, or none can; 130 Ctrl-C. But after 0 ledgers and logs are kept
in a folder that the last line names.
"""


def main() -> int:
    kinds = "\n".join(f"  {one.name:7} {one.about}" for one in KINDS.values())
    options = argparse.ArgumentParser(
        prog="python -m tests.sweep",
        description=ABOUT,
        epilog=f"{MORE}{kinds}\n{EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument("--seed", type=int, help="which points in which order (default: another one each time)")
    options.add_argument(
        "--count",
        type=count_or_none,
        help="how many faults (default 1200; 40 with `sole` alone); 0: only turns without fault",
    )
    options.add_argument("--kinds", type=_words(KINDS), default=tuple(KINDS), help="kinds of turn (default: all)")
    options.add_argument(
        "--how",
        type=_words(get_args(How)),
        default=("kill",),
        help="faults (default: kill)",
    )
    options.add_argument("--platforms", type=_words(PLATFORMS), default=PLATFORMS, help="keyed: knows a repeated send by its key; keyless: does not; skipping: does not, and the profile says `unclear_send: skip`; searched: Slack, where one can look whether it is there (default: all)")  # fmt: skip
    options.add_argument("--deaths", type=int, choices=range(1, SOLE_AFTER + 1), default=SOLE_AFTER, help="with `sole`: so many holders really die, the others are written down as dead (default 6)")  # fmt: skip
    options.add_argument("--gateways", type=count, default=1, help="so many in each lane, and each gets every message (default 1)")  # fmt: skip
    options.add_argument("--roles", type=_words(("gateway", "worker")), default=("gateway", "worker"), help="whose messages (default: both)")  # fmt: skip
    options.add_argument("--waits", choices=WAITS, default="short", help="short: a lease of 2.5 s; shipped: all waits as they are shipped (default: short)")  # fmt: skip
    options.add_argument("--model-s", type=amount_or_none, default=0.0, help="answers of the model take up to so many seconds, so that faults fall anywhere in a lease (default 0)")  # fmt: skip
    options.add_argument("--lanes", type=count, default=10, help="turns side by side (default 10)")
    options.add_argument("--spread", action="store_true", help="points taken evenly from all kinds, for a short run")
    options.add_argument("--folder", type=Path, help="where ledgers and logs go; kept then (default: a temporary one)")
    options.add_argument(
        "--at", type=_regex, default="", metavar="REGEX", help="only at such points, as in 'after worker platform'"
    )
    options.add_argument("--list", action="store_true", help="only list the points")
    given = options.parse_args()
    seed = random.SystemRandom().randrange(1_000_000) if given.seed is None else given.seed
    usual = 40 if given.how == ("sole",) else 1_200
    faults = usual if given.count is None else given.count
    order = Order(
        seed=seed, count=0 if given.list else faults, kinds=given.kinds, platforms=given.platforms, hows=given.how, waits=given.waits,
        lanes=given.lanes, roles=given.roles, spread=given.spread, at=given.at, model_s=given.model_s, gateways=given.gateways,
        deaths=given.deaths,
    )  # fmt: skip
    folder = given.folder or Path(tempfile.mkdtemp(prefix="kill-sweep-"))
    place = folder / time.strftime("%H%M%S")
    try:
        result = asyncio.run(sweep(order, place, _tell))
    except NoPoint as why:
        _tell(f"{why}: --list names them all")
        return 2
    except KeyboardInterrupt:
        _tell(f"broken off, seed {seed}: ledgers and logs in {place}")
        return 130
    if given.list:
        for (kind, platform, stage), points in sorted(result.points.items()):
            for point in points:
                _tell(f"{' '.join(filter(None, (kind, platform, stage)))}: {point}")
        return 0
    for line in summary(result):
        _tell(line)
    if result.is_good:
        if not given.folder:
            shutil.rmtree(folder)
        _tell(f"all held, seed {seed}")
        return 0
    if not result.violations and not result.whole:
        _tell(f"no fault fell, so nothing is shown, seed {seed}: ledgers and logs in {place}")
        return 2
    _tell(f"BROKEN, seed {seed}: ledgers and logs in {place}")
    return 1


def _words(allowed: Collection[str]) -> Callable[[str], tuple[str, ...]]:
    """How a list is read from the command line."""

    def words(given: str) -> tuple[str, ...]:
        found = tuple(given.split(","))
        if wrong := set(found) - set(allowed):
            raise argparse.ArgumentTypeError(f"{', '.join(sorted(wrong))}: not one of {', '.join(allowed)}")
        return found

    return words


def _regex(given: str) -> str:
    try:
        re.compile(given)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{given}: {error}") from None
    return given


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
