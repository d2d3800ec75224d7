"""Keys to the admin pages: login links, sessions of browsers, tokens of programs. Redis holds their hashes alone.

A link is used once, by whoever presses its button: to open it changes nothing, so that a chat that looks at links burns
none. All end by themselves; sessions and tokens end at once when somebody ends them.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from dataclasses import dataclass
from typing import Any, Final

from gateway.admin.visits import Caller
from gateway.store import Script, Store
from gateway.stored import mapping

SECRET: Final = re.compile(r"[A-Za-z0-9_-]{43}")
TOKEN_BEGIN: Final = "dma_"  # noqa: S105  # no password
"""So that a token which stands where it should not is found by those who look for such."""
TRIES: Final = 20
TRIES_FOR_S: Final = 300
"""So many wrong secrets from one address in this time, then they are answered 429. A right one is let in whatever was tried
before: behind a proxy all come from one address, and no secret of 256 bits is found by trying.
"""
SESSIONS_PER_PERSON: Final = 10
"""The one that ends first makes room."""
TOKENS_MAX: Final = 200
LINKS_MAX: Final = 10_000

# KEYS[1] is `<prefix>:{admin}`. An index is a sorted set of names by the time at which they end.
_OPEN = """
local now = redis.call('TIME')
now = now[1] * 1000 + math.floor(now[2] / 1000)
local function kept(kind)
  local index = KEYS[1] .. ':' .. kind .. 's'
  redis.call('ZREMRANGEBYSCORE', index, '-inf', now)
  return index
end
local function ended(kind, name)
  redis.call('ZREM', KEYS[1] .. ':' .. kind .. 's', name)
  return redis.call('DEL', KEYS[1] .. ':' .. kind .. ':' .. name)
end
-- What there is of a kind: names and what is stored under them.
local function there(kind)
  local found = {}
  for _, name in ipairs(redis.call('ZRANGE', kept(kind), 0, -1)) do
    local stored = redis.call('GET', KEYS[1] .. ':' .. kind .. ':' .. name)
    if stored then
      found[#found + 1] = { name, stored, cjson.decode(stored) }
    end
  end
  return found
end
local function keep(kind, name, stored, for_ms)
  redis.call('SET', KEYS[1] .. ':' .. kind .. ':' .. name, stored, 'PX', for_ms)
  redis.call('ZADD', kept(kind), now + for_ms, name)
end
-- A secret that is known, else one more try from that address.
local function known(kind, name, peer, tries_for_s)
  local stored = redis.call('GET', KEYS[1] .. ':' .. kind .. ':' .. name)
  if stored then return stored end
  local tries = redis.call('INCR', KEYS[1] .. ':tries:' .. peer)
  if tries == 1 then redis.call('EXPIRE', KEYS[1] .. ':tries:' .. peer, tries_for_s) end
  return tries
end
"""

# keep(kind, name, stored, for_ms, most): a link or a token; FULL if there are `most` already
_KEEP = Script(
    "keep key",
    _OPEN
    + """
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
local person, own = cjson.decode(stored).person, {}
for _, one in ipairs(there('session')) do
  if one[3].person == person then own[#own + 1] = one[1] end
end
keep('session', ARGV[4], stored, ARGV[5]) -- first: a full server stops it here, and the link stays
ended('link', ARGV[1])
for i = 1, #own - tonumber(ARGV[6]) + 1 do ended('session', own[i]) end
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
  if ARGV[2] == '*' or one[3].person == ARGV[2] then count = count + ended(ARGV[1], one[1]) end
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
_SAID = Script("said to session", "return redis.call('GETDEL', KEYS[1] .. ':said:' .. ARGV[1])")
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
    made_ms: int
    ends_ms: int


class Keys:
    """All methods raise `Unreachable`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # ---- links and sessions ----

    async def make_link(self, caller: Caller, for_s: float) -> str:
        """Raises `Full`."""
        secret = secrets.token_urlsafe(32)
        given = ("link", _hash(secret), _stored(caller), int(for_s * 1_000), LINKS_MAX)
        if await self._run(_KEEP, *given) == b"FULL":
            raise Full(f"there are {LINKS_MAX} unused links, and no more may be")
        return secret

    async def look_at_link(self, secret: str, peer: str) -> Caller:
        """Whose it is; it stays as it is. Raises `Unknown`."""
        return _caller(await self._look("link", secret, peer))

    async def use_link(self, secret: str, peer: str, for_s: float) -> Session:
        """From now on the link is nothing, and this session is signed in. Raises `Unknown`."""
        session = secrets.token_urlsafe(32)
        given = (_hash(secret), _hash(peer), TRIES_FOR_S, _hash(session), int(for_s * 1_000), SESSIONS_PER_PERSON)
        return Session(session, _caller(_known(await self._run(_USE, *given))))

    async def session(self, secret: str, peer: str) -> Session:
        """Raises `Unknown`."""
        return Session(secret, _caller(await self._look("session", secret, peer)))

    async def say(self, session: Session, told: str, *, is_refused: bool) -> None:
        """Keep for the page that this browser opens next what came of what it did."""
        said = json.dumps({"told": told[:4_000], "is_refused": is_refused}, ensure_ascii=False)
        await self._run(_SAY, _hash(session.secret), said, SAID_FOR_S)

    async def said(self, session: Session) -> dict[str, Any]:
        """What was kept, once."""
        kept = await self._run(_SAID, _hash(session.secret))
        return mapping(kept) if kept else {}

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
        return _token(_hash(secret), await self._look("token", secret, peer, begin=TOKEN_BEGIN))

    async def tokens(self) -> list[Token]:
        """Those that end first come first."""
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
        return _known(await self._run(_LOOK, kind, name, _hash(peer), TRIES_FOR_S))

    async def _run(self, script: Script, *arguments: str | bytes | float) -> Any:
        return await self._store.run(script, self._store.layout.admin_root, *arguments)


def _known(answer: int | bytes) -> bytes:
    if isinstance(answer, int):
        raise Unknown(is_many=answer > TRIES)
    return answer


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def _stored(caller: Caller, **more: str | int) -> str:
    return json.dumps({**more, "person": caller.person, "operator": caller.operator}, ensure_ascii=False)


def _caller(stored: bytes | str) -> Caller:
    """Raises `Unknown` for what is none: nobody is an operator by an accident."""
    match mapping(stored):
        case {"person": str(person), "operator": str(operator)} if person or operator:
            return Caller(person, operator)
    raise Unknown(is_many=False)


def _token(name: str, stored: bytes | str) -> Token:
    kept = mapping(stored)
    return Token(name[:10], str(kept["name"]), _caller(stored), int(str(kept["made_ms"])), int(str(kept["ends_ms"])))
