"""The workspace of a channel: paths, limits however many write at once, retention, and that nothing crosses channels."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from config.settings import WorkspaceSettings
from gateway.store import Layout, Store, open_store
from gateway.workspace import ABSENT, Change, Full, Workspace, hash_of, path_fault

SMALL = {"file_max_bytes": 10, "files_max": 4, "total_max_bytes": 22}


def workspace(store: Store, channel: str = "one", keep_s: float = 60, **rules: Any) -> Workspace:
    return Workspace(store, channel, WorkspaceSettings.model_construct(**{**SMALL, **rules}), keep_s)


def put(path: str, content: bytes = b"x") -> Change:
    return Change(path, "put", content)


async def contents(of: Workspace) -> dict[str, bytes]:
    return {file.path: file.content for file in await of.list(whole=True)}


@pytest.mark.parametrize("path", ["a", "a/b.md", "报告/表.csv", "a_b-c.tar.gz", "/".join("abcdefgh"), "x" * 64])
def test_what_is_a_path(path: str) -> None:
    assert path_fault(path) is None


@pytest.mark.parametrize(
    "path",
    [
        *(
            "../x",
            "a/../../x",
            "/etc/passwd",
            "//x",
            ".",
            "",
            "~",
            "..\\x",
            "%2e%2e/x",
            "‥/x",
            "․․/x",
            "x.",
            "x ",
            " x",
        ),
        *(
            "x" * 300,
            "x" * 65,
            "a\0b",
            "a\nb",
            "😀",
            "cafe\u0301",
            "a//b",
            "a/",
            ".env",
            ".git/config",
            "a/.b",
            "a\u200bb",
        ),
        *("/".join("abcdefghi"), "/".join(["x" * 60] * 5), "a:b", "a*", "$HOME", "a/./b", "\ud800"),
    ],
)
def test_what_is_none(path: str) -> None:
    assert path_fault(path)


async def test_what_was_written_is_read_and_listed(store: Store) -> None:
    here = workspace(store)
    assert await here.change("1", put("b/n.md", b"a\0\xffb"), put("a", b"")) == ()
    [first, second] = await here.list()
    assert [(one.path, one.size_bytes, one.content) for one in (first, second)] == [("a", 0, b""), ("b/n.md", 4, b"")]
    found = await here.find("b/n.md")
    assert found
    assert (found.path, found.size_bytes, found.content, found.at_ms) == ("b/n.md", 4, b"a\0\xffb", second.at_ms)
    assert await here.find("b") is None


async def test_a_file_can_be_replaced_added_to_and_taken_away(store: Store) -> None:
    here = workspace(store)
    await here.change("1", Change("a", "append", b"1"))
    await here.change("2", Change("a", "append", b"2"))
    assert await contents(here) == {"a": b"12"}
    await here.change("3", put("a", b"3"))
    assert await contents(here) == {"a": b"3"}
    await here.change("4", Change("a", "take"), Change("never", "take"))
    assert await contents(here) == {}


async def test_the_same_change_once_more_does_nothing(store: Store) -> None:
    here = workspace(store)
    for change_id in ("1", "2", "1", "2"):
        await here.change(change_id, Change("a", "append", b"12345"))
    assert await contents(here) == {"a": b"1234512345"}


async def test_names_that_differ_in_case_or_width_are_one_file(store: Store) -> None:
    here = workspace(store)
    await here.change("1", put("Notes/A.md", b"1"))
    await here.change("2", put("notes/ａ.md", b"2"))
    assert await contents(here) == {"notes/ａ.md": b"2"}
    assert await here.find("NOTES/A.MD")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (put("a", b"x" * 11), "a would have 11 bytes; a file has up to 10"),
        (Change("held", "append", b"x" * 9), "held would have 11 bytes; a file has up to 10"),
        (put("e"), "There would be 5 files; the workspace has up to 4"),
        (put("held", b"x" * 10), "together would have 23 bytes; the workspace has up to 22"),
        (put("dir"), "'dir' is the name of a folder"),
        (put("held/x", b""), "'held/x' would lie in a folder whose name is a file's"),
        (put("DIR/F/x/y", b""), "'DIR/F/x/y' would lie in a folder"),
    ],
)
async def test_a_limit_is_named_and_nothing_is_changed(store: Store, change: Change, why: str) -> None:
    here = workspace(store, files_max=4 if "There would be" in why else 9)
    await here.change("1", put("held", b"ab"), put("b", b"x" * 9), put("c", b"x" * 9), put("dir/f", b"1"))
    before = await here.list(whole=True)
    with pytest.raises(Full, match=why):
        await here.change("2", put("b", b"new"), change)
    assert await here.list(whole=True) == before


async def test_what_is_over_a_lowered_limit_may_shrink(store: Store) -> None:
    await workspace(store).change("1", *(put(name, b"12345") for name in "abcd"))
    here = workspace(store, files_max=1, total_max_bytes=1)
    await here.change("2", put("a", b"1"), Change("b", "take"))
    assert set(await contents(here)) == set("acd")
    with pytest.raises(Full, match="together"):
        await here.change("3", put("a", b"123"))


async def test_a_file_may_take_the_place_of_a_folder_that_is_taken_away_with_it(store: Store) -> None:
    here = workspace(store)
    await here.change("1", put("a/b"))
    await here.change("2", put("a", b"2"), Change("a/b", "take"))
    assert await contents(here) == {"a": b"2"}


async def test_what_somebody_else_changed_meanwhile_is_left_out_and_named(store: Store) -> None:
    here = workspace(store)
    await here.change("1", put("same", b"1"), put("other", b"theirs"), put("there", b"theirs"))
    left = await here.change(
        "2",
        Change("same", "put", b"2", expected=hash_of(b"1")),
        Change("other", "put", b"ours", expected=hash_of(b"1")),
        Change("there", "put", b"ours", expected=ABSENT),
        Change("gone", "take", expected=hash_of(b"1")),
        Change("new", "put", b"n", expected=ABSENT),
    )
    assert left == ("other", "there", "gone")
    assert await contents(here) == {"same": b"2", "other": b"theirs", "there": b"theirs", "new": b"n"}


async def test_eight_workers_at_once_write_each_file_whole_and_within_the_limits(
    redis_url: str, layout: Layout
) -> None:
    stores = [open_store(redis_url, layout, timeout_s=5.0) for _ in range(8)]
    rules: dict[str, Any] = {"file_max_bytes": 1_000, "files_max": 5, "total_max_bytes": 4_000}

    async def write(number: int, store: Store) -> None:
        here = workspace(store, **rules)
        for turn in range(25):
            letter = b"abcdefgh"[number : number + 1]
            try:
                await here.change(f"{number}-{turn}", put(f"f{(number + turn) % 9}", letter * (600 + number * 10)))
            except Full:
                continue

    try:
        await asyncio.gather(*(write(number, store) for number, store in enumerate(stores)))
        held = await contents(workspace(stores[0], **rules))
    finally:
        for store in stores:
            await store.close()
    assert len(held) == 5
    assert sum(map(len, held.values())) <= 4_000
    for content in held.values():
        assert content == content[:1] * (600 + (content[0] - ord("a")) * 10)


async def test_appends_of_eight_workers_are_all_there(redis_url: str, layout: Layout) -> None:
    stores = [open_store(redis_url, layout, timeout_s=5.0) for _ in range(8)]
    try:
        await asyncio.gather(
            *(
                workspace(store, file_max_bytes=1_000, total_max_bytes=1_000).change(
                    f"{number}-{turn}", Change("log", "append", b"%d%d." % (number, turn))
                )
                for number, store in enumerate(stores)
                for turn in range(10)
            )
        )
        log = (await contents(workspace(stores[0])))["log"]
    finally:
        for store in stores:
            await store.close()
    assert sorted(log.decode().split(".")[:-1]) == sorted(f"{a}{b}" for a in range(8) for b in range(10))


async def test_nothing_crosses_channels(store: Store) -> None:
    one, two = workspace(store, "one"), workspace(store, "two")
    await one.change("1", put("canary", b"CANARY"))
    assert await two.find("canary") is None
    assert await two.list(whole=True) == ()
    await two.change("1", put("canary", b"ours"))
    await two.change("2", Change("canary", "take"))
    assert await contents(one) == {"canary": b"CANARY"}


async def test_it_is_forgotten_after_its_last_use(store: Store) -> None:
    here = workspace(store, keep_s=60)
    await here.change("1", put("a"))
    names = [name async for name in store.redis.scan_iter(f"{store.layout.prefix}*")]
    assert len(names) == 3
    for use in (here.list(), here.find("a"), here.change("2", put("b"))):
        for name in names:
            await store.redis.pexpire(name, 5_000)
        await use
        assert [30_000 < await store.redis.pttl(name) <= 60_000 for name in names] == [True] * 3


async def test_what_is_held_stays_as_it_was_read_and_changes_go_to_what_is_there(store: Store) -> None:
    here = workspace(store)
    await here.change("1", put("a", b"then"), put("b", b"b"))
    every, one = await here.held(), await here.held("A")
    await here.change("2", put("a", b"now"), Change("b", "take"))
    assert await contents(every) == {"a": b"then", "b": b"b"}
    assert await contents(one) == {"a": b"then"}
    assert every.hashes()["a"] == one.hashes()["a"] != (await here.held("a")).hashes()["a"]
    assert [found.content if (found := await one.find(path)) else None for path in ("a", "b")] == [b"then", None]
    assert await every.change("3", Change("a", "put", b"new", hash_of(b"then"))) == ("a",)
    assert await contents(here) == {"a": b"now"}
