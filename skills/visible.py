"""Text with nothing hidden in it: what shows nothing, turns the direction, or looks like something else is named.

For whoever has to decide on the exact characters of a skill. Nothing is left out: a name in `<...>` stands where the
character is, and a letter that can be taken for a Latin one keeps its place before its name.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from config.addresses import SHOWS_NOTHING
from skills import ids

_WORD: Final = re.compile("[^\\W\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]+")
"""Chinese and Japanese have no blanks: a word of another script ends at them."""
_JOINERS: Final = "\u200c\u200d"
_STYLES: Final = "\ufe0e\ufe0f"
"""Choose between text and emoji form of the character before."""
_BIDI: Final = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_TAGS: Final = re.compile("[\U000e0000-\U000e007f]")
_PASSED_OVER: Final = re.compile(r"^ +| +$|(?<= ) +|[^\S ]")


@dataclass(frozen=True, slots=True)
class Hidden:
    """A character that is not what it seems."""

    offset: int
    character: str
    kind: str
    """`invisible`, `bidirectional`, `tag` (letters that nobody sees), `control` or `look_alike`."""

    @property
    def name(self) -> str:
        return f"U+{ord(self.character):04X}"


def visible(text: str) -> str:
    """The text with its hidden characters named: `pay<U+200B>load`, `p\u0430<U+0430>y`."""
    shown: list[str] = []
    end = 0
    for one in hidden(text):
        keeps = one.kind == "look_alike"
        shown += [text[end : one.offset], one.character if keeps else "", f"<{one.name}>"]
        end = one.offset + 1
    return "".join([*shown, text[end:]])


def one_line(text: str) -> str:
    """In one line, with nothing hidden: it can't begin a second one, nor hide in one."""
    return " ".join(visible(text).split())


def exact(id_: str) -> str:
    """As `one_line`, of an id or a name that has to be told from another: each blank is named that an eye passes over."""
    return one_line(_PASSED_OVER.sub(lambda found: "".join(f"<U+{ord(one):04X}>" for one in found[0]), id_))


def hidden(text: str) -> Iterator[Hidden]:
    """All of them, in order. Line ends and tabs are none, nor are joiners where a script or an emoji needs them."""
    if text.isascii() and (text.isprintable() or not re.search(r"[^\t\n\r\x20-\x7e]", text)):
        return
    alike = _look_alikes(text)
    for offset, character in enumerate(text):
        kind = "look_alike" if offset in alike else _kind(text, offset)
        if kind:
            yield Hidden(offset, character, kind)


def _kind(text: str, offset: int) -> str:
    character = text[offset]
    if " " <= character <= "~" or character in "\t\n\r":
        return ""
    category = unicodedata.category(character)
    if character in _JOINERS or character in _STYLES:
        return "" if _joins(text, offset) else "invisible"
    if _TAGS.match(character):
        return "tag"
    if _BIDI.match(character):
        return "bidirectional"
    if category == "Cc":
        return "control"
    invisible = category in {"Cf", "Zl", "Zp", "Cs", "Co", "Cn"} or SHOWS_NOTHING.match(character)
    return "invisible" if invisible else ""


def _joins(text: str, offset: int) -> bool:
    """Whether a joiner or style has something to do where it stands: after an emoji, or between letters of its scripts."""
    before = text[offset - 1] if offset else ""
    after = text[offset + 1 : offset + 2]
    if text[offset] in _STYLES:
        return bool(before) and (unicodedata.category(before) in {"So", "Sm", "Sk"} or before in "0123456789#*©®‼⁉")
    pictures = before and (unicodedata.category(before) in {"So", "Sk"} or before in _STYLES)
    if text[offset] == "\u200d" and pictures:
        return bool(after) and unicodedata.category(after) in {"So", "Sm"}
    return _takes_joiners(before) and _takes_joiners(after)


def _takes_joiners(character: str) -> bool:
    """Letters and marks of Arabic, and of the scripts of India and their neighbours."""
    return "\u0600" <= character <= "\u08ff" or "\u0900" <= character <= "\u0dff" or "\u1000" <= character <= "\u109f"


def _look_alikes(text: str) -> set[int]:
    """Letters of another script that pass for Latin ones within a word that has Latin ones, too."""
    if text.isascii():
        return set()
    found: set[int] = set()
    for word in _WORD.finditer(text):
        if word[0].isascii() or not re.search("[A-Za-z]", word[0]):
            continue
        for at, character in enumerate(word[0], word.start()):
            if not character.isascii() and _passes_for_latin(character):
                found.add(at)
    return found


def _passes_for_latin(character: str) -> bool:
    name = unicodedata.name(character, "")
    if name.startswith(("LATIN", "CJK", "HIRAGANA", "KATAKANA", "HANGUL", "FULLWIDTH")):
        return False
    return ids.looks_like(character.casefold()).isascii()
