"""The same organisation on a busy day: what the admin pages look like where there is something to see."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from config.limits import limits
from config.loading import load
from gateway.approvals.asked import announce
from gateway.conversation.key import ConversationKey
from gateway.conversation.records import Record
from gateway.conversation.uses import Used
from gateway.costs.budgets import Call, reserve
from gateway.costs.spending import Accounts, Charge, Spent, Tokens, settle
from gateway.events import Actor
from gateway.listening import HOLD
from tests.gateway.admin.world import Admins
from tests.gateway.commands.world import ANA, LI, MAX, PROFILE

SONNET, HAIKU = "claude-sonnet-4-5", "claude-haiku-4-5"
SETTINGS: Final = f"""
model:
  currency: EUR
  prices:
    {SONNET}: {{input: 3, output: 15, cache_read: 0.3, cache_write: 3.75}}
    {HAIKU}: {{input: 1, output: 5, cache_read: 0.1, cache_write: 1.25}}
recordings: {{keep: true}}
"""
CONNECTIONS: Final = f"""\
  discord-main: {{platform: discord, public_key: {64 * "a"}, bot_token: $SECRET}}
  discord-guests: {{platform: discord, public_key: {64 * "b"}, bot_token: $SECRET}}
  telegram-main: {{platform: telegram, bot_token: $TELEGRAM, secret_token: $TELEGRAM_SECRET}}
"""
BUDGET: Final = """
budget:
  person: {day: {tokens: 90000}}
  channel: {day: {tokens: 400000}, month: {money: 60}}
  profile: {month: {money: 200}}
"""
THREAD: Final = ConversationKey("slack-main", "C-OPS", "1796030400.000100")
CODE: Final = "K7QM"
MAIL: Final = {
    "to": ["oncall@harbour.example", "berths@harbour.example"],
    "subject": "Crane 4 is out until Thursday",
    "body": "Hello all,\n\ncrane 4 stays out until Thursday, 14:00: the slewing gear is replaced.\n"
    "Ships for berth 7 go to berth 9 meanwhile. The list is attached.\n\nMax",
    "attachments": ["reports/2026-11-30-berths.csv"],
}
_MINUTE: Final = 60_000


async def make_busy(there: Admins) -> None:
    """Prices, budgets, a conversation, words that people wait for, people at the door."""
    world, now_ms = there.world, there.house.mailbox.now_ms()
    folder = world.folder
    (folder / "profiles/default.yaml").write_text(PROFILE.format(language="en") + BUDGET)
    settings = (folder / "deskmate.yaml").read_text()
    settings = settings.replace("channels:\n", f"{CONNECTIONS}channels:\n") + SETTINGS
    (folder / "deskmate.yaml").write_text(settings)
    variables = {
        "SECRET": "xoxb-s3cret",
        "TELEGRAM_SECRET": "xoxb-s3cret-of-telegram",
        "BRIDGE": "whsec_" + "c2VjcmV0" * 4,
        "REDIS_URL": "redis://127.0.0.1",
        "TELEGRAM": "4711:" + "A" * 35,
    }
    world.loaded = load(folder / "deskmate.yaml", variables=variables)
    await _talk(there, now_ms)
    await _asked(there, now_ms)
    await _spend(there, now_ms)
    await _use(there)
    await there.bury(THREAD, reason="died alone with -9")
    await there.bury(ConversationKey("slack-main", "C-DEV", "t"), reason="send target_gone")
    for id_, name in (("4711", "Nele Brandt"), ("4712", "王芳")):
        code = await there.knock("telegram-main", id_, name)
    await there.do("people.accept", code=code)
    await there.house.store.run(HOLD, there.house.store.layout.listen_root, "discord-main", "somebody", 600_000)


async def _talk(there: Admins, now_ms: int) -> None:
    """A turn that is over, with a call that a line of the profile forbade."""
    at_ms, turn = now_ms - 40 * _MINUTE, "6tq2ab4xkwgedboi7fmgdxdj2a"
    usage = {"input_tokens": 812, "output_tokens": 164, "cache_read_tokens": 9_310, "cache_write_tokens": 1_204}
    calls = [
        ("c1", "load_skill", {"name": "triage"}, "Loaded the skill triage.", {}),
        ("c2", "read_file", {"path": "reports/2026-11-30-berths.csv"}, "berth;ship;from;to\n7;Ane Maersk;06:00;14:00\n" * 14, {}),
        ("c3", "web_fetch", {"url": "https://harbour.example/cranes"}, "web_fetch is not allowed in this channel.", {
            "error": True, "rule": "profiles/default.yaml line 2 (tools)"}),
    ]  # fmt: skip
    records = [
        _event(turn, at_ms, MAX, "Crane 4 reports alarm E-31 again. What is at berth 7 today, and is that urgent?")
    ]
    for step, (id_, name, arguments, text, more) in enumerate(calls, 1):
        block = {"type": "tool_use", "id": id_, "name": name, "input": arguments}
        after_ms = at_ms + 4_000 * step
        records += [
            Record("call", after_ms, {"step": step, "turn": turn, "model": SONNET}),
            Record("answer", after_ms, {"step": step, "content": [block], "usage": usage, "model": SONNET}),
            Record("tool_result", after_ms, {"step": step, "id": id_, "name": name, "text": text, **more}),
        ]
    reply = (
        "**Urgent.** E-31 is the slewing gear, and the Ane Maersk lies at berth 7 until 14:00.\n\n"
        "1. Stop crane 4 and call the shift engineer.\n2. Berth 9 is free from 08:00.\n\n"
        "I could not read the crane's page: this channel does not allow it."
    )
    records += [
        Record("call", at_ms + 17_000, {"step": 4, "turn": turn, "model": SONNET}),
        Record("answer", at_ms + 17_000, {"step": 4, "content": [], "usage": usage, "model": SONNET}),
        Record("reply", at_ms + 18_000, {"turn": turn, "text": reply}),
    ]
    await _write(there, THREAD, records)


async def _asked(there: Admins, now_ms: int) -> None:
    """A call with long arguments, and a question."""
    shown = json.dumps(MAIL, ensure_ascii=False, indent=1)
    text = f"**Approval {CODE}**: Max wants to call `send_mail`:\n```json\n{shown}\n```\nThe profile asks for it."
    await _ask(there, THREAD, CODE, now_ms, {"kind": "approval", "tool": "send_mail", "text": text})
    other = ConversationKey("slack-main", "C-OPS", "1796032200.000200")
    choices = ["Berth 9", "Berth 11"]
    text = "Which berth shall I put the Ane Maersk at?\n\n1. Berth 9\n2. Berth 11"
    await _ask(there, other, "W4TR", now_ms, {"kind": "question", "tool": "ask", "text": text, "choices": choices})


async def _ask(there: Admins, key: ConversationKey, code: str, now_ms: int, asked: Mapping[str, Any]) -> None:
    store, turn = there.house.store, f"{code.lower()}kwgedboi7fmgdxdj2a6tq2ab"[:26]
    state = json.dumps({"id": turn, "at_ms": now_ms})
    await store.redis.hset(store.layout.key(key.id), mapping={"turn": state})
    about = {"turn": turn, "step": 1, "code": code, "call": "c1", "requester": MAX.id, "bound": "h", "choices": []}
    until_ms = now_ms + 25 * _MINUTE
    await _write(
        there,
        key,
        [
            _event(turn, now_ms - 5 * _MINUTE, MAX, "Tell the others, please."),
            Record("asked", now_ms - 4 * _MINUTE, {**about, "until_ms": until_ms, **asked}),
        ],
    )
    await announce(store, key, code, 25 * _MINUTE)


async def _write(there: Admins, key: ConversationKey, records: list[Record]) -> None:
    store = there.house.store
    await store.redis.hset(store.layout.key(key.id), mapping={"parts": key.dumped, "channel": key.channel_id})
    await store.redis.rpush(store.layout.key(key.id, "history"), *(one.dump() for one in records))


def _event(turn: str, at_ms: int, actor: Actor, text: str) -> Record:
    event: dict[str, Any] = {
        "kind": "message",
        "conversation": THREAD.parts(),
        "actor": {"id": actor.id, "name": actor.name},
    }
    event |= {"dedupe_keys": [f"{turn} {at_ms}"], "at_ms": at_ms, "text": text}
    return Record("event", at_ms, {"event": event, "turn": turn})


async def _spend(there: Admins, now_ms: int) -> None:
    store, prices = there.house.store, there.loaded.settings.model.prices
    dev = ConversationKey("slack-main", "C-DEV", "t")
    spent = [
        (THREAD, MAX, SONNET, 61, Tokens(41_200, 18_400, 910_000, 52_000)),
        (THREAD, ANA, SONNET, 24, Tokens(130_300, 9_100, 402_000, 21_000)),
        (dev, LI, HAIKU, 40, Tokens(88_000, 12_700, 160_000, 14_000)),
        (dev, MAX, SONNET, 9, Tokens(9_000, 2_200, 88_000, 6_000)),
        (ConversationKey("web", "web"), Actor("u1", "Olli"), HAIKU, 5, Tokens(4_100, 900, 0, 1_200)),
    ]
    for key, actor, model, turns, tokens in spent:
        profile = there.loaded.profile_for(key.connection, key.channel)
        accounts = Accounts.at(key, actor, profile.timezone, now_ms, profile.name)
        price = prices[model]
        micros = sum(
            getattr(tokens, kind) * price.of(kind) for kind in ("input", "output", "cache_read", "cache_write")
        )
        one = Spent(turns, 3 * turns, {model: tokens}, round(micros))
        await settle(store, Charge(accounts, one), conversation_ms=86_400_000)
    profile = there.loaded.profile_for(THREAD.connection, THREAD.channel)
    accounts = Accounts.at(THREAD, MAX, profile.timezone, now_ms, profile.name)
    call = Call("next", "worker", 12_000, 90_000, 60_000)
    await reserve(store, accounts, limits(profile.budget), call, conversation_ms=86_400_000)


async def _use(there: Admins) -> None:
    """Turns of these days, and what they used of skills."""
    loads = [("triage",)] * 19 + [("web-access",)] * 12 + [("triage", "web-access")] * 4 + [()] * 26
    listed = ("checklist", "skill-writing", "triage", "web-access")
    await there.end_turns(THREAD, listed, *(Used("", loaded, ()) for loaded in loads))
