"""The script: the model, the tools and the people of a turn, played from what was recorded."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from config.settings import MailboxSettings
from gateway.approvals.asked import asked_in
from gateway.conversation.claim import Claim, Claimed
from gateway.conversation.mailbox import Mailbox
from gateway.conversation.records import Record
from gateway.events import Attachment, Event
from gateway.logs import Mask
from gateway.platforms import Address, Capabilities, NotDownloaded, Outbound, Outcome, Part, Plain, Sent
from gateway.store import Store
from skills.folders import Skill
from workers.agent.moves import is_stop
from workers.agent.recording import wire
from workers.models import Answer, ModelError, Request, TextDelta, Usage
from workers.replay.case import MADE, Case, Later, NotPossible
from workers.tools import Call, NeedsPerson, Tool, ToolError, ToolResult

SOON_S: Final = 0.001
"""What has to be waited for was waited for then."""
WAIT_MAX_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request that is made now, and the one in its place then."""

    branch: str
    step: int
    purpose: str
    now: Mapping[str, Any] | None
    """None: it is not made any more."""
    then: Mapping[str, Any] | None
    """None: it was not made."""
    outcome: Mapping[str, Any]
    """What came of it then."""


class Script:
    """One run of a case. It is the model (`workers.models.Model`) as well."""

    label: str | None = None

    def __init__(self, case: Case, mask: Mask) -> None:
        self.exchanges: list[Exchange] = []
        self.notes: list[str] = []
        """What else is different, and shows in no request."""
        self.case = case
        self._mask = mask
        self._results = case.results()
        self._left: dict[tuple[str, int, str], list[Mapping[str, Any]]] = defaultdict(list)
        for entry in case.requests:
            self._left[entry["branch"], entry["step"], entry["purpose"]].append(entry)
        self.people: People | None = None

    # ---- the model ----

    async def stream(self, request: Request) -> AsyncIterator[TextDelta | Answer]:
        """What was answered then. Raises `ModelError` where that came of it, or where nobody asked this then."""
        about = request.occasion
        waiting = self._left[about.branch, about.step, about.purpose]
        now = wire(request, self._mask)
        while True:
            if not waiting:
                self.exchanges.append(Exchange(about.branch, about.step, about.purpose, now, None, {}))
                raise ModelError("this request was not made then", passing=False, kind="bad_request")
            entry = waiting.pop(0)
            outcome: Mapping[str, Any] = entry["outcome"]
            self.exchanges.append(Exchange(about.branch, about.step, about.purpose, now, entry["request"], outcome))
            if text := outcome.get("said"):
                yield TextDelta(text)
            if answer := outcome.get("answer"):
                for block in answer["content"]:
                    if block.get("type") == "text":
                        yield TextDelta(block["text"])
                yield Answer(**{**answer, "usage": Usage(**answer["usage"])})
                return
            met = await self.people.meet_model() if self.people else False
            if error := outcome.get("error"):
                pause = SOON_S if waiting and error["passing"] else error["retry_after_s"]
                raise ModelError(**{**error, "retry_after_s": pause})
            if met:
                await asyncio.Event().wait()  # whoever was met calls this off
            # The worker left or lost it: the next one asked the same again.

    async def check(self) -> str:
        return "replay: no model is asked"

    async def close(self) -> None:
        return

    def missing(self) -> list[Exchange]:
        """Requests that were made then and not now."""
        return [
            Exchange(*about, None, entry["request"], entry["outcome"])
            for about, entries in self._left.items()
            for entry in entries
        ]

    # ---- the tools ----

    async def run_tool(self, tool: Tool, arguments: dict[str, Any], call: Call) -> ToolResult:
        """What it came to then. Raises `ToolError`, `NeedsPerson`."""
        del arguments
        played = self._results.get(call.key)
        if played is None:
            self.notes.append(f"{tool.name} ({call.id}) did not run then: there is no result to play")
            raise ToolError("This call was not recorded.")
        if played.question and call.word is None:
            raise NeedsPerson(str(played.question["text"]), tuple(played.question.get("choices", ())))
        data = played.data
        if data.get("rule"):
            self.notes.append(f"{tool.name} ({call.id}) was refused then, and may run now")
        if data.get("error"):
            raise ToolError(str(data["text"]), untrusted=bool(data.get("untrusted")), note=str(data.get("note", "")))
        skill = _Named(data["skill"], data["bundle"]) if data.get("skill") else None
        return ToolResult(
            str(data["text"]),
            untrusted=bool(data.get("untrusted")),
            records=played.records,
            note=str(data.get("note", "")),
            addresses=tuple(data.get("addresses", ())),
            skill=cast("Skill | None", skill),
        )


@dataclass(frozen=True, slots=True)
class _Named:
    """All that a result says of a skill."""

    id: str
    hash: str


class People(Mailbox):
    """The mailbox of a replay, in which people say what they said then, when it is its turn."""

    def __init__(self, store: Store, settings: MailboxSettings, script: Script) -> None:
        super().__init__(store, settings)
        self._later = script.case.later()
        self._made = 0
        self._claim: Claim | None = None

    async def append(self, claim: Claim, *, records: Sequence[Record] = (), **more: Any) -> None:
        """See `Mailbox.append`. What came after these records then comes now."""
        await super().append(claim, records=records, **more)
        self._claim = claim
        self._made += sum(record.type in MADE for record in records)
        while self._later and self._is_due(self._later[0]) and self._later[0].meets not in {"call", "asked"}:
            await self._say(self._later.pop(0))

    async def park(
        self, claim: Claim, wait_ms: int, saw_seq: int | None, worker: str, places: int, *, saw_control: int = 0
    ) -> Claimed | None:
        """Nobody waits here: what was waited for then comes now. Raises `NotPossible` where that is not known."""
        del saw_seq, worker, places, saw_control
        self._claim = claim
        while self._later:
            later = self._later.pop(0)
            if later.record.type == "event":
                await self._say(later)
                return None
            if await self._decide(claim, later.record):
                return None
        if wait_ms > WAIT_MAX_S * 1000:
            raise NotPossible(f"the turn waits for {wait_ms / 1000:.0f} s now, and the recording does not say for what")
        await asyncio.sleep(wait_ms / 1000)
        return None

    async def meet_model(self) -> bool:
        """Those who wrote while this call of the model was under way do so now; whether there was anybody."""
        met = False
        while self._later and self._is_due(self._later[0]):
            await self._say(self._later.pop(0))
            met = True
        return met

    def _is_due(self, later: Later) -> bool:
        return later.record.type == "event" and later.after <= self._made

    async def _say(self, later: Later) -> None:
        dumped = later.record.data["event"]
        event = Event.of(dumped)
        await self.accept(
            event.conversation,
            json.dumps(dumped),
            dedupe_keys=event.dedupe_keys,
            at_ms=event.at_ms,
            control=is_stop(dumped),
        )
        if self._claim:
            self._claim.news.set()

    async def _decide(self, claim: Claim, word: Record) -> bool:
        """Write down a person's word, if it is waited for."""
        history = list((await self.load(claim.conversation, claim.begin)).history)
        open_now = {
            one.code
            for branch in {record.branch for record in history}
            for one in asked_in([record for record in history if record.branch == branch])
            if one.word is None
        }
        if word.data["code"] not in open_now:
            return False
        await super().append(claim, records=[replace(word, at_ms=self.now_ms())])
        return True


class Silent(Plain):
    """The platform of a replay: it takes everything and tells nobody."""

    def __init__(self, case: Case, file_max_bytes: int) -> None:
        self.capabilities = Capabilities(text_limit=1_000_000, file_max_bytes=file_max_bytes)
        self._case = case

    def render(self, outbound: Outbound) -> list[Part]:
        return [Part({"text": outbound.markdown})]

    async def send(self, to: Address, part: Part, key: str) -> Outcome:
        del to, part
        return Outcome("ok", Sent(key))

    async def download(self, attachment: Attachment, max_bytes: int) -> bytes:
        """What was read of it then. Raises `NotDownloaded`."""
        del max_bytes
        for record in self._case.records:
            if record.type == "attached" and record.data["name"] == attachment.name:
                if record.data["kind"] == "text":
                    return (str(record.data["text"]) + "." * int(record.data.get("left_out", 0))).encode()
                if content := self._case.pictures.get(str(record.data.get("file"))):
                    return content
        raise NotDownloaded("it is not kept any more")
