"""The checker is itself checked: each of these histories is broken in one way, and it says in which; odd ones pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.harness import checking
from tests.harness.checking import INVARIANTS, check
from tests.harness.history import (
    Accepted,
    Asked,
    Began,
    Effect,
    Ended,
    Event,
    Fault,
    Found,
    Granted,
    History,
    Ledger,
    Letter,
    Posted,
    Refused,
    Wrote,
    read,
)
from tests.harness.judging.beside import BEGINS
from tests.harness.judging.run import Rules

END_S = 500.0
Events = list[Event]


def post(at_s: float, message: str = "m1", status: int = 200, **more: Any) -> Posted:
    """Delivered for 0.1 s until `at_s`. The place of `m3` is 3."""
    more = {"conversation": "c1", "place": int(message[1:]), "canary": "", "begin_s": at_s - 0.1, **more}
    return Posted(at_s, message=message, status=status, **more)


def reply(at_s: float, *messages: str, **more: Any) -> Accepted:
    more = {"conversation": "c1", "key": f"key {messages} {more.get('part', 1)}", **more}
    return Accepted(at_s, answers=messages or ("m1",), **more)


def notice(at_s: float, *messages: str, **more: Any) -> Accepted:
    return reply(at_s, *messages, **{"what": "notice", "key": f"notice {at_s}", **more})


def remark(at_s: float, *messages: str, **more: Any) -> Accepted:
    return reply(at_s, *messages, **{"what": "remark", "key": f"remark {at_s}", **more})


def asked(at_s: float, *said: str, **more: Any) -> Asked:
    return Asked(at_s, **{"conversation": "c1", **more}, said=said or ("m1",))


def granted(at_s: float, fence: int, process: str = "w1", **more: Any) -> Granted:
    more = {"conversation": "c1", "begin_s": at_s - 0.01, **more}
    return Granted(at_s, process=process, token=f"{fence}-{process}", fence=fence, **more)


def wrote(at_s: float, fence: int, script: str, process: str = "w1", **more: Any) -> Wrote:
    more = {"conversation": "c1", "begin_s": at_s - 0.01, "releases": script == "settle", **more}
    return Wrote(at_s, process=process, token=f"{fence}-{process}", fence=fence, script=script, **more)


def effect(at_s: float, phase: Any = "begun", **more: Any) -> Effect:
    return Effect(at_s, **{"conversation": "c1", "step": "s1", "policy": "once", "process": "w1", **more}, phase=phase)


def turn(at_s: float, message: str = "m1", fence: int = 1, before: Sequence[str] = ()) -> Events:
    """A whole one, as it should be, of about one second, on one worker."""
    return [
        post(at_s, message),
        granted(at_s + 0.1, fence),
        wrote(at_s + 0.2, fence, "take"),
        asked(at_s + 0.3, *before, message, process="w1"),
        wrote(at_s + 0.6, fence, "append"),
        wrote(at_s + 0.7, fence, "mark"),
        reply(at_s + 0.8, message, process="w1", begin_s=at_s + 0.75),
        wrote(at_s + 0.9, fence, "settle"),
    ]


def without(events: Events, *kinds: type[Event]) -> Events:
    return [event for event in events if not isinstance(event, kinds)]


def other(events: Events, conversation: str = "c2") -> Events:
    """The same in another conversation, whose messages have other names."""
    found: Events = []
    for event in events:
        changes: dict[str, Any] = {"conversation": conversation}
        if isinstance(event, Posted):
            changes["message"] = f"x{event.message[1:]}"
        if isinstance(event, Accepted):
            changes["answers"] = tuple(f"x{name[1:]}" for name in event.answers)
        if isinstance(event, Asked):
            changes["said"] = tuple(f"x{name[1:]}" for name in event.said)
        found.append(replace(event, **changes))
    return found


KILL = Fault(1.5, "w1", "kill")
TAKEOVER: Events = [post(1.0), granted(1.1, 1), wrote(1.2, 1, "take"), asked(1.3, process="w1"), KILL]
"""A message, and the death of who had it."""
LATER: Events = [granted(7.5, 2, "w2"), asked(7.6, process="w2"), reply(7.9, process="w2"), wrote(8, 2, "settle", "w2")]


def parts(at_s: float, of: int, *wanted: int, **more: Any) -> Events:
    return [reply(at_s + number / 10, part=number, parts=of, **more) for number in wanted]


def saying(at_s: float, text: str, message: str = "m1", step: int = 0, **more: Any) -> Asked:
    """Answered with this text."""
    return asked(at_s, message, answer=f"{message}.s{step}", text=text, **more)


def told(at_s: float, *receipts: str, **more: Any) -> Asked:
    """With results, each `STEP=WORD`."""
    return asked(at_s, receipts=receipts, **more)


def card(at_s: float, code: str = "AB2", step: str = "s1", **more: Any) -> Accepted:
    return Accepted(at_s, "c1", **{"id": f"card {at_s}", **more}, what="card", step=step, code=code)


Made = Callable[[], Events]
BAD: dict[str, tuple[str, str, Made, Rules]] = {}
GOOD: dict[str, tuple[Made, Rules]] = {}
PLAIN = Rules()


def bad(invariant: str, what: str, rules: Rules = PLAIN) -> Callable[[Made], Made]:
    """One history that is broken in this way, and in no other."""

    def keep(make: Made) -> Made:
        BAD[make.__name__] = invariant, what, make, rules
        return make

    return keep


def good(rules: Rules = PLAIN) -> Callable[[Made], Made]:
    """One that looks odd and is as it should be."""

    def keep(make: Made) -> Made:
        GOOD[make.__name__] = make, rules
        return make

    return keep


# ---- I1: no loss ----


@bad("I1", "lost")
def a_message_that_nobody_answers() -> Events:
    return [post(1.0), asked(1.3)]


@bad("I1", "lost")
def a_message_lost_behind_one_that_is_answered() -> Events:
    return [*turn(1), post(3.0, "m2"), *turn(5, "m3", 2, ["m1"])]


@bad("I1", "lost")
def a_message_whose_repetition_alone_got_2xx() -> Events:
    return [post(1.0, status=503), post(2.0)]


@bad("I1", "lost")
def an_answer_that_was_shown_and_taken_away() -> Events:
    return [*turn(1), reply(3, key="", what="deleted", edit_of="key ('m1',) 1")]


@bad("I1", "lost", Rules(sending="skip"))
def left_out_by_the_profile_without_a_word() -> Events:
    return [*TAKEOVER]


@bad("I1", "lost", Rules(sending="skip"))
def left_out_by_the_profile_although_nothing_had_happened() -> Events:
    return [post(1.0), asked(1.3), remark(4.0)]


@bad("I1", "part 2 of 3 missing")
def the_middle_of_an_answer_missing() -> Events:
    return [post(1.0), asked(1.1), *parts(2, 3, 1, 3)]


@bad("I1", "part 3 of 3 missing")
def an_answer_that_breaks_off() -> Events:
    return [post(1.0), asked(1.1), *parts(2, 3, 1, 2)]


@bad("I1", "unjudged")
def a_run_that_ended_before_anybody_could_know() -> Events:
    return [*turn(1), post(END_S - 5, "m2")]


@bad("I1", "part 1 of 2 missing")
def a_part_left_out_with_a_word_where_nothing_has_to_be() -> Events:
    return [*TAKEOVER, granted(7.5, 2, "w2"), *parts(7.6, 2, 2, process="w2"), remark(8, process="w2")]


@bad("I1", "part 2 of 2 missing", Rules(sending="skip"))
def a_part_left_out_with_a_word_although_nothing_had_happened() -> Events:
    return [post(1.0), asked(1.1), *parts(2, 2, 1), remark(3)]


@bad("I1", "notice in place of an answer", Rules(notices_max=0))
def a_turn_given_up_after_a_single_death() -> Events:
    return [*TAKEOVER, granted(7.5, 2, "w2"), notice(7.9, process="w2")]


@bad("I1", "notice in place of an answer", Rules(notices_max=1))
def more_turns_given_up_than_may_be() -> Events:
    return [*TAKEOVER, notice(7.9), post(9, "m2"), notice(9.5, "m2")]


@bad("I1", "given up without a letter")
def a_turn_given_up_of_which_no_operator_hears() -> Events:
    return [*TAKEOVER, granted(7.5, 2, "w2"), wrote(7.6, 2, "bury", "w2"), notice(7.9, process="w2")]


@bad("I1", "letter of what was not given up")
def a_letter_of_a_turn_that_was_answered() -> Events:
    return [*turn(1), Letter(END_S, "c1", "8 holders died")]


# ---- I2: no double ----


@bad("I2", "doubled")
def an_answer_twice() -> Events:
    return [*turn(1), reply(2.5, key="another")]


@bad("I2", "doubled")
def all_parts_of_an_answer_twice() -> Events:
    return [
        post(1.0),
        asked(1.1),
        *parts(2, 2, 1, 2),
        *[reply(3 + one, part=one, parts=2, key=f"k{one}") for one in (1, 2)],
    ]


@bad("I2", "part 2 twice")
def a_part_twice() -> Events:
    return [post(1.0), asked(1.1), *parts(2, 3, 1, 2, 3), reply(3, part=2, parts=3, key="late")]


@bad("I2", "doubled", Rules(sending="repeat"))
def a_second_copy_that_nobody_was_told_of() -> Events:
    return [*TAKEOVER, reply(1.4, key=""), *LATER]


@bad("I2", "doubled", Rules(sending="repeat"))
def a_second_copy_without_any_fault() -> Events:
    return [*turn(1), reply(2.5, key="another"), remark(3)]


@bad("I2", "doubled", Rules(sending="repeat"))
def a_second_copy_long_before_the_fault() -> Events:
    return [*turn(1), reply(2.5, key="another"), remark(3), Fault(9, "w1", "kill"), Fault(0.2, "w1", "kill")]


@bad("I2", "reply and notice")
def an_answer_and_a_notice_in_its_place() -> Events:
    return [*turn(1), notice(2.5)]


@bad("I2", "notice doubled")
def two_notices() -> Events:
    return [post(1.0), notice(2), notice(3)]


@bad("I2", "half left")
def a_beginning_of_an_answer_beside_the_answer() -> Events:
    return [*TAKEOVER, Accepted(1.4, "c1", id="g1", what="growing", text="It is"), *LATER]


@bad("I2", "answer to nothing")
def an_answer_to_what_nobody_said() -> Events:
    return [*turn(1), reply(2, "m9")]


@bad("I2", "doubled")
def a_message_under_a_new_event_answered_again() -> Events:
    return [*turn(1), post(3.0, delivery="again"), asked(3.1), reply(3.5, key="other"), Fault(3.05, "w1", "cut")]


@bad("I2", "half left")
def a_beginning_of_an_answer_left_as_the_answer() -> Events:
    return [
        *TAKEOVER,
        Accepted(1.4, "c1", id="g1", what="growing", answers=("m1",), text="It is"),
        *LATER[:2],
        *LATER[3:],
        notice(8),
    ]


@bad("I2", "another text")
def a_beginning_of_an_answer_that_is_said_to_be_all() -> Events:
    return [post(1.0), saying(1.2, "It is noon."), reply(2, text="It is")]


@bad("I2", "another text")
def an_answer_that_the_model_never_gave() -> Events:
    return [post(1.0), saying(1.2, "It is noon."), reply(2, text="I could not find out.")]


@bad("I2", "another text")
def parts_that_are_less_than_the_whole() -> Events:
    return [post(1.0), saying(1.2, "One. Two. Three."), *_two("One.", "Three.")]


def _two(first: str, second: str) -> Events:
    return [reply(2 + number, text=text, part=number, parts=2) for number, text in ((1, first), (2, second))]


@bad("I2", "another text")
def an_answer_that_hides_that_nobody_knows() -> Events:
    knows = saying(7.6, "Done; unknown: s1.", process="w2", unknown=("s1",), receipts=("s1=",))
    return [*TAKEOVER, effect(1.4), LATER[0], knows, reply(7.9, text="Done.", process="w2")]


# ---- I3: no double effect ----


@bad("I3", "effect twice")
def a_tool_that_was_run_again_after_its_effect() -> Events:
    first = [effect(1.4), effect(1.45, "done")]
    again = [effect(7.55, process="w2"), effect(7.58, "done", process="w2")]
    return [*TAKEOVER, *first, *again, *LATER]


@bad("I3", "effect twice")
def a_tool_that_was_run_again_although_nobody_knew() -> Events:
    return [*TAKEOVER, effect(1.4), effect(7.55, process="w2"), effect(7.58, "done", process="w2"), *LATER]


@bad("I3", "effect under two keys")
def a_repetition_that_the_tool_could_not_know() -> Events:
    again = effect(7.55, process="w2", policy="idempotent", key="k2")
    return [*TAKEOVER, effect(1.4, policy="idempotent", key="k1"), again, *LATER]


@bad("I3", "unknown outcome not told")
def an_outcome_that_nobody_knows_told_as_if_it_were_known() -> Events:
    return [*TAKEOVER, effect(1.4), *LATER]


@bad("I3", "result that no tool gave")
def a_result_made_up_for_an_effect_whose_answer_nobody_heard() -> Events:
    return [
        *TAKEOVER,
        effect(1.4),
        effect(1.45, "done", receipt="w7"),
        LATER[0],
        told(7.6, "s1=", process="w2"),
        *LATER[2:],
    ]


@bad("I3", "result that no tool gave")
def a_result_of_a_tool_that_was_never_run() -> Events:
    return [post(1.0, calls=2), asked(1.1), told(1.5, "s1="), reply(2)]


@bad("I3", "result that no tool gave")
def a_result_of_another_run() -> Events:
    return [
        *TAKEOVER,
        effect(1.4, step="s0"),
        effect(1.45, "done", step="s0", receipt="w0"),
        LATER[0],
        told(7.6, "s1=w0"),
        *LATER[2:],
    ]


@bad("I3", "told as unknown without a fault")
def an_outcome_told_as_unknown_that_was_known() -> Events:
    ran = [effect(1.2), effect(1.3, "done", receipt="w7")]
    return [post(1.0, calls=2), asked(1.1), *ran, told(1.5, "s1=", unknown=("s1",)), reply(2)]


@bad("I3", "run again although its result was kept")
def a_finished_sibling_that_is_run_again() -> Events:
    kept = wrote(1.45, 1, "append", results=("s2",))
    first, again = (effect(at_s, step="s2", policy="read", process=who) for at_s, who in ((1.4, "w1"), (7.55, "w2")))
    return [*TAKEOVER, first, kept, again, *LATER]


@bad("I3", "two codes for one call")
def a_second_card_whose_code_counts_as_well() -> Events:
    return [*TAKEOVER, card(1.4), granted(7.5, 2, "w2"), card(7.55, "XY7"), *LATER[1:]]


@bad("I3", "two codes for one call", Rules(sending="repeat"))
def an_older_card_that_is_not_void_on_any_platform() -> Events:
    return [*TAKEOVER, card(1.4), card(7.55, "XY7"), *LATER]


@bad("I3", "card twice")
def the_same_card_again_where_one_can_know() -> Events:
    return [*TAKEOVER, card(1.4), card(7.55), *LATER]


@bad("I3", "card twice", Rules(sending="skip"))
def the_same_card_again_although_nothing_had_happened() -> Events:
    return [*turn(1), card(1.4), card(1.45)]


@bad("I3", "note twice")
def what_a_tool_said_in_between_twice() -> Events:
    note = Accepted(1.4, "c1", key="n1", what="note", step="s1")
    return [*TAKEOVER, note, *LATER, replace(note, at_s=7.7, key="n2")]


@bad("I3", "note twice", Rules(sending="repeat"))
def what_a_tool_said_in_between_twice_although_nothing_had_happened() -> Events:
    note = Accepted(1.4, "c1", id="n1", what="note", step="s1")
    return [*turn(1), note, replace(note, at_s=1.5, id="n2")]


# ---- I4: order ----


@bad("I4", "swapped")
def answers_in_another_order_than_their_messages() -> Events:
    return [
        post(1.0, "m1"),
        post(1.2, "m2"),
        wrote(2.9, 1, "take"),
        asked(3, "m2"),
        reply(3.2, "m2"),
        asked(3.3, "m2", "m1"),
        reply(3.5, "m1"),
    ]


@bad("I4", "swapped")
def a_message_that_was_there_before_who_answers_looked() -> Events:
    late = [
        post(1.0, "m2"),
        post(1.4, "m1"),
        granted(1.5, 1),
        wrote(3.0, 1, "take"),
        asked(3.2, "m2"),
        reply(3.5, "m2"),
    ]
    return [*late, wrote(3.6, 1, "take"), asked(3.7, "m2", "m1"), reply(4, "m1")]


@bad("I4", "swapped", Rules(hold_back_s=0.3))
def events_that_came_swapped_and_were_not_held_back() -> Events:
    return [
        post(1.1, "m2"),
        asked(1.12, "m2"),
        post(1.25, "m1"),
        reply(1.5, "m2"),
        asked(1.6, "m2", "m1"),
        reply(2, "m1"),
    ]


@bad("I4", "swapped")
def a_message_left_behind_by_two_later_ones() -> Events:
    said = [post(1.0, "m1"), post(1.1, "m2"), post(1.2, "m3")]
    return [
        *said,
        asked(3, "m2"),
        reply(3.1, "m2"),
        asked(3.2, "m2", "m1"),
        reply(3.3, "m1"),
        *_third("m2", "m1", "m3"),
    ]


def _third(*said: str) -> Events:
    return [asked(4, *said), reply(4.5, said[-1])]


@bad("I4", "interleaved")
def parts_of_two_answers_among_each_other() -> Events:
    one = [reply(2, "m1", part=1, parts=2), reply(4, "m1", part=2, parts=2)]
    return [post(1.0), asked(1.1), *one, post(1.5, "m2"), asked(2.5, "m1", "m2"), reply(3, "m2")]


@bad("I4", "twice in the history")
def a_message_that_stands_twice_in_the_history() -> Events:
    return [post(1.0), post(1.1), asked(1.5, "m1", "m1"), reply(2)]


@bad("I4", "history rewritten")
def a_history_that_forgets() -> Events:
    return [*turn(1), *turn(3, "m2", 2)]


@bad("I4", "history rewritten")
def a_history_that_is_told_in_another_order() -> Events:
    first = [*turn(1), *turn(3, "m2", 2, ["m1"])]
    return [*first, post(5, "m3"), asked(5.1, "m2", "m1", "m3"), reply(5.5, "m3")]


def away(*said: str, begin_s: float = 5.0) -> Events:
    """`m1` is put away, and this stands in the next request."""
    question = asked(begin_s, "m1", answer="m2.sum", purpose="summary", process="w1")
    kept = wrote(begin_s + 0.2, 2, "append", answers=("m2.sum",))
    more = [post(7.0, "m3"), asked(7.2, *said), reply(7.5, "m3")]
    return [*turn(1), *turn(3, "m2", 2, ["m1"])[:-1], question, kept, wrote(begin_s + 0.4, 2, "settle"), *more]


PUT_AWAY = Rules(summarises=True)


@bad("I4", "neither the old history nor the new one", PUT_AWAY)
def a_summary_with_which_too_much_is_gone() -> Events:
    return away("c1.sum", "m3")


@bad("I4", "neither the old history nor the new one", PUT_AWAY)
def a_summary_beside_what_it_is_of() -> Events:
    return away("c1.sum", "m1", "m2", "m3")


@bad("I4", "neither the old history nor the new one", PUT_AWAY)
def what_was_put_away_gone_without_a_summary() -> Events:
    return away("m2", "m3")


@bad("I4", "neither the old history nor the new one", PUT_AWAY)
def the_old_history_after_it_was_put_away() -> Events:
    return away("m1", "m2", "m3")


@bad("I4", "neither the old history nor the new one", PUT_AWAY)
def a_summary_that_nobody_has_kept() -> Events:
    return without_kept(away("c1.sum", "m2", "m3"))


def without_kept(events: Events) -> Events:
    return [event for event in events if not (isinstance(event, Wrote) and event.answers)]


# ---- I5: one writer ----


@bad("I5", "two writers")
def a_write_by_who_has_lost_it() -> Events:
    return [*TAKEOVER, *LATER[:2], wrote(7.7, 1, "append"), *LATER[2:]]


@bad("I5", "two writers")
def leases_that_overlap() -> Events:
    stopped, woken = Fault(1.5, "w1", "stop"), Fault(9, "w1", "continue")
    return [*TAKEOVER[:-1], stopped, granted(7.5, 2, "w2"), woken, wrote(9.1, 1, "renew"), reply(9.3, process="w2")]


@bad("I5", "two writers")
def who_has_lost_it_to_the_next_but_one() -> Events:
    return [*TAKEOVER, granted(4.5, 2, "w3"), *_shifted(LATER, 3), wrote(7.7, 2, "append", "w3")]


def _shifted(events: Events, fence: int) -> Events:
    """With a greater number, on the same worker."""
    token = f"{fence}-w2"
    return [
        replace(event, fence=fence, token=token) if isinstance(event, (Granted, Wrote)) else event for event in events
    ]


@bad("I5", "late send")
def a_sleeper_who_sends_when_it_wakes() -> Events:
    woken = [Fault(9, "w1", "continue"), Accepted(9.1, "c1", key="note", what="note", process="w1")]
    return [*TAKEOVER[:-1], Fault(1.5, "w1", "stop"), *LATER, *woken]


@bad("I5", "late tool")
def a_sleeper_who_starts_a_tool_when_it_wakes() -> Events:
    woken = [Fault(9, "w1", "continue"), effect(9.1), effect(9.2, "done")]
    return [*TAKEOVER[:-1], Fault(1.5, "w1", "stop"), *LATER, *woken]


@bad("I5", "fence went back")
def a_number_that_is_given_a_second_time() -> Events:
    return [*TAKEOVER, granted(7.5, 1, "w2"), asked(7.6), reply(7.9, process="w2")]


@bad("I5", "write without a grant")
def a_write_by_who_never_got_it() -> Events:
    return [*turn(1), wrote(3, 2, "append", "w2")]


@bad("I5", "write after the end")
def a_write_after_it_was_given_back() -> Events:
    return [*turn(1), wrote(3, 1, "append")]


def _alone(conversation: str, fence: int, process: str = "w1", at_s: float = 3.0) -> Events:
    """From a death on it has a worker for itself."""
    message = f"{'m' if conversation == 'c1' else 'x'}1"
    more: dict[str, Any] = {"conversation": conversation}
    return [
        post(0.5, message, **more), granted(at_s - 2, fence, process, **more),
        wrote(at_s, fence, BEGINS, process, partition="d:{0}", **more),
        asked(at_s + 1, message, process=process, **more), reply(at_s + 2, message, process=process, **more),
        wrote(at_s + 3, fence, "settle", process, **more),
    ]  # fmt: skip


BESIDE = {"conversation": "c2"}


@bad("I5", "something beside it")
def a_neighbour_in_the_hands_of_a_worker_that_one_has_for_itself() -> Events:
    return [*_alone("c1", 1), *other(turn(1.5, fence=2))[:2], *other(turn(3.5, fence=2))[3:]]


@bad("I5", "something beside it")
def a_neighbour_that_such_a_worker_takes() -> Events:
    return [*_alone("c1", 1), *other(turn(3.5, fence=2))]


@bad("I5", "two with a worker each")
def two_that_have_a_worker_for_themselves() -> Events:
    return [*_alone("c1", 1), *_alone("c2", 2, "w2", at_s=4.0)]


# ---- I6: told ----


@bad("I6", "told after 100.9 s")
def an_answer_that_comes_too_late() -> Events:
    return [post(1.0), asked(1.2), reply(101.9)]


@bad("I6", "told after 61.0 s")
def a_notice_that_comes_too_late_although_redis_was_away_for_a_while() -> Events:
    return [post(1.0), Fault(2, "redis", "away"), Fault(12, "redis", "back"), notice(72)]


@bad("I6", "told after 71.0 s")
def an_answer_that_comes_too_late_as_a_worker_slept() -> Events:
    return [post(1.0), asked(1.2), Fault(2, "w1", "hold"), Fault(70, "w1", "heal"), reply(72)]


@bad("I6", "told after 98.0 s")
def an_answer_whose_last_part_comes_too_late() -> Events:
    return [post(1.0), asked(1.2), reply(2, part=1, parts=2), reply(99.0, part=2, parts=2)]


# ---- I7: well-formed ----


@bad("I7", "malformed")
def a_call_without_its_result() -> Events:
    orphan = asked(7.6, process="w2", problem="`tool_use` ids were found without `tool_result` blocks")
    return [*TAKEOVER, *LATER[:1], orphan, *LATER[2:]]


@bad("I7", "malformed send")
def a_send_that_the_platform_can_not_read() -> Events:
    return [*turn(1), Refused(2.0, "", 400, "not a reply")]


# ---- I8: sealed ----

SECRET = [post(1.0, canary="kiwi-7"), asked(1.1, canaries=("kiwi-7",)), reply(1.5, text="kiwi-7, is it?")]


@bad("I8", "crossed in a message")
def a_word_of_one_conversation_said_in_another() -> Events:
    return [
        *SECRET,
        *[replace(one, text="It is (kiwi-7).") if isinstance(one, Accepted) else one for one in other(turn(3))],
    ]


@bad("I8", "crossed to the model")
def a_word_of_one_conversation_in_the_request_of_another() -> Events:
    crossed = [replace(one, canaries=("kiwi-7",)) if isinstance(one, Asked) else one for one in other(turn(3))]
    return [*SECRET, *crossed]


@bad("I8", "crossed to the model")
def a_word_of_nobody_here_in_a_request() -> Events:
    return [SECRET[0], asked(1.1, canaries=("kiwi-7", "plum-1")), *SECRET[2:]]


@bad("I8", "answered elsewhere")
def an_answer_in_the_wrong_conversation_too() -> Events:
    return [*turn(1), *other(turn(3)), reply(4, "m1", conversation="c2", key="astray")]


@bad("I8", "crossed at rest")
def a_word_in_a_log() -> Events:
    return [*SECRET, Found(END_S, "log worker-1", "line 7", canary="kiwi-7")]


@bad("I8", "crossed at rest")
def a_word_under_the_key_of_another_conversation() -> Events:
    return [*SECRET, *other(turn(3)), Found(END_S, "redis", "c:2:history", canary="kiwi-7", conversation="c2")]


# ---- I9: bounded ----


@bad("I9", "retry storm")
def the_model_asked_again_and_again() -> Events:
    return [post(1.0), *[asked(1.1 + one / 10) for one in range(5)], reply(2)]


@bad("I9", "retry storm")
def an_answer_that_was_saved_and_asked_for_again_and_again() -> Events:
    return [*TAKEOVER, *[asked(7.55 + one / 100) for one in range(3)], *LATER]


@bad("I9", "retry storm")
def the_model_asked_again_without_a_fault_as_faults_come_later() -> Events:
    later = [Fault(20.0 + one, "w1", "kill") for one in range(5)]
    return [
        post(1.0),
        asked(1.1),
        asked(1.2),
        reply(2),
        *later,
        Fault(0.5, "w2", "started"),
        Fault(1.15, "w2", "started"),
    ]


@bad("I9", "asked for what was kept")
def an_answer_that_was_saved_and_is_asked_for_once_more() -> Events:
    kept = wrote(1.4, 1, "append", answers=("m1.s0",))
    events = [replace(one, answer="m1.s0") if isinstance(one, Asked) else one for one in (*TAKEOVER, *LATER)]
    return [*events, kept]


@bad("I9", "asked again without a fault")
def an_answer_asked_for_again_as_another_process_died() -> Events:
    again = [asked(at_s, answer="m1.s0", process="w1") for at_s in (1.1, 1.6)]
    return [post(1.0, calls=2), *again, Fault(1.3, "w9", "kill"), reply(2)]


@bad("I9", "asked again without a fault")
def a_summary_asked_for_again_and_again() -> Events:
    return [*turn(1), *[asked(1.55 + one / 100, answer="m1.sum", purpose="summary") for one in range(2)]]


@bad("I9", "too many calls", Rules(ratio_from=1))
def a_storm_of_summaries() -> Events:
    return [*turn(1), *[asked(1.55 + one / 100, purpose="summary") for one in range(3)]]


@bad("I9", "retry storm")
def deaths_of_others_that_are_no_reason_to_ask_again() -> Events:
    others = [Fault(1.05 + one / 10, "w9", "kill") for one in range(5)]
    return [post(1.0), granted(1.05, 1), *[asked(1.1 + one / 10, process="w1") for one in range(3)], *others, reply(2)]


@bad("I9", "too many calls", Rules(ratio_from=1))
def the_model_asked_about_nothing() -> Events:
    return [*turn(1), replace(asked(1.4), said=())]


@bad("I9", "asked after the answer")
def the_model_asked_for_what_was_sent_already() -> Events:
    return [*turn(1), KILL, asked(8.0, process="w2")]


@bad("I9", "too many calls", Rules(ratio_from=3))
def a_little_too_much_for_each() -> Events:
    events = [*turn(1), *turn(3, "m2", 2, ["m1"]), *turn(5, "m3", 3, ["m1", "m2"])]
    return [*events, asked(5.4, "m1", "m2", "m3"), KILL, Fault(5.2, "w1", "cut")]


@bad("I9", "storm of sends")
def a_send_that_is_refused_for_ever() -> Events:
    return [*turn(1), *[Refused(1.71 + one / 1000, "c1", 403, key="k") for one in range(40)]]


# ---- I10: alone ----


@bad("I10", "left behind")
def a_lease_that_is_left() -> Events:
    return [*turn(1), Found(END_S, "redis", "due")]


@bad("I10", "left behind")
def a_file_that_is_left() -> Events:
    return [*turn(1), Found(END_S, "temporary files", "run-1/")]


@bad("I10", "ended with 3")
def a_process_that_does_not_end_well() -> Events:
    return [*turn(1), Fault(3.0, "w1", "exit"), Fault(3.5, "w1", "ended", "3")]


@bad("I10", "never back")
def a_redis_that_never_came_back() -> Events:
    return [*turn(1), Fault(END_S - 1, "redis", "away")]


@bad("I10", "not back", Rules(back_within_s=30))
def a_conversation_that_is_slow_after_the_last_fault() -> Events:
    return [*TAKEOVER, *LATER, post(9, "m2"), asked(45, "m1", "m2"), reply(46, "m2")]


@bad("I10", "not asked after the last fault", Rules(back_within_s=30))
def a_conversation_of_which_nobody_knows_whether_it_is_back() -> Events:
    return [*TAKEOVER, *LATER]


# ---- odd, and right ----


@good()
def nothing_special() -> Events:
    return [*turn(1), *turn(3, "m2", 2, ["m1"]), *other(turn(1))]


@good()
def a_death_and_a_takeover() -> Events:
    return [*TAKEOVER, *LATER]


@good()
def a_death_before_anything_and_another_after_everything() -> Events:
    return [post(1.0, status=0), Fault(1.05, "g1", "kill"), *turn(3), Fault(3.85, "w1", "kill")]


@good()
def nobody_promised_anything() -> Events:
    return [post(1.0, status=503), post(2, status=0), *turn(5, "m2")]


@good()
def answered_although_the_2xx_never_arrived() -> Events:
    return [post(1.0, status=0), *without(turn(2), Posted)]


@good()
def delivered_five_times_under_three_events() -> Events:
    return [*turn(1), *[post(1.2 + one, delivery=f"e{one % 3}") for one in range(5)]]


@good()
def sent_again_to_a_platform_that_knows_the_key() -> Events:
    return [*TAKEOVER, reply(1.45), *LATER[:1], reply(7.9, process="w2", repeated=True), *LATER[3:]]


@good(Rules(sending="repeat"))
def sent_again_where_nobody_can_know_and_told() -> Events:
    return [*TAKEOVER, reply(1.45, key=""), *LATER, remark(8.1)]


@good(Rules(sending="skip"))
def not_sent_again_where_nobody_can_know_and_told() -> Events:
    return [*TAKEOVER, granted(7.5, 2, "w2"), remark(7.9, process="w2")]


@good(Rules(sending="skip"))
def a_part_not_sent_again_and_told() -> Events:
    return [*TAKEOVER, *parts(1.35, 2, 1), granted(7.5, 2, "w2"), remark(7.9, process="w2")]


@good(Rules(sending="skip"))
def the_first_part_not_sent_again_and_told_before_the_others() -> Events:
    return [*TAKEOVER, granted(7.5, 2, "w2"), remark(7.6, process="w2"), *parts(7.7, 3, 2, 3, process="w2")]


@good()
def a_refused_write_of_who_has_lost_it() -> Events:
    return [*TAKEOVER, *LATER, Fault(9, "w1", "continue"), wrote(9.1, 1, "append", verdict="FENCED")]


@good()
def a_write_told_done_as_its_first_answer_was_lost() -> Events:
    return [*turn(1), wrote(2.2, 1, "settle", verdict="DONE")]


@good()
def a_write_and_a_grant_on_the_wire_at_the_same_time() -> Events:
    events = [
        post(1.0),
        granted(1.1, 1),
        asked(1.2),
        wrote(7.4, 1, "append", begin_s=7.3),
        granted(7.5, 2, "w2", begin_s=7.2),
    ]
    return [*events, reply(7.9, process="w2")]


@good()
def a_send_that_arrived_just_as_the_next_one_was_granted_it() -> Events:
    return [*turn(1)[:-2], granted(1.9, 2, "w2"), reply(2.1, begin_s=1.95, process="w1")]


@good()
def a_late_question_to_the_model_of_who_has_lost_it() -> Events:
    late = [Fault(9, "w1", "continue"), asked(9.1, "m1", process="w1")]
    stopped = [*TAKEOVER[:-1], Fault(1.5, "w1", "stop")]
    return [*stopped, *LATER, post(8.5, "m2"), asked(8.7, "m1", "m2"), reply(9.5, "m2"), *late]


@good()
def several_messages_answered_together() -> Events:
    return [post(1.0), post(1.1, "m2"), asked(1.2, "m1", "m2"), reply(2, "m1", "m2")]


@good()
def two_parts_of_an_answer_to_two() -> Events:
    return [
        post(1.0),
        post(1.1, "m2"),
        asked(1.2, "m1", "m2"),
        *[reply(2 + n, "m1", "m2", part=n, parts=2) for n in (1, 2)],
    ]


@good()
def a_growing_answer_that_becomes_the_answer() -> Events:
    grows = [Accepted(1.4 + one / 10, "c1", id="g1", what="growing", edit_of="g1" if one else "") for one in range(3)]
    return [post(1.0), asked(1.1), *grows, reply(2, key="", edit_of="g1")]


@good()
def a_growing_answer_taken_back_and_sent_anew() -> Events:
    half = Accepted(1.4, "c1", id="g1", what="growing")
    return [*TAKEOVER, half, Accepted(7.7, "c1", what="deleted", edit_of="g1"), *LATER]


@good()
def a_growing_answer_that_becomes_a_notice() -> Events:
    half = Accepted(1.4, "c1", id="g1", what="growing")
    return [post(1.0), asked(1.1), half, notice(3, key="", edit_of="g1")]


@good()
def a_later_message_answered_first_as_the_earlier_one_came_too_late() -> Events:
    return [
        post(1.0, "m2"),
        asked(1.2, "m2"),
        reply(1.6, "m2"),
        post(4.0, "m1"),
        asked(4.2, "m2", "m1"),
        reply(4.5, "m1"),
    ]


@good()
def a_later_message_answered_first_as_the_earlier_one_was_refused_for_long() -> Events:
    late = [post(1.0, "m1", status=503, said_s=0.8), post(7.0, "m1", said_s=0.8)]
    first = [post(6.9, "m2"), asked(7.5, "m2"), reply(7.6, "m2")]
    return [*late, *first, asked(7.7, "m2", "m1"), reply(7.8, "m1")]


@good()
def a_message_that_came_while_a_slow_worker_had_looked_and_not_yet_taken() -> Events:
    late = [
        post(1.0, "m2"),
        granted(1.5, 1),
        post(1.8, "m1"),
        wrote(3.0, 1, "take"),
        asked(3.2, "m2"),
        reply(3.5, "m2"),
    ]
    return [*late, wrote(3.6, 1, "take"), asked(3.7, "m2", "m1"), reply(4, "m1")]


@good(Rules(hold_back_s=0.3))
def swapped_while_another_turn_ran() -> Events:
    running = [post(1.0, "m0"), asked(1.1, "m0"), reply(2.0, "m0")]
    return [*running, post(1.95, "m2"), asked(2.05, "m0", "m2"), post(2.15, "m1"), reply(2.4, "m2"), *_late_first()]


def _late_first() -> Events:
    return [asked(2.5, "m0", "m2", "m1"), reply(2.8, "m1")]


@good()
def a_tool_that_ran_once_and_was_not_run_again() -> Events:
    return [*TAKEOVER, effect(1.4), effect(1.45, "done"), *LATER]


@good()
def an_outcome_that_nobody_knows_told_to_the_model() -> Events:
    told = [replace(one, unknown=("s1",)) if isinstance(one, Asked) else one for one in LATER]
    return [*TAKEOVER, effect(1.4), *told]


@good()
def a_read_and_a_keyed_tool_run_again() -> Events:
    keyed = [effect(at_s, policy="idempotent", key="k", process=who) for at_s, who in ((1.4, "w1"), (7.55, "w2"))]
    looked = [effect(at_s, policy="read", step="s2", process=who) for at_s, who in ((1.4, "w1"), (7.55, "w2"))]
    return [*TAKEOVER, *keyed, *looked, *LATER]


@good()
def a_result_that_the_tool_gave() -> Events:
    ran = [effect(1.2), effect(1.3, "done", receipt="w7")]
    return [post(1.0, calls=2), asked(1.1), *ran, told(1.5, "s1=w7"), reply(2)]


@good()
def an_effect_that_was_done_and_nobody_knows() -> Events:
    ran = [effect(1.4), effect(1.45, "done", receipt="w7")]
    return [*TAKEOVER, *ran, LATER[0], told(7.6, "s1=", unknown=("s1",), process="w2"), *LATER[2:]]


@good()
def a_call_that_perhaps_never_got_there() -> Events:
    return [*TAKEOVER, LATER[0], told(7.6, "s1=", unknown=("s1",), process="w2"), *LATER[2:]]


@good()
def siblings_of_which_only_the_one_that_was_lost_is_run_again() -> Events:
    kept = wrote(1.45, 1, "append", results=("s2",))
    read_ = [effect(at_s, step=step, policy="read", process=who) for at_s, step, who in _SIBLINGS]
    return [*TAKEOVER, *read_, kept, *LATER]


_SIBLINGS = ((1.4, "s2", "w1"), (1.42, "s3", "w1"), (7.55, "s3", "w2"))


@good(Rules(notices_max=0))
def a_command_that_is_answered_by_a_notice() -> Events:
    return [*turn(1), post(3.0, "m2", wants="notice"), notice(3.5, "m2")]


@good()
def an_answer_in_parts_with_blanks_of_the_platform() -> Events:
    return [post(1.0), saying(1.2, "One.\n\nTwo."), *_two("One.\n", "Two.")]


@good(Rules(sending="skip"))
def a_part_of_a_text_not_sent_again_and_told() -> Events:
    said = [replace(one, text="One. Two.", answer="m1.s0") if isinstance(one, Asked) else one for one in TAKEOVER]
    return [*said, *parts(1.35, 2, 1, text="One."), granted(7.5, 2, "w2"), remark(7.9, process="w2")]


@good()
def a_card_that_became_void_and_another_one() -> Events:
    void = card(7.55, "", id="card 1.4", edit_of="card 1.4")
    return [*TAKEOVER, card(1.4), granted(7.5, 2, "w2"), void, card(7.56, "XY7"), *LATER[1:]]


@good()
def two_calls_that_wait_for_a_word_each() -> Events:
    return [*turn(1), card(1.4), card(1.5, "XY7", "s2")]


@good(Rules(sending="skip"))
def a_card_again_where_nobody_can_know() -> Events:
    return [*TAKEOVER, card(1.4), card(7.55), *LATER]


@good()
def a_note_that_was_found_and_changed_into_itself() -> Events:
    note = Accepted(1.4, "c1", id="n1", what="note", step="s1")
    return [*TAKEOVER, note, *LATER, replace(note, at_s=7.7, edit_of="n1")]


@good(Rules(sending="repeat"))
def a_note_again_where_nobody_can_know() -> Events:
    note = Accepted(1.4, "c1", id="n1", what="note", step="s1")
    return [*TAKEOVER, note, *LATER, replace(note, at_s=7.7, id="n2")]


@good()
def asked_again_for_what_was_lost_with_who_asked() -> Events:
    return [replace(one, answer="m1.s0") if isinstance(one, Asked) else one for one in (*TAKEOVER, *LATER)]


@good()
def asked_for_what_was_kept_by_who_has_lost_it() -> Events:
    late = [Fault(9, "w1", "continue"), asked(9.1, process="w1", answer="m1.s0")]
    events = [replace(one, answer="m1.s0") if isinstance(one, Asked) else one for one in (*TAKEOVER[:-1], *LATER)]
    return [*events, Fault(1.5, "w1", "stop"), wrote(7.7, 2, "append", "w2", answers=("m1.s0",)), *late]


@good()
def a_summary_asked_for_again_by_the_next_one() -> Events:
    sums = [asked(at_s, answer="m1.sum", purpose="summary", process=who) for at_s, who in ((1.35, "w1"), (7.55, "w2"))]
    return [*TAKEOVER, *sums, *LATER]


@good()
def asked_again_as_redis_took_the_answer_with_it() -> Events:
    away = [Fault(1.2, "redis", "away"), Fault(1.4, "redis", "back")]
    return [
        post(1.0),
        asked(1.1, answer="m1.s0", process="w1"),
        *away,
        asked(2.6, answer="m1.s0", process="w1"),
        reply(3),
    ]


@good()
def a_turn_that_was_buried_and_the_next_one_without_it() -> Events:
    buried = [post(1.0), asked(1.2), notice(2)]
    return [*buried, post(3, "m2"), asked(3.1, "m2"), reply(3.5, "m2")]


@good()
def long_waiting_as_redis_was_away() -> Events:
    return [post(1.0), Fault(1.1, "redis", "away"), Fault(91, "redis", "back"), asked(92), reply(95)]


@good()
def asked_once_more_for_each_death() -> Events:
    deaths = [Fault(1.5, "w1", "kill"), Fault(9.0, "w2", "kill")]
    return [post(1.0), asked(1.3), asked(7.6), asked(15.2), *deaths, reply(16)]


@good()
def a_platform_that_says_for_nothing_what_it_answers() -> Events:
    said = [post(1.0), post(1.1, "m2"), asked(1.2, "m1"), asked(2.2, "m1", "m2")]
    return [*said, *[Accepted(at_s, "c1", id=f"i{at_s}") for at_s in (2.0, 3.0)]]


@good(Rules(back_within_s=30))
def all_well_again_after_the_last_fault() -> Events:
    return [*TAKEOVER, *LATER, post(9, "m2"), asked(9.2, "m1", "m2"), reply(9.8, "m2", process="w2")]


@good(PUT_AWAY)
def a_summary_and_what_it_is_not_of() -> Events:
    return away("c1.sum", "m2", "m3")


@good(PUT_AWAY)
def a_summary_that_was_lost_with_who_asked_for_it() -> Events:
    return without_kept(away("m1", "m2", "m3"))


@good()
def a_turn_given_up_with_a_letter() -> Events:
    buried = [granted(7.5, 2, "w2"), wrote(7.6, 2, "bury", "w2"), notice(7.9, process="w2")]
    return [*TAKEOVER, *buried, Letter(END_S, "c1", "8 holders died")]


@good()
def a_neighbour_that_was_given_back_before_one_has_the_worker_for_itself() -> Events:
    leaves = wrote(2.0, 2, "hand_over", releases=True, **BESIDE)
    return [*_alone("c1", 1), *other(turn(1.5, fence=2))[:3], leaves, *_other_worker(turn(2.5, fence=3))[1:]]


@good()
def a_neighbour_that_somebody_else_has_got_before_one_has_the_worker_for_itself() -> Events:
    return [*_alone("c1", 1), *other(turn(1.5, fence=2))[:2], *_other_worker(turn(2.5, fence=3))[1:]]


@good()
def a_neighbour_that_is_taken_when_the_worker_is_free_again() -> Events:
    return [*_alone("c1", 1), *other(turn(6.5, fence=2))]


@good()
def one_behind_the_other_with_a_worker_for_itself() -> Events:
    return [*_alone("c1", 1), *_alone("c2", 2, "w2", at_s=6.5)]


@good()
def two_with_a_worker_each_in_two_partitions() -> Events:
    elsewhere = [replace(one, partition="d:{1}") if isinstance(one, Wrote) else one for one in _alone("c2", 2, "w2")]
    return [*_alone("c1", 1), *elsewhere]


@good()
def one_that_has_a_worker_for_itself_behind_the_death_of_another_that_had() -> Events:
    died = [*_alone("c1", 1)[:3], Fault(3.5, "w1", "kill")]
    again = [granted(9, 3, "w3"), *_other_worker(turn(9, fence=3), "w3", "c1")[2:]]
    return [*died, *_alone("c2", 2, "w2", at_s=5.0), *again]


def _other_worker(events: Events, process: str = "w2", conversation: str = "c2") -> Events:
    """The same there; in another conversation, if it is not the first."""
    moved: Events = []
    for event in events if conversation == "c1" else other(events, conversation):
        match event:
            case Granted() | Wrote():
                moved.append(replace(event, process=process, token=f"{event.fence}-{process}"))
            case Asked() | Accepted():
                moved.append(replace(event, process=process))
            case _:
                moved.append(event)
    return moved


@good()
def a_process_that_ends_as_it_was_asked() -> Events:
    return [*turn(1), Fault(3.0, "w1", "exit"), Fault(3.5, "w1", "ended", "0")]


@good(Rules(summarises=True))
def a_history_that_was_summarised() -> Events:
    return [*turn(1), *turn(3, "m2", 2)]


@good()
def words_of_its_own_in_all_places_of_a_conversation() -> Events:
    return [*SECRET, Found(END_S, "redis", "c:1:history", canary="kiwi-7", conversation="c1"), *other(turn(3))]


@pytest.mark.parametrize("name", BAD)
def test_what_is_broken_is_named_and_nothing_else(name: str) -> None:
    invariant, what, make, rules = BAD[name]
    verdict = check(History.of([*make(), Ended(END_S)]), rules)
    found = {(one.invariant, one.what) for one in verdict.violations}
    assert len(found) == 1, verdict.report()
    [(in_fact, named)] = found
    assert in_fact == invariant
    assert named.startswith(what), named
    assert all(one.evidence or one.about for one in verdict.violations)
    assert what in verdict.report()


@pytest.mark.parametrize("name", GOOD)
def test_what_only_looks_odd_passes(name: str) -> None:
    make, rules = GOOD[name]
    verdict = check(History.of([*make(), Ended(END_S)]), rules)
    assert not verdict.violations, verdict.report()


def test_each_invariant_is_broken_by_some_history() -> None:
    assert {invariant for invariant, *_ in BAD.values()} == set(INVARIANTS)
    assert len(BAD) >= 30


@pytest.mark.parametrize("name", BAD)
def test_the_order_of_lines_in_the_ledgers_does_not_matter(name: str) -> None:
    _, _, make, rules = BAD[name]
    events = make()
    whole = History.of([*events, Ended(END_S)])
    turned = History.of([Ended(END_S), *reversed(events)])
    assert {str(one) for one in check(turned, rules).violations} == {str(one) for one in check(whole, rules).violations}


def test_a_run_of_thousands_is_checked_in_a_moment() -> None:
    events: Events = []
    for number in range(3_000):
        events += turn(number * 2, f"m{number}", number + 1, [f"m{number - 1}"] if number else [])
    verdict = check(History.of([*events, Ended(10_000)]), Rules(summarises=True))
    assert not verdict.violations, verdict.report()
    assert verdict.counts["messages"] == verdict.counts["replies"] == 3_000


def test_it_says_what_it_has_looked_at() -> None:
    counts = check(History.of([*TAKEOVER, *LATER, Ended(END_S)])).counts
    assert counts["messages"] == counts["taken"] == counts["replies"] == counts["kills"] == 1
    assert counts["grants"] == 2


def test_each_conversation_is_judged_by_its_own_rules() -> None:
    given_up = [*TAKEOVER, notice(7.9)]
    begun = [Began(0.0, "sweep", rules={"notices_max": 0}), Began(9.0, rules={"notices_max": 1}, conversation="c1")]
    verdict = check(History.of([*begun, *given_up, *other(without(given_up, Fault)), Ended(END_S)]))
    assert [(one.invariant, one.conversation) for one in verdict.violations] == [("I1", "c2")], verdict.report()


def test_a_kept_folder_is_checked_by_hand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: dict[str, Events] = {"good": turn(1), "bad": [post(1.0)]}
    for name, events in runs.items():
        (tmp_path / name).mkdir()
        with Ledger(tmp_path / name / "all.jsonl") as ledger:
            for event in [Began(0.0, name, 1, {"told_within_s": 40}), *events, Ended(END_S)]:
                ledger.write(event)
    assert check(read(tmp_path / "good")).violations == ()
    for name, code in {"good": 0, "bad": 1}.items():
        monkeypatch.setattr("sys.argv", ["checking", str(tmp_path / name)])
        assert checking.main() == code
        assert ("I1 lost: c1, m1" in capsys.readouterr().out) == bool(code)


def test_what_can_not_be_judged_by_hand_is_told_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("empty", "torn", "broken_off"):
        (tmp_path / name).mkdir()
    (tmp_path / "torn" / "all.jsonl").write_text("{}\n")
    with Ledger(tmp_path / "broken_off" / "all.jsonl") as ledger:
        for event in [Began(0.0, "crowd", 1), post(1.0)]:
            ledger.write(event)
    wanted = {
        "gone": "No such file", "empty": "no ledgers in", "torn": "all.jsonl:1: no such kind", "broken_off": "this run was broken off",
    }  # fmt: skip
    for name, word in wanted.items():
        monkeypatch.setattr("sys.argv", ["checking", str(tmp_path / name)])
        assert checking.main() == 2
        said = capsys.readouterr()
        assert word in (said.out + said.err).splitlines()[-1]
        assert bool(said.out) == (name == "broken_off")
