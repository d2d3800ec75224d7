"""The seal on what ships: a list of the hashes that its skills must have, in the folder that they lie in.

python -m skills.seal       # writes it anew, for whoever changed a shipped skill; `make builtin-hashes` does that
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from skills.folders import Fault, Root, Skill, read_root

NAME: Final = "HASHES"
ALTERED: Final = "altered"
"""The kind of the faults."""


def listed(folder: Path) -> str:
    """The list as it should be for what lies in `folder` now: id and hash, a line each."""
    skills = (reading.skill for reading in read_root(Root("builtin", folder), [folder], ()))
    return "".join(f"{skill.id} {skill.hash}\n" for skill in skills if skill)


def faults(root: Root, skills: Sequence[Skill], known: Iterable[str]) -> list[Fault]:
    """What lies below a sealed root and is not what the list says. `known` are ids whose faults were told already.

    Without a list nothing is as it should be.
    """
    try:
        lines = (root.path / NAME).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        lines = []
    wanted = {id_: hash_ for id_, _, hash_ in (line.rpartition(" ") for line in lines)}
    found = [_fault(root, skill, wanted.get(skill.id)) for skill in skills if skill.hash != wanted.get(skill.id)]
    missing = sorted(wanted.keys() - {skill.id for skill in skills} - set(known))
    return found + [Fault(id_, root.tier, root.path / id_, ALTERED, "it ships and is not there") for id_ in missing]


def _fault(root: Root, skill: Skill, wanted: str | None) -> Fault:
    reason = (
        f"its files are not those that shipped: hash {skill.hash}, wanted {wanted}" if wanted else "it did not ship"
    )
    return Fault(skill.id, root.tier, skill.folder, ALTERED, reason)


if __name__ == "__main__":
    shipped = Path(__file__).parent / "builtin"
    (shipped / NAME).write_text(listed(shipped), "utf-8")
