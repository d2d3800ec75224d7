"""Scripts that share a pipeline: each asker gets its own answer, whatever happens to the others."""

from __future__ import annotations

import asyncio
import secrets

import pytest

from gateway.store import Layout, Script, Store, Unreachable, open_store
from tests.harness.proxy import Proxy

ECHO = Script("echo", "return ARGV[1]")


async def test_all_that_is_asked_in_one_tick_is_answered_each_with_its_own(store: Store) -> None:
    answers = await asyncio.gather(*(store.run(ECHO, "r", f"{number}") for number in range(500)))
    assert answers == [f"{number}".encode() for number in range(500)]


async def test_a_script_that_the_server_does_not_know_is_sent_once_and_nobody_notices(store: Store) -> None:
    new = Script("new", f"return '{secrets.token_hex(8)}' .. ARGV[1]")
    answers = await asyncio.gather(*(store.run(new, "r", str(number)) for number in range(10)))
    assert [answer[-1:] for answer in answers] == [str(number).encode() for number in range(10)]
    await store.redis.script_flush()
    assert (await store.run(new, "r", "x")).endswith(b"x")


async def test_cancelled_askers_leave_the_answers_of_others_where_they_belong(store: Store) -> None:
    for wave in range(30):
        asked = [asyncio.create_task(store.run(ECHO, "r", f"{wave}-{number}")) for number in range(40)]
        await asyncio.sleep(0)
        for task in asked[:: 2 + wave % 3]:
            task.cancel()
        for number, answer in enumerate(await asyncio.gather(*asked, return_exceptions=True)):
            assert isinstance(answer, asyncio.CancelledError) or answer == f"{wave}-{number}".encode()


async def test_who_gave_up_waiting_is_not_served_late(redis_url: str, layout: Layout) -> None:
    async with Proxy(redis_url) as proxy:
        store = open_store(proxy.redis_url, layout, timeout_s=5.0)
        await store.run(ECHO, "r", "0")
        proxy.hold()
        first = asyncio.create_task(store.run(ECHO, "r", "1"))
        await asyncio.sleep(0.05)
        late = asyncio.create_task(store.run(Script("late", "redis.call('SET', KEYS[1], '1')"), layout.root(0)))
        await asyncio.sleep(0.05)
        late.cancel()
        proxy.heal()
        assert await first == b"1"
        assert await store.run(ECHO, "r", "2") == b"2"
        assert not await store.redis.exists(layout.root(0))
        await store.close()


async def test_a_script_that_fails_fails_alone(store: Store) -> None:
    bad = Script("bad", "return redis.call('NONSENSE')")
    answers = await asyncio.gather(store.run(ECHO, "r", "x"), store.run(bad, "r"), return_exceptions=True)
    assert answers[0] == b"x"
    assert isinstance(answers[1], Unreachable)
    assert "bad" in str(answers[1])


async def test_arguments_that_can_not_be_sent_are_told_to_the_asker(store: Store) -> None:
    with pytest.raises(TypeError, match="must be str, int, float or bytes"):
        await store.run(ECHO, "r", {"no": "bytes"})  # type: ignore[arg-type]
    assert await store.run(ECHO, "r", "on") == b"on"


async def test_a_server_that_is_away_is_told_at_once_and_used_again_when_it_is_back(
    redis_url: str, layout: Layout
) -> None:
    async with Proxy(redis_url) as proxy:
        store = open_store(proxy.redis_url, layout, timeout_s=0.3)
        assert await store.run(ECHO, "r", "1") == b"1"
        proxy.hold()
        with pytest.raises(Unreachable):
            await store.run(ECHO, "r", "2")
        proxy.heal()
        assert await store.run(ECHO, "r", "3") == b"3"
        await store.close()


def test_every_conversation_has_one_root() -> None:
    layout = Layout("dm", 5)
    assert layout.key("abc", "inbox").startswith(f"{layout.root_of('abc')}:c:abc:")
