"""A folder of skills, a packer that publishes it, and processes that read what was published."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from config.loading import Loaded, load
from gateway.audit.log import Change, read
from gateway.conversation.key import ConversationKey
from gateway.rights.access import Here
from gateway.shelf.packing import Packer
from gateway.shelf.shelf import Shelf
from gateway.store import Store
from skills import contents
from skills.bundles import Cache
from skills.folders import Skill, read_one, skill_of
from tests.skills.test_library import write

OPS = ConversationKey("slack-main", "C-OPS")
DEV = ConversationKey("slack-main", "C-DEV")


@dataclass
class World:
    """One Redis; `root` is the organisation's folder."""

    store: Store
    path: Path
    loaded: Loaded = field(init=False)
    packer: Packer = field(init=False)
    shelf: Shelf = field(init=False)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.root.mkdir(exist_ok=True)
        self.settings()
        self.packer = self.another_packer("one")
        self.shelf = self.another_shelf("one")

    @property
    def root(self) -> Path:
        return self.path / "org"

    def settings(self, **skills: Any) -> None:
        """The operator's files."""
        file = self.path / "deskmate.yaml"
        written = {
            "skills": {"folder": str(self.root), **skills},
            "connections": {"slack-main": {"platform": "standard_webhooks"}},
        }
        file.write_text(json.dumps(written))
        self.loaded = load(file, variables={})

    def another_packer(self, name: str) -> Packer:
        return Packer(self.store, self.loaded.settings.skills, name, rests_s=0.05)

    def another_shelf(self, machine: str, *present: str) -> Shelf:
        """Of another process, on a machine of its own."""
        return Shelf(self.store, Cache(self.path / f"cache-{machine}"), present=present)

    async def publish(self) -> int:
        """Look at the folders; the snapshot's number."""
        assert await self.packer.step()
        return (await self.shelf.look()).number

    async def here(self, key: ConversationKey = OPS, shelf: Shelf | None = None) -> Here:
        return await (shelf or self.shelf).here(key, self.loaded)

    def change(self, who: str = "slack-main/U-ANA", turn: str | None = None) -> Change:
        made = turn or f"turn-{next(self._numbers)}"
        return Change(made, who, "slack-main/C-OPS", OPS.channel_id, "p.yaml line 1: roles.admin", 7)

    async def names(self, key: ConversationKey = OPS) -> list[str]:
        """Of the skills that may be loaded."""
        return [skill.id for skill in (await self.here(key)).catalogue.skills]

    async def audit(self) -> list[tuple[str, str]]:
        """Who did what."""
        return [(line.who, line.what) for line in await read(self.store)]

    def bundle(self, id_: str, files: Mapping[str, str] | None = None, **more: Any) -> Skill:
        """A skill that somebody adds to a channel."""
        folder = write(self.path / f"added-{next(self._numbers)}", id_, **more)
        for path, text in (files or {}).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        skill = read_one(folder, "channel").skill
        assert skill
        return skill_of(id_, "channel", folder, contents.whole(skill))
