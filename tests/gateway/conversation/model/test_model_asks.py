"""What the model's gateways and workers ask is what the real ones ask: each script's arguments, and their order."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from config.settings import MailboxSettings
from gateway.conversation.claim import Lost
from gateway.conversation.mailbox import Mailbox
from gateway.conversation.outbox import Row
from gateway.conversation.records import Record
from gateway.conversation.uses import Used
from gateway.store import Layout, Script, Store
from tests.gateway.conversation.model.actors import SETTINGS, Gateway, Message, Play, Stage, Worker, World, pairs
from tests.gateway.conversation.model.cases import states
from tests.gateway.conversation.model.states import P
from tests.gateway.conversation.world import key
from tests.workers.at_desk import at_desk
from tests.workers.room import Room


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str]]]:
    """Every script that is run, with its arguments but the settings."""
    found: list[tuple[str, list[str]]] = []
    run = Store.run

    async def told(self: Store, script: Script, root: str, *arguments: Any) -> Any:
        found.append(
            (script.name, [one.decode("latin-1") if isinstance(one, bytes) else str(one) for one in arguments[1:]])
        )
        return await run(self, script, root, *arguments)

    monkeypatch.setattr(Store, "run", told)
    return found


async def test_each_script_is_asked_with_the_same_arguments(store: Store, asked: list[tuple[str, list[str]]]) -> None:
    mailbox = Mailbox(store, MailboxSettings())
    await mailbox.open()
    assert set(json.loads(mailbox._settings)) == set(json.loads(SETTINGS))
    c = key().id
    stage = Stage(Play((Message("m1", c),)), states="none")  # type: ignore[arg-type]  # nothing is run on it
    del asked[:]

    async def accept() -> None:
        await mailbox.accept(key(), '"m1"', dedupe_keys=["d"], at_ms=0)

    await accept()
    alike(asked.pop(), stage.ask_of_gateway(Gateway("accept", 0)), theirs={1, 2, 3, 7})  # room, parts, time, hash
    await mailbox.claim(0, "w", 1)
    alike(asked.pop(), stage.ask_of_worker(Worker("claim")))
    for ends in ("settle", "park"):
        await accept()
        await mailbox.accept(key(), '"m2"', dedupe_keys=[ends], at_ms=0)
        await store.redis.zadd(f"{store.layout.root(0)}:due", {c: 0})
        [claim] = (await mailbox.claim(0, "w", 1)).grants
        w = Worker(
            "take",
            c,
            claim.token,
            claim.rev,
            0,
            ("t-m1", ()),
            inbox=tuple(m.decode() for m in (await mailbox.load(c)).inbox[:1]),
        )
        del asked[:]

        def turn() -> dict[str, Any]:
            return {"id": "t-m1", "start": 0, "at_ms": 0, "to": {}}

        await mailbox.take(claim, turn(), members=[one.encode() for one in w.inbox])
        alike(asked.pop(), stage.ask_of_worker(w), theirs={3})  # the write's id
        w = w._replace(rev=claim.rev, turn=("t-m1", ("m1",)), rows=(("r-m1", "pending"),), seq=9)
        row = Row("r-m1", "t-m1", 0, {}, {}, 0)
        if ends == "settle":
            await mailbox.append(
                claim,
                records=[Record("reply", 0, {})],
                rows=[row],
                turn="close",
                finished_step=True,
                used=Used("", (), ()),
            )
            alike(asked.pop(), stage.ask_of_worker(w._replace(pc="append")), theirs={3, 9, 11})  # and what is written
            for state in ("sending", "sent"):
                w = w._replace(rev=claim.rev)
                await mailbox.mark(claim, row, state)
                alike(asked.pop(), stage.ask_of_worker(w._replace(pc=f"mark {state}")), theirs={3, 5})
            w = w._replace(rev=claim.rev)
            await mailbox.settle(claim, "w", 1)
            alike(asked.pop(), stage.ask_of_worker(w._replace(pc="settle")), theirs={3, 6})  # for how long it is kept
        else:
            await mailbox.bury(
                claim,
                "t-m1",
                "died",
                records=[Record("failed", 0), Record("reply", 0)],
                rows=[row],
                used=Used("", (), ()),
            )
            alike(asked.pop(), stage.ask_of_worker(w._replace(pc="bury")), theirs={3, 9, 10, 12})
            for begins in (False, True):
                await mailbox.sole(claim, begins=begins)
                alike(asked.pop(), stage.ask_of_worker(w._replace(pc="sole begins" if begins else "sole")))
            w = w._replace(rev=claim.rev)
            await mailbox.park(claim, 5, 9, "w", 1)
            alike(asked.pop(), stage.ask_of_worker(w._replace(pc="park")), theirs={3, 4})
            claim.lost = False  # as if it did not know yet
            with pytest.raises(Lost):
                await mailbox.park(claim, 5, None, "w", 0)
            alike(asked.pop(), stage.ask_of_worker(w._replace(pc="later")), theirs={2, 3, 4})
    await mailbox.hand_over(claim, counts=True)
    alike(asked.pop(), stage.ask_of_worker(w._replace(pc="hand over as a try")))
    for held in ([], [claim]):
        await mailbox.give_back_unheard(0, "w", held)
        alike(asked.pop(), stage.unheard(w if held else Worker()))


def alike(real: tuple[str, Sequence[str]], model: Any, theirs: set[int] = frozenset()) -> None:  # type: ignore[assignment]
    """`theirs`: places where texts may differ."""
    name, (_, *arguments) = model
    assert real[0] == name
    assert len(real[1]) == len(arguments)
    assert [one for at, one in enumerate(real[1]) if at not in theirs] == [
        one for at, one in enumerate(arguments) if at not in theirs
    ]


class Died(BaseException):
    """Nobody catches it, as nobody catches a signal."""


@pytest.mark.parametrize("dies_before", ["nothing", "append", "mark sending", "mark sent", "settle"])
async def test_a_worker_asks_in_the_same_order(
    dies_before: str, asked: list[tuple[str, list[str]]], redis_url: str, layout: Layout, tmp_path: Path
) -> None:
    """A first run, and what the next one does where the first one died."""
    async with at_desk(tmp_path, redis_url, layout.prefix, room=Room(idempotent_send=True)) as world:
        assert await world.say("hello") == "new"
        mailbox = world.desk.mailbox
        [claim] = (await mailbox.claim(0, "w", 1)).grants
        run = mailbox.store.run

        async def dying(script: Script, root: str, *arguments: Any) -> Any:
            texts = [str(one) for one in arguments]
            told = f"mark {texts[6].split()[0]}" if script.name == "mark" else script.name
            if told == dies_before and not (told == "append" and texts[5] != "-"):  # the one with the answer
                raise Died
            return await run(script, root, *arguments)

        mailbox.store.run = dying  # type: ignore[method-assign]
        del asked[:]
        with suppress(Died):
            await world.desk.attend(claim, lambda: 0)
        mailbox.store.run = run  # type: ignore[method-assign]
        first = order(asked)
        del asked[:]
        if dies_before != "nothing":
            await mailbox.store.redis.zadd(f"{claim.root}:due", {claim.conversation: 0})
            [again] = (await mailbox.claim(0, "w", 1)).grants
            del asked[:]
            await world.desk.attend(again, lambda: 0)
        assert (first, order(asked)) == by_model(redis_url, dies_before)


def order(asked: Sequence[tuple[str, list[str]]]) -> list[str]:
    """What was asked of the mailbox, without what a turn writes on its way to the answer."""
    wanted = {"take", "append", "mark", "settle", "park", "bury", "hand_over"}
    return [
        f"mark {arguments[5].split()[0]}" if name == "mark" else name
        for name, arguments in asked
        if name in wanted and not (name == "append" and arguments[4] != "-")
    ]


def by_model(redis_url: str, dies_before: str) -> tuple[list[str], list[str]]:
    made = states(redis_url.removeprefix("unix://").partition("?")[0])
    stage = Stage(Play((Message("m1"),), workers=1, gateways=1), made)
    world = stage.first()
    while not world.acked:
        world = next(after for name, after, _ in stage.steps(world) if name.startswith("g0"))
    lives: list[list[str]] = []
    for stops in (dies_before, "nothing"):
        lives.append([])
        world = next((after for name, after, _ in stage.steps(world) if name == "w0 polls"), world)
        while (w := world.workers[0]).pc not in {"idle", stops}:
            if ask := stage.ask_of_worker(w):
                lives[-1].append(w.pc if ask[0] == "mark" else ask[0])
            world = stage._does(world, 0, w)
        world = _died(stage, world)
    made.close()
    return lives[0], lives[1]


def _died(stage: Stage, world: World) -> World:
    world = world._replace(workers=(Worker(),))
    for c in pairs(stage.keys(world.r).get(f"{P}due")):
        world = world._replace(r=stage._lapsed(world.r, c))
    return world
