"""`make sabotage`: all guards, or those whose words are given; a table, and 1 if one of them is missed by nobody.

First all that looks for them is run on an unchanged copy: what finds something there as well shows nothing.
"""

from __future__ import annotations

import argparse
import queue
import sys
import tempfile
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.harness.arguments import amount, count
from tests.sabotage.guards import WITHIN_S, Guard, Missed, a_copy, guards, miss, not_green

CONTROL_S: Final = 900.0
"""For all tests of one file together."""


class Trees:
    """Copies of the tree, as many as are worked with at once."""

    def __init__(self, trees: Iterable[Path]) -> None:
        self._free: queue.SimpleQueue[Path] = queue.SimpleQueue()
        for tree in trees:
            self._free.put(tree)

    def control(self, ways: Collection[str]) -> dict[str, str]:
        tree = self._free.get()
        try:
            return not_green(tree, ways, within_s=CONTROL_S)
        finally:
            self._free.put(tree)

    def miss(self, guard: Guard, within_s: float) -> Missed | str:
        tree = self._free.get()
        try:
            return miss(guard, guard.ways, tree, within_s=within_s)
        except ValueError as error:
            return str(error)
        finally:
            self._free.put(tree)


def main() -> int:
    options = argparse.ArgumentParser(
        prog="python -m tests.sabotage", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("words", nargs="*", help="only guards, or files, that hold one of these")
    options.add_argument("--jobs", type=count, default=2)
    options.add_argument("--within", type=amount, default=WITHIN_S, metavar="SECONDS")
    given = options.parse_args()
    chosen = [one for one in guards().values() if not given.words or any(word in _about(one) for word in given.words)]
    if not chosen:
        options.error(f"no guard, or file, holds {' or '.join(f'`{word}`' for word in given.words)}")
    by_file: dict[str, set[str]] = {}
    for guard in chosen:
        for way in guard.ways:
            by_file.setdefault(way.partition("::")[0], set()).add(way)
    bad = 0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sabotage-")))
        pool = stack.enter_context(ThreadPoolExecutor(given.jobs))
        trees = Trees(stack.enter_context(a_copy(folder / str(number))) for number in range(given.jobs))
        is_useless: dict[str, str] = {}
        for found in pool.map(trees.control, by_file.values()):
            is_useless |= found
            for way, said in found.items():
                print(f"NOTHING IS TAKEN OUT, AND IT IS NOT GREEN: {way}\n{_end_of(said)}", flush=True)
        for guard, came in zip(
            chosen, pool.map(lambda one: trees.miss(one, given.within), chosen), strict=True
        ):  # in their order, as they come
            if isinstance(came, str):
                bad += 1
                print(f"GONE   {guard.guard}: {came}", flush=True)
                continue
            not_found = {**came.not_found} | {
                way: "not green without it either" for way in guard.ways if way in is_useless
            }
            bad += bool(not_found)
            names = ", ".join(way.rpartition("::")[2] for way in guard.ways if way not in not_found)
            print(f"{'MISSED' if not_found else 'red   '} {guard.guard}: {names} ({came.took_s:.0f} s)", flush=True)
            for way, why in not_found.items():
                print(f"       by {way}: {_end_of(why)}", flush=True)
    print(f"{len(chosen)} guards, {bad} of them not found missing in each of their ways")
    return 1 if bad else 0


def _about(guard: Guard) -> str:
    return " ".join((guard.guard, *(change.file for change in guard.changes)))


def _end_of(said: str) -> str:
    return "\n       ".join(said.splitlines()[-12:])


if __name__ == "__main__":
    sys.exit(main())
