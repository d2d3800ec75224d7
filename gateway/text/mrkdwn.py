"""Slack's text, both ways: what people wrote there as plain text, and our Markdown in Slack's own dialect.

Slack escapes three characters (`& < >`) and nothing else, and puts links and mentions into angle brackets. As every
bracket of ours is escaped on the way out, only a link that this module makes can be live: no text of a model or a page
can mention anybody. Source: "Formatting message text" in Slack's developer documentation.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from gateway.text.dialect import ZERO_WIDTH, aligned, cells, hides
from gateway.text.markdown import DELIMITER_ROW, FENCE, words_of

# in

_INCOMING: Final = re.compile(r"<([^<>\n]*)>|&(amp|lt|gt);")
_ENTITIES: Final = {"amp": "&", "lt": "<", "gt": ">"}
_FIRST_MENTION: Final = re.compile(r"\s*<@([^<>|]*)(?:\|[^<>]*)?>[\s:,;，：；、–—]*")
_LAST_MENTION: Final = re.compile(r"<@([^<>|]*)(?:\|[^<>]*)?>[\s.!?。！？]*")


def read(text: str, own: Collection[str] = (), names: Mapping[str, str] | None = None) -> str:
    """Incoming text as a person reads it; a mention of one of `own` ids is left out at the beginning and the end.

    Entities are decoded exactly once. `names` are display names by user id, for mentions that bring none.
    """
    text = _without_own(text.replace("\x00", ""), own)
    if "<" not in text and "&" not in text:
        return text.strip()
    known = names or {}

    def shown(match: re.Match[str]) -> str:
        if entity := match[2]:
            return _ENTITIES[entity]
        return _token(match[1], known)

    return _INCOMING.sub(shown, text).strip()


def mentions(text: str, ids: Collection[str]) -> bool:
    """Whether the incoming text mentions one of the users."""
    return any(f"<@{one}>" in text or f"<@{one}|" in text for one in ids)


def _without_own(text: str, own: Collection[str]) -> str:
    if not own or "<@" not in text:
        return text
    while (first := _FIRST_MENTION.match(text)) and first[1] in own:
        text = text[first.end() :]
    while (at := text.rfind("<@")) >= 0 and (last := _LAST_MENTION.fullmatch(text, at)) and last[1] in own:
        text = text[:at]
    return text


def _token(inner: str, names: Mapping[str, str]) -> str:
    target, _, label = inner.partition("|")
    label = _decoded(label)
    kind, name = target[:1], _decoded(target[1:])
    if kind == "@":
        return f"@{label or names.get(name) or name}"
    if kind == "#":
        return f"#{label or name}"
    if kind == "!":
        command = name.partition("^")[0]
        return label if label and command not in {"here", "channel", "everyone"} else f"@{command}"
    url = _decoded(target)
    bare = url.removeprefix("mailto:").removeprefix("tel:")
    if not label or label in {url, bare} or url.partition("://")[2].rstrip("/") == label.rstrip("/"):
        return bare
    return f"{label} ({url})"


def _decoded(text: str) -> str:
    return _INCOMING.sub(lambda match: _ENTITIES[match[2]] if match[2] else match[0], text)


# out

_BROADCAST: Final = re.compile(r"(?<![\w.])@(?=(?:channel|here|everyone|group)\b)", re.IGNORECASE)
_HEADING: Final = re.compile(r" {0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*")
_RULE: Final = re.compile(r" {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})")
_BULLET: Final = re.compile(r"([ \t]*)[-*+][ \t]+(\[[ xX]\][ \t]+)?(.*)")
_QUOTE: Final = re.compile(r"( {0,3}(?:>[ \t]?)+)(.*)")
_URL: Final = r"(?:https?://|mailto:)"
_INLINE: Final = re.compile(
    r"(?P<escape>\\[!-/:-@\[-`{-~])"
    r"|(?P<tick>`+)(?P<code>[^`](?:.{0,2000}?[^`])?)(?P=tick)(?!`)"
    r"|!?\[(?P<label>(?:[^\[\]\\]|\\.|\[[^\[\]]{0,200}\]){0,500})\]"
    r"\(<?(?P<url>(?:[^\s()<>]|\([^\s()<>]{0,500}\)){1,2000})>?(?:\s+[\"'][^\"'\n]{0,200}[\"'])?\)"
    rf"|<(?P<auto>{_URL}[^\s<>|]{{1,2000}})>"
    rf"|(?P<bare>{_URL}[!-;=?-{{}}~]{{1,2000}})"
    r"|(?P<both>\*\*\*(?=\S)(?:.{0,999}?[^\s*])\*\*\*)"
    r"|(?P<bold>\*\*(?=\S)(?:.{0,999}?[^\s\\])\*\*(?!\*)|(?<!\w)__(?=\S)(?:.{0,999}?[^\s\\])__(?!\w))"
    r"|(?P<italic>(?<!\*)\*(?=[^\s*])(?:[^*]|\*\*[^*]{1,300}\*\*){0,999}?(?<=[^\s\\])\*(?!\*)|(?<!\w)_(?=[^\s_])(?:[^_]{0,999}?[^\s_\\])_(?!\w))"
    r"|(?P<strike>~~(?=\S)(?:.{0,999}?[^\s~\\])~~)"
)
_DEPTH_MAX: Final = 4
"""Emphasis inside emphasis; deeper marks are shown as they are."""


def escape(text: str) -> str:
    """Text that Slack shows exactly so: nothing in it is markup of a link or a mention, and nobody is called."""
    return _BROADCAST.sub(f"@{ZERO_WIDTH}", _entities(text))


def _entities(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def write(markdown: str) -> str:
    """CommonMark, with tables, as Slack's mrkdwn. Code stays code, an open code block is closed."""
    out: list[str] = []
    lines = markdown.split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        fence = FENCE.fullmatch(line)
        if fence and not (fence[1][0] == "`" and "`" in fence[2]):
            at, code = _fenced(lines, at + 1, fence[1])
            code = [words, *code] if (words := words_of(fence[2])) else code
            out += ["```", *(escape(one).replace("```", f"``{ZERO_WIDTH}`") for one in code), "```"]
        elif "|" in line and at + 1 < len(lines) and "|" in lines[at + 1] and DELIMITER_ROW.fullmatch(lines[at + 1]):
            at, rows = _table(lines, at)
            out += ["```", *(escape(row) for row in rows), "```"]
        else:
            out.append(_line(line))
            at += 1
    return "\n".join(out)


def _fenced(lines: list[str], at: int, mark: str) -> tuple[int, list[str]]:
    """The lines of a code block from `at`, and where the text goes on."""
    for end in range(at, len(lines)):
        closing = FENCE.fullmatch(lines[end])
        if closing and closing[1].startswith(mark) and not closing[2].strip():
            return end + 1, lines[at:end]
    return len(lines), lines[at:]


def _line(line: str) -> str:
    if _RULE.fullmatch(line):
        return "———"
    if heading := _HEADING.fullmatch(line):
        title = "".join(_inline(heading[1].replace("**", "").replace("__", ""))).strip()
        return f"*{title}*" if title else ""
    if bullet := _BULLET.fullmatch(line):
        box = {"": "", " ": "☐ "}.get((bullet[2] or "")[1:2], "☑ ")
        return f"{bullet[1]}{'◦' if len(bullet[1].expandtabs(4)) > 1 else '•'} {box}{''.join(_inline(bullet[3]))}"
    if quote := _QUOTE.fullmatch(line):
        return f"&gt; {''.join(_inline(quote[2]))}"
    return "".join(_inline(line))


def _inline(text: str, depth: int = 0) -> Iterator[str]:
    """One line's pieces. Marks touching a letter get a zero-width space, as Slack takes marks only at word borders."""
    at = 0
    for match in _INLINE.finditer(text):
        yield escape(text[at : match.start()])
        at = match.end()
        kind = match.lastgroup
        if kind == "escape":
            yield escape(match[0][1:])
        elif match["url"]:
            yield _link(match["url"], re.sub(r"\\(.)", r"\1", match["label"] or ""))
        elif url := match["auto"] or match["bare"]:
            # Slack finds a bare address itself, but takes what follows without a space for a part of it.
            found = match["bare"] and text[at : at + 1].isascii()
            yield _entities(url) if found else f"<{_entities(url)}>"
        elif match["code"]:
            yield from _marked(text, match, "`", escape(match["code"]))
        elif depth < _DEPTH_MAX:
            size, left, right = {"both": (3, "*_", "_*"), "strike": (2, "~", "~"), "italic": (1, "_", "_")}.get(
                kind or "", (2, "*", "*")
            )
            yield from _marked(text, match, left, "".join(_inline(match[0][size:-size], depth + 1)), right)
        else:
            yield escape(match[0])
    yield escape(text[at:])


def _marked(text: str, match: re.Match[str], left: str, inner: str, right: str | None = None) -> Iterator[str]:
    if _needs_border(text[match.start() - 1 : match.start()] if match.start() else ""):
        yield ZERO_WIDTH
    yield f"{left}{inner}{right or left}"
    if _needs_border(text[match.end() : match.end() + 1]):
        yield ZERO_WIDTH


def _needs_border(neighbour: str) -> bool:
    return bool(neighbour) and not neighbour.isspace() and (neighbour.isalnum() or not neighbour.isascii())


def _link(url: str, label: str) -> str:
    """A link, or its label and address beside each other where the label pretends to be another address."""
    label = label.strip()
    if not re.match(_URL, url, re.IGNORECASE):
        return escape(f"{label} ({url})" if label else url)
    if hides(url, label):
        return escape(f"{label} ({url})")
    plain = re.sub(r"[*_`~|]", "", label)
    target = _entities(url).replace("|", "%7C")
    return f"<{target}|{escape(plain)}>" if plain and plain != url else f"<{target}>"


# tables


def _table(lines: list[str], at: int) -> tuple[int, list[str]]:
    """The table that begins at a line, as rows aligned for a monospaced font, and where the text goes on."""
    end = at + 2
    while end < len(lines) and "|" in lines[end]:
        end += 1
    rows = [[_plain(cell) for cell in cells(line)] for line in (lines[at], *lines[at + 2 : end])]
    columns = max(map(len, rows))
    return end, aligned([row + [""] * (columns - len(row)) for row in rows]).split("\n")


def _plain(cell: str) -> str:
    """A cell's text without its marks: inside a code block they would be shown."""
    cell = re.sub(r"!?\[([^\[\]]*)\]\(([^()\s]*)\)", r"\1 (\2)", cell.replace("\\|", "|"))
    cell = re.sub(r"(`+)(.+?)\1", r"\2", cell)
    cell = re.sub(r"(\*\*|__|~~)(?=\S)(.+?)(?<=\S)\1", r"\2", cell)
    return cell.replace("```", f"``{ZERO_WIDTH}`")
