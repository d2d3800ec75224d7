"""Skills in numbers: ten thousand of 5 KB on one core, and published files as three readers read them.

Cold scan, unchanged check, scan after one change, index and memory are CPU time of one process on one core, so that
other work on the machine does not count. Beside the cold scan stands what PyYAML's C loader alone takes for the same
frontmatters. The corpus is a folder with a manifest.json; ours are in tests/skills/corpus.

    python -m bench.skills [--skills 10000] [--corpus tests/skills/corpus]
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from skills_ref.parser import read_properties

from bench._world import Verdicts, measured_core
from skills import document
from skills.document import BrokenSkill
from skills.folders import Root
from skills.index import lay_out
from skills.library import Library, scan

SIZE_BYTES = 5_000
BUDGET_TOKENS = 4_000
GOALS = {"cold": 2.0, "unchanged": 80.0, "index": 50.0, "memory": 60.0}


def write_skills(folder: Path, count: int, seed: int) -> None:
    """Eight fields each, and a body that fills the file up to 5,000 bytes."""
    chance = random.Random(seed)
    words = ["".join(chance.choices("abcdefghijklmnop", k=chance.randint(3, 9))) for _ in range(3_000)]
    for number in range(count):
        place = folder / f"skill-{number:05d}"
        place.mkdir()
        description = " ".join(chance.choices(words, k=30))
        head = (
            f'---\nname: {place.name}\ndescription: {description}\nversion: "1.0.{number % 10}"\nauthor: somebody\n'
            f"license: MIT\ntags: [{chance.choice(words)}, bench]\ncompatibility: any\nmetadata:\n  team: bench\n---\n"
        )
        body = ""
        while len(body) < SIZE_BYTES:
            body += f"## {chance.choice(words)}\n\n{' '.join(chance.choices(words, k=60))}\n\n"
        (place / document.NAME).write_text((head + body)[:SIZE_BYTES], encoding="utf-8")


def cpu_s(work: Callable[[], Any]) -> tuple[float, Any]:
    before = time.process_time()
    result = work()
    return time.process_time() - before, result


def memory_mb() -> float:
    """Of this process, now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 1_000_000


def parsing_alone_s(folder: Path) -> float:
    """PyYAML's C loader on the same frontmatters, read beforehand."""
    texts = [file.read_text(encoding="utf-8").split("---\n")[1] for file in folder.glob(f"*/{document.NAME}")]
    taken, _ = cpu_s(lambda: [yaml.load(text, Loader=yaml.CSafeLoader) for text in texts])
    return taken


def many(count: int, seed: int, verdicts: Verdicts) -> None:
    with tempfile.TemporaryDirectory(prefix="deskmate-bench-") as name:
        folder = Path(name)
        write_skills(folder, count, seed)
        print(f"{'PyYAML C loader alone, the same frontmatters':44} {parsing_alone_s(folder):9.2f} s")
        gc.collect()
        before_mb = memory_mb()
        cold_s, library = cpu_s(lambda: scan([Root("org", folder)]))
        used_mb = memory_mb() - before_mb
        assert len(library.skills) == count, "every skill is read"
        verdicts.tell("cold scan", cold_s, GOALS["cold"], "s")
        verdicts.tell("unchanged check, median of 5", _unchanged_ms(library), GOALS["unchanged"], "ms")
        (folder / "skill-00000" / document.NAME).write_text("---\nname: x\ndescription: y\n---\n", encoding="utf-8")
        again_s, _ = cpu_s(lambda: scan([Root("org", folder)], library))
        print(f"{'scan after one change':44} {again_s * 1_000:9.2f} ms")
        catalogue = library.catalogue(["*"])
        for label, budget in ((f"index, {BUDGET_TOKENS:,} tokens", BUDGET_TOKENS), ("index, whole", 10**9)):
            times = [cpu_s(lambda tokens=budget: lay_out(catalogue, tokens))[0] * 1_000 for _ in range(5)]  # type: ignore[misc] # bound at once
            verdicts.tell(f"{label}, median of 5", statistics.median(times), GOALS["index"], "ms")
        verdicts.tell("memory more after the scan", used_mb, GOALS["memory"], "MB")


def _unchanged_ms(library: Library) -> float:
    def look() -> bool:
        return library.found is not None and library.found.is_changed()

    times = []
    for _ in range(5):
        taken, has_changed = cpu_s(look)
        assert not has_changed, "nothing was changed"
        times.append(taken * 1_000)
    return statistics.median(times)


def corpus(folder: Path) -> None:
    """How many published files each reader makes of what their manifest says: loads or not, name, description."""
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    readers: dict[str, Callable[[bytes, str], Mapping[str, Any]]] = {
        "ours": _ours,
        "PyYAML alone": _yaml_alone,
        "skills-ref": _skills_ref,
    }
    for name, read in readers.items():
        right = 0
        for entry in manifest:
            raw = (folder / entry["id"] / document.NAME).read_bytes()
            try:
                found = read(raw, entry["directory"])
            except Exception:  # noqa: BLE001 - whatever a reader raises, it does not load this file
                found = {}
            wanted = {key: entry["expect"][key] for key in ("name", "description")} if entry["expect"]["loads"] else {}
            right += found == wanted
        print(f"{name:44} {right:5} of {len(manifest)} files as their manifest says")


def _ours(raw: bytes, directory: str) -> Mapping[str, Any]:
    try:
        read = document.parse(raw, directory)
    except BrokenSkill:
        return {}
    return {"name": read.name, "description": read.description}


def _yaml_alone(raw: bytes, directory: str) -> Mapping[str, Any]:
    """What is quickly written: split at the markers, `safe_load`, both fields as they are."""
    del directory
    _, block, _ = raw.decode().split("---", 2)
    fields = yaml.safe_load(block)
    return {"name": fields["name"], "description": fields["description"].strip()}


def _skills_ref(raw: bytes, directory: str) -> Mapping[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        place = Path(name, directory)
        place.mkdir()
        (place / document.NAME).write_bytes(raw)
        read = read_properties(place)
    return {"name": read.name, "description": read.description}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--skills", type=int, default=10_000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--corpus", type=Path, default=Path(__file__).parent.parent / "tests/skills/corpus")
    given = options.parse_args()
    os.sched_setaffinity(0, {measured_core()})
    print(
        f"{given.skills:,} skills of {SIZE_BYTES:,} bytes, seed {given.seed}; load of the machine {os.getloadavg()[0]:.1f}"
    )
    verdicts = Verdicts()
    many(given.skills, given.seed, verdicts)
    corpus(given.corpus)
    verdicts.end()


if __name__ == "__main__":
    main()
