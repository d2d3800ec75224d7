"""A conversation of 10,000 records that was compacted, as long ones are: what a turn needs of it, and what a record costs.

Of the conversation only what still counts is read: the summary, and the last messages. Its cost for the worker is CPU of
this process, that of an appended record CPU of Redis; both beside a conversation of 100 records in the same run.

    python -m bench.history [--records 10000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time

from bench._talk import WORDS, conversation, event
from bench._world import Verdicts, World, measured_core, rounds_of, told, world
from gateway.conversation.claim import Claim
from gateway.conversation.key import ConversationKey
from gateway.conversation.records import Record
from workers.prompt import compaction
from workers.prompt.context import begin_after, in_context
from workers.prompt.rendering import messages

FEW = 100
KEEP = 3
"""Messages of people that stay whole."""
LOADS = 50
APPENDS = 2_000
PIECE = 500
LOAD_MS, FLAT = 10.0, 1.2


def talk(key: ConversationKey, count: int) -> list[Record]:
    """Turns with a tool call each: a message, a request, an answer, a result, a request, an answer, a reply."""
    made: list[Record] = []
    at_ms = int(time.time() * 1000)
    usage = {"input_tokens": 10, "output_tokens": 5, "cache_read_tokens": 0, "cache_write_tokens": 0}
    while len(made) < count:
        turn = f"turn-{len(made)}"
        said = event(key, WORDS * 3)
        use = {"type": "tool_use", "id": f"toolu_{turn}", "name": "current_time", "input": {}}
        common = {"usage": usage, "model": "fake", "bad_inputs": {}}
        made += [
            Record(
                "event",
                at_ms,
                {"turn": turn, "event": Record.load(f'{{"type":"","at":0,"e":{said.dump()}}}').data["e"]},
            ),
            Record("call", at_ms, {"step": 1, "turn": turn}),
            Record("answer", at_ms, {"step": 1, "content": [use], "stop_reason": "tool_use", **common}),
            Record("tool_result", at_ms, {"step": 1, "id": use["id"], "name": "current_time", "text": WORDS * 5}),
            Record("call", at_ms, {"step": 2, "turn": turn}),
            Record(
                "answer",
                at_ms,
                {"step": 2, "content": [{"type": "text", "text": WORDS * 4}], "stop_reason": "end_turn", **common},
            ),
            Record("reply", at_ms, {"turn": turn, "text": WORDS * 4}),
        ]
    return made[:count]


def summary(records: list[Record]) -> Record:
    cut = compaction.cut(records, KEEP)
    assert cut, "nothing to put away"
    data = {
        "turn": "turn",
        "begin": cut.at,
        "since": cut.since,
        "text": compaction.by_rule(cut.away),
        "mark": "12345678",
        "by": "rules",
        "skills": [],
        "usage": {},
        "tainted": False,
        "model": "",
        "carried": {},
    }
    return Record("summary", records[-1].at_ms, data)


async def held(here: World, records: int, *, compacted: bool) -> Claim:
    """A conversation with so many records, in our hands."""
    key = conversation()
    said = event(key, WORDS)
    await here.mailbox.accept(key, said.dump(), dedupe_keys=said.dedupe_keys, at_ms=said.at_ms)
    [claim] = (await here.mailbox.claim(0, "bench", 1)).grants
    made = talk(key, records)
    for at in range(0, records, PIECE):
        await here.mailbox.append(claim, records=made[at : at + PIECE])
    if compacted:
        last = summary(made)
        await here.mailbox.append(claim, records=[last], begin=begin_after([last], records))
    return claim


async def loading_ms(here: World, claim: Claim) -> float:
    """CPU of reading what a turn needs, and of making a request's messages of it."""
    began = time.process_time()
    for _ in range(LOADS):
        stored = await here.mailbox.load(claim.conversation, claim.begin)
        assert messages(in_context(stored.history))
    return (time.process_time() - began) / LOADS * 1_000


async def appending_us(here: World, claim: Claim) -> float:
    """CPU of Redis for one record."""
    record = Record("call", int(time.time() * 1000), {"step": 1, "turn": "turn"})
    began = here.redis.cpu_s()
    for _ in range(APPENDS):
        await here.mailbox.append(claim, records=[record])
    return (here.redis.cpu_s() - began) / APPENDS * 1_000_000


async def compare(records: int, rounds: int) -> None:
    verdicts = Verdicts()
    async with world() as here:
        long = await held(here, records, compacted=True)
        whole = await held(here, records, compacted=False)
        few, many = await held(here, FEW, compacted=False), await held(here, records, compacted=False)
        loads = [await loading_ms(here, long) for _ in range(rounds)]
        began = time.process_time()
        stored = await here.mailbox.load(whole.conversation)
        list(stored.history)
        print(f"{'(without compaction, once)':44} {(time.process_time() - began) * 1_000:9.2f} ms")
        appends: dict[str, list[float]] = {"few": [], "many": []}
        for name in rounds_of("few", "many", rounds=rounds):
            appends[name].append(await appending_us(here, few if name == "few" else many))
    load_ms = told(f"loading what counts of {records}, CPU", loads, "ms")
    few_us = told(f"append to {FEW} records, CPU of Redis", appends["few"], "us")
    many_us = told(f"append to {records} records, CPU of Redis", appends["many"], "us")
    verdicts.tell("loading", load_ms, LOAD_MS, "ms")
    verdicts.tell("append: many / few", many_us / few_us, FLAT)
    verdicts.end()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--records", type=int, default=10_000)
    options.add_argument("--rounds", type=int, default=5)
    given = options.parse_args()
    os.sched_setaffinity(0, {measured_core()})
    asyncio.run(compare(given.records, given.rounds))


if __name__ == "__main__":
    main()
