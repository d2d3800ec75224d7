"""`make sabotage`: all guards, or those whose words are given; a table, and 1 if a guard is missed by nobody."""

from __future__ import annotations

import argparse
import queue
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.sabotage.guards import WITHIN_S, Guard, Missed, a_copy, guards, miss


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.sabotage", description=__doc__)
    options.add_argument("words", nargs="*", help="only guards, or files, that hold one of these")
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--within", type=float, default=WITHIN_S, metavar="SECONDS")
    given = options.parse_args()
    chosen = [
        one for one in guards() if not given.words or any(word in f"{one.guard} {one.file}" for word in given.words)
    ]
    bad = 0
    with tempfile.TemporaryDirectory(prefix="sabotage-") as folder, ThreadPoolExecutor(given.jobs) as pool:
        trees: queue.SimpleQueue[Path] = queue.SimpleQueue()
        copies = [a_copy(Path(folder) / str(number)) for number in range(given.jobs)]
        for copy in copies:
            trees.put(copy.__enter__())

        def tried(guard: Guard) -> Missed | str:
            tree = trees.get()
            try:
                return miss(guard, tree, within_s=given.within)
            except ValueError as error:
                return str(error)
            finally:
                trees.put(tree)

        for guard, came in zip(chosen, pool.map(tried, chosen), strict=True):
            if isinstance(came, str):
                bad += 1
                print(f"GONE   {guard.guard}: {came}", flush=True)
            elif came.green:
                bad += 1
                print(f"GREEN  {guard.guard}: {', '.join(came.green)} ({came.took_s:.0f} s)", flush=True)
                print("       " + "\n       ".join(came.printed.splitlines()[-12:]), flush=True)
            else:
                print(f"red    {guard.guard}: {came.red[0].rpartition('::')[2]} ({came.took_s:.0f} s)", flush=True)
    print(f"{len(chosen)} guards, {bad} missed by nobody")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
