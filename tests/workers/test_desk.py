"""What a worker does with what people say: greetings, files, albums, what was overheard, and presses of buttons."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any, ClassVar

import pytest
from PIL import Image

from config.profiles import Profile, Queue
from gateway.conversation.key import ConversationKey
from gateway.events import Actor, Attachment, Event
from gateway.platforms import Address, Outcome, OutcomeKind, Part, Sent, Stream
from gateway.platforms import Growing as Growing_
from gateway.store import Layout
from tests.harness.fake_model import Asked
from tests.harness.model_replies import calls, says
from tests.harness.processes import until
from tests.workers.at_desk import WHERE, AtDesk, at_desk
from tests.workers.room import Room
from workers.taking import chosen

OTHER_THREAD = ConversationKey("chat", "room", "t2")
OTHER_ROOM = ConversationKey("chat", "elsewhere")

Opened = Callable[..., AbstractAsyncContextManager[AtDesk]]


@pytest.fixture
def opened(tmp_path: Path, redis_url: str, layout: Layout) -> Opened:
    return lambda **more: at_desk(tmp_path, redis_url, layout.prefix, **more)


@pytest.fixture
async def world(opened: Opened) -> AsyncIterator[AtDesk]:
    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(opened(room=Room({"a.png": png()})))


def png() -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (4, 3), "red").save(out, "PNG")
    return out.getvalue()


def image(name: str = "a.png") -> Attachment:
    return Attachment("image", name, "image/png", 10)


def blocks(asked: Asked) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = asked.request["messages"][-1]["content"]
    return found


# greetings, and what can't be read


async def test_who_only_mentions_us_is_greeted_and_no_model_is_asked(world: AtDesk) -> None:
    for text in ("", " \n", "\u200b"):
        [told] = await world.ask(text)
        assert "/help" in told
    assert world.model.asked == []


async def test_a_profiles_own_greeting_takes_the_place_of_ours(opened: Opened) -> None:
    async with opened(profile={"greeting": "Ask me about **invoices**."}) as world:
        assert await world.ask() == ["Ask me about **invoices**."]
        assert await world.ask("hello") == ["Well."]


async def test_what_cannot_be_read_at_all_is_said_so_and_no_model_is_asked(world: AtDesk) -> None:
    [told] = await world.ask(attachments=(Attachment("sticker", "cat", "image/webp", 5),))
    assert "can't read that kind" in told
    assert world.model.asked == []
    assert world.room.downloads == []


async def test_a_sticker_with_words_is_answered(world: AtDesk) -> None:
    assert await world.ask("you?", attachments=(Attachment("sticker", "cat", "image/webp", 5),)) == ["Well."]


# files


async def test_a_picture_without_a_word_reaches_the_model(world: AtDesk) -> None:
    assert await world.ask(attachments=(image(),)) == ["Well."]
    [asked] = world.model.asked
    assert asked.refused is None
    assert [block["type"] for block in blocks(asked)] == ["text", "image"]
    assert blocks(asked)[1]["source"]["media_type"] == "image/png"


async def test_a_login_page_in_place_of_a_picture_is_told_and_the_question_is_answered(world: AtDesk) -> None:
    world.room.files["a.png"] = b"<!DOCTYPE html><title>Sign in</title>"
    told = await world.ask("what is it?", attachments=(image(),))
    assert told == ["I could not read `a.png`, so I answer without it.", "Well."]
    assert "what is it?" in world.model.asked[0].text
    assert world.model.asked[0].refused is None


async def test_later_questions_begin_with_the_same_bytes_picture_and_all(world: AtDesk) -> None:
    await world.ask("look", attachments=(image(),))
    await world.ask("and now?")
    first, second = (asked.request["messages"] for asked in world.model.asked)
    assert second[: len(first)] == first
    assert world.room.downloads == ["a.png"]


async def test_a_tools_file_goes_out_before_the_answer(opened: Opened) -> None:
    async with opened(profile={"tools": ["send_file"]}) as world:
        script = iter([calls("send_file", {"name": "a.csv", "content": "a,b\n"}), says("There you are.")])
        world.model.answer_with(lambda _: next(script))
        assert await world.ask("as a file, please") == ["a.csv", "There you are."]


@pytest.mark.parametrize("refused", ["rejected", "target_gone"])
async def test_a_file_that_the_platform_refuses_costs_no_answer_even_if_its_worker_dies(
    opened: Opened, refused: OutcomeKind
) -> None:
    async with opened(profile={"tools": ["send_file"]}) as world:
        hold = asyncio.Event()
        script = iter(
            [calls("send_file", {"name": "a.csv", "content": "a,b\n"}), says("never", hold=hold), says("Well.")]
        )
        world.model.answer_with(lambda _: next(script))
        world.room.outcomes = [Outcome(refused)]
        await world.say("as a file, please")
        [claim] = (await world.desk.mailbox.claim(0, "w1", 1)).grants
        dying = asyncio.create_task(world.desk.attend(claim, lambda: 0))
        await world.model.until(lambda: len(world.model.asked) == 2)
        dying.cancel()
        await asyncio.wait([dying])
        due = f"{world.desk.mailbox.store.layout.root(0)}:due"
        await world.desk.mailbox.store.redis.zadd(due, {WHERE.id: 0}, xx=True)  # its lease has run out
        await world.work()
        assert world.room.sent[-1:] == ["Well."]
        assert [one.data["text"] for one in await world.history() if one.type == "reply"] == ["Well."]


@pytest.mark.parametrize("tool", [True, False])
async def test_what_waits_for_the_platform_goes_out_before_the_answer(opened: Opened, *, tool: bool) -> None:
    room, hold = Room({"a.png": b"none"}), {"mailbox": {"send_hold_s": 0.05}}
    async with opened(profile={"tools": ["send_file"]}, settings=hold, room=room) as world:
        script = iter([calls("send_file", {"name": "a.csv", "content": "a,b\n"}), says("Well.")])
        world.model.answer_with(lambda _: next(script) if tool else says("Well."))
        room.outcomes = [Outcome("rate_limited", retry_after_s=0.2)]
        await world.say("please", attachments=() if tool else (image(),))
        async with asyncio.timeout(30):
            while len(room.sent) < 2:
                await world.work()
                await asyncio.sleep(0.02)
        assert room.sent[1] == "Well."


# albums


async def test_an_album_of_three_pictures_is_one_turn(world: AtDesk) -> None:
    """Each comes as a message of its own, the words with the first."""
    world.room.files |= {"b.png": png(), "c.png": png()}
    for text, name in (("which one?", "a.png"), ("", "b.png"), ("", "c.png")):
        assert await world.say(text, attachments=(image(name),), group="album 1") == "new"
    await world.work()
    assert world.model.asked == [], "it waits for the next picture"
    async with asyncio.timeout(30):
        while not world.model.asked:
            await asyncio.sleep(0.05)
            await world.work()
    [asked] = world.model.asked
    assert [block["type"] for block in blocks(asked)].count("image") == 3
    assert world.room.sent == ["Well."]


def member(number: int, **changed: Any) -> bytes:
    """Of an inbox; all at one moment, as a platform that counts in seconds says."""
    fields = {"kind": "message", "conversation": WHERE, "at_ms": 1_000, "text": "x", **changed}
    return b"%012d:%b" % (number, Event(dedupe_keys=(f"d{number}",), **fields).dump().encode())


ANA, LI = Actor("U-ANA"), Actor("U-LI")
A, B = {"actor": ANA, "group": "album 1"}, {"actor": LI, "group": "album 2"}


@pytest.mark.parametrize(
    ("inbox", "taken"),
    [
        ([A, A, A], 3),
        ([A, A, B, B], 2),
        ([A, B, A], 1),
        ([A, {"actor": LI, "group": "album 1"}], 1),
        ([A, {"actor": ANA, "at_ms": 10**13}], 1),
        ([{"actor": ANA}, {"actor": ANA}], 1),
        ([{"actor": ANA}, A, A], 1),
        ([A, A, {"actor": ANA, "kind": "action", "value": "skill list"}, A], 2),
        ([{"actor": ANA, "kind": "action", "value": "skill list"}, A], 1),
    ],
)
def test_what_is_together_is_one_turn_and_two_peoples_albums_are_two(inbox: list[dict[str, Any]], taken: int) -> None:
    waiting = [member(number, **changed) for number, changed in enumerate(inbox)]
    assert chosen(waiting, Profile()) == waiting[:taken]


@pytest.mark.parametrize(("at_ms", "who", "taken"), [(1_400, ANA, 2), (1_401, ANA, 1), (1_400, LI, 1)])
def test_a_paste_in_several_messages_is_one_turn_of_one_person(at_ms: int, who: Actor, taken: int) -> None:
    waiting = [member(0, actor=ANA), member(1, actor=who, at_ms=at_ms)]
    assert chosen(waiting, Profile(queue=Queue(gather_ms=400))) == waiting[:taken]


async def test_an_album_is_answered_beside_what_another_person_sends(world: AtDesk) -> None:
    world.room.files["b.png"] = png()
    for who, group, name in ((ANA, "1", "a.png"), (ANA, "1", "b.png"), (LI, "2", "a.png")):
        await world.say("", actor=who, attachments=(image(name),), group=group)
    async with asyncio.timeout(30):
        while len(world.model.asked) < 2:
            await asyncio.sleep(0.05)
            await world.work()
    assert [[block["type"] for block in blocks(asked)].count("image") for asked in world.model.asked] == [2, 1]


# overheard


async def test_what_was_said_around_us_comes_with_the_next_question_once(opened: Opened) -> None:
    async with opened(profile={"overhear": 3}) as world:
        for text in ("one", "two", "three", "four"):
            assert await world.say(text, addressed=False, actor=Actor("U-ANA", "Ana")) == "ignored"
        await world.say("elsewhere", OTHER_ROOM, addressed=False)
        await world.ask("what do they want?")
        heard = world.model.asked[0].text
        assert "[Ana] two\n[Ana] three\n[Ana] four\n</data" in heard
        assert "one" not in heard.replace("channel", "")
        assert "elsewhere" not in heard
        await world.ask("and now?")
        assert "said in this channel before" not in world.model.asked[1].text
        await world.say("five", OTHER_THREAD, addressed=False)
        await world.ask("and now?")
        assert "[Max] five\n</data" in world.model.asked[2].text
        assert "four" not in world.model.asked[2].text
        first, second, third = (asked.request["messages"] for asked in world.model.asked)
        assert second[: len(first)] == first
        assert third[: len(second)] == second


async def test_another_thread_hears_it_for_itself(opened: Opened) -> None:
    async with opened(profile={"overhear": 3}) as world:
        await world.say("it rains", OTHER_ROOM, addressed=False)
        await world.say("it snows", addressed=False)
        for thread in (WHERE, OTHER_THREAD):
            await world.ask("well?", thread)
            assert "it snows" in world.model.asked[-1].text
            assert "it rains" not in world.model.asked[-1].text


async def test_where_the_profile_does_not_want_it_nothing_is_kept(world: AtDesk) -> None:
    await world.say("it rains", addressed=False)
    store = world.desk.mailbox.store
    assert [key async for key in store.redis.scan_iter(f"{store.layout.heard_root}:*")] == []
    await world.ask("well?")
    assert "it rains" not in world.model.asked[0].text


async def test_neither_bots_nor_files_without_words_are_overheard_and_a_command_takes_nothing_along(
    opened: Opened,
) -> None:
    async with opened(profile={"overhear": 3, "other_bots": "answer"}) as world:
        await world.say("beep", addressed=False, actor=Actor("B", is_bot=True))
        await world.say("", addressed=False, attachments=(image(),))
        await world.say("it rains", addressed=False)
        await world.ask("/help")
        assert [one.data["said"] for one in await world.history() if one.type == "overheard"] == []
        await world.ask("well?")
        assert [one.data["said"] for one in await world.history() if one.type == "overheard"] == [[["Max", "it rains"]]]


@pytest.mark.parametrize("nothing", ["\u200b", "\u2060\ufeff", "\u202e", " \n"])
async def test_an_answer_that_nobody_could_see_is_none(world: AtDesk, nothing: str) -> None:
    world.model.answer_with(says(nothing))
    [said] = await world.ask("well?")
    assert any(one.isprintable() and not one.isspace() for one in said)
    assert nothing not in str([record.data for record in await world.history() if record.type == "answer"])


# a growing message whose holder died


class Growing(Room):
    """A platform that shows answers as a message that grows, and has neither a key nor a look back."""

    def __init__(self) -> None:
        super().__init__(stream=Stream("message", 0.01))
        self.dies = True

    async def show(self, to: Address, growing: Growing_, key: str, sent: Sent | None) -> Outcome:
        await super().show(to, growing, key, sent)
        return Outcome("ambiguous") if self.dies else Outcome("ok", sent or Sent("grown"))


@pytest.mark.parametrize(("unclear_send", "sent"), [("skip", 0), ("repeat", 1)])
async def test_one_that_nobody_saw_arrive_is_not_followed_by_a_second_and_the_profile_decides(
    opened: Opened, unclear_send: str, sent: int
) -> None:
    settings = {"mailbox": {"send_timeout_s": 0.3}}
    hold = asyncio.Event()
    room = Growing()
    async with opened(room=room, profile={"unclear_send": unclear_send}, settings=settings) as world:
        world.model.answer_with(says("A long answer.", deltas=6, between_s=0.1, hold=hold))
        assert await world.say("go on") == "new"
        [claim] = (await world.desk.mailbox.claim(0, "first", 1)).grants
        first = asyncio.create_task(world.desk.attend(claim, lambda: 0))
        await world.model.until(lambda: bool(world.model.asked))
        hold.set()
        await until(lambda: bool(world.room.shown))
        first.cancel()  # its worker dies
        await asyncio.gather(first, return_exceptions=True)
        await world.desk.mailbox.hand_over(claim)
        room.dies = False
        begun = len(world.room.shown)
        await world.work()
        assert len(world.room.shown) == begun, "no second growing message"
        assert world.room.sent.count("A long answer.") == sent
        assert len(world.room.sent) == sent + 1, "and the person is told"


async def test_one_that_cannot_become_the_reply_is_taken_back(opened: Opened) -> None:
    class Fixed(Growing):
        gone: ClassVar[list[str]] = []

        async def edit(self, to: Address, sent: Sent, part: Part) -> Outcome:
            del to, sent, part
            return Outcome("too_long")

        async def delete(self, to: Address, sent: Sent) -> Outcome:
            del to
            self.gone.append(sent.message_id)
            return Outcome("ok")

    room = Fixed()
    room.dies = False
    async with opened(room=room) as world:
        world.model.answer_with(says("A long answer.", deltas=6, between_s=0.1))
        assert await world.ask("go on") == ["A long answer."]
        assert room.shown
        assert room.gone == ["grown"]
