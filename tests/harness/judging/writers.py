"""I5: one writer."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tests.harness.history import Event, Wrote
from tests.harness.judging.holders import Holders
from tests.harness.judging.run import DONE, Run, Violation
from tests.harness.talks import Talk, begin_of


def writers(run: Run) -> Iterator[Violation]:
    for talk in run.talks.values():
        if not talk.grants:
            continue
        for one, other in pairwise(talk.grants):
            if other.fence <= one.fence and begin_of(other) > one.at_s:
                yield Violation("I5", "fence went back", talk.id, other.token, (one, other))
        holders = Holders(talk.grants)
        ended: dict[str, Wrote] = {}
        for wrote in talk.writes:
            if wrote.verdict in DONE:
                yield from _write(talk, wrote, holders, ended.get(wrote.token))
                if wrote.releases:
                    ended[wrote.token] = wrote
        yield from _late(run, talk, holders)


def _write(talk: Talk, wrote: Wrote, holders: Holders, ended: Wrote | None) -> Iterator[Violation]:
    mine = holders.by_token.get(wrote.token)
    if mine is None:
        yield Violation("I5", "write without a grant", talk.id, wrote.token, (wrote,))
        return
    newer = holders.newer(wrote.fence)
    if newer and newer.at_s < begin_of(wrote):
        yield Violation("I5", "two writers", talk.id, f"{wrote.process} beside {newer.process}", (mine, newer, wrote))
    elif ended and ended.at_s < begin_of(wrote) and wrote.verdict == "OK":
        yield Violation("I5", "write after the end", talk.id, wrote.token, (mine, ended, wrote))


def _late(run: Run, talk: Talk, holders: Holders) -> Iterator[Violation]:
    """Sends and effects of a process while another one holds the conversation."""
    done: list[tuple[str, float, str, Event]] = [
        ("late send", begin_of(one), one.process, one) for one in talk.accepted if one.process
    ]
    done += [("late tool", one.at_s, one.process, one) for one in talk.effects if one.process and one.phase == "begun"]
    for what, at_s, process, event in done:
        holder = holders.surely_at(at_s - run.rules.margin_s)
        if holder and process not in {holder.process, holders.perhaps_at(at_s)}:
            yield Violation("I5", what, talk.id, f"{process} while {holder.process} holds it", (holder, event))
