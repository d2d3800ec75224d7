"""Before each call of the model what it may cost is reserved; after it, however it ended, what it did cost is settled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from config.limits import limits
from config.profiles import Budget
from gateway import store
from gateway.conversation.key import ConversationKey
from gateway.costs.budgets import balances
from gateway.costs.spending import ENDED_MS, Accounts, Spent, Tokens, spent
from gateway.events import Actor
from gateway.store import Layout, Unreachable
from tests.harness.model_replies import calls, fails, says
from tests.harness.processes import until
from tests.workers.at_desk import WHERE, AtDesk, at_desk
from workers.calling import tabs

MAX = Actor("U-MAX")
OTHER = ConversationKey("chat", "other", "t")
ONE = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20}
SETTINGS = {"model": {"answer_max_tokens": 100, "retry_for_s": 5.0, "prices": {"fake": {"input": 2, "output": 10}}}}

Opened = Callable[..., AbstractAsyncContextManager[AtDesk]]


@pytest.fixture
def desk_with(tmp_path: Path, redis_url: str, layout: Layout) -> Opened:
    def opened(budget: dict[str, Any] | None, settings: dict[str, Any] = SETTINGS, **profile: Any) -> Any:
        given = {"tools": ["current_time"], **({"budget": budget} if budget else {}), **profile}
        return at_desk(tmp_path, redis_url, layout.prefix, profile=given, settings=settings)

    return opened


def at(world: AtDesk, where: ConversationKey = WHERE) -> Accounts:
    return Accounts.at(where, MAX, "UTC", world.desk.mailbox.now_ms(), "default")


async def stands(world: AtDesk, budget: dict[str, Any]) -> list[tuple[int, int]]:
    found = await balances(world.desk.mailbox.store, at(world), limits(Budget.model_validate(budget)))
    return [(one.spent, one.held) for one in found]


async def cost(world: AtDesk) -> Spent:
    [found] = await spent(world.desk.mailbox.store, [at(world).channel_day])
    return found


def day(**amounts: Any) -> dict[str, Any]:
    return {"person": {"day": amounts}}


async def test_a_question_within_the_budget_is_answered_and_settled(desk_with: Opened) -> None:
    budget = {**day(tokens=5_000, money=1, turns=3), "profile": {"month": {"tokens": 5_000}}}
    async with desk_with(budget) as world:
        script = iter([calls("current_time", usage=ONE), says("Noon.", usage=ONE)])
        world.model.answer_with(lambda _: next(script))
        assert await world.ask("what time is it?") == ["Noon."]
        assert await cost(world) == Spent(1, 2, {"fake": Tokens(20, 10, 200, 40)}, 2 * (2 * 130 + 10 * 5))
        assert await stands(world, budget) == [(70, 0), (70, 0), (620, 0), (1, 0)]


async def test_what_a_call_may_cost_is_reserved_while_it_runs(desk_with: Opened) -> None:
    hold = asyncio.Event()
    async with desk_with(day(tokens=5_000)) as world:
        world.model.answer_with(says("Well.", hold=hold))
        async with world.busy("hello") as claim:
            await world.model.until(lambda: world.model.in_flight == 1)
            [(took, held)] = await stands(world, day(tokens=5_000))
            assert took == 0
            assert held > 100 + 50, "the output limit, and what the request is reckoned at"
            hold.set()
            async with asyncio.timeout(5):
                while not claim.lost:
                    await asyncio.sleep(0.01)
        assert await stands(world, day(tokens=5_000)) == [(15, 0)]


async def test_at_the_end_it_says_what_is_used_up_by_which_limit_and_when_it_renews(
    desk_with: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    async with desk_with(day(turns=1), timezone="UTC") as world:
        assert (await world.ask("hello"))[0].startswith("Well.")
        with caplog.at_level("INFO"):
            [told] = await world.ask("and now?")
        assert "your budget of today is used up: 1 of 1 questions are spent" in told
        assert "It renews at 20" in told
        assert "00:00 (UTC)" in told
        assert len(world.model.asked) == 1
        *_, call, dropped, reply = await world.history()
        assert (call.type, dropped.type, dropped.data["why"]) == ("call", "dropped", "budget")
        assert reply.data["notice"]
        assert reply.data["rule"] == "profiles/default.yaml line 4: budget.person.day.turns"
        assert [vars(one)["fields"]["rule"] for one in caplog.records if one.getMessage() == "turn ended"] == [
            reply.data["rule"]
        ]
        [why] = await world.ask("/why")
        assert reply.data["rule"] in why
        assert (await cost(world)).turns == 1, "one that was refused is none"


async def test_a_limit_below_what_one_answer_may_take_is_not_called_used_up(desk_with: Opened) -> None:
    budget = day(tokens=150)
    async with desk_with(budget) as world:
        [told] = await world.ask("hello")
        assert "one answer may take up to" in told
        assert "your budget of today is 150 tokens in all" in told
        assert "used up" not in told
        assert "renews" not in told, "it would be no better then"
        assert not world.model.asked
        assert await stands(world, budget) == [(0, 0)]
        assert (await world.history())[-1].data["rule"].endswith("budget.person.day.tokens")


@pytest.mark.parametrize("amounts", [{"turns": 1}, {"tokens": 1_000}])
async def test_a_turn_that_had_not_begun_does_not_say_that_it_stops(desk_with: Opened, amounts: dict[str, int]) -> None:
    async with desk_with(day(**amounts)) as world:
        world.model.answer_with(says("Well.", usage={"input_tokens": 900, "output_tokens": 5}))
        await world.ask("hello")
        [told] = await world.ask("and now?")
        assert "I can't begin with this, for your budget of today is used up" in told
        assert "I stop" not in told
        assert "up to 1 questions" not in told


async def test_a_tool_runs_to_its_end_and_the_next_call_is_not_made(desk_with: Opened) -> None:
    """The check is before the model: nothing that was begun stays half done, and the history is whole."""
    budget = day(tokens=3_000)
    async with desk_with(budget) as world:
        world.model.answer_with(calls("current_time", usage={"input_tokens": 2_900, "output_tokens": 50}))
        [told] = await world.ask("what time is it?")
        assert "2,950 of 3,000 tokens are spent" in told
        kinds = [one.type for one in await world.history()]
        assert kinds[-4:] == ["tool_result", "call", "dropped", "reply"]
        assert len(world.model.asked) == 1
        assert await stands(world, budget) == [(2_950, 0)]


async def test_an_answer_that_breaks_off_has_cost_what_came_of_it(desk_with: Opened) -> None:
    async with desk_with(day(tokens=5_000)) as world:
        script = iter([says("x" * 700, end_after_events=4, usage=ONE), says("Well.", usage=ONE)])
        world.model.answer_with(lambda _: next(script))
        assert await world.ask("hello") == ["Well."]
        assert (await cost(world)).tokens == {"fake": Tokens(20, 200 + 5, 200, 40)}
        assert await stands(world, day(tokens=5_000)) == [(20 + 205 + 40, 0)]


async def test_one_that_was_refused_has_cost_nothing_and_is_reserved_once(desk_with: Opened) -> None:
    async with desk_with(day(tokens=1_500)) as world:
        script = iter([fails(529), fails(529), says("Well.", usage=ONE)])
        world.model.answer_with(lambda _: next(script))
        assert await world.ask("hello") == ["Well."]
        assert (await cost(world)).calls == 1
        assert await stands(world, day(tokens=1_500)) == [(35, 0)]


async def test_one_that_somebody_stops_has_cost_what_came_of_it(desk_with: Opened) -> None:
    async with desk_with(day(tokens=5_000)) as world:
        world.model.answer_with(says("x" * 700, stall_after_events=3, usage=ONE))
        async with world.busy("hello") as claim:
            await world.model.until(lambda: world.model.in_flight == 1)
            await asyncio.sleep(0.2)
            assert await world.say("/stop") == "new"
            claim.news.set()
            async with asyncio.timeout(5):
                while not claim.lost:
                    await asyncio.sleep(0.01)
        assert (await cost(world)).tokens == {"fake": Tokens(10, 200, 100, 20)}
        assert await stands(world, day(tokens=5_000)) == [(230, 0)]


async def test_the_fallback_model_is_reserved_by_its_own_price(desk_with: Opened) -> None:
    prices = {"fake": {"input": 0, "output": 0}, "spare": {"input": 1_000, "output": 1_000}}
    settings = {"model": {**SETTINGS["model"], "retry_for_s": 0.0, "prices": prices}}
    async with desk_with(day(money=0.1), settings, fallback_model="spare") as world:
        world.model.answer_with(lambda asked: fails(529) if asked.request["model"] == "fake" else says("Well."))
        [told] = await world.ask("hello")
        assert "0.00 of 0.10 USD are spent" in told
        assert {one.request["model"] for one in world.model.asked} == {"fake"}


async def test_a_model_without_a_price_is_not_asked_under_a_budget_in_money(desk_with: Opened) -> None:
    async with desk_with(day(money=5), {"model": {"prices": {"other": {"input": 1, "output": 1}}}}) as world:
        [told] = await world.ask("hello")
        assert "can't ask the model fake here" in told
        assert world.model.asked == []
        assert (await world.history())[-1].data["rule"].endswith("budget.person.day.money")


async def test_a_worker_that_dies_leaves_nothing_that_counts_twice(desk_with: Opened) -> None:
    hold = asyncio.Event()
    async with desk_with(day(tokens=5_000, turns=3)) as world:
        world.model.answer_with(says("Well.", hold=hold))
        async with world.busy("hello") as claim:
            await world.model.until(lambda: world.model.in_flight == 1)
            [(_, held), turns] = await stands(world, day(tokens=5_000, turns=3))
        await paid(world)
        mailbox = world.desk.mailbox
        await mailbox.hand_over(claim)
        [claim] = (await mailbox.claim(0, "w2", 1)).grants
        attending = asyncio.create_task(world.desk.attend(claim, lambda: 0))
        await world.model.until(lambda: len(world.model.asked) == 2)
        [(lost, held_now), turns_now] = await stands(world, day(tokens=5_000, turns=3))
        assert (held_now, turns_now) == (held, turns)
        hold.set()
        await attending
        assert world.room.sent == ["Well."]
        assert lost > 0, "what was sent to the model"
        assert await stands(world, day(tokens=5_000, turns=3)) == [(lost + 15, 0), (1, 0)]


async def test_near_the_end_it_is_said_once_with_the_answer(desk_with: Opened) -> None:
    budget = {**day(tokens=10_000), "warn_at": 0.5}
    async with desk_with(budget) as world:
        world.model.answer_with(says("Well.", usage={"input_tokens": 2_995, "output_tokens": 5}))
        assert await world.ask("one") == ["Well."]
        [told] = await world.ask("two")
        assert told.startswith("Well.\n\n(Of your budget of today, 6,000 of 10,000 tokens are spent. It renews at 20")
        assert await world.ask("three") == ["Well."]
        assert not any("Of your" in one.data.get("text", "") for one in await world.history() if one.type == "answer")


async def test_what_all_channels_of_a_profile_spend_counts_together(desk_with: Opened) -> None:
    async with desk_with({"profile": {"day": {"turns": 1}}}) as world:
        assert (await world.ask("hello"))[0].startswith("Well.")
        [told] = await world.ask("hello", OTHER, actor=Actor("U-ANA"))
        assert "the budget of today that this channel shares with others is used up" in told


async def test_a_call_waits_for_what_others_have_reserved_and_may_not_need(
    desk_with: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tabs, "PAUSE_S", 0.01)
    hold = asyncio.Event()
    async with desk_with(day(tokens=700)) as world:
        world.model.answer_with(says("Well.", hold=hold))
        async with world.busy("hello") as claim:
            await world.model.until(lambda: world.model.in_flight == 1)
            assert await world.say("hello", OTHER) == "new"
            other = asyncio.create_task(world.work())
            await asyncio.sleep(0.1)
            assert len(world.model.asked) == 1
            hold.set()
            await other
            async with asyncio.timeout(5):
                while not claim.lost:
                    await asyncio.sleep(0.01)
        assert world.room.sent == ["Well.", "Well."]


async def test_and_says_so_where_that_takes_too_long(desk_with: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tabs, "PAUSE_S", 0.01)
    monkeypatch.setattr(tabs, "WAIT_S", 0.05)
    hold = asyncio.Event()
    async with desk_with(day(tokens=700)) as world:
        world.model.answer_with(says("Well.", hold=hold))
        async with world.busy("hello"):
            await world.model.until(lambda: world.model.in_flight == 1)
            [told] = await world.ask("hello", OTHER)
            assert "reserved for answers under way" in told


async def test_the_steps_of_a_plan_are_held_to_it_and_the_turn_ends_as_a_whole(desk_with: Opened) -> None:
    plan = '{"steps": [{"id": "a", "task": "look"}, {"id": "b", "task": "read"}]}'
    async with desk_with(day(tokens=2_500)) as world:
        script = iter([says(plan, usage={"input_tokens": 2_400, "output_tokens": 10})])
        world.model.answer_with(lambda _: next(script))
        [*_, told] = await world.ask("/plan look and read")
        assert "your budget of today is used up: 2,410 of 2,500 tokens" in told
        assert len(world.model.asked) == 1
        assert await stands(world, day(tokens=2_500)) == [(2_410, 0)]


async def test_compacting_is_held_to_it_too(desk_with: Opened) -> None:
    async with desk_with(day(tokens=5_000), context={"keep_messages": 1}) as world:
        world.model.answer_with(says("Well.", usage={"input_tokens": 1_500, "output_tokens": 5}))
        for said in ("one", "two", "three"):
            await world.ask(said)
        asked = len(world.model.asked)
        [told] = await world.ask("/compact")
        assert "is used up: 4,515 of 5,000 tokens" in told
        assert len(world.model.asked) == asked


async def test_what_is_called_before_midnight_counts_for_that_day_though_it_ends_after_it(desk_with: Opened) -> None:
    hold, budget = asyncio.Event(), {"person": {"day": {"tokens": 700}}}
    async with desk_with(budget, limits={"turn_s": 300_000}) as world:
        world.model.answer_with(says("Well.", hold=hold, usage={"input_tokens": 300, "output_tokens": 100}))
        mailbox, today = world.desk.mailbox, at(world)  # hears the time again when the turn is over
        async with world.busy("hello") as claim:
            await world.model.until(lambda: world.model.in_flight == 1)
            mailbox._ahead_ms += 86_400_000
            hold.set()
            await until(lambda: claim.lost)
        await paid(world)
        assert [(one.spent, one.held) for one in await balances(mailbox.store, today, _of(budget))] == [(400, 0)]
        tomorrow = Accounts.at(WHERE, MAX, "UTC", mailbox.now_ms() + 86_400_000)
        assert [(one.spent, one.held) for one in await balances(mailbox.store, tomorrow, _of(budget))] == [(0, 0)]


def _of(budget: dict[str, Any]) -> Any:
    return limits(Budget.model_validate(budget))


async def test_many_turns_at_once_never_pass_a_limit_and_all_who_fit_are_answered(
    desk_with: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tabs, "PAUSE_S", 0.01)
    budget, seen = day(tokens=2_000), []
    async with desk_with(budget) as world:
        world.model.answer_with(says("Well.", usage={"input_tokens": 300, "output_tokens": 100}))
        for number in range(8):
            assert await world.say("hello", ConversationKey("chat", "room", f"t{number}")) == "new"
        claims = [(await world.desk.mailbox.claim(0, f"w{number}", 1)).grants[0] for number in range(8)]
        working = [asyncio.create_task(world.desk.attend(claim, lambda: 0)) for claim in claims]
        while not all(one.done() for one in working):
            seen += await stands(world, budget)
            await asyncio.sleep(0.01)
        await paid(world)
        seen += await stands(world, budget)
        assert max(spent + held for spent, held in seen) <= 2_000
        answered = sum(one.startswith("Well.") for one in world.room.sent)
        assert seen[-1] == (400 * answered, 0)
        assert 2_000 - 400 * answered < 480, "who was refused would not have fit"
        assert len(world.room.sent) == 8


async def test_a_budget_that_is_lowered_holds_from_the_next_turn_on(desk_with: Opened, tmp_path: Path) -> None:
    hold = asyncio.Event()
    async with desk_with(day(tokens=5_000)) as world:
        script = iter([calls("current_time", usage=ONE), says("Noon.", hold=hold, usage=ONE)])
        world.model.answer_with(lambda _: next(script))
        async with world.busy("what time is it?") as claim:
            await world.model.until(lambda: len(world.model.asked) == 2)
            file = tmp_path / "profiles/default.yaml"
            file.write_text(file.read_text().replace("5000", "20"))
            async with asyncio.timeout(10):
                while (await world.desk.profile_now(WHERE)).budget.person.day.tokens != 20:
                    await asyncio.sleep(0.05)
            hold.set()
            await until(lambda: claim.lost)
        assert world.room.sent == ["Noon."]
        [told] = await world.ask("and now?")
        assert "70 of 20 tokens are spent" in told
        assert await stands(world, day(tokens=20)) == [(70, 0)]


async def test_compacting_is_no_question(desk_with: Opened) -> None:
    async with desk_with(day(turns=2), context={"keep_messages": 1}) as world:
        for said in ("one", "two"):
            await world.ask(said)
        asked = len(world.model.asked)
        [told] = await world.ask("/compact")
        assert told.startswith("Put away")
        assert len(world.model.asked) == asked + 1
        assert await stands(world, day(turns=2)) == [(2, 0)]
        assert (await cost(world)).calls == 3


async def test_without_a_budget_nothing_is_reserved(desk_with: Opened) -> None:
    hold = asyncio.Event()
    async with desk_with(None) as world:
        world.model.answer_with(says("Well.", hold=hold))
        redis = world.desk.mailbox.store
        async with world.busy("hello"):
            await world.model.until(lambda: world.model.in_flight == 1)
            assert [key async for key in redis.redis.scan_iter(f"{redis.layout.spent_root}:*")] == []


@pytest.mark.parametrize("budget", [None, day(tokens=5_000), day(turns=5)])
async def test_a_settlement_that_nobody_heard_of_is_made_once_more_and_counts_once(
    desk_with: Opened, monkeypatch: pytest.MonkeyPatch, budget: dict[str, Any] | None
) -> None:
    """Where the server did it and the answer was lost, and where it did not."""
    monkeypatch.setattr(store, "OWED_PAUSE_S", 0.01)
    async with desk_with(budget) as world:
        real, done = world.desk.mailbox.store.run, iter([False, True, True])

        async def run(script: Any, *arguments: Any) -> Any:
            if script.name != "spend" or (is_done := next(done, None)) is None:
                return await real(script, *arguments)
            if is_done:
                await real(script, *arguments)
            raise Unreachable("nobody heard")

        monkeypatch.setattr(world.desk.mailbox.store, "run", run)
        assert await world.ask("hello") == ["Well."]
        await paid(world)
        assert await cost(world) == Spent(1, 1, {"fake": Tokens(10, 5)}, 70)
        assert await stands(world, day(tokens=5_000)) == [(15, 0)]


async def paid(world: AtDesk) -> None:
    """Until nothing is owed any more."""
    await until(lambda: not world.desk.mailbox.store._owed)


async def test_what_redis_did_not_take_when_its_turn_was_lost_is_settled_as_soon_as_it_does(
    desk_with: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "OWED_PAUSE_S", 0.01)
    hold = asyncio.Event()
    is_away = False
    async with desk_with(day(tokens=5_000)) as world:
        world.model.answer_with(says("Well.", hold=hold, usage=ONE))
        real = world.desk.mailbox.store.run

        async def run(script: Any, *arguments: Any) -> Any:
            if is_away and script.name in {"spend", "append"}:
                raise Unreachable("away")
            return await real(script, *arguments)

        monkeypatch.setattr(world.desk.mailbox.store, "run", run)
        async with world.busy("hello") as claim:
            await world.model.until(lambda: world.model.in_flight == 1)
            is_away = True
            hold.set()
            await until(lambda: bool(world.desk.mailbox.store._owed))
            claim.lost = True
        assert (await cost(world)).calls == 0
        is_away = False
        await paid(world)
        assert (await cost(world)).tokens == {"fake": Tokens(10, 5, 100, 20)}
        assert await stands(world, day(tokens=5_000)) == [(35, 0)]


async def test_what_can_not_be_settled_to_the_end_is_told_to_the_operator(
    desk_with: Opened, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(store, "OWED_END_S", 0.01)
    async with desk_with(day(tokens=5_000)) as world:
        real = world.desk.mailbox.store.run

        async def run(script: Any, *arguments: Any) -> Any:
            if script.name == "spend":
                raise Unreachable("away")
            return await real(script, *arguments)

        monkeypatch.setattr(world.desk.mailbox.store, "run", run)
        assert await world.ask("hello") == ["Well."]
    [line] = [vars(one)["fields"] for one in caplog.records if one.getMessage() == "not done"]
    assert "settle 15 tokens, 70 millionths" in line["what"]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("said", ["three", "/compact"])
async def test_whoever_is_called_off_while_it_is_reserved_leaves_nothing(
    desk_with: Opened, monkeypatch: pytest.MonkeyPatch, said: str, when: str
) -> None:
    """Whether the server has done it and nobody heard of it, or not."""
    reached = asyncio.Event()
    async with desk_with(day(tokens=50_000), context={"keep_messages": 1}) as world:
        for one in ("one", "two"):
            await world.ask(one)
        before, redis = await stands(world, day(tokens=50_000)), world.desk.mailbox.store
        real = redis.run

        async def run(script: Any, *arguments: Any) -> Any:
            if script.name != "reserve":
                return await real(script, *arguments)
            if when == "after":
                await real(script, *arguments)
            reached.set()
            return await asyncio.Event().wait()

        monkeypatch.setattr(redis, "run", run)
        async with world.busy(said):
            async with asyncio.timeout(5):
                await reached.wait()
            if when == "after":
                assert (await stands(world, day(tokens=50_000)))[0][1] > 0
        await paid(world)
        assert await stands(world, day(tokens=50_000)) == before


async def test_a_call_that_is_cut_by_its_process_end_is_settled(desk_with: Opened) -> None:
    """Nothing is written after it: the next worker goes on from the records."""
    async with desk_with(day(tokens=5_000)) as world:
        world.model.answer_with(says("x" * 700, stall_after_events=3, usage=ONE))
        async with world.busy("hello"):
            await world.model.until(lambda: world.model.in_flight == 1)
            await asyncio.sleep(0.2)
        await paid(world)
        assert (await cost(world)).tokens == {"fake": Tokens(10, 200, 100, 20)}
        assert await stands(world, day(tokens=5_000)) == [(230, 0)]


async def test_a_turn_whose_worker_died_before_anything_was_reserved_counts_all_the_same(
    desk_with: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first call waits for what others have reserved, and a command beside it has its state written down."""
    monkeypatch.setattr(tabs, "PAUSE_S", 0.01)
    hold, budget = asyncio.Event(), day(tokens=700, turns=5)
    async with desk_with(budget) as world:
        world.model.answer_with(says("Well.", hold=hold))
        async with world.busy("hello") as first:
            await world.model.until(lambda: world.model.in_flight == 1)
            async with world.busy("hello", OTHER) as claim:
                async with asyncio.timeout(5):
                    while not any(one.type == "call" for one in await world.history(OTHER)):
                        await asyncio.sleep(0.01)
                await world.beside(claim, "/help", where=OTHER)
            hold.set()
            await until(lambda: first.lost)
        await world.desk.mailbox.hand_over(claim)
        await world.work()
        assert world.room.sent[-1] == "Well."
        assert await stands(world, budget) == [(30, 0), (2, 0)]


async def test_a_turn_that_waits_for_people_for_days_is_still_the_same_one(desk_with: Opened) -> None:
    budget = day(turns=3)
    async with desk_with(budget, approvals={"ask": ["current_time"]}) as world:
        script = iter([calls("current_time", usage=ONE), says("Noon.", usage=ONE)])
        world.model.answer_with(lambda _: next(script))
        [card] = await world.ask("what time is it?")
        redis = world.desk.mailbox.store
        assert await redis.redis.delete(
            *[key async for key in redis.redis.scan_iter(f"{redis.layout.spent_root}:of:*")]
        )
        code = next(one.data["code"] for one in await world.history() if one.type == "asked")
        assert code in card
        await world.say(f"/approve {code}")
        await world.work()
        assert world.room.sent[-1] == "Noon."
        assert await stands(world, budget) == [(1, 0)]


async def test_what_was_noted_of_a_turn_is_kept_for_an_hour_after_its_end(desk_with: Opened) -> None:
    """It is a key a turn. While a turn waits, whoever takes it over may ask hours later."""
    async with desk_with(None, approvals={"ask": ["current_time"]}) as world:
        script = iter([calls("current_time", usage=ONE), says("Noon.", usage=ONE)])
        world.model.answer_with(lambda _: next(script))
        await world.ask("what time is it?")
        await paid(world)
        redis = world.desk.mailbox.store

        async def kept_ms() -> list[int]:
            noted = [key async for key in redis.redis.scan_iter(f"{redis.layout.spent_root}:of:*")]
            return [await redis.redis.pttl(key) for key in noted]

        [kept] = await kept_ms()
        assert kept > ENDED_MS
        code = next(one.data["code"] for one in await world.history() if one.type == "asked")
        await world.say(f"/approve {code}")
        await world.work()
        assert world.room.sent[-1] == "Noon."
        await paid(world)
        [kept] = await kept_ms()
        assert 0 < kept <= ENDED_MS


@pytest.mark.parametrize("budget", [None, day(tokens=5_000)])
async def test_a_service_that_counts_nothing_is_not_free(
    desk_with: Opened, caplog: pytest.LogCaptureFixture, budget: dict[str, Any] | None
) -> None:
    """Its tokens are reckoned by what was sent and what came, and that is said."""
    nothing = dict.fromkeys(ONE, 0)
    async with desk_with(budget) as world:
        world.model.answer_with(says("x" * 700, usage=nothing))
        await world.ask("hello " * 70)
        await world.ask("hello")
        await paid(world)
        spent_now = await cost(world)
        assert (spent_now.calls, spent_now.reckoned) == (2, 2)
        tokens = spent_now.tokens["fake"]
        assert tokens.output == 2 * 200
        first, second = (len(one.body) / 3.5 for one in world.model.asked)
        assert tokens.input == pytest.approx(first + second, rel=0.35)
        assert spent_now.micros == 2 * tokens.input + 10 * tokens.output
        if budget:
            assert await stands(world, budget) == [(tokens.input + tokens.output, 0)]
        [answer, _] = [one.data for one in await world.history() if one.type == "answer"]
        assert answer["usage"]["output_tokens"] == 200
        assert answer["reckoned"]
        [told] = await world.ask("/usage")
        assert "2 of them reckoned" in told
    lines = [one for one in caplog.records if "does not count tokens" in one.getMessage()]
    assert len(lines) == 1, "once, not with each call"


@pytest.mark.parametrize("budget", [None, {**day(tokens=5_000, turns=9), "warn_at": 1}])
async def test_reserving_and_settling_are_no_ways_of_their_own(
    desk_with: Opened, monkeypatch: pytest.MonkeyPatch, budget: dict[str, Any] | None
) -> None:
    """They travel with what is written anyhow: a turn of two calls goes to the server as often as without a budget."""
    async with desk_with(budget) as world:
        script = iter([says("Hello."), calls("current_time", usage=ONE), says("Noon.", usage=ONE)])
        world.model.answer_with(lambda _: next(script))
        await world.ask("hello")
        line: Any = type(world.desk.mailbox.store._line)
        real, sent = line.send, []

        def send(self: Any, asked: Any) -> None:
            sent.append([one.script.name for one in asked])
            real(self, asked)

        monkeypatch.setattr(line, "send", send)
        assert await world.ask("what time is it?") == ["Noon."]
        ours = [names for names in sent if {"reserve", "spend"} & set(names)]
        assert ours == [["reserve", "append"], ["spend", "append"]] * 2 if budget else [["spend", "append"]] * 2
