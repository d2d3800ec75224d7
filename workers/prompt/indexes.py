"""The index of each catalogue in hand: laid out once, and told of in the log once."""

from __future__ import annotations

import asyncio
import logging
from weakref import WeakKeyDictionary

from config.profiles import Profile
from gateway.logs import log
from skills.index import Index, lay_out
from skills.library import Catalogue

logger = logging.getLogger(__name__)


class Indexes:
    """One a worker process."""

    def __init__(self, max_tokens: int) -> None:
        self._max_tokens = max_tokens
        self._made: WeakKeyDictionary[Catalogue, dict[tuple[object, ...], Index]] = WeakKeyDictionary()

    async def of(self, catalogue: Catalogue, profile: Profile) -> Index:
        """The index of a catalogue in a profile's order and delivery. The same one is laid out only once."""
        made = self._made.setdefault(catalogue, {})
        form = (*profile.order, profile.delivery)
        if form not in made:
            # In a thread: thousands of skills take a while.
            index = await asyncio.to_thread(lay_out, catalogue, self._max_tokens, profile.order, profile.delivery)
            if form not in made:
                made[form] = index
                self._tell(index, profile.name)
        return made[form]

    def _tell(self, index: Index, profile: str) -> None:
        log(
            logger,
            "list of skills" if index.is_whole else "list of skills is not whole",
            level=logging.INFO if index.is_whole else logging.WARNING,
            profile=profile,
            skills=index.total,
            listed=index.shown,
            shortened=index.shortened,
            tokens=index.tokens,
            budget_tokens=self._max_tokens,
        )
