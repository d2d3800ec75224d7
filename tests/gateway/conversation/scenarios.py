"""What can go wrong between gateways, Redis and workers, as short plays. Each must end well on the scripts as they are,
and `test_guards.py` shows for each guard that one of them ends badly without it.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from gateway.conversation.claim import Behind, Claim, Fenced
from gateway.conversation.deaths import SOLE_AFTER
from gateway.conversation.mailbox import Mailbox, event_of, script
from gateway.conversation.outbox import Row
from gateway.conversation.records import Record
from gateway.store import Refused, Script
from tests.gateway.conversation.world import World, key, now_ms, texts, until


def note(text: str) -> Record:
    return Record("reply", now_ms(), {"text": text})


def row(name: str = "part") -> Row:
    return Row(name, "turn", 0, {"payload": {}, "fallback": None}, {}, now_ms())


async def a_holder_that_sleeps_after_take_strands_nobody(world: World) -> None:
    """The inbox is empty, the turn is open, the holder is gone: the next one gets it."""
    mailbox = await world.mailbox()
    await world.say(mailbox, "hello")
    first = await world.claim_one(mailbox)
    await world.take_all(mailbox, first)
    second = await world.take_over(mailbox)
    assert second.conversation == first.conversation
    assert second.tries == 1


async def what_was_taken_is_an_open_turn(world: World) -> None:
    """`take` moves the event into history together with the turn that holds it."""
    mailbox = await world.mailbox()
    await world.say(mailbox, "hello")
    claim = await world.claim_one(mailbox)
    await world.take_all(mailbox, claim)
    again = await world.take_over(mailbox)
    stored = await mailbox.load(again.conversation)
    assert stored.turn is not None
    assert texts(stored.history) == ["hello"]
    assert not stored.inbox


async def an_unsent_row_keeps_the_conversation_awake(world: World) -> None:
    """The answer is in history, its row is not sent, the holder is gone: it is not settled, and comes back."""
    mailbox = await world.mailbox()
    await world.say(mailbox, "hello")
    claim = await world.claim_one(mailbox)
    await world.take_all(mailbox, claim)
    await mailbox.append(claim, records=[note("answer")], rows=[row()], turn="close")
    assert await mailbox.settle(claim, "w1", 0) is None
    again = await world.take_over(mailbox)
    assert [one.state for one in (await mailbox.load(again.conversation)).rows] == ["pending"]


async def a_zombie_writes_nothing(world: World) -> None:
    """It slept past its lease, another has taken over: its write is refused."""
    mailbox = await world.mailbox()
    await world.say(mailbox, "hello")
    zombie = await world.claim_one(mailbox)
    await world.take_all(mailbox, zombie)
    await world.take_over(mailbox)
    with contextlib.suppress(Fenced):
        await mailbox.append(zombie, records=[note("from the grave")])
    history = (await mailbox.load(zombie.conversation)).history
    assert not [record for record in history if record.type == "reply"]


async def a_fence_is_never_given_twice(world: World) -> None:
    """Redis loses its tail, the fence's counter with it: the next token is another one all the same."""
    mailbox = await world.mailbox()
    await world.say(mailbox, "hello")
    before = await world.keys()
    first = await world.claim_one(mailbox)
    await world.restore(before)
    second = await world.claim_one(mailbox)
    assert first.token != second.token


async def nobody_writes_on_top_of_a_hole(world: World) -> None:
    """Redis loses the holder's last write: what builds on it is refused."""
    mailbox = await world.mailbox()
    await world.say(mailbox, "hello")
    claim = await world.claim_one(mailbox)
    await world.take_all(mailbox, claim)
    before = await world.keys()
    await mailbox.append(claim, records=[note("question")])
    await world.restore(before)
    with contextlib.suppress(Behind):
        await mailbox.append(claim, records=[note("answer to what is not there")])
    history = (await mailbox.load(claim.conversation)).history
    assert [record.data.get("text") for record in history if record.type == "reply"] == []


async def a_repeated_write_counts_once(world: World) -> None:
    """The answer was lost on the way; the same write again is in already, and is told so."""
    mailbox = await world.mailbox()
    await world.say(mailbox, "hello")
    claim = await world.claim_one(mailbox)
    arguments = (claim.conversation, claim.token, claim.rev, "one write", "", 0, "", 1, 0, note("once").dump())
    answers = [await mailbox.store.run(script("append"), claim.root, mailbox._settings, *arguments) for _ in range(2)]
    assert answers == [b"OK", b"DONE"]
    assert len((await mailbox.load(claim.conversation)).history) == 1


async def what_no_longer_counts_is_not_read(world: World) -> None:
    """Where the history begins is known to the next holder, from the write that moved it."""
    mailbox = await world.mailbox()
    await world.say(mailbox, "hello")
    claim = await world.claim_one(mailbox)
    await mailbox.append(claim, records=[note("old"), note("new")])
    await mailbox.append(claim, records=[note("newest")], begin=1)
    assert claim.begin == 1
    again = await world.take_over(mailbox)
    assert again.begin == 1
    history = (await mailbox.load(again.conversation, again.begin)).history
    assert [one.data["text"] for one in history] == ["new", "newest"]
    assert (history.first, history.end) == (1, 3)


async def settle_sees_who_came_last(world: World) -> None:
    """A message that came after the holder's last look does not stay behind."""
    mailbox = await world.mailbox()
    await world.say(mailbox, "one")
    claim = await world.claim_one(mailbox)
    await world.take_all(mailbox, claim)
    await mailbox.append(claim, turn="close")
    await world.say(mailbox, "two")
    assert await mailbox.settle(claim, "w1", 0) is not None
    again = await world.claim_one(mailbox)
    assert len((await mailbox.load(again.conversation)).inbox) == 1


async def settle_gives_the_next_in_the_same_script(world: World) -> None:
    mailbox = await world.mailbox()
    await world.say(mailbox, "one", key("a"))
    claim = await world.claim_one(mailbox)
    await world.take_all(mailbox, claim)
    await mailbox.append(claim, turn="close")
    await world.say(mailbox, "two", key("b"))
    claimed = await mailbox.settle(claim, "w1", 1)
    assert claimed is not None
    assert [grant.conversation for grant in claimed.grants] == [key("b").id]


async def park_sees_a_press(world: World) -> None:
    """Control overtakes: who wants to wait while it holds something stays."""
    mailbox = await world.mailbox()
    await world.say(mailbox, "one")
    claim = await world.claim_one(mailbox)
    await world.take_all(mailbox, claim)
    seq = (await mailbox.load(claim.conversation)).seq
    await world.say(mailbox, "/stop", control=True)
    assert await mailbox.park(claim, 60_000, seq + 1, "w1", 0) is None


async def park_sees_a_newcomer(world: World) -> None:
    mailbox = await world.mailbox()
    await world.say(mailbox, "one")
    claim = await world.claim_one(mailbox)
    await world.take_all(mailbox, claim)
    seq = (await mailbox.load(claim.conversation)).seq
    await world.say(mailbox, "two")
    assert await mailbox.park(claim, 60_000, seq, "w1", 0) is None


async def a_parked_turn_comes_back(world: World) -> None:
    mailbox = await world.mailbox()
    await world.say(mailbox, "one")
    claim = await world.claim_one(mailbox)
    await world.take_all(mailbox, claim)
    assert await mailbox.park(claim, 50, 9, "w1", 0) is not None
    again = await world.claim_one(mailbox, "w2")
    assert again.conversation == claim.conversation
    assert again.tries == 0, "to wait is not to die"


async def a_refused_message_is_no_duplicate_later(world: World) -> None:
    """`FULL` writes nothing: the platform's next try is new."""
    mailbox = await world.mailbox()
    for text in ("1", "2", "3"):
        await world.say(mailbox, text)
    assert (await world.say(mailbox, "4")).state == "full"
    claim = await world.claim_one(mailbox)
    await world.take_all(mailbox, claim)
    assert (await world.say(mailbox, "4")).state == "new"


async def a_known_message_does_nothing(world: World) -> None:
    mailbox, other = await world.mailbox(), await world.mailbox()
    answers = await asyncio.gather(*(world.say(one, "hello") for one in (mailbox, other) for _ in range(10)))
    assert sorted(answer.state for answer in answers) == ["known"] * 19 + ["new"]
    claim = await world.claim_one(mailbox)
    assert len((await mailbox.load(claim.conversation)).inbox) == 1


async def a_bell_that_nobody_answers_is_rung_again(world: World) -> None:
    """The gateway died before the ring, or RQ lost its list."""
    mailbox = await world.mailbox()
    assert (await world.say(mailbox, "1", key("a"))).ring
    assert not (await world.say(mailbox, "2", key("a"))).ring

    async def rings() -> bool:
        return (await world.say(mailbox, f"x{now_ms()}", key(f"x{now_ms()}"))).ring

    await until(rings, world.patience_s)


async def whoever_comes_after_an_answered_bell_rings(world: World) -> None:
    mailbox = await world.mailbox()
    assert (await world.say(mailbox, "1", key("a"))).ring
    await mailbox.store.redis.pexpire(f"{world.layout.root(0)}:bell", 60_000)  # it does not end by itself meanwhile
    await mailbox.claim(0, "w1", 1, by_bell=True)
    assert (await world.say(mailbox, "2", key("b"))).ring


async def a_claim_rings_for_the_rest(world: World) -> None:
    mailbox = await world.mailbox()
    for thread in ("a", "b"):
        await world.say(mailbox, "hello", key(thread))
    claimed = await mailbox.claim(0, "w1", 1, by_bell=True)
    assert len(claimed.grants) == 1
    assert claimed.ring


async def a_quiet_channel_is_served_second(world: World) -> None:
    mailbox = await world.mailbox()
    for number in range(20):
        await world.say(mailbox, f"{number}", key(f"t{number}", "loud"))
    await world.say(mailbox, "please", key("t", "quiet"))
    claimed = await mailbox.claim(0, "w1", 3)
    assert key("t", "quiet").id in [grant.conversation for grant in claimed.grants[:2]]


async def handing_over_is_no_try(world: World) -> None:
    mailbox = await world.mailbox()
    await world.say(mailbox, "hello")
    claim = await world.claim_one(mailbox)
    await world.take_all(mailbox, claim)
    assert await mailbox.hand_over(claim) in {True, False}
    again = await world.claim_one(mailbox, "w2")
    assert again.tries == 0


async def what_holds_up_its_holder_past_the_lease_counts(world: World) -> None:
    """Else a conversation that stops the loop of each worker would go round for ever: nobody dies of it."""
    mailbox = await world.mailbox()
    await world.say(mailbox, "hello")
    claim = await world.claim_one(mailbox)
    await world.take_all(mailbox, claim)
    await mailbox.hand_over(claim, counts=True)
    again = await world.claim_one(mailbox, "w2")
    assert again.tries == 1


async def a_finished_step_clears_the_tries(world: World) -> None:
    mailbox = await world.mailbox()
    await world.say(mailbox, "hello")
    first = await world.claim_one(mailbox)
    await world.take_all(mailbox, first)
    second = await world.take_over(mailbox)
    await mailbox.append(second, records=[note("a step")], finished_step=True)
    third = await world.take_over(mailbox, "w3")
    assert (second.tries, third.tries) == (1, 1)


async def died(world: World, mailbox: Mailbox, thread: str = "t") -> Claim:
    """A claim that so many holders died with that it is not attended to beside others."""
    await world.say(mailbox, f"hello {thread}", key(thread))
    claim = await world.claim_one(mailbox)
    await world.take_all(mailbox, claim)
    for _ in range(SOLE_AFTER):
        await mailbox.hand_over(claim, counts=True)
        claim = await world.claim_one(mailbox)
    assert (claim.conversation, claim.tries) == (key(thread).id, SOLE_AFTER)
    return claim


async def who_waits_until_nothing_is_beside_it_is_not_to_blame(world: World) -> None:
    """What else its holder had in hand killed it, and again; from when it begins nothing else can have."""
    mailbox = await world.mailbox()
    await died(world, mailbox)
    again = await world.take_over(mailbox, "w2")
    assert again.tries == SOLE_AFTER, "it has not begun"
    assert await mailbox.sole(again, begins=False)
    again = await world.take_over(mailbox, "w3")
    assert again.tries == SOLE_AFTER, "it has not begun"
    assert await mailbox.sole(again, begins=False)
    assert await mailbox.sole(again, begins=True)
    again = await world.take_over(mailbox, "w4")
    assert again.tries == SOLE_AFTER + 1


async def what_is_lost_while_it_waits_until_nothing_is_beside_it_is_not_to_blame(world: World) -> None:
    mailbox = await world.mailbox()
    claim = await died(world, mailbox)
    assert await mailbox.sole(claim, begins=False)
    await mailbox.hand_over(claim, counts=True)
    claim = await world.claim_one(mailbox)
    assert claim.tries == SOLE_AFTER
    assert await mailbox.sole(claim, begins=True)
    await mailbox.hand_over(claim, counts=True)
    assert (await world.claim_one(mailbox)).tries == SOLE_AFTER + 1


async def one_at_a_time_has_nothing_beside_it(world: World) -> None:
    """Else one that takes down a whole machine would be counted against the other."""
    mailbox = await world.mailbox()
    first = await died(world, mailbox, "first")
    second = await died(world, mailbox, "second")
    assert await mailbox.sole(first, begins=False)
    assert not await mailbox.sole(second, begins=False)
    assert await mailbox.sole(first, begins=True)
    assert not await mailbox.sole(second, begins=False)
    await mailbox.hand_over(first)
    assert await mailbox.sole(second, begins=False), "it is given back"
    sole = f"{mailbox.store.layout.root(0)}:sole"
    await mailbox.store.redis.set(sole, f"{first.conversation} {first.token}")  # as an older version left it
    assert await mailbox.sole(second, begins=True), "nobody holds that any more"
    with pytest.raises(Fenced):
        await mailbox.sole(first, begins=True)


async def who_had_a_worker_for_itself_leaves_nothing_of_that(world: World) -> None:
    mailbox = await world.mailbox()
    redis, sole = mailbox.store.redis, f"{mailbox.store.layout.root(0)}:sole"
    claim = await died(world, mailbox)
    other = await died(world, mailbox, "other")
    assert await mailbox.sole(claim, begins=True)
    await mailbox.hand_over(other)
    assert await redis.exists(sole), "it is not the other's"
    claim = await world.take_over(mailbox)
    assert not await redis.exists(sole), "its holder died"
    assert await mailbox.sole(claim, begins=True)
    await mailbox.park(claim, 60_000, None, "w2", 0)
    assert not await redis.exists(sole)


async def renewing_keeps_a_claim(world: World) -> None:
    mailbox = await world.mailbox()
    await world.say(mailbox, "hello")
    claim = await world.claim_one(mailbox)
    await world.lapse()
    await mailbox.renew([claim])
    assert not (await mailbox.claim(0, "w2", 1)).grants
    claim.check()
    await world.say(mailbox, "again")
    claim.news.clear()
    await mailbox.renew([claim])
    assert claim.news.is_set()


async def a_lost_claim_is_told_at_renewal(world: World) -> None:
    mailbox = await world.mailbox()
    await world.say(mailbox, "hello")
    claim = await world.claim_one(mailbox)
    await world.take_over(mailbox)
    await mailbox.renew([claim])
    with pytest.raises(Fenced):
        claim.check()


async def a_sent_row_is_not_sent_again(world: World) -> None:
    mailbox = await world.mailbox()
    await world.say(mailbox, "hello")
    claim = await world.claim_one(mailbox)
    await mailbox.append(claim, rows=[row()])
    assert await mailbox.mark(claim, row(), "sending")
    assert await mailbox.mark(claim, row(), "sent", {"message_id": "m", "ref": {}})
    assert not await mailbox.mark(claim, row(), "sending")
    assert (await mailbox.load(claim.conversation)).rows[0].state == "sent"


async def the_dead_are_buried_with_a_notice(world: World) -> None:
    mailbox = await world.mailbox()
    await world.say(mailbox, "poison")
    claim = await world.claim_one(mailbox)
    await world.take_all(mailbox, claim)
    await mailbox.bury(claim, "turn", "died", records=[Record("failed", now_ms(), {"reason": "died"})], rows=[row()])
    stored = await mailbox.load(claim.conversation)
    assert stored.turn is None
    assert [one.state for one in stored.rows] == ["pending"]
    letters: Any = await mailbox.store.redis.xrange(f"{claim.root}:dead")
    assert [letter[1][b"conversation"] for letter in letters] == [claim.conversation.encode()]
    assert b"poison" not in repr(letters).encode(), "a dead letter names its conversation and holds nothing of it"


async def quiet_time_gathers_and_a_command_does_not_wait(world: World) -> None:
    mailbox = await world.mailbox()
    await world.say(mailbox, "one", delay_ms=10_000)
    assert not (await mailbox.claim(0, "w1", 1)).grants
    await world.say(mailbox, "two", delay_ms=10_000)
    assert not (await mailbox.claim(0, "w1", 1)).grants
    await world.say(mailbox, "/stop", control=True)
    claim = await world.claim_one(mailbox)
    assert len((await mailbox.load(claim.conversation)).inbox) == 2


async def events_that_wait_together_are_in_platform_order(world: World) -> None:
    mailbox = await world.mailbox()
    where = key()
    for text, back_ms in (("second", 0), ("first", 400)):
        said = {"at_ms": now_ms() - back_ms, "dedupe_keys": (text,)}
        await mailbox.accept(where, f'{{"text":"{text}"}}', **said)  # type: ignore[arg-type]
    claim = await world.claim_one(mailbox)
    assert [event_of(member) for member in (await mailbox.load(claim.conversation)).inbox] == [
        b'{"text":"first"}',
        b'{"text":"second"}',
    ]


async def a_write_that_failed_midway_is_not_told_done(world: World) -> None:
    mailbox = await world.mailbox()
    await world.say(mailbox, "hello")
    claim = await world.claim_one(mailbox)
    history = world.layout.key(claim.conversation, "history")
    await mailbox.store.redis.set(history, "no list")
    arguments = (claim.conversation, claim.token, claim.rev, "one write", "", 0, "", 1, 0, note("once").dump())
    with pytest.raises(Refused):
        await mailbox.store.run(script("append"), claim.root, mailbox._settings, *arguments)
    await mailbox.store.redis.delete(history)
    assert await mailbox.store.run(script("append"), claim.root, mailbox._settings, *arguments) == b"OK"
    assert len((await mailbox.load(claim.conversation)).history) == 1


async def a_mistake_is_not_repeated_as_if_it_were_an_outage(world: World) -> None:
    mailbox = await world.mailbox()
    await world.say(mailbox, "hello")
    claim = await world.claim_one(mailbox)
    await mailbox.store.redis.set(world.layout.key(claim.conversation, "history"), "no list")
    async with asyncio.timeout(2):
        with pytest.raises(Refused):
            await mailbox.append(claim, records=[note("x")])
    await mailbox.store.redis.delete(world.layout.key(claim.conversation, "history"))


async def stop_gets_in_where_much_waits(world: World) -> None:
    mailbox = await world.mailbox()
    for text in ("1", "2", "3"):
        await world.say(mailbox, text)
    assert (await world.say(mailbox, "4")).state == "full"
    assert (await world.say(mailbox, "/stop", control=True)).state == "new"


async def a_lowered_cap_is_kept_at_the_next_grant(world: World) -> None:
    mailbox = await world.mailbox()
    for number in range(6):
        await world.say(mailbox, "hello", key(f"t{number}"))
    held = (await mailbox.claim(0, "w1", 3)).grants
    mailbox.settings = mailbox.settings.model_copy(update={"places_per_channel": 1})
    mailbox._know(mailbox.epoch)
    for claim in held[:2]:
        await world.take_all(mailbox, claim)
        await mailbox.append(claim, turn="close")
        settled = await mailbox.settle(claim, "w1", 1)
        assert settled is not None
        assert not settled.grants
    await world.take_all(mailbox, held[2])
    await mailbox.append(held[2], turn="close")
    settled = await mailbox.settle(held[2], "w1", 5)
    assert settled is not None
    assert len(settled.grants) == 1


async def a_holder_past_its_own_deadline_asks_nobody(world: World) -> None:
    """Its clock went on while the machine slept: the server has not noticed yet, and it writes nothing all the same."""
    mailbox = await world.mailbox()
    await world.say(mailbox, "hello")
    claim = await world.claim_one(mailbox)
    await world.take_all(mailbox, claim)
    claim.deadline_s = 0.0
    with pytest.raises(Fenced):
        await mailbox.append(claim, records=[note("late")])
    assert not [one for one in (await mailbox.load(claim.conversation)).history if one.type == "reply"]


def renewed_later(mailbox: Mailbox, claim: Claim) -> tuple[asyncio.Task[None], asyncio.Event]:
    """It is asked for, and not answered before whoever waits for that has looked."""
    asked, run = asyncio.Event(), mailbox.store.run

    async def ask(script: Script, root: str, *arguments: Any) -> Any:
        asked.set()
        return await run(script, root, *arguments)

    mailbox.store.run = ask  # type: ignore[method-assign]
    return asyncio.create_task(mailbox.renew([claim])), asked


async def only_who_asked_in_time_for_a_longer_lease_is_not_to_blame(world: World) -> None:
    """Whoever was held up for longer than its lease asks as well, when it is too late."""
    mailbox = await world.mailbox()
    for in_time in (False, True):
        await world.say(mailbox, "hello", key(f"t{in_time}"))
        claim = await world.claim_one(mailbox)
        if not in_time:
            claim.deadline_s = 0.0
        renewing, asked = renewed_later(mailbox, claim)
        await asked.wait()
        claim.deadline_s = 0.0
        with pytest.raises(Fenced):
            claim.check()
        assert claim.cut_off == in_time
        await renewing


async def a_sleep_of_the_server_counts_nobody_as_dead(world: World) -> None:
    """Nothing was asked for longer than half a lease: holders that live get a moment to give back what they hold."""
    mailbox = await world.mailbox()
    await world.say(mailbox, "hello")
    claim = await world.claim_one(mailbox)
    await world.take_all(mailbox, claim)
    await world.lapse()
    await mailbox.store.redis.decrby(f"{claim.root}:pulse", 60_000)
    assert not (await mailbox.claim(0, "w2", 1)).grants
    await mailbox.hand_over(claim)
    again = await world.claim_one(mailbox, "w2")
    assert again.tries == 0


async def nobody_asks_for(world: World, mailbox: Mailbox, claim: Claim, s: float) -> None:
    """So long has passed, for the server, since somebody claimed last."""
    redis, name, ms = mailbox.store.redis, world.layout.key(claim.conversation), int(s * 1000)
    await redis.decrby(f"{claim.root}:pulse", ms)
    await redis.zincrby(f"{claim.root}:due", -ms, claim.conversation)
    if await redis.hexists(name, "spared"):
        await redis.hincrby(name, "spared", -ms)


async def the_lease_of_a_dead_holder_ends_however_seldom_anybody_asks(world: World) -> None:
    """Each look comes after more than half a lease: that is not a sleep of the server each time."""
    mailbox = await world.mailbox()
    await world.say(mailbox, "hello")
    claim = await world.claim_one(mailbox)
    await world.take_all(mailbox, claim)
    looks = 0
    while not (grants := (await mailbox.claim(0, "w2", 1)).grants) and looks < 4:
        looks += 1
        await nobody_asks_for(world, mailbox, claim, mailbox.settings.lease_s * 0.55)
    assert [(again.conversation, again.tries) for again in grants] == [(claim.conversation, 1)]


async def whoever_renews_is_spared_at_the_next_sleep_too(world: World) -> None:
    mailbox = await world.mailbox()
    await world.say(mailbox, "hello")
    claim = await world.claim_one(mailbox)
    for _ in range(3):
        await nobody_asks_for(world, mailbox, claim, 60 * mailbox.settings.lease_s)
        assert not (await mailbox.claim(0, "w2", 1)).grants
        await mailbox.renew([claim])


async def a_lease_that_ends_right_after_a_sleep_lasts_for_the_moment(world: World) -> None:
    """It was not renewed while nobody could ask: its holder lives as well."""
    mailbox = await world.mailbox()
    await world.say(mailbox, "hello")
    claim = await world.claim_one(mailbox)
    redis = mailbox.store.redis
    seconds, micros = await redis.time()
    now_ms = int(seconds) * 1000 + int(micros) // 1000
    await redis.zadd(f"{claim.root}:due", {claim.conversation: now_ms + mailbox.settings.lease_s * 100})
    await redis.decrby(f"{claim.root}:pulse", 60_000)
    await mailbox.claim(0, "w2", 0)
    ends_ms = await redis.zscore(f"{claim.root}:due", claim.conversation)
    assert ends_ms is not None
    assert ends_ms >= now_ms + mailbox.settings.lease_s * 500


async def a_grant_whose_answer_was_lost_goes_back_and_nobody_died_of_it(world: World) -> None:
    """What the worker has heard of it keeps."""
    mailbox = await world.mailbox()
    await world.say(mailbox, "1", key("heard"))
    heard = await world.claim_one(mailbox)
    await world.say(mailbox, "2", key("unheard"))
    await world.claim_one(mailbox)
    await world.say(mailbox, "3", key("another's"))
    another = await world.claim_one(mailbox, "w2")
    await mailbox.give_back_unheard(0, "w1", [heard])
    again = await mailbox.claim(0, "w3", 3)
    assert [(claim.conversation, claim.tries) for claim in again.grants] == [(key("unheard").id, 0)]
    await mailbox.renew([heard, another])
    assert not heard.lost
    assert not another.lost


async def the_clock_goes_back(world: World, mailbox: Mailbox, ms: int = 3_600_000) -> None:
    """All that the server wrote down before is so much later than what it says now. The bell lives on for as long."""
    redis: Any = mailbox.store.redis
    root = world.layout.root(0)
    for name in [name async for name in redis.scan_iter(f"{root}:*", count=1_000)]:
        of_time = name.decode().removeprefix(f"{root}:")
        if of_time == "pulse":
            await redis.incrby(name, ms)
        elif of_time == "bell":
            await redis.pexpire(name, ms)
        elif of_time in {"due", "channels", "workers"} or of_time.startswith("ready:") or of_time.endswith(":inbox"):
            for member in await redis.zrange(name, 0, -1):
                await redis.zincrby(name, ms * 1_000 if of_time == "channels" else ms, member)


async def ends_in_ms(world: World, mailbox: Mailbox, conversation: str) -> float:
    """How far its lease, or its wait, is from now."""
    redis = mailbox.store.redis
    seconds, micros = await redis.time()
    ends_ms = await redis.zscore(f"{world.layout.root(0)}:due", conversation)
    assert ends_ms is not None
    return ends_ms - int(seconds) * 1000 - int(micros) // 1000


async def a_lease_ends_in_time_also_where_the_clock_was_put_back(world: World) -> None:
    mailbox = await world.mailbox()
    await world.say(mailbox, "hello")
    claim = await world.claim_one(mailbox)
    await the_clock_goes_back(world, mailbox)
    assert not (await mailbox.claim(0, "w2", 1)).grants, "its holder may live"
    left_ms, lease_ms = await ends_in_ms(world, mailbox, claim.conversation), mailbox.settings.lease_s * 1000
    assert lease_ms / 2 < left_ms <= lease_ms


async def who_waits_for_a_time_waits_no_longer_where_the_clock_was_put_back(world: World) -> None:
    mailbox = await world.mailbox()
    await world.say(mailbox, "hello", delay_ms=30_000)
    await mailbox.claim(0, "w1", 1)
    await the_clock_goes_back(world, mailbox)
    assert not (await mailbox.claim(0, "w1", 1)).grants, "it is not over yet"
    assert await ends_in_ms(world, mailbox, key().id) <= 30_000


async def what_was_said_before_the_clock_was_put_back_comes_first(world: World) -> None:
    mailbox = await world.mailbox()
    await world.say(mailbox, "1")
    await the_clock_goes_back(world, mailbox)
    await world.say(mailbox, "2")
    await world.say(mailbox, "3")
    claim = await world.claim_one(mailbox)
    await world.take_all(mailbox, claim)
    assert texts((await mailbox.load(claim.conversation)).history) == ["1", "2", "3"]


async def whoever_waited_before_the_clock_was_put_back_is_next(world: World) -> None:
    """In its channel, where it has waited for two seconds, one since somebody looked."""
    mailbox = await world.mailbox()
    waited, came = key("b"), key("a")
    await world.say(mailbox, "1", waited)
    await mailbox.claim(0, "w1", 0)
    await the_clock_goes_back(world, mailbox)
    await mailbox.store.redis.zincrby(f"{world.layout.root(0)}:ready:{waited.channel_id}", -2_000, waited.id)
    await world.say(mailbox, "2", came)
    await mailbox.claim(0, "w1", 0)
    assert [(await world.claim_one(mailbox)).conversation for _ in range(2)] == [waited.id, came.id]


async def a_channel_that_waited_before_the_clock_was_put_back_is_next(world: World) -> None:
    mailbox = await world.mailbox()
    waited, came = key("a", "a room"), key("b", "another room")
    await world.say(mailbox, "1", waited)
    await mailbox.claim(0, "w1", 0)
    await the_clock_goes_back(world, mailbox)
    await mailbox.store.redis.zincrby(f"{world.layout.root(0)}:channels", -2_000_000, waited.channel_id)
    await world.say(mailbox, "2", came)
    await mailbox.claim(0, "w1", 0)
    assert [(await world.claim_one(mailbox)).conversation for _ in range(2)] == [waited.id, came.id]


async def the_bell_rings_also_where_the_clock_was_put_back(world: World) -> None:
    mailbox = await world.mailbox()
    assert (await world.say(mailbox, "1")).ring
    await world.claim_one(mailbox)
    await the_clock_goes_back(world, mailbox)
    await mailbox.claim(0, "w1", 1)
    assert (await world.say(mailbox, "2", key("another"))).ring


async def the_dead_are_not_taken_for_workers_where_the_clock_was_put_back(world: World) -> None:
    mailboxes = [await world.mailbox() for _ in range(3)]
    for mailbox, worker in zip(mailboxes, ("dead", "first", "second"), strict=True):
        await mailbox.beat(worker)
        mailbox._said_ms += 3_600_000
    await the_clock_goes_back(world, mailboxes[0])
    for mailbox, worker in zip(mailboxes[1:], ("first", "second"), strict=True):
        assert await mailbox.beat(worker) == 0, "nothing is lost"
    assert await mailboxes[1].workers() == ["first", "second"]


SCENARIOS = {
    play.__name__: play
    for play in list(globals().values())
    if asyncio.iscoroutinefunction(play)
    and play.__module__ == __name__
    and list(play.__annotations__) == ["world", "return"]
}
__all__ = ["SCENARIOS", "Mailbox"]
