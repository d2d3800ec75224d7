"""Words of a text, told apart and brought to one form: what two texts have in common can be seen."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import Final

_NO_BLANKS: Final = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
"""Chinese and Japanese, which have no blanks between words, and Korean, whose words carry others at their end."""
_RUN: Final = re.compile(rf"[{_NO_BLANKS}]+|[^\W_{_NO_BLANKS}]+")
_EVERYDAY: Final = frozenset(
    re.findall(
        r"\S+",
        "a about after again all also an and any are as at be because been before being between both but by can could do "
        "does doing done down each either else ever every few for from further get give go got had has have he help helper "
        "her here him his how i if in into is it its just let like many may me more most much must my need new no "
        "not now of off on once one only or other our out over own per please put same say see she should so some "
        "somebody someone something such take than that the their them then there these they thing this those through "
        "to too tool two under until up upon us use user using via very want was way we well were what when where whether "
        "which while who whom whose why will with within without would you your skill assistant agent task work thing "
        "based given day good long short part able across name ask first run work want current multi call ensure "
        "clear file type include including support provide request tell show keep set",
    )
)
_WHOLE: Final = frozenset({"news", "sales", "process", "address", "series", "meeting", "training", "building"})
"""Would become another word by losing their ending."""


def folded(text: str) -> str:
    """What is compared: case and width of letters make no difference."""
    return (text if text.isascii() else unicodedata.normalize("NFKC", text)).casefold()


def runs(text: str) -> list[str]:
    """Words, folded, and stretches of a script without blanks, in order."""
    return _RUN.findall(folded(text))


def has_no_blanks(run: str) -> bool:
    """Whether a run is a stretch of several words rather than one."""
    return re.match(f"[{_NO_BLANKS}]", run) is not None


def stem(word: str) -> str:
    """Without the endings of plurals, tenses and doers, as far as that needs no dictionary."""
    if word in _WHOLE:
        return word
    if len(word) > 4 and word.endswith("ies"):
        word = word[:-3] + "y"
    elif len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-2] if word.endswith(("ches", "shes", "sses", "xes")) else word[:-1]
    for ending in ("ing", "ed", "er"):
        if len(word) > len(ending) + 3 and word.endswith(ending):
            word = word.removesuffix(ending)
            if word[-1] == word[-2] and word[-1] not in "ls":
                word = word[:-1]
            break
    return word.removesuffix("e") if len(word) > 3 else word


@cache
def everyday() -> frozenset[str]:
    """Stems of words that stand in any text."""
    return frozenset(stem(word) for word in _EVERYDAY)
