"""Compaction: however a long conversation is cut, stored and read again, what is sent is whole, in order, and no more than is kept."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from gateway.conversation.records import History, Record, carry, latest
from tests.gateway.conversation.world import World
from tests.machines.conftest import Run
from tests.machines.machine import Machine
from tests.workers.prompt.test_rendering import faults
from tests.workers.records import answer, result, said, skill, use, words
from workers.prompt.compaction import by_rule, cut, put_away
from workers.prompt.context import begin_after, in_context
from workers.prompt.loaded import loaded
from workers.prompt.rendering import messages

LONG: Final = 1_500


class CompactionMachine(Machine):
    """One conversation; what its worker has in memory beside what is stored and read from where it begins."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.world = World(url, self.layout)
        self.opened.push_async_callback(self.world.close)
        self.mailbox = self.do(self.world.mailbox())
        self.do(self.world.say(self.mailbox, "wake up"))
        self.claim = self.do(self.world.claim_one(self.mailbox))
        self.memory: list[Record] = []
        self.alive: list[str] = []
        """Questions that are still sent, oldest first."""
        self.gone: list[str] = []
        self.skills: set[str] = set()
        self.model = ""
        self.number = 0
        self.sent: list[dict[str, Any]] = []
        self.is_cut = True
        """Something was written that changes what was sent before."""

    def write(self, *records: Record) -> None:
        begin = begin_after(records, len(self.memory))
        self.do(self.mailbox.append(self.claim, records=records, begin=begin))
        self.memory += records

    @rule(
        tools=st.integers(0, 2), long=st.booleans(), loads=st.sampled_from(["", "", "one", "two"]), ends=st.booleans()
    )
    def a_turn(self, tools: int, long: bool, loads: str, ends: bool) -> None:
        self.number += 1
        question, name = f"question {self.number}.", f"turn {self.number}"
        ids = [f"call{self.number}-{one}" for one in range(tools)]
        records = [said(question, name)]
        if ids:
            text = "y" * LONG if long else "short"
            records += [
                answer(1, *(use(one) for one in ids), stop_reason="tool_use"),
                *(result(1, one, text) for one in ids),
            ]
        if loads:
            records.append(skill(f"BODY OF {loads}", loads))
            self.skills.add(loads)
        if ends:
            records.append(answer(2, words(f"answer {self.number}")))
        self.alive.append(question)
        self.write(*records)

    @rule(name=st.sampled_from(["small", "large", ""]))
    def people_choose_a_model(self, name: str) -> None:
        self.model = name
        self.write(Record("model", 0, {"turn": "t", "name": name, "by": "u"}))

    @precondition(lambda self: self.memory)
    @rule(keep=st.integers(0, 3))
    def it_is_put_away(self, keep: int) -> None:
        found = cut(self.memory, keep)
        if found is None:
            assert len(self.alive) <= max(1, keep)
            return
        assert found.messages == len(self.alive) - max(1, keep)
        data: dict[str, Any] = {
            "turn": "t",
            "begin": found.at,
            "since": found.since,
            "text": by_rule([one for one in found.away if one.type != "event"]),
            "mark": "m4rk",
            "skills": put_away(found, self.memory),
            "carried": carry(self.memory[: found.at]),
        }
        self.skills -= set(data["skills"])
        self.gone += self.alive[: found.messages]
        self.alive = self.alive[found.messages :]
        self.is_cut = True
        self.write(Record("summary", 0, data))

    @rule()
    def people_begin_anew(self) -> None:
        self.gone += self.alive
        self.alive, self.skills, self.is_cut = [], set(), True
        self.write(Record("cleared", 0, {"carried": carry(self.memory)}))

    @rule()
    def results_get_short(self) -> None:
        ids = [
            one.data["id"]
            for one in in_context(self.memory)
            if one.type == "tool_result" and len(one.data["text"]) == LONG
        ]
        if ids:
            self.is_cut = True
            self.write(Record("shortened", 0, {"turn": "t", "results": ids, "files": []}))

    @precondition(lambda self: self.alive and self.alive[-1] == f"question {self.number}.")
    @rule()
    def the_last_turn_is_buried(self) -> None:
        self.gone.append(self.alive.pop())
        self.is_cut = True
        self.write(Record("failed", 0, {"turn": f"turn {self.number}", "reason": "died"}))
        self.skills &= set(loaded(self.memory))

    @rule()
    def its_worker_dies(self) -> None:
        self.claim = self.do(self.world.take_over(self.mailbox))

    @invariant()
    def what_is_sent_is_whole(self) -> None:
        stored = self.do(self.mailbox.load(self.claim.conversation, self.claim.begin)).history
        assert isinstance(stored, History)
        assert stored.end == len(self.memory)
        now = messages(self.memory)
        assert messages(list(stored)) == now, "read again it is something else"
        assert latest(list(stored), "model") in ({self.model} if self.model else {"", None})
        assert set(loaded(list(stored))) == set(loaded(self.memory)) == self.skills
        if not self.alive:
            return
        assert faults(messages([*self.memory, said("and now", "next")])) is None
        if not self.is_cut:
            before = self.sent[:-1]  # the last one may be gone on with
            assert now[: len(before)] == before
        text = str(now)
        places = [text.find(f"] {question}") for question in self.alive]
        assert -1 not in places
        assert places == sorted(places)
        assert not any(f"] {question}" in text for question in self.gone)
        self.sent, self.is_cut = now, False


def test_compaction(redis_url: str, run: Run) -> None:
    run(lambda: CompactionMachine(redis_url), examples=15, steps=20)
