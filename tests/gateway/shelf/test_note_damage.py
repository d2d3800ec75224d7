"""Notes whose keys somebody spoilt by hand: a change is made whole, or not at all and can be made again."""

from __future__ import annotations

import pytest

from gateway.shelf.notes import Notes
from gateway.store import Refused, Store
from skills import ids
from tests.gateway.shelf.test_notes import FORUM, OPS, a_change, a_draft, keep, texts, wait

PLACE = f"{ids.skeleton('web-access')}:{ids.key(FORUM)}"
KEYS = ["waiting", "kept", "sizes", "ending", f"file:{PLACE}", f"files:{ids.skeleton('web-access')}"]
ACTS = ["save", "ask", "approve", "reject", "revert", "expire", "promote"]


async def everything(store: Store) -> dict[bytes, bytes | None]:
    names = store.redis.scan_iter(f"{store.layout.skills_root}:*")
    return {name: await store.redis.dump(name) async for name in names}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("name", [*KEYS, "audit"])
async def test_what_can_not_be_written_whole_is_not_written_at_all(store: Store, name: str, act: str) -> None:
    notes = Notes(store)
    kept, waiting = await keep(notes, "counts"), (await wait(notes, "waits")).note
    root = store.layout.skills_root
    key = f"{root}:audit" if name == "audit" else f"{root}:notes:{OPS}:{name}"
    saved = await store.redis.dump(key)
    await store.redis.delete(key)
    await store.redis.set(key, "of another kind")
    before = await everything(store)

    async def do() -> None:
        change = a_change("again")
        match act:
            case "save" | "ask":
                await notes.save(change, a_draft("new"), ask=act == "ask")
            case "approve":
                await notes.approve(change, waiting.code)
            case "reject":
                await notes.reject(change, waiting.code)
            case "revert":
                await notes.revert(change, kept.code)
            case "expire":
                await notes.expire(change, kept.code, 1)
            case _:
                await notes.promote(change, kept.code)

    with pytest.raises(Refused):
        await do()
    assert await everything(store) == before
    await store.redis.delete(key)
    if saved:
        await store.redis.restore(key, 0, saved)
    await do()
    lines = await store.redis.xlen(f"{root}:audit")
    await do()
    assert await store.redis.xlen(f"{root}:audit") == lines == 3, "made once, now that it can be"


async def test_sizes_that_are_no_numbers_keep_nobody_from_writing(store: Store) -> None:
    notes = Notes(store)
    kept = await keep(notes, "one")
    await store.redis.hset(f"{store.layout.skills_root}:notes:{OPS}:sizes", PLACE, "much")
    await store.redis.hset(f"{store.layout.skills_root}:notes:{OPS}:note:{kept.id}", "bytes", "much")
    await keep(notes, "two")
    assert await texts(notes) == ["one", "two"]
