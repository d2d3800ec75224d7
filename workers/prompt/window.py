"""The window: what is sent has to fit the model's. First old results get short, then the conversation is compacted."""

from __future__ import annotations

import logging
import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from config.settings import ModelSettings
from gateway.conversation.records import Record, carry
from gateway.events import is_blank
from gateway.logs import log
from skills import marks
from workers.agent.circuits import Leave
from workers.agent.trouble import Trouble
from workers.calling.tabs import Size, Tabs
from workers.calling.taint import tainted
from workers.models import ModelError, Request, Usage, text_of
from workers.prompt import compaction
from workers.prompt.compaction import SUMMARY_MAX_TOKENS, Cut
from workers.prompt.context import SHORT_CHARACTERS, in_context, shortened, spoken
from workers.prompt.rendering import Prompt, messages
from workers.reading.attached import shown
from workers.turn import Ended, Turn

logger = logging.getLogger(__name__)

BYTES_PER_TOKEN: Final = 3.5
SAFE: Final = 1.75
"""What is only reckoned may be so much more: two bytes a token, as dense scripts and code are."""
PICTURE_TOKENS: Final = 1_600
"""Of one that is as large as models look at them."""
RESULTS_WHOLE: Final = 5
"""So many of the newest results stay whole for as long as that helps."""
ROOM: Final = 0.75
"""What is made smaller is made so much smaller than it has to be, so that it happens seldom."""
TRANSCRIPT_SHARE: Final = 0.5
"""Of the window, for the request that asks for a summary."""
SHRINKS: Final = frozenset({"cleared", "summary", "shortened", "withheld", "forgotten"})


def tokens(value: Any) -> float:
    """About how many tokens a part of a request takes: there is no tokenizer at hand."""
    match value:
        case str():
            return (len(value) if value.isascii() else len(value.encode("utf-8", "replace"))) / BYTES_PER_TOKEN
        case {"type": "image"}:
            return PICTURE_TOKENS
        case Mapping():
            return sum(map(tokens, value.values())) + len(value)
        case Sequence():
            return sum(map(tokens, value))
    return 1


@dataclass(frozen=True, slots=True)
class Window:
    """One a worker process."""

    settings: ModelSettings
    trouble: Trouble
    tabs: Tabs

    async def fitted(
        self, turn: Turn, prompt: Prompt, pictures: Mapping[str, str], leave: Leave
    ) -> tuple[list[dict[str, Any]], Size]:
        """The messages of the next request, made to fit where they don't, and how large the request is; a summary is asked
        for with its `leave`.

        Raises `Ended`, `Lost`, `Unreachable`.
        """
        limit = self._limit(turn)
        sent = messages(turn.stored.history, pictures)
        now = sized(turn.stored.history, prompt, sent)
        if now.likely <= limit:
            return sent, now
        sent = await self._shrink(turn, prompt, pictures, limit * ROOM / now.likely, leave)
        return sent, sized(turn.stored.history, prompt, sent)

    async def refused(self, turn: Turn, prompt: Prompt, pictures: Mapping[str, str]) -> bool:
        """The model's service says that it is too long, whatever we reckon. False: it was made smaller for that before.

        Raises `Ended`, `Lost`.
        """
        if any(record.type == "dropped" and record.data["why"] == "too_long" for record in turn.records):
            return False
        await turn.write(Record("dropped", turn.now_ms(), {"step": 0, "why": "too_long"}))
        await self._shrink(turn, prompt, pictures, 0.5, await self.trouble.soon(turn))
        return True

    async def compacted(self, turn: Turn) -> tuple[Record, int] | None:
        """What `/compact` leads to, not yet written: the record, and how many messages of people it puts away. None: none
        are left to put away.
        """
        found = compaction.cut(turn.stored.history, turn.profile.context.keep_messages)
        return (await self._summary(turn, found, await self.trouble.soon(turn)), found.messages) if found else None

    def _limit(self, turn: Turn) -> float:
        return self._most * turn.profile.context.compact_at

    @property
    def _most(self) -> int:
        return self.settings.context_tokens - self.settings.answer_max_tokens

    async def _shrink(
        self, turn: Turn, prompt: Prompt, pictures: Mapping[str, str], to: float, leave: Leave | None
    ) -> list[dict[str, Any]]:
        """Make it smaller, to this share of what it is."""
        history, keep = turn.stored.history, turn.profile.context.keep_messages

        def rendered(records: Sequence[Record]) -> list[dict[str, Any]]:
            left = shown(in_context(records))
            return messages(records, {file: pictures[file] for file in left if file in pictures})

        def size(records: Sequence[Record]) -> float:
            return estimated(prompt, rendered(records))

        before = size(history)
        await self._shorten(turn, keep, RESULTS_WHOLE)
        if size(history) > before * to:
            cuts = [found for most in (keep, 1, 0) if (found := compaction.cut(history, most))]
            room = before * to - SUMMARY_MAX_TOKENS
            whole = list(history)
            if chosen := next((one for one in cuts if size(whole[one.at :]) <= room), [None, *cuts][-1]):
                await turn.write(await self._summary(turn, chosen, leave))
        if size(history) > before * to:
            await self._shorten(turn, 0, 0)
        sent = rendered(history)
        log(
            logger,
            "context made smaller",
            conversation=turn.stored.key.id,
            turn=turn.id[:8],
            tokens_before=int(before),
            tokens=int(estimated(prompt, sent)),
        )
        if estimated(prompt, sent) > self._most:
            raise Ended("turn.too_long")
        return sent

    async def _shorten(self, turn: Turn, keep: int, whole: int) -> None:
        """Results but the newest `whole` ones get short, and files of messages but the last `keep`; pictures of those go."""
        here = in_context(turn.stored.history)
        short = shortened(here)
        results = [record.data for record in here if record.type == "tool_result"]
        old = [data["id"] for data in results[: len(results) - whole] if len(data["text"]) > SHORT_CHARACTERS]
        said = [at for at, record in enumerate(here) if record.type == "event" and spoken(record)]
        place = said[-keep] if 0 < keep <= len(said) else len(here) if not keep else 0
        files = [
            (record.data["of"], record.data["number"])
            for record in here[:place]
            if record.type == "attached" and len(record.data.get("text", "")) > SHORT_CHARACTERS
        ]
        data = {
            "turn": turn.id,
            "results": [one for one in old if one not in short.results],
            "files": [one for one in files if one not in short.files],
        }
        records = [Record("shortened", turn.now_ms(), data)] if data["results"] or data["files"] else []
        if gone := [one for one in shown(here[:place]) if one in shown(here)]:
            records.append(Record("forgotten", turn.now_ms(), {"turn": turn.id, "files": gone}))
        if records:
            await turn.write(*records)

    async def _summary(self, turn: Turn, found: Cut, leave: Leave | None) -> Record:
        history = turn.stored.history
        before = list(history)[: found.at]
        text, usage, model = await self._written(turn, found, leave)
        return Record(
            "summary",
            turn.now_ms(),
            {
                "turn": turn.id,
                "begin": history.first + found.at,
                "since": found.since,
                "text": text or compaction.by_rule(found.away),
                "mark": secrets.token_hex(4),
                "by": "model" if text else "rules",
                "skills": compaction.put_away(found, history),
                "tainted": tainted(
                    before, turn.whole.memo
                ),  # with what branches read, which is not among what is put away
                "usage": asdict(usage),
                "model": model,
                "carried": carry(before),
            },
        )

    async def _written(self, turn: Turn, found: Cut, leave: Leave | None) -> tuple[str, Usage, str]:
        """By the model, with what it cost and whose it is; no text where it fails, or there is no leave to ask it."""
        if leave is None:
            _log_rules(turn, "the model is left alone", logging.WARNING)
            return "", Usage(), ""
        most = int(self.settings.context_tokens * TRANSCRIPT_SHARE)
        mark = secrets.token_hex(4)
        text = marks.from_outside(compaction.transcript(found.away, most))
        said = f'<data from="conversation" mark="{mark}">\n{text}\n</data mark="{mark}">'
        size = _size(0, tokens(compaction.INSTRUCTIONS) + tokens(said))
        tab = self.tabs.open(turn, leave.model, size, purpose="summary")
        most_out = min(compaction.SUMMARY_MAX_TOKENS, self.settings.answer_max_tokens)
        request = Request(
            model=tab.model,
            system=[{"type": "text", "text": compaction.INSTRUCTIONS}],
            messages=[{"role": "user", "content": [{"type": "text", "text": said}]}],
            tools=[],
            max_tokens=most_out,
            occasion=turn.occasion(0, "summary"),
            meter=tab.meter,
        )
        if tab.limits:
            await tab.reserve(most_out)
        try:
            answer = await tab.of(self.trouble.ask(request, leave))
        except ModelError as error:
            _log_rules(turn, error.detail, logging.WARNING)
            return "", Usage(), ""
        text = "" if answer.stop_reason == "refusal" else text_of(answer).strip()
        if is_blank(text):
            _log_rules(turn, answer.stop_reason, logging.INFO)
        return "" if is_blank(text) else text, answer.usage, answer.model


def _log_rules(turn: Turn, reason: str, level: int) -> None:
    log(logger, "summary by rules", level=level, conversation=turn.stored.key.id, turn=turn.id[:8], reason=reason)


def sized(history: Sequence[Record], prompt: Prompt, sent: Sequence[dict[str, Any]]) -> Size:
    """How many tokens a request takes, by what the service counted last, where nothing has got smaller since; and at most."""
    return _size(*_parts(history, prompt, sent))


def _size(counted: float, reckoned: float) -> Size:
    return Size(math.ceil(counted + reckoned), math.ceil(counted + reckoned * SAFE))


def _parts(history: Sequence[Record], prompt: Prompt, sent: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """What the service has counted of it, and what is only reckoned."""
    reckoned = estimated(prompt, sent)
    for record in reversed(history):
        if record.branch:
            continue
        if record.type in SHRINKS:
            break
        if record.type == "answer":
            counted = sum(record.data["usage"].values())
            begin = next((at for at in range(len(sent), 0, -1) if sent[at - 1]["role"] == "assistant"), 0)
            since = sum(tokens(message["content"]) for message in sent[begin:])
            is_counted = (
                not record.data.get("reckoned") and counted >= (reckoned - since) / 3
            )  # some count nothing at all
            return (counted, since) if is_counted else (0, reckoned)
    return 0, reckoned


def estimated(prompt: Prompt, sent: Sequence[dict[str, Any]]) -> float:
    return tokens(prompt.system) + sum(map(tokens, prompt.tools)) + sum(map(tokens, sent))
