"""I7, I8: what the model and other conversations get to see."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tests.harness.history import Asked, Found, Refused
from tests.harness.judging.run import Run, Violation

MALFORMED: Final = 400
"""What a platform answers to what it can't read."""
WORD: Final = re.compile(r"[\w-]+")


def malformed(run: Run) -> Iterator[Violation]:
    for asked in run.history.all(Asked):
        if asked.problem:
            yield Violation("I7", "malformed", asked.conversation, asked.problem, (asked,))
    for refused in run.history.all(Refused):
        if refused.status == MALFORMED:
            yield Violation("I7", "malformed send", refused.conversation, refused.why, (refused,))


def crossed(run: Run) -> Iterator[Violation]:
    owners = {canary: talk.id for talk in run.talks.values() for canary in talk.canaries}
    for talk in run.talks.values():
        for one in talk.accepted:
            foreign = [word for word in owners.keys() & _words(one.text) if owners[word] != talk.id]
            if foreign:
                yield Violation("I8", "crossed in a message", talk.id, f"{foreign[0]} of {owners[foreign[0]]}", (one,))
            for name in one.answers:
                if name not in talk.messages and (other := run.talk_with(name)):
                    yield Violation("I8", "answered elsewhere", talk.id, f"{name} of {other.id}", (one,))
        for asked in talk.asked:
            foreign = [word for word in asked.canaries if owners.get(word) != talk.id]
            if foreign:
                about = f"{foreign[0]} of {owners.get(foreign[0], 'nobody here')}"
                yield Violation("I8", "crossed to the model", talk.id, about, (asked,))
    for found in run.history.all(Found):
        if found.canary and (not found.conversation or owners.get(found.canary) != found.conversation):
            where = f"{found.place}: {found.name} holds {found.canary}"
            yield Violation("I8", "crossed at rest", found.conversation, where, (found,))


def _words(text: str) -> set[str]:
    return set(WORD.findall(text))
