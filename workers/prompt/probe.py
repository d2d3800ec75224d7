"""Probe: which skills the configured model would load for a sentence, counted from the calls that it really makes.

The model gets what it would get in a direct chat with this profile: the same system prompt, list of skills and tools.
No tool is run; its first answer counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import aiohttp

from config.profiles import Profile
from config.settings import Settings
from gateway.rights.skill_tools import LOAD, offered
from skills.library import Catalogue, SkillNotFound
from workers.models import Answer, Model, Request, load_model
from workers.prompt.indexes import Indexes
from workers.prompt.rendering import Prompt, prompt
from workers.tools import Outside, load_tools

AT_ONCE: Final = 4
NONE: Final = "-"


@dataclass(frozen=True, slots=True)
class Case:
    """A sentence as somebody might write it, and the ids of the skills that should be loaded, if that is known."""

    text: str
    expected: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """What the model did with it."""

    case: Case
    loaded: tuple[str, ...]
    """Ids, in the order of the calls."""
    refused: tuple[str, ...] = ()
    """Names in `load_skill` calls that fit no skill, or several."""
    other_calls: tuple[str, ...] = ()
    """Tools that it called instead or besides."""

    @property
    def is_right(self) -> bool | None:
        return None if self.case.expected is None else set(self.loaded) == self.case.expected and not self.refused

    def as_json(self) -> dict[str, Any]:
        expected = None if self.case.expected is None else sorted(self.case.expected)
        return {
            "text": self.case.text, "loaded": list(self.loaded), "expected": expected, "right": self.is_right,
            "refused": list(self.refused), "other_calls": list(self.other_calls),
        }  # fmt: skip

    def __str__(self) -> str:
        mark = {None: " ", True: "✓", False: "✗"}[self.is_right]
        loaded = ", ".join(self.loaded) or NONE
        more = f"  (refused: {', '.join(self.refused)})" if self.refused else ""
        more += f"  (other calls: {', '.join(self.other_calls)})" if self.other_calls else ""
        if self.is_right is False and self.case.expected is not None:
            more += f"  (expected: {', '.join(sorted(self.case.expected)) or NONE})"
        return f"{mark} {self.case.text}  =>  {loaded}{more}"


@dataclass(frozen=True, slots=True)
class Score:
    """Over all sentences with an expectation."""

    right: int
    wanted: int
    """Loads that were made and expected."""
    made: int
    expected: int
    cases: int

    @property
    def precision(self) -> float:
        """Of the loads that were made, the share that was wanted."""
        return self.wanted / self.made if self.made else 1.0

    @property
    def recall(self) -> float:
        """Of the loads that were wanted, the share that was made."""
        return self.wanted / self.expected if self.expected else 1.0

    def as_json(self) -> dict[str, Any]:
        return {"cases": self.cases, "right": self.right, "precision": self.precision, "recall": self.recall}

    def __str__(self) -> str:
        return (
            f"{self.right} of {self.cases} sentences right; precision {self.precision:.2f} "
            f"({self.wanted} of {self.made} loads), recall {self.recall:.2f} ({self.wanted} of {self.expected})"
        )


def read_cases(lines: Iterable[str], catalogue: Catalogue) -> list[Case]:
    """Sentences, `sentence => id, id` or `sentence => -`. Raises `ValueError` that names the line."""
    cases = []
    for number, line in enumerate(lines, 1):
        text, arrow, names = line.strip().rpartition("=>")
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not arrow:
            cases.append(Case(line.strip()))
            continue
        wanted = [name.strip() for name in names.split(",") if name.strip()]
        if not text.strip() or not wanted:
            raise ValueError(f"line {number}: wanted are `sentence => id, id` or `sentence => -`")
        try:
            found = frozenset(catalogue.find(name).id for name in wanted if name != NONE)
        except SkillNotFound as error:
            raise ValueError(f"line {number}: {error}") from error
        cases.append(Case(text.strip(), found))
    if not cases:
        raise ValueError("there is no sentence to try")
    return cases


async def probe(settings: Settings, profile: Profile, catalogue: Catalogue, cases: Sequence[Case]) -> list[Result]:
    """Ask the model of the settings, a few sentences at once. Raises `ModelError`, and `ValueError` where nothing can
    be loaded at all.
    """
    if LOAD not in profile.tools or not catalogue.skills:
        lacks = f"does not list the tool {LOAD}" if LOAD not in profile.tools else "has no skills"
        raise ValueError(f"the profile {profile.name} {lacks}: no skill can be loaded there")
    model = load_model(settings.model)
    try:
        async with aiohttp.ClientSession(trust_env=False) as http:
            tools = load_tools(Outside(settings, http))
        index = await Indexes(settings.skills.index_max_tokens).of(catalogue, profile)
        names = offered(profile.tools, has_skills=True, is_whole=index.is_whole)
        its_tools = [tools[name] for name in names if name in tools]
        asked = prompt(profile.instructions, index.text, its_tools)
        name = profile.model or settings.model.name
        room = asyncio.Semaphore(AT_ONCE)

        async def one(case: Case) -> Result:
            async with room:
                request = _request(name, asked, case.text, settings.model.answer_max_tokens)
                return _result(case, await _answer(model, request), catalogue)

        async with asyncio.TaskGroup() as group:
            running = [group.create_task(one(case)) for case in cases]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    finally:
        await model.close()
    return [task.result() for task in running]


def score(results: Sequence[Result]) -> Score | None:
    """None if nothing was expected of any sentence."""
    judged = [(set(one.loaded), one.case.expected, one) for one in results if one.case.expected is not None]
    if not judged:
        return None
    return Score(
        right=sum(bool(one.is_right) for _, _, one in judged),
        wanted=sum(len(loaded & expected) for loaded, expected, _ in judged),
        made=sum(len(loaded) + len(one.refused) for loaded, _, one in judged),
        expected=sum(len(expected) for _, expected, _ in judged),
        cases=len(judged),
    )


def _request(model: str, asked: Prompt, text: str, max_tokens: int) -> Request:
    said = [{"role": "user", "content": [{"type": "text", "text": text}]}]
    return Request(model, [{"type": "text", "text": asked.system}], said, list(asked.tools), max_tokens)


async def _answer(model: Model, request: Request) -> Answer:
    found: Answer | None = None
    async for piece in model.stream(request):
        found = piece if isinstance(piece, Answer) else found
    assert found is not None, "a model's stream ends in an answer"  # noqa: S101 - the Protocol's promise
    return found


def _result(case: Case, answer: Answer, catalogue: Catalogue) -> Result:
    loaded: list[str] = []
    refused: list[str] = []
    others: list[str] = []
    for block in answer.content:
        if block.get("type") != "tool_use":
            continue
        if block["name"] != LOAD:
            others.append(block["name"])
            continue
        name = str(block["input"].get("name", ""))
        try:
            loaded.append(catalogue.find(name).id)
        except SkillNotFound:
            refused.append(name)
    return Result(case, tuple(dict.fromkeys(loaded)), tuple(refused), tuple(others))
