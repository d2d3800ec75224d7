"""I1, I2, I6: what a message became."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.harness.history import Accepted, Ended, Letter
from tests.harness.judging.run import Run, Violation
from tests.harness.talks import Message, parts_of


def lost(run: Run) -> Iterator[Violation]:
    for talk, message in run.messages():
        if message.taken is None:
            continue
        if not message.answers:
            if run.rules_of(talk.id).sending == "skip" and _was_touched(run, message, message.remarks):
                continue
            waited_s = run.waited_s(message.taken_s, run.end_s)
            what = "lost" if waited_s >= run.rules_of(talk.id).told_within_s else "unjudged, as the run ended too early"
            yield Violation("I1", what, talk.id, message.id, (message.taken, *message.asked[-1:]))
            continue
        replies = message.shown("reply")
        parts = max((one.parts for one in replies), default=0)
        missing = [part for part in range(1, parts + 1) if part not in parts_of(replies)]
        if missing and not (run.rules_of(talk.id).sending == "skip" and _was_touched(run, message, message.remarks)):
            yield Violation("I1", f"part {missing[0]} of {parts} missing", talk.id, message.id, tuple(replies))


def noticed(run: Run) -> Iterator[Violation]:
    """A notice tells of a loss: it is no answer, where there is nothing that had to be lost."""
    for talk in run.talks.values():
        most = run.rules_of(talk.id).notices_max
        told = [one for one in talk.messages.values() if one.wants == "reply" and one.shown("notice")]
        if most is not None and len(told) > most:
            for message in told:
                evidence = (*message.posts[:1], *message.shown("notice"))
                yield Violation("I1", "notice in place of an answer", talk.id, message.id, evidence)


def buried(run: Run) -> Iterator[Violation]:
    """What is given up leaves a dead letter, and nothing else does."""
    letters = Counter(one.conversation for one in run.history.all(Letter))
    if not any(run.history.all(Ended)):
        return  # nobody has looked for letters
    for talk in run.talks.values():
        writes = [one for one in talk.writes if one.script == "bury" and one.verdict == "OK"]
        if len(writes) > letters[talk.id]:
            yield Violation("I1", "given up without a letter", talk.id, writes[-1].token, (writes[-1],))
        elif len(writes) < letters[talk.id]:
            yield Violation("I1", "letter of what was not given up", talk.id, f"{letters[talk.id]} letters")


def half(run: Run) -> Iterator[Violation]:
    """What people see is what the model said, whole, and nothing that still grows beside it."""
    for talk in run.talks.values():
        for one in talk.visible():
            if one.what == "growing":
                yield Violation("I2", "half left", talk.id, one.id or one.key, (one,))
    for talk, message in run.messages():
        said = {_plain(one.text) for one in message.asked if one.text}
        replies = message.shown("reply")
        if not said or not replies:
            continue
        parts = {one.part: _plain(one.text) for one in replies}
        is_whole = parts.keys() == set(range(1, replies[0].parts + 1))
        shown = " ".join(text for _, text in sorted(parts.items()))
        strange = [one for one in replies if not any(_plain(one.text) in text for text in said)]
        if strange or (is_whole and shown not in said):
            yield Violation("I2", "another text", talk.id, message.id, (*(strange or replies), message.asked[-1]))


def _plain(text: str) -> str:
    """Platforms have blanks and line ends of their own."""
    return " ".join(text.split())


def doubled(run: Run) -> Iterator[Violation]:
    for talk, message in run.messages():
        replies, notices = message.shown("reply"), message.shown("notice")
        if replies and notices:
            yield Violation("I2", "reply and notice", talk.id, message.id, (*replies[:1], *notices[:1]))
        twice = [part for part, times in parts_of(replies).items() if times > 1]
        if twice and not (run.rules_of(talk.id).sending == "repeat" and _was_touched(run, message, message.remarks)):
            all_of_it = len(twice) == max(one.parts for one in replies)
            what = "doubled" if all_of_it else f"part {twice[0]} twice"
            yield Violation("I2", what, talk.id, message.id, tuple(one for one in replies if one.part == twice[0]))
        if any(times > 1 for times in parts_of(notices).values()):
            yield Violation("I2", "notice doubled", talk.id, message.id, tuple(notices))
    for talk in run.talks.values():
        for one in talk.visible():
            strangers = [name for name in one.answers if name not in talk.messages]
            if strangers and not run.talk_with(strangers[0]):
                yield Violation("I2", "answer to nothing", talk.id, strangers[0], (one,))


def _was_touched(run: Run, message: Message, remarks: list[Accepted]) -> bool:
    """What no platform without keys can spare people: it needs a fault beside it, and has to be told."""
    return bool(remarks) and bool(run.faults_in(message.first_s, remarks[-1].at_s))


def told(run: Run) -> Iterator[Violation]:
    for talk, message in run.messages():
        if message.taken is None or not message.answers:
            continue
        waited_s = run.waited_s(message.taken_s, message.end_s)
        if waited_s > run.rules_of(talk.id).told_within_s:
            last = max(message.answers, key=lambda one: one.at_s)
            yield Violation("I6", f"told after {waited_s:.1f} s", talk.id, message.id, (message.taken, last))
