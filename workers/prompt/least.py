"""Least: what the smallest call of the model reserves under a profile, and which limits of its budget are below that."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Mapping
from typing import Final

import aiohttp

from config.limits import MICROS, Limit, limits
from config.loading import Loaded
from config.problems import Problem
from config.profiles import Profile
from config.settings import ModelSettings
from gateway.costs.budget_words import amount
from gateway.costs.budgets import at_most
from gateway.rights.skill_tools import LOAD, offered
from skills.index import lay_out
from skills.library import Catalogue, roots, scan
from workers.prompt.rendering import prompt
from workers.prompt.window import sized
from workers.tools import Outside, Tool, load_tools

SAID: Final = "[Somebody] What is the matter?"
CENT: Final = MICROS // 100
"""Money is told in whole cents."""


async def too_small(loaded: Loaded) -> list[Problem]:
    """The limits under which nobody is ever answered: each is below what is reserved for a short question alone.

    Programs, tools of MCP servers and a channel's own skills make a call larger; they are not looked at.
    """
    budgeted = [one for _, one in sorted(loaded.profiles.items()) if _reserved(one)]
    if not budgeted:
        return []
    settings = loaded.settings
    async with aiohttp.ClientSession(trust_env=False) as http:
        tools = load_tools(Outside(settings, http))
    library = await asyncio.to_thread(scan, roots(settings.skills))
    found: list[Problem] = []
    for profile in budgeted:
        catalogue = library.catalogue(profile.skills)
        tokens = await asyncio.to_thread(_request, profile, catalogue, tools, settings.skills.index_max_tokens)
        found += _below(loaded, profile, tokens)
    return found


def _reserved(profile: Profile) -> list[Limit]:
    return [one for one in limits(profile.budget) if one.unit != "turns"]


def _request(profile: Profile, catalogue: Catalogue, tools: Mapping[str, Tool], index_max_tokens: int) -> int:
    """Tokens of a first request, on the safe side, as they are reserved."""
    index = None
    if catalogue.skills and LOAD in profile.tools:
        index = lay_out(catalogue, index_max_tokens, profile.order, profile.delivery)
    names = offered(profile.tools, has_skills=bool(catalogue.skills), is_whole=index is None or index.is_whole)
    asked = prompt(profile.instructions, index.text if index else "", [tools[one] for one in names if one in tools])
    return sized((), asked, [{"role": "user", "content": [{"type": "text", "text": SAID}]}]).most


def _below(loaded: Loaded, profile: Profile, tokens: int) -> Iterator[Problem]:
    model, source = loaded.settings.model, loaded.profile_sources[profile.name]
    for limit in _reserved(profile):
        least = _least(limit, profile, model, tokens)
        if least is not None and limit.most < least:
            least = math.ceil(least / CENT) * CENT if limit.unit == "money" else least
            yield source.problem(
                tuple(limit.key.split(".")),
                "nobody is ever answered under this limit",
                f"wanted: {amount(least, limit.unit, model.currency, 'en')} or more, "
                "what is reserved for a short question and the longest answer (model.answer_max_tokens)",
            )


def _least(limit: Limit, profile: Profile, model: ModelSettings, tokens: int) -> int | None:
    """Money by the cheapest of its models. None: none has a price."""
    if limit.unit == "tokens":
        return tokens + model.answer_max_tokens
    names = {profile.model or model.name, *profile.models, profile.fallback_model or ""} - {""}
    costs = [at_most(tokens, model.answer_max_tokens, name, model.prices) for name in names]
    return min((one for one in costs if one is not None), default=None)
