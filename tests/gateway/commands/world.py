"""Channels where commands are said, with skills in a real Redis; what they answer, and what the audit log then holds."""

from __future__ import annotations

import io
import itertools
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from config.loading import Loaded, load
from gateway.audit.log import Change, read
from gateway.commands import Done, Outside, Passed, Said, find
from gateway.conversation.key import ConversationKey, key_of
from gateway.conversation.records import Record
from gateway.costs.budgets import balances
from gateway.costs.spending import spent
from gateway.events import Actor, Attachment, Event
from gateway.platforms import Capabilities, NotDownloaded
from gateway.rights.guests import is_guest_by_id
from gateway.rights.pins import Pins
from gateway.shelf.notes import Draft, Notes
from gateway.shelf.packing import Packer
from gateway.shelf.shelf import Shelf
from gateway.store import Store
from skills.bundles import Cache

ANA, LI, MAX = Actor("U-ANA", "Ana"), Actor("U-LI", "Li"), Actor("U-MAX", "Max")
OPS, DEV = key_of("slack-main", "C-OPS"), key_of("slack-main", "C-DEV")
NOW_MS = 1_700_000_000_000

PROFILE = """\
skills: ["*"]
tools: [load_skill]
language: {language}
timezone: Asia/Shanghai
roles:
  admin: [slack-main/U-ANA]
  approver: [slack-main/U-LI]
"""


def zipped(files: Mapping[str, str | bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        for path, content in files.items():
            file.writestr(path, content)
    return packed.getvalue()


def skill_md(name: str, *, description: str = "Checks.", body: str = "Do it.\n", more: str = "") -> str:
    return f"---\nname: {name}\ndescription: {description}\n{more}---\n{body}"


@dataclass
class World:
    """One organisation. `org` is its folder of skills."""

    store: Store
    folder: Path
    language: str = "en"
    columns: int | None = 80
    text_limit: int = 3_900
    settings: str = ""
    profile: str = PROFILE
    number: Any = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        self.org = self.folder / "org"
        self.org.mkdir(exist_ok=True)
        (self.folder / "profiles").mkdir(exist_ok=True)
        (self.folder / "profiles/default.yaml").write_text(self.profile.format(language=self.language))
        (self.folder / "deskmate.yaml").write_text(
            f"skills: {{folder: {self.org}}}\nprofiles: {self.folder / 'profiles'}\ndata: {self.folder / 'data'}\n{self.settings}"
        )
        self.reload()
        self.packer = Packer(self.store, self.loaded.settings.skills, "packer", rests_s=0.02)
        self.shelf = self.another_shelf()
        self.notes = Notes(self.store)

    def reload(self) -> None:
        """Read the files as they are now."""
        self.loaded: Loaded = load(
            self.folder / "deskmate.yaml",
            variables={"SECRET": "xoxb-s3cret", "BRIDGE": "whsec_" + "c2VjcmV0" * 4, "REDIS_URL": "redis://127.0.0.1"},
        )

    def another_shelf(self) -> Shelf:
        """As another process has it."""
        return Shelf(self.store, Cache(self.folder / "cache"), present=frozenset())

    async def say(
        self,
        text: str,
        actor: Actor = ANA,
        key: ConversationKey = OPS,
        *,
        files: Mapping[str, bytes] | None = None,
        turn: str = "",
        history: Sequence[Record] = (),
        shelf: Shelf | None = None,
        **said: Any,
    ) -> Done:
        """A command, as the desk gives it to its module. The same `turn` is one command that is run again; `said` has
        further fields of `Said`.
        """
        name, _, rest = text.removeprefix("/").partition(" ")
        event = Event(
            kind="message",
            conversation=key,
            actor=actor,
            dedupe_keys=("k",),
            at_ms=NOW_MS,
            text=text,
            attachments=tuple(Attachment("file", one, "", len(raw)) for one, raw in (files or {}).items()),
        )

        async def download(attachment: Attachment, max_bytes: int) -> bytes:
            raw = (files or {})[attachment.name]
            if len(raw) > max_bytes or not raw:
                raise NotDownloaded(f"it has {len(raw)} bytes, allowed are {max_bytes}")
            return raw

        async def compact() -> None:
            return None

        async def pass_on(event: Event, code: str) -> Passed:
            del event, code
            return "nowhere"

        command = find(name)
        assert command
        given = Said(
            event,
            rest.strip(),
            "zh" if self.language == "zh" else "en",
            NOW_MS,
            turn=turn or f"turn-{next(self.number)}",
            history=history,
            outside=Outside(
                shelf or self.shelf,
                self.notes,
                self.loaded,
                Capabilities(self.text_limit, columns=self.columns),
                download,
                compact,
                pass_on,
                partial(spent, self.store),
                Pins(self.store).of,
                partial(balances, self.store),
                partial(is_guest_by_id, self.store, self.loaded.settings),
            ),
            **said,
        )
        return await command.run(given)

    async def told(self, text: str, actor: Actor = ANA, key: ConversationKey = OPS, **more: Any) -> str:
        return (await self.say(text, actor, key, **more)).text

    async def ids(self, key: ConversationKey = OPS) -> list[str]:
        """What may be loaded, as another process sees it."""
        return [one.id for one in (await self.another_shelf().here(key, self.loaded)).catalogue.skills]

    async def audit(self) -> list[dict[str, Any]]:
        """All lines, oldest first: who, channel, what, thing, rule, before, after."""
        return [asdict(line) for line in await read(self.store)]

    async def note(self, text: str, key: ConversationKey = OPS, *, ask: bool = True, overwrite: bool = False) -> str:
        """Max has the model write a note; its code."""
        change = Change(
            f"note {next(self.number)}",
            "slack-main/U-MAX",
            f"{key.connection}/{key.channel}",
            key.channel_id,
            "profile",
        )
        draft = Draft("web-access", "references/x.md", text, "Max", "c", overwrite)
        return (await self.notes.save(change, draft, ask=ask)).note.code
