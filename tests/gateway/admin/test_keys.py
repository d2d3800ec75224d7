from __future__ import annotations

import asyncio
import contextlib

import pytest

from gateway.admin.keys import SESSIONS_PER_PERSON, TRIES, Full, Keys, Unknown
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


async def test_where_there_are_too_many_links_none_is_made(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.admin.keys.LINKS_MAX", 1)
    await keys.make_link(ANA, 60)
    with pytest.raises(Full):
        await keys.make_link(ANA, 60)
