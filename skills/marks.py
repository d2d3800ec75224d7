"""Marks: what tells the model whose text it reads, and how a text from elsewhere that imitates them is made harmless.

Guidance begins with a line of our own, data and bodies in results stand between tags. A person, a page, a file or another
skill's body may hold the same words, in letters that look alike or with characters between them that show nothing.
Where such a text is rendered, the imitation is written so that it can be read and is no mark any more.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
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
    (0x00C0, 0x0250), (0x1D00, 0x1E00), (0x1E00, 0x1F00), (0x2070, 0x2190), (0x2460, 0x2500), (0xFF00, 0xFFF0),
    (0x1D400, 0x1D800), (0x1F100, 0x1F200),
)  # fmt: skip
"""Blocks with letters that are others in disguise: with accents, raised, in circles, full-width, mathematical."""
_MORE_TWINS: Final = {
    "<": "\uff1c\u3008\u2329\u27e8\u276e\ufe64\u2039\u02c2", "/": "\uff0f\u2044\u2215\u29f8", "h": "\u041d\u0397",
    "t": "\u0422\u03a4", "n": "\u039d", "k": "\u041a\u039a", "l": "1I|\u2160", "i": "1l|\u2160", "o": "0", "s": "$5",
}  # fmt: skip
"""Alike only as capitals, or no letters at all: a table made for small letters of ids has none of them."""
_CONTROLS: Final = bytes({*range(0x09), *range(0x0E, 0x20), 0x7F})
_FOLDED: Final = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZl1|05$", b"abcdefghijkimnopqrstuvwxyziiioss")
"""One letter for all that look like it, within ASCII. `i` and `l` are one: each can be taken for `1` and `|`."""
_FAR: Final = re.compile("[\U00010000-\U0010ffff]")
_UNSEEN_NEAR: Final = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\u0300-\u036f\x00-\x08\x0e-\x1f\x7f"
)
_UNSEEN: Final = _UNSEEN_NEAR + "\U000e0000-\U000e01ef"
"""What shows nothing, and marks that only decorate the letter before."""
_BLANKS: Final = r"\s\u2800_*`~"
"""What may stand between words; Markdown's signs vanish on screen."""


def from_outside(text: str) -> str:
    """What a person, a page, a file or a tool said, without anything that could pass for a mark of ours."""
    if not _suspicious(text):
        return text
    noted = _note(plain=text.isascii()).sub(r"(quoted: deskmate\1", text)
    return _without_tags(_without_lead(noted), _TAGS)


def of_skill(text: str) -> str:
    """A trusted body as it stands in a message of its own: nothing changes but a line that imitates another's lead."""
    return _without_lead(text) if _suspicious(text) else text


def enclosed(skill_id: str, text: str) -> str:
    """A trusted body as it stands in a result, between tags that nothing in it closes."""
    return f'<skill name="{_attribute(skill_id)}">\n{_without_tags(_without_lead(text), ("skill",))}\n</skill>'


def _suspicious(text: str) -> bool:
    """Whether a closer look is worth it. Nearly no text is, and all of a conversation's are rendered for each request."""
    if not text.isascii() and _is_disguised(text):
        return True
    folded = text.encode("ascii", "ignore").translate(_FOLDED, _CONTROLS)
    if b"guidance" in folded or b"deskmate" in folded:
        return True
    return b"<" in folded and (b"skiii" in folded or b"data" in folded)


def _is_disguised(text: str) -> bool:
    """Whether a letter beyond ASCII looks like one of ours, or something shows nothing."""
    near, far = _disguises()
    return bool(near.search(text)) or (bool(_FAR.search(text)) and not far.isdisjoint(text))


@cache
def _disguises() -> tuple[re.Pattern[str], frozenset[str]]:
    """Those of Unicode's first plane, which are searched twenty times faster without the others; and the others."""
    twins = {one for letters in _twins().values() for one in letters if not one.isascii()} - {"\uff0f"}
    far = {one for one in twins if one > "\uffff"} | {chr(code) for code in range(0xE0000, 0xE01F0)}
    near = "".join(map(re.escape, sorted(twins - far))) + _UNSEEN_NEAR
    return re.compile(f"[{near}]"), frozenset(far)


def _attribute(text: str) -> str:
    plain = from_outside(text)
    return plain.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")


def _without_lead(text: str) -> str:
    return _lead(plain=text.isascii()).sub(_QUOTED, text)


def _without_tags(text: str, names: tuple[str, ...]) -> str:
    return _tag(names, plain=text.isascii()).sub(lambda found: f"&lt;{'/' if found[1] else ''}{found[2]}", text)


@cache
def _lead(*, plain: bool) -> re.Pattern[str]:
    return re.compile(f"[{_BLANKS}{_UNSEEN}]++".join(_alike(word, plain=plain) for word in GUIDANCE.split()))


@cache
def _note(*, plain: bool) -> re.Pattern[str]:
    gap = rf"[\s\u2800{_UNSEEN}]*+"
    told = "".join(_class(letter, plain=plain) + gap for letter in "toldthechat")
    name = _alike(NOTE.removeprefix("("), plain=plain)
    return re.compile(rf"[(\uff08\u2768\ufe59]{gap}{name}({gap}(?:[:\uff1a\ufe55\ua789\u2236]|{told}))")


@cache
def _tag(names: tuple[str, ...], *, plain: bool) -> re.Pattern[str]:
    gap = rf"[\s\u2800{_UNSEEN}]*+"  # a blank alone, as in `a < data`, makes no tag
    words = "|".join(_alike(name, plain=plain) for name in names)
    slash = f"(?:{gap}({_class('/', plain=plain)}){gap})?"
    return re.compile(f"{_class('<', plain=plain)}[{_UNSEEN}]*+{slash}({words})(?![a-zA-Z0-9_-])")


def _alike(word: str, *, plain: bool) -> str:
    """A pattern for all that reads as this word."""
    return f"[{_UNSEEN}]*+".join(_class(letter, plain=plain) for letter in word)


def _class(character: str, *, plain: bool) -> str:
    """`plain`: for text that is ASCII, which is searched several times faster with classes of ASCII."""
    letters = (one for one in sorted(_twins()[character.casefold()]) if one.isascii() or not plain)
    # Nothing that may stand between letters is one: so a gap is never given back, and a search takes one way only.
    return f"[{''.join(map(re.escape, letters))}]"


@cache
def _twins() -> dict[str, set[str]]:
    """By each character of our marks: all that look like it."""
    twins = {
        one: {one, one.upper()} for one in {*"".join((GUIDANCE, NOTE, *_TAGS)).casefold().replace(" ", ""), "<", "/"}
    }
    for character in chain(ids.impostors(), _styled()):
        shown = "".join(one for one in ids.skeleton(character) if not unicodedata.combining(one))
        if shown in twins:
            twins[shown].add(character)
    for one, more in _MORE_TWINS.items():
        twins[one].update(more)
    unseen = re.compile(f"[{_UNSEEN}]")
    return {one: {letter for letter in letters if not unseen.fullmatch(letter)} for one, letters in twins.items()}


def _styled() -> Iterator[str]:
    return (chr(code) for first, end in _WHERE_LETTERS_ARE_STYLED for code in range(first, end))
