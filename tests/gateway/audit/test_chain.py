"""The audit log is a chain: whatever is done to it by hand is found, and the first line that it was done to is named."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

from gateway.audit import chain
from gateway.audit.chain import Found, KeptElsewhere, links, verify
from gateway.audit.log import read, streams
from gateway.cli import deskmate
from gateway.rights.pins import Definition, Pins
from gateway.store import Script, Store
from tests.gateway.shelf.world import World

Fields = dict[bytes, bytes]
Lines = list[tuple[bytes, Fields]]
COUNT: Final = 6


@pytest.fixture
async def world(store: Store, tmp_path: Path) -> World:
    made = World(store, tmp_path)
    for number in range(COUNT):
        await made.shelf.switch("org", f"skill-{number}", "off", made.change())
    return made


async def look(store: Store, kept: KeptElsewhere | None = None, stream: str = "changes") -> Found:
    return await verify(store, stream, kept or KeptElsewhere())


async def lines_of(store: Store) -> Lines:
    found: Any = await store.redis.xrange(streams(store)["changes"])
    return list(found)


async def put(store: Store, lines: Lines) -> None:
    """In the place of all that there was."""
    key = streams(store)["changes"]
    await store.redis.delete(key)
    for id_, fields in lines:
        await store.redis.xadd(key, fields, id=id_)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [0, 1, 54, 55, 56, 63, 64, 65, 119, 120, 1_000, 100_000])
async def test_the_scripts_hash_is_sha_256(store: Store, size: int) -> None:
    prelude = (Path(__file__).parents[3] / "gateway/shelf/scripts/prelude.lua").read_text()
    script = Script("hash", f"{prelude}\nreturn sha256(ARGV[1])")
    text = bytes(range(256)) * (size // 256 + 1)
    found = await store.run(script, store.layout.skills_root, text[:size])
    assert found.decode() == hashlib.sha256(text[:size]).hexdigest()


async def test_a_log_that_nobody_touched_is_unbroken(world: World) -> None:
    found = await look(world.store)
    assert (found.trouble, found.lines, found.head.n) == ("", COUNT, COUNT)
    await world.shelf.refused(world.change(), "skill off refused", "x")
    await Pins(world.store).approve(Definition("a__b", "d", {}), "operator root", 1)
    for stream in streams(world.store):
        found = await look(world.store, stream=stream)
        assert (found.trouble, bool(found.lines)) == ("", True)


def changed(lines: Lines) -> Lines:
    lines[2][1][b"said"] = lines[2][1][b"said"].replace(b"U-ANA", b"U-EVE")
    return lines


def after_changed(lines: Lines) -> Lines:
    lines[2][1][b"after"] = b"{}"
    return lines


def at_changed(lines: Lines) -> Lines:
    lines[2][1][b"at"] = b"1"
    return lines


def deleted(lines: Lines) -> Lines:
    del lines[2]
    return lines


def first_deleted(lines: Lines) -> Lines:
    return lines[2:]


def swapped(lines: Lines) -> Lines:
    (one, first), (two, second) = lines[2], lines[3]
    lines[2], lines[3] = (one, second), (two, first)
    return lines


def put_in(lines: Lines) -> Lines:
    return [*lines[:3], (lines[2][0].partition(b"-")[0] + b"-99", {b"said": b"{}"}), *lines[3:]]


def without_number(lines: Lines) -> Lines:
    del lines[2][1][b"n"]
    return lines


def truncated(lines: Lines) -> Lines:
    return lines[:4]


def told_later(lines: Lines) -> Lines:
    """The very same line, under an id of another day."""
    return [*lines[:-1], (b"1893456000000-0", lines[-1][1])]


def told_earlier(lines: Lines) -> Lines:
    return [(b"1577836800000-%d" % number, fields) for number, (_, fields) in enumerate(lines)]


@pytest.mark.parametrize(
    ("how", "trouble"),
    [
        (changed, "line 3 .* was changed"),
        (after_changed, "line 3 .* was changed"),
        (at_changed, "line 3 .* was changed"),
        (deleted, "line 3 is missing, before line 4"),
        (first_deleted, "lines 1 to 2 are missing, before line 3"),
        (swapped, "line 3 is missing, before line 4"),
        (put_in, "behind line 3, is in no chain"),
        (without_number, "behind line 2, is in no chain"),
        (told_later, "line 6 .* is told to be of another time"),
        (told_earlier, "line 1 .* is told to be of another time"),
        (truncated, "line 5 is missing, and all behind it: the chain's head is at line 6"),
    ],
)
async def test_what_is_done_to_it_is_named(world: World, how: Callable[[Lines], Lines], trouble: str) -> None:
    lines = await lines_of(world.store)
    first_ms = int(lines[0][0].partition(b"-")[0])
    spread = [(b"%d-0" % (first_ms + number), fields) for number, (_, fields) in enumerate(lines)]
    await put(world.store, how(spread))
    found = await look(world.store)
    assert re.search(trouble, found.trouble), found.trouble


async def test_an_end_that_is_taken_away_with_its_head_is_found_by_a_head_that_somebody_kept(world: World) -> None:
    kept = KeptElsewhere.read([str((await look(world.store)).head)])
    lines = await lines_of(world.store)
    await put(world.store, lines[:4])
    fields = lines[3][1]
    await world.store.redis.set(f"{streams(world.store)['changes']}:head", f"4 {fields[b'hash'].decode()}")
    assert (await look(world.store)).trouble == "", "by itself it can't be told"
    told = (await look(world.store, kept)).trouble
    assert told == "line 5 is missing, and all behind it: what was kept elsewhere ends at line 6"


async def test_a_chain_that_was_made_anew_is_found_by_what_somebody_kept(world: World) -> None:
    export = [link.dump() async for link in links(world.store, "changes")]
    head = KeptElsewhere.read([str((await look(world.store)).head)])
    await world.store.redis.delete(streams(world.store)["changes"], f"{streams(world.store)['changes']}:head")
    for number in range(COUNT):
        who = "slack-main/U-EVE" if number == 3 else "slack-main/U-ANA"
        await world.shelf.switch("org", f"skill-{number}", "off", world.change(who))
    assert (await look(world.store)).trouble == ""
    assert "line 6 " in (await look(world.store, head)).trouble
    assert "not the one that was kept elsewhere" in (await look(world.store, KeptElsewhere.read(export))).trouble


@pytest.mark.parametrize(
    "how",
    [
        {"thing": "standuq"},
        {"who": "slack-main/U-EVE"},
        {"thing": None},
        {"more": "was said"},
        {"said": "{}"},
        {"after": "on"},
        {"at": "1"},
        {"hash": "a" * 64},
        {"stream": "changes", "said": 7},
        {"said": None, "before": None, "after": None, "at": None, "prev": None},
    ],
)
async def test_a_line_that_was_changed_where_it_was_kept_is_named(world: World, how: dict[str, object]) -> None:
    export = [link.dump() async for link in links(world.store, "changes")]
    assert (await look(world.store, KeptElsewhere.read(export))).trouble == ""
    changed = {name: value for name, value in {**json.loads(export[3]), **how}.items() if value is not None}
    kept = KeptElsewhere.read([*export[:3], json.dumps(changed), *export[4:]])
    assert (await look(world.store, kept)).trouble.startswith("line 4 of what was kept elsewhere was changed there: ")
    assert (await look(world.store, kept, "tools")).trouble == ""


async def test_a_head_that_is_lost_or_wrong_begins_no_chain_anew(world: World) -> None:
    key = f"{streams(world.store)['changes']}:head"
    await world.store.redis.delete(key)
    assert "head was changed" in (await look(world.store)).trouble
    await world.shelf.switch("org", "more", "off", world.change())
    found = await look(world.store)
    assert (found.trouble, found.head.n) == ("", COUNT + 1)


async def test_what_is_written_while_somebody_looks_is_no_break(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def later(store: Store, stream: str) -> AsyncIterator[chain.Link]:
        await world.shelf.switch("org", "more", "off", world.change())  # the head was read before
        async for link in links(store, stream):
            yield link

    monkeypatch.setattr(chain, "links", later)
    found = await look(world.store)
    assert (found.trouble, found.head.n) == ("", COUNT + 1)


async def test_lines_from_before_are_told_apart(world: World) -> None:
    key = streams(world.store)["changes"]
    await world.store.redis.delete(key, f"{key}:head")
    await world.store.redis.xadd(key, {"said": "{}", "before": "", "after": ""}, id="1-1")
    await world.shelf.switch("org", "more", "off", world.change())
    found = await look(world.store)
    assert (found.trouble, found.lines, found.older, found.head.n) == ("", 2, 1, 1)


async def test_where_redis_clock_was_put_back_lines_go_on_from_the_last_one(world: World) -> None:
    """As Redis numbers them: an id is never below the one before."""
    key, made = streams(world.store)["changes"], list[tuple[bytes, Fields]]()
    first_ms, prev = int((await lines_of(world.store))[0][0].partition(b"-")[0]), chain.BEGIN
    for n in range(1, COUNT + 1):
        at, id_ = str(first_ms - (0 if n == 1 else 3_600_000)), f"{first_ms}-{n}"
        prev_before, prev = prev, chain.Link("changes", id_, "{}", "", "", n, at, prev, "").reckoned
        fields = {"said": "{}", "before": "", "after": "", "n": str(n), "at": at, "prev": prev_before, "hash": prev}
        made.append((id_.encode(), {name.encode(): one.encode() for name, one in fields.items()}))
    await put(world.store, made)
    await world.store.redis.set(f"{key}:head", f"{COUNT} {prev}")
    assert (await look(world.store)).trouble == ""


async def test_a_line_that_somebody_put_there_by_hand_hides_no_other_one(world: World) -> None:
    for fields in ({"x": "y"}, {"said": "{"}, {"said": "[]"}, {"said": b"\xff"}):
        await world.store.redis.xadd(streams(world.store)["changes"], fields)  # type: ignore[arg-type]
    told = [one.what for one in await read(world.store)]
    assert told == ["skill off"] * COUNT + ["unreadable"] * 4
    assert "is in no chain" in (await look(world.store)).trouble


async def test_of_refusals_older_ones_are_gone_and_that_is_no_break(world: World) -> None:
    for number in range(5):
        await world.shelf.refused(world.change(), "skill off refused", str(number))
    lines: Any = await world.store.redis.xrange(streams(world.store)["refused"])
    await world.store.redis.xdel(streams(world.store)["refused"], lines[0][0], lines[1][0])
    assert (await look(world.store, stream="refused")).trouble == ""
    await world.store.redis.xdel(streams(world.store)["refused"], lines[3][0])
    assert "line 4 is missing" in (await look(world.store, stream="refused")).trouble


async def test_many_at_once_make_one_chain(world: World) -> None:
    shelves = [world.another_shelf(str(number)) for number in range(4)]
    await asyncio.gather(
        *(shelf.switch("org", f"s-{at}", "on", world.change()) for at in range(10) for shelf in shelves)
    )
    found = await look(world.store)
    assert (found.trouble, found.head.n) == ("", COUNT + 40)


def test_nothing_that_was_kept_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="neither a head"):
        KeptElsewhere.read(["hello", "changes:x:y"])
    for strange in ("change:5:" + "a" * 64, "changes:0:" + "a" * 64):
        with pytest.raises(ValueError, match="there are: changes, refused, tools"):
            KeptElsewhere.read([strange])
    assert KeptElsewhere.read([json.dumps({"stream": "changes", "n": 3, "hash": "ab"})]).hashes == {
        ("changes", 3): "ab"
    }
    assert "--against" in CliRunner().invoke(deskmate, ["audit", "verify", "--help"]).output
