"""The ledgers of a sweep: a file a source, and the events of each conversation at hand for a verdict of its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal, Self

from tests.harness.history import Event, Fault, History, Ledger

Source = Literal["people", "platform", "model", "tools", "wire", "faults"]
SOURCES: Final[tuple[Source, ...]] = ("people", "platform", "model", "tools", "wire", "faults")


class Page(Ledger):
    """One source's. What it writes down can be read at once in the book."""

    def __init__(self, path: Path, book: Book) -> None:
        super().__init__(path)
        self._book = book

    def write(self, event: Event) -> None:
        super().write(event)
        self._book.note(event)


class Book:
    """All ledgers of a run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._by_conversation: defaultdict[str, list[Event]] = defaultdict(list)
        self.pages = {source: Page(folder / f"{source}.jsonl", self) for source in SOURCES}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for page in self.pages.values():
            page.close()

    def note(self, event: Event) -> None:
        if conversation := getattr(event, "conversation", ""):
            self._by_conversation[conversation].append(event)

    def of(self, conversation: str) -> list[Event]:
        return self._by_conversation[conversation]

    def history(self, conversations: Iterable[str], beside: Iterable[Fault]) -> History:
        """What was seen of conversations, with the faults that fell then."""
        return History.of([*(event for one in conversations for event in self.of(one)), *beside])

    def forget(self, conversation: str) -> None:
        """It is judged: the files still have it."""
        self._by_conversation.pop(conversation, None)
