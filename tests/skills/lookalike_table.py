"""Makes `skills/lookalikes.txt` from the Unicode data that the package `confusable-homoglyphs` ships.

python -m tests.skills.lookalike_table > skills/lookalikes.txt
"""

from __future__ import annotations

import json
import sys
import unicodedata
from collections import defaultdict
from importlib import resources

from skills import ids

HEAD = """\
# Letters, digits and marks that look like others, for `ids.skeleton`: what is shown, then all that may be taken for it.
# Only what can stand in an id after NFKC and case folding is here. From Unicode's confusables.txt (UTS 39), copyright
# Unicode, Inc., under the Unicode License v3 (https://www.unicode.org/license.txt). Made by tests/skills/lookalike_table.py.
"""


def table() -> str:
    """The file's text."""
    found = json.loads(resources.files("confusable_homoglyphs").joinpath("confusables.json").read_text("utf-8"))
    alike = {source: [_plain(one["c"]) for one in others] for source, others in found.items()}
    shown: dict[str, str] = defaultdict(str)
    for source in sorted(alike):
        letter = len(source) == 1 and unicodedata.category(source)[0] in "LMN"
        if not letter or ids.key(source) != source or not (target := _target(source, alike)):
            continue
        shown[target] += source
    return HEAD + "".join(f"{target} {sources}\n" for target, sources in sorted(shown.items()))


def _target(source: str, alike: dict[str, list[str]]) -> str:
    """What stands for it. The data have no direction: what looks like several others stands for them."""
    if len(alike[source]) != 1:
        return ""
    [other] = alike[source]
    if alike.get(other) == [source] and (other.isascii(), source) < (source.isascii(), other):
        return ""
    folded = unicodedata.normalize("NFD", ids.key(other))
    return folded if folded != source else ""


def _plain(text: str) -> str:
    """Without the marks of direction that the data put round what is written from the right."""
    return text.strip("\u200e\u200f")


if __name__ == "__main__":
    sys.stdout.write(table())
