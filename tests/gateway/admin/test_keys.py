from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from typing import Any, Final

import pytest

from gateway.admin.keys import LINKS_PER_PERSON, SESSIONS_PER_PERSON, TRIES, Full, Keys, Unknown
from gateway.admin.visits import Caller
from gateway.store import Store

ANA = Caller("slack-main/U-ANA")


@pytest.fixture
def keys(store: Store) -> Keys:
    return Keys(store)


async def test_a_link_is_used_once_and_looking_does_not_use_it(keys: Keys) -> None:
    link = await keys.make_link(ANA, 60)
    for _ in range(3):
        assert await keys.look_at_link(link, "peer") == ANA
    session = await keys.use_link(link, "peer", 60)
    assert (await keys.session(session.secret, "peer")).caller == ANA
    with pytest.raises(Unknown):
        await keys.look_at_link(link, "peer")
    with pytest.raises(Unknown):
        await keys.use_link(link, "peer", 60)


async def test_of_two_who_use_a_link_at_once_one_comes_in(keys: Keys) -> None:
    link = await keys.make_link(ANA, 60)
    found = await asyncio.gather(*(keys.use_link(link, "peer", 60) for _ in range(5)), return_exceptions=True)
    assert sum(not isinstance(one, Unknown) for one in found) == 1


async def test_links_and_sessions_end_by_themselves(keys: Keys) -> None:
    link = await keys.make_link(ANA, 0.05)
    session = await keys.use_link(await keys.make_link(ANA, 60), "peer", 0.05)
    await asyncio.sleep(0.1)
    for secret in (link, session.secret):
        with pytest.raises(Unknown):
            await keys.look_at_link(secret, "peer")
        with pytest.raises(Unknown):
            await keys.session(secret, "peer")


async def test_redis_holds_no_secret(keys: Keys, store: Store) -> None:
    link = await keys.make_link(ANA, 60)
    session = await keys.use_link(await keys.make_link(ANA, 60), "peer", 60)
    _, token = await keys.make_token(ANA, "ci", 1)
    stored = b""
    async for key in store.redis.scan_iter(match=f"{store.layout.prefix}:*"):
        kind = await store.redis.type(key)
        value = await store.redis.get(key) if kind == b"string" else await store.redis.zrange(key, 0, -1)
        stored += key + repr(value).encode()
    for secret in (link, session.secret, session.csrf, token):
        assert secret.encode() not in stored


async def test_a_person_has_so_many_sessions_and_logout_ends_them(keys: Keys) -> None:
    sessions = [await keys.use_link(await keys.make_link(ANA, 60), "peer", 60 + n) for n in range(12)]
    other = await keys.use_link(await keys.make_link(Caller("slack-main/U-LI"), 60), "peer", 60)
    alive = []
    for one in sessions:
        with contextlib.suppress(Unknown):
            alive.append(await keys.session(one.secret, "peer"))
    assert alive == sessions[-SESSIONS_PER_PERSON:]
    link = await keys.make_link(ANA, 60)
    assert await keys.end_all(ANA.person) == SESSIONS_PER_PERSON + 1
    with pytest.raises(Unknown):
        await keys.look_at_link(link, "peer")
    assert (await keys.session(other.secret, "peer")).caller.person == "slack-main/U-LI"
    assert await keys.end_all("*") == 1


async def test_what_is_kept_without_a_name_opens_nothing(keys: Keys) -> None:
    """An empty name is nobody's, and no operator's."""
    assert Caller().who is None
    link = await keys.make_link(Caller(), 60)
    with pytest.raises(Unknown):
        await keys.look_at_link(link, "peer")


async def test_a_token_opens_until_it_is_revoked(keys: Keys) -> None:
    made, secret = await keys.make_token(ANA, "ci", 30)
    assert await keys.token(secret, "peer") == made
    assert await keys.tokens() == [made]
    assert await keys.revoke("other") is None
    assert await keys.revoke(made.id) == made
    with pytest.raises(Unknown):
        await keys.token(secret, "peer")
    assert await keys.tokens() == []


async def test_one_kind_of_key_opens_no_other_door(keys: Keys) -> None:
    link = await keys.make_link(ANA, 60)
    _, token = await keys.make_token(ANA, "ci", 1)
    session = await keys.use_link(await keys.make_link(ANA, 60), "peer", 60)
    for secret in (token, session.secret, token.removeprefix("dma_")):
        with pytest.raises(Unknown):
            await keys.look_at_link(secret, "peer")
    for secret in (link, session.secret, f"dma_{link}", f"dma_{session.secret}", "", "dma_"):
        with pytest.raises(Unknown):
            await keys.token(secret, "peer")


async def test_wrong_keys_are_counted_by_address_and_keep_no_right_one_out(keys: Keys) -> None:
    _, token = await keys.make_token(ANA, "ci", 1)
    for number in range(TRIES + 1):
        with pytest.raises(Unknown) as wrong:
            await keys.token(f"dma_{number:043}", "peer")
        assert wrong.value.is_many == (number == TRIES)
    assert await keys.token(token, "peer")
    with pytest.raises(Unknown) as wrong:
        await keys.token("dma_", "another")
    assert not wrong.value.is_many


async def test_a_person_has_so_many_unused_links_so_that_nobody_takes_those_of_all(keys: Keys) -> None:
    other = await keys.make_link(Caller("slack-main/U-LI"), 60)
    links = [await keys.make_link(ANA, 60 + n) for n in range(LINKS_PER_PERSON + 2)]
    alive = []
    for link in links:
        with contextlib.suppress(Unknown):
            assert (await keys.look_at_link(link, "peer")).person == ANA.person
            alive.append(link)
    assert alive == links[-LINKS_PER_PERSON:]
    assert (await keys.look_at_link(other, "peer")).person == "slack-main/U-LI"


async def test_where_there_are_too_many_links_none_is_made(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.admin.keys.LINKS_MAX", 1)
    await keys.make_link(ANA, 60)
    with pytest.raises(Full):
        await keys.make_link(Caller("slack-main/U-LI"), 60)


# ---- records that somebody else wrote ----

DAMAGED: Final = {
    "no JSON": b"\xff{",
    "a list": b"[]",
    "null": b"null",
    "nobody": b'{"person": "", "operator": ""}',
    "a person that is none": b'{"person": 7, "operator": "root"}',
    "no operator": b'{"person": "slack-main/U-ANA"}',
    "too deep": b"[" * 20_000,
    "of another kind": None,
}


async def spoil(store: Store, kind: str, secret: str, how: str) -> None:
    place = f"{store.layout.admin_root}:{kind}:{hashlib.sha256(secret.encode()).hexdigest()}"
    redis: Any = store.redis
    assert await redis.exists(place)
    if (text := DAMAGED[how]) is not None:
        await redis.set(place, text, keepttl=True)
        return
    await redis.delete(place)
    await redis.rpush(place, "x")


@pytest.mark.parametrize("how", DAMAGED)
async def test_a_record_that_can_not_be_read_opens_nothing_and_stops_nobody_else(
    keys: Keys, store: Store, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    session = await keys.use_link(await keys.make_link(ANA, 60), "peer", 60)
    link = await keys.make_link(ANA, 60)
    token, secret = await keys.make_token(ANA, "ci", 1)
    for kind, one in (("session", session.secret), ("link", link), ("token", secret)):
        await spoil(store, kind, one, how)
    for _ in range(2):
        for what in (
            keys.session(session.secret, "peer"),
            keys.look_at_link(link, "peer"),
            keys.use_link(link, "peer", 60),
            keys.token(secret, "peer"),
        ):
            with pytest.raises(Unknown) as unknown:
                await what
            assert not unknown.value.is_many
    assert [line.fields["kind"] for line in caplog.records if "can't be read" in line.message] == [  # type: ignore[attr-defined]
        "session",
        "link",
        "token",
    ]
    other = await keys.use_link(await keys.make_link(ANA, 60), "peer", 60)
    assert (await keys.session(other.secret, "peer")).caller == ANA
    made, fresh = await keys.make_token(ANA, "other", 2)
    assert [(one.id, one.is_readable, one.name) for one in await keys.tokens()] == [
        (token.id, False, ""),
        (made.id, True, "other"),
    ]
    assert await keys.end_all(ANA.person) >= 1
    with pytest.raises(Unknown):
        await keys.session(other.secret, "peer")
    assert await keys.token(fresh, "peer") == made
    revoked = await keys.revoke(token.id)
    assert revoked
    assert not revoked.is_readable
    assert await keys.tokens() == [made]
    await keys.end_all("*")
    for kind in ("session", "link"):
        assert [one async for one in store.redis.scan_iter(f"{store.layout.admin_root}:{kind}:*")] == []


async def test_of_a_token_all_that_lists_tell_has_to_be_readable(keys: Keys, store: Store) -> None:
    made, secret = await keys.make_token(ANA, "ci", 1)
    place = f"{store.layout.admin_root}:token:{hashlib.sha256(secret.encode()).hexdigest()}"
    whole = json.loads(await store.redis.get(place) or b"")
    for change in ({"name": 7}, {"made_ms": "x"}, {"ends_ms": None}, {"ends_ms": 2**60}, {"ends_ms": -1}):
        await store.redis.set(place, json.dumps({**whole, **change}))
        with pytest.raises(Unknown):
            await keys.token(secret, "peer")
        assert [(one.id, one.is_readable) for one in await keys.tokens()] == [(made.id, False)]


@pytest.mark.parametrize("is_other_kind", [False, True])
async def test_what_is_in_no_index_opens_nothing_so_that_a_lost_index_keeps_no_session(
    keys: Keys, store: Store, *, is_other_kind: bool
) -> None:
    """Or `deskmate admin logout` would say that all sessions ended, and they would go on."""
    session = await keys.use_link(await keys.make_link(ANA, 60), "peer", 60)
    _, secret = await keys.make_token(ANA, "ci", 1)
    link = await keys.make_link(ANA, 60)
    for kind in ("session", "token", "link"):
        await store.redis.delete(f"{store.layout.admin_root}:{kind}s")
        if is_other_kind:
            await store.redis.set(f"{store.layout.admin_root}:{kind}s", "x")
    for what in (
        keys.session(session.secret, "peer"),
        keys.token(secret, "peer"),
        keys.look_at_link(link, "peer"),
        keys.use_link(link, "peer", 60),
    ):
        with pytest.raises(Unknown):
            await what
    assert await keys.end_all("*") == 0
    assert await keys.tokens() == []
    other = await keys.use_link(await keys.make_link(ANA, 60), "peer", 60)
    assert (await keys.session(other.secret, "peer")).caller == ANA
    assert await keys.end_all("*") == 1


@pytest.mark.parametrize("text", ["x", None])
async def test_a_count_of_tries_that_is_none_begins_again(keys: Keys, store: Store, text: str | None) -> None:
    with pytest.raises(Unknown):
        await keys.token("dma_", "peer")
    [place] = [one async for one in store.redis.scan_iter(f"{store.layout.admin_root}:tries:*")]
    await store.redis.delete(place)
    redis: Any = store.redis
    await (redis.set(place, text) if text else redis.rpush(place, "x"))
    with pytest.raises(Unknown):
        await keys.token("dma_", "peer")
    assert (await redis.get(place), await redis.ttl(place) > 0) == (b"1", True)


@pytest.mark.parametrize("text", ["x", "[]", None])
async def test_what_was_to_be_said_and_can_not_be_read_is_not_said(keys: Keys, store: Store, text: str | None) -> None:
    session = await keys.use_link(await keys.make_link(ANA, 60), "peer", 60)
    await keys.say(session, "done", is_refused=False)
    [place] = [one async for one in store.redis.scan_iter(f"{store.layout.admin_root}:said:*")]
    await store.redis.delete(place)
    redis: Any = store.redis
    await (redis.set(place, text) if text else redis.rpush(place, "x"))
    assert await keys.said(session) == {}
    await keys.say(session, "done", is_refused=False)
    assert (await keys.said(session))["told"] == "done"
