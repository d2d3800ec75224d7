"""Which plays are searched, and what is taken out of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from gateway.conversation.deaths import BURY_AFTER, SOLE_AFTER
from gateway.conversation.mailbox import script
from tests.gateway.conversation.model.actors import Fault, Message, Play
from tests.gateway.conversation.model.states import States
from tests.sabotage.guards import guards

ONE: Final = (Message("m1"),)
TWO: Final = (Message("m1"), Message("m2"))
APART: Final = (Message("m1"), Message("m2", "b"))
THREE: Final = (Message("m1"), Message("m2"), Message("m3", "b"))
APPROVED: Final = (Message("m1"), Message("yes", control=True))
ANY: Final[frozenset[Fault]] = frozenset({"crash", "gateway", "lost", "late", "pause", "again", "bells"})
STOPS: Final[frozenset[Fault]] = frozenset({"crash", "pause"})


def kinds(*names: Fault) -> frozenset[Fault]:
    return frozenset(names)


def alone(messages: tuple[Message, ...], faults: int, kinds: frozenset[Fault]) -> Play:
    """Many died with what is asked here, and it is stored: workers come when they look."""
    return Play(
        messages, faults, kinds, bell_ends=False, tries=SOLE_AFTER, bury_after=BURY_AFTER, accepted=True, gateways=0
    )


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
    "one message, no faults": Play(ONE),
    "two messages, no faults": Play(TWO),
    "one message, a gateway dies": Play(ONE, faults=1, kinds=kinds("gateway")),
    "one message, bells are lost": Play(ONE, faults=1, kinds=kinds("bells")),
    "a message comes again": Play(ONE, faults=1, kinds=kinds("again")),
    "a holder dies": Play(ONE, faults=1, kinds=kinds("crash")),
    "a holder is paused": Play(ONE, faults=1, kinds=kinds("pause")),
    "a holder is paused, what it wrote comes late": Play(ONE, faults=1, kinds=kinds("pause", "late")),
    "a platform that can be asked, a holder is paused": Play(ONE, faults=1, kinds=kinds("pause"), how="look"),
    "two that many died with, a holder dies": alone(APART, 1, kinds("crash")),
    "one that many died with, a holder stops": alone(ONE, 1, STOPS),
    "an answer to a claim is lost": Play(ONE, faults=1, kinds=kinds("lost"), gateways=1, tells=True),
}
"""Each is searched to its end with each run of the tests. `guards.yaml` says in which a guard of the scripts is missed."""

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
    "two that many died with, one fault of any kind": alone(APART, 1, ANY),
    "one that many died with, two faults of any kind": alone(ONE, 2, ANY),
    "two that many died with, a holder stops, bells": replace(alone(APART, 1, STOPS), bell_ends=True),
    "answers are lost, a claim comes late, a holder stops": Play(
        ONE, faults=2, kinds=kinds("lost", "late", *STOPS), gateways=1, tells=True
    ),
    "what is idle ends, and a holder stops": Play(TWO, faults=2, kinds=kinds("idle", "crash")),
}


@dataclass(frozen=True)
class Without:
    """A play with another kind of process in it, and what is found then."""

    play: str
    found: str
    changed: Mapping[str, Any]
    """Fields of `Play`."""
    guard: str = ""
    """What is taken out of the scripts besides, by its name in `guards.yaml`."""

    def in_script(self, name: str, text: str) -> str:
        return GUARDS[self.guard].in_script(name, text) if self.guard else text


GUARDS: Final = guards()
LAST_MOMENT: Final = "what came in the last moment is seen before the claim is given back"
KNOWN: Final = "a message that is known already is not taken again"
STRANDED: Final = "nothing that can still happen ends it"

# Rows of the table in the mailbox's specification that are no other text in a script: those are in `guards.yaml`.
TAKEN_OUT: Final = {
    "outbox not looked at on resume": Without(
        "two messages, a holder dies", "answers came in another order", {"sends_leftovers": False}
    ),
    "settle looks, then releases, in two scripts": Without(
        "two messages, no faults", "has work and is nowhere", {"looks_apart": True}
    ),
    "dedupe written before the inbox in a script of its own": Without(
        "one message, a gateway dies", "m1 was acknowledged and is nowhere", {"dedupes_apart": True}
    ),
    "2xx before accept": Without("one message, a gateway dies", STRANDED, {"acks_first": True}),
    "no poll, flag with expiry": Without("one message, a gateway dies", STRANDED, {"polls": False}),
    "no poll, flag without expiry": Without(
        "one message, bells are lost", STRANDED, {"polls": False}, "a bell that nobody answers is rung again"
    ),
    "flag cleared after the claim": Without(
        "two conversations, no faults, no polls", "no bell is on its way", {"clears_flag_after": True}
    ),
    "no look at the own clock before a send": Without(
        "a platform that can be asked, a holder is paused", "people got an answer twice", {"looks_at_clock": False}
    ),
    "what many died with is begun, and nobody asked whether it may": Without(
        "two that many died with, a holder dies", "two have a worker for themselves", {"asks_to_be_sole": False}
    ),
}


def states(place: str, change: Callable[[str, str], str] = lambda _, text: text) -> States:
    """On the server at this socket, with the scripts that only some of `TAKEN_OUT` ask for."""
    made = States(place, change)
    accept, settle, claim = (script(name).text for name in ("accept", "settle", "claim"))
    idle = "local seq = arrive(c)"
    made.add_script("dedupe", _replaced(accept, idle, "do return { 'NEW', 0, 0, now } end\n" + idle))
    with suppress(ValueError):  # a copy of the tree has it taken out already
        accept = GUARDS[KNOWN].in_script("accept", accept)
    made.add_script("rest", accept)
    made.add_script("release", GUARDS[LAST_MOMENT].in_script("settle", settle))
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
