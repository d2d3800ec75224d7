"""What was learnt is written down, looked at, and read together with what was shipped."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import Any

import pytest

from gateway.conversation.key import key_of
from gateway.shelf.notes import Notes
from skills.library import BUILTIN
from tests.end_to_end.requests import results, texts, tools
from tests.end_to_end.stories.world import ANA, LI, MAX, Talk, Turn, World, skill
from tests.harness.model_replies import Reply, calls, says, several

pytestmark = pytest.mark.asyncio(loop_scope="module")

FOLDER = "references/site-patterns"
SITES = sorted(one.name for one in (BUILTIN / "web-access" / FOLDER).iterdir())
GITHUB = (BUILTIN / "web-access" / FOLDER / "github.com.md").read_text("utf-8")
CODE = re.compile(r"/skill approve (\w+)")


def save(file: str, content: str, *, name: str = "web-access", **more: Any) -> Reply:
    return calls("save_skill_reference", {"name": name, "file": file, "content": content, **more})


def read(file: str, name: str = "web-access") -> Reply:
    return calls("load_skill", {"name": name, "file": file})


@dataclass
class Room:
    """A room where things are written down and read."""

    world: World
    id: str

    def talk(self) -> Talk:
        return self.world.talk(self.id)

    async def saves(self, *saves: Reply, then: str = "等批准。") -> tuple[Turn, list[str]]:
        """What came of it, and the codes of the notes that wait."""
        turn = await self.talk().say(MAX, "记进上网经验", *saves, says(then))
        return turn, CODE.findall(turn.reply)

    async def reads(self, file: str, name: str = "web-access") -> dict[str, Any]:
        turn = await self.talk().say(MAX, "看看", read(file, name), says("看过了。"))
        return results(turn.asked[-1])[-1]

    async def kept(self, *saves: Reply) -> list[str]:
        """Written down and approved."""
        _, codes = await self.saves(*saves)
        for code in codes:
            await self.talk().say(LI, f"/skill approve {code}")
        return codes


@pytest.fixture
def ops(world: World) -> Room:
    return Room(world, world.room())


async def test_a_note_waits_is_approved_and_read_after_what_was_shipped(world: World, ops: Room) -> None:
    site, told = f"{world.word('forum-')}.test", world.word("先点同意按钮 ")
    file = f"{FOLDER}/{site}.md"
    turn, [code] = await ops.saves(save(file, f"- {told}（2026-11-29 试过）"), then="记了，等批准。")
    heard = results(turn.asked[-1])[-1]
    assert not heard.get("is_error")
    assert "waits" in heard["content"]
    card, reply = turn.posts
    assert "记了，等批准。" in reply
    for shown in (told, MAX, ops.id, "web-access", file, f"/skill reject {code}"):
        assert shown in card
    assert (await ops.reads(file))["is_error"]
    assert told not in (await ops.reads(FOLDER))["content"]

    refused = await ops.talk().say(MAX, f"/skill approve {code}")
    assert refused.whispers
    assert (await ops.reads(file))["is_error"]
    approved = await ops.talk().say(LI, f"/skill approve {code}")
    assert code in approved.reply
    shipped, _, apart = (await ops.reads(FOLDER))["content"].partition("Apart from these")
    assert [one for one in SITES if one not in shipped] == []
    assert site not in shipped
    assert re.search(rf"{re.escape(site)}\.md.*{MAX}.*\d{{4}}-\d\d-\d\d", apart)
    note = await ops.reads(file)
    assert told in note["content"]
    assert note["content"].startswith("<data ")

    more = world.word("又试过 ")
    await ops.kept(save(f"{FOLDER}/github.com.md", f"- {more}"))
    both = (await ops.reads(f"{FOLDER}/github.com.md"))["content"]
    assert both.startswith("<data ")
    before, heading, after = both.partition("\n## Notes of this channel\n")
    assert GITHUB.strip() in before
    assert heading
    assert more in after

    second, third = world.word("第二条 "), world.word("第三条 ")
    await ops.kept(save(file, f"- {second}"))
    text = (await ops.reads(file))["content"]
    assert 0 < text.index(told) < text.index(second)
    await ops.kept(
        save(file, f"- {third}", overwrite=True), save(f"{FOLDER}/github.com.md", f"- {third}", overwrite=True)
    )
    text = (await ops.reads(file))["content"]
    assert (told in text, second in text, third in text) == (False, False, True)
    text = (await ops.reads(f"{FOLDER}/github.com.md"))["content"]
    assert (GITHUB.strip() in text, more in text, third in text) == (True, False, True)

    finance = Room(world, world.room())
    listed = (await finance.reads(FOLDER))["content"]
    assert [one for one in SITES if one not in listed] == []
    assert site not in listed
    assert (await finance.reads(file))["is_error"]
    assert third not in (await finance.reads(f"{FOLDER}/github.com.md"))["content"]


async def test_a_rejected_note_leaves_nothing_and_a_reverted_one_is_read_no_more(world: World, ops: Room) -> None:
    wrong, right = world.word("wrong-"), world.word("right-")
    file = f"{FOLDER}/{world.word()}.md"
    talk = ops.talk()
    turn = await talk.say(MAX, "记进上网经验", save(file, wrong), says("等批准。"))
    [code] = CODE.findall(turn.reply)
    rejected = await talk.say(LI, f"/skill reject {code}")
    assert code in rejected.reply
    assert MAX in rejected.reply, "he is told"
    assert (await ops.reads(file))["is_error"]
    [kept] = await ops.kept(save(file, right))
    assert right in (await ops.reads(file))["content"]
    refused = await ops.talk().say(MAX, f"/skill notes revert {kept}")
    assert refused.whispers
    assert right in (await ops.reads(file))["content"]
    await ops.talk().say(ANA, f"/skill notes revert {kept}")
    assert (await ops.reads(file))["is_error"]
    held = [key async for key in world.redis.scan_iter(f"{world.store.layout.skills_root}:*")]
    stored = [await world.redis.dump(key) or b"" for key in held]
    assert not [one for one in stored if wrong.encode() in one or right.encode() in one]


async def test_what_may_not_be_written_is_refused_with_the_limit_and_what_came(world: World, ops: Room) -> None:
    file = f"{FOLDER}/{world.word()}.md"
    off, unknown, waiting = world.word("off-"), world.word("unknown-"), world.word("waiting-")
    world.write(off, skill("Is off.", "x"))
    await world.reload()
    await ops.talk().say(ANA, f"/skill off {off}")
    await ops.talk().say(ANA, "/skill add", **world.zipped(waiting, **{"SKILL.md": skill("Waits.", "x")}))
    cases = [
        (save(file, "x" * 8_001), ("8,000", "8,001")),
        (save("SKILL.md", "x"), ("references/", "SKILL.md")),
        (save("references/../SKILL.md", "x"), ("references/../SKILL.md",)),
        (save("references/run.sh", "x"), (".md", "references/run.sh")),
        (save("references/", "x"), ("references/",)),
        (save("references/x.md", "x", name=off), (off,)),
        (save("references/x.md", "x", name=unknown), (unknown,)),
        (save("references/x.md", "x", name=waiting), (waiting,)),
    ]
    turn, codes = await ops.saves(*(one for one, _ in cases))
    assert codes == []
    for result, (_, facts) in zip(results(turn.asked[-1]), cases, strict=True):
        assert result["is_error"]
        assert not [one for one in facts if one not in result["content"]], result["content"]

    big = [save(file, f"{number}" + "x" * 7_990) for number in range(8)]
    assert len(await ops.kept(*big)) == 8
    turn, codes = await ops.saves(save(file, "y" * 2_000))
    if codes:  # it waits: the limit is looked at when it would count
        told = (await ops.talk().say(LI, f"/skill approve {codes[0]}")).reply
    else:
        told = results(turn.asked[-1])[-1]["content"]
    assert "65,536" in told
    assert "2,000" in told
    assert "yy" not in str(await ops.reads(file))


async def test_conversations_that_write_to_one_file_at_once_lose_nothing(world: World) -> None:
    room = world.room("save")
    file = f"{FOLDER}/{world.word()}.md"
    marks = [world.word() for _ in range(8)]

    def script(asked: Any) -> Reply:
        mark = next(one for one in marks if one in texts(asked))
        if results(asked):
            return says("好了。")
        lines = [f"{mark} {number:03} ".ljust(60, ".") for number in range(100)]
        return several(
            *(("save_skill_reference", {"name": "web-access", "file": file, "content": line}) for line in lines)
        )

    talks = [(world.talk(room), mark) for mark in marks]
    turns = await asyncio.gather(*(talk.say(MAX, f"记 {mark}", script=script) for talk, mark in talks))
    assert all("save_skill_reference" in tools(turn.asked[0]) for turn in turns)
    assert not [one for turn in turns for one in results(turn.asked[-1]) if one.get("is_error")]
    channel = key_of("slack-main", room).channel_id
    kept = [note.text for note in await Notes(world.store).read(channel, "web-access", file)]
    assert len(kept) == 800
    assert {len(text.encode()) for text in kept} == {60}
    for mark in marks:
        numbers = [int(text.split()[1]) for text in kept if text.startswith(f"{mark} ")]
        assert numbers == list(range(100)), mark
