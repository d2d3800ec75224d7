"""/skill notes, approve and reject in the chat."""

from __future__ import annotations

import pytest

from gateway.acts.note_acts import until
from gateway.acts.outcomes import Refusal
from gateway.audit.log import Change
from tests.gateway.commands.world import ANA, DEV, LI, MAX, NOW_MS, OPS, World

FILE = "references/x.md"


async def read(world: World) -> list[str]:
    return [note.text for note in await world.notes.read(OPS.channel_id, "web-access", FILE)]


async def test_an_approved_note_counts_and_who_wrote_it_is_named(world: World) -> None:
    code = await world.note("Click first.")
    assert await read(world) == []
    told = await world.told(f"/skill approve {code.lower()}", LI)
    assert f"`{code}` of `Max`" in told
    assert "`references/x.md` of `web-access`" in told
    assert await read(world) == ["Click first."]
    [_, line] = await world.audit()
    assert (line["who"], line["channel"], line["what"]) == ("slack-main/U-LI", "slack-main/C-OPS", "note approve")
    assert "roles.approver" in line["rule"]


async def test_of_a_rejected_note_nothing_is_left_and_who_wrote_it_is_told(world: World) -> None:
    code = await world.note("Click first.")
    done = await world.say(f"/skill reject {code}", LI)
    assert "`Max`" in done.text
    assert "refused" in done.text
    assert not done.is_private
    assert await read(world) == []
    assert ": refused." in await world.told(f"/skill approve {code}", LI)


async def test_a_reverted_note_is_read_no_more(world: World) -> None:
    code = await world.note("Click first.", ask=False)
    assert await read(world) == ["Click first."]
    assert "taken back" in await world.told(f"/skill notes revert {code}")
    assert await read(world) == []


@pytest.mark.parametrize(
    ("when", "told"),
    [
        ("now", "has ended"),
        ("2099-01-31", "ends on 2099-01-31 00:00 Asia/Shanghai"),
        ("never", "no end"),
        ("2099-02-30", "is no time"),
    ],
)
async def test_a_note_is_given_an_end(world: World, when: str, told: str) -> None:
    code = await world.note("Click first.", ask=False)
    assert told in await world.told(f"/skill notes expire {code} {when}")
    assert await read(world) == ([] if when == "now" else ["Click first."])


@pytest.mark.parametrize(
    ("when", "milliseconds"),
    [("now", 0), ("1h", 3_600_000), ("12H", 43_200_000), ("7d", 604_800_000)],
)
def test_a_span_is_counted_from_now(when: str, milliseconds: int) -> None:
    assert until(when, NOW_MS, "Asia/Shanghai") == NOW_MS + milliseconds


@pytest.mark.parametrize(
    "when", ["tomorrow", "7", "-7d", "99999d", "2099-2-3", "1e9d", "", "1m", "2w", "7 d", "2024-02-30"]
)
def test_what_is_no_time_is_refused(when: str) -> None:
    with pytest.raises(Refusal) as caught:
        until(when, NOW_MS, "Asia/Shanghai")
    assert caught.value.kind == "when"


@pytest.mark.parametrize("when", ["0h", "0d", "2023-11-14", "2001-01-01"])
async def test_an_end_that_is_past_may_be_a_slip_and_is_refused(world: World, when: str) -> None:
    code = await world.note("Click first.", ask=False)
    assert "is past already" in await world.told(f"/skill notes expire {code} {when}")
    assert await read(world) == ["Click first."]


async def test_when_a_note_ends_is_told_wherever_it_is_named(world: World) -> None:
    code = await world.note("Click first.", ask=False)
    await world.say(f"/skill notes expire {code} 2099-01-31")
    for command in ("notes", f"notes show {code}"):
        assert "counts until 2099-01-31 00:00 Asia/Shanghai" in await world.told(f"/skill {command}", MAX)
    await world.notes.expire(Change("x", "", "", OPS.channel_id, ""), code, 1)
    assert "has ended" in await world.told(f"/skill notes show {code}", MAX)


async def test_notes_are_listed_and_the_text_of_one_that_waits_is_for_those_who_look_after_skills(world: World) -> None:
    waiting, kept = await world.note("Wa\u200bits."), await world.note("Counts.", ask=False)
    listed = await world.told("/skill notes", MAX)
    assert listed.index(waiting) < listed.index(kept)
    assert "its" not in listed.replace("waits", "")
    assert "waits for approval" in await world.told(f"/skill notes show {waiting}", MAX)
    for actor in (ANA, LI):
        assert "Wa<U+200B>its." in await world.told(f"/skill notes show {waiting}", actor)
    assert "Counts." in await world.told(f"/skill notes show {kept}", MAX)
    assert "no notes here" in await world.told("/skill notes", MAX, DEV)


async def test_another_channels_note_is_none(world: World) -> None:
    code = await world.note("Click first.")
    for command in (f"notes show {code}", f"approve {code}", f"reject {code}"):
        assert f"no note `{code}` here" in await world.told(f"/skill {command}", LI, DEV)
    assert await read(world) == []


async def test_where_what_it_replaces_has_changed_the_difference_of_now_is_shown_first(world: World) -> None:
    code = await world.note("New.", overwrite=True)
    await world.note("In between.", ask=False)
    told = await world.told(f"/skill approve {code}", LI)
    assert "have changed" in told
    assert "- In between." in told
    assert await read(world) == ["In between."]
    assert "counts from now on" in await world.told(f"/skill approve {code}", LI)
    assert await read(world) == ["New."]


async def test_a_decision_that_is_run_again_is_the_same(world: World) -> None:
    code = await world.note("Click first.")
    first = await world.told(f"/skill approve {code}", LI, turn="t")
    assert await world.told(f"/skill approve {code}", LI, turn="t") == first
    assert [one["what"] for one in await world.audit()] == ["note save", "note approve"]


async def test_words_for_notes_go_with_and_without_notes_in_front(world: World) -> None:
    first, second = await world.note("First"), await world.note("Second")
    assert "counts from now on" in await world.told(f"/skill notes approve {first}", LI)
    assert "was refused" in await world.told(f"/skill notes reject {second}", LI)
    assert "`/skill approve CODE`" in await world.told("/skill notes aprove X", LI)
    assert "has ended" in await world.told(f"/skill expire {first} now")
    third = await world.note("Third")
    await world.told(f"/skill approve {third}", LI)
    assert "was taken back" in await world.told(f"/skill revert {third}")
    assert "`/skill notes revert CODE`" in await world.told("/skill rever X")
