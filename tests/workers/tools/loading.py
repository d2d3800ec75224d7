"""A conversation that loads skills: calls as the model makes them, and what it is sent of what they led to."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from config.profiles import Delivery, Profile
from config.settings import Settings, SkillsSettings
from gateway.conversation.records import Record
from skills.folders import Root
from skills.library import scan
from tests.harness.messages_rules import problem
from tests.workers.places import call as a_call
from tests.workers.places import place
from tests.workers.records import answer, said, use
from workers.prompt.context import in_context
from workers.prompt.rendering import messages
from workers.tools import Outside, ToolError, ToolResult, load_skill, unload_skill


@dataclass
class Loading:
    """A person has asked for something, and the model works on it with the skills of one folder."""

    root: Path
    http: aiohttp.ClientSession
    delivery: Delivery = "message"
    history: list[Record] = field(default_factory=lambda: [said("please")])
    patterns: Sequence[str] = ("*",)
    settings: SkillsSettings = field(default_factory=SkillsSettings)
    rights: dict[str, Any] = field(default_factory=dict)
    """Fields of `Here` beyond the usual."""
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    async def load(self, name: str, **arguments: Any) -> ToolResult:
        """A step of one call. Raises `ToolError`, and then nothing of it is in history."""
        [result] = await self.batch(("load_skill", {"name": name, **arguments}))
        if isinstance(result, ToolError):
            del self.history[-2:]
            raise result
        return result

    async def unload(self, name: str) -> ToolResult | ToolError:
        [result] = await self.batch(("unload_skill", {"name": name}))
        return result

    async def batch(self, *calls: tuple[str, dict[str, Any]]) -> list[ToolResult | ToolError]:
        """A step of several calls, run in their order."""
        uses = [{**use(f"call{next(self._numbers)}", tool), "input": arguments} for tool, arguments in calls]
        self.history.append(answer(1, *uses, stop_reason="tool_use"))
        return [await self._run(one["id"], one["name"], one["input"]) for one in uses]

    async def _run(self, call_id: str, name: str, arguments: dict[str, Any]) -> ToolResult | ToolError:
        outside = Outside(Settings(skills=self.settings), self.http)
        tool = load_skill.Tool(outside) if name == "load_skill" else unload_skill.Tool(outside)
        here = place(scan([Root("org", self.root)]), Profile(name="p", skills=list(self.patterns)), **self.rights)
        call = a_call(here, in_context(self.history), id=call_id, delivery=self.delivery)
        data: dict[str, Any] = {"step": 1, "id": call_id, "name": name}
        try:
            result = await tool.run(arguments, call)
        except ToolError as error:
            self.history.append(Record("tool_result", 0, data | {"text": str(error), "error": True}))
            return error
        if result.skill:
            data |= {"skill": result.skill.id, "bundle": result.skill.hash}
        if result.untrusted:
            data |= {"untrusted": True, "mark": "m4rk", "note": result.note}
        self.history += [Record("tool_result", 0, data | {"text": result.text}), *result.records]
        return result

    async def refused(self, name: str, **arguments: Any) -> str:
        before = list(self.history)
        with pytest.raises(ToolError) as caught:
            await self.load(name, **arguments)
        assert self.history == before
        return str(caught.value)

    def say(self, text: str = "go on") -> None:
        """The person writes again, after an answer."""
        self.history += [answer(2, {"type": "text", "text": "Done."}), said(text, f"turn{next(self._numbers)}")]

    def deliver(self) -> None:
        """Until what was loaded stands in what is sent: for one way that takes the person's next message."""
        if self.delivery == "next_turn":
            self.say()

    def sent(self) -> list[str]:
        """All texts that are sent in the role of the user, results too."""
        rendered = messages(self.history)
        tools = [{"name": "tool", "description": "d", "input_schema": {"type": "object", "properties": {}}}]
        fault = problem({"model": "m", "max_tokens": 1, "messages": rendered, "tools": tools}, alternate=True)
        assert fault is None, fault
        blocks = [block for one in rendered if one["role"] == "user" for block in one["content"]]
        return [str(block.get("text") or block.get("content")) for block in blocks]

    def whole(self) -> str:
        return json.dumps(messages(self.history), ensure_ascii=False)

    def sent_body(self, record: Record) -> str:
        """The stretch of a body as the model gets it, which has no marks in it."""
        lead = record.data["lead"]
        opening = f'\n<skill name="{record.data["id"]}">\n' if self.delivery == "tool_result" else "\n\n"
        [text] = [one for one in self.sent() if lead + opening in one]
        rest: str = text.partition(lead + opening)[2]
        return rest[: record.data["characters"]]
