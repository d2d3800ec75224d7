"""Taint: whether text of third parties is in what the model is sent, and what needs a person's yes because of it.

Such text may hold orders, and a model may follow them. So nothing here looks at what a text says: only at where it came
from, and at what a call could do with what the model has read since.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Final, Literal

from config.profiles import Profile
from gateway.conversation.records import Record
from gateway.rights.skill_tools import SAVE
from gateway.text.dialect import Dialect, write
from gateway.text.urls import Addresses, is_on, place_of
from workers.calling.programs import ProgramTool
from workers.prompt.context import spoken, with_branches
from workers.prompt.memo import Memo
from workers.tools import Tool


def tainted(records: Sequence[Record], memo: Memo) -> bool:
    """Whether such a text of a conversation is still in context, of its branches too: what these found goes into
    answers. It counts until nothing of it is sent any more, and a summary carries it on.
    """
    here = with_branches(list(records))
    shown = _Shown(here, memo)
    return any(_taints(record, shown) for record in here)


def is_given(url: str, records: Sequence[Record], profile: Profile, memo: Memo) -> bool:
    """Whether the model need not have made this address up, so that it carries nothing which was read since: its host is one
    of the profile's, or it stands in what people said, in guidance, or in what came from outside. What a tool made of
    the model's own words (a program, a file, an error) gives no address.
    """
    place = place_of(url)
    if place is None:
        return False
    if is_on(place, profile.hosts):
        return True
    here = with_branches(list(records))
    given = chain([(profile.instructions, True)], *(_given(one, profile) for one in here))
    if any(memo.of(Addresses.as_said if is_said else Addresses.in_text, text).has(place) for text, is_said in given):
        return True
    return any(memo.of(Addresses.as_said, text).has(place) for one in here for text in _repeated(one)) and not any(
        memo.of(Addresses.in_text, text).has(place) for one in here for text in _written(one)
    )


def reason_to_ask(
    tool: Tool, arguments: Mapping[str, Any], records: Sequence[Record], profile: Profile, memo: Memo
) -> Literal["listed", "tainted"] | None:
    """Why a person has to say yes before this runs; None: nobody has to. `records` are the whole conversation's."""
    rules = profile.approvals
    names = {tool.name, tool.skill.id} if isinstance(tool, ProgramTool) else {tool.name}
    if not names.isdisjoint(rules.ask):
        return "listed"
    if rules.tainted == "allow" or not names.isdisjoint(rules.free):
        return None
    if tool.name == SAVE and profile.notes == "ask":  # a note waits for a person anyway
        return None
    if (tool.effect != "once" and tool.reach == "inside") or not tainted(records, memo):
        return None
    if tool.effect != "once" and tool.reach == "address" and _has_no_text_but(arguments, "url", tool):
        return None if is_given(str(arguments.get("url")), records, profile, memo) else "tainted"
    return "tainted"


def _has_no_text_but(arguments: Mapping[str, Any], name: str, tool: Tool) -> bool:
    """Whether all other arguments are numbers, yes or no, or words of the schema: of any other text nobody knows where it
    goes, and a script for a page, say, takes it anywhere.
    """
    known = tool.input_schema.get("properties", {})
    words = {key: schema.get("enum", ()) for key, schema in known.items() if isinstance(schema, Mapping)}
    return all(
        key == name or value is None or isinstance(value, int | float) or value in words.get(key, ())
        for key, value in arguments.items()
    )


def _taints(record: Record, shown: _Shown) -> bool:
    data = record.data
    match record.type:
        case "tool_result":
            return bool(data.get("untrusted") and not data.get("own"))
        case "attached":
            return data["kind"] in {"text", "image"}
        case "overheard":
            return bool(data["said"])
        case "summary":
            return bool(data.get("tainted"))
        case "event" if event := spoken(record):
            return event.actor.is_bot or any(text and not shown.has(text) for text in (event.quoted, event.forwarded))
    return False


def _given(record: Record, profile: Profile) -> Iterator[tuple[str, bool]]:
    """Texts that give addresses; whether a person wrote it, who may leave out `https://`."""
    data = record.data
    match record.type:
        case "event" if (event := spoken(record)) and not event.actor.is_bot:
            yield event.text, True
        case "attached" if data["kind"] == "text" and not data.get("forwarded"):
            yield data["text"], True
        case "overheard":
            yield from ((text, True) for _, text in data["said"])
        case "skill":
            yield data["text"], False
        case "tool_result" if data.get("addresses"):  # it was on the net
            yield data["text"], False
            yield from ((address, False) for address in data["addresses"])
        case "tool_result" if data.get("skill") and profile.notes == "ask":  # else its notes may be the model's alone
            yield data["text"], False


def _repeated(record: Record) -> Iterator[str]:
    """Texts that give addresses unless they repeat ours: a quote may be of our own message, a bot may say it again."""
    if record.type == "event" and (event := spoken(record)):
        yield event.quoted
        if event.actor.is_bot:
            yield event.text


def _written(record: Record) -> Iterator[str]:
    """What the model wrote, and what we showed of it."""
    match record.type:
        case "answer":
            yield json.dumps(record.data["content"], ensure_ascii=False)
        case "reply" | "card":
            yield record.data["text"]


@dataclass(frozen=True)
class _Shown:
    """What was said here already, by us to the model's knowledge or by people: whoever quotes it brings nothing new."""

    records: Sequence[Record]
    memo: Memo

    def has(self, quoted: str) -> bool:
        """Platforms give a quote as it was shown, perhaps cut, so only letters and digits count."""
        wanted = _letters(quoted)
        return not wanted or any(wanted in text for text in self._texts)

    @cached_property
    def _texts(self) -> list[str]:
        texts: list[str] = []
        for record in self.records:
            if record.type == "reply" and not record.data.get("command"):
                texts.append(self.memo.of(_letters_shown, record.data["text"]))
            elif record.type == "event" and (event := spoken(record)) and not event.actor.is_bot:
                texts.append(self.memo.of(_letters, event.text))
        return texts


_AS_SHOWN: Final = Dialect(link=lambda label, url: label or url)


def _letters_shown(markdown: str) -> str:
    return _letters(write(markdown, _AS_SHOWN))


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))
