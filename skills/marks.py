"""Marks: what tells the model whose text it reads, and how a text from elsewhere that imitates them is made harmless.

Guidance begins with a line of our own, data and bodies in results stand between tags. A person, a page, a file or another
skill's body may hold the same words, in letters that look alike or with something between them that nobody sees.
Where such a text is rendered, the imitation is written so that it can be read and is no mark any more.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Final

from skills import ids

GUIDANCE: Final = "Guidance for the task in hand"
"""Begins the line in front of each skill's text."""
NOTE: Final = "(deskmate"
"""Begins what the product itself says among the messages: `(deskmate: ...)`, `(deskmate told the chat: ...)`."""
_QUOTED: Final = "Guidance (quoted) for the task in hand"
_TAGS: Final = ("skill", "data")
_WHERE_LETTERS_ARE_STYLED: Final = (
    (0x00C0, 0x0250), (0x1D00, 0x1E00), (0x1E00, 0x1F00), (0x2070, 0x2190), (0x2460, 0x2500), (0xFE50, 0xFE70),
    (0xFF00, 0xFFF0), (0x1D400, 0x1D800), (0x1F100, 0x1F150),
)  # fmt: skip
"""Blocks with letters that are others in disguise: with accents, raised, in circles, full-width, mathematical."""
_ALPHABETS: Final = (0x1F150, 0x1F170, 0x1F1E6)
"""Where A to Z stand white on black, and as letters of flags: Unicode does not say that they are these letters."""
_MORE_TWINS: Final = {
    "<": "\uff1c\u3008\u2329\u27e8\u276c\u276e\u2770\ufe64\u2039\u02c2\u227a", "/": "\uff0f\u2044\u2215\u29f8",
    "(": "\uff08\u2768\u276a\ufe59\ufe35\u207d\u208d\u2985\u27ee\u3014\ufd3e",
    ":": "\uff1a\ufe13\ufe55\ufe30\ua789\u2236\u02d0\u02f8\u0589\u05c3\u0703\u0704\u16ec\u1803\u1809\u205a",
    "a": "\u1d00\u03b1", "c": "\u1d04", "d": "\u1d05", "e": "\u1d07\u03b5\u0454", "f": "\ua730", "g": "\u0262",
    "h": "\u041d\u0397\u043d\u029c", "i": "1l|\u2160\u026a", "k": "\u041a\u039a\u043a\u03ba\u0138\u1d0b",
    "l": "1I|\u2160\u029f", "m": "\u041c\u039c\u043c\u1d0d", "n": "\u039d\u0274\u043f\u03c0\u0438", "o": "0", "r": "\u0280", "s": "$5",
    "t": "\u0422\u03a4\u0442\u03c4\u1d1b", "u": "\u1d1c",
}  # fmt: skip
"""Alike only as capitals, small capitals, or no letters at all: a table made for small letters of ids has none of them."""
_FOLDED: Final = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZl1|05$", b"abcdefghijkimnopqrstuvwxyziiioss")
"""One letter for all that look like it, within ASCII. `i` and `l` are one: each can be taken for `1` and `|`."""
_DROPPED: Final = bytes({*range(0x21), 0x7F, *b"*_`~\\>"})
"""Controls, blanks, and signs of Markdown that vanish on screen."""
_FAR: Final = re.compile("[\U00010000-\U0010ffff]")
_IGNORABLE: Final = (
    (0x80, 0x85), (0x86, 0xA0), (0x115F, 0x1161), (0x2065, 0x2066), (0x3164, 0x3165), (0xFFA0, 0xFFA1),
    (0xFFF0, 0xFFF9), (0xFFFC, 0xFFFD), (0xE0000, 0xE1000),
)  # fmt: skip
"""What shows nothing and is of another category than those that say so."""
_ELEMENT: Final = (
    r"<[/!]?[a-zA-Z-][^<>\n]{0,200}+>|&(?:nbsp|[a-z]{1,4}sp|shy|zwn?j|#0*160|#0*173|#[xX]0*[aA][0dD]);"
    r"|\[|\](?:\([^()\s]{0,200}+\))?"
)
"""Tags and blanks of HTML, a link's brackets and address. They are short, so that no search in them takes long."""
_VANISHING: Final = rf"{_ELEMENT}|^[ \t]*+>[ \t>]*+|[*`~\\]|(?<![^\W_])_++|_++(?![^\W_])"
"""What is gone on screen: those, the sign of a quoted line, emphasis."""
_ELEMENTS: Final = re.compile(_ELEMENT)
_LOOKS: Final = {
    "lead": (b"guidanceforthetaskinhand",),
    "note": (b"(deskmate:", b"(deskmatetoidthechat"),
    "tag": (b"<skiii", b"</skiii", b"<data", b"</data"),
}
"""Our marks in a text that is squeezed to folded letters."""
_BLANK: Final = r"[\s\u2800]*+"


def from_outside(text: str) -> str:
    """What a person, a page, a file or a tool said, without anything that could pass for a mark of ours."""
    seen = _marks_in(text)
    if "note" in seen:
        text = _rewritten(
            text, _NOTES, _vanishing(), lambda found, _: f"(quoted: deskmate{found[1] or ' told the chat'}"
        )
    if "lead" in seen:
        text = _without_lead(text)
    return _without_tags(text, _TAGS) if seen else text


def of_skill(text: str) -> str:
    """A trusted body as it stands in a message of its own: nothing changes but a line that imitates another's lead."""
    return _without_lead(text) if "lead" in _marks_in(text) else text


def enclosed(skill_id: str, text: str) -> str:
    """A trusted body as it stands in a result, between tags that nothing in it closes."""
    body = _without_tags(of_skill(text), ("skill",)) if _marks_in(text) else text
    return f'<skill name="{_attribute(skill_id)}">\n{body}\n</skill>'


def _attribute(text: str) -> str:
    plain = from_outside(text)
    return plain.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")


def _marks_in(text: str) -> set[str]:
    """Which marks a closer look may find. Nearly no text has any, and all of a conversation's are rendered for each request."""
    found = _resembled(text)
    return found | _resembled(_ELEMENTS.sub("", text)) if "<" in text or "[" in text or "&" in text else found


def _resembled(text: str) -> set[str]:
    """What is not ASCII counts for nothing, unless it looks like a letter of ours: so does what shows nothing."""
    squeezed = _squeezed(text)
    if not text.isascii() and (b"esk" in squeezed or _is_disguised(text)):
        squeezed = _squeezed(_undisguised(text))
    if b"forthetaskin" not in squeezed and b"esk" not in squeezed and b"<" not in squeezed:
        return set()
    plain = squeezed.replace(b"rn", b"m").replace(b"ci", b"d")
    return {name for name, looks in _LOOKS.items() if any(look in plain for look in looks)}


def _squeezed(text: str) -> bytes:
    return text.encode("ascii", "ignore").translate(_FOLDED, _DROPPED)


def _is_disguised(text: str) -> bool:
    """Whether a letter beyond ASCII looks like one of ours."""
    near, far = _disguises()
    return bool(near.search(text)) or (bool(_FAR.search(text)) and not far.isdisjoint(text))


@cache
def _disguises() -> tuple[re.Pattern[str], frozenset[str]]:
    """Those of Unicode's first plane, which are searched twenty times faster without the others; and the others.

    The quick look asks for no brackets, slashes and colons, which Chinese has in a width of its own.
    """
    asked = {one for one, shown in _twins().items() if shown not in "(/:"}
    far = frozenset(one for one in asked if one > "\uffff")
    return re.compile(f"[{''.join(map(re.escape, sorted(asked - far)))}]"), far


def _undisguised(text: str) -> str:
    """With letters of ASCII, one for one, for those beyond it that look like them."""
    twins = _twins()
    for one in twins.keys() & set(text):
        text = text.replace(one, twins[one])
    return text


@dataclass(frozen=True, slots=True)
class _Bare:
    """A text without its noise, and where each piece of it was."""

    text: str
    starts: list[int]
    """Of the pieces, in `text`."""
    origins: list[int]
    """And in the text that they were taken from."""

    @classmethod
    def of(cls, text: str, noise: re.Pattern[str]) -> _Bare:
        pieces, starts, origins = [], [], []
        end = size = 0
        for begin, after in chain((one.span() for one in noise.finditer(text)), [(len(text), len(text))]):
            if begin > end:
                pieces.append(text[end:begin])
                starts.append(size)
                origins.append(end)
                size += begin - end
            end = after
        return cls("".join(pieces), starts, origins)

    def origin(self, at: int) -> int:
        piece = bisect_right(self.starts, at) - 1
        return self.origins[piece] + at - self.starts[piece]


def _rewritten(
    text: str, mark: re.Pattern[str], noise: re.Pattern[str], written: Callable[[re.Match[str], str], str]
) -> str:
    """The text with all that reads as this mark, when noise is left out, written otherwise. `written` gets both forms."""
    bare = _Bare.of(text, noise)
    shown: list[str] = []
    end = 0
    for found in mark.finditer(_undisguised(bare.text).translate(_ASCII)):
        begin = bare.origin(found.start())
        before, end = text[end:begin], bare.origin(found.end() - 1) + 1
        shown += [before, written(found, text[begin:end])]
    return "".join([*shown, text[end:]])


def _without_lead(text: str) -> str:
    # What vanishes may stand for a blank, so there need be none; but something must.
    return _rewritten(text, _LEAD, _vanishing(), lambda _, was: was if was.isalpha() else _QUOTED)


def _without_tags(text: str, names: tuple[str, ...]) -> str:
    gone = re.compile(rf"[\s\u2800{_unseen()}]++")
    return _rewritten(text, _tag(names), _decoration(), lambda _, was: f"&lt;{gone.sub('', was[1:])}")


def _word(word: str) -> str:
    """A pattern for the word among folded letters, where two may look like one."""
    return word.translate(_ASCII).replace("m", "(?:m|rn)").replace("d", "(?:d|ci)")


_ASCII: Final = _FOLDED[:0x80].decode()
_LEAD: Final = re.compile(r"[\s\u2800_]*+".join(map(_word, GUIDANCE.split())))
_NOTES: Final = re.compile(rf"\({_BLANK}{_word(NOTE[1:])}{_BLANK}(?:(:)|{_BLANK.join(map(_word, 'toldthechat'))})")


@cache
def _tag(names: tuple[str, ...]) -> re.Pattern[str]:
    words = "|".join(map(_word, names))
    # A blank alone, as in `a < data`, makes no tag; nor does what goes on as a program does, in `i<data.length`.
    return re.compile(rf"<(?:{_BLANK}/{_BLANK})?(?:{words})(?![a-z0-9_-]|\.[a-z]|[\[(])")


@cache
def _vanishing() -> re.Pattern[str]:
    return re.compile(f"[{_unseen()}]++|{_VANISHING}", re.MULTILINE)


@cache
def _decoration() -> re.Pattern[str]:
    """What may stand within a tag."""
    return re.compile(rf"[{_unseen()}*`~\\]++")


@cache
def _unseen() -> str:
    """What shows nothing, and marks that only decorate the letter before: ranges, as a class of characters has them."""
    codes = {*range(0x09), *range(0x0E, 0x20), 0x7F}
    codes.update(code for first, end in _IGNORABLE for code in range(first, end))
    codes.update(code for code in range(0x80, 0x20000) if unicodedata.category(chr(code)) in {"Cf", "Mn", "Me"})
    ends = sorted(code for code in codes if code + 1 not in codes)
    begins = sorted(code for code in codes if code - 1 not in codes)
    return "".join(f"{chr(begin)}-{chr(end)}" for begin, end in zip(begins, ends, strict=True))


@cache
def _twins() -> dict[str, str]:
    """By each character beyond ASCII that looks like one of our marks: the folded letter that it looks like."""
    marks = {*"".join((GUIDANCE, NOTE, *_TAGS)).casefold().replace(" ", ""), *"</:"}
    shown_as = {ids.skeleton(one): one for one in marks}
    pairs: list[tuple[str, str]] = [(one, shown) for shown, more in _MORE_TWINS.items() for one in more]
    pairs += ((chr(first + number), chr(0x61 + number)) for first in _ALPHABETS for number in range(26))
    for character in chain(ids.impostors(), _styled()):
        shown = "".join(one for one in ids.skeleton(character) if not unicodedata.combining(one))
        pairs.append((character, shown_as.get(shown, "")))
    unseen = re.compile(f"[{_unseen()}]")
    return {
        one: shown.translate(_ASCII)
        for one, shown in reversed(pairs)
        if shown in marks and not one.isascii() and not unseen.match(one)
    }


def _styled() -> Iterator[str]:
    return (chr(code) for first, end in _WHERE_LETTERS_ARE_STYLED for code in range(first, end))
