"""Links and pictures in a text that a model wrote: which of them stay live, and how the others are shown.

A link carries what is in its address to whoever opens it, and a picture does so unasked. So no picture stays one, and
a link that is not allowed is shown as code, with its whole address, its words beside it:

    [news](https://a.test/?d=1)   news (`https://a.test/?d=1`)

Programs for chat make links of more than Markdown does: of bare hosts (`a.test/x`) and of addresses of mail. All that
could be taken for one is looked for in what people would see, marks left out.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from html import unescape
from itertools import accumulate
from typing import Final

from markdown_it.token import Token

from gateway.text.dialect import PLAIN, ZERO_WIDTH, written_anew
from gateway.text.spans import without_tail
from gateway.text.urls import ascii_host

Allowed = Callable[[str], bool]
"""Whether this may be live: an address, a host (`a.test/x`) or one of mail, as it stands in the text."""

CODE_MAX: Final = 400
"""Characters of one piece of code: what is longer might be cut in two, and its second half be no code."""

_CJK: Final = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD: Final = re.compile(r"[^\s<>\"`|“”«»]+")
_RUN: Final = re.compile(rf"[^{_CJK}\u3000-\u303f\uff00-\uffef]+")
_LINK_LIKE: Final = re.compile(
    r":[/\\]|mailto:|\w\.(?:[^\W\d_]{2}|xn--)|(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])", re.IGNORECASE
)
_CJK_HOST: Final = re.compile(rf"[{_CJK}]\.\w|\w\.[{_CJK}]")
_SCHEME: Final = re.compile(r"(?ai:https?)://")
_OPENING: Final = "([{*_~'‘（【「"
_CLOSING: Final = "]}'’）】」…"
_UNSEEN_MARKS: Final = re.compile("[*_~\\\\`\\[\\]()!\u00ad\u200b-\u200f\u2060\ufeff]+")
_LEFT_OUT: Final = re.compile(r"[*_~\\]+")
"""What one chat shows as it stands and another takes for marks, and leaves out."""
_TAG: Final = re.compile(r"<(?!https?://|mailto:)[a-z!/?]", re.IGNORECASE)
_TICK: Final = "\u02cb"
"""In the place of a tick that is no mark: some chats know no way to say that it is none, and would end our code with it."""
_HOST: Final = re.compile(r"(?i:https?://)([^\s/?#\\@]*[^\x00-\x7f][^\s/?#\\@]*)")


def defused(markdown: str, allowed: Allowed | None, *, has_code: bool = True, code_max: int = CODE_MAX) -> str:
    """The Markdown with all that is not allowed shown as code, and the very same where nothing is to change. What has to
    change is written anew as a whole, so that nobody reads it otherwise than we do.

    Without `allowed` only pictures are not. `has_code`: the chat shows code as code. Else addresses are taken apart by characters that are not seen. `code_max`:
    less where the chat takes only short messages.
    """
    has_more = "![" in markdown or (">" in markdown and _TAG.search(markdown) is not None)
    if not markdown.strip() or (allowed is None and not has_more):
        return markdown
    allowed = allowed or (lambda _: True)
    mend = _Mend(allowed, has_code, code_max)
    anew = written_anew(markdown, mend)
    return anew if mend.has_changed or has_more or _is_read_otherwise(markdown, allowed) else markdown


def broken(address: str) -> str:
    """An address that nobody takes for one, and that looks the same."""
    return re.sub(r"[.:@]|//", lambda found: found[0] + ZERO_WIDTH, address)


def is_link_like(word: str) -> bool:
    """Whether a word could be taken for a link."""
    return bool(_LINK_LIKE.search(word) or _CJK_HOST.search(word))


def without_links(code: str) -> str:
    """Code as it stands where it is no code: a word that could be taken for a link is taken apart."""
    return broken(code) if is_link_like(code) and len(code.split()) == 1 else code


UNMARKED: Final = replace(PLAIN, code=without_links)
"""Text for a chat that refuses ours with marks."""


def _is_read_otherwise(markdown: str, allowed: Allowed) -> bool:
    """Whether somebody who reads Markdown in another way could see more in it than we do."""
    return any(True for _ in _live(_UNSEEN_MARKS.sub("", markdown), allowed))


def _live(text: str, allowed: Allowed) -> Iterator[tuple[int, int]]:
    """Where in a text that people see stands what could be taken for a link and is not allowed."""
    for word in _WORD.finditer(text):
        if _CJK_HOST.search(word[0]):
            yield from _candidate(word[0], word.start(), allowed)
        elif _is_hidden(_CJK_HOST, word[0], allowed):
            yield word.span()
        else:
            for run in _RUN.finditer(word[0]):
                begin = word.start() + run.start()
                if _LINK_LIKE.search(run[0]):
                    yield from _candidate(run[0], begin, allowed)
                elif _is_hidden(_LINK_LIKE, run[0], allowed):
                    yield begin, begin + len(run[0])


def _is_hidden(alike: re.Pattern[str], word: str, allowed: Allowed) -> bool:
    """Whether a word is one that is not allowed for who leaves out what may be marks, or reads characters by their numbers:
    `attacker.*test`, `attacker&#46;test`.
    """
    bare = _LEFT_OUT.sub("", unescape(word))
    return bare != word and bool(alike.search(bare)) and any(True for _ in _candidate(bare, 0, allowed))


def _candidate(word: str, start: int, allowed: Allowed) -> Iterator[tuple[int, int]]:
    scheme = _SCHEME.search(word)
    if scheme and not is_link_like(word[: scheme.start()]):
        start, word = start + scheme.start(), word[scheme.start() :]
    begin = len(word) - len(word.lstrip(_OPENING))
    address = without_tail(word[begin:], _CLOSING)
    if address and not allowed(address):
        yield start + begin, start + begin + len(address)


Span = tuple[int, int]


@dataclass(slots=True)
class _Link:
    """A link or a picture in a line, by the places of its words in what is seen."""

    address: str
    is_allowed: bool
    begin: int
    end: int = 0
    is_bare: bool = False
    """It shows its address and nothing else."""


@dataclass(slots=True)
class _Mend:
    """What is in a line, with all that is not allowed as code."""

    allowed: Allowed
    has_code: bool
    code_max: int
    has_changed: bool = False

    def __call__(self, tokens: list[Token]) -> list[Token]:
        return _with_sure_ticks(self._mended(list(_flat(tokens))))

    def _mended(self, flat: list[Token]) -> list[Token]:
        seen = _Seen.of(flat, has_code=self.has_code)
        live = _Spans.of(_live(seen.text, self.allowed))
        links = self._links(flat, seen, live)
        bad = [link for link in links.values() if not link.is_allowed]
        if not live.spans and not bad and not any(map(self._is_long, flat)):
            return flat
        self.has_changed = True
        spans = _Spans.of([*live.spans, *((link.begin, link.end) for link in bad if link.is_bare)])
        made: list[Token] = []
        for at, token in enumerate(flat):
            if link := links.get(at):
                made += [token] if link.is_allowed else self._beside(link) if token.type == "link_close" else []
            elif self._is_long(token):
                made += self._shown(token.content)
            elif seen.sizes[at]:
                made += self._cut(token, seen, seen.starts[at], spans)
            else:
                made.append(token)
        return made

    def _links(self, flat: Sequence[Token], seen: _Seen, live: _Spans) -> dict[int, _Link]:
        """By the places of the tokens that open and close them."""
        links: dict[int, _Link] = {}
        begun: list[int] = []
        for at, token in enumerate(flat):
            if token.type == "link_open":
                address = str(token.attrs.get("href") or "")
                is_allowed = token.info != _PICTURE and self.allowed(address)
                links[at] = _Link(address, is_allowed, seen.starts[at])
                begun.append(at)
            elif token.type == "link_close" and begun:
                opening = begun.pop()
                link = links[at] = links[opening]
                link.end = seen.starts[at]
                words = seen.text[link.begin : link.end].strip()
                link.is_bare = words == link.address or flat[opening].markup == "autolink"
                # Where something in its words is not allowed, or goes on beyond them, they are no link either.
                link.is_allowed = link.is_allowed and not live.within(link.begin, link.end)
        return links

    def _is_long(self, token: Token) -> bool:
        return token.type == "code_inline" and len(token.content) > self.code_max and is_link_like(token.content)

    def _cut(self, token: Token, seen: _Seen, begin: int, spans: _Spans) -> list[Token]:
        """A text with those spans that begin in it as code, and without what is left of the one before."""
        end = here = begin
        end += len(token.content)
        made: list[Token] = []
        for first, last in spans.within(begin, end):
            if first > here:
                made.append(_like(token, seen.text[here:first]))
            if first >= begin:
                made += self._shown(seen.text[first:last])
            here = min(last, end)
        return [*made, _like(token, seen.text[here:end])] if here < end else made

    def _beside(self, link: _Link) -> list[Token]:
        """The address of a link behind its words."""
        if link.is_bare:
            return []
        shown = self._shown(link.address)
        return [_text(" ("), *shown, _text(")")] if link.end > link.begin and shown else shown

    def _shown(self, address: str) -> list[Token]:
        address = _HOST.sub(lambda found: found[0].replace(found[1], ascii_host(found[1]) or found[1]), address)
        address = address.replace("|", "%7C")  # which would end a cell, even in code, for who reads a table here
        if not self.has_code:
            return [_text(broken(address))]
        pieces = [address[at : at + self.code_max] for at in range(0, len(address), self.code_max)]
        made = [one for piece in pieces for one in (_text(" "), Token("code_inline", "code", 0, content=piece))]
        return made[1:]


_PICTURE: Final = "picture"


def _flat(tokens: Sequence[Token]) -> Iterator[Token]:
    """With pictures as links around their words."""
    for token in tokens:
        if token.type == "image":
            yield Token("link_open", "a", 1, attrs={"href": str(token.attrs.get("src") or "")}, info=_PICTURE)
            yield from _flat(token.children or [])
            yield Token("link_close", "a", -1)
        else:
            yield token


@dataclass(frozen=True, slots=True)
class _Seen:
    """What people see of a line, marks left out; of each token where it begins, and how much of it is text."""

    text: str
    starts: Sequence[int]
    sizes: Sequence[int]

    @classmethod
    def of(cls, tokens: Sequence[Token], *, has_code: bool) -> _Seen:
        texts = {"text"} if has_code else {"text", "code_inline"}
        sizes = [len(one.content) if one.type in texts else 0 for one in tokens]
        parts = [one.content if one.type in texts else "\n" if one.type in _APART else "" for one in tokens]
        starts = [0, *accumulate(map(len, parts))]
        return cls("".join(parts), starts, sizes)


_APART: Final = frozenset({"softbreak", "hardbreak", "code_inline"})


@dataclass(frozen=True, slots=True)
class _Spans:
    """Stretches of a text in their order, none in another."""

    spans: Sequence[Span]
    ends: Sequence[int]

    @classmethod
    def of(cls, spans: Iterable[Span]) -> _Spans:
        joined: list[Span] = []
        for begin, end in sorted(spans):
            if joined and begin < joined[-1][1]:
                joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
            elif end > begin:
                joined.append((begin, end))
        return cls(joined, [end for _, end in joined])

    def within(self, begin: int, end: int) -> list[Span]:
        """Those that have a part there."""
        first = bisect_right(self.ends, begin)
        after = bisect_left(self.spans, (end, 0))
        return list(self.spans[first:after])


def _with_sure_ticks(tokens: Iterable[Token]) -> list[Token]:
    """So that every tick which is written begins or ends code, also for those who know no backslash before one."""
    made: list[Token] = []
    for token in tokens:
        if token.type == "code_inline" and made and made[-1].content.endswith("\\"):
            made.append(_text(ZERO_WIDTH))
        made.append(_like(token, token.content.replace("`", _TICK)) if "`" in token.content else token)
    return made


def _text(text: str) -> Token:
    return Token("text", "", 0, content=text)


def _like(token: Token, content: str) -> Token:
    return Token(token.type, token.tag, 0, content=content)
