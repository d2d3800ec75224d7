"""An organisation as admins have it before them: two channels with people in their roles, things that wait for a word."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from config.loading import Loaded
from gateway.admin.operations import operations
from gateway.admin.visits import Caller, House, Visit
from gateway.approvals.asked import announce
from gateway.audit.log import Change, Line, read
from gateway.conversation.key import ConversationKey
from gateway.conversation.letters import Letter
from gateway.conversation.mailbox import Mailbox
from gateway.conversation.records import Record
from gateway.conversation.uses import Listed, Used
from gateway.events import Actor, Event
from gateway.intake import Received
from gateway.rights.guests import Guests
from gateway.rights.places import place
from gateway.shelf.notes import Draft
from gateway.store import Store
from tests.gateway.commands.world import ANA, OPS, World, skill_md, zipped
from tests.gateway.conversation.given_up import given_up

OPERATOR: Final = Caller(operator="root")
ADMIN, APPROVER, MEMBER = (Caller(f"slack-main/U-{name}") for name in ("ANA", "LI", "MAX"))
STRANGER: Final = Caller("bridge/U-ANA")
"""The id of an admin, on another platform."""
OWNER, CHANNEL_ADMIN, GUEST = (Caller(f"slack-main/U-{name}") for name in ("OLLI", "KIM", "EVE"))
ROLES: Final = {
    "operator": OPERATOR,
    "owner": OWNER,
    "channel_admin": CHANNEL_ADMIN,
    "guest": GUEST,
    "admin": ADMIN,
    "approver": APPROVER,
    "member": MEMBER,
    "stranger": STRANGER,
}
ROOM, OTHER_ROOM = "slack-main/C-OPS", "slack-main/C-DEV"
SETTINGS: Final = """\
redis: {{key_prefix: {prefix}}}
people: {{owners: [slack-main/U-OLLI]}}
connections:
  slack-main: {{platform: slack, signing_secret: $SECRET, bot_token: $SECRET}}
  bridge: {{platform: standard_webhooks, secret: $BRIDGE, reply_url: "http://127.0.0.1:9/replies"}}
channels:
  - {{match: "slack-main/C-DEV", profile: other}}
"""
OTHER_PROFILE: Final = """\
skills: ["*"]
tools: [load_skill]
roles: {admin: [slack-main/U-BO]}
"""


@dataclass
class Admins:
    """`world` has the channels; `kept` and `waiting` are codes of notes, `checklist` a skill that waits for trust."""

    world: World
    house: House
    waiting: str = ""
    kept: str = ""
    conversation: str = ""
    """In which somebody has written."""
    code: str = ""
    """Of whoever knocked last."""
    letter: str = ""
    """Of the turn that was given up last."""
    _numbers: Any = field(default_factory=lambda: itertools.count(1))

    def visit(self, caller: Caller = OPERATOR, id_: str = "") -> Visit:
        return Visit(
            self.house, caller, id_ or f"visit {next(self._numbers)}", self.house.mailbox.now_ms(), self.loaded
        )

    @property
    def loaded(self) -> Loaded:
        return self.world.loaded

    async def do(self, name: str, caller: Caller = OPERATOR, /, **fields: Any) -> Any:
        """An operation by its name. Raises `Refusal`."""
        operation = operations()[name]
        return await operation(self.visit(await self.house.meets(caller)), operation.input.model_validate(fields))

    async def audit(self) -> list[Line]:
        return await read(self.house.store)

    async def ask(
        self, code: str, *, requester: str = "U-BO", kind: str = "approval", tool: str = "send_mail", form: str = ""
    ) -> ConversationKey:
        """A turn in the channel waits for a word."""
        key = ConversationKey("slack-main", "C-OPS", f"asked {code}")
        store, until_ms = self.house.store, self.house.mailbox.now_ms() + 60_000
        turn = {"id": f"turn {code}", "at_ms": 1}
        await store.redis.hset(store.layout.key(key.id), mapping={"parts": key.dumped, "turn": json.dumps(turn)})
        data = {"turn": turn["id"], "step": 1, "code": code, "kind": kind, "call": "c1", "tool": tool}
        data |= {
            "form": form,
            "requester": requester,
            "bound": "h",
            "text": "Send it to all?",
            "choices": [],
            "until_ms": until_ms,
        }
        await store.redis.rpush(store.layout.key(key.id, "history"), Record("asked", 1, data).dump())
        await announce(store, key, code, 60_000)
        return key

    async def knock(self, connection: str, id_: str, name: str) -> str:
        """Somebody whom nobody knows writes directly; the code that they get."""
        key = ConversationKey(connection, f"D-{id_}")
        event = Event(
            kind="message",
            conversation=key,
            actor=Actor(id_, name),
            dedupe_keys=(f"knock {id_}",),
            at_ms=1,
            is_direct=True,
            text="hello",
        )
        self.code = (await self.house.shelf.pairing.ask(place(self.loaded, key), event)).code
        return self.code

    async def bury(self, key: ConversationKey = OPS, *, reason: str = "died alone with -9") -> Letter:
        """A turn is given up there."""
        where = ConversationKey(key.connection, key.channel, f"thread {next(self._numbers)}")
        found = await given_up(self.house.mailbox, where, reason=reason)
        self.letter = found.id
        return found

    async def end_turns(self, key: ConversationKey, listed: Sequence[str], *used: Used) -> None:
        """Turns end there that were offered these skills, and used some of them."""
        mailbox, made = self.house.mailbox, Listed(tuple(listed))
        conversation = await self.write_in(key)
        for claim in (await mailbox.claim(0, "w1", 100)).grants:
            if claim.conversation == conversation:
                await mailbox.append(claim, listed=made)
                for one in used:
                    await mailbox.append(claim, turn="close", used=replace(one, offered=made.hash))
            await mailbox.hand_over(claim)

    async def tell_of(self, *people: str, is_guest: bool) -> None:
        """Slack says, with something that they write, whether these people are from outside."""
        said = Event(kind="message", conversation=OPS, actor=Actor(""), dedupe_keys=("told",), at_ms=1, text="hello")
        events = [replace(said, actor=Actor(one, is_guest=is_guest)) for one in people]
        await Guests(self.house.store).remember(self.loaded.settings, events)

    async def write_in(self, key: ConversationKey) -> str:
        """Somebody says something there; in which conversation."""
        number = next(self._numbers)
        event = Event(
            kind="message",
            conversation=ConversationKey(key.connection, key.channel, f"thread {number}"),
            actor=Actor("U-MAX"),
            dedupe_keys=(f"event {number}",),
            at_ms=1,
            text="hello",
        )
        await self.house.mailbox.accept(event.conversation, event.dump(), dedupe_keys=event.dedupe_keys, at_ms=1)
        return event.conversation.id


async def admins(store: Store, folder: Path) -> Admins:
    (folder / "profiles").mkdir()
    (folder / "profiles/other.yaml").write_text(OTHER_PROFILE)
    world = World(store, folder, settings=SETTINGS.format(prefix=store.layout.prefix))
    triage = world.org / "triage"
    triage.mkdir()
    (triage / "SKILL.md").write_text(skill_md("triage", description="Sorts alarms of the pager by urgency."))
    await world.packer.step()
    mailbox = Mailbox(store, world.loaded.settings.mailbox)
    await mailbox.open()

    async def receive(events: Sequence[Event]) -> list[Received]:
        for one in events:
            await mailbox.accept(one.conversation, one.dump(), dedupe_keys=one.dedupe_keys, at_ms=one.at_ms)
        return [Received("new") for _ in events]

    made = Admins(world, House(store, mailbox, world.shelf, world.notes, lambda: world.loaded, receive))
    await world.say("/skill add", ANA, files={"checklist.zip": zipped({"SKILL.md": skill_md("checklist")})})
    for number, ask in enumerate((True, False)):
        change = Change(f"note {number}", "slack-main/U-MAX", ROOM, OPS.channel_id, "test", 1)
        draft = Draft("triage", f"references/{number}.md", f"What Max wrote, {number}.", "Max", "c")
        code = (await world.notes.save(change, draft, ask=ask)).note.code
        made.waiting, made.kept = (code, made.kept) if ask else (made.waiting, code)
    made.conversation = await made.write_in(OPS)
    await made.tell_of("U-MAX", "U-LI", "U-BO", "U-ANA", "U-KIM", "U-OLLI", is_guest=False)
    await world.say("/role grant slack-main/U-KIM", ANA)
    return made


def zip_as_base64() -> str:
    return base64.b64encode(zipped({"SKILL.md": skill_md("another")})).decode()


def dumped(result: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result.model_dump_json())
    return found
