"""Kinds of turn, as what people write and what the scripted model answers.

A message names itself (`mark:c7.0`), its kind, and its conversation's word; the model finds all three in what it is sent,
so that one script serves every conversation at once. A call names itself as well: `c7.0.s1`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tests.harness.fake_model import Asked
from tests.harness.model_replies import Reply, says, several
from workers.prompt.compaction import INSTRUCTIONS

SAID: Final = re.compile(r"kind:(\w+) mark:([\w.-]+) (QX[a-z]\w+Z)")
CANARY: Final = re.compile(r"QX[a-z]\w*?Z")
"""A conversation's own word, with its name in it; codes of approvals have no small letters."""
END: Final = re.compile(r"\bend:([\w.-]+)")
"""Stands at the end of each part of a text, with the answer's name."""
RECEIPT: Final = re.compile(r"\breceipt:(\w+)")
"""Stands in what a tool answers."""
UNKNOWN: Final = "it is not known whether"
SERVER: Final = "desk"
PART_CHARACTERS: Final = 400
"""`text_limit` of the platform with keys: a long answer comes in three parts."""
ELSEWHERE_CHARACTERS: Final = 4_096
KEYED, KEYLESS, SKIPPING, SEARCHED = "c", "k", "s", "l"
"""How names of conversations begin, by their platform."""
SUMMARY: Final = "sum"
"""What stands in a summary, as if it were a message of that name."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of turn. Each of `steps` is one answer of the model that calls these tools; the last answer is text."""

    name: str
    about: str
    steps: tuple[tuple[str, ...], ...] = ()
    parts: int = 1
    asks: bool = False
    """A person says yes before it goes on."""
    compacts: bool = False
    """What was said is put away by it: behind two messages that were answered and before one more."""
    tokens: int = 10
    """What the model says that its request had."""
    before_s: float = 0.0
    """Each answer of the model takes so long."""

    @property
    def is_command(self) -> bool:
        """Nothing of the turn itself is for the model: it is a /compact."""
        return self.name == "compact"

    @property
    def calls(self) -> int:
        """How often the model is asked."""
        return len(self.steps) + 1 + (self.compacts and not self.is_command)

    def text(self, message: str, canary: str) -> str:
        return f"kind:{self.name} mark:{message} {canary}"


KINDS: Final[Mapping[str, Kind]] = {
    one.name: one
    for one in (
        Kind("plain", "no tool"),
        Kind("read", "three tools that only read, side by side", (("current_time", "look", "look"),)),
        Kind("once", "a tool that must not run twice, then one that reads", (("pay",), ("look",))),
        Kind("batch", "three tools side by side, two of which must not run twice", (("look", "pay", "pay"),)),
        Kind("asks", "a tool that waits for a person's yes", (("sign",),), asks=True),
        Kind("long", "a reply in three parts", parts=3),
        Kind("compact", "what was said is put away, and one more message comes", compacts=True),
        Kind("full", "what was said is too long by now and is put away before the answer", compacts=True),
    )
}
GROWN: Final = Kind("grown", "behind it all that was said is too long", tokens=190_000)
BESIDE: Final = Kind("beside", "a slow one beside another turn", (*[("look",)] * 4, ("pay",)), before_s=0.7)
_ALL: Final = {**KINDS, GROWN.name: GROWN, BESIDE.name: BESIDE}


def name_of(asked: Asked) -> str:
    """Of what the scripted model says: the same whoever asks for it, and how often."""
    turn = turn_of(asked)
    return f"{turn.message}.{SUMMARY if is_summary(asked) else f's{turn.step}'}"


def text_of(reply: Reply) -> str:
    """What it says to people."""
    return "\n\n".join(str(block["text"]) for block in reply.content if block["type"] == "text")


def answer(asked: Asked) -> Reply:
    """What the scripted model says."""
    turn, end = turn_of(asked), f"end:{name_of(asked)}"
    if is_summary(asked):
        return says(f"Decided: kind:plain mark:{turn.message.split('.')[0]}.{SUMMARY} {turn.canary} {end}")
    kind = _ALL[turn.kind]
    usage = {"input_tokens": kind.tokens, "output_tokens": 5}
    return replace(_answer(asked, kind, turn, end), before_s=kind.before_s, usage=usage)


def _answer(asked: Asked, kind: Kind, turn: Turn, end: str) -> Reply:
    if turn.step < len(kind.steps):
        named = [
            (f"{SERVER}__{tool}", {"step": f"{turn.message}.s{turn.step}{at}"})
            if tool != "current_time"
            else (tool, {})
            for at, tool in enumerate(kind.steps[turn.step])
        ]
        return several(*named)
    # it tells the person what it was told: that nobody knows what became of a call
    words = " ".join([f"re mark:{turn.message} {turn.canary}", *(f"unknown:{step}" for step in unknown_in(asked))])
    if kind.parts > 1:
        # each paragraph nearly fills a part, so that the platform's limit cuts between them
        most = PART_CHARACTERS if turn.message.startswith(KEYED) else ELSEWHERE_CHARACTERS
        filling = "word " * ((most * 3 // 4) // 5)
        said = [f"{words} part {number}of{kind.parts} {filling}{end}" for number in range(1, kind.parts + 1)]
        return says("\n\n".join(said), deltas=6)
    return says(f"{words} {end}", deltas=3)


@dataclass(frozen=True, slots=True)
class Turn:
    """Where a request to the model stands: in the turn of which message, after how many answers."""

    kind: str
    message: str
    canary: str
    step: int


def turn_of(asked: Asked) -> Turn:
    """By the last message of a person. Raises `LookupError` for a request without one."""
    messages = asked.request["messages"]
    for at in range(len(messages) - 1, -1, -1):
        if messages[at]["role"] != "user":
            continue
        found = [one for text in _own_texts(messages[at]["content"]) for one in SAID.findall(text)]
        if found:
            kind, message, canary = found[-1]
            return Turn(kind, message, canary, sum(one["role"] == "assistant" for one in messages[at:]))
    raise LookupError("no message of a person")


def is_summary(asked: Asked) -> bool:
    """Of what is put away, and no turn."""
    return any(str(block["text"]).startswith(INSTRUCTIONS) for block in asked.request.get("system", ()))


def said_in(asked: Asked) -> tuple[str, ...]:
    """People's messages that stand in it, in order."""
    users = (one["content"] for one in asked.request["messages"] if one["role"] == "user")
    return tuple(found[1] for content in users for text in _own_texts(content) for found in SAID.findall(text))


def unknown_in(asked: Asked) -> tuple[str, ...]:
    """Steps of which it says that nobody knows what became of them."""
    return tuple(step for step, text in _results(asked) if UNKNOWN in text.lower())


def owner_of(canary: str) -> str:
    """The conversation whose word it is."""
    return canary.removeprefix("QX").removesuffix("Z")


def receipts_in(asked: Asked) -> tuple[str, ...]:
    """`STEP=WORD` of each call in it that has a result and a step."""
    return tuple(f"{step}={''.join(RECEIPT.findall(text)[:1])}" for step, text in _results(asked) if step)


def _results(asked: Asked) -> Iterator[tuple[str, str]]:
    """The step of each call that has a result, and its text."""
    blocks = [
        block for one in asked.request["messages"] if isinstance(one["content"], list) for block in one["content"]
    ]
    steps = {one["id"]: str(one["input"].get("step", "")) for one in blocks if one["type"] == "tool_use"}
    for one in blocks:
        if one["type"] == "tool_result":
            yield steps[one["tool_use_id"]], "\n".join(_texts(one))


def canaries_in(asked: Asked) -> tuple[str, ...]:
    return tuple(dict.fromkeys(CANARY.findall(asked.body.decode())))


def _own_texts(content: str | Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What people wrote of a message's content: not results of tools."""
    if isinstance(content, str):
        yield content
        return
    yield from (block["text"] for block in content if block["type"] == "text")


def _texts(block: Mapping[str, Any]) -> Iterator[str]:
    content = block.get("content", "")
    if isinstance(content, str):
        yield content
    else:
        yield from (str(part.get("text", "")) for part in content)
