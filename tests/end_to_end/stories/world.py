"""The small world of the stories: rooms, people, an organisation's folder of skills, and a model that plays a part.

    talk = world.talk(world.room("team"))
    turn = await talk.say(MAX, "read this", calls("load_skill", {"name": "web-access"}), says("Three points."))
    assert "Three points." in turn.reply
    assert len(turn.asked) == 2                      # the requests of this turn, as received

Whoever reads `turn` reads what came after the whole turn was over: nothing waits, nothing is unsent.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, Final
from zipfile import ZipFile

import yaml
from aiohttp import web
from redis.asyncio import Redis

from config.settings import MailboxSettings
from gateway.audit.log import Change, read
from gateway.conversation.key import key_of
from gateway.conversation.mailbox import Mailbox
from gateway.shelf.shelf import Shelf
from gateway.store import Layout, Store, open_store
from skills.bundles import Cache
from tests.end_to_end.conftest import Stage
from tests.harness.deployment import Running
from tests.harness.fake_model import Asked, Script
from tests.harness.model_replies import Reply
from tests.harness.slack_twin import TEAM, Said
from tests.harness.web import Page, site

ANA: Final = "U0ANA"
"""Admin, and no approver."""
LI: Final = "U0LI"
"""Approver."""
MAX: Final = "U0MAX"
"""A member."""
WITHIN_S: Final = 60.0
PROFILE: Final[Mapping[str, Any]] = {
    "instructions": "You play in a story.",
    "language": "zh",
    "timezone": "Asia/Shanghai",
    "skills": ["*"],
    "programs": ["*"],
    "tools": ["load_skill", "save_skill_reference", "web_fetch", "current_time"],
    "roles": {"admin": [f"slack-main/{ANA}"], "approver": [f"slack-main/{LI}"]},
}
"""The profile `team`; the shipped ones are `wechat` and `eval`."""
PROFILES: Final = ("team", "wechat", "eval", "copy", "save")
"""`copy`: what an operator makes of another one, `team` until then. `save`: notes count at once."""


@dataclass(frozen=True)
class Turn:
    """What came of one message."""

    said: Said
    posts: tuple[str, ...]
    """What everybody in the room reads of ours, as it stands at the end."""
    whispers: tuple[str, ...]
    """What only the person who wrote reads."""
    shown: tuple[str, ...]
    """Everything that stood in the room for a while, such as steps."""
    asked: tuple[Asked, ...]
    """What the model was sent."""

    @property
    def reply(self) -> str:
        """All of it, in one."""
        return "\n".join(self.posts)


@dataclass
class World:
    """One deployment with its stand-ins. `words` makes the words of this run."""

    stage: Stage
    folder: Path
    store: Store
    words: random.Random
    pages: dict[str, Page]
    port: int
    """Where the pages are served."""
    mailbox: Mailbox = field(init=False)

    def __post_init__(self) -> None:
        self.org = self.folder / "org"
        self.mailbox = Mailbox(self.store, MailboxSettings())

    @property
    def redis(self) -> Redis:
        return self.store.redis

    @property
    def asked(self) -> list[Asked]:
        return self.stage.model.asked

    # ---- words ----

    def word(self, begin: str = "") -> str:
        """A word that nobody else has said."""
        return begin + "".join(self.words.choices("bcdfghjkmnpqrstvwxz", k=8))

    def room(self, profile: str = "team") -> str:
        """A new channel with this profile."""
        return f"C0{profile.upper()}{self.words.randrange(10**9):09}"

    def talk(self, room: str) -> Talk:
        return Talk(self, room)

    # ---- what the operator does ----

    def write(self, skill: str, text: str, /, **files: str | bytes) -> Path:
        """A skill in the organisation's folder, whole at once: its SKILL.md, and other files by name."""
        folder = self.org / skill
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in {"SKILL.md": text, **files}.items():
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content if isinstance(content, bytes) else content.encode())
        return folder

    async def profile(self, name: str, **changed: Any) -> None:
        """Write a profile, `team` but for what is changed, and wait until every process goes by it."""
        told = [(one, len(self._read(one))) for one in self.stage.deskmate.running]
        if not _write_profile(self.folder, name, {**PROFILE, **changed}):
            return
        async with asyncio.timeout(WITHIN_S):
            while any(len(self._read(one)) == before for one, before in told):
                await asyncio.sleep(0.02)

    @staticmethod
    def _read(process: Running) -> list[dict[str, Any]]:
        """Its log lines about profiles that it read again."""
        return [line for line in process.lines() if line["event"].startswith("settings: in force now")]

    async def reload(self) -> None:
        """Have the folders read again, and wait until what lies there is in force everywhere."""
        shelf = Shelf(self.store, Cache(self.folder / "cache"), present=())
        await shelf.reload(Change(self.word(), "operator", "", "", "the command line"))

    # ---- pages ----

    def page(self, path: str, text: str) -> str:
        """A page of the web, as a plain fetch gets it; its address."""
        self.pages[path] = web.Response(text=text, content_type="text/html")
        return f"http://127.0.0.1:{self.port}{path}"

    # ---- files in the chat ----

    def zipped(self, name: str, /, **files: str | bytes) -> dict[str, Any]:
        """A skill as a zip that somebody attaches: further arguments for `Talk.say`."""
        raw = BytesIO()
        with ZipFile(raw, "w") as zipped:
            for path, content in files.items():
                zipped.writestr(f"{name}/{path}", content)
        file = self.stage.slack.file(f"{name}.zip", raw.getvalue(), "application/zip")
        return {"kinds": ("message",), "subtype": "file_share", "files": [file]}

    # ---- what can be read afterwards ----

    async def audit(self) -> list[dict[str, Any]]:
        """All lines of the audit log, oldest first: who, channel, what, thing, rule, before, after."""
        return [asdict(line) for line in await read(self.store, most=10_000)]

    def logged(self, event: str = "") -> list[dict[str, Any]]:
        """Lines of every process's log, each process's in their order."""
        return [line for one in self.stage.deskmate.running for line in one.lines(event)]


@dataclass
class Talk:
    """One thread in a room."""

    world: World
    room: str
    thread: str | None = None

    @property
    def conversation(self) -> str:
        return key_of("slack-main", self.room, f"{TEAM}:{self.thread}").id

    async def say(self, person: str, text: str, *replies: Reply, script: Script | None = None, **more: Any) -> Turn:
        """Say something, with the model's part for it, and wait until all of it is over."""
        done = await self.begin(person, text, *replies, script=script, **more)
        return await done()

    async def begin(
        self, person: str, text: str, *replies: Reply, script: Script | None = None, **more: Any
    ) -> Callable[[], Awaitable[Turn]]:
        """Say something; what comes back waits for the end. Without a part for it, the model goes on with its last one."""
        stage = self.world.stage
        if script is not None or replies:
            stage.model.answer_with(script if script is not None else replies)
        asked, taken, whispers = len(stage.model.asked), len(stage.slack.taken), len(stage.slack.whispers)
        said = await stage.slack.say(stage.hook, text, channel=self.room, user=person, thread_ts=self.thread, **more)
        assert said.statuses[-1] == 200, said.statuses  # a gateway that is asked for patience gets it
        self.thread = self.thread or said.ts

        async def done() -> Turn:
            await self.over()
            mine = [one for one in stage.slack.taken[taken:] if one.channel == self.room]
            posts = [one for one in stage.slack.messages if one.bot_id and one.channel == self.room]
            return Turn(
                said,
                tuple(one.text for one in posts if one.thread_ts == self.thread and one.ts > said.ts),
                tuple(one.text for one in stage.slack.whispers[whispers:] if one.user == person),
                tuple(one.text for one in mine),
                tuple(stage.model.asked[asked:]),
            )

        return done

    async def code(self) -> str:
        """Under which a call waits for a person's word, once the card that asks for it stands below what was said last."""
        slack = self.world.stage.slack

        def found() -> re.Match[str] | None:
            here = [
                one for one in slack.messages if one.channel == self.room and self.thread in (one.ts, one.thread_ts)
            ]
            last = max(at for at, one in enumerate(here) if not one.bot_id)
            return re.search(r"/approve ([A-Z2-7]{6})", "\n".join(one.text for one in here[last:]))

        asked: re.Match[str] = await slack.until(found, WITHIN_S)
        return asked[1]

    async def over(self) -> None:
        """Until nothing of this thread runs, waits or is unsent."""
        async with asyncio.timeout(WITHIN_S):
            while True:
                stored = await self.world.mailbox.load(self.conversation)
                if not (stored.turn or stored.inbox or stored.control or any(row.is_open for row in stored.rows)):
                    return
                await asyncio.sleep(0.02)


def skill(description: str, body: str, **head: Any) -> str:
    """The text of a SKILL.md."""
    written = yaml.safe_dump({"description": description, **head}, allow_unicode=True, sort_keys=False)
    return f"---\n{written}---\n{body}\n"


@asynccontextmanager
async def opened(
    stage: Stage,
    folder: Path,
    words: random.Random,
    more: Mapping[str, Any] | None = None,
    *,
    team: Mapping[str, Any] | None = None,
    workers: int = 2,
    **skills: Any,
) -> AsyncIterator[World]:
    """Everything runs: a gateway, two workers, a few pages of the web, the organisation's folder, still empty.

    `more`: other sections of the settings; `team`: what is otherwise in that profile; `skills`: settings of that section.
    """
    (folder / "org").mkdir()
    pages: dict[str, Page] = {}
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(site(pages))
        rules = [{"match": f"slack-main/C0{name.upper()}*", "profile": name} for name in PROFILES]
        settings = {
            "skills": {"folder": str(folder / "org"), **skills},
            "channels": rules,
            "tools": {"web_fetch": {"allow_private": [f"127.0.0.1:{port}"]}},
            **(more or {}),
        }
        stage.set(settings, dict(PROFILE))
        _write_profile(folder, "team", {**PROFILE, **(team or {})})
        _write_profile(folder, "copy", PROFILE)
        _write_profile(folder, "save", {**PROFILE, "notes": "save"})
        store = open_store(stage.deskmate.redis_url, Layout(stage.deskmate.prefix, 1), timeout_s=5.0)
        stack.push_async_callback(store.close)
        await stage.deskmate.start_gateway()
        await asyncio.gather(*(stage.deskmate.start_worker() for _ in range(workers)))
        yield World(stage, folder, store, words, pages, port)


def _write_profile(folder: Path, name: str, profile: Mapping[str, Any]) -> bool:
    """Whether it is otherwise than before."""
    place = folder / "profiles" / f"{name}.yaml"
    text = yaml.safe_dump(dict(profile), allow_unicode=True)
    before = place.read_text() if place.exists() else ""
    place.write_text(text)
    return text != before
