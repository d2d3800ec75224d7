"""Descriptions that are easily confused: two skills that the same request could fit, however they are worded.

No model is asked. Words in English and Chinese are brought to concepts by the list in `concepts.txt`; what is not in it
counts by itself. Two skills overlap when they speak of the same things and do the same with them.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from typing import Final

from skills.words import everyday, has_no_blanks, runs, stem

THRESHOLD: Final = 0.3

NOT_FOR: Final = re.compile(
    r"(?:\b(?:not|never)\s+(?:for|when|if|to)\b|\bdo(?:es)?\s+not\s+use\b|\bdon't\s+use\b|不用于|不适用|不要用|不包括|不负责|请勿)"
    r"[^.!?。！？\n]*",
    re.IGNORECASE,
)
_LONGEST: Final = 4
"""Words that may belong together in the list."""
_ACTS: Final = 0.6
"""How far a score hangs on what is done."""
_ACTS_UNSAID: Final = 0.5
_ALSO_AN_ACT: Final = 0.6
_SPEAKERS: Final = 200
_IN_NAME: Final = 1.5
_EMPTY_WORDS: Final = re.compile(
    "助手|工具|技能|帮忙|帮助|帮|使用|用于|用来|根据|需要|如果|或者|以及|怎么办|怎么|什么|如何|哪些|哪|我们|他们|你们|自己|"
    "一个|一遍|一些|几个|几家|几天|多少|还有|处理|进行|支持|包括|可以|应该|当|时|的|了|和|与|或|并|把|给|在|是|有|为|从|到|"
    "对|被|将|要|会|能|个|些|这|那|其|及|等|不|想|做|看|说|先|再|后|前|里|上|下|中|出|多|好|最|更|谁|吗"
)


@dataclass(frozen=True, slots=True)
class Described:
    """What a request is compared with."""

    id: str
    description: str


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two skills that one request could fit."""

    first: int
    """Where it stands in what was given."""
    second: int
    score: float
    """From `THRESHOLD` to 1."""
    common: tuple[str, ...]
    """What both speak of, the weightiest first."""


def overlaps(skills: Sequence[Described]) -> Iterator[Overlap]:
    """All pairs that are easily confused. A pair is told apart when one description names the other's id."""
    frequent = _frequent(_Meaning.of(one) for one in skills)
    meanings = [_Meaning.of(one).without(frequent) for one in skills]
    for first, second in _candidates(meanings):
        score, common = _alike(meanings[first], meanings[second])
        told_apart = _names(skills[first], skills[second]) or _names(skills[second], skills[first])
        if score >= THRESHOLD and not told_apart:
            yield Overlap(first, second, round(score, 2), common)


def likeness(first: Described, second: Described) -> float:
    """How much two skills have in common, from 0 to 1."""
    return _alike(_Meaning.of(first), _Meaning.of(second))[0]


@dataclass(frozen=True, slots=True)
class _Word:
    """A word of a description, as what it may mean."""

    concepts: frozenset[str]
    weight: float
    """What it counts where both speak of it."""
    alone: float
    """What it counts where only one does: what the list does not know may well be said in other words there."""


@dataclass(frozen=True)
class _Meaning:
    """What a description speaks of (`things`) and what is done with it (`acts`)."""

    things: tuple[_Word, ...]
    acts: frozenset[str]

    @classmethod
    def of(cls, described: Described) -> _Meaning:
        things: dict[frozenset[str], _Word] = {}
        acts: set[str] = set()
        for text, factor in ((described.id, _IN_NAME), (NOT_FOR.sub(" ", described.description), 1.0)):
            for word in _words(text):
                done = {concept for concept in word.concepts if concept.startswith("!")}
                only_acts = {act for act in done if not act.endswith("+")}
                named = word.concepts - only_acts
                acts |= done
                if named and named not in things:
                    share = factor * (_ALSO_AN_ACT if only_acts else 1.0)
                    things[named] = _Word(named, word.weight * share, word.alone * share)
        return cls(tuple(things.values()), frozenset(acts))

    @cached_property
    def named(self) -> frozenset[str]:
        return frozenset(concept for word in self.things for concept in word.concepts)

    def without(self, frequent: Mapping[str, float]) -> _Meaning:
        """With what many skills speak of counting less."""
        if not frequent:
            return self
        things = []
        for word in self.things:
            factor = max(frequent.get(concept, 1.0) for concept in word.concepts)
            things.append(_Word(word.concepts, word.weight * factor, word.alone * factor))
        return _Meaning(tuple(things), self.acts)

    def within(self, other: _Meaning) -> tuple[float, float]:
        """The weight of what `other` speaks of too, and of everything."""
        shared = sum(word.weight for word in self.things if word.concepts & other.named)
        return shared, shared + sum(word.alone for word in self.things if not word.concepts & other.named)


def _candidates(meanings: Sequence[_Meaning]) -> Iterator[tuple[int, int]]:
    """Pairs that share enough to be worth a closer look. In a large collection, of what is not everybody's."""
    speakers: dict[str, dict[int, float]] = {}
    for at, meaning in enumerate(meanings):
        for word in meaning.things:
            for concept in word.concepts:
                weights = speakers.setdefault(concept, {})
                weights[at] = max(weights.get(at, 0.0), word.weight)
    most = max(_SPEAKERS, len(meanings) // 20)
    least = [sum(word.alone for word in meaning.things) for meaning in meanings]
    for first, meaning in enumerate(meanings):
        shared: dict[int, float] = {}
        for word in meaning.things:
            for concept in word.concepts:
                others = speakers[concept]
                for second, weight in others.items() if len(others) <= most else ():
                    if second > first:
                        shared[second] = shared.get(second, 0.0) + max(weight, word.weight)
        # No score is above what is shared, at most, by what the shorter of the two says, at least.
        yield from (
            (first, second)
            for second, weight in sorted(shared.items())
            if weight >= THRESHOLD * min(least[first], least[second])
        )


def _alike(one: _Meaning, other: _Meaning) -> tuple[float, tuple[str, ...]]:
    mine, all_mine = one.within(other)
    theirs, all_theirs = other.within(one)
    if not mine or not theirs:
        return 0.0, ()
    both = (mine + theirs) / (all_mine + all_theirs)
    smaller = max(mine / all_mine, theirs / all_theirs)
    acts = one.acts & other.acts
    fewer = min(_sum(one.acts), _sum(other.acts))
    doing = _sum(acts) / fewer if fewer else _ACTS_UNSAID
    score = math.sqrt(both * smaller) * (1 - _ACTS + _ACTS * doing) * min(1.0, (mine + theirs) / 2)
    names = [*sorted(one.named & other.named)[:4], *sorted(acts)[:2]]
    return min(score, 1.0), tuple(name.strip("!~+").replace("_", " ") for name in names)


def _sum(acts: Iterable[str]) -> float:
    """Nearly every skill writes or finds something: that it does tells less."""
    return sum(0.5 if act.endswith("~") else 1.0 for act in acts)


def _names(one: Described, other: Described) -> bool:
    """Whether one description speaks of the other skill by its name: then its author has told them apart."""
    name = re.escape(other.id.rpartition("/")[2])
    return re.search(rf"(?<![\w-]){name}(?![\w-])", one.description) is not None


def _frequent(meanings: Iterable[_Meaning]) -> dict[str, float]:
    """In a collection with one subject, the subject tells nothing apart: half the weight in a fifth of the skills."""
    counts: Counter[str] = Counter()
    total = 0
    for meaning in meanings:
        counts.update(meaning.named)
        total += 1
    if total < 10:
        return {}
    return {concept: min(1.0, 0.1 * total / count) for concept, count in counts.items() if count > 0.1 * total}


def _words(text: str) -> Iterator[_Word]:
    english: list[str] = []
    for run in runs(text):
        if has_no_blanks(run):
            yield from _chinese(run)
        else:
            english.append(run)
    yield from _english(english)


def _english(words: Sequence[str]) -> Iterator[_Word]:
    stems = [stem(word) for word in words]
    listed = _listed()
    at = 0
    while at < len(stems):
        size = next((n for n in range(_LONGEST, 0, -1) if "_".join(stems[at : at + n]) in listed), 0)
        if size:
            yield listed["_".join(stems[at : at + size])]
        elif stems[at] not in everyday() and len(words[at]) > 1 and not words[at].isdecimal():
            yield _Word(frozenset({stems[at]}), 0.6, 0.2)
        at += max(size, 1)


def _chinese(run: str) -> Iterator[_Word]:
    """Words of the list, the longest first; neighbouring characters of what lies between them."""
    listed = _listed()
    at = begin = 0
    while at < len(run):
        size = next((n for n in range(6, 0, -1) if run[at : at + n] in listed), 0)
        if size:
            yield from _pairs(run[begin:at])
            yield listed[run[at : at + size]]
            begin = at + size
        at += max(size, 1)
    yield from _pairs(run[begin:])


def _pairs(run: str) -> Iterator[_Word]:
    for part in _EMPTY_WORDS.split(run):
        yield from (_Word(frozenset({part[at : at + 2]}), 0.3, 0.1) for at in range(len(part) - 1))


@cache
def _listed() -> dict[str, _Word]:
    """The words of the list: English ones by their stems, joined by `_`, Chinese ones as they are."""
    found: dict[str, set[str]] = {}
    for line in resources.files("skills").joinpath("concepts.txt").read_text("utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        name, _, words = line.partition(": ")
        for word in words.replace("|", " ").split():
            term = "_".join(stem(part) for part in re.split(r"[_'/.-]", word)) if word.isascii() else word
            found.setdefault(term, set()).add(name)
    return {term: _listed_word(concepts) for term, concepts in found.items()}


def _listed_word(concepts: set[str]) -> _Word:
    things = [concept for concept in concepts if not concept.startswith("!")]
    common = bool(things) and all(concept.endswith("~") for concept in things)
    return _Word(frozenset(concepts), 0.4 if common else 1.0, 0.2 if common else 0.7)
