"""`find_skills`: the skills of this channel by words, where the list of them is too long to show all of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from gateway.rights.skill_tools import FIND
from skills.document import cut_at_word
from skills.index import line, summary
from skills.search import HITS_MAX, search
from workers.tools import Call, Effect, Outside, Reach, ToolError, ToolResult


class Tool:
    """See `workers.tools.Tool`. Offered while the list of skills is not whole, and needs no place in a profile."""

    name: str = FIND
    description: str = (
        "Search the skills by words that may stand in their ids, descriptions or tags; the best come first, with their "
        "whole descriptions. For a task that none of the listed skills fits, or whose descriptions there are cut off. "
        "Then load the one that fits with `load_skill`."
    )
    input_schema: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "description": "A few words of the task, such as `invoice supplier` or `报销 发票`, in each language "
                "that descriptions are written in. One word that stands there is enough.",
            }
        },
        "required": ["query"],
        "additionalProperties": False,
    }
    effect: Effect = "read"
    reach: Reach = "inside"

    def __init__(self, outside: Outside) -> None:
        # A result that is longer would be cut again on its way, in the middle.
        self._room = outside.settings.tools.result_max_characters * 9 // 10

    async def run(self, arguments: dict[str, Any], call: Call) -> ToolResult:
        query = arguments["query"]
        try:
            found = await asyncio.to_thread(search, call.here.catalogue, query)
        except ValueError as error:
            raise ToolError(f"{error}: {query[:80]!r}. Give words such as a description may hold.") from error
        if not found.skills:
            text = f"None of the {len(call.here.catalogue.skills)} skills here has a word of {query[:80]!r}. Try other words."
            return ToolResult(text, untrusted=False)
        each = self._room // HITS_MAX
        lines = [line(skill, cut_at_word(summary(skill), max(each - len(skill.id), 0))) for skill in found.skills]
        if found.total > len(lines):
            lines.append(f"({len(lines)} of {found.total} that have one of these words; more words find less.)")
        return ToolResult("\n".join(lines), untrusted=False)
