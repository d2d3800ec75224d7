"""Which plays are searched, and what is taken out of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from gateway.conversation.mailbox import script
from tests.gateway.conversation.model.actors import Fault, Message, Play
from tests.gateway.conversation.model.states import States

ONE: Final = (Message("m1"),)
TWO: Final = (Message("m1"), Message("m2"))
APART: Final = (Message("m1"), Message("m2", "b"))
THREE: Final = (Message("m1"), Message("m2"), Message("m3", "b"))
APPROVED: Final = (Message("m1"), Message("yes", control=True))
ANY: Final[frozenset[Fault]] = frozenset({"crash", "gateway", "lost", "late", "pause", "again", "bells"})
STOPS: Final[frozenset[Fault]] = frozenset({"crash", "pause"})


def kinds(*names: Fault) -> frozenset[Fault]:
    return frozenset(names)


SMALL: Final = {
    "two conversations, no faults, no polls": Play(APART, polls=False, bell_ends=False),
    "one message, one fault of any kind": Play(ONE, faults=1, kinds=ANY),
    "two messages, a holder dies": Play(TWO, faults=1, kinds=kinds("crash")),
    "a platform that can be asked, one fault of any kind": Play(ONE, faults=1, kinds=ANY, how="look"),
    "a platform that can't, its profile repeats": Play(ONE, faults=1, kinds=ANY, how="repeat"),
    "a platform that can't, its profile skips": Play(ONE, faults=1, kinds=STOPS, how="skip"),
    "a question to a person": Play(APPROVED, asks=True),
    "newcomers join a turn, a holder dies": Play(TWO, faults=1, kinds=kinds("crash"), steers=True),
    "Redis loses its last script": Play(ONE, faults=1, kinds=kinds("tail")),
    "what is idle ends": Play(TWO, faults=1, kinds=kinds("idle")),
    "messages gather, all are taken": Play((Message("m1", delay_ms=500), Message("m2", delay_ms=500)), takes="all"),
}
"""Each is searched to its end with each run of the tests."""

WHOLE: Final = {
    **SMALL,
    "three messages, two conversations, no faults, no polls": Play(THREE, polls=False, bell_ends=False),
    "one message, two faults of any kind": Play(ONE, faults=2, kinds=ANY),
    "one message, two faults, a platform that can be asked": Play(ONE, faults=2, kinds=ANY, how="look"),
    "one message, two faults, repeated": Play(ONE, faults=2, kinds=ANY, how="repeat"),
    "one message, two faults, skipped": Play(ONE, faults=2, kinds=ANY, how="skip"),
    "two messages, two holders stop": Play(TWO, faults=2, kinds=STOPS),
    "two messages, one fault of any kind": Play(TWO, faults=1, kinds=ANY),
    "two conversations, one fault of any kind": Play(APART, faults=1, kinds=ANY),
    "three messages, two conversations, a holder stops": Play(THREE, faults=1, kinds=STOPS),
    "a question to a person, two holders stop": Play(APPROVED, faults=2, kinds=STOPS, asks=True),
    "a question to a person, one fault of any kind": Play(APPROVED, faults=1, kinds=ANY, asks=True),
    "newcomers join a turn, two holders stop": Play(TWO, faults=2, kinds=STOPS, steers=True),
    "newcomers join a turn, one fault of any kind": Play(TWO, faults=1, kinds=ANY, steers=True),
    "Redis loses its last script, and one more fault": Play(ONE, faults=2, kinds=kinds("tail", *ANY)),
    "two messages, Redis loses its last script or a holder stops": Play(TWO, faults=1, kinds=kinds("tail", *STOPS)),
    "given up after two deaths": Play(ONE, faults=2, kinds=STOPS, bury_after=2),
    "what is idle ends, and a holder stops": Play(TWO, faults=2, kinds=kinds("idle", "crash")),
}


@dataclass(frozen=True)
class Without:
    """A guard that is taken out, by other text in a script or by another process, and what is found then."""

    play: Play
    found: str
    old: str = ""
    new: str = ""
    only: str = ""
    """In this script alone."""

    def change(self, name: str, text: str) -> str:
        return text.replace(self.old, self.new) if self.old and self.only in {"", name} else text


NOWHERE: Final = "has work and is nowhere"
STRANDED: Final = "nothing that can still happen ends it"
WORKS: Final = "if has_work(c) then"
RING: Final = "'NX', 'PX', S.bell_ms"
SWEEP: Final = "      put(c, ch)\n    end\n  end\nend\n\nlocal function grant"

PAUSED: Final = Play(ONE, faults=1, kinds=kinds("pause"))
CRASHED: Final = replace(PAUSED, kinds=kinds("crash"))
TAIL: Final = replace(PAUSED, kinds=kinds("tail"))
NO_POLL: Final = Play(ONE, polls=False)

# The first eleven names are the rows of the table in the mailbox's specification, in its order; a row that names several
# changes is several cases.
TAKEN_OUT: Final = {
    "sweep puts back only conversations with a non-empty inbox": Without(
        PAUSED,
        NOWHERE,
        SWEEP,
        SWEEP.replace("put(c, ch)", "if redis.call('EXISTS', key(c, 'inbox')) == 1 then put(c, ch) end"),
    ),
    "take without the turn's record": Without(CRASHED, STRANDED, "set_turn(c, ARGV[6])", "", "take"),
    "outbox not looked at on resume": Without(
        replace(CRASHED, messages=TWO, sends_leftovers=False), "answers came in another order"
    ),
    "fence not checked": Without(
        replace(PAUSED, kinds=kinds("pause", "late")),
        "a worker that does not hold",
        "if h[1] ~= token then",
        "if false then",
    ),
    "fence is a counter that Redis can lose": Without(
        TAIL, "two workers hold the same number", ", us)\n      redis.call('SET'", ", 0)\n      redis.call('SET'"
    ),
    "no revision": Without(TAIL, "answers what is not in history", "if at ~= rev then", "if false then"),
    "settle looks, then releases, in two scripts": Without(Play(TWO, looks_apart=True), NOWHERE),
    "park does not look at control": Without(
        Play(APPROVED, asks=True),
        "something was pressed",
        "if saw >= 0 and (redis.call('LLEN', key(c, 'control')) > tonumber(ARGV[10]) or seq > saw) then",
        "if false then",
    ),
    "dedupe written before the inbox in a script of its own": Without(
        Play(ONE, faults=1, kinds=kinds("gateway"), dedupes_apart=True), "m1 was acknowledged and is nowhere"
    ),
    "2xx before accept": Without(Play(ONE, faults=1, kinds=kinds("gateway"), acks_first=True), STRANDED),
    "no poll, flag with expiry": Without(replace(NO_POLL, faults=1, kinds=kinds("gateway")), STRANDED),
    "no poll, flag without expiry": Without(replace(NO_POLL, faults=1, kinds=kinds("bells")), STRANDED, RING, "'NX'"),
    "flag without expiry, with poll": Without(Play(ONE), "the bell's flag stays for ever", RING, "'NX'"),
    "flag cleared after the claim": Without(
        Play(APART, polls=False, bell_ends=False, clears_flag_after=True), "no bell is on its way"
    ),
    "no ring for the rest": Without(
        Play(APART, polls=False, bell_ends=False), "no bell is on its way", "ring = ring_due()", "ring = 0"
    ),
    "no look at the own clock before a send": Without(
        replace(PAUSED, how="look", looks_at_clock=False), "people got an answer twice"
    ),
    # and what the scripts do besides
    "no dedupe": Without(
        Play(ONE, faults=1, kinds=kinds("again")),
        "twice in history",
        "if when and tonumber(when) >",
        "if when and false and 0 >",
    ),
    "who is free stays due": Without(
        Play(ONE),
        "waits for nothing",
        "  redis.call('ZREM', P .. 'due', c)\n  if redis.call('EXISTS'",
        "  if redis.call('EXISTS'",
    ),
    "who is ready stays due": Without(
        Play(APPROVED, asks=True),
        "in ready and in due",
        "  redis.call('ZREM', P .. 'due', c)\n  if under_cap",
        "  if under_cap",
    ),
    "hand over asks for no token": Without(
        PAUSED, "", "if redis.call('HGET', key(c), 'token') ~= ARGV[3] then", "if false then", "hand_over"
    ),
    "what is idle ends though somebody wrote": Without(
        Play(TWO, faults=1, kinds=kinds("idle")),
        "the count of places is wrong",
        "  redis.call('PERSIST', key(c))\n",
        "",
        "accept",
    ),
    "its history ends though somebody wrote": Without(
        Play(TWO, faults=1, kinds=kinds("idle")), "", "  redis.call('PERSIST', key(c, 'history'))\n", "", "accept"
    ),
    "the place of who died is not given back": Without(
        CRASHED,
        "the count of places is wrong",
        "if redis.call('HINCRBY', P .. 'running', ch, -1) <= 0 then",
        "if false then",
    ),
}


def states(place: str, change: Callable[[str, str], str] = lambda _, text: text) -> States:
    """On the server at this socket, with the scripts that only some of `TAKEN_OUT` ask for."""
    made = States(place, change)
    accept, settle, claim = (script(name).text for name in ("accept", "settle", "claim"))
    idle = "local seq = arrive(c)"
    made.add_script("dedupe", _replaced(accept, idle, "do return { 'NEW', 0, 0 } end\n" + idle))
    made.add_script("rest", _replaced(accept, "if when and", "if false and"))
    made.add_script("release", _replaced(settle, WORKS, "if false then"))
    made.add_script(
        "clear",
        _replaced(
            claim, "return grant(ARGV[2], tonumber(ARGV[3]))", "redis.call('DEL', P .. 'bell')\nreturn 'CLEARED'"
        ),
    )
    return made


def _replaced(text: str, old: str, new: str) -> str:
    assert old in text, f"{old} is not there any more"
    return text.replace(old, new)
