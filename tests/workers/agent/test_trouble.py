"""Trouble with the model: what the person sees of it, what the operator reads, and that the next message is answered."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from PIL import Image

from gateway.conversation.key import ConversationKey
from gateway.events import Attachment
from gateway.phrases import say
from gateway.store import Layout
from tests.harness.fake_model import KEY, Asked, FakeModel
from tests.harness.model_replies import Reply, calls, fails, says, thought
from tests.harness.proxy import Proxy
from tests.workers.at_desk import AtDesk, at_desk
from tests.workers.room import Room

ELSEWHERE: Final = ConversationKey("chat", "elsewhere")
THIRD: Final = ConversationKey("chat", "third")
BUSY: Final = fails(529, "overloaded_error", "Overloaded")
NEVER: Final = {"breaker_failures": 1_000}
"""The circuit stays closed."""

Opened = Callable[..., AbstractAsyncContextManager[AtDesk]]


@pytest.fixture
def opened(tmp_path: Path, redis_url: str, layout: Layout) -> Opened:
    """A desk; what is no field of `at_desk` is one of `model`."""

    def at(**given: Any) -> AbstractAsyncContextManager[AtDesk]:
        of_desk = {name: given.pop(name) for name in ("room", "profile") if name in given}
        settings = {**given.pop("settings", {}), "model": given}
        return at_desk(tmp_path, redis_url, layout.prefix, settings=settings, **of_desk)

    return at


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.agent.trouble.BACKOFF_S", 0.02)


async def told(world: AtDesk, text: str = "hello", where: ConversationKey = ELSEWHERE, **more: Any) -> list[str]:
    """What the chat gets for it, however often the turn is put off."""
    before = len(world.room.sent)
    assert await world.say(text, where, **more) == "new"
    await until_closed(world, where)
    return world.room.sent[before:]


async def until_closed(world: AtDesk, *rooms: ConversationKey) -> None:
    async with asyncio.timeout(20):
        for where in rooms:
            while (there := await world.desk.mailbox.load(where.id)).turn or there.inbox or there.rows:
                await world.work()
                await asyncio.sleep(0.01)


def lines(caplog: pytest.LogCaptureFixture, event: str) -> list[dict[str, Any]]:
    return [
        {"level": record.levelname, **getattr(record, "fields", {})}
        for record in caplog.records
        if record.getMessage() == event
    ]


def by_model(**scripts: Reply | Callable[[Asked], Reply]) -> Callable[[Asked], Reply]:
    """Each model of the service with a script of its own."""

    def script(asked: Asked) -> Reply:
        one = scripts[asked.request["model"]]
        return one(asked) if callable(one) else one

    return script


def models(world: AtDesk) -> list[str]:
    return [asked.request["model"] for asked in world.model.asked]


# ---- what passes ----


@pytest.mark.parametrize(
    "fault",
    [
        fails(500),
        fails(502),
        fails(503),
        BUSY,
        fails(429, "rate_limit_error"),
        says("half", error={"type": "overloaded_error", "message": "Overloaded"}),
        says("half", cut_after_bytes=300),
        says("half", end_after_events=3),
        says("half", stall_after_events=3),
        says("late", before_s=30),
    ],
    ids=["500", "502", "503", "529", "429", "in the stream", "reset", "no end", "stall", "no first byte"],
)
async def test_what_passes_is_tried_again_and_nobody_sees_it(opened: Opened, fault: Reply) -> None:
    async with opened(first_byte_timeout_s=0.3, idle_timeout_s=0.3) as world:
        world.model.answer_with([fault, says("whole")])
        assert await told(world) == ["whole"]
        assert world.model.asked[0].body == world.model.asked[1].body
        assert [record.type for record in await world.history(ELSEWHERE)].count("call") == 1


async def test_so_many_tries_and_then_a_notice_and_one_line_that_says_all(
    opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(max_retries=2) as world:
        world.model.answer_with(BUSY)
        [notice] = await told(world)
        assert len(world.model.asked) == 3
        assert "try again" in notice
        assert "{" not in notice
        *before, last = lines(caplog, "model failed")
        assert [line["level"] for line in before] == ["WARNING"] * 2
        assert last["level"] == "ERROR"
        assert last["reference"] in notice
        assert last["conversation"] == ELSEWHERE.id
        assert last["reason"] == "HTTP 529: overloaded_error: Overloaded: request id req_refused"
        world.model.answer_with(says("Well."))
        assert await told(world, "and now?") == ["Well."]


@pytest.mark.parametrize(
    ("fault", "asked"), [(says("x", before_s=30), 2), (says("x", stall_after_events=2), 2)], ids=["first byte", "later"]
)
async def test_a_model_that_is_silent_is_asked_once_more(opened: Opened, fault: Reply, asked: int) -> None:
    async with opened(first_byte_timeout_s=0.1, idle_timeout_s=0.1) as world:
        world.model.answer_with(fault)
        assert "can't be reached" in (await told(world))[0]
        assert len(world.model.asked) == asked


async def test_an_answer_may_take_longer_than_any_silence_in_it(opened: Opened) -> None:
    async with opened(first_byte_timeout_s=0.3, idle_timeout_s=0.3) as world:
        world.model.answer_with(says("word " * 8, deltas=8, between_s=0.05))
        assert len(await told(world)) == 1
        assert len(world.model.asked) == 1


@pytest.mark.parametrize("address", ["http://127.0.0.1:1", "http://nowhere.invalid", "https://{fake}"])
async def test_nobody_there_no_such_name_and_no_tls_are_tried_again_and_told(
    opened: Opened, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with FakeModel() as fake:
        base_url = address.format(fake=fake.url.partition("//")[2])
        async with opened(base_url=base_url, max_retries=1) as world:
            assert "can't be reached" in (await told(world))[0]
    assert [line["kind"] for line in lines(caplog, "model failed")] == ["unreachable"] * 2
    assert base_url in lines(caplog, "model failed")[-1]["reason"]


@asynccontextmanager
async def behind_a_proxy(opened: Opened, **settings: Any) -> AsyncIterator[tuple[AtDesk, FakeModel, Proxy]]:
    async with (
        FakeModel(says("whole " * 200, deltas=50)) as fake,
        Proxy(fake.url.partition("//")[2]) as proxy,
        opened(base_url=f"http://{proxy.address}", **settings) as world,
    ):
        yield world, fake, proxy


@pytest.mark.parametrize("after_bytes", [0, 1, 40, 700, 3_000])
async def test_a_line_that_is_cut_anywhere_is_used_again(opened: Opened, after_bytes: int) -> None:
    async with behind_a_proxy(opened) as (world, fake, proxy):
        proxy.cut(after_bytes=after_bytes)

        def heal(_: Asked) -> Reply:
            if len(fake.asked) > 1:
                proxy.heal()
            return says("whole " * 200, deltas=50)

        fake.answer_with(heal)
        assert await told(world) == [("whole " * 200).strip()]
        assert len(fake.asked) == 2


async def test_bytes_that_stop_on_the_way_are_noticed(opened: Opened) -> None:
    async with behind_a_proxy(opened, first_byte_timeout_s=0.2, idle_timeout_s=0.2) as (world, fake, proxy):
        proxy.hold()
        asking = asyncio.create_task(told(world))
        async with asyncio.timeout(10):
            while proxy.connections < 2:  # the second try
                await asyncio.sleep(0.01)
        proxy.heal()
        assert len(await asking) == 1
        assert fake.asked


# ---- what does not ----


@pytest.mark.parametrize(
    "fault",
    [
        fails(401, "authentication_error", f"invalid x-api-key {KEY}"),
        fails(403, "permission_error"),
        fails(400, "invalid_request_error", "Your credit balance is too low to access the API."),
        fails(404, "not_found_error", "model: fake"),
        Reply(raw=b"<html>Log in</html>", content_type="text/html"),
    ],
    ids=["401", "403", "credit", "404", "page"],
)
async def test_what_does_not_pass_is_asked_once_and_the_person_hears_that_trying_again_does_not_help(
    opened: Opened, fault: Reply, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened() as world:
        world.model.answer_with(fault)
        [notice] = await told(world)
        [line] = lines(caplog, "model failed")
    assert len(world.model.asked) == 1
    assert "Trying again won't help" in notice
    assert line["level"] == "ERROR"
    assert line["reference"] in notice
    assert KEY not in caplog.text + notice
    assert not re.search(r"[{}<>]", notice)


async def test_a_model_that_never_answers_ends_with_the_turns_time_and_the_next_message_is_answered(
    opened: Opened,
) -> None:
    async with opened(profile={"limits": {"turn_s": 0.5}}) as world:
        world.model.answer_with([says("late", hold=asyncio.Event()), says("Yes.")])
        assert "I stopped after" in (await told(world))[0]
        assert await told(world, "are you there?") == ["Yes."]


async def test_five_failures_in_a_row_are_no_hindrance_for_the_next_message(opened: Opened) -> None:
    async with opened(max_retries=4) as world:
        world.model.answer_with([fails(500)] * 5 + [says("Yes.")])
        assert "can't be reached" in (await told(world))[0]
        assert await told(world, "are you there?") == ["Yes."]


async def test_failures_use_up_none_of_a_turns_steps(opened: Opened) -> None:
    async with opened(profile={"limits": {"steps": 1}}, **NEVER) as world:
        world.model.answer_with([fails(500)] * 3 + [says("Well.")])
        assert await told(world) == ["Well."]


# ---- what the service asks for ----


async def test_a_wait_that_the_service_asks_for_is_kept_by_all_and_the_place_is_free_meanwhile(opened: Opened) -> None:
    async with opened(settings={"mailbox": {"send_hold_s": 0.1}}) as world:
        first = fails(429, "rate_limit_error", headers={"retry-after": "1"})
        world.model.answer_with(lambda _: first if len(world.model.asked) == 1 else says("Well."))
        await world.say("one", ELSEWHERE)
        await world.work()  # comes back, for the turn is put off
        await world.say("two", THIRD)
        await until_closed(world, ELSEWHERE, THIRD)
        assert world.room.sent == ["Well.", "Well."]
        one, *later = [asked.at_s for asked in world.model.asked]
        assert len(later) == 2
        assert min(later) >= one + 0.99, "the other one waited as well, and asked nothing before"


async def test_a_wait_from_before_the_clock_was_put_back_is_over(opened: Opened) -> None:
    async with opened(settings={"mailbox": {"send_hold_s": 0.1}}) as world:
        wait = fails(429, "rate_limit_error", headers={"retry-after": "0.5"})
        world.model.answer_with(lambda _: wait if len(world.model.asked) == 1 else says("Well."))
        await world.say("one", ELSEWHERE)
        await world.work()  # the turn is put off
        store = world.desk.mailbox.store
        name = store.layout.key(ELSEWHERE.id)
        turn = json.loads(await store.redis.hget(name, "turn") or "")
        turn["model"]["not_before_ms"] += 86_400_000  # as if a day had been taken back since
        await store.redis.hset(name, "turn", json.dumps(turn))
        await until_closed(world, ELSEWHERE)
        assert world.room.sent == ["Well."]


@pytest.mark.parametrize(("language", "send_hold_s"), [("en", 3), ("zh", 0.05)])
async def test_who_waits_long_is_told_once_a_turn_in_the_channels_language_with_or_without_a_place(
    opened: Opened, language: str, send_hold_s: float
) -> None:
    settings = {"mailbox": {"send_hold_s": send_hold_s}}
    async with opened(tell_after_s=0.2, profile={"language": language}, settings=settings) as world:
        wait = fails(429, "rate_limit_error", headers={"retry-after": "0.4"})
        world.model.answer_with([wait, wait, says("Well.")])
        assert await told(world) == [say("turn.waiting", language), "Well."]
        world.model.answer_with([wait, says("Well.")])
        assert await told(world, "again") == [say("turn.waiting", language), "Well."]


async def test_who_waits_shortly_is_told_nothing(opened: Opened) -> None:
    async with opened() as world:
        world.model.answer_with([fails(429, headers={"retry-after": "0.3"}), says("Well.")])
        assert await told(world) == ["Well."]


async def test_time_that_a_silent_model_took_counts_as_waiting(opened: Opened) -> None:
    async with opened(tell_after_s=0.3, first_byte_timeout_s=0.4) as world:
        world.model.answer_with([says("late", before_s=30), says("Well.")])
        assert await told(world) == [say("turn.waiting", "en"), "Well."]


async def test_a_wait_longer_than_the_turn_ends_it_at_once_and_says_how_long(
    opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(profile={"limits": {"turn_s": 60}}) as world:
        world.model.answer_with(fails(429, "rate_limit_error", "later", headers={"retry-after": "300"}))
        assert "try again in about 5 min" in (await told(world))[0]
        assert "try again in about 5 min" in (await told(world, "now?"))[0]
        assert len(world.model.asked) == 1, "the second one asks nobody"
        *_, last = lines(caplog, "model failed")
        assert "not asked" in last["reason"]


async def test_what_a_service_asks_for_does_not_use_up_the_time_for_trying(opened: Opened) -> None:
    async with opened(retry_for_s=1) as world:
        world.model.answer_with([fails(429, headers={"retry-after": "1.2"}), fails(500), says("Well.")])
        assert await told(world) == ["Well."]


# ---- away ----


async def test_a_model_that_is_away_is_not_asked_by_others(opened: Opened, caplog: pytest.LogCaptureFixture) -> None:
    async with opened(breaker_failures=2, max_retries=1, breaker_open_s=60) as world:
        world.model.answer_with(BUSY)
        await told(world)
        [line] = lines(caplog, "model is away")
        assert line["model"] == "fake"
        [notice] = await told(world, "hello?", THIRD)
        assert "can't be reached" in notice
        assert len(world.model.asked) == 2
        assert lines(caplog, "model failed")[-1]["reference"] in notice


async def test_a_service_that_is_there_and_only_busy_is_not_away(opened: Opened) -> None:
    async with opened(breaker_failures=2, max_retries=1, breaker_open_s=60) as world:
        world.model.answer_with(fails(429, "rate_limit_error"))
        assert "too much to do" in (await told(world))[0]
        world.model.answer_with(says("Well."))
        assert await told(world, "now?") == ["Well."]


async def test_an_answer_in_between_is_forgiven(opened: Opened, caplog: pytest.LogCaptureFixture) -> None:
    async with opened(breaker_failures=2) as world:
        world.model.answer_with([fails(500), says("one"), fails(500), says("two")])
        assert await told(world) == ["one"]
        assert await told(world, "more") == ["two"]
        assert not lines(caplog, "model is away")


async def test_who_comes_while_it_is_away_waits_for_a_while_and_is_answered_when_it_is_back(
    opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with opened(breaker_failures=2, max_retries=1, breaker_open_s=0.4) as world:
        world.model.answer_with([BUSY, BUSY, says("back"), says("back")])
        assert "can't be reached" in (await told(world))[0]
        assert await told(world, "now?") == ["back"]
        assert world.model.asked[2].at_s >= world.model.asked[1].at_s + 0.39
        assert len(lines(caplog, "model answers again")) == 1
        assert await told(world, "and now?") == ["back"]


# ---- another model ----

SPARE: Final = {"fallback_model": "spare"}


@pytest.mark.parametrize("open_s", [60, 10])
async def test_the_fallback_answers_at_once_for_a_model_that_is_away_and_only_why_tells(
    opened: Opened, caplog: pytest.LogCaptureFixture, open_s: float
) -> None:
    async with opened(profile=SPARE, breaker_failures=2, breaker_open_s=open_s) as world:
        world.model.answer_with(by_model(fake=BUSY, spare=says("I can.")))
        assert await told(world) == ["I can."]
        assert models(world) == ["fake", "fake", "spare"]
        assert (await world.history(ELSEWHERE))[-2].data["model"] == "spare"
        assert "answered by the model `spare`" in (await told(world, "/why"))[0]
        assert await told(world, "more", THIRD) == ["I can."]
        assert models(world)[3:] == ["spare"], "at once"
        assert not [line for line in lines(caplog, "model failed") if line["level"] == "ERROR"]


@pytest.mark.parametrize(
    "fault", [fails(404, "not_found_error", "model: fake"), fails(429, headers={"retry-after": "100"})]
)
async def test_the_fallback_answers_for_one_that_does_not_exist_or_wants_a_long_rest(
    opened: Opened, fault: Reply
) -> None:
    async with opened(profile=SPARE) as world:
        world.model.answer_with(by_model(fake=fault, spare=says("I can.")))
        assert await told(world) == ["I can."]
        assert models(world) == ["fake", "spare"]


async def test_the_fallback_answers_when_the_tries_are_used_up(opened: Opened) -> None:
    async with opened(profile=SPARE, max_retries=1, **NEVER) as world:
        world.model.answer_with(by_model(fake=BUSY, spare=says("I can.")))
        assert await told(world) == ["I can."]
        assert models(world) == ["fake", "fake", "spare"]


async def test_a_fallback_that_is_away_too_is_told(opened: Opened) -> None:
    async with opened(profile=SPARE, max_retries=1, **NEVER) as world:
        world.model.answer_with(BUSY)
        assert "can't be reached" in (await told(world))[0]
        assert models(world) == ["fake", "fake", "spare", "spare"]


@pytest.mark.parametrize("profile", [{}, {"fallback_model": "fake"}])
async def test_without_a_fallback_or_with_itself_as_one_nothing_is_switched(
    opened: Opened, profile: dict[str, str]
) -> None:
    async with opened(profile=profile, max_retries=0) as world:
        world.model.answer_with(BUSY)
        await told(world)
        assert models(world) == ["fake"]


async def test_a_turn_stays_with_the_fallback_and_the_next_goes_back_with_nothing_that_another_model_thought(
    opened: Opened,
) -> None:
    """The fake model refuses a signature that is not its own, as the service does."""
    profile = SPARE | {"tools": ["current_time"]}

    def think_and_call(asked: Asked) -> Reply:
        is_done = "tool_result" in str(asked.request["messages"][-1])
        use = {"type": "tool_use", "name": "current_time", "input": {}}
        if is_done:
            return Reply([thought("so"), {"type": "text", "text": "Done."}])
        return Reply([thought(), use], stop_reason="tool_use")

    async with opened(profile=profile, max_retries=0, **NEVER) as world:
        world.model.answer_with(think_and_call)
        assert await told(world) == ["Done."]
        world.model.answer_with(by_model(fake=BUSY, spare=think_and_call))
        assert await told(world, "again") == ["Done."]
        world.model.answer_with(think_and_call)
        assert await told(world, "and again") == ["Done."]
        assert [asked.refused for asked in world.model.asked if asked.refused] == []
        assert models(world) == ["fake"] * 3 + ["spare"] * 2 + ["fake"] * 2
        assert world.model.asked[4].body.count(b'"thinking":"hm"') == 1, "its own"
        assert world.model.asked[5].body.count(b'"thinking":"hm"') == 1, "what it thought in its own turn"
        switched = [one.data["model"] for one in await world.history(ELSEWHERE) if one.type == "switched"]
        assert switched == ["spare", "fake"]


# ---- pictures ----


def picture(color: str) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (4, 3), color).save(out, "PNG")
    return out.getvalue()


def blind(asked: Asked) -> Reply:
    if '"image"' in asked.body.decode():
        return fails(400, "invalid_request_error", "messages.0.content.1.image.source.base64: Could not process image")
    return says("I can't see it.")


def image(name: str) -> tuple[Attachment, ...]:
    return (Attachment("image", name, "image/png", 10),)


async def test_a_picture_that_the_model_refuses_is_taken_out_and_the_turn_goes_on(opened: Opened) -> None:
    async with opened(room=Room({"a.png": picture("red")})) as world:
        world.model.answer_with(blind)
        assert await told(world, "what is it?", attachments=image("a.png")) == ["I can't see it."]
        assert len(world.model.asked) == 2
        assert "refused the picture" in world.model.asked[1].text
        assert await told(world, "hi") == ["I can't see it."]
        assert len(world.model.asked) == 3, "it is not sent again"


async def test_only_the_new_picture_is_taken_out_unless_that_does_not_help(opened: Opened) -> None:
    async with opened(room=Room({"a.png": picture("red"), "b.png": picture("blue")})) as world:
        await told(world, "one", attachments=image("a.png"))

        def picky(asked: Asked) -> Reply:
            return blind(asked) if asked.body.count(b'"type":"image"') > 1 else says("One.")

        world.model.answer_with(picky)
        assert await told(world, "two", attachments=image("b.png")) == ["One."]
        world.model.answer_with(blind)
        assert await told(world, "three") == ["I can't see it."]
        assert len(world.model.asked) == 5


async def test_a_refusal_that_speaks_of_an_image_where_there_is_none_ends_the_turn(opened: Opened) -> None:
    async with opened() as world:
        world.model.answer_with(fails(400, "invalid_request_error", "no image here"))
        assert "does not take our requests" in (await told(world))[0]
        assert len(world.model.asked) == 1


# ---- answers that are none, and arguments that are none ----


@pytest.mark.parametrize(
    ("answer", "asked"),
    [
        (Reply([]), 2),
        (Reply([thought()]), 2),
        (Reply([{"type": "redacted_thinking", "data": "x"}]), 2),
        (Reply([], stop_reason="refusal"), 1),
        (Reply([thought()], stop_reason="max_tokens"), 2),
    ],
    ids=["empty", "thinking", "redacted", "refusal", "thought too long"],
)
async def test_an_answer_without_a_word_leads_to_one_notice(opened: Opened, answer: Reply, asked: int) -> None:
    async with opened() as world:
        world.model.answer_with(answer)
        assert await told(world) == [say("turn.empty", "en")]
        assert len(world.model.asked) == asked
        world.model.answer_with(says("Well."))
        assert await told(world, "and now?") == ["Well."]


@pytest.mark.parametrize("written", ['{"n": NaN}', '{"where": "in the', "[1]"])
@pytest.mark.parametrize("stop_reason", ["tool_use", "max_tokens"])
async def test_arguments_that_are_none_are_fed_back_twice_and_nothing_runs(
    opened: Opened, written: str, stop_reason: str
) -> None:
    use = {"type": "tool_use", "name": "current_time", "json": written}
    async with opened(profile={"tools": ["current_time"]}) as world:
        world.model.answer_with(Reply([use], stop_reason=stop_reason))
        [notice] = await told(world)
        assert "Trying again may help" in notice
        assert len(world.model.asked) == 3
        assert all("could not be read" in asked.text for asked in world.model.asked[1:])
        assert not [record for record in await world.history(ELSEWHERE) if record.type == "tool_start"]
        world.model.answer_with([Reply([use], stop_reason=stop_reason), calls("current_time"), says("Noon.")])
        assert await told(world, "and now?") == ["Noon."]


@pytest.mark.parametrize(
    ("limits", "phrase"), [({"steps": 3}, "turn.limit_steps"), ({"turn_tokens": 40}, "turn.limit_tokens")]
)
async def test_tools_without_an_end_end_with_a_message(opened: Opened, limits: dict[str, int], phrase: str) -> None:
    async with opened(profile={"tools": ["current_time"], "limits": limits}) as world:
        world.model.answer_with(calls("current_time"))
        assert await told(world) == [say(phrase, "en", **limits)]
        assert len(world.model.asked) == 3
        world.model.answer_with(says("Well."))
        assert await told(world, "and now?") == ["Well."]
