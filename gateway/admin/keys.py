"""Keys to the admin pages: login links, sessions of browsers, tokens of programs. Redis holds their hashes alone.

A link is used once, by whoever presses its button: to open it changes nothing, so that a chat that looks at links burns
none. All end by themselves; sessions and tokens end at once when somebody ends them.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import re
import secrets
from dataclasses import dataclass
from typing import Any, Final

from gateway.admin.visits import Caller
from gateway.logs import log
from gateway.store import Script, Store
from gateway.stored import mapping

logger = logging.getLogger(__name__)

SECRET: Final = re.compile(r"[A-Za-z0-9_-]{43}")
TOKEN_BEGIN: Final = "dma_"  # noqa: S105  # no password
"""So that a token which stands where it should not is found by those who look for such."""
TRIES: Final = 20
TRIES_FOR_S: Final = 300
"""So many wrong secrets from one address in this time, then they are answered 429. A right one is let in whatever was tried
before: behind a proxy all come from one address, and no secret of 256 bits is found by trying.
"""
SESSIONS_PER_PERSON: Final = 10
LINKS_PER_PERSON: Final = 10
"""Of both the one that ends first makes room."""
TOKENS_MAX: Final = 200
LINKS_MAX: Final = 10_000
ID_LENGTH: Final = 10
"""Characters of a hash by which people name a token."""
MOMENTS_MS: Final = 2**48
"""No key ends as late as that."""

# KEYS[1] is `<prefix>:{admin}`. An index is a sorted set of names by the time at which they end. What is in none of them opens
# nothing, so that whoever ends all of a kind ends all; and anybody may have put something else in the place of a record.
_OPEN = """
local now = redis.call('TIME')
now = now[1] * 1000 + math.floor(now[2] / 1000)
local function kept(kind)
  local index = KEYS[1] .. ':' .. kind .. 's'
  if type(redis.pcall('ZREMRANGEBYSCORE', index, '-inf', now)) ~= 'number' then
    redis.call('DEL', index)
  end
  return index
end
local function ended(kind, name)
  redis.call('ZREM', KEYS[1] .. ':' .. kind .. 's', name)
  return redis.call('DEL', KEYS[1] .. ':' .. kind .. ':' .. name)
end
-- What is stored under a name, and whose it is: nobody's, if it can't be read.
local function record(kind, name)
  local stored = redis.pcall('GET', KEYS[1] .. ':' .. kind .. ':' .. name)
  if not stored then return end
  stored = type(stored) == 'string' and stored or ''
  local is_read, found = pcall(cjson.decode, stored)
  local is_one = is_read and type(found) == 'table' and type(found.person) == 'string'
  return stored, is_one and found.person or nil
end
-- What there is of a kind: names, what is stored under them, and whose it is.
local function there(kind)
  local found = {}
  for _, name in ipairs(redis.call('ZRANGE', kept(kind), 0, -1)) do
    local stored, person = record(kind, name)
    if stored then
      found[#found + 1] = { name, stored, person }
    end
  end
  return found
end
-- One place at least, of so many that a person has: those that end first are ended.
local function make_room(kind, person, most)
  local own = {}
  for _, one in ipairs(there(kind)) do
    if one[3] == person then own[#own + 1] = one[1] end
  end
  for i = 1, #own - most + 1 do ended(kind, own[i]) end
end
local function keep(kind, name, stored, for_ms)
  redis.call('SET', KEYS[1] .. ':' .. kind .. ':' .. name, stored, 'PX', for_ms)
  redis.call('ZADD', kept(kind), now + for_ms, name)
end
-- A secret that is known; 0 for one whose record is none, else one more try from that address.
local function known(kind, name, peer, tries_for_s)
  local stored, person = record(kind, name)
  local is_kept = type(redis.pcall('ZSCORE', KEYS[1] .. ':' .. kind .. 's', name)) == 'string'
  if stored then return person and is_kept and stored or 0 end
  local key = KEYS[1] .. ':tries:' .. peer
  local tries = redis.pcall('INCR', key)
  if type(tries) ~= 'number' then
    redis.call('DEL', key)
    tries = redis.call('INCR', key)
  end
  if tries == 1 then redis.call('EXPIRE', key, tries_for_s) end
  return tries
end
"""

# keep(kind, name, stored, for_ms, most[, person, of_a_person]): a link or a token; FULL if there are `most` already
_KEEP = Script(
    "keep key",
    _OPEN
    + """
if ARGV[6] then make_room(ARGV[1], ARGV[6], tonumber(ARGV[7])) end
if redis.call('ZCARD', kept(ARGV[1])) >= tonumber(ARGV[5]) then return 'FULL' end
keep(ARGV[1], ARGV[2], ARGV[3], ARGV[4])
return 'OK'
""",
)
# look(kind, name, peer, tries_for_s): what is stored, or how often there was something wrong
_LOOK = Script("look at key", _OPEN + "return known(ARGV[1], ARGV[2], ARGV[3], ARGV[4])")
# use(link, peer, tries_for_s, session, for_ms, most): the link is gone, the session is there, both or none
_USE = Script(
    "use link",
    _OPEN
    + """
local stored = known('link', ARGV[1], ARGV[2], ARGV[3])
if type(stored) == 'number' then return stored end
local _, person = record('link', ARGV[1])
keep('session', ARGV[4], stored, ARGV[5]) -- first: a full server stops it here, and the link stays
ended('link', ARGV[1])
make_room('session', person, tonumber(ARGV[6]) + 1)
return stored
""",
)
_END = Script("end key", _OPEN + "return ended(ARGV[1], ARGV[2])")
# end_all(kind, person): all of a person, or of everybody (`*`)
_END_ALL = Script(
    "end keys",
    _OPEN
    + """
local count = 0
for _, one in ipairs(there(ARGV[1])) do
  if ARGV[2] == '*' or one[3] == ARGV[2] then count = count + ended(ARGV[1], one[1]) end
end
return count
""",
)
_LIST = Script(
    "list keys",
    _OPEN
    + """
local found = {}
for _, one in ipairs(there(ARGV[1])) do
  found[#found + 1] = one[1]
  found[#found + 1] = one[2]
end
return found
""",
)


_SAY = Script("say to session", "return redis.call('SET', KEYS[1] .. ':said:' .. ARGV[1], ARGV[2], 'EX', ARGV[3])")
_SAID = Script(
    "said to session",
    """
local said = redis.pcall('GET', KEYS[1] .. ':said:' .. ARGV[1])
redis.call('DEL', KEYS[1] .. ':said:' .. ARGV[1])
return type(said) == 'string' and said or false
""",
)
SAID_FOR_S: Final = 60


class Unknown(Exception):
    """A key that does not open: never was one, was used, has ended. `is_many`: and too many of those came."""

    def __init__(self, *, is_many: bool) -> None:
        super().__init__("too many wrong keys from one address" if is_many else "no key that opens")
        self.is_many = is_many


class Full(Exception):
    """There are as many as there may be."""


@dataclass(frozen=True, slots=True)
class Session:
    """A browser that is signed in."""

    secret: str
    caller: Caller

    @property
    def csrf(self) -> str:
        """What each form of this session carries; nothing of the session can be found from it."""
        return hmac.digest(self.secret.encode(), b"csrf", "sha256").hex()[:43]


@dataclass(frozen=True, slots=True)
class Token:
    """A token as it is told of. It itself was shown once."""

    id: str
    name: str
    caller: Caller
    """Nobody, of one whose record can't be read: it opens nothing, and has no name."""
    made_ms: int
    ends_ms: int

    @property
    def is_readable(self) -> bool:
        return self.caller.who is not None


class Keys:
    """All methods raise `Unreachable`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._told: set[str] = set()
        """Of which records the log was told that they can't be read."""

    # ---- links and sessions ----

    async def make_link(self, caller: Caller, for_s: float) -> str:
        """Raises `Full`."""
        secret = secrets.token_urlsafe(32)
        given = ("link", _hash(secret), _stored(caller), int(for_s * 1_000), LINKS_MAX)
        if await self._run(_KEEP, *given, caller.person, LINKS_PER_PERSON) == b"FULL":
            raise Full(f"there are {LINKS_MAX} unused links, and no more may be")
        return secret

    async def look_at_link(self, secret: str, peer: str) -> Caller:
        """Whose it is; it stays as it is. Raises `Unknown`."""
        return self._caller("link", secret, await self._look("link", secret, peer))

    async def use_link(self, secret: str, peer: str, for_s: float) -> Session:
        """From now on the link is nothing, and this session is signed in. Raises `Unknown`."""
        session = secrets.token_urlsafe(32)
        given = (_hash(secret), _hash(peer), TRIES_FOR_S, _hash(session), int(for_s * 1_000), SESSIONS_PER_PERSON)
        answer = await self._run(_USE, *given)
        return Session(session, self._caller("link", secret, self._known("link", secret, answer)))

    async def session(self, secret: str, peer: str) -> Session:
        """Raises `Unknown`."""
        return Session(secret, self._caller("session", secret, await self._look("session", secret, peer)))

    async def say(self, session: Session, told: str, *, is_refused: bool) -> None:
        """Keep for the page that this browser opens next what came of what it did."""
        said = json.dumps({"told": told[:4_000], "is_refused": is_refused}, ensure_ascii=False)
        await self._run(_SAY, _hash(session.secret), said, SAID_FOR_S)

    async def said(self, session: Session) -> dict[str, Any]:
        """What was kept, once."""
        kept = await self._run(_SAID, _hash(session.secret))
        try:
            return mapping(kept) if kept else {}
        except ValueError:
            return {}

    async def end(self, secret: str) -> None:
        """The session of this secret, if there is one."""
        await self._run(_END, "session", _hash(secret))

    async def end_all(self, person: str) -> int:
        """All sessions and unused links of a person (empty: of the operator), or of everybody (`*`); how many."""
        return sum([int(await self._run(_END_ALL, kind, person)) for kind in ("session", "link")])

    # ---- tokens ----

    async def make_token(self, caller: Caller, name: str, days: int) -> tuple[Token, str]:
        """What is kept of it, and the token itself. Raises `Full`."""
        secret = TOKEN_BEGIN + secrets.token_urlsafe(32)
        now_ms, for_ms = await self._store.now_ms(), days * 86_400_000
        stored = _stored(caller, name=name, made_ms=now_ms, ends_ms=now_ms + for_ms)
        if await self._run(_KEEP, "token", _hash(secret), stored, for_ms, TOKENS_MAX) == b"FULL":
            raise Full(f"there are {TOKENS_MAX} tokens, and no more may be")
        return _token(_hash(secret), stored), secret

    async def token(self, secret: str, peer: str) -> Token:
        """Raises `Unknown`."""
        found = _token(_hash(secret), await self._look("token", secret, peer, begin=TOKEN_BEGIN))
        if not found.is_readable:
            raise self._damaged("token", secret)
        return found

    async def tokens(self) -> list[Token]:
        """Those that end first come first, also those that can't be read."""
        found = await self._run(_LIST, "token")
        return [_token(name.decode(), stored) for name, stored in zip(found[::2], found[1::2], strict=True)]

    async def revoke(self, id_: str) -> Token | None:
        """It opens nothing any more. None: there is none."""
        found = await self._run(_LIST, "token")
        for name, stored in zip(found[::2], found[1::2], strict=True):
            token = _token(name.decode(), stored)
            if token.id == id_:
                await self._run(_END, "token", name)
                return token
        return None

    # ---- inside ----

    async def _look(self, kind: str, secret: str, peer: str, *, begin: str = "") -> bytes:
        # What has not the form of a key is looked up as well: so it counts as a try.
        is_one = secret.startswith(begin) and SECRET.fullmatch(secret.removeprefix(begin))
        name = _hash(secret) if is_one else "-"
        return self._known(kind, secret, await self._run(_LOOK, kind, name, _hash(peer), TRIES_FOR_S))

    def _known(self, kind: str, secret: str, answer: int | bytes) -> bytes:
        if answer == 0:
            raise self._damaged(kind, secret)
        if isinstance(answer, int):
            raise Unknown(is_many=answer > TRIES)
        return answer

    def _caller(self, kind: str, secret: str, stored: bytes) -> Caller:
        """Raises `Unknown` for what is none: nobody is an operator by an accident."""
        found = _caller(stored)
        if found.who is None:
            raise self._damaged(kind, secret)
        return found

    def _damaged(self, kind: str, secret: str) -> Unknown:
        """The log is told once. Whose it was can't be told."""
        name = _hash(secret)
        if name not in self._told:
            self._told.add(name)
            advice = "deskmate admin revoke" if kind == "token" else "deskmate admin logout"
            log(
                logger,
                "key that can't be read opens nothing",
                level=logging.ERROR,
                kind=kind,
                id=name[:ID_LENGTH],
                advice=f"{advice} takes it away",
            )
        return Unknown(is_many=False)

    async def _run(self, script: Script, *arguments: str | bytes | float) -> Any:
        return await self._store.run(script, self._store.layout.admin_root, *arguments)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def _stored(caller: Caller, **more: str | int) -> str:
    return json.dumps({**more, "person": caller.person, "operator": caller.operator}, ensure_ascii=False)


def _caller(stored: bytes | str) -> Caller:
    """Nobody, where it can't be read."""
    try:
        kept = mapping(stored)
    except ValueError:
        return Caller()
    match kept:
        case {"person": str(person), "operator": str(operator)}:
            return Caller(person, operator)
    return Caller()


def _token(name: str, stored: bytes | str) -> Token:
    caller, id_ = _caller(stored), name[:ID_LENGTH]
    match mapping(stored) if caller.who else {}:
        case {"name": str(told), "made_ms": int(made_ms), "ends_ms": int(ends_ms)} if 0 <= ends_ms < MOMENTS_MS:
            return Token(id_, told, caller, made_ms, ends_ms)
    return Token(id_, "", Caller(), 0, 0)
