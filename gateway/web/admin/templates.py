"""Templates of the admin pages, under `gateway/web/pages/admin`. What stands in them is escaped, whatever it is.

Words come from the catalogue: `{{ say("admin.title.overview") }}`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from functools import cache, partial
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

import gateway.web
from config.settings import Language
from gateway.acts.letter_answers import reason_in_words
from gateway.phrases import say
from skills.visible import exact

if TYPE_CHECKING:
    from jinja2 import Environment


def filled(name: str, language: Language, **values: Any) -> str:
    def spoken(key: str, /, **given: object) -> str:
        return say(key, language, **given)

    tag = "zh-Hans" if language == "zh" else "en"

    def reason(text: str) -> str:
        return reason_in_words(text, language)

    words = {"say": spoken, "span": partial(span, language), "reason_in_words": reason, "language_tag": tag}
    return _templates().get_template(name).render(words, **values)


_ROW: Final = re.compile(r"<tr\b.*?</tr>", re.DOTALL)
_CELL: Final = re.compile(r"<t[dh](?=[\s>])")
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))


@cache
def _templates() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415  # with the first page: 20 MB

    folder = resources.files(gateway.web) / "pages" / "admin"
    made = Environment(
        loader=FileSystemLoader(str(folder)),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"labelled": labelled, "at": at, "iso": iso, "number": number, "money": money, "exact": exact}
    return made


def labelled(rows: str, names: Sequence[str]) -> str:
    """Rows of a table, each cell with the name of its column: where a row is shown as a card, that stands beside it.

    `rows` come from our templates, so that whatever looks like a tag in them is one.
    """
    from markupsafe import Markup, escape  # noqa: PLC0415  # comes with the templates

    def row(found: re.Match[str]) -> str:
        left = iter(names)
        return _CELL.sub(lambda cell: f'{cell[0]} data-label="{escape(next(left, ""))}"', found[0])

    return Markup(_ROW.sub(row, rows))  # noqa: S704  # nothing was added that is not escaped


def at(ms: int) -> str:
    """A time for people, by this machine's clock and zone."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(ms / 1_000)) if ms else "–"


def iso(ms: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ms / 1_000))


def number(value: float) -> str:
    """`12,345`, `1.5`."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"


def money(amount: float) -> str:
    """`12.3400`, as the chat and the command line tell it: most turns cost less than a hundredth."""
    return f"{amount:,.4f}"


def span(language: Language, seconds: float) -> str:
    """`42 s`, `3 min`, `5 h`, `2 d`."""
    size, unit = next((one for one in _UNITS if seconds >= 2 * one[0]), (1, "s"))
    return say(f"admin.span.{unit}", language, number=round(seconds / size))
