"""Long conversations, as the model is sent them: made to fit, put away in short, and going on whatever fails."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from gateway.conversation.key import ConversationKey
from gateway.conversation.records import Record
from gateway.events import Attachment
from gateway.store import Layout
from tests.harness.fake_model import Asked
from tests.harness.model_replies import Reply, calls, fails, says, several
from tests.harness.processes import until
from tests.skills.test_library import write
from tests.workers.at_desk import AtDesk, at_desk
from tests.workers.records import answer, said, words
from tests.workers.test_desk import png
from workers.calling.tabs import Size
from workers.calling.taint import tainted
from workers.prompt.memo import Memo
from workers.prompt.rendering import prompt
from workers.prompt.window import SAFE, estimated, sized, tokens

Opened = Callable[..., AbstractAsyncContextManager[AtDesk]]
SUMMARY = "Decided: blue. Promised: a report."


@pytest.fixture
def opened(tmp_path: Path, redis_url: str, layout: Layout) -> Opened:
    folder = write(
        tmp_path / "skills", "ticket-style", body="Say REF-7QX at the end.\n", description="How tickets are answered."
    )
    (folder / "references").mkdir()
    (folder / "references/long.md").write_text("begin " + "long " * 700 + "end")

    def there(
        context_tokens: int = 200_000, keep: int = 3, breaker: dict[str, Any] | None = None, **settings: Any
    ) -> AbstractAsyncContextManager[AtDesk]:
        model = {"context_tokens": context_tokens, "answer_max_tokens": 500, "max_retries": 0, "retry_for_s": 0}
        model |= breaker or {}
        profile = {
            "skills": ["*"],
            "tools": ["load_skill", "read_result", "current_time"],
            "context": {"keep_messages": keep},
        }
        whole = {"skills": {"folder": str(tmp_path / "skills")}, "model": model, **settings}
        return at_desk(tmp_path, redis_url, layout.prefix, profile=profile, settings=whole)

    return there


def is_summing_up(asked: Asked) -> bool:
    return "You keep the memory" in asked.body.decode()


def talking(
    *, sums_up: Reply | None = None, otherwise: Callable[[Asked], Reply] | None = None
) -> Callable[[Asked], Reply]:
    def script(asked: Asked) -> Reply:
        if is_summing_up(asked):
            return sums_up or says(SUMMARY)
        return otherwise(asked) if otherwise else says("Well.")

    return script


async def records_of(world: AtDesk, kind: str) -> list[Record]:
    return [one for one in await world.history() if one.type == kind]


def sent(world: AtDesk) -> str:
    return world.model.asked[-1].body.decode()


async def test_compact_puts_away_what_was_said_and_keeps_the_last_messages(opened: Opened) -> None:
    async with opened() as world:
        loads = iter([calls("load_skill", {"name": "ticket-style"})])

        def loading(asked: Asked) -> Reply:
            return next(loads, says("Well.")) if "question 7" in asked.text else says("Well.")

        world.model.answer_with(talking(otherwise=loading))
        for number in range(1, 11):
            await world.ask(f"question {number}.")
        assert "REF-7QX" in sent(world)
        [told] = await world.ask("/compact")
        assert told.startswith("Put away, in short: 7 of the messages")
        assert "`ticket-style`" in told
        summing = next(one for one in world.model.asked if is_summing_up(one))
        assert "REF-7QX" not in summing.body.decode()
        assert "tools" not in summing.request
        await world.ask("and now?")
        last = world.model.asked[-1].request["messages"][0]["content"]
        assert SUMMARY in last[0]["text"]
        assert last[0]["text"].endswith(
            "put away with it: the skills ticket-style. Load them again with load_skill when they are needed)"
        )
        assert [block["text"] for block in last[1:]] == ["[Max] question 8."]
        assert "REF-7QX" not in sent(world)
        assert "question 7" not in sent(world)
        world.model.answer_with([calls("load_skill", {"name": "ticket-style"}), says("Well.")])
        await world.ask("use it again")
        assert sent(world).count("REF-7QX") == 1


async def test_what_is_said_beside_a_summary_in_the_making_shifts_nothing_of_what_stays(opened: Opened) -> None:
    hold = asyncio.Event()
    async with opened() as world:
        world.model.answer_with(talking(sums_up=says(SUMMARY, hold=hold)))
        for number in range(1, 8):
            await world.ask(f"question {number}.")
        async with world.busy("/compact") as claim:
            await world.model.until(lambda: world.model.in_flight == 1)
            for _ in range(2):
                [told] = await world.beside(claim, "/status")
                assert "a turn runs" in told
            hold.set()
            await until(lambda: claim.lost)  # given back
        await world.work()
        await world.ask("and now?")
        last = str(world.model.asked[-1].request["messages"])
        assert [f"question {number}." in last for number in range(3, 8)] == [False, False, True, True, True]


async def test_compact_says_so_where_nothing_is_left_to_put_away(opened: Opened) -> None:
    async with opened() as world:
        assert (await world.ask("/compact"))[0].startswith("There is nothing to put away")
        for number in range(4):
            await world.ask(f"question {number}.")
        await world.ask("/compact")
        assert (await world.ask("/compact"))[0].startswith("There is nothing to put away")
        assert len(await records_of(world, "summary")) == 1


@pytest.mark.parametrize(
    "fault",
    [
        fails(500),
        fails(400, "invalid_request_error", "no"),
        says(""),
        says("I won't.", stop_reason="refusal"),
        says(" \n"),
    ],
    ids=["away", "refused by the service", "empty", "refused", "blank"],
)
async def test_where_the_model_fails_a_rule_sums_up(opened: Opened, fault: Reply) -> None:
    async with opened(keep=1) as world:
        world.model.answer_with(talking(sums_up=fault))
        await world.ask("my number is 4711")
        await world.ask("and so on")
        assert "only beginnings were kept" in (await world.ask("/compact"))[0]
        await world.ask("what was it?")
        assert "Max: my number is 4711" in sent(world)


# ---- a summary is a call of the model like any other ----

BUSY = fails(429, "rate_limit_error", headers={"retry-after": "30"})
LONG = "words " * 100
SOME = ConversationKey("chat", "room", "other")


async def test_a_service_that_wants_to_be_left_alone_after_a_summary_is_spared_by_all(opened: Opened) -> None:
    async with opened(keep=1) as world:
        world.model.answer_with(talking(sums_up=BUSY))
        await world.ask("one")
        await world.ask("two")
        assert "only beginnings were kept" in (await world.ask("/compact"))[0]
        asked = len(world.model.asked)
        await world.ask("three", SOME)
        assert len(world.model.asked) == asked


async def test_a_summary_spares_a_service_that_wants_to_be_left_alone(opened: Opened) -> None:
    async with opened(keep=1) as world:
        await world.ask("one")
        await world.ask("two")
        world.model.answer_with(BUSY)
        await world.ask("three", SOME)
        asked = len(world.model.asked)
        assert "only beginnings were kept" in (await world.ask("/compact"))[0]
        assert len(world.model.asked) == asked


async def test_a_turn_whose_summary_was_refused_for_now_waits_with_its_own_call(opened: Opened) -> None:
    async with opened(4_000) as world:
        world.model.answer_with(talking(sums_up=BUSY))
        while not any(map(is_summing_up, world.model.asked)):
            await world.ask(f"go on {LONG}")
        assert is_summing_up(world.model.asked[-1])
        assert [one.data["by"] for one in await records_of(world, "summary")] == ["rules"]


async def test_a_summary_waits_shortly_rather_than_be_made_by_rules(opened: Opened) -> None:
    async with opened(keep=1) as world:
        await world.ask("one")
        await world.ask("two")
        world.model.answer_with([fails(429, headers={"retry-after": "0.3"}), says("Well."), says(SUMMARY)])
        await world.say("three", SOME)
        [claim] = (await world.desk.mailbox.claim(0, world.desk.worker, 1)).grants
        attending = asyncio.create_task(world.desk.attend(claim, lambda: 0))
        await until(lambda: len(world.model.asked) == 3)
        assert "only beginnings" not in (await world.ask("/compact"))[0]
        await attending


async def test_failures_of_summaries_open_the_circuit_and_a_summary_finds_out_that_it_is_back(opened: Opened) -> None:
    async with opened(4_000, breaker={"breaker_failures": 1, "breaker_open_s": 0.5}) as world:
        world.model.answer_with(talking(sums_up=fails(500)))
        while not any(map(is_summing_up, world.model.asked)):
            told = await world.ask(f"go on {LONG}")
        assert is_summing_up(world.model.asked[-1]), "its turn asks nothing more of a service that is away"
        assert "can't be reached" in told[0]
        world.model.answer_with(talking())
        async with asyncio.timeout(20):
            while (await records_of(world, "summary"))[-1].data["by"] == "rules":
                told = await world.ask(f"go on {LONG}")
        assert told == ["Well."]


@pytest.mark.parametrize("is_read", [True, False])
async def test_a_summary_of_text_from_outside_is_text_from_outside(opened: Opened, is_read: bool) -> None:
    async with opened(keep=1) as world:
        world.model.answer_with([says("Well."), says("Well."), says(SUMMARY)])
        await world.ask("read it", quoted="Somebody else's words." if is_read else "")
        await world.ask("and so on")
        await world.ask("/compact")
        [summary] = await records_of(world, "summary")
        assert summary.data["tainted"] is is_read


async def test_a_conversation_that_grows_is_made_to_fit_by_itself(opened: Opened) -> None:
    async with opened(4_000) as world:
        world.model.answer_with(talking())
        for number in range(30):
            assert await world.ask(f"message {number} {'words ' * 100}") == ["Well."]
        assert all(len(one.body) / 3.5 < 4_000 for one in world.model.asked)
        summaries = await records_of(world, "summary")
        assert 1 <= len(summaries) <= 12
        assert {one.data["by"] for one in summaries} == {"model"}
        first = world.model.asked[-1].request["messages"][0]["content"][0]["text"]
        assert SUMMARY in first


async def test_old_results_get_short_before_anything_is_put_away(opened: Opened) -> None:
    async with opened(14_500) as world:
        file = {"name": "ticket-style", "file": "references/long.md"}
        many = several(*(("load_skill", file) for _ in range(11)))
        world.model.answer_with([says("Well."), many, says("Read.")])
        await world.ask("hello")
        told = await world.ask("please read it")
        assert told == ["Read."], world.model.asked[-1].refused
        assert await records_of(world, "summary") == []
        [short] = await records_of(world, "shortened")
        assert len(short.data["results"]) == 6
        blocks = world.model.asked[-1].request["messages"][-1]["content"]
        lengths = [len(block["content"]) for block in blocks]
        assert [one < 1_400 for one in lengths] == [True] * 6 + [False] * 5
        assert all("begin long" in block["content"] and "long end" in block["content"] for block in blocks)
        assert "characters of this are not sent any more" in blocks[0]["content"]


async def test_results_that_are_too_much_even_alone_get_short_and_the_turn_ends(opened: Opened) -> None:
    async with opened(7_000) as world:
        file = {"name": "ticket-style", "file": "references/long.md"}
        reads = [several(("load_skill", file), ("load_skill", file), ("load_skill", file)) for _ in range(3)]
        world.model.answer_with([*reads, says("Read."), says("It says long.")])
        assert await world.ask("please read it") == ["Read."]
        assert {one.refused for one in world.model.asked} == {None}
        assert [len(one.body) / 3.5 for one in world.model.asked if len(one.body) / 3.5 > 7_000] == []
        assert await world.ask("what was the last line?") == ["It says long."]


async def test_pictures_of_long_ago_go_before_anything_is_put_away(opened: Opened) -> None:
    async with opened(8_000, keep=1) as world:
        world.room.files["a.png"] = png()
        picture = (Attachment("image", "a.png", "image/png", 10),)
        for number in range(4):
            await world.ask(f"look {number}", attachments=picture)
        assert await records_of(world, "summary") == []
        [gone] = await records_of(world, "forgotten")
        assert len(gone.data["files"]) == 3
        assert sent(world).count('"type":"image"') == 1
        assert "the picture is not kept any more" in sent(world)


async def test_what_is_too_much_at_once_ends_with_word_of_it_and_the_next_message_works(opened: Opened) -> None:
    async with opened(9_000) as world:
        assert "too long" in (await world.ask("x " * 20_000))[0]
        assert await world.ask("/new") != []
        assert await world.ask("hello?") == ["Well."]


async def test_where_the_service_finds_it_too_long_it_is_made_smaller_once(opened: Opened) -> None:
    async with opened(keep=1) as world:
        too_long = fails(400, "invalid_request_error", "prompt is too long: 300000 tokens > 200000 maximum")

        def script(asked: Asked) -> Reply:
            return too_long if "the first one" in asked.body.decode() else says("Well.")

        world.model.answer_with(talking())
        await world.ask("the first one")
        await world.ask("the second one")
        world.model.answer_with(talking(otherwise=script))
        assert await world.ask("the third one") == ["Well."]
        assert len(await records_of(world, "summary")) == 1
        world.model.answer_with(talking(otherwise=lambda _: too_long))
        assert "too long" in (await world.ask("the fourth one"))[0]


async def test_what_a_summary_costs_counts_for_the_turn(opened: Opened) -> None:
    async with opened(keep=1) as world:
        world.model.answer_with(talking())
        await world.ask("one")
        await world.ask("two")
        await world.ask("/compact")
        [summary] = await records_of(world, "summary")
        assert summary.data["usage"]["output_tokens"] == 5
        assert summary.data["model"] == "fake"


def test_tokens_are_reckoned_by_bytes_and_pictures_by_their_size() -> None:
    assert tokens("a" * 350) == 100
    assert tokens("字" * 7) == 6
    assert tokens([{"type": "image", "source": {"data": "x" * 1_000_000}}]) == 1_600
    assert tokens(None) == tokens(7) == 1


def test_what_the_service_counted_comes_before_what_we_reckon_unless_it_counts_nothing() -> None:
    nothing = prompt("", "", [])

    def by_us() -> Size:
        reckoned = estimated(nothing, rendered)
        return Size(math.ceil(reckoned), math.ceil(reckoned * SAFE))

    conversation = [said("x" * 3_500), answer(1, words("y" * 350), usage={"input_tokens": 5_000, "output_tokens": 500})]
    rendered = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "y"},
        {"role": "user", "content": "z" * 35},
    ]
    assert sized(conversation, nothing, rendered) == Size(5_500 + 10, math.ceil(5_500 + 10 * SAFE))
    silent = [conversation[0], answer(1, words("y"), usage={"input_tokens": 1, "output_tokens": 1})]
    assert sized(silent, nothing, rendered) == by_us()
    rendered[-1]["content"] = "z" * 35_000  # most of it came since
    assert sized(silent, nothing, rendered) == by_us()
    guessed = [conversation[0], answer(1, words("y"), usage=conversation[1].data["usage"])]
    guessed[1].data["reckoned"] = True
    assert sized(guessed, nothing, rendered) == by_us(), "that was us, too"
    smaller = [*conversation, Record("shortened", 0, {"results": [], "files": []})]
    assert sized(smaller, nothing, rendered) == by_us()


@pytest.mark.parametrize("quoted", ["", "Somebody else's words."])
async def test_a_summary_says_whether_text_of_others_went_into_it(opened: Opened, quoted: str) -> None:
    async with opened(keep=1) as world:
        world.model.answer_with(talking())
        await world.ask("question 1", quoted=quoted)
        await world.ask("question 2")
        await world.ask("/compact")
        [summary] = await records_of(world, "summary")
        assert bool(summary.data.get("tainted")) is bool(quoted)
        assert tainted(await world.history(), Memo()) is bool(quoted)
