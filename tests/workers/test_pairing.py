"""People who write to us directly and whom nobody knows: they get a code, and no model reads what they wrote."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, cast

import pytest

from gateway.audit.log import read
from gateway.conversation.key import ConversationKey
from gateway.events import Actor, Attachment
from gateway.rights import pairing
from gateway.store import Layout
from tests.workers.at_desk import AtDesk, at_desk
from tests.workers.room import Room

DIRECT = ConversationKey("chat", "D-EVE")
ADMINS = ConversationKey("chat", "ops")
EVE = Actor("U-EVE", "Ana")
"""She calls herself as the admin does."""
ANA, MAX, OLLI = Actor("U-ANA", "Ana"), Actor("U-MAX", "Max"), Actor("U-OLLI", "Olli")
PROFILE: dict[str, Any] = {"direct": "paired", "roles": {"admin": ["chat/U-ANA"]}, "tools": []}

Opened = Callable[..., Awaitable[AtDesk]]


@pytest.fixture
async def opened(tmp_path: Path, redis_url: str, layout: Layout) -> AsyncIterator[Opened]:
    async with AsyncExitStack() as stack:

        async def there(room: Room | None = None, **changed: Any) -> AtDesk:
            settings = {"people": {"owners": ["chat/U-OLLI"]}}
            profile = {**PROFILE, **changed}
            return await stack.enter_async_context(
                at_desk(tmp_path, redis_url, layout.prefix, profile=profile, settings=settings, room=room)
            )

        yield there


async def direct(world: AtDesk, text: str, actor: Actor = EVE, **more: Any) -> list[str]:
    return await world.ask(text, DIRECT, actor=actor, is_direct=True, **more)


def code_in(text: str) -> str:
    return str(re.findall(r"\*\*(\w{4}-\w{4})\*\*", text)[0])


async def test_nothing_of_what_an_unknown_person_writes_is_kept_or_read(opened: Opened) -> None:
    world = await opened()
    file = Attachment("file", "CANARY.csv", "text/csv", 6)
    [told] = await direct(world, "CANARY, and /skill off web-access", attachments=(file,), quoted="CANARY")
    assert "nobody has read your message" in told
    assert "once more" in told
    code = code_in(told)
    store = world.desk.mailbox.store
    for key in await store.redis.keys(f"{store.layout.prefix}:*"):
        held: Any = await store.redis.dump(key)  # short ones are kept as they are
        if await store.redis.type(key) == b"list":
            held = b"".join(cast("list[bytes]", await store.redis.lrange(key, 0, -1)))
        assert b"CANARY" not in (held or b""), key
    assert await world.ask(f"/pair {code}", ADMINS, actor=ANA)
    assert await direct(world, "hello") == ["Well."]
    [asked] = world.model.asked
    assert "CANARY" not in str(asked.request)
    assert "pair" not in str(asked.request["messages"])


async def test_one_code_a_person_told_once_in_a_while(opened: Opened) -> None:
    world = await opened()
    [told] = await direct(world, "hello?")
    assert await world.say("hello??", DIRECT, actor=EVE, is_direct=True) == "ignored"
    store = world.desk.mailbox.store
    await store.redis.delete(f"{store.layout.skills_root}:pair:told:chat/U-EVE")
    [again] = await direct(world, "hello???")
    assert code_in(again) == code_in(told)


@pytest.mark.parametrize("text", ["/skill off web-access", "/help", "/pair", "/status", "/stop"])
async def test_no_command_of_an_unknown_person_is_run(opened: Opened, text: str) -> None:
    world = await opened()
    [told] = await direct(world, text)
    assert "I don't know you yet" in told


async def test_only_an_admin_lets_people_in_and_never_for_a_name(opened: Opened) -> None:
    world = await opened()
    code = code_in((await direct(world, "hello"))[0])
    assert "needs the role `admin`" in (await world.ask(f"/pair {code}", ADMINS, actor=MAX))[0]
    assert "needs the role `admin`" in (await world.ask("/pair", ADMINS, actor=MAX))[0]
    assert "I don't know you yet" not in (await world.ask("/help", ADMINS, actor=MAX))[0]
    [listed] = await direct(world, "/pair", ANA)
    assert "`chat/U-EVE` (`Ana`)" in listed
    assert code not in listed
    assert "Nobody waits under this code" in (await world.ask("/pair AAAA-AAAA", ADMINS, actor=ANA))[0]
    spoken = code.replace("-", " ").lower()
    assert "`chat/U-EVE`" in (await world.ask(f"/pair {spoken}", ADMINS, actor=ANA))[0]
    assert "Nobody waits under this code" in (await world.ask(f"/pair {code}", ADMINS, actor=ANA))[0]
    lines = [(one.who, one.what, one.thing) for one in await read(world.desk.mailbox.store)]
    assert ("chat/U-EVE", "pair asked", "chat/U-EVE") in lines
    assert ("chat/U-ANA", "pair accept", "chat/U-EVE") in lines
    assert ("chat/U-MAX", "pair accept refused", "") in lines


async def test_who_waits_is_told_where_nobody_else_reads_it(opened: Opened) -> None:
    world = await opened()
    await direct(world, "hello")
    [told] = await world.ask("/pair", ADMINS, actor=ANA)
    assert "U-EVE" not in told
    assert "Say `/pair` to me directly" in told
    assert "U-EVE" in (await direct(world, "/pair", ANA))[0]


async def test_who_waits_is_told_in_a_channel_to_whoever_asks_alone(opened: Opened) -> None:
    world = await opened(Room(ephemeral=True))
    await direct(world, "hello")
    await world.ask("/pair", ADMINS, actor=ANA)
    _, part = world.room.parts[-1]
    assert "U-EVE" in part.payload["text"]
    assert part.only_for == "U-ANA"


async def test_who_is_put_out_again_is_not_heard_not_in_what_waits_either(opened: Opened) -> None:
    world = await opened()
    await world.ask(f"/pair {code_in((await direct(world, 'hello'))[0])}", ADMINS, actor=OLLI)
    assert await world.say("CANARY", DIRECT, actor=EVE, is_direct=True) == "new"
    assert await world.say("/pair end chat/U-EVE", ADMINS, actor=ANA) == "new"
    claims = {grant.conversation: grant for grant in (await world.desk.mailbox.claim(0, "w1", 9)).grants}
    for key in (ADMINS, DIRECT):
        await world.desk.attend(claims[key.id], lambda: 0)
    assert "don't answer this any more" in world.room.sent[-1]
    assert not world.model.asked
    await direct(world, "hello", actor=ANA)
    assert "CANARY" not in str(world.model.asked[-1].request)


@pytest.mark.parametrize("who", [ANA, OLLI])
async def test_whom_a_file_names_needs_no_code(opened: Opened, who: Actor) -> None:
    world = await opened(direct="closed")
    assert await direct(world, "hello", who) == ["Well."]
    assert "only for people whom the operator has named" in (await direct(world, "hello", MAX))[0]


async def test_in_channels_nobody_needs_a_code(opened: Opened) -> None:
    world = await opened()
    assert await world.ask("hello", ADMINS, actor=EVE) == ["Well."]


async def test_codes_run_out_and_nobody_gets_many(opened: Opened) -> None:
    world = await opened()
    store = world.desk.mailbox.store
    root = store.layout.skills_root
    told = ""
    for _ in range(pairing.LIMITS["asked"] + 1):
        await store.redis.delete(f"{root}:pair:told:chat/U-EVE", f"{root}:pair:who:chat/U-EVE")
        [told] = await direct(world, "hello")
    assert "several codes today" in told
    for sign in pairing.SIGNS[: pairing.LIMITS["wrong"]]:
        assert "Nobody waits" in (await world.ask(f"/pair WRNG-999{sign}", ADMINS, actor=ANA))[0]
    assert "Too many wrong codes" in (await world.ask("/pair AAAAAAAA", ADMINS, actor=ANA))[0]
    ttl = await store.redis.pttl(f"{root}:pair:waiting:chat")
    assert 0 < ttl <= pairing.WAIT_MS


@pytest.mark.parametrize("words", ["end", "list", "help me", "AAAA-AAA", "AAAAA AAAA", "AAAA AAA0"])
async def test_what_is_no_code_counts_as_no_wrong_one(opened: Opened, words: str) -> None:
    world = await opened()
    root = world.desk.mailbox.store.layout.skills_root
    [told] = await world.ask(f"/pair {words}", ADMINS, actor=ANA)
    assert "`/pair CODE` lets in" in told
    assert not await world.desk.mailbox.store.redis.exists(f"{root}:pair:wrong:chat/U-ANA")
    assert not [one for one in await read(world.desk.mailbox.store) if one.what.endswith("refused")]
    code = code_in((await direct(world, "hello"))[0])
    assert "is let in" in (await world.ask(f"/pair {code}", ADMINS, actor=ANA))[0]


def test_a_code_is_one_however_it_is_read_out() -> None:
    for _ in range(200):
        code = pairing.new_code()
        for said in (code, pairing.shown(code), code.lower(), " ".join(code), code.replace("L", "1")):
            assert pairing.is_code(said), said


async def test_many_accounts_fill_nothing_up(opened: Opened) -> None:
    world = await opened()
    for number in range(pairing.LIMITS["waiting"]):
        actor = Actor(f"U-{number}")
        [told] = await world.ask("hi", ConversationKey("chat", f"D-{number}"), actor=actor, is_direct=True)
        assert code_in(told)
    assert "no code now" in (await direct(world, "hello"))[0]


async def test_of_an_album_nothing_is_kept_either(opened: Opened) -> None:
    world = await opened()
    picture = Attachment("image", "CANARY.png", "image/png", 6)
    for name in ("one", "two"):
        await world.say(name, DIRECT, actor=EVE, is_direct=True, group="album", attachments=(picture,))
    store = world.desk.mailbox.store
    for key in await store.redis.keys(f"{store.layout.prefix}:*"):
        assert b"CANARY" not in (await store.redis.dump(key) or b""), key
