"""What Redis holds, as values: the real scripts on a real server, from any state to the next.

A state is all keys with their types and contents. Each is known by a small number, and what a script did from a state is
remembered, for many worlds share one. Time stands still: `TIME` is a constant of the state, and what time does (a lease
runs out) is done to the state by whoever searches.
"""

from __future__ import annotations

import itertools
import json
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, cast

import hiredis

from gateway.conversation.mailbox import script

ROOT: Final = "m:{0}"
P: Final = f"{ROOT}:"
EPOCH_S: Final = 1_700_000_000
SCRIPTS: Final = (
    "open",
    "adopt",
    "accept",
    "claim",
    "take",
    "append",
    "mark",
    "settle",
    "park",
    "hand_over",
    "sole",
    "unheard",
    "bury",
    "renew",
)
CLOCK: Final = "redis.call('TIME')"

Items = tuple[str, ...]
Key = tuple[str, str, bool, Items]
"""Name, type, whether it ends by itself, contents: pairs of hashes and sorted sets one after the other, sorted."""
Frozen = tuple[int, tuple[Key, ...]]
"""How far the clock was moved, in seconds, and all keys by name."""
Ask = tuple[str, Items]
"""A script's name, and its arguments."""

_AROUND: Final = """
local CLOCK = { tonumber(ARGV[2]), 0 }
local KEYS = { '%(root)s' }
redis.call('FLUSHDB')
for _, one in ipairs(cjson.decode(ARGV[1])) do
  local name, kind, ends, items = one[1], one[2], one[3], one[4]
  if kind == 'string' then
    redis.call('SET', name, items[1])
  elseif kind == 'hash' then
    redis.call('HSET', name, unpack(items))
  elseif kind == 'list' then
    redis.call('RPUSH', name, unpack(items))
  elseif kind == 'zset' then
    for i = 1, #items, 2 do redis.call('ZADD', name, items[i + 1], items[i]) end
  else
    for i = 1, #items do redis.call('XADD', name, '*', 'conversation', '', 'turn', items[i]) end
  end
  if ends then redis.call('PEXPIRE', name, 100000000) end
end
local own = {}
for i = 3, #ARGV do own[i - 2] = ARGV[i] end
local ARGV = own
local function body()
%(body)s
end
local answer = body()
local found = {}
for _, name in ipairs(redis.call('KEYS', '*')) do
  local kind = redis.call('TYPE', name)['ok']
  local items
  if kind == 'string' then
    items = { redis.call('GET', name) }
  elseif kind == 'hash' then
    items = redis.call('HGETALL', name)
  elseif kind == 'list' then
    items = redis.call('LRANGE', name, 0, -1)
  elseif kind == 'zset' then
    items = redis.call('ZRANGE', name, 0, -1, 'WITHSCORES')
  else
    items = {}
    for i, entry in ipairs(redis.call('XRANGE', name, '-', '+')) do items[i] = entry[2][4] end
  end
  found[#found + 1] = { name, kind, redis.call('PTTL', name) > 0 and 1 or 0, items }
end
return { answer, found }
"""


class States:
    """The states seen so far, and what scripts make of them. It owns database 9 of the server."""

    def __init__(self, place: str, change: Callable[[str, str], str] = lambda _, text: text) -> None:
        """`place`: the server's socket. `change` gives a script's text another form: (name, text)."""
        self._line = socket.socket(socket.AF_UNIX)
        self._line.connect(place)
        self._reader = hiredis.Reader(encoding="utf-8", errors="strict")
        self._shas: dict[str, str] = {}
        self._known: dict[Frozen, int] = {}
        self._states: list[Frozen] = []
        self.did: dict[tuple[int, Ask], tuple[Any, int]] = {}
        """What a script answered from a state, and the state after it."""
        self.ran = 0
        self._tell([("SELECT", "9")])
        for name in SCRIPTS:
            self._add(name, change(name, script(name).text))

    def close(self) -> None:
        self._line.close()

    def add_script(self, name: str, text: str) -> None:
        """One that the product does not have: for what is taken out."""
        self._add(name, text)

    def _add(self, name: str, text: str) -> None:
        assert text.count(CLOCK) == 1, f"{name} reads the clock in another way than once by {CLOCK}"
        around = _AROUND % {"root": ROOT, "body": text.replace(CLOCK, "CLOCK")}
        (self._shas[name],) = self._tell([("SCRIPT", "LOAD", around)])

    def __getitem__(self, number: int) -> Frozen:
        return self._states[number]

    def __len__(self) -> int:
        return len(self._states)

    def number(self, state: Frozen) -> int:
        known = self._known.get(state)
        if known is None:
            known = self._known[state] = len(self._states)
            self._states.append(state)
        return known

    def run(self, wanted: Iterable[tuple[int, Ask]]) -> None:
        """Fill `did` for all of these."""
        missing = list({one: None for one in wanted if one not in self.did})
        for some in (missing[at : at + 64] for at in range(0, len(missing), 64)):
            asked = [
                (
                    "EVALSHA",
                    self._shas[name],
                    "0",
                    self._text(number),
                    str(EPOCH_S + self._states[number][0]),
                    *arguments,
                )
                for number, (name, arguments) in some
            ]
            for (number, ask), (answer, found) in zip(some, self._tell(asked), strict=True):
                keys = tuple(
                    (name, kind, bool(ends), _sorted(kind, items))
                    for name, kind, ends, items in sorted(found, key=_name)
                )
                self.did[number, ask] = (_frozen(answer), self.number((self._states[number][0], keys)))
            self.ran += len(asked)

    def do(self, number: int, ask: Ask) -> tuple[Any, int]:
        if (number, ask) not in self.did:
            self.run([(number, ask)])
        return self.did[number, ask]

    def _text(self, number: int) -> str:
        """As the server reads it."""
        return json.dumps(self._states[number][1])

    def _tell(self, commands: Sequence[Sequence[str]]) -> list[Any]:
        self._line.sendall(b"".join(hiredis.pack_command(cast("tuple[Any]", command)) for command in commands))
        answers: list[Any] = []
        while len(answers) < len(commands):
            answer = self._reader.gets()
            if answer is False:
                self._reader.feed(self._line.recv(1 << 16))
                continue
            if isinstance(answer, Exception):
                raise answer
            answers.append(answer)
        return answers


def _name(one: Sequence[Any]) -> str:
    return str(one[0])


def _sorted(kind: str, items: Sequence[str]) -> Items:
    if kind != "hash":
        return tuple(items)  # of a sorted set, by score
    return tuple(itertools.chain.from_iterable(sorted(zip(items[::2], items[1::2], strict=True))))


def _frozen(answer: Any) -> Any:
    return tuple(map(_frozen, answer)) if isinstance(answer, list) else answer
