"""The agent loop: ask the model, run the tools it asks for, until it answers."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict
from typing import Final

from config.settings import Settings
from gateway.conversation.records import Record
from gateway.logs import log
from gateway.rights.access import Here
from workers.agent.asking import Asking, Work, reply_of
from workers.agent.borders import Called, border, unless_called
from workers.agent.mending import mended, without_calls
from workers.agent.moves import Ask, Pending, Run, Stop, next_move, pending
from workers.calling.calls import Calls, RunTool, run_tool
from workers.calling.programs import ProgramTool
from workers.calling.rights import Rights
from workers.prompt.offers import Offer, Offers
from workers.prompt.rendering import Prompt
from workers.prompt.withholding import withhold_now
from workers.reading.attached import Attached
from workers.sending.live import Telling
from workers.tools import Tool
from workers.turn import Ended, Turn

logger = logging.getLogger(__name__)

BAD_INPUTS_MAX: Final = 2


class Agent:
    """One a worker process; turns pass through it."""

    def __init__(self, settings: Settings, asking: Asking, offers: Offers, run: RunTool = run_tool) -> None:
        self._run = run
        self._settings = settings
        self._asking = asking
        self._offers = offers

    async def answer(
        self, turn: Turn, here: Here, rights: Rights, live: Telling, attached: Attached
    ) -> tuple[Record, str]:
        """Go on with the turn until the model has answered: the record of its answer, not yet written, and the reply.

        Raises `Ended` where a notice takes the answer's place, `Parked` where the turn waits, `Lost`.
        """
        if not any(record.type == "call" for record in turn.records):  # one that goes on goes on with what it has
            await withhold_now(turn, here)
        offer = await self._offers.to(turn, here, rights)
        turn.offer(offer.listed)
        record, reply = await self._to_its_end(here, offer, rights, live, attached)
        tell_unused(turn, offer.tools, record)
        return record, reply

    async def answer_alone(
        self, here: Here, system: str, rights: Rights, live: Telling, attached: Attached
    ) -> tuple[Record, str]:
        """The same of a model that has nothing but what it is told: no tools, and no skills. `attached` has the turn."""
        return await self._to_its_end(here, Offer({}, Prompt(system, ())), rights, live, attached)

    async def _to_its_end(
        self, here: Here, offer: Offer, rights: Rights, live: Telling, attached: Attached
    ) -> tuple[Record, str]:
        turn = attached.turn
        await self._asking.note_prompt(turn, offer.prompt)
        calls = Calls(self._settings.tools, offer.tools, turn, rights, live, attached.cards, offer.withheld, self._run)
        work = Work(turn, here.catalogue, offer.prompt, calls, attached)
        while True:
            try:
                return await self._steps(work)
            except Called:
                await close_calls(turn, "Stopped by the person")
            except Ended:
                await close_calls(turn, "The turn ended before")
                raise

    async def compacted(self, turn: Turn) -> tuple[Record, int] | None:
        """See `Window.compacted`. Raises `Called`, `Ended`, `Lost`."""
        return await unless_called(turn, self._asking.window.compacted(turn), interrupts=False)

    async def _steps(self, work: Work) -> tuple[Record, str]:
        turn, live = work.turn, work.calls.live
        while True:
            self._check_limits(turn)
            await border(turn)
            if work.attached.is_due():
                await unless_called(turn, work.attached.read(), interrupts=False)
            match next_move(turn.records):
                case Stop():
                    raise Ended("turn.stopped")
                case Run(pending_calls):
                    self._check_inputs(turn)
                    await unless_called(turn, work.calls.run(pending_calls), interrupts=False)
                case Ask(step):
                    answer = await self._asking.ask(work, step)
                    if answer is None:
                        continue
                    answer = mended(answer, turn.stored.history)
                    answer = answer if work.prompt.tools else without_calls(answer)
                    record = Record("answer", turn.now_ms(), {"step": step, **asdict(answer)})
                    if answer.stop_reason == "pause_turn" or answer.calls_tools:
                        await turn.write(record, finished_step=True)
                        live.next_step()
                    elif reply := await reply_of(turn, answer):
                        return record, reply

    def _check_limits(self, turn: Turn) -> None:
        limits = turn.profile.limits
        if turn.seconds_left <= 0:
            raise Ended("turn.limit_time", seconds=int(limits.turn_s)).by("limits.turn_s")
        answers = [record.data for record in turn.records if record.type == "answer"]
        asked = sum(record.type == "call" for record in turn.records)
        if len(answers) >= limits.steps or asked >= limits.steps * 2:
            raise Ended("turn.limit_steps", steps=limits.steps).by("limits.steps")
        costly = [record.data for record in turn.whole.all_records if record.type in {"answer", "summary"}]
        if sum(spent(one["usage"]) for one in costly) >= limits.turn_tokens:
            raise Ended("turn.limit_tokens").by("limits.turn_tokens")

    def _check_inputs(self, turn: Turn) -> None:
        """A model that can't write its arguments is not asked for ever."""
        if (
            sum(bool(record.data.get("bad_inputs")) for record in turn.records if record.type == "answer")
            > BAD_INPUTS_MAX
        ):
            raise Ended("turn.failed", reference=turn.id[:8])


def spent(usage: Mapping[str, int]) -> int:
    """Tokens that count against the limit: what was read from the provider's cache does not."""
    return sum(tokens for name, tokens in usage.items() if name != "cache_read_tokens")


def tell_unused(turn: Turn, offered: Mapping[str, Tool], record: Record) -> None:
    """Log that programs could have run and none was asked for: the model chose to answer by text."""
    could_run = [tool.skill.id for tool in offered.values() if isinstance(tool, ProgramTool)]
    asked = {one.data["name"] for one in turn.records if one.type == "tool_result"}
    if could_run and asked.isdisjoint(name for name, tool in offered.items() if isinstance(tool, ProgramTool)):
        log(
            logger,
            "no program was asked for",
            conversation=turn.stored.key.id,
            turn=turn.id[:8],
            reason=f"the model answered by text ({record.data['stop_reason']})",
            could_run=could_run,
        )


async def close_calls(turn: Turn, why: str) -> None:
    """Give every open call of the turn a result that says why there is none: history stays well-formed."""
    answer = next((record for record in reversed(turn.records) if record.type == "answer"), None)
    calls: tuple[Pending, ...] = pending(turn.records, answer) if answer else ()
    if not calls:
        return
    await turn.write(
        *(
            Record(
                "tool_result",
                turn.now_ms(),
                {
                    "step": call.step,
                    "id": call.id,
                    "name": call.name,
                    "text": f"{why}; it {'may have run in part' if call.was_started else 'did not run'}.",
                    "error": True,
                },
            )
            for call in calls
        )
    )
