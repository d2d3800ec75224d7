"""Workspace: the files that a channel's conversations share, in Redis, so that any worker takes the next turn.

Each channel has one hash of contents, and nothing leads from one channel to another's. A path is compared by its key (case and
width make no difference), and is a name only: no file system knows it until a command runs, in a sandbox of its own.
Everything lasts until nobody has touched it for as long as an idle conversation is kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from config.settings import WorkspaceSettings
from gateway.store import Script, Store
from skills import ids

PATH_MAX_CHARACTERS: Final = 255
DEPTH_MAX: Final = 8
REMEMBERED: Final = 200
"""So many changes of a channel are known, to do nothing when one comes again."""
ABSENT: Final = "-"

CHANGE: Final = Script(
    "workspace change",
    """
    local files = KEYS[1] .. ':ws:' .. ARGV[1]
    local about, done = files .. ':about', files .. ':done'
    local id, file_max, files_max, total_max = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
    if redis.call('LPOS', done, id) then return {'OK'} end
    local size, count, total = {}, 0, 0
    for _, key in ipairs(redis.call('HKEYS', files)) do
        size[key] = redis.call('HSTRLEN', files, key)
        count, total = count + 1, total + size[key]
    end
    local was_count, was_total = count, total
    local wanted, passed = {}, {}
    for at = 8, #ARGV, 5 do
        local change = {key = ARGV[at], path = ARGV[at + 1], op = ARGV[at + 2], content = ARGV[at + 3]}
        local expected, held = ARGV[at + 4], size[change.key]
        local now = held and expected ~= '' and redis.sha1hex(redis.call('HGET', files, change.key)) or '-'
        if expected ~= '' and expected ~= now then
            table.insert(passed, change.path)
        else
            local new = #change.content + (change.op == 'append' and held or 0)
            if change.op == 'take' then new = nil end
            if new and new > file_max then return {'FILE', change.path, new} end
            count = count + (new and 1 or 0) - (held and 1 or 0)
            total = total + (new or 0) - (held or 0)
            size[change.key] = new
            table.insert(wanted, change)
        end
    end
    if count > files_max and count > was_count then return {'FILES', '', count} end
    if total > total_max and total > was_total then return {'TOTAL', '', total} end
    local folders = {}
    for key in pairs(size) do
        for at in string.gmatch(key, '()/') do folders[string.sub(key, 1, at - 1)] = true end
    end
    for _, change in ipairs(wanted) do
        if change.op ~= 'take' then
            if folders[change.key] then return {'OVER', change.path} end
            for at in string.gmatch(change.key, '()/') do
                if size[string.sub(change.key, 1, at - 1)] then return {'IN', change.path} end
            end
        end
    end
    local time = redis.call('TIME')
    for _, change in ipairs(wanted) do
        if change.op == 'take' then
            redis.call('HDEL', files, change.key)
            redis.call('HDEL', about, change.key)
        else
            local before = change.op == 'append' and redis.call('HGET', files, change.key) or ''
            redis.call('HSET', files, change.key, before .. change.content)
            redis.call('HSET', about, change.key, string.format('%.0f ', time[1] * 1000 + math.floor(time[2] / 1000)) .. change.path)
        end
    end
    redis.call('LPUSH', done, id)
    redis.call('LTRIM', done, 0, tonumber(ARGV[7]) - 1)
    for _, name in ipairs({files, about, done}) do redis.call('PEXPIRE', name, ARGV[6]) end
    return {'OK', unpack(passed)}
    """,
)

LOOK: Final = Script(
    "workspace look",
    """
    local files = KEYS[1] .. ':ws:' .. ARGV[1]
    for _, name in ipairs({files, files .. ':about', files .. ':done'}) do redis.call('PEXPIRE', name, ARGV[2]) end
    if ARGV[3] ~= '' then
        local content = redis.call('HGET', files, ARGV[3])
        return content and {redis.call('HGET', files .. ':about', ARGV[3]), #content, content} or {}
    end
    local found = {}
    local about = redis.call('HGETALL', files .. ':about')
    for at = 1, #about, 2 do
        table.insert(found, about[at + 1])
        table.insert(found, redis.call('HSTRLEN', files, about[at]))
        table.insert(found, ARGV[4] == '1' and redis.call('HGET', files, about[at]) or '')
    end
    return found
    """,
)


Op = Literal["put", "append", "take"]
"""What a change does to a file. `take`: away with it."""


class Full(Exception):
    """A limit is reached, and nothing was changed. `str()` names the limit and what came, for the model."""


@dataclass(frozen=True, slots=True)
class File:
    """A file of a channel."""

    path: str
    size_bytes: int
    at_ms: int
    """When it was last written, by the server's clock."""
    content: bytes = b""
    """Empty where only the list was asked for."""


@dataclass(frozen=True, slots=True)
class Change:
    """What is to become of one file."""

    path: str
    op: Op
    content: bytes = b""
    expected: str = ""
    """Only if it is still what it was: `hash_of` its content, or `ABSENT`. Empty: whatever it is."""


def path_fault(path: str) -> str | None:
    """Why `path` may not name a file of a workspace, or none if it may. For the model."""
    if not path or len(path) > PATH_MAX_CHARACTERS:
        return f"a path has 1 to {PATH_MAX_CHARACTERS} characters; one of {len(path):,} came"
    parts = path.split("/")
    if len(parts) > DEPTH_MAX:
        return f"a path has up to {DEPTH_MAX} parts; one of {len(parts)} came"
    if reason := ids.fault(path):
        return reason
    return next((f"{part!r}: a part of a path has no dot at its end" for part in parts if part.endswith(".")), None)


def hash_of(content: bytes) -> str:
    """What `Change.expected` compares."""
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


class Workspace:
    """The files of one channel. All methods raise `Unreachable`; paths that reach them have no `path_fault`."""

    def __init__(self, store: Store, channel_id: str, rules: WorkspaceSettings, keep_s: float) -> None:
        self._store = store
        self._channel_id = channel_id
        self._rules = rules
        self._keep_ms = int(keep_s * 1_000)

    async def find(self, path: str) -> File | None:
        """The file with its content."""
        found = await self._look(ids.key(path))
        return found[0] if found else None

    async def list(self, *, whole: bool = False) -> tuple[File, ...]:
        """All files by path; with their contents if `whole`."""
        return tuple(sorted(await self._look("", whole=whole), key=lambda file: file.path))

    async def held(self, path: str = "") -> Held:
        """All files as they are now, or the one at `path`."""
        files = await self._look(ids.key(path) if path else "", whole=True)
        return Held(self._store, self._channel_id, self._rules, self._keep_ms / 1_000, files=files)

    async def change(self, change_id: str, *changes: Change) -> tuple[str, ...]:
        """Make all changes, or none where a limit would be passed. Each file at most once. Raises `Full`.

        Gives the paths of those that were left out because they are not what was expected. The same id once more does
        nothing.
        """
        rules = self._rules
        verdict, *said = await self._store.run(
            CHANGE,
            self._root,
            self._channel_id,
            change_id,
            rules.file_max_bytes,
            rules.files_max,
            rules.total_max_bytes,
            self._keep_ms,
            REMEMBERED,
            *(word for one in changes for word in (ids.key(one.path), one.path, one.op, one.content, one.expected)),
        )
        self._refuse(verdict, said)
        return tuple(path.decode() for path in said)

    @property
    def _root(self) -> str:
        return self._store.layout.root_of(self._channel_id)

    async def _look(self, key: str, *, whole: bool = False) -> tuple[File, ...]:
        found = await self._store.run(LOOK, self._root, self._channel_id, self._keep_ms, key, int(whole))
        return tuple(_file(*found[at : at + 3]) for at in range(0, len(found), 3))

    def _refuse(self, verdict: bytes, said: Sequence[Any]) -> None:
        rules = self._rules
        match verdict, said:
            case b"FILE", [path, size]:
                most = f"{rules.file_max_bytes:,}"
                raise Full(f"{path.decode()} would have {size:,} bytes; a file has up to {most}.")
            case b"FILES", [_, count]:
                raise Full(f"There would be {count:,} files; the workspace has up to {rules.files_max:,}.")
            case b"TOTAL", [_, total]:
                most = f"{rules.total_max_bytes:,}"
                raise Full(f"All files together would have {total:,} bytes; the workspace has up to {most}.")
            case b"IN", [path]:
                raise Full(f"{path.decode()!r} would lie in a folder whose name is a file's.")
            case b"OVER", [path]:
                raise Full(f"{path.decode()!r} is the name of a folder with files in it.")


class Held(Workspace):
    """The same files, read once: what was looked at is what is used. Changes go to those that are there by then."""

    def __init__(
        self, store: Store, channel_id: str, rules: WorkspaceSettings, keep_s: float, *, files: Sequence[File]
    ) -> None:
        super().__init__(store, channel_id, rules, keep_s)
        self._files = files

    def hashes(self) -> dict[str, str]:
        """Of each file, by its path."""
        return {file.path: hashlib.sha256(file.content).hexdigest() for file in self._files}

    async def _look(self, key: str, *, whole: bool = False) -> tuple[File, ...]:
        del whole
        return tuple(file for file in self._files if key in {"", ids.key(file.path)})


def _file(about: bytes, size_bytes: int, content: bytes) -> File:
    at_ms, _, path = about.decode().partition(" ")
    return File(path, size_bytes, int(at_ms), content)
