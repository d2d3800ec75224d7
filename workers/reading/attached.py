"""Attached: what people attach, made readable for the model: pictures, and files that are text.

Each file is downloaded once, in the turn that takes its message, before the model is asked. A text goes into the records,
a picture's bytes lie apart for a day (`gateway.files`); a record says what became of each.
"""

from __future__ import annotations

import asyncio
import base64
import codecs
import logging
import secrets
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from config.settings import AttachmentSettings
from gateway.conversation.outbox import Row
from gateway.conversation.records import Record
from gateway.events import Attachment, Event, is_blank
from gateway.files import Files
from gateway.logs import log
from gateway.phrases import say
from gateway.platforms import Adapter, NotDownloaded, Outbound
from gateway.text.quoting import quoted
from workers.prompt.context import in_context, spoken
from workers.reading.pictures import NoPicture, fit
from workers.sending.cards import Cards
from workers.turn import Turn, stable_key

logger = logging.getLogger(__name__)

IN_CONTEXT_MAX: Final = 20
"""Pictures that a request holds; of more, the oldest are left out for good."""
READABLE: Final = frozenset({"image", "file"})
"""Kinds of attachments that may be read; of any other (a sticker, a voice message) the model is told that it is there."""
_FITTING: Final = ThreadPoolExecutor(1, "picture")
"""Of a process: a large picture takes hundreds of megabytes, so there is one at a time."""
AT_ONCE: Final = 8
"""So many downloads of a process, however many turns wait for theirs."""
_MARKS: Final = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


@dataclass(slots=True)
class Attached:
    """Of one turn."""

    turn: Turn
    adapter: Adapter
    files: Files
    settings: AttachmentSettings
    cards: Cards
    gate: asyncio.Semaphore
    """Of the process, for `AT_ONCE` downloads."""
    _seen: dict[str, str] = field(default_factory=dict)
    """Pictures in base64 that this turn has read."""

    def is_due(self) -> bool:
        """Are there files that nobody has looked at?"""
        return bool(self._due())

    async def read(self) -> None:
        """Look at those. Raises `Lost`, `Unreachable`."""
        sends: list[Row] = []
        language = self.turn.language
        for event, at, file in self._due():  # one after the other: each may have many megabytes
            if known := self._known(event, at):
                await self.turn.write(Record("attached", self.turn.now_ms(), dict(known)))
                continue
            record = await self._look(event, at, file)
            cards: list[Record] = []
            rows: list[Row] = []
            if told := record.data.get("told"):
                name, most = quoted(record.data["name"], 80), self.settings.files_max
                limit = f"{self.settings.download_max_bytes / 1_048_576:.3g}"
                text = say(f"attached.{told}", language, name=name, most=most, limit=limit)
                cards, rows = self.cards.made(
                    record.data["of"] + str(record.data["number"]), [Outbound(text, is_notice=True)]
                )
            await self.turn.write(record, *cards, rows=rows)
            sends += rows
        await self.cards.send(sends)

    async def pictures(self) -> dict[str, str]:
        """Those in the context by file, in base64. One that is not kept any more is noted as gone, once and for all.

        Raises `Lost`, `Unreachable`.
        """
        here = in_context(self.turn.stored.history)
        wanted = shown(here)
        gone = wanted[:-IN_CONTEXT_MAX]
        for file in wanted[-IN_CONTEXT_MAX:]:
            if file not in self._seen:
                content = await self.files.find(self.turn.stored.key.id, file)
                if content is None:
                    gone.append(file)
                else:
                    self._seen[file] = base64.b64encode(content).decode()
        if gone:
            await self.turn.write(Record("forgotten", self.turn.now_ms(), {"turn": self.turn.id, "files": gone}))
        return {file: self._seen[file] for file in wanted if file in self._seen}

    async def take_out(self) -> bool:
        """The model refuses a picture, and does not say which: those of this turn are not sent any more, or else all.

        False: there are none. Raises `Lost`.
        """
        there = shown(in_context(self.turn.stored.history))
        own = set(shown(self.turn.records))
        gone = [file for file in there if file in own] or there
        if gone:
            data = {"turn": self.turn.id, "files": gone, "why": "refused"}
            await self.turn.write(Record("forgotten", self.turn.now_ms(), data))
        return bool(gone)

    def _due(self) -> list[tuple[Event, int, Attachment]]:
        asked = max((at for at, record in enumerate(self.turn.records) if record.type == "call"), default=-1)
        fresh = self.turn.records[asked + 1 :]  # what a model has seen never changes
        done = {(record.data["of"], record.data["number"]) for record in fresh if record.type == "attached"}
        events = [event for record in fresh if record.type == "event" and (event := spoken(record))]
        return [
            (event, at, file)
            for event in events
            for at, file in enumerate(event.attachments)
            if (event.dedupe_keys[0], at) not in done
        ]

    def _known(self, event: Event, at: int) -> Mapping[str, Any] | None:
        """What became of the file in another part of the turn, where the same message was heard."""
        key = (event.dedupe_keys[0], at)
        notes = (one.data for one in self.turn.whole.all_records if one.type == "attached")
        return next((note for note in notes if (note["of"], note["number"]) == key), None)

    async def _look(self, event: Event, at: int, file: Attachment) -> Record:
        data: dict[str, Any] = {"turn": self.turn.id, "of": event.dedupe_keys[0], "number": at, "name": file.name}
        data |= {"forwarded": True} if file.is_forwarded else {}
        if at >= self.settings.files_max:
            data |= {"kind": "unread", "reason": f"not read: only {self.settings.files_max} files of a message are"}
            data |= {"told": "too_many"} if at == self.settings.files_max else {}
        elif file.kind not in READABLE:
            data |= {"kind": "unread", "reason": f"a {file.kind} can't be read"}
        elif not _may_be_readable(file):
            data |= {"kind": "unread", "reason": "not readable here yet"}
        else:
            try:
                data |= await self._read(event, at, file)
            except (NotDownloaded, NoPicture) as why:
                log(logger, "attachment not read", level=logging.WARNING, name=file.name[:80], reason=str(why))
                data |= {"kind": "unread", "reason": f"it could not be read: {quoted(str(why), 200)}", "told": "unread"}
                if file.size_bytes > self.settings.download_max_bytes:
                    data["told"] = "too_large"
        return Record("attached", self.turn.now_ms(), data)

    async def _read(self, event: Event, at: int, file: Attachment) -> dict[str, Any]:
        limit = self.settings.download_max_bytes
        if file.size_bytes > limit:
            raise NotDownloaded(f"it has {file.size_bytes} bytes, allowed are {limit}")
        async with self.gate:
            content = await self.adapter.download(file, limit)
        if file.kind == "image" or file.mime.startswith("image/"):
            mime, picture = await asyncio.get_running_loop().run_in_executor(_FITTING, fit, content)
            name = stable_key(self.turn.id, event.dedupe_keys[0], "picture", str(at))
            await self.files.keep(self.turn.stored.key.id, name, picture, accepted=True)
            return {"kind": "image", "mime": mime, "file": name}
        text = text_of(content)
        if text is None:
            return {"kind": "unread", "reason": "not readable here yet"}
        most = self.settings.text_max_characters
        cut = {"left_out": len(text) - most} if len(text) > most else {}
        return {"kind": "text", "text": text[:most], "mark": secrets.token_hex(4), **cut}


def shown(records: Sequence[Record]) -> list[str]:
    """The files of the pictures that records show, oldest first, without those that are forgotten."""
    gone = {file for record in records if record.type == "forgotten" for file in record.data["files"]}
    pictures = [
        record.data["file"] for record in records if record.type == "attached" and record.data["kind"] == "image"
    ]
    return [file for file in pictures if file not in gone]


def nothing_to_read(event: Event) -> bool:
    """Whether it is only what can't be read: a sticker, a voice message, a place."""
    is_silent = all(map(is_blank, (event.text, event.quoted, event.forwarded)))
    return is_silent and bool(event.attachments) and not any(one.kind in READABLE for one in event.attachments)


def text_of(content: bytes) -> str | None:
    """The text that a file is, in the encoding that its bytes show; none for what is no text."""
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return content.decode(encoding, "replace")
    if b"\0" in content:
        return None
    for encoding in ("utf-8", "gb18030"):
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            continue
        return text if sum(not one.isprintable() and not one.isspace() for one in text[:4_000]) < 10 else None
    return None


def _may_be_readable(file: Attachment) -> bool:
    """Without looking: what says of itself that it is an archive, an office file, a film is not even fetched."""
    kind, _, sub = file.mime.partition("/")
    if file.kind == "image" or kind in {"", "image", "text"}:
        return True
    return kind == "application" and (
        sub in {"octet-stream", "json", "xml", "yaml", "x-yaml", "toml", "x-sh", "javascript", "sql", "csv"}
        or sub.endswith(("+json", "+xml"))
    )
