"""The house of a case: settings, profile and skills that its turn runs in, taken along into a file and built up again."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import yaml

from config.loading import Loaded, load
from config.settings import McpServerSettings
from gateway.conversation.key import ConversationKey
from gateway.rights.access import CHANNEL, Here
from gateway.rights.pins import Definition
from gateway.rights.places import place
from gateway.shelf.decisions import Decisions, Installed
from gateway.store import Store
from skills import contents, document, ids
from skills.bundles import BrokenBundle
from skills.contents import Changed
from skills.document import BrokenSkill
from skills.folders import Content, Skill, path_fault, skill_of
from skills.library import Library, resolve
from workers.opening import open_shelf
from workers.replay.case import Case, House, NotPossible
from workers.replay.stage import Looking, Place

OF_MODEL: Final = {"name", "answer_max_tokens", "context_tokens", "max_retries", "retry_for_s", "cache"}
OF_SKILLS: Final = {"new_skills", "body_max_bytes", "budget_bytes", "index_max_tokens"}
HEAD_ONLY: Final = "(This text is not part of the case.)\n"


async def house_of(case: Case, place: Place) -> House:
    """What a case needs of where it was found. Raises `NotPossible`, `Unreachable`."""
    loaded, shelf = place.loaded, place.shelf
    here = await shelf.here(case.key, loaded)
    settings = loaded.settings
    used = {str(one.data["id"]) for one in (*case.before, *case.records) if one.type == "skill"}
    skills = []
    for skill in here.catalogue.skills:
        try:
            await shelf.stock.at_hand(skill)
            skills.append(_taken(skill, is_whole=skill.id in used or skill.program is not None))
        except (Changed, BrokenBundle, ValueError, OSError) as error:
            raise NotPossible(f"the skill {skill.id} can't be taken along: {error}") from error
    return House(
        settings={
            "model": settings.model.model_dump(mode="json", include=OF_MODEL, exclude_defaults=True),
            "skills": settings.skills.model_dump(mode="json", include=OF_SKILLS, exclude_defaults=True),
            "mcp": {"servers": {name: _known(one) for name, one in settings.mcp.servers.items()}},
            "attachments": settings.attachments.model_dump(mode="json", exclude_defaults=True),
        },
        profile=here.profile.model_dump(
            mode="json", exclude={"name", "roles", "budget", "rate"}, exclude_defaults=True
        ),
        skills=skills,
        approved=[asdict(one) for one in place.approved],
        asks_for_all=here.asks_for_all,
        tools_off=[name for name, to in here.own.tools.items() if to == "off"],
    )


def _known(server: McpServerSettings) -> dict[str, Any]:
    """Of a server only what is said of its tools: it is never asked."""
    return {"command": ["none"], "tools": server.model_dump(mode="json")["tools"]}


def _taken(skill: Skill, *, is_whole: bool) -> dict[str, Any]:
    """A skill in JSON: all its files, or only what the list of skills shows of it."""
    files = contents.whole(skill)
    if not is_whole:
        raw = files[document.NAME].raw
        head = raw.decode().removesuffix(document.body_of(raw))
        files = {document.NAME: Content((head + HEAD_ONLY).encode(), runs=False)}
    return {
        "id": skill.id,
        "tier": skill.tier,
        "files": {path: _dumped(content) for path, content in files.items()},
    }


def _dumped(content: Content) -> Any:
    try:
        text: Any = content.raw.decode()
    except UnicodeDecodeError:
        text = {"base64": base64.b64encode(content.raw).decode()}
    return {"runs": text} if content.runs else text


def _content(dumped: Any) -> Content:
    runs = isinstance(dumped, Mapping) and "runs" in dumped
    text = dumped["runs"] if runs else dumped
    return Content(base64.b64decode(text["base64"]) if isinstance(text, Mapping) else str(text).encode(), runs)


@contextmanager
def built(house: House) -> Iterator[Loaded]:
    """The settings of a house, in a folder that is gone afterwards. Raises `ConfigError`."""
    with TemporaryDirectory(prefix="deskmate-replay-") as name:
        folder = Path(name)
        (folder / "profiles").mkdir()
        profile = yaml.safe_dump(dict(house.profile), allow_unicode=True)
        (folder / "profiles/default.yaml").write_text(profile, encoding="utf-8")
        file = folder / "deskmate.yaml"
        settings = {**house.settings, "data": str(folder / "data")}
        file.write_text(yaml.safe_dump(settings, allow_unicode=True), encoding="utf-8")
        yield load(file, variables={})


def place_of(house: House, loaded: Loaded, store: Store) -> Place:
    """The place of a house whose settings were `built`. Raises `NotPossible`."""
    made = open_shelf(loaded, store, Fixed)
    made.put(_skills(house, loaded.settings.data), house)
    return Place(loaded, made, [Definition(**one) for one in house.approved])


def _skills(house: House, folder: Path) -> list[Skill]:
    made = []
    for one in house.skills:
        files = {path: _content(dumped) for path, dumped in one["files"].items()}
        place = folder / "case" / hashlib.sha256(one["id"].encode()).hexdigest()
        if odd := next(filter(None, map(path_fault, files)), None):
            raise NotPossible(f"the skill {one['id']} of this case can't be laid out: {odd}")
        for path, content in files.items():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_bytes(content.raw)
        try:
            made.append(skill_of(str(one["id"]), str(one["tier"]), place, files))
        except BrokenSkill as error:
            raise NotPossible(f"the skill {one['id']} of this case can't be read: {error.reason}") from error
    return made


class Fixed(Looking):
    """A shelf that never changes."""

    _fixed = Library({})
    _decided = Decisions()

    def put(self, skills: Sequence[Skill], house: House) -> None:
        """What lies on it from now on."""
        self._fixed = resolve([list(skills)])
        own = [skill for skill in skills if skill.tier == CHANNEL]
        self._decided = Decisions(
            revision="1",
            installed={ids.skeleton(one.id): Installed(one.id, one.hash, "", 1) for one in own},
            trusted={(ids.skeleton(one.id), one.hash): 1 for one in own},
            hitl="on" if house.asks_for_all else None,
            tools=dict.fromkeys(house.tools_off, "off"),
        )

    async def here(self, key: ConversationKey, loaded: Loaded) -> Here:
        """What holds there, whatever is asked."""
        profile = loaded.profile_for(key.connection, key.channel)
        return place(
            loaded, key, rule=lambda name, _: f"{profile.name}: {name}", library=self._fixed, own=self._decided
        )

    async def pinned(self, pin: Mapping[str, Any], here: Here) -> Library:
        """The same as ever."""
        del pin
        return here.library
