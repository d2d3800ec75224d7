"""Long conversations: put away, then fetched again, also by another worker; and what waits for a word outlives all workers."""

from __future__ import annotations

import re

import pytest

from tests.end_to_end.requests import texts
from tests.end_to_end.stories.world import ANA, LI, MAX, Talk, World, skill
from tests.harness.fake_model import Asked
from tests.harness.model_replies import calls, says

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def ten_messages(world: World, name: str) -> tuple[Talk, list[str]]:
    """The skill is loaded for the seventh."""
    talk, said = world.talk(world.room()), [world.word("ask-") for _ in range(10)]
    for number, words in enumerate(said, 1):
        loads = [calls("load_skill", {"name": name})] if number == 7 else []
        await talk.say(MAX, words, *loads, says("好"))
    return talk, said


def there(asked: Asked, words: list[str]) -> list[bool]:
    return [one in texts(asked) for one in words]


async def replace_workers(world: World) -> None:
    deskmate = world.stage.deskmate
    for one in [one for one in deskmate.running if one.name == "worker"]:
        one.kill()
        await one.process.wait()
        deskmate.running.remove(one)
    await deskmate.start_worker()


async def test_what_was_put_away_is_loaded_again_by_another_worker(world: World) -> None:
    name, body, short = world.word("web-"), world.word("body-"), world.word("short-")
    world.write(name, skill("How to read pages.", f"Read them. {body}"))
    await world.reload()
    talk, said = await ten_messages(world, name)
    compacted = await talk.say(MAX, "/compact", says(f"Decided: {short}"))
    [summing] = compacted.asked
    assert there(summing, said) == [True] * 7 + [False] * 3
    assert body not in texts(summing)
    assert "7 条消息" in compacted.reply
    assert name in compacted.reply
    await replace_workers(world)
    load = calls("load_skill", {"name": name})
    going_on = await talk.say(MAX, "接着看", load, says("看了"))
    first, second = going_on.asked
    assert there(first, said) == [False] * 7 + [True] * 3
    assert short in texts(first)
    assert re.search(rf"put away with it: the skills {name}\.", texts(first))
    assert (texts(first).count(body), texts(second).count(body)) == (0, 1)
    await talk.say(MAX, "/clear")
    after = await talk.say(MAX, "还记得吗", says("不记得"))
    assert [one in texts(after.asked[0]) for one in (short, body, *said)] == [False] * 12


async def test_what_was_put_away_and_is_off_meanwhile_is_not_loaded_again(world: World) -> None:
    name, body = world.word("web-"), world.word("body-")
    world.write(name, skill("How to read pages.", f"Read them. {body}"))
    await world.reload()
    talk, _ = await ten_messages(world, name)
    await talk.say(MAX, "/compact", says("Decided: nothing"))
    await world.talk(talk.room).say(ANA, f"/skill off {name}")
    refused = await talk.say(MAX, "接着看", calls("load_skill", {"name": name}), says("不行"))
    assert body not in texts(refused.asked[-1])
    assert "switched off" in texts(refused.asked[-1])


async def test_a_call_that_waits_for_a_yes_goes_on_after_every_worker_has_died(world: World) -> None:
    await world.profile("copy", tools=["ask_person", "current_time"], approvals={"ask": ["current_time"]})
    talk = world.talk(world.room("copy"))
    waiting = await talk.begin(MAX, "几点了", calls("current_time"), says("三点"))
    code = await talk.code()
    await replace_workers(world)
    refused = await talk.begin(MAX, f"/deny {'A' * 6}")
    done = await talk.begin(LI, f"/approve {code}")
    turn = await done()
    await refused()
    assert turn.posts[-1] == "三点"
    assert len((await waiting()).asked) == 2
