"""The agent loop: ask the model, run the tools it asks for, until it answers."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from config.settings import Settings
from gateway import counts
from gateway.access import Here
from gateway.commands import command_of
from gateway.conversation.claim import Leaving
from gateway.conversation.mailbox import event_of
from gateway.conversation.records import Record
from gateway.events import Event, is_blank
from gateway.logs import log
from gateway.phrases import say
from gateway.skill_tools import LOAD
from gateway.store import Unreachable
from skills.library import Catalogue
from workers.attached import Attached
from workers.breaks import breaks
from workers.calls import Calls
from workers.hints import due
from workers.live import Live
from workers.mending import mended
from workers.models import Answer, Model, ModelError, Request, TextDelta
from workers.moves import Ask, Pending, Run, Stop, is_stop, next_move, pending, read_event
from workers.offers import Offers
from workers.programs import ProgramTool
from workers.rendering import Prompt, messages
from workers.rights import Rights
from workers.tools import Tool
from workers.turn import Ended, Parked, Turn
from workers.withholding import withhold_now

logger = logging.getLogger(__name__)
T = TypeVar("T")

BAD_INPUTS_MAX = 2
BACKOFF_MAX_S = 8.0
CANCEL_WAIT_S = 2.0


class Called(Exception):
    """Somebody wrote while work was under way, and it can't wait: /stop, or a message in the mode `interrupt`."""

    def __init__(self, *, stop: bool) -> None:
        super().__init__()
        self.stop = stop


@dataclass(frozen=True, slots=True)
class _Work:
    """What one run of a turn has in hand."""

    turn: Turn
    catalogue: Catalogue
    prompt: Prompt
    calls: Calls
    attached: Attached


class Agent:
    """One a worker process; turns pass through it."""

    def __init__(self, settings: Settings, model: Model, offers: Offers) -> None:
        self._settings = settings
        self._model = model
        self._offers = offers

    async def answer(
        self, turn: Turn, here: Here, rights: Rights, live: Live, attached: Attached
    ) -> tuple[Record, str]:
        """Go on with the turn until the model has answered: the record of its answer, not yet written, and the reply.

        Raises `Ended` where a notice takes the answer's place, `Parked` where the turn waits, `Lost`.
        """
        if not any(record.type == "call" for record in turn.records):  # one that goes on goes on with what it has
            await withhold_now(turn, here)
        offer = await self._offers.to(turn, here, rights)
        await self._note_prompt(turn, offer.prompt)
        calls = Calls(self._settings.tools, offer.tools, turn, rights, live, attached.cards)
        work = _Work(turn, here.catalogue, offer.prompt, calls, attached)
        while True:
            try:
                record, reply = await self._steps(work)
            except Called:
                await close_calls(turn, "Stopped by the person")
            except Ended:
                await close_calls(turn, "The turn ended before")
                raise
            else:
                tell_unused(turn, offer.tools, record)
                return record, reply

    async def _steps(self, work: _Work) -> tuple[Record, str]:
        turn, live = work.turn, work.calls.live
        while True:
            self._check_limits(turn)
            await self._border(turn)
            if work.attached.is_due():
                await self._unless_called(turn, work.attached.read(), interrupts=False)
            match next_move(turn.records):
                case Stop():
                    raise Ended("turn.stopped")
                case Run(pending_calls):
                    self._check_inputs(turn)
                    await self._unless_called(turn, work.calls.run(pending_calls), interrupts=False)
                case Ask(step):
                    answer = await self._ask(work, step)
                    if answer is None:
                        continue
                    answer = mended(answer, turn.stored.history)
                    record = Record("answer", turn.now_ms(), {"step": step, **asdict(answer)})
                    if answer.stop_reason == "pause_turn" or answer.calls_tools:
                        await turn.write(record, finished_step=True)
                        live.next_step()
                    elif reply := await self._reply(turn, answer):
                        return record, reply

    # ---- asking ----

    async def _note_prompt(self, turn: Turn, asked: Prompt) -> None:
        """Whether what stands before the messages is as it was: if not, the provider's cache is of no use once."""
        last = next((record for record in reversed(turn.stored.history) if record.type == "prompt"), None)
        if last is None or last.data["hash"] != asked.hash:
            await turn.write(Record("prompt", turn.now_ms(), {"hash": asked.hash, "turn": turn.id}))
            log(logger, "prompt changed", conversation=turn.stored.key.id, hash=asked.hash, first=last is None)

    async def _ask(self, work: _Work, step: int) -> Answer | None:
        """One model call. None: no answer this time, look again what to do."""
        turn, live = work.turn, work.calls.live
        await self._wait_for_model(turn)
        pictures = await work.attached.pictures()
        hints = due(turn.records, work.catalogue, turn.now_ms()) if LOAD in turn.profile.tools else []
        broken = breaks(turn.stored.history)
        is_first = not any(record.type == "call" for record in turn.records)
        await turn.write(
            *hints,
            Record("call", turn.now_ms(), {"step": step, "turn": turn.id}),
            state="save" if is_first else "keep",  # which skills it works with
        )
        if broken:
            with suppress(Unreachable):  # a figure is not worth a turn
                await counts.add(turn.mailbox.store, counts.BREAK, *(f"{counts.BREAK}:{why}" for why in broken))
        request = Request(
            model=turn.profile.model or self._settings.model.name,
            system=[{"type": "text", "text": work.prompt.system}],
            messages=messages(turn.stored.history, pictures),
            tools=list(work.prompt.tools),
            max_tokens=self._settings.model.answer_max_tokens,
        )
        answering = self._stream(request, live)
        turn.stored.history.rest()
        del request  # nobody needs it once it is on its way, and many turns wait at once
        try:
            answer = await self._unless_called(turn, answering, interrupts=True)
        except ModelError as error:
            live.drop()
            await self._failed(turn, error)
            return None
        except Called as called:
            if called.stop:
                raise
            live.drop()
            await self._take_messages(turn, Record("dropped", turn.now_ms(), {"step": step, "why": "interrupt"}))
            return None
        if turn.state.pop("model", None):
            await turn.write(state="save")
        return answer

    async def _stream(self, request: Request, live: Live) -> Answer:
        pieces = self._model.stream(request)
        del request
        async for piece in pieces:
            if isinstance(piece, TextDelta):
                live.add(piece.text)
            else:
                return piece
        raise ModelError("the stream ended without an answer", passing=True, kind="broken")

    async def _failed(self, turn: Turn, error: ModelError) -> None:
        """Note when to try again, or end the turn."""
        reference = turn.id[:8]
        trouble = turn.state.get("model") or {"failures": 0, "since_ms": turn.now_ms()}
        failures, since = trouble["failures"] + 1, trouble["since_ms"]
        backoff = min(BACKOFF_MAX_S, 0.5 * 2 ** min(failures - 1, 6)) * random.uniform(0.5, 1)
        pause = backoff if error.retry_after_s is None else error.retry_after_s
        left = min(self._settings.model.retry_for_s - (turn.now_ms() - since) / 1000, turn.seconds_left)
        log(
            logger,
            "model failed",
            level=logging.WARNING if error.passing and pause <= left else logging.ERROR,
            reference=reference,
            conversation=turn.stored.key.id,
            reason=error.detail,
            kind=error.kind,
            failures=failures,
        )
        if error.kind == "context_too_long":
            raise Ended("turn.too_long")
        if not error.passing:
            refused = error.kind in {"unauthorized", "not_found", "bad_request"}
            raise Ended("turn.model_refused" if refused else "turn.failed", reference=reference)
        if pause > left:
            raise Ended("turn.model_away", reference=reference)
        turn.state["model"] = {
            "failures": failures,
            "since_ms": since,
            "not_before_ms": turn.now_ms() + int(pause * 1000),
        }
        await turn.write(state="save")

    async def _wait_for_model(self, turn: Turn) -> None:
        """After a failure: a short wait holds its place, a long one gives it to others; who comes back early waits on."""
        pause = (turn.state.get("model", {}).get("not_before_ms", 0) - turn.now_ms()) / 1000
        if pause > self._settings.mailbox.send_hold_s:
            raise Parked(pause)
        if pause > 0:
            await self._unless_called(turn, asyncio.sleep(pause), interrupts=False)

    async def _reply(self, turn: Turn, answer: Answer) -> str:
        """The text of a final answer, empty where the model should be asked again."""
        text = "".join(block.get("text", "") for block in answer.content if block.get("type") == "text").strip()
        text = "" if is_blank(text) else text
        if answer.stop_reason == "refusal" and not text:
            raise Ended("turn.empty")
        if answer.stop_reason == "model_context_window_exceeded" and not text:
            raise Ended("turn.too_long")
        if text:
            return text if answer.stop_reason != "max_tokens" else f"{text}\n\n{say('turn.cut', turn.language)}"
        if any(record.type == "dropped" and record.data["why"] == "empty" for record in turn.records):
            raise Ended("turn.empty")
        await turn.write(Record("dropped", turn.now_ms(), {"step": 0, "why": "empty"}))
        return ""

    # ---- limits, borders, newcomers ----

    def _check_limits(self, turn: Turn) -> None:
        limits = turn.profile.limits
        if turn.seconds_left <= 0:
            raise Ended("turn.limit_time", seconds=int(limits.turn_s))
        answers = [record.data for record in turn.records if record.type == "answer"]
        asked = sum(record.type == "call" for record in turn.records)
        if len(answers) >= limits.steps or asked >= limits.steps * 2:
            raise Ended("turn.limit_steps", steps=limits.steps)
        if sum(spent(answer["usage"]) for answer in answers) >= limits.turn_tokens:
            raise Ended("turn.limit_tokens")

    def _check_inputs(self, turn: Turn) -> None:
        """A model that can't write its arguments is not asked for ever."""
        if (
            sum(bool(record.data.get("bad_inputs")) for record in turn.records if record.type == "answer")
            > BAD_INPUTS_MAX
        ):
            raise Ended("turn.failed", reference=turn.id[:8])

    async def _border(self, turn: Turn) -> None:
        """Between two steps: control always, and in `steer` what people wrote meanwhile."""
        turn.claim.check()
        if turn.claim.leaving:
            raise Leaving(turn.claim.conversation)
        if not turn.claim.news.is_set():
            return
        turn.claim.news.clear()
        called = await self._look(turn)
        if called and called.stop:
            raise called
        if called and turn.profile.queue.mode in {"steer", "interrupt"}:
            await self._take_messages(turn)

    async def _take_messages(self, turn: Turn, *also: Record) -> None:
        _, inbox = await turn.mailbox.waiting(turn.claim.conversation)
        members = talk_of(inbox)
        if members and turn.before_talk:
            await turn.before_talk()
        if members or also:
            await turn.take(members, (), *also)

    async def _look(self, turn: Turn) -> Called | None:
        control, inbox = await turn.mailbox.waiting(turn.claim.conversation)
        if any(is_stop(read_event(event)) for event in control):
            await turn.take((), control)
            return Called(stop=True)
        if turn.aside and await turn.aside(inbox):
            _, inbox = await turn.mailbox.waiting(turn.claim.conversation)
        return Called(stop=False) if talk_of(inbox) else None

    async def _unless_called(self, turn: Turn, work: Coroutine[Any, Any, T], *, interrupts: bool) -> T:
        """Do the work, unless somebody stops it, interrupts it (where that is allowed), time ends or the claim is lost."""
        task: asyncio.Task[T] = asyncio.create_task(work)
        news = turn.claim.news
        noticed = False
        try:
            while not task.done():
                turn.claim.check()
                if turn.seconds_left <= 0:
                    raise Ended("turn.limit_time", seconds=int(turn.profile.limits.turn_s))
                listening = asyncio.create_task(news.wait())
                await asyncio.wait(
                    {task, listening},
                    timeout=min(turn.seconds_left, turn.claim.seconds_left()),
                    return_when=asyncio.FIRST_COMPLETED,
                )
                listening.cancel()
                if news.is_set() and not task.done():
                    news.clear()
                    noticed = True
                    called = await self._look(turn)
                    if called and (called.stop or (interrupts and turn.profile.queue.mode == "interrupt")):
                        raise called
            return task.result()
        finally:
            if noticed:
                news.set()  # the border that comes looks as well
            if not task.done():
                task.cancel()
                await asyncio.wait({task}, timeout=CANCEL_WAIT_S)


def spent(usage: Mapping[str, int]) -> int:
    """Tokens that count against the limit: what was read from the provider's cache does not."""
    return sum(tokens for name, tokens in usage.items() if name != "cache_read_tokens")


def is_talk(raw: bytes) -> bool:
    try:
        return not command_of(Event.load(raw))
    except ValueError:
        return False


def talk_of(inbox: Sequence[bytes]) -> list[bytes]:
    """The members that are talk and no command, up to the first command: commands keep their place in line."""
    members = []
    for member in inbox:
        if not is_talk(event_of(member)):
            break
        members.append(member)
    return members


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
