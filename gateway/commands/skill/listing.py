"""The list of skills in a chat: in code blocks, each of which one message holds."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from html import escape
from typing import Final

from gateway.acts.skill_table import HEADINGS, behind, count, everything, lay_out, row
from gateway.phrases import say
from gateway.platforms import Capabilities
from gateway.rights.access import Here
from gateway.text.markdown import MEASURES, Measure
from gateway.text.quoting import fenced, quoted
from skills import ids

ROWS_MAX: Final = 300
"""More would be a flood of messages."""


def told(
    here: Here, language: str, chat: Capabilities, word: str = "", *, unlisted: bool, harmful: Collection[str] = ()
) -> str:
    """Markdown. `unlisted`: with skills that the channel's profile does not list. `word`: only ids that hold it.
    `harmful`: as for `row`.
    """
    every = everything(here, unlisted=unlisted)
    fits = ids.fitting([f"*{word}*"]).fullmatch
    found = [one for one in every if fits(ids.key(one.id))]
    rows = [row(here, one, language, harmful) for one in found[:ROWS_MAX]]
    headings = ("", *(say(f"skill.list.{name}", language) for name in HEADINGS[1:]))
    pieces = lay_out(rows, chat.columns, headings) if rows else []
    is_table = bool(pieces) and len(pieces) > len(rows)
    room = chat.text_limit * 9 // 10
    measure = MEASURES[chat.limit_unit]  # of the text as some platforms have to write it
    head, others = (pieces[0], pieces[1:]) if is_table else ("", pieces)
    blocks = [fenced(block) for block in _blocks(head, others, room, lambda text: measure(escape(text)))]
    counted = count(here, unlisted=unlisted).told(language)
    last = [say("skill.list.count", language, count=counted, room=f"`{here.room}`")]
    if word and not found:
        last.insert(0, say("skill.list.no_such", language, word=quoted(word)))
    if len(rows) < len(found):
        last.append(say("skill.list.cut", language, count=len(found) - len(rows)))
    shown = {one.id for one in rows}
    last += behind([one for one in here.library.shadowed if one.by.id in shown], language)
    if not unlisted and (rest := sum(not here.fits(key) for key in here.library.skills)):
        last.append(say("skill.list.unlisted", language, count=rest))
    return "\n\n".join([*blocks, "\n".join(f"- {line}" for line in last)])


def _blocks(head: str, pieces: Sequence[str], room: int, measure: Measure) -> Iterator[str]:
    """As many pieces a block as have room, below the head."""
    gap = "\n" if head else "\n\n"
    block = head
    for piece in pieces:
        longer = f"{block}{gap}{piece}" if block else piece
        if block not in {"", head} and measure(longer) > room:
            yield block
            longer = f"{head}{gap}{piece}" if head else piece
        block = longer
    if block:
        yield block
