"""Approvals: whoever says what, and when: a request gets one word, of somebody who may, in time, and about what was shown."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from gateway.approvals.asked import Kind, asked_in
from gateway.commands import Done
from gateway.conversation.records import Record
from gateway.events import Actor
from gateway.shelf.decisions import Always
from gateway.store import open_store
from tests.gateway.commands.world import ANA, LI, MAX, NOW_MS, OPS, World
from tests.machines.conftest import Run
from tests.machines.machine import Machine

BOT: Final = Actor("B-1", "Bot", is_bot=True)
NOBODY: Final = Actor("", "")
SPEAKERS: Final = (LI, ANA, MAX, LI, BOT, NOBODY)
REQUESTER: Final = "U-MAX"
"""Who may say yes to what is asked on their own behalf, once."""
APPROVERS: Final = ("U-LI",)
WAIT_MS: Final = 60_000


@dataclass
class Request:
    """What is expected of one."""

    kind: Kind
    bound: str
    can_be_always: bool
    left_ms: int = WAIT_MS
    word: str = ""
    by: str = ""


class ApprovalsMachine(Machine):
    """One conversation, whose turn asks again and again. Words are commands, said beside it."""

    def __init__(self, url: str) -> None:
        super().__init__()
        folder = self.opened.enter_context(tempfile.TemporaryDirectory())
        store = open_store(url, self.layout, timeout_s=5.0)
        self.opened.push_async_callback(store.close)
        self.world = World(store, Path(folder))
        self.requests: dict[str, Request] = {}
        self.history: list[Record] = []
        self.open: list[Record] = []
        self.always: dict[str, str] = {}

    @precondition(lambda self: len(self.requests) < 6)
    @rule(
        kind=st.sampled_from(["approval", "approval", "question", "plan"]),
        can_be_always=st.booleans(),
        form=st.integers(0, 1),
    )
    def the_turn_asks(self, kind: Kind, can_be_always: bool, form: int) -> None:
        code = "ABCDEF"[:5] + "234567"[len(self.requests)]
        asked = Request(kind, f"{form}" * 64, can_be_always and kind == "approval")
        self.requests[code] = asked
        data = {
            "turn": "t",
            "code": code,
            "kind": kind,
            "call": "c",
            "requester": REQUESTER,
            "bound": asked.bound,
            "shown": "tool",
            "form": f"form {form}" if asked.can_be_always else "",
            "choices": ["red", "blue"],
            "until_ms": NOW_MS + WAIT_MS,
        }
        self.open.append(Record("asked", NOW_MS, data))

    @rule(ms=st.sampled_from([WAIT_MS // 2, WAIT_MS]))
    def time_passes(self, ms: int) -> None:
        """The command's clock stands still, so what was asked gets older."""
        for one in self.requests.values():
            one.left_ms -= ms

        def older(record: Record) -> Record:
            if record.type != "asked":
                return record
            return replace(record, data={**record.data, "until_ms": record.data["until_ms"] - ms})

        self.open, self.history = [*map(older, self.open)], [*map(older, self.history)]

    @precondition(lambda self: self.open)
    @rule()
    def the_turn_ends(self) -> None:
        self.history += self.open
        self.open = []

    @precondition(lambda self: self.requests)
    @rule(
        which=st.integers(0, 5),
        word=st.sampled_from(["approve", "approve", "deny", "answer"]),
        more=st.sampled_from(["", "always", "because", "2"]),
        who=st.sampled_from(SPEAKERS),
        twice=st.booleans(),
    )
    def somebody_says_a_word(self, which: int, word: str, more: str, who: Actor, twice: bool) -> None:
        code = list(self.requests)[which % len(self.requests)]
        asked = self.requests[code]
        is_open = any(one.data.get("code") == code for one in self.open)
        turn = f"command {len(self.open)} {len(self.history)} {which} {word} {more} {who.id}"
        line = f"/{word} {code.lower()} {more}".strip()

        def said() -> Done:
            return self.do(self.world.say(line, who, turn=turn, open=self.open, history=self.history))

        done = said()
        if twice:  # its worker died before the records were written, and the next one runs it again
            assert said().records == done.records
        counts = is_open and not asked.word and asked.left_ms > 0 and self._counts(asked, word, more, who)
        assert bool(done.records) == counts, (line, who, done.text)
        for record in done.records:
            assert record.data["by"] == who.id
            assert record.data["code"] == code
            asked.word, asked.by = record.data["word"], who.id
            if word == "answer":
                assert record.data["text"] == ("blue" if more == "2" else more)
        if counts and word == "approve" and more == "always":
            self.always[asked.bound] = who.id
        self.open += done.records

    def _counts(self, asked: Request, word: str, more: str, who: Actor) -> bool:
        if who.is_bot or not who.id:
            return False
        if word == "answer":
            return asked.kind != "approval" and bool(more)
        if asked.kind == "question":
            return False
        if word == "approve" and more == "always" and not (asked.can_be_always and who.id in APPROVERS):
            return False
        return who.id in {*APPROVERS, REQUESTER}

    @rule(code=st.sampled_from(["ZZZZZZ", "", "abc", "../x"]), word=st.sampled_from(["approve", "deny", "answer"]))
    def somebody_names_what_is_not_asked(self, code: str, word: str) -> None:
        assert not self.do(self.world.say(f"/{word} {code}", LI, open=self.open, history=self.history)).records

    @invariant()
    def each_has_the_one_word_that_counts(self) -> None:
        records = [*self.history, *self.open]
        words = [one.data["code"] for one in records if one.type == "decided"]
        assert len(set(words)) == len(words)
        for one in asked_in(records):
            assert (one.word or "", one.by) == (self.requests[one.code].word, self.requests[one.code].by)

    async def end(self) -> None:
        """What was allowed for good is exactly what was said, and the audit log has each word on a call."""
        seen = await self.world.another_shelf().here(OPS, self.world.loaded)
        stored: dict[str, Always] = dict(seen.own.always)
        assert {bound: one.by for bound, one in stored.items()} == {
            bound: f"slack-main/{who}" for bound, who in self.always.items()
        }
        lines = [one for one in await self.world.audit() if one["what"] in {"approval yes", "approval no"}]
        assert sorted((one["what"], one["thing"].split()[0], one["who"]) for one in lines) == sorted(
            (f"approval {one.word}", code, f"slack-main/{one.by}")
            for code, one in self.requests.items()
            if one.word in {"yes", "no"}
        )


def test_approvals(redis_url: str, run: Run) -> None:
    run(lambda: ApprovalsMachine(redis_url), examples=30, steps=20)
