"""`save_skill_reference`: what is saved, what waits, what is refused, and what `load_skill` reads of it."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import config
from config.profiles import Profile, read_profiles
from config.settings import Settings
from gateway.audit.log import Change
from gateway.events import Actor
from gateway.shelf.notes import Limits, Notes
from gateway.store import Store
from skills.folders import Root
from skills.library import scan
from tests.skills.test_library import write
from tests.workers.places import call as a_call
from tests.workers.places import place
from workers.tools import Call, Outside, ToolError, ToolResult
from workers.tools.load_skill import Tool as LoadSkill
from workers.tools.save_skill_reference import Tool

OPS = "o" * 26
PROFILES = Path(config.__file__).parent / "profiles"
FORUM = "references/sites/forum.pages.test.md"


@dataclass
class Channel:
    """A room whose model saves and reads."""

    root: Path
    notes: Notes
    outside: Outside
    patterns: Sequence[str] = ("*",)
    profile: Profile = field(default_factory=lambda: Profile(name="team"))
    id: str = OPS

    async def save(self, name: str = "web", file: str = FORUM, content: str = "- tried", **more: Any) -> ToolResult:
        return await Tool(self.outside).run({"name": name, "file": file, "content": content, **more}, self.call())

    async def load(self, **arguments: Any) -> str:
        return (await LoadSkill(self.outside).run({"name": "web", **arguments}, self.call())).text

    def call(self) -> Call:
        profile = self.profile.model_copy(update={"skills": list(self.patterns)})
        here = place(scan([Root("org", self.root)]), profile, channel_id=self.id)
        return a_call(here, key=secrets.token_hex(12), actor=Actor("U1", "Max"), notes=self.notes)

    async def accept(self) -> None:
        (note,) = await self.notes.list(self.id, "waiting")
        await self.notes.approve(
            Change(secrets.token_hex(4), "slack-main/LI", "slack-main/C", self.id, "test"), note.code
        )


@pytest.fixture
async def ops(tmp_path: Path, store: Store) -> AsyncIterator[Channel]:
    folder = write(tmp_path, "web")
    for name in ("github.com", "x.com"):
        place = folder / "references" / "sites" / f"{name}.md"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"# {name}\nshipped\n")
    async with aiohttp.ClientSession() as http:
        yield Channel(tmp_path, Notes(store), Outside(Settings(), http))


async def test_a_note_waits_with_a_card_for_the_approver_and_nobody_reads_it(ops: Channel) -> None:
    result = await ops.save(content="- 先点同意按钮，再取正文")

    (note,) = await ops.notes.list(OPS, "waiting")
    assert f"waits for approval, code {note.code}" in result.text
    assert not result.untrusted
    card = result.cards[0].markdown
    assert "+ - 先点同意按钮，再取正文" in card
    assert f"/skill approve {note.code}" in card
    assert (note.by, note.by_name, note.conversation, note.source) == (
        "slack-main/U1", "Max", "conversation", "slack-main/C1",
    )  # fmt: skip
    assert "forum" not in await ops.load(file="references")
    with pytest.raises(ToolError, match="no file"):
        await ops.load(file=FORUM)


async def test_an_approved_note_is_listed_apart_from_what_was_shipped_and_read(ops: Channel) -> None:
    await ops.save()
    await ops.accept()

    listed = await ops.load(file="references/sites")
    shipped, apart = listed.split("\n\n")
    assert "github.com.md (" in shipped
    assert "forum" not in shipped
    assert apart.splitlines()[1].startswith(f"{FORUM} (last by Max, 20")
    assert "- tried" in await ops.load(file=FORUM)


async def test_a_note_on_a_shipped_file_is_read_after_the_text_that_was_shipped(ops: Channel) -> None:
    await ops.save(file="references/sites/github.com.md")
    await ops.accept()

    text = await ops.load(file="references/sites/github.com.md")

    assert text.startswith("# github.com\nshipped\n\n## Notes of this channel\n")
    assert text.endswith("- tried\n")


async def test_where_the_profile_does_not_ask_a_note_counts_at_once_and_is_shown(ops: Channel) -> None:
    ops.profile = Profile(name="team", notes="save")

    result = await ops.save()

    assert result.text.startswith(f"Saved in {FORUM} of web, for this channel")
    assert "/skill notes revert" in result.cards[0].markdown
    assert "- tried" in await ops.load(file=FORUM)


async def test_overwriting_shows_what_goes_and_leaves_what_was_shipped(ops: Channel) -> None:
    ops.profile = Profile(name="team", notes="save")
    file = "references/sites/x.com.md"
    await ops.save(file=file, content="- old")

    result = await ops.save(file=file, content="- new", overwrite=True)

    assert "- - old\n+ - new" in result.cards[0].markdown
    text = await ops.load(file=file)
    assert text.startswith("# x.com\nshipped\n")
    assert "- old" not in text
    assert "- new" in text


async def test_another_channel_lists_and_reads_nothing_of_it(ops: Channel) -> None:
    await ops.save()
    await ops.save(file="references/sites/x.com.md", content="canary")
    await ops.notes.approve(
        Change("a", "slack-main/LI", "slack-main/C", OPS, "test"), (await ops.notes.list(OPS, "waiting"))[0].code
    )
    other = Channel(ops.root, ops.notes, ops.outside, id="f" * 26)

    assert "Apart" not in await other.load(file=".")
    assert await other.load(file="references/sites/x.com.md") == "# x.com\nshipped\n"
    assert "canary" in await ops.load(file="references/sites/x.com.md")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"content": "长" * 8_001}, r"up to 8,000 characters; 8,001 came"),
        ({"content": " \n\u3000"}, r"a note has 1 to 8,000 characters"),
        ({"file": "SKILL.md"}, r"under references/.*'SKILL\.md' came"),
        ({"file": "references/../SKILL.md"}, r"'references/\.\./SKILL\.md' came"),
        ({"file": "references/run.sh"}, r"end in \.md; 'references/run\.sh' came"),
        ({"file": "references/"}, r"under references/.*'references/' came"),
        ({"file": "references/sites/gіthub.com.md"}, r"looks like 'references/sites/github\.com\.md' of web"),
        ({"name": "nope"}, r"no skill 'nope' here.*web"),
        ({"name": "../web"}, r"no skill '\.\./web' here"),
    ],
)
async def test_what_does_not_fit_is_refused_with_the_limit_and_what_came(
    ops: Channel, wrong: dict[str, str], said: str
) -> None:
    with pytest.raises(ToolError, match=said):
        await ops.save(**wrong)
    assert await ops.notes.list(OPS, "waiting") == ()


async def test_a_skill_that_may_not_be_loaded_here_takes_no_notes(ops: Channel) -> None:
    ops.patterns = ("other",)

    with pytest.raises(ToolError, match="no skill 'web' here"):
        await ops.save()


async def test_a_file_that_is_full_takes_no_more(ops: Channel, store: Store) -> None:
    ops.notes, ops.profile = Notes(store, Limits(file_bytes=20)), Profile(notes="save")
    await ops.save(content="x" * 15)

    with pytest.raises(ToolError, match=r"Nothing was saved.*up to 20 bytes; .* has 15, and 10 more came"):
        await ops.save(content="y" * 10)


async def test_a_program_takes_notes_too(ops: Channel) -> None:
    (ops.root / "web" / "main.py").write_text("def run(params): ...")
    (ops.root / "web" / "schema.json").write_text('{"type": "object", "properties": {}}')
    await ops.save()
    await ops.accept()

    assert "- tried" in await ops.load(file=FORUM)


async def test_half_a_character_is_stored_as_a_question_mark(ops: Channel) -> None:
    await ops.save(content="a\ud800b")

    assert (await ops.notes.list(OPS, "waiting"))[0].text == "a?b"


async def test_the_same_call_again_asks_once(ops: Channel) -> None:
    call = ops.call()
    for _ in range(2):
        await Tool(ops.outside).run({"name": "web", "file": FORUM, "content": "- tried"}, call)

    assert len(await ops.notes.list(OPS, "waiting")) == 1


def test_no_shipped_profile_has_the_pen() -> None:
    shipped = read_profiles([PROFILES]).profiles

    assert {"default", "wechat", "eval"} <= shipped.keys()
    assert not [name for name, profile in shipped.items() if Tool.name in profile.tools]
