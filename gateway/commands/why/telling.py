"""What is said of a call and of the rule that decided, in words."""

from __future__ import annotations

from gateway.conversation.records import Record
from gateway.phrases import phrases, say
from gateway.text.quoting import quoted


def tool_line(result: Record, language: str) -> str:
    """What became of a call."""
    data = result.data
    name, shown = data["name"], data.get("shown", data["name"])
    what = quoted(name if shown == name else f"{name} {shown}")
    if not data.get("error"):
        return say("why.ran", language, tool=what)
    if rule := data.get("rule"):
        return say("why.refused", language, tool=what, rule=reason(data.get("reason", ""), rule, language))
    return say("why.error", language, tool=what, reason=quoted(data["text"][:200]))


def reason(word: str, rule: str, language: str) -> str:
    """In words, with the rule itself. Earlier records have only the rule."""
    key = f"skill.why.{word}"
    if not word or key not in phrases("en"):
        return quoted(rule)
    told = say(key, language, rule=quoted(rule))
    return told if quoted(rule) in told else say("why.rule", language, why=told, rule=quoted(rule))
