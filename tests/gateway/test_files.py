from __future__ import annotations

import pytest

from gateway.conversation.key import ConversationKey
from gateway.events import Actor, Attachment, Event
from gateway.files import CONVERSATION_MAX_BYTES, FILE_MAX_BYTES, KEEP_S, Files, kept_at
from gateway.platforms import NotDownloaded
from gateway.store import Store, Unreachable, open_store

HERE = ConversationKey("hook", "room")


def event(*contents: bytes, dedupe: str = "d1") -> Event:
    files = tuple(
        Attachment("file", f"{number}.csv", "text/csv", 3, content=one) for number, one in enumerate(contents)
    )
    return Event(
        kind="message",
        conversation=HERE,
        actor=Actor("u"),
        dedupe_keys=(dedupe,),
        at_ms=0,
        text="hi",
        attachments=files,
    )


async def test_what_came_inside_an_event_is_read_from_where_it_was_put_away(store: Store) -> None:
    files = Files(store)
    away = Event.load((await files.put_away(event(b"a\x00b", b"second"))).dump())
    assert [await files.read(one.fetch, 6) for one in away.attachments] == [b"a\x00b", b"second"]


async def test_the_history_holds_no_byte_of_a_file(store: Store) -> None:
    dumped = (await Files(store).put_away(event(b"CANARY-content"))).dump()
    assert "CANARY" not in dumped
    assert "content" not in dumped


async def test_an_event_that_comes_again_takes_no_more_room(store: Store) -> None:
    files = Files(store)
    first = await files.put_away(event(b"abc"))
    assert await files.put_away(event(b"abc")) == first
    assert await store.redis.hlen(store.layout.key(HERE.id, "files")) == 1
    assert await files.put_away(event(b"abc", dedupe="d2")) != first


async def test_an_event_without_files_is_the_same_event(store: Store) -> None:
    plain = event()
    assert await Files(store).put_away(plain) is plain


async def test_files_are_kept_for_a_day(store: Store) -> None:
    files = Files(store)
    await files.keep(HERE.id, "f1", b"abc")
    for what in ("files", "files:order"):
        assert KEEP_S - 60 < await store.redis.ttl(store.layout.key(HERE.id, what)) <= KEEP_S
    await store.redis.delete(store.layout.key(HERE.id, "files"))
    with pytest.raises(NotDownloaded, match="kept for a day"):
        await files.read(kept_at(HERE.id, "f1"), 100)


async def test_a_full_conversation_gives_up_its_oldest_files(store: Store) -> None:
    files = Files(store)
    whole = CONVERSATION_MAX_BYTES // FILE_MAX_BYTES
    ids = [f"f{number}" for number in range(whole + 2)]
    for file in ids:
        await files.keep(HERE.id, file, bytes(FILE_MAX_BYTES))
    assert await files.sizes(HERE.id, ids) == [0, 0, *[FILE_MAX_BYTES] * whole]
    assert await files.sizes(ConversationKey("hook", "other").id, ids[-1:]) == [0]


async def test_a_file_that_is_too_long_is_neither_kept_nor_given(store: Store) -> None:
    files = Files(store)
    with pytest.raises(ValueError, match=f"{FILE_MAX_BYTES + 1} bytes"):
        await files.keep(HERE.id, "f1", bytes(FILE_MAX_BYTES + 1))
    await files.keep(HERE.id, "f1", b"abc")
    with pytest.raises(NotDownloaded, match="3 bytes, allowed are 2"):
        await files.read(kept_at(HERE.id, "f1"), 2)


async def test_a_store_that_is_away_is_told(store: Store) -> None:
    away = open_store("redis://127.0.0.1:1", store.layout, timeout_s=0.5)
    try:
        with pytest.raises(NotDownloaded, match="at the moment"):
            await Files(away).read(kept_at(HERE.id, "f1"), 2)
        with pytest.raises(Unreachable):
            await Files(away).put_away(event(b"abc"))
    finally:
        await away.close()


async def test_a_file_of_ours_is_put_under_its_bytes_and_twice_is_once(store: Store) -> None:
    files = Files(store)
    ours = Attachment("file", "figures.csv", "text/csv", 3, content=b"a,b")
    put = await files.put(HERE.id, ours)
    assert (put.content, put.name, put.mime, put.size_bytes) == (b"", "figures.csv", "text/csv", 3)
    assert await files.read(put.fetch, 3) == b"a,b"
    again = await files.put(HERE.id, Attachment("file", "other.csv", "text/csv", 3, content=b"a,b"))
    assert again.fetch == put.fetch
    assert await store.redis.hlen(store.layout.key(HERE.id, "files")) == 1
    other = await files.put(HERE.id, Attachment("file", "figures.csv", "text/csv", 3, content=b"c,d"))
    assert other.fetch != put.fetch
    assert await files.read(put.fetch, 3) == b"a,b"


async def test_a_file_of_ours_that_is_too_long_is_not_put(store: Store) -> None:
    with pytest.raises(ValueError, match=f"{FILE_MAX_BYTES + 1} bytes"):
        await Files(store).put(HERE.id, Attachment("file", "a", "", 0, content=bytes(FILE_MAX_BYTES + 1)))


async def test_what_is_not_there_and_what_cannot_be_looked_for_are_told_apart(store: Store) -> None:
    files = Files(store)
    await files.keep(HERE.id, "f1", b"")
    assert (await files.find(HERE.id, "f1"), await files.find(HERE.id, "f2")) == (b"", None)
    away = open_store("redis://127.0.0.1:1", store.layout, timeout_s=0.5)
    try:
        with pytest.raises(Unreachable):
            await Files(away).find(HERE.id, "f1")
        with pytest.raises(Unreachable):
            await Files(away).put(HERE.id, Attachment("file", "a", "", 1, content=b"a"))
    finally:
        await away.close()
