"""`/skill list`: a table whose columns are straight, whose ids are whole, and which says why something is not in force."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import pytest

from tests.end_to_end.stories.world import ANA, MAX, World, skill

pytestmark = pytest.mark.asyncio(loop_scope="module")

MARKS = "●○✗"


def spread(line: str) -> list[str]:
    """One entry a column: a wide character takes two."""
    columns: list[str] = []
    for character in line:
        columns += [character, ""] if unicodedata.east_asian_width(character) in "WF" else [character]
    return columns


def tables(posts: Sequence[str]) -> list[list[str]]:
    """The lines of each block in fixed-width type."""
    assert all(text.count("```") % 2 == 0 for text in posts), "no block is torn"
    return [block.strip("\n").split("\n") for text in posts for block in re.findall(r"```\n(.*?)```", text, re.DOTALL)]


def straight(lines: Sequence[str]) -> bool:
    """Whether every cell of every row begins where its heading does."""
    head = spread(lines[0])
    starts = [at for at, one in enumerate(head) if one.strip() and (at == 0 or head[at - 1] == " ")]
    rows = [spread(line) for line in lines[1:] if line[0] in MARKS]
    fits = [row[at - 1] == " " != row[at] for row in rows for at in starts if at < len(row)]
    return len(starts) > 3 and bool(rows) and all(fits)


def row_of(lines: Sequence[str], id_: str) -> str:
    [row] = [line for line in lines if re.match(rf"[{MARKS}]\s+{re.escape(id_)}(\s|$)", line)]
    return row


async def five(world: World, room: str) -> dict[str, str]:
    """Five skills in one room: one is off, one waits for trust, one is broken. Their ids."""
    ids = {
        "off": world.word("stille-"),
        "on": f"财务-{world.word()}/导出报表",
        "waiting": world.word("pr-checklist-"),
        "broken": f"坏例子-{world.word()}",
        "shipped": "web-access",
    }
    world.write(ids["off"], skill("How to be still.", "x", version="1.2"))
    world.write(ids["on"], skill("按科目导出，给财务对账用", "x", version="2.1"))
    world.write(ids["broken"], "---\nname: 坏例子\ndescription: 没有结尾\n")
    await world.reload()
    files = {"SKILL.md": skill("合并请求的检查顺序", "x", version="0.3")}
    await world.talk(room).say(ANA, "/skill add", **world.zipped(ids["waiting"], **files))
    await world.talk(room).say(ANA, f"/skill off {ids['off']}")
    return ids


async def test_a_member_sees_a_straight_table_that_says_why(world: World) -> None:
    room = world.room()
    ids = await five(world, room)
    turn = await world.talk(room).say(MAX, "/skill list")
    blocks = tables(turn.posts)
    assert all(map(straight, blocks))
    assert max(len(spread(line)) for lines in blocks for line in lines) <= 80
    lines = [line for block in blocks for line in block]
    rows = {kind: row_of(lines, id_) for kind, id_ in ids.items()}
    for kind, told in {
        "shipped": ("●", "builtin", "–", "1.0.0"),
        "off": ("○", "org", "–", "1.2"),
        "on": ("●", "org", "–", "2.1"),
        "waiting": ("channel", "no", "0.3"),
        "broken": ("✗", "org", "–", "–"),
    }.items():
        cells = rows[kind].split()
        assert [one for one in told if one not in cells] == [], rows[kind]
    below = {kind: " ".join(lines[lines.index(row) :][:3]) for kind, row in rows.items()}
    assert "按科目导出" in below["on"]
    assert "已在本频道关闭" in below["off"]
    assert "等待信任" in below["waiting"]
    assert "SKILL.md" in below["broken"]
    assert "---" in below["broken"]


async def test_a_terminal_shows_the_same_table_and_narrower_ones_cut_no_id(world: World) -> None:
    await world.profile("copy", language="en")
    room = world.room("copy")
    ids = await five(world, room)
    turn = await world.talk(room).say(MAX, "/skill list")
    assert "summary" in turn.reply
    chat = [line for block in tables(turn.posts) for line in block]

    async def terminal(columns: int) -> list[str]:
        place = f"slack-main/{room}"
        code, shown = await world.stage.deskmate.run("skills", "list", "--channel", place, "--width", str(columns))
        assert code == 0, shown
        return shown.split("\n")

    wide = await terminal(80)
    assert [line for line in chat if line not in wide] == []
    long = max(len(spread(id_)) for id_ in ids.values())
    below = await terminal(long + 38)
    for id_ in ids.values():
        assert row_of(below, id_)
    at = below.index(row_of(below, ids["on"]))
    assert "按科目" not in below[at]
    assert below[at + 1].strip().startswith("按科目")
    narrow = await terminal(30)
    for id_ in ids.values():
        assert narrow[narrow.index(row_of(narrow, id_))].split()[-1] == id_, "the id has its line for itself"
    at = narrow.index(row_of(narrow, ids["on"]))
    assert "org" in narrow[at + 1]
    assert "2.1" in narrow[at + 1]


async def test_sixty_skills_come_in_parts_that_are_cut_between_rows(world: World) -> None:
    many = [f"{world.word()}/做{number}号的事" for number in range(60)]
    for id_ in many:
        world.write(id_, skill(f"第一件事是 {world.word()}，第二件事是 {world.word()}，然后再看", "x", version="1.0"))
    await world.reload()
    turn = await world.talk(world.room()).say(MAX, "/skill list")
    assert len(turn.posts) > 1
    blocks = tables(turn.posts)
    assert all(map(straight, blocks))
    lines = [line for block in blocks for line in block]
    for id_ in many:
        at = lines.index(row_of(lines, id_))
        assert "第一件事" in "".join(lines[at : at + 2])
