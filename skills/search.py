"""Search: skills by words of their id, description and tags, for when the index can't show all of them whole."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from skills.folders import Skill
from skills.library import Catalogue
from skills.words import everyday, folded, has_no_blanks, runs, stem

HITS_MAX: Final = 20
QUERY_MAX: Final = 500
"""Characters of a query that count."""
_IN_ID: Final = 3.0
_IN_TAGS: Final = 2.0
_IN_TEXT: Final = 1.0


@dataclass(frozen=True, slots=True)
class Found:
    """The best of what a query fits."""

    skills: tuple[Skill, ...]
    """The best first; equally good ones by id."""
    total: int
    """How many it fits in all."""


def search(catalogue: Catalogue, query: str) -> Found:
    """The skills of a catalogue in which words of `query` stand. Raises `ValueError` for a query without any word.

    Endings, case and width of letters make no difference. Of Chinese, Japanese and Korean, which have no words to go
    by, two neighbouring characters count as one. A word counts for more the fewer skills have it, and in an id or a tag; one that stands in any text counts
    only where there is no other.
    """
    terms = frozenset(_terms(query[:QUERY_MAX]))
    if not terms:
        raise ValueError("there is no word to search for")
    wanted = terms - everyday() or terms
    # Taking a text apart costs far more than seeing that nothing is in it. `policy` stands for `policies` too.
    begins = tuple(term.removesuffix("y") or term for term in wanted)
    fields = {skill.id: _fields(skill, wanted, begins) for skill in catalogue.skills}
    having = {term: sum(term in one for one in fields.values()) for term in wanted}
    weights = {term: math.log(1 + len(fields) / max(having[term], 1)) for term in wanted}
    scores = {name: sum(weights[term] * factor for term, factor in one.items()) for name, one in fields.items() if one}
    best = sorted((skill for skill in catalogue.skills if skill.id in scores), key=lambda one: -scores[one.id])
    return Found(tuple(best[:HITS_MAX]), len(best))


def _fields(skill: Skill, wanted: frozenset[str], begins: Sequence[str]) -> dict[str, float]:
    """Which of the words stand in a skill, and what each counts by where it stands."""
    head = skill.head
    found: dict[str, float] = {}
    ids = " ".join((skill.id, *head.aliases))
    for text, factor in ((head.summary, _IN_TEXT), (" ".join(head.tags), _IN_TAGS), (ids, _IN_ID)):
        plain = folded(text)
        if any(begin in plain for begin in begins):
            found |= dict.fromkeys(wanted.intersection(_terms(text)), factor)
    return found


def _terms(text: str) -> Iterator[str]:
    """Stems of words; pairs of characters where a script has no words, or the one character that stands alone."""
    for run in runs(text):
        if not has_no_blanks(run):
            yield stem(run)
        elif len(run) == 1:
            yield run
        else:
            yield from (one + other for one, other in pairwise(run))
