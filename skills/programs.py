"""Programs: skills that run. One is a tool of its own, and its code lives and dies in a sandbox."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

from config.settings import SkillsSettings
from skills import contents, depth, ids, sandbox
from skills.bundles import Cache
from skills.contents import Changed
from skills.folders import Skill
from skills.runs import Limits, Output, Stopped
from skills.sandbox import Cage, Found, Job

MASKED_MIN: Final = 4


class ProgramFailed(Exception):
    """There is no result. `str()` is for the model; `chatter`, what the program printed, for its author."""

    def __init__(self, why: str, chatter: str = "", *, in_its_words: bool = False) -> None:
        super().__init__(why)
        self.chatter = chatter
        self.in_its_words = in_its_words


@dataclass(frozen=True, slots=True)
class Grant:
    """What a channel's profile gives its programs."""

    zone: ZoneInfo
    env: Collection[str] = ()
    """Names of variables, for the programs that declare them."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a run."""

    text: str
    """As the model may read it: the text that `run` returned, or JSON."""
    value: Any
    """What `run` returned."""
    took_ms: int
    chatter: str
    """The end of what it printed."""


def tool_name(skill_id: str) -> str:
    """The name of a program's tool: ASCII, the same wherever and whenever, and no other id's."""
    key = ids.key(skill_id)
    words = re.sub(r"[^a-z0-9]+", "_", key).strip("_")[:32].strip("_")
    return "_".join(filter(None, ("skill", words, hashlib.sha256(key.encode()).hexdigest()[:16])))


def description(skill: Skill) -> str:
    """What the model is told of a program: when to use it, what comes back, and whose it is."""
    returns = skill.head.text("returns")
    return f"{skill.head.summary}\n\nRuns the skill {skill.id}." + (f" Returns: {returns}" if returns else "")


@dataclass
class Programs:
    """Runs the programs of a process. One a worker."""

    settings: SkillsSettings
    folder: Path
    """Where versions of bundles are laid out, by their hash: what is there never changes."""
    variables: Mapping[str, str] = field(repr=False)
    """The environment that grants are taken from."""
    secrets: Collection[str] = field(default=(), repr=False)
    """The product's own: no variable that holds one is handed over."""

    def __post_init__(self) -> None:
        self._places = asyncio.Semaphore(self.settings.programs.at_once)
        self._looking = asyncio.Lock()
        self._found: Found | None = None
        self._cache = Cache(self.folder)

    async def lay_out(self, skill: Skill) -> Path:
        """The folder with this very version of a program. Raises `ProgramFailed` where it is nowhere any more.

        Of a turn that runs it is here already: its calls run what it was offered, whatever is saved meanwhile.
        """
        return await asyncio.to_thread(self._lay_out, skill)

    def _lay_out(self, skill: Skill) -> Path:
        try:
            return self._cache.place(skill.hash) or self._cache.lay_out(skill.hash, contents.whole(skill))
        except Changed as error:
            raise ProgramFailed(f"{skill.id}: {error}. The new version runs from the next message on.") from error
        except OSError as error:
            raise ProgramFailed(f"{skill.id} can't be laid out: {error.strerror}.") from error

    async def run(self, skill: Skill, values: Mapping[str, Any], grant: Grant) -> Result:
        """Run a program with arguments that fit its schema. Raises `ProgramFailed`."""
        env = self._env(skill, grant)
        job = Job(
            await self.lay_out(skill),
            json.dumps(values).encode(),
            {**env, "TZ": grant.zone.key},
            network=_named(skill, self.settings.programs.network),
            packages=self.settings.programs.packages,
        )
        hide = _Mask(env.values())
        async with self._places:
            begun_s = time.monotonic()
            try:
                output = await (await self._cage(skill)).run(job, self.limits())
            except Stopped as why:
                raise ProgramFailed(f"{skill.id} {why}.", hide(why.chatter)) from None
            except OSError as error:
                raise ProgramFailed(f"{skill.id} could not be started: {error.strerror}.") from error
        took_ms = int((time.monotonic() - begun_s) * 1_000)
        chatter = hide(output.chatter)
        try:
            value = _returned(output)
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, allow_nan=False)
        except ValueError as error:
            in_its_words = isinstance(error, _Failed)
            raise ProgramFailed(f"{skill.id} {hide(str(error))}", chatter, in_its_words=in_its_words) from None
        text = text.encode("utf-8", "replace").decode()
        if len(text.encode()) > self.settings.programs.result_max_bytes:
            most = f"{self.settings.programs.result_max_bytes:,}"
            raise ProgramFailed(f"{skill.id} gave a result of more than {most} bytes. Ask it for less.", chatter)
        return Result(hide(text), value, took_ms, chatter)

    def _env(self, skill: Skill, grant: Grant) -> dict[str, str]:
        env = {}
        for name in dict.fromkeys(skill.head.env):
            value = self.variables.get(name, "")
            if name not in grant.env:
                raise ProgramFailed(f"{skill.id} needs the variable {name}, which this channel does not grant it.")
            if not value:
                raise ProgramFailed(f"{skill.id} needs the variable {name}, which is not set on this machine.")
            if value in self.secrets:
                raise ProgramFailed(f"{skill.id} asks for {name}, which is deskmate's own.")
            env[name] = value
        return env

    async def run_caged(self, job: Job, limits: Limits) -> Output:
        """Run what is no skill's, in a sandbox or not at all. Raises `Stopped`, `OSError`."""
        async with self._places:
            return await (await self._cage(None)).run(job, limits)

    async def _cage(self, skill: Skill | None) -> Cage:
        async with self._looking:
            if self._found is None:
                self._found = await sandbox.find()
        if self._found.cage:
            return self._found.cage
        if skill and _named(skill, self.settings.unsandboxed):
            return sandbox.BARE
        raise Stopped("was not run: this machine has no sandbox (see `deskmate doctor`)")

    def limits(self) -> Limits:
        """Those of the settings."""
        given = self.settings.programs
        return Limits(
            wall_s=given.timeout_s,
            cpu_s=given.cpu_s,
            memory_bytes=given.memory_max_bytes,
            disk_bytes=given.disk_max_bytes,
            files=given.files_max,
            processes=given.processes_max,
            output_bytes=6 * given.result_max_bytes + 1_024,  # JSON writes most characters outside ASCII as six
        )


def _named(skill: Skill, names: Collection[str]) -> bool:
    return ids.key(skill.id) in {ids.key(name) for name in names}


# ---- what came ----


class _Failed(ValueError):
    """The program says so itself."""


def _returned(output: Output) -> Any:
    """What `run` returned. Raises `ValueError`, whose text goes on from the program's name, for anything else.

    The bytes are the program's, which may have written them without us: all is checked.
    """
    try:
        said = depth.read(output.result, _JSON)
    except depth.TooDeep as error:
        raise ValueError(f"gave a result {error}.") from None
    except ValueError as error:
        raise ValueError(f"gave a result that is no JSON: {error}.") from None
    match said:
        case {"error": str(why), **rest} if not rest and output.failed:
            raise _Failed(f"failed: {why[:2_000]}")
        case {"text": str(text), **rest} if not rest and not output.failed:
            return text
        case {"json": value, **rest} if not rest and not output.failed:
            return value
    raise ValueError("gave a result of its own making; what counts is what run(params) returns.")


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no number in JSON")


_JSON: Final = json.JSONDecoder(parse_constant=_no_number)


class _Mask:
    """Takes what was granted to a program out of what it says."""

    def __init__(self, values: Collection[str]) -> None:
        long = sorted({one for one in values if len(one) >= MASKED_MIN}, key=len, reverse=True)
        forms = [re.escape(form) for one in long for form in (one, json.dumps(one, ensure_ascii=False)[1:-1])]
        self._pattern = re.compile("|".join(forms)) if forms else None

    def __call__(self, text: str) -> str:
        return self._pattern.sub("***", text) if self._pattern else text
