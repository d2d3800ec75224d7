"""Rows of the outbox to a platform: real Redis, a real (strict) receiver over HTTP."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import aiohttp
import pytest
from pydantic import SecretStr

from config.profiles import Profile
from config.settings import MailboxSettings
from gateway.boards import Boards
from gateway.conversation.claim import Claim, Lost
from gateway.conversation.key import ConversationKey
from gateway.conversation.mailbox import Mailbox
from gateway.conversation.outbox import Row
from gateway.events import Actor, Event
from gateway.feed import Feed
from gateway.files import Files
from gateway.platforms import Outbound, Outside, Stream, slack, standard_webhooks
from gateway.store import Store
from tests.gateway.conversation.world import now_ms
from tests.harness.slack_twin import BOT_TOKEN, CHANNEL, SIGNING_SECRET, TEAM, USER, SlackTwin
from tests.harness.webhook_twin import REPLY_SECRET, SECRET, WebhookTwin
from workers.sending.delivery import REPEATS_MAX, Delivery, key_is_known
from workers.sending.live import Live
from workers.turn import Parked, Turn, begin, leftover, rows_for

QUICK = MailboxSettings(lease_s=1.0, send_timeout_s=0.4, send_hold_s=0.5, send_for_s=2.0)


class Slow(Mailbox):
    """A mailbox whose process sleeps between its mark and the send."""

    sleep_s = 0.0

    async def mark(self, claim: Claim, row: Row, state: str, *args: Any, **more: Any) -> bool:
        marked = await super().mark(claim, row, state, *args, **more)
        if state == "sending" and self.sleep_s:
            await asyncio.sleep(self.sleep_s)
        return marked


@dataclass
class Desk:
    """One claimed conversation, and where its replies go."""

    mailbox: Slow
    turn: Turn
    adapter: Any
    twin: Any

    async def rows(self, text: str, only_for: str | None = None) -> list[Row]:
        """A reply, in the outbox."""
        rows = rows_for(self.turn, self.adapter.render(Outbound(text, only_for=only_for)))
        await self.turn.write(rows=rows, state="close")
        return rows

    def delivery(self, **profile: Any) -> Delivery:
        self.turn.profile = Profile(**profile)
        return Delivery(self.turn, self.adapter, self.mailbox.settings)

    async def states(self) -> list[str]:
        return [row.state for row in (await self.mailbox.load(self.turn.claim.conversation)).rows]


async def claimed(store: Store, key: ConversationKey, extra: dict[str, Any]) -> tuple[Slow, Turn]:
    mailbox = Slow(store, QUICK)
    await mailbox.open()
    event = Event(
        kind="message", conversation=key, actor=Actor("u1"), dedupe_keys=("d1",), at_ms=now_ms(), text="hi", extra=extra
    )
    await mailbox.accept(key, event.dump(), dedupe_keys=event.dedupe_keys, at_ms=event.at_ms)
    claim = (await mailbox.claim(0, "w1", 1)).grants[0]
    stored = await mailbox.load(claim.conversation)
    turn = begin(mailbox, claim, stored, Profile(), event)
    await turn.take(stored.inbox)
    return mailbox, turn


@pytest.fixture
async def hooked(store: Store) -> AsyncIterator[Desk]:
    """Replies go to a platform that has idempotency keys."""
    async with WebhookTwin() as twin, aiohttp.ClientSession() as http:
        made = standard_webhooks.Settings(
            platform="standard_webhooks",
            secret=SecretStr(SECRET),
            reply_secret=SecretStr(REPLY_SECRET),
            reply_url=twin.url,
        )
        adapter = standard_webhooks.Adapter("hook", made, Outside(http, Feed(store), Files(store), Boards(store)))
        mailbox, turn = await claimed(store, ConversationKey("hook", "room"), {})
        yield Desk(mailbox, turn, adapter, twin)


@pytest.fixture
async def slacked(store: Store) -> AsyncIterator[Desk]:
    """Replies go to a platform where one can look back."""
    async with SlackTwin() as twin, aiohttp.ClientSession() as http:
        made = slack.Settings(
            platform="slack",
            api_base=twin.url,
            signing_secret=SecretStr(SIGNING_SECRET),
            bot_token=SecretStr(BOT_TOKEN),
            messages_per_s=0,
            timeout_s=0.3,
        )
        adapter = slack.Adapter("slack", made, Outside(http, Feed(store), Files(store), Boards(store)))
        said = await twin.say("http://127.0.0.1:9/", "hi", kinds=())
        mailbox, turn = await claimed(store, ConversationKey("slack", CHANNEL, f"{TEAM}:{said.ts}"), {})
        yield Desk(mailbox, turn, adapter, twin)


def ours(twin: SlackTwin) -> list[str]:
    return [message.text for message in twin.messages if message.bot_id]


async def test_parts_are_sent_in_order_and_once(hooked: Desk) -> None:
    rows = await hooked.rows("word " * 20_000)
    assert len(rows) > 1
    await hooked.delivery().send_all(rows)
    assert [taken.data["part"] for taken in hooked.twin.taken] == list(range(1, len(rows) + 1))
    assert await hooked.states() == ["sent"] * len(rows)
    await hooked.delivery().send_all(rows)
    assert len(hooked.twin.taken) == len(rows)


async def test_whoever_slept_past_its_lease_between_mark_and_send_does_not_send(hooked: Desk) -> None:
    rows = await hooked.rows("late")
    hooked.mailbox.sleep_s = QUICK.lease_s * 1.3
    sending = asyncio.create_task(hooked.delivery().send_all(rows))
    other = Mailbox(hooked.mailbox.store, QUICK)
    await other.open()
    async with asyncio.timeout(30):
        while not (grants := (await other.claim(0, "w2", 1)).grants):
            await asyncio.sleep(0.02)
    with pytest.raises(Lost):
        await sending
    assert not hooked.twin.taken
    stored = await other.load(grants[0].conversation)
    turn = leftover(other, grants[0], stored, Profile(), stored.rows[0])
    await Delivery(turn, hooked.adapter, QUICK).send_all(stored.rows)
    assert [taken.text for taken in hooked.twin.taken] == ["late"]


async def test_a_lost_answer_is_repeated_with_the_same_key(hooked: Desk) -> None:
    hooked.twin.next(close=True, taken=True)
    await hooked.delivery().send_all(await hooked.rows("once"))
    assert [taken.text for taken in hooked.twin.taken] == ["once"]
    assert await hooked.states() == ["sent"]


async def test_a_long_wait_gives_its_place_away(hooked: Desk) -> None:
    rows = await hooked.rows("patience")
    hooked.twin.next(status=429, retry_after=30)
    with pytest.raises(Parked) as parked:
        await hooked.delivery().send_all(rows)
    assert parked.value.wait_s == 30
    assert await hooked.states() == ["pending"]
    waiting = (await hooked.mailbox.load(hooked.turn.claim.conversation)).rows
    with pytest.raises(Parked):  # somebody wrote meanwhile and the turn came back early: it waits on
        await hooked.delivery().send_all(waiting)
    with pytest.raises(Parked, match=r"29|30"):  # and so does whoever has another message for this channel
        await hooked.delivery().send_all(rows)
    assert not hooked.twin.taken


async def test_a_wait_from_before_the_clock_was_put_back_is_over(hooked: Desk) -> None:
    tomorrow_ms = now_ms() + 86_400_000
    await hooked.delivery().send_all([replace(row, since_ms=tomorrow_ms) for row in await hooked.rows("at last")])
    assert [taken.text for taken in hooked.twin.taken] == ["at last"]


@pytest.mark.parametrize(
    ("made_before_s", "known_s", "is_known"),
    [(60, 120, True), (121, 120, False), (-1, 120, True), (-3_600, 120, False), (-3_600, math.inf, True)],
)
async def test_a_key_from_before_the_clock_was_put_back_counts_by_how_far_it_is_off(
    hooked: Desk, made_before_s: int, known_s: float, is_known: bool
) -> None:
    can = replace(hooked.adapter.capabilities, key_known_s=known_s)
    [row] = await hooked.rows("once")
    assert key_is_known(can, row, row.made_ms + made_before_s * 1_000) == is_known


async def test_a_short_wait_holds_its_place(hooked: Desk) -> None:
    hooked.twin.next(status=503)
    await hooked.delivery().send_all(await hooked.rows("patience"))
    assert await hooked.states() == ["sent"]


async def test_a_platform_that_stays_away_ends_in_a_dead_letter(hooked: Desk) -> None:
    rows = [replace(row, made_ms=now_ms() - 3_000) for row in await hooked.rows("nobody")]
    hooked.twin.next(status=503, times=20)
    await hooked.delivery().send_all(rows)
    assert await hooked.states() == ["given_up", "given_up"], "and the notice about it is not waited for once more"
    letters: Any = await hooked.mailbox.store.redis.xrange(f"{hooked.turn.claim.root}:dead")
    assert [entry[b"reason"] for _, entry in letters] == [b"send transient"] * 2


async def test_a_gone_target_is_not_tried_again(slacked: Desk) -> None:
    slacked.twin.next(error="is_archived")
    await slacked.delivery().send_all(await slacked.rows("hello"))
    assert slacked.twin.calls.count("chat.postMessage") == 1
    assert await slacked.states() == ["given_up"]


async def test_to_a_room_that_is_gone_nothing_more_is_sent(slacked: Desk) -> None:
    rows = await slacked.rows("word " * 3_000)
    assert len(rows) > 2
    slacked.twin.next(error="is_archived")
    await slacked.delivery().send_all(rows)
    assert slacked.twin.calls.count("chat.postMessage") == 1
    assert await slacked.states() == ["given_up"] * len(rows)


async def test_a_send_nobody_saw_end_is_looked_for(slacked: Desk) -> None:
    slacked.twin.next(hang=True, taken=True, on="chat.postMessage")
    await slacked.delivery().send_all(await slacked.rows("there already"))
    assert ours(slacked.twin) == ["there already"]
    assert await slacked.states() == ["sent"]


async def test_a_send_that_never_arrived_is_sent_after_the_look(slacked: Desk) -> None:
    slacked.twin.next(hang=True, on="chat.postMessage")
    await slacked.delivery().send_all(await slacked.rows("at last"))
    assert ours(slacked.twin) == ["at last"]


async def test_where_nothing_can_tell_the_profile_decides(slacked: Desk) -> None:
    """Looking back fails as well."""
    slacked.twin.next(hang=True, on="chat.postMessage")
    slacked.twin.next(error="missing_scope", on="conversations.replies")
    await slacked.delivery(unclear_send="skip").send_all(await slacked.rows("maybe"))
    assert len(ours(slacked.twin)) == 1
    assert "may not have arrived" in ours(slacked.twin)[0]
    assert (await slacked.states())[0] == "given_up"


@pytest.mark.parametrize(
    ("part", "comes_again"), [({}, True), ({"file": {"name": "a.txt"}}, False)], ids=["asks", "file"]
)
async def test_a_card_that_asks_comes_twice_rather_than_never(
    hooked: Desk, part: dict[str, Any], comes_again: bool
) -> None:
    hooked.adapter.capabilities = replace(hooked.adapter.capabilities, idempotent_send=False)
    long_ago_ms = now_ms() - 60_000
    rows = [
        replace(row, order=-10_000, state="sending", since_ms=long_ago_ms) for row in await hooked.rows("Allow it?")
    ]
    rows = [replace(row, part={**row.part, **part}) for row in rows]
    await hooked.delivery(unclear_send="skip").send_all(rows)
    told = [taken.text for taken in hooked.twin.taken]
    assert told.count("Allow it?") == comes_again
    assert ("twice" if comes_again else "may not have arrived") in told[-1]


async def test_a_part_that_is_refused_leaves_no_silent_hole(slacked: Desk) -> None:
    rows = await slacked.rows("word " * 3_000)
    slacked.twin.next(error="ratelimited", retry_after=0, on="chat.postMessage")  # part 1 waits for a moment
    slacked.twin.next(error="invalid_auth", on="chat.postMessage")
    await slacked.delivery().send_all(rows)
    assert "could not be delivered" in str(ours(slacked.twin))


@pytest.mark.parametrize(("unclear_send", "copies"), [("skip", 1), ("repeat", 1)])
async def test_a_growing_message_that_somebody_deleted_is_followed_by_one_reply(
    slacked: Desk, unclear_send: str, copies: int
) -> None:
    slacked.adapter.stream = lambda _: Stream("message", 0.05)
    live = Live(slacked.turn, slacked.adapter)
    live.add("half an ans")
    await slacked.twin.until(lambda: bool(ours(slacked.twin)))
    await live.close()
    slacked.twin.messages[:] = [message for message in slacked.twin.messages if not message.bot_id]  # deleted
    slacked.twin.next(close=True, taken=True, on="chat.postMessage", times=3)
    await slacked.delivery(unclear_send=unclear_send).send_all(await slacked.rows("a whole answer"))
    assert ours(slacked.twin) == ["a whole answer"] * copies


async def test_what_can_never_be_seen_to_arrive_is_not_sent_for_ever(hooked: Desk) -> None:
    hooked.adapter.capabilities = replace(hooked.adapter.capabilities, idempotent_send=False)
    hooked.twin.next(close=True, taken=True, times=3)
    await hooked.delivery(unclear_send="repeat").send_all(await hooked.rows("again and again"))
    told = [taken.text for taken in hooked.twin.taken]
    assert told.count("again and again") == 1, "the stand-in knows the key; deskmate does not know that"
    assert len(hooked.twin.repeated) == REPEATS_MAX
    assert "twice" in told[-1]


@pytest.mark.parametrize(("known_s", "how"), [(1_000.0, "key"), (0.5, "repeat")])
async def test_a_key_that_the_platform_has_forgotten_settles_nothing(
    hooked: Desk, caplog: pytest.LogCaptureFixture, known_s: float, how: str
) -> None:
    hooked.adapter.capabilities = replace(hooked.adapter.capabilities, key_known_s=known_s)
    rows = [replace(row, made_ms=now_ms() - 800) for row in await hooked.rows("again")]
    hooked.twin.next(close=True, taken=True)
    await hooked.delivery(unclear_send="repeat").send_all(rows)
    settled = [record.fields["settled_by"] for record in caplog.records if record.getMessage() == "send unclear"]  # type: ignore[attr-defined]
    assert settled == [how]


async def test_a_growing_answer_is_one_message_that_ends_whole(slacked: Desk) -> None:
    slacked.adapter.stream = lambda _: Stream("message", 0.05)
    live = Live(slacked.turn, slacked.adapter)
    live.step("skill", "web-access")
    live.add("The first ")
    await slacked.twin.until(lambda: "The first" in "".join(ours(slacked.twin)))
    live.add("and the second half.")
    await slacked.twin.until(lambda: "second" in "".join(ours(slacked.twin)))
    await live.close()
    await slacked.delivery().send_all(await slacked.rows("The first and the second half."))
    assert ours(slacked.twin) == ["The first and the second half."]


async def test_a_live_message_whose_send_was_unclear_is_found_and_made_whole(slacked: Desk) -> None:
    slacked.adapter.stream = lambda _: Stream("message", 0.05)
    slacked.twin.next(hang=True, taken=True, on="chat.postMessage")
    live = Live(slacked.turn, slacked.adapter)
    live.add("half")
    await slacked.twin.until(lambda: ours(slacked.twin) == ["half"])
    await live.close()
    await slacked.delivery().send_all(await slacked.rows("half and whole"))
    assert ours(slacked.twin) == ["half and whole"]


async def test_a_live_message_of_a_dead_worker_becomes_the_reply_of_the_next(slacked: Desk) -> None:
    slacked.adapter.stream = lambda _: Stream("message", 0.05)
    live = Live(slacked.turn, slacked.adapter)
    live.add("half an ans")
    await slacked.twin.until(lambda: bool(ours(slacked.twin)))
    await live.close()
    stored = await slacked.mailbox.load(slacked.turn.claim.conversation)
    assert [row.state for row in stored.rows] == ["live"]
    slacked.turn.live_rows = {row.key: row for row in stored.rows}
    await slacked.delivery().send_all(await slacked.rows("a whole answer"))
    assert ours(slacked.twin) == ["a whole answer"]


async def test_a_look_back_that_fails_for_a_moment_is_repeated(slacked: Desk) -> None:
    slacked.twin.next(hang=True, taken=True, on="chat.postMessage")
    slacked.twin.next(status=429, retry_after=0, on="conversations.replies")
    await slacked.delivery().send_all(await slacked.rows("once"))
    assert ours(slacked.twin) == ["once"]


async def test_a_repeated_send_is_told_to_the_person(slacked: Desk) -> None:
    slacked.twin.next(hang=True, taken=True, on="chat.postMessage")
    slacked.twin.next(error="missing_scope", on="conversations.replies")
    await slacked.delivery(unclear_send="repeat").send_all(await slacked.rows("maybe twice"))
    assert ours(slacked.twin)[:2] == ["maybe twice"] * 2
    assert "twice" in ours(slacked.twin)[2]


async def test_a_notice_gets_no_notice(slacked: Desk) -> None:
    slacked.twin.next(status=500, times=50)
    slacked.mailbox.settings = QUICK.model_copy(update={"send_timeout_s": 0.1, "send_for_s": 0.5})
    slacked.turn.claim.deadline_s += 60
    await slacked.delivery(unclear_send="skip").send_all(await slacked.rows("never"))
    rows = (await slacked.mailbox.load(slacked.turn.claim.conversation)).rows
    assert [row.state for row in rows] == ["given_up"] * 2


async def test_what_the_platform_refuses_is_told(slacked: Desk) -> None:
    slacked.twin.next(error="restricted_action", on="chat.postMessage")
    await slacked.delivery().send_all(await slacked.rows("forbidden"))
    assert "refused here" in ours(slacked.twin)[0]


async def test_a_row_for_one_person_is_sent_again_when_its_end_is_unclear_and_nobody_else_hears_of_it(
    slacked: Desk,
) -> None:
    slacked.twin.next(on="chat.postEphemeral", close=True, taken=True)
    await slacked.delivery(unclear_send="skip").send_all(await slacked.rows("psst", USER))
    assert [one.text for one in slacked.twin.whispers] == ["psst", "psst"]
    assert await slacked.states() == ["sent"]
    assert ours(slacked.twin) == []
    assert "conversations.replies" not in slacked.twin.calls


async def test_a_row_for_one_person_takes_no_message_that_all_have_seen(slacked: Desk) -> None:
    slacked.adapter.stream = lambda _: Stream("message", 0.05)
    live = Live(slacked.turn, slacked.adapter)
    live.add("all see this grow")
    await slacked.twin.until(lambda: ours(slacked.twin))
    await live.close()
    rows = await slacked.rows("psst", USER)
    await slacked.delivery().send_all(rows)
    assert [one.text for one in slacked.twin.whispers] == ["psst"]
    assert "psst" not in str(ours(slacked.twin))


async def test_a_row_for_one_person_whose_markup_is_refused_stays_theirs(slacked: Desk) -> None:
    slacked.twin.next(on="chat.postEphemeral", error="invalid_arguments")
    await slacked.delivery().send_all(await slacked.rows("**psst**", USER))
    assert [one.text for one in slacked.twin.whispers] == ["**psst**"]
    assert ours(slacked.twin) == []


async def test_the_notice_about_a_row_for_one_person_is_theirs_as_well(slacked: Desk) -> None:
    slacked.twin.next(on="chat.postEphemeral", error="restricted_action")
    await slacked.delivery().send_all(await slacked.rows("psst", USER))
    assert [one.user for one in slacked.twin.whispers] == [USER]
    assert slacked.twin.whispers[0].text != "psst"
    assert ours(slacked.twin) == []


async def test_where_nothing_can_be_shown_to_one_alone_the_room_sees_it(hooked: Desk) -> None:
    await hooked.delivery().send_all(await hooked.rows("psst", "u1"))
    assert [taken.data["text"] for taken in hooked.twin.taken] == ["psst"]
