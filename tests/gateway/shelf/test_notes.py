from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.audit.log import Change
from gateway.shelf.notes import EVERYWHERE, Decided, Draft, Full, Limits, NoNote, Notes, OtherNotes, Saved
from gateway.store import Layout, Store
from skills.notes import Note

OPS, DEV = "ops" + "a" * 23, "dev" + "a" * 23
FORUM = "references/site-patterns/forum.pages.test.md"


def a_change(key: str, *, channel: str = OPS, who: str = "slack/U1") -> Change:
    return Change(key, who, f"slack/{channel[:3]}", channel, "team.yaml, line 3")


def a_draft(text: str, *, file: str = FORUM, skill: str = "web-access", overwrite: bool = False) -> Draft:
    return Draft(skill, file, text, "Max", "c1", overwrite)


async def keep(notes: Notes, text: str, *, channel: str = OPS, file: str = FORUM, overwrite: bool = False) -> Note:
    draft = a_draft(text, file=file, overwrite=overwrite)
    return (await notes.save(a_change(f"keep {text} {file}", channel=channel), draft, ask=False)).note


async def wait(notes: Notes, text: str, *, file: str = FORUM, overwrite: bool = False) -> Saved:
    return await notes.save(a_change(f"ask {text} {file}"), a_draft(text, file=file, overwrite=overwrite), ask=True)


async def texts(notes: Notes, channel: str = OPS, file: str = FORUM, skill: str = "web-access") -> list[str]:
    return [note.text for note in await notes.read(channel, skill, file)]


async def until_read(notes: Notes, wanted: list[str]) -> None:
    async with asyncio.timeout(30):
        while await texts(notes) != wanted:
            await asyncio.sleep(0.01)


async def server_ms(store: Store) -> int:
    seconds, us = await store.redis.time()
    return int(seconds) * 1_000 + int(us) // 1_000


async def audit(store: Store) -> list[dict[str, Any]]:
    lines: Any = await store.redis.xrange(f"{store.layout.skills_root}:audit")
    return [
        {**json.loads(line[b"said"]), "before": line[b"before"].decode(), "after": line[b"after"].decode()}
        for _, line in lines
    ]


@pytest.fixture
def notes(store: Store) -> Notes:
    return Notes(store)


async def test_a_note_that_counts_at_once_is_read_with_all_that_is_known_of_it(notes: Notes) -> None:
    await keep(notes, "- 先点同意按钮")

    (note,) = await notes.read(OPS, "web-access", FORUM)

    assert (note.text, note.by, note.by_name, note.conversation, note.source) == (
        "- 先点同意按钮", "slack/U1", "Max", "c1", "slack/ops",
    )  # fmt: skip
    assert note.hash == hashlib.sha256("- 先点同意按钮".encode()).hexdigest()
    assert (note.skill, note.file, note.state, note.until_ms) == ("web-access", FORUM, "kept", None)
    assert note.at_ms > 1_700_000_000_000
    assert len(note.code) == 4


async def test_a_note_that_waits_is_read_by_nobody_until_it_is_approved(notes: Notes) -> None:
    waiting = (await wait(notes, "one")).note
    assert await texts(notes) == []
    assert [note.code for note in await notes.list(OPS, "waiting")] == [waiting.code]

    approved = await notes.approve(a_change("approve", who="slack/LI"), waiting.code.lower())

    assert (approved.state, approved.by) == ("kept", "slack/U1")
    assert await texts(notes) == ["one"]
    assert await notes.list(OPS, "waiting") == ()
    assert [note.code for note in await notes.list(OPS, "kept")] == [waiting.code]


async def test_of_a_rejected_note_nothing_is_left_in_redis(notes: Notes, store: Store) -> None:
    waiting = (await wait(notes, "canary-4711")).note

    await notes.reject(a_change("reject"), waiting.code)

    assert await texts(notes) == []
    assert await everything(store, "canary-4711") == []
    assert await notes.list(OPS, "waiting") == ()
    assert (await notes.find(OPS, waiting.code)).state == "rejected"
    with pytest.raises(Decided):
        await notes.approve(a_change("late"), waiting.code)


async def test_notes_are_read_in_the_order_in_which_they_came_to_count(notes: Notes) -> None:
    first = (await wait(notes, "asked first")).note
    await keep(notes, "kept")
    await notes.approve(a_change("approve"), first.code)

    assert await texts(notes) == ["kept", "asked first"]


async def test_overwriting_takes_the_place_of_all_notes_before_and_reverting_it_brings_them_back(notes: Notes) -> None:
    await keep(notes, "one")
    await keep(notes, "two")
    new = await keep(notes, "three", overwrite=True)
    assert await texts(notes) == ["three"]
    assert [(note.text, note.state) for note in await notes.list(OPS, "kept")] == [
        ("three", "kept"), ("two", "replaced"), ("one", "replaced"),
    ]  # fmt: skip

    await keep(notes, "four")
    await notes.revert(a_change("revert"), new.code)

    assert await texts(notes) == ["one", "two", "four"]


async def test_who_asks_to_overwrite_hears_what_would_be_replaced(notes: Notes) -> None:
    await keep(notes, "one")
    await keep(notes, "two")

    saved = await wait(notes, "three", overwrite=True)

    assert [note.text for note in saved.replaces] == ["one", "two"]
    assert await texts(notes) == ["one", "two"]


async def test_an_approver_accepts_only_the_difference_that_was_shown(notes: Notes) -> None:
    await keep(notes, "one")
    asked = (await wait(notes, "new", overwrite=True)).note
    await keep(notes, "two, which nobody was shown")

    for _ in range(2):  # the same change again, as after a lost answer, is no second word of the approver
        with pytest.raises(OtherNotes) as changed:
            await notes.approve(a_change("approve"), asked.code)
    assert [note.text for note in changed.value.replaces] == ["one", "two, which nobody was shown"]
    assert await texts(notes) == ["one", "two, which nobody was shown"]

    await notes.approve(a_change("approve again"), asked.code)
    assert await texts(notes) == ["new"]


async def test_a_reverted_note_is_gone_and_the_others_stay(notes: Notes, store: Store) -> None:
    await keep(notes, "stays")
    bad = await keep(notes, "canary-4712")

    await notes.revert(a_change("revert"), bad.code)

    assert await texts(notes) == ["stays"]
    assert [note.text for note in await notes.list(OPS, "kept")] == ["stays"]
    assert await everything(store, "canary-4712") == []
    with pytest.raises(Decided):
        await notes.revert(a_change("once more"), bad.code)


async def test_a_file_whose_only_note_was_reverted_has_none_and_takes_new_ones(notes: Notes) -> None:
    bad = await keep(notes, "bad")
    await notes.revert(a_change("revert"), bad.code)
    assert await notes.read(OPS, "web-access", "") == ()

    await keep(notes, "good")
    assert await texts(notes) == ["good"]


async def test_a_note_ends_at_its_time_by_the_clock_of_the_server(notes: Notes, store: Store) -> None:
    await keep(notes, "stays")
    short = await keep(notes, "canary-4713")
    now_ms = await server_ms(store)

    await notes.expire(a_change("later"), short.code, now_ms + 3_600_000)
    assert await texts(notes) == ["stays", "canary-4713"]
    await notes.expire(a_change("never"), short.code, None)
    assert (await notes.find(OPS, short.code)).until_ms is None
    await notes.expire(a_change("soon"), short.code, now_ms + 100)
    await until_read(notes, ["stays"])
    assert await server_ms(store) >= now_ms + 100

    await notes.revert(a_change("any change tidies"), (await notes.list(OPS, "kept"))[0].code)
    assert await everything(store, "canary-4713") == []


async def test_what_has_ended_is_changed_no_more(notes: Notes, store: Store) -> None:
    short = await keep(notes, "short")
    await notes.expire(a_change("soon"), short.code, await server_ms(store) + 20)
    await until_read(notes, [])
    found = await notes.find(OPS, short.code)
    assert (found.state, found.text) == ("expired", ""), "though nothing has tidied its file yet"

    for decided in (
        notes.revert(a_change("revert"), short.code),
        notes.expire(a_change("expire"), short.code, None),
        notes.promote(a_change("promote"), short.code),
    ):
        with pytest.raises(Decided) as ended:
            await decided
        assert ended.value.note.state == "expired"


async def test_what_waits_is_neither_reverted_nor_promoted_nor_given_an_end(notes: Notes) -> None:
    asked = (await wait(notes, "one")).note

    for decided in (
        notes.revert(a_change("revert"), asked.code),
        notes.expire(a_change("expire"), asked.code, 1),
        notes.promote(a_change("promote"), asked.code),
    ):
        with pytest.raises(Decided):
            await decided
    assert await texts(notes) == []


async def test_what_a_note_replaced_does_not_come_back_at_its_end(notes: Notes, store: Store) -> None:
    await keep(notes, "old canary-4714")
    await keep(notes, "new", overwrite=True)
    await keep(notes, "after")
    new = (await notes.list(OPS, "kept"))[1]

    await notes.expire(a_change("now"), new.code, 1)

    assert await texts(notes) == ["after"]
    assert await everything(store, "canary-4714") == []


async def test_a_promoted_note_is_read_once_in_every_channel(notes: Notes) -> None:
    mine = await keep(notes, "for all")
    await keep(notes, "for us")

    everywhere = await notes.promote(a_change("promote"), mine.code)

    assert everywhere.code.startswith("A")
    assert everywhere.is_everywhere
    assert not mine.is_everywhere
    assert await texts(notes) == ["for all", "for us"]
    assert await texts(notes, DEV) == ["for all"]
    assert (await notes.find(OPS, mine.code)).state == "promoted"
    assert [note.text for note in await notes.list(EVERYWHERE, "kept")] == ["for all"]

    await notes.revert(a_change("revert", channel=DEV), everywhere.code)
    assert await texts(notes) == ["for us"]
    assert await texts(notes, DEV) == []


async def test_a_promoted_note_replaces_nothing_in_other_channels(notes: Notes) -> None:
    first = await keep(notes, "first", channel=DEV)
    await notes.promote(a_change("promote", channel=DEV), first.code)
    await keep(notes, "replaced")
    second = await keep(notes, "second", overwrite=True)

    await notes.promote(a_change("promote"), second.code)

    assert await texts(notes) == await texts(notes, DEV) == ["first", "second"]


async def test_limits_hold_for_what_is_promoted(store: Store) -> None:
    notes = Notes(store, Limits(file_bytes=100))
    for channel in (DEV, OPS):
        note = await keep(notes, "a" * 60, channel=channel)
        if channel == OPS:
            with pytest.raises(Full, match="up to 100 bytes"):
                await notes.promote(a_change("promote"), note.code)
        else:
            await notes.promote(a_change("promote", channel=DEV), note.code)
    assert await texts(notes) == ["a" * 60] * 2


async def test_no_channel_finds_reads_lists_or_changes_what_is_anothers(notes: Notes) -> None:
    mine = await keep(notes, "canary-4715")
    asked = (await wait(notes, "canary-4716")).note

    assert await notes.read(DEV, "web-access", FORUM) == ()
    assert await notes.read(DEV, "web-access", "") == ()
    assert await notes.list(DEV, "kept") == await notes.list(DEV, "waiting") == ()
    for code in (mine.code, asked.code):
        with pytest.raises(NoNote):
            await notes.find(DEV, code)
        for change in (notes.approve, notes.reject, notes.revert, notes.promote):
            with pytest.raises(NoNote):
                await change(a_change("theirs", channel=DEV), code)
    assert await texts(notes) == ["canary-4715"]


async def test_notes_lie_under_their_own_channel_alone(notes: Notes, store: Store) -> None:
    await keep(notes, "canary-4717")
    await keep(notes, "other", channel=DEV)

    (holding,) = await everything(store, "canary-4717")

    assert holding.startswith(f"{store.layout.skills_root}:notes:{OPS}:note:")


@pytest.mark.parametrize(
    ("skill", "file"),
    [
        ("WEB-ACCESS", FORUM),
        ("ｗｅｂ－ａｃｃｅｓｓ", FORUM),
        ("web-ассess", FORUM),
        ("web-access", FORUM.upper()),
    ],
)
async def test_case_width_and_looks_of_a_name_make_no_second_file(notes: Notes, skill: str, file: str) -> None:
    await keep(notes, "one")

    assert await texts(notes, skill=skill, file=file) == ["one"]


async def test_a_file_that_only_looks_like_another_is_refused(notes: Notes) -> None:
    await keep(notes, "one", file="references/modern.md")

    with pytest.raises(Full, match=r"'references/modem\.md' looks like 'references/modern\.md'"):
        await keep(notes, "two", file="references/modem.md")


async def test_a_folder_names_its_files_with_their_last_note_and_no_text(notes: Notes) -> None:
    await keep(notes, "one", file="references/a/x.md")
    last = await keep(notes, "two", file="references/a/x.md")
    await keep(notes, "three", file="references/ab.md")

    found = await notes.read(OPS, "web-access", "references/a/")

    assert found == (replace(last, text=""),)
    assert len(await notes.read(OPS, "web-access", "")) == 2


async def test_the_same_call_again_is_the_same_note_and_one_line_of_the_audit_log(notes: Notes, store: Store) -> None:
    first = await wait(notes, "one")
    assert await wait(notes, "one") == first
    for _ in range(2):
        await notes.approve(a_change("approve"), first.note.code)
    assert (await wait(notes, "one")).note.state == "kept"
    for _ in range(2):
        await notes.expire(a_change("expire"), first.note.code, 4_000_000_000_000)
    for _ in range(2):
        everywhere = await notes.promote(a_change("promote"), first.note.code)
    for _ in range(2):
        await notes.revert(a_change("revert"), everywhere.code)

    assert await texts(notes) == []
    steps = ["save", "approve", "expire", "promote", "revert"]
    assert [line["what"] for line in await audit(store)] == [f"note {step}" for step in steps]


async def test_each_change_has_its_line_with_who_where_what_and_why(notes: Notes, store: Store) -> None:
    asked = (await wait(notes, "one")).note
    code, shown = asked.code, f"{asked.code} {asked.hash}"
    await notes.approve(a_change("approve", who="slack/LI"), code)
    await notes.expire(a_change("expire"), code, 4_000_000_000_000)
    await notes.promote(a_change("promote"), code)
    rejected = (await wait(notes, "two")).note
    await notes.reject(a_change("reject"), rejected.code)

    lines = await audit(store)

    assert [(line["what"], line["before"], line["after"]) for line in lines[:3]] == [
        ("note save", "", f"pending {shown}"),
        ("note approve", f"pending {shown}", f"kept {shown}"),
        ("note expire", "until ", "until 4000000000000"),
    ]
    assert [line["what"] for line in lines[3:]] == ["note promote", "note save", "note reject"]
    assert lines[5]["after"] == f"rejected {rejected.code} {rejected.hash}"
    assert lines[1]["who"] == "slack/LI"
    assert {line["channel"] for line in lines} == {"slack/ops"}
    assert {line["rule"] for line in lines} == {"team.yaml, line 3"}
    assert lines[1]["thing"] == f"web-access {FORUM} {code}"


async def test_what_is_refused_leaves_no_line_and_no_note(notes: Notes, store: Store) -> None:
    with pytest.raises(Full, match="up to 8,000 characters; 8,001 came"):
        await keep(notes, "长" * 8_001)

    assert await audit(store) == []
    assert await texts(notes) == []


async def test_eight_thousand_characters_of_any_script_fit(notes: Notes) -> None:
    await keep(notes, "长" * 8_000)
    await keep(notes, "😀" * 8_000)

    assert [len(text) for text in await texts(notes)] == [8_000, 8_000]


async def test_a_file_takes_exactly_its_bytes(store: Store) -> None:
    notes = Notes(store, Limits(file_bytes=100))
    await keep(notes, "a" * 60)
    await keep(notes, "b" * 40)

    with pytest.raises(Full, match=r"up to 100 bytes; .*forum.* has 100, and 1 more came"):
        await keep(notes, "c")
    with pytest.raises(Full, match="up to 100 bytes"):
        await keep(notes, "d" * 101, overwrite=True)
    await keep(notes, "e" * 100, overwrite=True)
    assert await texts(notes) == ["e" * 100]


async def test_the_room_of_notes_that_ended_is_free_again(store: Store) -> None:
    notes = Notes(store, Limits(file_bytes=100))
    first, second = await keep(notes, "a" * 60), await keep(notes, "b" * 40)
    await notes.revert(a_change("revert"), second.code)
    await keep(notes, "c" * 40)
    await notes.expire(a_change("expire"), first.code, 1)

    await keep(notes, "d" * 60)

    assert await texts(notes) == ["c" * 40, "d" * 60]


async def test_what_ends_by_itself_makes_room_too(store: Store) -> None:
    notes = Notes(store, Limits(file_bytes=100, files=1))
    short = await keep(notes, "a" * 60)
    await notes.expire(a_change("soon"), short.code, await server_ms(store) + 20)
    await until_read(notes, [])

    last = await keep(notes, "b" * 100)
    await notes.expire(a_change("soon too"), last.code, await server_ms(store) + 20)
    await until_read(notes, [])
    await keep(notes, "c", file="references/other.md")
    assert [note.file for note in await notes.read(OPS, "web-access", "")] == ["references/other.md"]


async def test_what_ends_everywhere_makes_room_everywhere(store: Store) -> None:
    notes = Notes(store, Limits(file_bytes=100))
    short = await keep(notes, "a" * 60)
    await notes.expire(a_change("soon"), short.code, await server_ms(store) + 50)
    await notes.promote(a_change("promote"), short.code)
    await until_read(notes, [])

    long = await keep(notes, "b" * 60)
    await notes.promote(a_change("promote this"), long.code)
    assert await texts(notes, DEV) == ["b" * 60]


async def test_of_many_that_race_for_the_last_bytes_as_many_are_stored_as_fit(store: Store) -> None:
    notes = Notes(store, Limits(file_bytes=1_000))

    ended = await asyncio.gather(*(keep(notes, f"{n:060}") for n in range(50)), return_exceptions=True)

    assert sum(isinstance(one, Note) for one in ended) == 1_000 // 60
    assert sum(isinstance(one, Full) for one in ended) == 50 - 1_000 // 60
    assert len(await texts(notes)) == 1_000 // 60


async def test_limits_are_asked_for_again_when_a_note_is_approved(store: Store) -> None:
    notes = Notes(store, Limits(file_bytes=100))
    asked = (await wait(notes, "a" * 60)).note
    await keep(notes, "b" * 60)

    with pytest.raises(Full, match="up to 100 bytes"):
        await notes.approve(a_change("approve"), asked.code)

    assert (await notes.find(OPS, asked.code)).state == "pending"
    assert await texts(notes) == ["b" * 60]


async def test_notes_that_wait_files_and_notes_of_a_file_are_bounded(store: Store) -> None:
    notes = Notes(store, Limits(waiting=2, files=2, notes=2))
    await wait(notes, "one")
    await wait(notes, "two")
    with pytest.raises(Full, match="2 notes of this channel wait for approval"):
        await wait(notes, "three")
    first = await keep(notes, "one", file="references/a.md")
    await keep(notes, "two", file="references/a.md")
    with pytest.raises(Full, match=r"references/a\.md has 2 notes"):
        await keep(notes, "three", file="references/a.md")
    only = await keep(notes, "one", file="references/b.md")
    with pytest.raises(Full, match=r"Up to 2 files of a skill may have notes, and references/c\.md"):
        await keep(notes, "one", file="references/c.md")

    await notes.expire(a_change("expire a"), first.code, 1)
    await notes.expire(a_change("expire b"), only.code, 1)
    await keep(notes, "three", file="references/a.md")
    await keep(notes, "one", file="references/c.md")


async def test_overwriting_again_and_again_keeps_only_so_much_of_what_was(store: Store) -> None:
    notes = Notes(store, Limits(overwrites=2))
    await keep(notes, "canary-4718")
    saved = [await keep(notes, f"version {n}", overwrite=True) for n in range(3)]

    assert await everything(store, "canary-4718") == []
    assert await everything(store, "version 0") == []
    await notes.revert(a_change("revert"), saved[2].code)
    assert await texts(notes) == ["version 1"]


async def test_approve_and_reject_at_the_same_moment_leave_one_verdict(notes: Notes, store: Store) -> None:
    asked = (await wait(notes, "one")).note

    ended = await asyncio.gather(
        notes.approve(a_change("yes", who="slack/LI"), asked.code),
        notes.reject(a_change("no", who="slack/ANA"), asked.code),
        return_exceptions=True,
    )

    assert sorted(type(one).__name__ for one in ended) == ["Decided", "Note"]
    assert len(await audit(store)) == 2


async def test_codes_are_unique_in_a_channel(notes: Notes) -> None:
    saved = await asyncio.gather(*(keep(notes, str(n), file=f"references/{n % 50}.md") for n in range(1_500)))

    assert len({note.code for note in saved}) == 1_500


async def test_eight_workers_add_to_one_file_and_no_note_is_lost_torn_or_out_of_order(
    notes: Notes, redis_url: str, layout: Layout
) -> None:
    workers = [
        await asyncio.create_subprocess_exec(
            sys.executable, str(Path(__file__).parent / "note_writer.py"), redis_url, layout.prefix, OPS, FORUM, str(n)
        )
        for n in range(8)
    ]
    assert [await worker.wait() for worker in workers] == [0] * 8

    found = await texts(notes)

    assert len(found) == 800
    for n in range(8):
        assert [text for text in found if text.startswith(f"worker {n} ")] == [line(n, at) for at in range(100)]


def line(worker: int, at: int) -> str:
    """60 bytes."""
    return f"worker {worker} note {at:03} ".ljust(59, "x") + "\n"


async def everything(store: Store, words: str) -> Sequence[str]:
    """The keys of this test that hold these words, whatever their type."""
    holding = []
    async for key in store.redis.scan_iter(f"{store.layout.prefix}:*"):
        match await store.redis.type(key):
            case b"hash":
                held = repr(await store.redis.hgetall(key))
            case b"list":
                held = repr(await store.redis.lrange(key, 0, -1))
            case b"zset":
                held = repr(await store.redis.zrange(key, 0, -1))
            case b"stream":
                held = repr(await store.redis.xrange(key))
            case _:
                held = repr(await store.redis.get(key))
        if words in held:
            holding.append(key.decode())
    return holding
