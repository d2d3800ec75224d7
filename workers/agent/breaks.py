"""Breaks: when a request does not begin with the bytes of the one before, so that the provider's cache is of no use.

There are few reasons, and each is in the records. So they are counted, and one that is not expected would be seen.
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.conversation.records import Record
from workers.prompt.context import in_context, main_line
from workers.prompt.loaded import held
from workers.reading.attached import shown


def breaks(history: Sequence[Record]) -> tuple[str, ...]:
    """Why a request that is made now does not begin with the bytes of the last one: each reason once. Empty if it does.

    `prompt`: system prompt or tools changed. `cleared`: /new. `buried`: a turn that was given up is left out.
    `forgotten`: pictures that are not kept any more. `summary`, `shortened`: the context was made smaller. `model`: another
    one is asked. Else why
    a skill's text is withheld: `off`, `unsure`, `untrusted`, `changed`, `gone`, `unloaded`.
    """
    history = main_line(history)
    last = max((at for at, record in enumerate(history) if record.type == "call"), default=None)
    if last is None:  # what was sent before is not read any more
        return tuple(dict.fromkeys(one.type for one in history if one.type in {"cleared", "summary"}))
    sent, since = history[: last + 1], history[last + 1 :]
    reasons: list[str] = []
    for record in since:
        match record.type:
            case "prompt" | "cleared" | "summary" | "shortened":
                reasons.append(record.type)
            case "switched":
                reasons.append("model")
            case "forgotten" if not set(shown(in_context(sent))).isdisjoint(record.data["files"]):
                reasons.append("forgotten")
            case "failed" if "part" not in record.data and _was_asked(sent, record.data["turn"]):
                reasons.append("buried")
            case "withheld" if not {one.id for one in held(sent, waiting=False)}.isdisjoint(record.data["ids"]):
                reasons.append(record.data["why"])
    return tuple(dict.fromkeys(reasons))


def _was_asked(sent: Sequence[Record], turn: str) -> bool:
    return any(record.type == "call" and record.data["turn"] == turn for record in sent)
