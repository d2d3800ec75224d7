"""What waits for a person: calls that want a yes, questions of the model, and whose word counts."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from gateway.audit.log import read
from gateway.conversation.key import ConversationKey
from gateway.conversation.overview import overview, waits_for_word
from gateway.events import Actor
from gateway.store import Layout
from tests.gateway.conversation.world import until
from tests.harness.fake_model import Asked
from tests.harness.model_replies import Reply, calls, says, several
from tests.harness.planning import acting, part, plan
from tests.workers.at_desk import WHERE, AtDesk, at_desk

MAX, LI, ANA, ADA = (Actor(f"U-{name.upper()}", name) for name in ("Max", "Li", "Ana", "Ada"))
OTHER_THREAD = ConversationKey("chat", "room", "t2")
ELSEWHERE = ConversationKey("chat", "elsewhere")
FILE = {"name": "a.txt", "content": "words\u200b of it"}

TOOLS = ("send_file", "ask_person", "current_time")

Opened = Callable[..., AbstractAsyncContextManager[AtDesk]]


@pytest.fixture
def opened(tmp_path: Path, redis_url: str, layout: Layout) -> Opened:
    def there(
        turn_s: float = 60.0, tools: Sequence[str] = TOOLS, **approvals: Any
    ) -> AbstractAsyncContextManager[AtDesk]:
        profile = {
            "tools": list(tools),
            "roles": {"admin": ["chat/U-ADA"], "approver": ["chat/U-LI"]},
            "approvals": {"ask": ["send_file"]} | approvals,
            "limits": {"turn_s": turn_s},
            "other_bots": "answer",
        }
        return at_desk(tmp_path, redis_url, layout.prefix, profile=profile)

    return there


def code_in(texts: list[str]) -> str:
    found = re.findall(r"/(?:approve|answer) ([A-Z2-7]{6})", "\n".join(texts))
    assert found, texts
    return str(found[-1])


def results(asked: Asked) -> list[str]:
    return [
        block["content"]
        for message in asked.request["messages"]
        for block in message["content"]
        if block["type"] == "tool_result"
    ]


def sends(**file: str) -> Reply:
    return calls("send_file", {**FILE, **file})


async def test_a_call_waits_for_a_yes_and_runs_once(opened: Opened) -> None:
    async with opened() as world:
        world.model.answer_with([sends(), says("Sent.")])
        [card] = await world.ask("send it")
        code = code_in([card])
        assert "words\\u200b of it" in card or "U+200B" in card
        assert len(world.model.asked) == 1
        told = await world.ask(f"/approve {code}", actor=LI)
        assert told[0].startswith(f"{code}: `Li` said yes")
        assert told[1:] == ["a.txt", "Sent."]
        again = await world.ask(f"/approve {code}", actor=LI)
        assert "decided already" in again[0]
        assert world.room.sent.count("a.txt") == 1


@pytest.mark.parametrize("word", ["yes", "No.", "OK!", "好的"])
async def test_a_plain_word_decides_on_no_call_and_is_told_what_does(opened: Opened, word: str) -> None:
    async with opened() as world:
        world.model.answer_with([sends(), says("Sent.")])
        code = code_in(await world.ask("send it"))
        [told] = await world.ask(word, actor=LI)
        assert f"`/approve {code}` allows it once, `/deny {code} [why]` refuses it." in told
        assert len(world.model.asked) == 1
        [refused] = await world.ask(word, actor=ANA)
        assert re.search(rf"You can't decide on {code} here: `/approve` needs .*roles\.approver", refused)
        assert (await world.ask(f"/approve {code}", actor=LI))[1:] == ["a.txt", "Sent."]
        assert word not in str(world.model.asked[-1].request["messages"]), "it was answered"
        world.model.answer_with(says("Well."))
        assert await world.ask(word, actor=LI) == ["Well."], "nothing waits any more: it is talk"


async def test_with_several_calls_open_a_plain_word_is_told_of_each(opened: Opened) -> None:
    async with opened() as world:
        world.model.answer_with(several(("send_file", FILE), ("send_file", {**FILE, "name": "b.txt"})))
        cards = await world.ask("send both")
        [told] = await world.ask("yes", actor=LI)
        assert sorted(re.findall(r"/approve ([A-Z2-7]{6})", told)) == sorted(code_in([card]) for card in cards)


async def test_a_no_reaches_the_model_with_its_reason(opened: Opened) -> None:
    async with opened() as world:
        world.model.answer_with([sends(), says("I leave it.")])
        code = code_in(await world.ask("send it"))
        assert (await world.ask(f"/deny {code} not today", actor=LI))[1:] == ["I leave it."]
        assert "Li said no: not today. It did not run" in results(world.model.asked[-1])[0]
        assert "a.txt" not in world.room.sent
        [result] = [one for one in await world.history() if one.type == "tool_result"]
        assert result.data["refused"], "nothing went wrong"
        [card] = [one for one in await world.history() if one.type == "card" and "buttons" in one.data]
        assert card.data["buttons"][0] == ["Allow", f"approve {code}", "primary"]


async def test_a_refused_no_names_who_may_and_in_chinese_too(opened: Opened) -> None:
    async with opened() as world:
        world.model.answer_with(sends())
        code = code_in(await world.ask("send it", actor=MAX))
        [refused] = await world.ask(f"/deny {code}", actor=Actor("U-ANA", "Ana", language="zh-CN"))
        assert f"你在这里不能决定 {code}：在这里使用 `/deny` 需要 `approver` 角色" in refused
        assert refused.endswith("\n有权限的人：`chat/U-LI`, `chat/U-MAX`。")


@pytest.mark.parametrize("own", [True, False])
async def test_whose_word_counts(opened: Opened, own: bool) -> None:
    """S-A1: the request stays open for whoever may."""
    async with opened(own=own) as world:
        world.model.answer_with([sends(), says("Sent.")])
        code = code_in(await world.ask("send it", actor=MAX))
        for who in (ANA, Actor("u-li", "Li"), Actor("U-L", "U-LI")):
            [refused] = await world.ask(f"/approve {code}", actor=who)
            assert f"You can't decide on {code} here: `/approve` needs the role `approver` here" in refused
            assert "roles.approver" in refused
            assert refused.endswith("\nWho may: `chat/U-LI`" + (", `chat/U-MAX`." if own else "."))
            assert world.room.parts[-1][1].only_for == who.id
        told = await world.ask(f"/approve {code}", actor=MAX)
        assert ("a.txt" in told) is own


async def test_a_press_says_what_the_button_carries(opened: Opened) -> None:
    async with opened() as world:
        world.model.answer_with([sends(), says("Sent.")])
        code = code_in(await world.ask("send it"))
        told = await world.ask(kind="action", name="button", value=f"approve {code}", actor=LI)
        assert "a.txt" in told
        assert world.room.pressed_as[-1][2] is True


async def test_it_is_answered_from_another_conversation_of_the_channel_and_from_no_other_channel(
    opened: Opened,
) -> None:
    """S-A2: a code is known in its channel alone."""
    async with opened() as world:
        world.model.answer_with([sends(), says("Sent.")])
        code = code_in(await world.ask("send it"))
        [told] = await world.ask(f"/approve {code}", ELSEWHERE, actor=LI)
        assert "Nothing is asked" in told
        passed = await world.ask(f"/approve {code}", OTHER_THREAD, actor=LI)
        assert "a.txt" in passed
        assert f"{code} is asked in another conversation here: your word went there" in "\n".join(passed)
        assert world.rung == [0], "nobody there waits for a poll"
        assert len([one for one in await world.history(OTHER_THREAD) if one.type == "reply"]) == 1


async def test_a_word_for_another_conversation_says_so_where_no_room_is_left_there(opened: Opened) -> None:
    async with opened() as world:
        world.model.answer_with([sends(), says("Sent.")])
        code = code_in(await world.ask("send it"))
        await world.say(f"/approve {code}", OTHER_THREAD, actor=LI)
        for number in range(world.desk.mailbox.settings.inbox_max):
            await world.say(f"meanwhile {number}")
        await world.work()
        assert any("too much waits" in one for one in world.room.sent)
        assert "a.txt" not in world.room.sent


async def test_what_nobody_answers_ends_with_word_of_it(opened: Opened) -> None:
    async with opened(wait_s=0.05) as world:
        world.model.answer_with([sends(), says("Nobody wanted it.")])
        code = code_in(await world.ask("send it"))

        async def ended() -> bool:
            await world.work()
            return world.room.sent[-1] == "Nobody wanted it."

        await until(ended, 10.0)
        assert "Nobody said yes in time" in results(world.model.asked[-1])[0]
        [late] = await world.ask(f"/approve {code}", actor=LI)
        assert "over" in late


async def test_a_yes_that_comes_too_late_is_none(opened: Opened) -> None:
    """S-A2: an old one is void."""
    async with opened(wait_s=1.0) as world:
        world.model.answer_with([sends(), says("Nobody wanted it.")])
        code = code_in(await world.ask("send it"))
        asked = next(one for one in await world.history() if one.type == "asked")
        await until(lambda: _is_past(world, asked.data["until_ms"]), 10.0)
        late, after = await world.ask(f"/approve {code}", actor=LI)
        assert "over" in late
        assert after == "Nobody wanted it."
        assert "a.txt" not in world.room.sent


async def test_a_bot_answers_for_nobody(opened: Opened) -> None:
    async with opened() as world:
        bot = Actor("U-LI", "Li", is_bot=True)
        world.model.answer_with([sends(), calls("ask_person", {"question": "Which?"}), says("Well."), says("Beep.")])
        code = code_in(await world.ask("send it"))
        assert "You can't decide" in (await world.ask(f"/approve {code}", actor=bot))[0]
        await world.ask(f"/deny {code}", actor=LI)
        question = code_in(world.room.sent)
        assert "bot can't answer" in (await world.ask(f"/answer {question} red", actor=bot))[0]
        assert await world.ask("red", actor=bot) == []
        assert (await world.ask(f"/answer {question} blue", actor=ANA))[1:] == ["Well.", "Beep."]
        assert "Ana answered: blue" in results(world.model.asked[2])


async def test_a_code_that_is_asked_here_no_more_is_not_passed_on_for_ever(opened: Opened) -> None:
    async with opened() as world:
        world.model.answer_with([sends(), says("Well.")])
        code = code_in(await world.ask("send it"))
        await world.ask("/stop")
        await world.ask("/new")
        assert "Nothing is asked" in (await world.ask(f"/approve {code}", actor=LI))[0]


async def test_the_yes_counts_only_while_who_said_it_may(opened: Opened, tmp_path: Path) -> None:
    async with opened(own=False) as world:
        world.model.answer_with([sends(), says("Well.")])
        code = code_in(await world.ask("send it"))
        profile = tmp_path / "profiles/default.yaml"
        loaded = await world.desk.watched.current()

        original = world.desk.mailbox.take

        async def then_he_is_no_approver(*arguments: Any, **named: Any) -> None:
            await original(*arguments, **named)
            profile.write_text(profile.read_text().replace("U-LI", "U-NOBODY"))
            await until(lambda: _changed(world, loaded), 10.0)

        world.desk.mailbox.take = then_he_is_no_approver  # type: ignore[method-assign]
        await world.ask(f"/approve {code}", actor=LI)
        assert "may not do so any more" in results(world.model.asked[-1])[0]
        assert "a.txt" not in world.room.sent


async def _changed(world: AtDesk, loaded: Any) -> bool:
    return (await world.desk.watched.current()) is not loaded


async def test_arguments_that_nobody_can_look_through_are_refused(opened: Opened) -> None:
    """S-A4: too long to be shown whole."""
    async with opened() as world:
        world.model.answer_with([sends(content="x" * 10_000), says("Too long.")])
        assert await world.ask("send it") == ["Too long."]
        assert "more than 6000 characters" in results(world.model.asked[-1])[0]


async def test_calls_behind_one_that_waits_wait_too_and_each_asks_for_itself(opened: Opened) -> None:
    async with opened() as world:
        both = several(
            ("send_file", {"name": "1.txt", "content": "one"}), ("send_file", {"name": "2.txt", "content": "two"})
        )
        world.model.answer_with([both, says("Both.")])
        first = code_in(await world.ask("send them"))
        told = await world.ask(f"/approve {first}", actor=LI)
        second = code_in(told[1:])
        assert second != first
        assert [one for one in told if one.endswith(".txt")] == ["1.txt"]
        told = await world.ask(f"/deny {second}", actor=LI)
        assert told[-1] == "Both."
        assert "2.txt" not in world.room.sent


async def test_stop_ends_what_waits_and_the_next_message_works(opened: Opened) -> None:
    async with opened() as world:
        world.model.answer_with([sends(), says("Yes?")])
        code = code_in(await world.ask("send it"))
        assert await world.ask("/stop") == ["Stopped."]
        [late] = await world.ask(f"/approve {code}", actor=LI)
        assert "over" in late
        assert await world.ask("hello?") == ["Yes?"]
        assert "a.txt" not in world.room.sent


async def test_a_question_may_want_a_yes_first(opened: Opened) -> None:
    async with opened(ask=["ask_person"]) as world:
        world.model.answer_with([calls("ask_person", {"question": "Which?"}), says("Blue.")])
        approve = code_in(await world.ask("paint it"))
        told = await world.ask(f"/approve {approve}", actor=LI)
        assert told[-1].startswith("Which?")
        assert await world.ask("blue", actor=ANA) == ["Blue."]


async def test_messages_wait_behind_an_approval_and_are_answered_then(opened: Opened) -> None:
    async with opened() as world:
        world.model.answer_with([sends(), says("Sent."), says("Four.")])
        code = code_in(await world.ask("send it"))
        assert await world.ask("what is 2+2?") == []
        told = await world.ask(f"/approve {code}", actor=LI)
        assert told[1:] == ["a.txt", "Sent.", "Four."]


async def test_an_admin_has_every_call_with_an_effect_looked_at_and_a_member_does_not(opened: Opened) -> None:
    async with opened(ask=[]) as world:
        [refused] = await world.ask("/hitl on", actor=MAX)
        assert "role `channel_admin`" in refused
        assert "every call with an effect waits" in (await world.ask("/hitl on", actor=ADA))[0]
        assert "every call with an effect waits" in (await world.ask("/hitl", actor=MAX))[0]
        world.model.answer_with([several(("current_time", {}), ("send_file", FILE)), says("Sent.")])
        code = code_in(await world.ask("send it"))
        assert "a.txt" in await world.ask(f"/approve {code}", actor=LI)
        await world.ask("/hitl off", actor=ADA)
        world.model.answer_with([sends(name="b.txt"), says("Sent.")])
        assert await world.ask("send it again") == ["b.txt", "Sent."]


async def test_a_question_is_answered_by_the_next_message(opened: Opened) -> None:
    async with opened() as world:
        world.model.answer_with([calls("ask_person", {"question": "Which year?"}), says("2024 it is.")])
        [card] = await world.ask("make the report")
        assert card.startswith("Which year?")
        assert await world.ask("the last one, 2024", actor=ANA) == ["2024 it is."]
        assert results(world.model.asked[-1]) == ["Ana answered with the message that follows."]
        assert "the last one, 2024" in world.model.asked[-1].text


async def test_a_question_is_answered_by_a_choice(opened: Opened) -> None:
    async with opened() as world:
        asks = calls("ask_person", {"question": "Which?", "choices": ["red", "blue"]})
        world.model.answer_with([asks, says("Blue.")])
        [card] = await world.ask("paint it")
        assert "1. red\n2. blue" in card
        code = code_in([card])
        assert "wants" not in (await world.ask(f"/approve {code}", actor=LI))[0]
        told = await world.ask(kind="action", name="button", value=f"answer {code} 2", actor=ANA)
        assert told[-1] == "Blue."
        assert results(world.model.asked[-1]) == ["Ana answered: blue"]


async def test_waiting_for_people_is_no_work_of_the_turn(opened: Opened) -> None:
    async with opened(turn_s=0.5) as world:
        world.model.answer_with([sends(), says("Sent.")])
        code = code_in(await world.ask("send it"))
        stored = await world.desk.mailbox.load(WHERE.id)
        asked = next(one for one in stored.history if one.type == "asked")
        await until(lambda: _is_past(world, asked.at_ms + 700), 10.0)
        assert (await world.ask(f"/approve {code}", actor=LI))[-1] == "Sent."


async def _is_past(world: AtDesk, at_ms: int) -> bool:
    return world.desk.mailbox.now_ms() > at_ms


STEPS = plan(("a", "send it", []), ("b", "ask", []), ("c", "tell", ["a", "b"]))


async def test_while_one_step_waits_for_people_the_others_work_on_the_turns_time(opened: Opened) -> None:
    async with opened(turn_s=1.0) as world:
        steps = plan(("a", "send it", []), ("b", "think", []))
        world.model.answer_with(acting({"plan": steps, "a": sends(), "b": says("late", hold=asyncio.Event())}))
        async with asyncio.timeout(20):
            told = await world.ask("/plan send and think")
        assert any("/approve" in one for one in told)
        assert "I stopped after" in told[-1]


async def test_steps_of_a_plan_wait_each_for_its_own_word(opened: Opened) -> None:
    async with opened() as world:
        asks = calls("ask_person", {"question": "Which colour?"})
        parts = {"plan": STEPS, "a": [sends(), says("A sent.")], "b": [asks, says("B asked.")], "c": says("All done.")}
        world.model.answer_with(acting(parts))
        told = await world.ask("/plan send and ask")
        approve = next(code_in([one]) for one in told if "/approve" in one)
        question = next(code_in([one]) for one in told if "Which colour?" in one)
        assert approve != question
        assert (await world.ask(f"/approve {approve}", actor=LI))[1:] == ["a.txt"]
        told = await world.ask(f"/answer {question} blue", actor=ANA)
        assert told[-1] == "All done."
        assert world.room.sent.count("a.txt") == 1
        assert [part(one) for one in world.model.asked].count("a") == 2
        [last] = [one for one in world.model.asked if part(one) == "b"][1:]
        assert results(last) == ["Ana answered: blue"]


async def test_a_question_of_a_step_is_answered_by_the_next_message(opened: Opened) -> None:
    async with opened() as world:
        asks = calls("ask_person", {"question": "Which colour?"})
        parts = {"plan": plan(("b", "ask", [])), "b": [asks, says("Blue it is.")]}
        world.model.answer_with(acting(parts))
        await world.ask("/plan ask")
        assert (await world.ask("blue", actor=ANA))[-1] == "Blue it is."
        assert "blue" in str(results([one for one in world.model.asked if part(one) == "b"][1]))


async def test_operators_see_that_a_turn_waits_for_a_word(opened: Opened) -> None:
    async with opened() as world:
        world.model.answer_with([sends(), says("Sent.")])
        code = code_in(await world.ask("send it"))
        mailbox = world.desk.mailbox
        seen = (await overview(mailbox)).conversations
        assert [(one.channel, one.thread, one.state) for one in seen] == [("room", "t", "waiting")]
        assert await waits_for_word(mailbox, seen) == {WHERE.id}
        await world.ask(f"/approve {code}", actor=LI)
        assert await waits_for_word(mailbox, (await overview(mailbox)).conversations) == frozenset()


async def test_what_is_asked_said_and_run_leaves_a_line_each_once(opened: Opened) -> None:
    async with opened() as world:
        world.model.answer_with([sends(), says("Sent."), sends(), says("Not sent.")])
        code = code_in(await world.ask("send it"))
        await world.ask(f"/approve {code}", actor=LI)
        other = code_in(await world.ask("again"))
        await world.ask(f"/deny {other} no", actor=LI)
        found = await read(world.desk.mailbox.store)
        lines = [
            (one.who, one.what, one.thing.split()[0], one.rule) for one in found if one.what.startswith("approval")
        ]
        assert lines == [
            ("chat/U-MAX", "approval asked", code, "listed"),
            ("chat/U-LI", "approval yes", code, "profiles/default.yaml line 11: roles.approver"),
            ("chat/U-MAX", "approval run", code, "chat/U-LI said yes"),
            ("chat/U-MAX", "approval asked", other, "listed"),
            ("chat/U-LI", "approval no", other, "profiles/default.yaml line 11: roles.approver"),
        ]
        [thing] = {one.thing for one in found if one.what.startswith("approval") and code in one.thing}
        assert thing.split()[:2] == [code, "send_file"], "all three are about the same call, with the same arguments"


@pytest.mark.parametrize("way", ["{text}", "/answer {code} {text}", "button"])
async def test_an_answer_leaves_a_line_without_its_words(opened: Opened, way: str) -> None:
    asks = calls("ask_person", {"question": "Which?", "choices": ["CANARY", "blue"]})
    async with opened() as world:
        world.model.answer_with([asks, says("Well.")])
        code = code_in(await world.ask("paint it"))
        if way == "button":
            await world.ask(actor=ANA, kind="action", value=f"answer {code} 1")
        else:
            await world.ask(way.format(code=code, text="CANARY"), actor=ANA)
        assert len(world.model.asked) == 2
        [line] = await read(world.desk.mailbox.store)
        assert (line.who, line.channel, line.what) == ("chat/U-ANA", "chat/room", "question answer")
        assert (line.thing, line.rule) == (f"{code} question", "everybody may answer")


async def test_what_is_no_answer_leaves_no_line(opened: Opened) -> None:
    async with opened() as world:
        world.model.answer_with([calls("ask_person", {"question": "Which?"}), says("Well.")])
        code = code_in(await world.ask("paint it"))
        assert "What is the answer" in (await world.ask(f"/answer {code}"))[0]
        assert await read(world.desk.mailbox.store) == []


def looks(zone: str) -> Reply:
    return calls("current_time", {"timezone": zone})


async def test_what_an_approver_allows_for_good_runs_unasked_in_exactly_this_form(opened: Opened) -> None:
    async with opened(ask=["current_time"]) as world:
        world.model.answer_with([looks("Asia/Tokyo"), says("First.")])
        code = code_in(await world.ask("when is it?"))
        told = await world.ask(f"/approve {code} always", actor=MAX)
        assert "approver" in told[0], "whoever asked may say yes to this once, and not for good"
        told = await world.ask(f"/approve {code} ALWAYS", actor=LI)
        assert "exactly this form" in told[0]
        assert told[-1] == "First."
        [line] = [one for one in await read(world.desk.mailbox.store) if one.what == "approval yes"]
        assert line.thing.split()[:2] == [code, "current_time"], (
            "the word on this very call, beside that on all like it"
        )
        assert (line.who, line.rule) == ("chat/U-LI", "profiles/default.yaml line 11: roles.approver")
        world.model.answer_with([looks("Asia/Tokyo"), says("Second.")])
        assert await world.ask("once more") == ["Second."]
        world.model.answer_with([looks("Asia/Seoul"), says("No.")])
        assert "/approve" in (await world.ask("and there?"))[0]
        await world.ask("/stop")
        [listed] = await world.ask("/hitl")
        assert '"Asia/Tokyo"' in listed
        [given] = re.findall(r"`([0-9a-f]{8})`", listed)
        assert "approver" in (await world.ask(f"/hitl forget {given}", actor=ADA))[0], "an admin is none"
        assert "asks again" in (await world.ask(f"/hitl forget {given}", actor=LI))[0]
        assert "no call" in (await world.ask(f"/hitl forget {given}", actor=LI))[0].lower()
        world.model.answer_with([looks("Asia/Tokyo"), says("Third.")])
        assert "/approve" in (await world.ask("and now?"))[0]
        lines = [
            line.what if line.what != "approval run" else line.rule for line in await read(world.desk.mailbox.store)
        ]
        assert [one for one in lines if "always" in one or "forget" in one or "said" in one] == [
            "approve always refused",
            "approve always",
            "chat/U-LI said yes",
            "chat/U-LI said always",
            "hitl forget refused",
            "hitl forget",
            "hitl forget refused",
        ]


async def test_nobody_is_bound_by_the_word_of_somebody_who_is_no_approver_any_more(
    opened: Opened, tmp_path: Path
) -> None:
    async with opened(ask=["current_time"]) as world:
        world.model.answer_with([looks("Asia/Tokyo"), says("First.")])
        await world.ask(f"/approve {code_in(await world.ask('when is it?'))} always", actor=LI)
        profile = tmp_path / "profiles/default.yaml"
        loaded = await world.desk.watched.current()
        profile.write_text(profile.read_text().replace("chat/U-LI", "chat/U-ANA"))
        await until(lambda: _changed(world, loaded), 10.0)
        world.model.answer_with([looks("Asia/Tokyo"), says("Second.")])
        assert "/approve" in (await world.ask("once more"))[0]


async def test_what_files_say_is_never_allowed_for_good(opened: Opened) -> None:
    """They change, and the arguments stay the same."""
    async with opened(ask=["send_file"], tools=["send_file", "write_file"]) as world:
        world.model.answer_with([calls("write_file", {"path": "a.txt", "content": "one"}), says("Written.")])
        assert await world.ask("write it") == ["Written."]
        world.model.answer_with([calls("send_file", {"path": "a.txt"}), says("Sent.")])
        [card] = await world.ask("send it")
        assert "always" not in card
        code = code_in([card])
        assert "not for good" in (await world.ask(f"/approve {code} always", actor=LI))[0]
        assert (await world.ask(f"/approve {code}", actor=LI))[1:] == ["a.txt", "Sent."], "it stayed open"
