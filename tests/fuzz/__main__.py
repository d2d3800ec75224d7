"""`make fuzz`: each target for some seconds, led by the code that inputs reach. `python -m tests.fuzz SECONDS [TARGET ...]`.

What is found lies in `.fuzz/<target>/` (inputs that reach something new) and `.fuzz/found/` (inputs that fail). A failing one
is made small, put into `tests/fuzz/corpus/<target>/`, and what it shows is mended.
"""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tests.harness.arguments import count

HOUSE: Final = Path(__file__).parents[2]
CORPUS: Final = Path(__file__).parent / "corpus"
FOUND: Final = HOUSE / ".fuzz"
LONGEST_BYTES: Final = 4_096
SLOW_S: Final = 1.0
"""Code that is watched runs many times slower; what is over this is looked at again without."""


def one(target: str, seconds: int) -> None:
    """Never returns: the fuzzer ends the process."""
    import atheris  # noqa: PLC0415  # an extra of its own

    with atheris.instrument_imports(include=["config", "gateway", "skills", "workers", "markdown_it"]):
        from tests.fuzz.watch import tried  # noqa: PLC0415  # imported here, so that it is watched
    logging.disable(logging.CRITICAL)
    (FOUND / "found").mkdir(parents=True, exist_ok=True)
    (FOUND / target).mkdir(exist_ok=True)
    told = [
        f"-max_total_time={seconds}",
        f"-max_len={LONGEST_BYTES}",
        "-timeout=20",
        "-print_final_stats=1",
        f"-artifact_prefix={FOUND}/found/{target}-",
    ]
    atheris.Setup(["fuzz", *told, str(FOUND / target), str(CORPUS / target)], lambda raw: tried(target, raw, SLOW_S))
    atheris.Fuzz()


def main() -> int:
    """Each in a process of its own; 1 if one of them found something."""
    every = sorted(place.name for place in CORPUS.iterdir())
    options = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("seconds", type=count, help="of each target")
    options.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(every)} (default: all)")
    given = options.parse_args()
    if wrong := sorted(set(given.targets) - set(every)):
        options.error(f"{', '.join(wrong)}: not one of {', '.join(every)}")
    if find_spec("atheris") is None:
        sys.stderr.write(
            "atheris is not installed: pip install '.[fuzz]' (Linux on x86-64). The corpus is read without it: make test\n"
        )
        return 2
    bad = 0
    for name in given.targets or every:
        ran = subprocess.run(
            [sys.executable, "-m", "tests.fuzz", "one", name, str(given.seconds)],
            cwd=HOUSE,
            capture_output=True,
            text=True,
            check=False,
        )
        runs = [
            line.split()[-1] for line in ran.stderr.splitlines() if line.startswith("stat::number_of_executed_units")
        ]
        sys.stdout.write(f"{'bad' if ran.returncode else 'ok':>4} {runs[0] if runs else '?':>10} runs  {name}\n")
        if ran.returncode:
            bad = 1
            sys.stdout.write(f"{ran.stdout[-3_000:]}\n{ran.stderr[-1_000:]}\n")
        sys.stdout.flush()
    return bad


if __name__ == "__main__":
    if sys.argv[1:2] == ["one"]:
        one(sys.argv[2], int(sys.argv[3]))
    sys.exit(main())
