"""The tool `ask_person`: a question to the people in the chat. The turn waits for the answer without a worker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from workers.tools import Call, Effect, NeedsPerson, Outside, Reach, ToolError, ToolResult

CHOICES_MAX: Final = 5


class Tool:
    """See `workers.tools.Tool`."""

    name: str = "ask_person"
    description: str = (
        "Asks the people in this chat one question and waits for the answer, for hours if need be. Use it when you can't go "
        "on without something that only they know or may decide. Offer choices where there are few; people can always "
        "answer in their own words."
    )
    input_schema: Mapping[str, Any] = {
        "type": "object",
        "additionalProperties": False,
        "required": ["question"],
        "properties": {
            "question": {
                "type": "string",
                "minLength": 1,
                "maxLength": 2_000,
                "description": "The question, whole and short, in the people's language.",
            },
            "choices": {
                "type": "array",
                "maxItems": CHOICES_MAX,
                "items": {"type": "string", "minLength": 1, "maxLength": 80},
                "description": "Answers to choose from, each a few words. Leave it out for an open question.",
            },
        },
    }
    effect: Effect = "read"
    reach: Reach = "inside"

    def __init__(self, outside: Outside) -> None:
        del outside

    async def run(self, arguments: dict[str, Any], call: Call) -> ToolResult:
        word = call.word
        if word is None:
            raise NeedsPerson(arguments["question"].strip(), tuple(arguments.get("choices", ())))
        who = word.name or word.by
        if word.word == "expired":
            raise ToolError("Nobody answered in time. Go on without it, or say what you would have needed.")
        if not word.text:
            return ToolResult(f"{who} answered with the message that follows.", untrusted=False)
        return ToolResult(f"{who} answered: {word.text}", untrusted=False)
