"""Asked: what waits for a person's word in a conversation, a call that wants a yes or a question, read from its records.

A request has a code, by which it can be answered from anywhere in its channel. The word is a record of its own, `decided`;
the turn that asked waits without a worker until it is there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from gateway.conversation.key import ConversationKey, of_parts
from gateway.conversation.records import Record
from gateway.events import Actor
from gateway.phrases import LANGUAGES, say
from gateway.store import GO_ON_WHEN_FULL, Script, Store, reading

Kind = Literal["approval", "question", "plan"]
Word = Literal["yes", "no", "answer", "expired"]
COMMANDS: Final[Mapping[Word, str]] = {"yes": "approve", "no": "deny", "answer": "answer"}
"""Which command says a word."""

TEXT_MAX: Final = 4_000
"""Characters of what is said along with a word."""

_ANNOUNCE: Final = Script(
    "announce",
    GO_ON_WHEN_FULL + "return redis.call('SET', KEYS[1] .. ':' .. ARGV[1] .. ':' .. ARGV[2], ARGV[3], 'PX', ARGV[4])",
)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, and the word on it, if there is one."""

    code: str
    kind: Kind
    call: str
    """The tool_use that waits; empty: a plan."""
    requester: str
    """The platform's own id of the person on whose behalf; empty: nobody's."""
    bound: str
    """Hash of all that the word is about: tool, arguments, version."""
    tool: str
    """What people call it."""
    form: str
    """The arguments, where the call could be allowed in this form for good; else empty."""
    choices: tuple[str, ...]
    """Of a question."""
    until_ms: int
    question: str = ""
    """Of a question, as it was asked."""
    rows: tuple[str, ...] = ()
    """Of its card, in the outbox: they say which messages it became."""
    after: int = 0
    """Number in the inbox of the last message that was there before: that one can't be an answer to it."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Hashes, by their paths, of the channel's files that the word is about as well."""
    branch: str = ""
    """Of the turn, where it is one of its branches that waits."""
    word: Word | None = None
    by: str = ""
    """The platform's own id of who said it."""
    name: str = ""
    is_guest: bool | None = None
    """As `Actor.is_guest`, of who said it, when they did."""
    text: str = ""
    """What was said along with it: an answer, a reason. Of an answer empty if it is the messages that follow."""
    messages: tuple[str, ...] = ()
    """Those that are the answer: the first dedupe key of each."""

    @property
    def who(self) -> Actor:
        """Who said the word: whether it counts is asked once more when it does."""
        return Actor.by_id(self.by, name=self.name, is_guest=self.is_guest)


def asked_in(records: Sequence[Record]) -> list[Asked]:
    """All requests of these records, in their order, with the words on them."""
    words = {record.data["code"]: record.data for record in reversed(records) if record.type == "decided"}
    return [_read(record, words.get(record.data["code"], {})) for record in records if record.type == "asked"]


def open_in(records: Sequence[Record]) -> list[Asked]:
    """Those that nobody has said a word on."""
    return [one for one in asked_in(records) if one.word is None]


def questions_in(records: Sequence[Record]) -> list[Asked]:
    """What people are asked, and answer by just writing."""
    return [one for one in open_in(records) if one.kind != "approval"]


def decided(
    asked: Asked,
    word: Word,
    at_ms: int,
    *,
    turn: str,
    by: Actor | None = None,
    text: str = "",
    messages: Sequence[str] = (),
) -> Record:
    """The record of a word."""
    data: dict[str, Any] = {"turn": turn, "code": asked.code, "word": word}
    data |= {"by": by.id, "name": by.name, "is_guest": by.is_guest} if by else {"by": "", "name": ""}
    data["text"] = text
    data |= {"messages": list(messages)} if messages else {}
    return Record("decided", at_ms, data, branch=asked.branch)


def is_always(text: str, language: str) -> bool:
    """Whether what follows a yes makes it one for good."""
    return text.strip().casefold() in say("words.always", LANGUAGES[0]).split() + say("words.always", language).split()


def answer_line(asked: Asked) -> tuple[str, str]:
    """What the audit log says of an answer, and of which request: what was answered stands in the conversation alone."""
    return "question answer", f"{asked.code} {asked.kind}"


def unclear_of(records: Sequence[Record], actor: str) -> list[Record]:
    """What somebody wrote that could be the answer to several questions, and is not taken for one of them yet."""
    keys = {key for record in records if record.type == "unclear" for key in record.data["messages"]}
    keys -= {key for one in asked_in(records) for key in one.messages}
    said = [
        record for record in records if record.type == "event" and not record.branch and "answers" not in record.data
    ]
    return [one for one in said if key_of(one) in keys and one.data["event"].get("actor", {}).get("id") == actor]


def key_of(event: Record) -> str:
    """The first dedupe key of what somebody said, by which other records name it. Of a record that is no event none."""
    return str(next(iter(event.data["event"].get("dedupe_keys") or ()), ""))


async def announce(store: Store, key: ConversationKey, code: str, wait_ms: int) -> None:
    """Say in which conversation of its channel a code is asked. Raises `Unreachable`."""
    await store.run(_ANNOUNCE, store.layout.asked_root, key.channel_id, code, key.dumped, max(1, wait_ms))


async def conversation_of(store: Store, key: ConversationKey, code: str) -> ConversationKey | None:
    """Where in this channel a code is asked. Raises `Unreachable`."""
    with reading():
        found = await store.redis.get(_name(store, key, code))
    return of_parts(json.loads(found)) if found else None


ANNOUNCED_LOOK_S: Final = 1.0


async def announced(store: Store, most: int) -> tuple[list[tuple[ConversationKey, str]], bool]:
    """Where something is asked, and its code, as far as can be told in a second; and whether these are all. Looks at keys
    only: for operators, not for turns. Raises `Unreachable`.
    """
    until_s = time.monotonic() + ANNOUNCED_LOOK_S
    found: list[tuple[ConversationKey, str]] = []
    cursor = 0
    with reading():
        while True:
            redis: Any = store.redis
            cursor, names = await redis.scan(cursor, match=f"{store.layout.asked_root}:*", count=1_000)
            stored = await redis.mget(names) if names else []
            for name, parts in zip(names, stored, strict=True):
                if parts:
                    found.append((of_parts(json.loads(parts)), name.decode().rpartition(":")[2]))
            if not cursor or len(found) >= most or time.monotonic() > until_s:
                return found[:most], not cursor and len(found) <= most


def _name(store: Store, key: ConversationKey, code: str) -> str:
    return f"{store.layout.asked_root}:{key.channel_id}:{code}"


def _read(record: Record, word: dict[str, Any]) -> Asked:
    data = record.data
    return Asked(
        code=data["code"],
        kind=data["kind"],
        call=data.get("call", ""),
        requester=data.get("requester", ""),
        bound=data.get("bound", ""),
        files=data.get("files", {}),
        tool=data.get("shown", ""),
        form=data.get("form", ""),
        choices=tuple(data.get("choices", ())),
        until_ms=data["until_ms"],
        question=data.get("question", ""),
        rows=tuple(data.get("rows", ())),
        after=data.get("after", 0),
        branch=record.branch,
        word=word.get("word"),
        by=word.get("by", ""),
        name=word.get("name", ""),
        is_guest=word.get("is_guest"),
        text=word.get("text", ""),
        messages=tuple(word.get("messages", ())),
    )
