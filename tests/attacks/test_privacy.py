"""Nothing crosses channels unless somebody promotes it: a word of its own in everything that one channel can hold, and then
every door is opened from another channel. A tool, a command or an operation that has no row fails the first test.
"""

from __future__ import annotations

import base64
import itertools
import pkgutil
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import ValidationError

import workers.tools
from gateway.acts.outcomes import Refusal
from gateway.admin.operations import Operation, operations
from gateway.admin.visits import Caller, House, Visit
from gateway.commands import names
from gateway.conversation.key import ConversationKey
from gateway.conversation.records import Record
from gateway.events import Actor, Attachment
from gateway.store import Layout
from tests.gateway.commands.world import skill_md, zipped
from tests.harness.held import held
from tests.harness.model_replies import Reply, calls, says
from tests.workers.at_desk import AtDesk, at_desk
from tests.workers.room import Room

HERE, THERE = ConversationKey("chat", "ours", "t"), ConversationKey("chat", "theirs", "t")
"""The channel that holds it all, and the one from which it is looked for."""
DIRECT: Final = ConversationKey("chat", "D-BO", user="U-BO")
ANA, BO = Actor("U-ANA", "Ana"), Actor("U-BO", "Bo")
"""Who looks after all channels, and who was made admin of the other one alone."""
MAX: Final = Actor("U-MAX", "QXperson")

NAMES: Final = ("QXfile", "QXnote", "qxskill", "QXattached", "QXsent")
"""Names that somebody elsewhere could guess, and does."""
WORDS: Final = (
    "QXtalk",
    "QXreply",
    "QXperson",
    "QXcontent",
    "QXwritten",
    "QXdescription",
    "QXbody",
    "QXreference",
    "QXinside",
    "QXresult",
    "QXsummary",
    "QXheard",
    "QXapproval",
    "QXalways",
    "QXquestion",
    "QXqueued",
    "QXgranted",
)
"""What nobody there could know."""
PROFILE: Final[dict[str, Any]] = {
    "skills": ["*"],
    "tools": [one.name for one in pkgutil.iter_modules(workers.tools.__path__) if one.name != "read_result"],
    "programs": ["*"],
    "notes": "save",
    "models": ["other-model"],
    "overhear": 5,
    "roles": {"admin": ["chat/U-ANA"], "approver": ["chat/U-ANA"]},
    "approvals": {"ask": ["send_file"], "tainted": "allow"},
    "budget": {"channel": {"day": {"tokens": 1_000_000}}},
}
SETTINGS: Final[dict[str, Any]] = {
    "recordings": {"keep": True},
    "mailbox": {"lease_s": 600},
    "skills": {"index_max_tokens": 200},
    "connections": {
        "chat": {"platform": "standard_webhooks", "secret": "$SECRET", "reply_url": "http://127.0.0.1:9/replies"}
    },
}
FILE, NOTE = "QXfile/a.txt", "references/sites/QXnote.md"
LISTS: Final[Mapping[str, dict[str, Any]]] = {
    "current_time": {},
    "list_files": {},
    "find_skills": {"query": "a checklist of what is to be done"},
    "run_command": {"command": "find . -type f | xargs cat"},
    "web_search": {"query": "what is new"},
    "web_fetch": {"url": "http://127.0.0.1:9/"},
}
"""Calls that name nothing of the other channel."""
GUESSES: Final[Sequence[tuple[str, dict[str, Any]]]] = [
    ("list_files", {"folder": "QXfile"}),
    ("read_file", {"path": FILE}),
    ("read_file", {"path": f"../ours/{FILE}"}),
    ("write_file", {"path": "QXfile/a.txt", "content": "mine", "append": True}),
    ("run_command", {"command": f"cat {FILE}"}),
    ("load_skill", {"name": "qxskill"}),
    ("load_skill", {"name": "qxskill", "file": "references/r.md"}),
    ("load_skill", {"name": "web-access", "file": NOTE}),
    ("save_skill_reference", {"name": "web-access", "file": NOTE, "content": "mine"}),
    ("unload_skill", {"name": "qxskill"}),
    ("find_skills", {"query": "qxskill"}),
    ("read_result", {"result": "r1"}),
    ("send_file", {"path": FILE}),
]
"""Calls that name what is there."""
ASKS: Final = ("ask_person",)
"""Tools that wait for a person."""
SAID: Final[Mapping[str, Sequence[str]]] = {
    "answer": ["/answer {question} 2024", "/answer"],
    "approve": ["/approve {approval}", "/approve {approval} always", "/approve"],
    "compact": ["/compact"],
    "deny": ["/deny {approval}", "/deny"],
    "help": ["/help"],
    "hitl": ["/hitl"],
    "model": ["/model"],
    "new": ["/new"],
    "pair": ["/pair"],
    "plan": ["/plan tell me what you know"],
    "queue": ["/queue"],
    "role": ["/role"],
    "skill": [
        "/skill",
        "/skill list",
        "/skill notes",
        "/skill show qxskill",
        "/skill off qxskill",
        "/skill show web-access",
    ],
    "status": ["/status"],
    "stop": ["/stop"],
    "team": ["/team"],
    "tool": ["/tool", "/tool off qxskill", "/tool on qxskill"],
    "usage": ["/usage"],
    "why": ["/why", "/why channel", "/why skill qxskill", "/why tool read_file", "/why person U-MAX"],
}


@dataclass
class Look:
    """What is seen from the other channel from now on."""

    world: AtDesk
    sent: int = field(init=False)
    asked: int = field(init=False)

    def __post_init__(self) -> None:
        self.sent, self.asked = len(self.world.room.parts), len(self.world.model.asked)

    @property
    def seen(self) -> dict[str, str]:
        parts = self.world.room.parts[self.sent :]
        chat = {f"in the chat {number}": f"{part.payload} {part.file}" for number, (_, part) in enumerate(parts)}
        asked = self.world.model.asked[self.asked :]
        return chat | {f"asked {number}": one.body.decode() for number, one in enumerate(asked)}


def found(words: Sequence[str], seen: Mapping[str, str]) -> list[str]:
    return [
        f"{word} in {where}: {text[max(0, text.index(word) - 80) :][:200]}"
        for where, text in seen.items()
        for word in words
        if word in text
    ]


@pytest.fixture
async def world(tmp_path: Path, redis_url: str, layout: Layout) -> AsyncIterator[AtDesk]:
    made = skill_md("qxskill", description="QXdescription, a checklist.", body="QXbody\n")
    files = {
        "qxskill.zip": zipped({"SKILL.md": made, "references/r.md": "QXreference\n"}),
        "QXattached.txt": b"QXinside",
    }
    secret = "whsec_" + base64.b64encode(b"0" * 24).decode()
    more: dict[str, Any] = {"profile": PROFILE, "settings": SETTINGS, "variables": {"SECRET": secret}}
    async with at_desk(tmp_path, redis_url, layout.prefix, room=Room(files, buttons=5), **more) as opened:
        yield opened


async def fill(world: AtDesk) -> dict[str, str]:
    """All that a channel can hold, a word of its own in each. Gives the codes that wait there."""
    zip_, text = Attachment("file", "qxskill.zip", "", 900), Attachment("file", "QXattached.txt", "text/plain", 8)
    assert await world.say("QXheard", HERE, actor=MAX, addressed=False) == "ignored"
    await world.ask("/skill add", HERE, actor=ANA, attachments=(zip_,))
    await world.ask("/skill trust qxskill", HERE, actor=ANA)
    await world.ask("/role grant chat/U-QXgranted", HERE, actor=ANA)
    await world.ask("/model other-model", HERE, actor=MAX)

    async def does(*replies: Reply, said: str = "go on", thread: str = "t", **more: Any) -> list[str]:
        world.model.answer_with([*replies])
        return await world.ask(said, ConversationKey("chat", "ours", thread), actor=MAX, **more)

    await does(says("QXreply"), said="QXtalk", attachments=(text,))
    await does(calls("write_file", {"path": FILE, "content": "QXcontent"}), says("Written."))
    note = {"name": "web-access", "file": NOTE, "content": "QXwritten"}
    await does(calls("save_skill_reference", note), says("Noted."))
    file = {"name": "qxskill", "file": "references/r.md"}
    await does(calls("load_skill", {"name": "qxskill"}), calls("load_skill", file), says("Loaded."))
    store = world.desk.mailbox.store
    result = Record("result", world.desk.mailbox.now_ms(), {"id": "r1", "text": "QXresult", "mark": "m"})
    await store.redis.rpush(store.layout.key(HERE.id, "history"), result.dump())
    always = calls("send_file", {"name": "QXsent.txt", "content": "QXalways"})
    [card] = await does(always, says("Sent."), thread="always")
    await world.ask(f"/approve {code_in(card)} always", ConversationKey("chat", "ours", "always"), actor=ANA)
    [approval] = await does(calls("send_file", {"name": "QXsent.txt", "content": "QXapproval"}), thread="approval")
    [question] = await does(calls("ask_person", {"question": "QXquestion?"}), thread="question")
    await does(says("QXsummary"), said="/compact")
    assert await world.say("QXqueued", ConversationKey("chat", "ours", "queue"), actor=MAX) == "new"
    # It waits there, and no worker takes it as long as the test looks.
    [_] = (await world.desk.mailbox.claim(0, "another", 9)).grants
    await world.ask("/role grant chat/U-BO", THERE, actor=ANA)
    return {"approval": code_in(approval), "question": code_in(question)}


def code_in(text: str) -> str:
    return str(re.findall(r"/(?:approve|answer) ([A-Z2-7]{6})", text)[-1])


def test_every_door_has_its_row() -> None:
    tools = {one.name for one in pkgutil.iter_modules(workers.tools.__path__)}
    assert {*LISTS, *(name for name, _ in GUESSES), *ASKS} == tools
    assert set(SAID) == set(names())


async def test_what_a_channel_holds_is_seen_from_no_other(world: AtDesk) -> None:
    codes = await fill(world)
    store = world.desk.mailbox.store
    kept = await held(store.redis, f"{store.layout.prefix}:")
    missing = [word for word in (*NAMES, *WORDS) if not any(word in text for text in kept.values())]
    assert not missing, "else the rows below would show nothing"

    # What the model is sent, and tools that name nothing.
    look = Look(world)
    tried = [calls(name, arguments) for name, arguments in LISTS.items()]
    world.model.answer_with([*tried, says("Well.")])
    await world.ask("what do you know?", THERE, actor=BO)
    world.model.answer_with(says("Well."))
    for name, lines in SAID.items():
        for line in lines:
            if "qxskill" not in line and "MAX" not in line and name != "new":
                await world.ask(line.format(**codes), THERE, actor=BO)
    assert len(world.model.asked) - look.asked > len(LISTS)
    assert not found([*NAMES, *WORDS], look.seen)
    assert {one.request["model"] for one in world.model.asked[look.asked :]} == {"fake"}

    # Whoever guesses names gets nothing for it.
    look = Look(world)
    world.model.answer_with([*(calls(name, arguments) for name, arguments in GUESSES), says("Well.")])
    await world.ask("get it", THERE, actor=BO)
    world.model.answer_with(says("Well."))
    for line in [one for lines in SAID.values() for one in lines]:
        for actor, where in ((BO, THERE), (ANA, THERE), (BO, DIRECT)):
            await world.ask(line.format(**codes), where, actor=actor, is_direct=where == DIRECT)
    assert not found(WORDS, look.seen)
    for thread in codes:
        records = await world.history(ConversationKey("chat", "ours", thread))
        assert "decided" not in [one.type for one in records], "a code is said in its own channel"


async def test_the_channel_itself_sees_what_it_holds(world: AtDesk) -> None:
    """Else closed doors would show nothing."""
    await fill(world)
    look = Look(world)
    world.model.answer_with([
        *(calls(name, arguments) for name, arguments in GUESSES if name not in {"send_file", "unload_skill"}), says("Well.")
    ])  # fmt: skip
    await world.ask("get it", HERE, actor=MAX)
    world.model.answer_with(says("Well."))
    for line in ("/hitl", "/role", "/skill list", "/skill notes", "/why tool load_skill"):
        await world.ask(line, HERE, actor=ANA)
    expected = (
        "QXperson",
        "QXcontent",
        "QXwritten",
        "QXdescription",
        "QXbody",
        "QXreference",
        "QXalways",
        "QXgranted",
        "QXsummary",
    )
    assert [word for word in expected if not found([word], look.seen)] == []


MORE: Final[Sequence[dict[str, str]]] = [
    {},
    {"id": "qxskill"},
    {"conversation": HERE.id},
    {"person": "chat/U-MAX"},
    {"text": "QX"},
    {"by": "person"},
    {"by": "model"},
]
"""What is asked for beside the channel."""


async def test_an_admin_of_another_channel_is_shown_nothing_by_the_pages(world: AtDesk) -> None:
    await fill(world)
    course, mailbox = world.desk.course, world.desk.mailbox
    loaded = await course.watched.current()
    house = House(mailbox.store, mailbox, course.shelf, course.notes, lambda: loaded, world.intake.receive)
    seen = {}
    safe = {name: one for name, one in operations().items() if one.is_safe}
    for (name, operation), channel, more in itertools.product(safe.items(), ("", "chat/theirs", "chat/ours"), MORE):
        fields = {**more, **({"channel": channel} if channel else {})}
        if set(fields) <= set(operation.input.model_fields):
            visit = Visit(house, Caller("chat/U-BO"), f"{name} {fields}", mailbox.now_ms(), loaded)
            seen[visit.id] = await told(operation, visit, fields)
    assert {name for name in safe if any(one.startswith(f"{name} ") for one in seen)} == set(safe)
    assert "chat/theirs" in seen["channels.list {}"]
    assert "theirs" in seen["conversations.list {'channel': 'chat/theirs'}"]
    assert not found(WORDS, seen)


async def told(operation: Operation[Any, Any], visit: Visit, fields: Mapping[str, str]) -> str:
    try:
        return str((await operation(visit, operation.input.model_validate(fields))).model_dump_json())
    except Refusal as refusal:
        return f"{refusal.kind} {refusal.values}"
    except ValidationError as error:
        return str(error.error_count())
