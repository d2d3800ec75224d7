"""Links in what the model says to people: which of them may be live.

Where it has read text of third parties, a link could have been made for them: whoever opens it tells them what it
carries. Then only what cannot carry anything stays a link.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from gateway.conversation.records import Record
from gateway.platforms import Capabilities
from gateway.text.links import CODE_MAX, defused
from gateway.text.urls import Addresses, is_on, place_of
from workers.calling.taint import tainted
from workers.prompt.context import spoken, with_branches
from workers.turn import Turn

_MAIL: Final = re.compile(r"[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,8}[\w-]{1,63}")
_LEADS_ON: Final = re.compile(r"[/\\]{2}|:[/\\]|[=/]www\.", re.IGNORECASE)
"""An address within another's path or query."""
_DECODED_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class _Given:
    """What people and those whom the operator trusts have written here, and what tools found."""

    addresses: Sequence[Addresses]
    mails: frozenset[str]
    texts: tuple[str, ...]
    hosts: Sequence[str]
    """Of the profile."""

    def allows(self, address: str) -> bool:
        """Whether this may be live: an address, with or without its scheme, or one of mail."""
        mail = address.lower().removeprefix("mailto:")
        if _MAIL.fullmatch(mail):
            host = place_of(f"https://{mail.partition('@')[2]}")
            return mail in self.mails or (host is not None and is_on(host, self.hosts))
        place = place_of(address if "://" in address else f"https://{address}")
        if place is None:
            return False
        if is_on(place, self.hosts) and not _leads_on(address):
            return True
        is_whole = "#" not in address or any(address in text for text in self.texts)
        return is_whole and any(one.has(place) for one in self.addresses)


@dataclass(slots=True)
class Links:
    """Of one turn, for a chat that can do this."""

    turn: Turn
    capabilities: Capabilities
    _at: int = -1
    _given: _Given | None = field(default=None)
    """None: nothing has to be given."""

    def harmless(self, markdown: str) -> str:
        """What the model says, as it may be shown. No picture is left in it."""
        self._look()
        code_max = min(CODE_MAX, self.capabilities.text_limit // 3)
        allowed = self._given.allows if self._given else None
        return defused(markdown, allowed, has_code=self.capabilities.has_code, code_max=code_max)

    def growing(self, markdown: str) -> str:
        """The same of a text that goes on: where links have to be given, without the word that it is in the midst of."""
        self._look()
        if self._given:
            end = max(map(markdown.rfind, " \n\t"))
            markdown = markdown[: end + 1]
        return self.harmless(markdown)

    def _look(self) -> None:
        """Once for all that is shown between two records: it reads the whole conversation."""
        history = self.turn.whole.stored.history
        if self._at == history.end:
            return
        records = list(history)
        self._given = self._given_in(records) if tainted(records, self.turn.whole.memo) else None
        self._at = history.end
        history.rest()

    def _given_in(self, records: list[Record]) -> _Given:
        said = [self.turn.profile.instructions]
        found: list[str] = []
        for record in with_branches(records):
            match record.type:
                case "event" if (event := spoken(record)) and not event.actor.is_bot:
                    said.append(event.text)
                case "skill":
                    said.append(record.data["text"])
                case "tool_result":
                    found += record.data.get("addresses", ())
        memo = self.turn.whole.memo
        addresses = [memo.of(Addresses.as_said, text) for text in said]
        addresses += [memo.of(Addresses.in_text, address) for address in found]
        mails = frozenset(mail for text in said for mail in memo.of(_mails, text))
        return _Given(addresses, mails, (*said, *found), self.turn.profile.hosts)


def _mails(text: str) -> list[str]:
    return [mail.lower() for mail in _MAIL.findall(text)]


def _leads_on(address: str) -> bool:
    """Whether another address is in it, which its host may send whoever comes on to."""
    rest = address.partition("://")[2] or address
    for _ in range(_DECODED_MAX):
        if _LEADS_ON.search(rest):
            return True
        rest = unquote(rest)
    return bool(_LEADS_ON.search(rest))
