from typing import Any

from gateway.conversation.records import Record
from gateway.events import Actor, Event
from gateway.platforms.webchat import conversation_key
from gateway.web.transcript import Transcript, transcript


def event(text: str, number: str = "m1") -> Event:
    return Event(
        kind="message",
        conversation=conversation_key("c1", "0" * 32),
        actor=Actor("0" * 32),
        dedupe_keys=(f"message:{number}",),
        at_ms=5,
        message_id=number,
        text=text,
    )


def taken(text: str, number: str = "m1") -> dict[str, Any]:
    import json  # noqa: PLC0415 - the record holds the event as an object

    return {"type": "event", "event": json.loads(event(text, number).dump()), "turn": "t"}


def of(
    *records: dict[str, Any], first: int = 0, inbox: tuple[Event, ...] = (), control: tuple[Event, ...] = ()
) -> Transcript:
    lines = [Record(record["type"], 7, {k: v for k, v in record.items() if k != "type"}).dump() for record in records]
    waiting = [f"{at:012}:{one.dump()}".encode() for at, one in enumerate(inbox)]
    return transcript([line.encode() for line in lines], first, waiting, [one.dump().encode() for one in control])


def brief(shown: Transcript) -> list[tuple[str, ...]]:
    return [(item.kind, item.text or item.name, item.state) for item in shown.items]


def tool(name: str, number: str = "1") -> dict[str, Any]:
    return {"type": "tool_start", "step": 1, "id": number, "name": name, "effect": "read"}


def result(name: str, number: str = "1", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "step": 1, "id": number, "name": name, "text": "…", **more}


def test_nothing_is_shown_of_nothing() -> None:
    assert of() == Transcript((), running=False, earlier=False)


def test_items_stand_in_their_order_with_a_place_that_stays() -> None:
    shown = of(
        taken("hello"),
        {"type": "call", "step": 1},
        {"type": "answer", "step": 1, "content": [], "model": "rehearsal"},
        {"type": "reply", "text": "hi"},
        taken("again", "m2"),
    )
    assert brief(shown) == [("person", "hello", ""), ("reply", "hi", ""), ("person", "again", "")]
    assert [item.index for item in shown.items] == [0, 3, 4]
    assert shown.items[1].model == "rehearsal"
    assert shown.running


def test_a_loaded_skill_is_one_line() -> None:
    loaded = [tool("load_skill"), result("load_skill"), {"type": "skill", "id": "财务/导出报表", "text": "…"}]
    assert brief(of(taken("x"), *loaded))[1:] == [("step", "财务/导出报表", "done")]


def test_what_is_read_of_a_skill_is_a_line_as_well() -> None:
    read = [tool("load_skill"), result("load_skill", shown="web-access", skill="web-access")]
    [item] = of(taken("x"), *read).items[1:]
    assert (item.step, item.name, item.state) == ("skill", "web-access", "done")


def test_a_skill_that_did_not_come_is_a_failed_line() -> None:
    failed = [tool("load_skill"), result("load_skill", shown="nope", error=True)]
    [item] = of(taken("x"), *failed).items[1:]
    assert (item.step, item.name, item.state) == ("skill", "nope", "failed")


def test_results_belong_to_their_own_calls() -> None:
    shown = of(taken("x"), tool("a", "1"), tool("b", "2"), result("b", "2", error=True))
    assert brief(shown)[1:] == [("step", "a", "running"), ("step", "b", "failed")]


def test_a_program_goes_by_the_id_of_its_skill_while_it_runs_and_however_it_ends() -> None:
    start = tool("skill_3fa9") | {"shown": "财务/日报"}
    assert brief(of(taken("x"), start))[1:] == [("step", "财务/日报", "running")]
    assert brief(of(taken("x"), start, result("skill_3fa9", shown="财务/日报")))[1:] == [("step", "财务/日报", "done")]
    assert brief(of(taken("x"), tool("skill_3fa9"), result("skill_3fa9", shown="财务/日报", error=True)))[1:] == [
        ("step", "财务/日报", "failed")
    ]


def test_a_card_is_told_from_a_notice_that_ends_the_turn() -> None:
    shown = of(taken("x"), {"type": "card", "text": "asked"}, {"type": "reply", "text": "done", "notice": True})
    assert [(item.text, item.notice, item.card) for item in shown.items[1:]] == [
        ("asked", True, True),
        ("done", True, False),
    ]


def test_a_tool_that_a_rule_refused_is_a_failed_line_and_one_that_a_person_refused_is_not() -> None:
    assert brief(of(taken("x"), result("web_fetch", error=True)))[1:] == [("step", "web_fetch", "failed")]
    refused = result("web_fetch", error=True, refused=True)
    assert brief(of(taken("x"), refused))[1:] == [("step", "web_fetch", "refused")]


def test_what_was_stopped_did_not_fail() -> None:
    stop, end = taken("/stop", "m2"), {"type": "reply", "text": "Stopped.", "notice": True}
    shown = of(taken("x"), tool("a", "1"), tool("b", "2"), stop, result("a", "1", error=True), end)
    assert [item.state for item in shown.items if item.kind == "step"] == ["stopped", "stopped"]


def card(code: str = "ABC") -> dict[str, Any]:
    return {
        "type": "card",
        "text": "May I?",
        "buttons": [["Allow", f"approve {code}", "primary"], ["Refuse", f"deny {code}", "danger"]],
    }


def test_a_cards_buttons_are_there_until_somebody_has_decided_or_the_turn_is_over() -> None:
    asked = {"type": "asked", "code": "ABC", "kind": "approval"}
    open_now = of(taken("x"), asked, card())
    assert open_now.items[1].buttons[0] == {"label": "Allow", "command": "approve ABC", "style": "primary"}
    assert open_now.asked
    decided = of(taken("x"), asked, card(), {"type": "decided", "code": "ABC", "word": "yes"})
    over = of(taken("x"), asked, card(), {"type": "reply", "text": "Stopped."})
    for shown in (decided, over):
        assert shown.items[1].buttons == ()
        assert not shown.asked
    assert len(of(taken("x"), card("NOTE")).items[1].buttons) == 2, "what no record decides stays"


def test_nothing_runs_any_more_after_the_reply() -> None:
    shown = of(taken("x"), tool("a"), {"type": "reply", "text": "Stopped.", "notice": True})
    assert brief(shown)[1] == ("step", "a", "failed")
    assert not shown.running


def test_a_closed_turn_without_a_reply_does_not_run() -> None:
    assert not of(taken("x"), {"type": "failed", "reason": "dead"}).running


def test_what_waits_is_shown_and_counts_as_running() -> None:
    shown = of(taken("x"), {"type": "reply", "text": "y"}, inbox=(event("next", "m2"), event("and next", "m3")))
    assert [(item.text, item.waiting) for item in shown.items[2:]] == [("next", True), ("and next", True)]
    assert shown.running


def test_a_stop_is_a_message_like_any_other_and_its_notice_answers_it() -> None:
    shown = of(taken("x"), taken("/STOP please", "m2"), {"type": "reply", "text": "Stopped.", "notice": True})
    assert brief(shown) == [("person", "x", ""), ("person", "/STOP please", ""), ("reply", "Stopped.", "")]
    assert [item.answers for item in shown.items] == ["", "", "m2"]
    later = of(taken("/stop"), {"type": "reply", "text": "-", "notice": True}, {"type": "reply", "text": "y"})
    assert [item.answers for item in later.items] == ["", "m1", ""]


def test_a_stop_that_nobody_has_looked_at_waits() -> None:
    shown = of(taken("x"), control=(event("/stop", "m2"),), inbox=(event("y", "m3"),))
    assert [(item.text, item.waiting) for item in shown.items] == [("x", False), ("/stop", True), ("y", True)]
    assert of(control=(event("/stop"),)).running


def test_an_answer_beside_the_turn_says_which_message_it_answers() -> None:
    shown = of(
        taken("x"),
        {"type": "card", "text": "asked"},
        taken("/status", "m2"),
        {"type": "card", "text": "It waits.", "of": "message:m2"},
    )
    assert [(item.text, item.answers) for item in shown.items] == [
        ("x", ""),
        ("asked", ""),
        ("/status", ""),
        ("It waits.", "m2"),
    ]


def test_notices_and_commands_are_said_by_no_model() -> None:
    answer = {"type": "answer", "step": 1, "content": [], "model": "m"}
    shown = of(
        taken("x"),
        answer,
        {"type": "reply", "text": "a", "notice": True},
        {"type": "reply", "text": "b", "command": True},
        {"type": "reply", "text": "c"},
    )
    assert [item.model for item in shown.items[1:]] == ["", "", "m"]
    assert [item.command for item in shown.items[1:]] == [False, True, False]


def test_records_of_later_versions_are_passed_over() -> None:
    assert brief(of({"type": "later", "x": 1}, taken("x"))) == [("person", "x", "")]


def test_earlier_history_is_mentioned() -> None:
    shown = of(taken("x"), first=40)
    assert shown.earlier
    assert shown.items[0].index == 40


def test_json_leaves_out_what_is_empty() -> None:
    shown = of(taken("x"), {"type": "reply", "text": "y"}).dump()
    assert shown["items"] == [
        {"kind": "person", "index": 0, "at_ms": 5, "id": "m1", "text": "x"},
        {"kind": "reply", "index": 1, "at_ms": 7, "text": "y"},
    ]


def test_a_plans_steps_stand_above_what_is_done_for_them_and_end_as_they_did() -> None:
    steps: list[Any] = [{"id": name, "task": f"read {name}", "needs": []} for name in "abc"]
    begun: list[dict[str, Any]] = [
        taken("/plan x"),
        {"type": "plan", "steps": steps},
        {"type": "given", "in": "step b"},
        tool("web_fetch"),
    ]
    assert brief(of(*begun))[1:] == [
        ("step", "read a", "waiting"), ("step", "read b", "running"), ("step", "read c", "waiting"),
        ("step", "web_fetch", "running"),
    ]  # fmt: skip
    ends: list[dict[str, Any]] = [
        {"type": "step_done", "id": "a", "text": "1"},
        {"type": "step_done", "id": "b", "text": "-", "failed": True},
    ]
    assert [state for _, _, state in brief(of(*begun, *ends))[1:4]] == ["done", "failed", "waiting"]
    stopped = of(*begun, *ends, {"type": "reply", "text": "Stopped.", "notice": True})
    assert [state for _, _, state in brief(stopped)[1:5]] == ["done", "failed", "failed", "failed"]


def test_what_was_taken_back_stays_on_the_page_and_nobody_waits_for_it() -> None:
    shown = of(taken("hello"), {**taken("never mind", "m2"), "type": "withdrawn"}, {"type": "reply", "text": "Hi."})
    assert [(item.text, item.waiting) for item in shown.items] == [
        ("hello", False),
        ("never mind", False),
        ("Hi.", False),
    ]
    assert not shown.running
