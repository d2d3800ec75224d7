"""Markdown as a model writes it, read once, and written as a platform shows it.

What is read is CommonMark with tables and strikethrough. Unlike there, HTML, entities (`&lt;`) and reference links are
text and stay as they were typed, a line of `---` is always a rule, bold may touch Chinese, Japanese or Korean, and a
bare address is a link.

A platform fills in a `Dialect`; what it leaves out is plain text:

    TELEGRAM = Dialect(
        escape=html.escape,
        bold="<b>{}</b>".format,
        italic="<i>{}</i>".format,
        code=lambda code: f"<code>{html.escape(code)}</code>",
        block=lambda code, language: f"<pre>{html.escape(code)}</pre>",
        link=lambda label, url: f'<a href="{html.escape(url)}">{label or html.escape(url)}</a>',
        quote="<blockquote>{}</blockquote>".format,
    )
    write("**5 < 6**", TELEGRAM)  # <b>5 &lt; 6</b>

Where a platform takes text and entities apart, `rich` gives both. Parts of either form, each within a limit:

    fitting(markdown, 4_096, utf16, lambda part: write(part, TELEGRAM), utf16)
    fitting(markdown, 4_096, utf16, rich, lambda made: utf16(made.text))
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from types import SimpleNamespace
from typing import Final, Literal, get_args
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.helpers import parseLinkDestination, parseLinkTitle
from markdown_it.rules_inline import StateInline, emphasis, strikethrough
from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode

from gateway.text.columns import padded, widths
from gateway.text.markdown import utf16, words_of
from gateway.text.spans import ADDRESS, flanks, spans, without_tail


def _same(text: str) -> str:
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How a platform writes. What a function is given is written in the dialect already, but for what says *raw*.

    Bold is never inside bold or a heading, and so with the other marks: no link in a link, no quote in a quote.
    """

    escape: Callable[[str], str] = _same
    """Raw text, a part of a line or of several, so that it is shown exactly so and calls nobody."""
    bold: Callable[[str], str] = _same
    italic: Callable[[str], str] = _same
    strike: Callable[[str], str] = _same
    code: Callable[[str], str] = _same
    """Raw code within a line."""
    block: Callable[[str, str], str] = lambda code, _: code
    """A block of raw code without its last newline, and its language: `c++`, or "" where none is known."""
    link: Callable[[str, str], str] = lambda label, url: f"{label} ({url})" if label else url
    """A label, and a raw address of http, https or mailto, percent-encoded: printable ASCII without blanks, quotes
    (but for '), angle brackets, backticks, backslashes and |. Where the label is "" the address itself is shown."""
    heading: Callable[[str, int], str] | None = None
    """A title and its level from 1; else it is bold."""
    marker: Callable[[int | None, int], str] = lambda number, depth: (
        f"{number}. " if number is not None else ("• " if depth == 1 else "◦ ")
    )
    """What begins a list's item: its number, None for a bullet, and how deep the list is, from 1."""
    indent: str = "  "
    """Begins the lines of an item but the first, once for each list around. Code is not indented."""
    quote: Callable[[str], str] = _same
    """All lines of a quote, code among them."""
    rule: str = "———"
    newline: str = "\n"
    """Between lines of one paragraph."""
    table: Callable[[Sequence[Sequence[str]]], str] | None = None
    """Rows of as many cells each, the head first; else a block of code in which they are aligned."""
    seam: Callable[[str, str], str] = lambda _outer, _inner: ""
    """What stands before or behind bold, italic and strike: given the character outside ("" at the line's end) and
    the one inside. For platforms that take marks at the borders of words only."""


PLAIN: Final = Dialect()
"""Text without marks."""

ZERO_WIDTH: Final = "\u200b"
"""Keeps apart what would be read together as a mark or a name, and is not seen."""

_TICKS: Final = re.compile("`+")
_PIPE: Final = re.compile(r"(?<!\\)\|")
_MARKS: Final = re.compile(r"[\\*_~`<\[\]]|&(?=#?\w+;)|^[ \t]*(?:[#>+=|:-]|[0-9]+[.)](?=\s|$))", re.MULTILINE)


def _escaped(text: str) -> str:
    """With a backslash before each sign that could be a mark, and before the last one of what begins a line as one."""
    return _MARKS.sub(lambda mark: f"{mark[0][:-1]}\\{mark[0][-1]}", text)


def ticks(code: str, least: int = 1) -> str:
    """The fence for code: more backticks than it has in a row."""
    return "`" * max(least, 1 + max(map(len, _TICKS.findall(code)), default=0))


def ticked(code: str) -> str:
    """Code within a line, between backticks."""
    fence, blank = ticks(code), " " if code.startswith("`") or code.endswith("`") else ""
    return f"{fence}{blank}{code}{blank}{fence}"


def fenced(code: str, language: str) -> str:
    fence = ticks(code, 3)
    return f"{fence}{language}\n{code}\n{fence}"


def linked(label: str, url: str) -> str:
    return f"[{label or _escaped(url)}]({url.replace('(', '%28').replace(')', '%29')})"


def _row(row: Iterable[str]) -> str:
    return "| " + " | ".join(_PIPE.sub(r"\|", cell) for cell in row) + " |"


MARKDOWN: Final = Dialect(
    escape=_escaped,
    bold="**{}**".format,
    italic="*{}*".format,
    strike="~~{}~~".format,
    code=ticked,
    block=fenced,
    link=linked,
    heading=lambda title, level: f"{'#' * level} {title}",
    marker=lambda number, _: "- " if number is None else f"{number}. ",
    indent="    ",
    quote=lambda text: "> " + text.replace("\n", "\n> "),
    rule="---",
    table=lambda rows: "\n".join([_row(rows[0]), _row("---" for _ in rows[0]), *map(_row, rows[1:])]),
)
"""For a platform that reads Markdown itself. What it does otherwise is said with `dataclasses.replace`."""


def write(markdown: str, dialect: Dialect) -> str:
    """The Markdown in the dialect. All text that can be seen in it is there; empty where there is none."""
    written = _written(markdown, dialect, list)
    return dialect.escape(markdown.replace("\0", "\ufffd")) if written is None else written


def written_anew(markdown: str, mend: Mend) -> str:
    """The same Markdown in its plainest spelling, which all who read Markdown read alike: a mark is a mark of ours or
    escaped. What is in its lines goes through `mend`.
    """
    written = _written(markdown, MARKDOWN, mend)
    return fenced(markdown, "") if written is None else written


Mend = Callable[[list[Token]], list[Token]]
"""What is in a line, or a paragraph's lines: `text`, `softbreak`, `code_inline`, `image`, and what opens and closes."""


def _written(markdown: str, dialect: Dialect, mend: Mend) -> str | None:
    tokens = _READER.parse(markdown, _env(markdown))
    if any(token.level >= _NESTING_MAX - 1 for one in tokens for token in chain([one], one.children or [])):
        return None  # the library drops what is deeper
    for token in tokens:
        token.children = mend(token.children) if token.children else token.children
    return _Writer(dialect, markdown, mend).blocks(SyntaxTreeNode(tokens).children, _Place()).strip("\n")


# text and entities

EntityKind = Literal["bold", "italic", "strike", "code", "block", "link", "quote"]


@dataclass(frozen=True, slots=True)
class Entity:
    """A stretch of a text that is shown in its own way."""

    kind: EntityKind
    offset: int
    """In UTF-16 code units, as `length`."""
    length: int
    note: str = ""
    """A link's address, a block's language."""


@dataclass(frozen=True, slots=True)
class Rich:
    """Plain text and its entities: ordered by offset, each within or outside of each other one.

    Code has nothing inside, and only a quote around it, as Telegram asks.
    """

    text: str
    entities: tuple[Entity, ...] = ()


_MARK: Final = re.compile("\0([<>])([a-z]*)(?: ([^\0]*))?\0")


def rich(markdown: str) -> Rich:
    """The Markdown as text and entities: with these nothing is escaped, and nothing can fail to be parsed.

    The text is empty where nothing in it can be seen.
    """
    made = _unmarked(write(markdown, _MARKED))
    return made if made.text.strip() else Rich("")


def _marked(kind: EntityKind, text: str, note: str = "") -> str:
    """Text between marks that no text can hold: whoever reads Markdown replaces the NUL."""
    return f"\0<{kind} {note}\0{text}\0>{kind}\0"


_MARKED: Final = Dialect(
    bold=lambda text: _marked("bold", text),
    italic=lambda text: _marked("italic", text),
    strike=lambda text: _marked("strike", text),
    code=lambda code: _marked("code", code),
    block=lambda code, language: _marked("block", code, language),
    link=lambda label, url: _marked("link", label or url, url),
    quote=lambda text: _marked("quote", text),
)


def _unmarked(marked: str) -> Rich:
    parts: list[str] = []
    found: list[Entity] = []
    begun: list[int] = []
    at = offset = 0
    for mark in _MARK.finditer(marked):
        parts.append(marked[at : mark.start()])
        offset += utf16(parts[-1])
        at = mark.end()
        if mark[1] == "<":
            begun.append(len(found))
            found.append(Entity(_KINDS[mark[2]], offset, 0, mark[3]))
        else:
            which = begun.pop()
            found[which] = replace(found[which], length=offset - found[which].offset)
    return Rich("".join([*parts, marked[at:]]), tuple(_tidy(found)))


_KINDS: Final[dict[str, EntityKind]] = {kind: kind for kind in get_args(EntityKind)}


def _tidy(entities: Sequence[Entity]) -> list[Entity]:
    """Without the empty ones and code in links; bold, italic and strike end before code and go on behind it."""
    links = [one for one in entities if one.kind == "link"]
    kept = [one for one in entities if not (one.kind == "code" and any(_holds(link, one) for link in links))]
    codes = [one for one in kept if one.kind in {"code", "block"}]
    tidy: list[Entity] = []
    for entity in kept:
        rest = entity
        if entity.kind in {"bold", "italic", "strike"}:
            for code in codes:
                if _holds(rest, code):
                    tidy.append(replace(rest, length=code.offset - rest.offset))
                    end = code.offset + code.length
                    rest = replace(rest, offset=end, length=rest.offset + rest.length - end)
        tidy.append(rest)
    return sorted((one for one in tidy if one.length), key=lambda one: one.offset)


def _holds(outer: Entity, inner: Entity) -> bool:
    return outer.offset <= inner.offset and inner.offset + inner.length <= outer.offset + outer.length


# reading


def _beside_cjk(rule: Callable[[StateInline, bool], bool]) -> Callable[[StateInline, bool], bool]:
    """The rule for marks, but what opens and what closes is decided by `flanks`."""

    def decided(state: StateInline, silent: bool) -> bool:
        start, known = state.pos, len(state.delimiters)
        if not rule(state, silent):
            return False
        left = state.src[start - 1] if start else ""
        opens, closes = flanks(state.src[start], left, state.src[state.pos : state.pos + 1])
        for delimiter in state.delimiters[known:]:
            delimiter.open, delimiter.close = opens, closes
        return True

    return decided


def _bare_address(state: StateInline, silent: bool) -> bool:
    """A rule, met at a colon: an address in the text. Marks of emphasis can be in it."""
    if state.src[state.pos] != ":":
        return False
    scheme = next((one for one in ("https", "http") if state.pending[-5:].lower().endswith(one)), "")
    start = state.pos - len(scheme)
    found = ADDRESS.match(state.src, start, state.posMax) if scheme else None
    if not found:
        return False
    url = without_tail(found[0])
    if not silent:
        state.pending = state.pending[: -len(scheme)]
        state.push("link_open", "a", 1).attrs = {"href": url}
        state.push("text", "", 0).content = url
        state.push("link_close", "a", -1)
    state.pos = start + len(url)
    return True


_NESTING_MAX: Final = 60
"""Blocks and marks inside each other. What goes deeper is no text of a person or a model, and is shown as it stands."""


_STEP: Final = "steps left"
_STEPS_EACH: Final = 8
_STEPS_LEAST: Final = 200


def _env(markdown: str) -> dict[str, int]:
    """For one reading: how many steps all its brackets together may take to find their ends.

    Of a text each bracket looks at all the rest, and again at what it has found there. A text of a person or a model takes
    fewer steps than it has characters; where none are left, brackets are text.
    """
    return {_STEP: _STEPS_LEAST + _STEPS_EACH * len(markdown)}


def _label_end(state: StateInline, start: int, disableNested: bool = False) -> int:  # noqa: N803  # as the library calls it
    """Where the label ends that begins at `start`, or -1: the library's `parseLinkLabel`, counted."""
    before, level, end = state.pos, 1, -1
    state.pos = start + 1
    while state.pos < state.posMax and state.env[_STEP] > 0:
        state.env[_STEP] -= 1
        mark, at = state.src[state.pos], state.pos
        if mark == "]":
            level -= 1
            if level == 0:
                end = state.pos
                break
        state.md.inline.skipToken(state)
        if mark == "[":
            if at == state.pos - 1:  # text, and no part of anything
                level += 1
            elif disableNested:
                break
    state.pos = before
    return end


def _reader() -> MarkdownIt:
    reader = MarkdownIt("commonmark", {"html": False, "maxNesting": _NESTING_MAX})
    reader.enable(["table", "strikethrough"])
    # An entity is what people typed, and would be shown as another text. A definition's line would not be shown, and
    # may be in another part than its link. A text above `---` is no heading to who writes a chat message.
    reader.disable(["entity", "reference", "lheading"])
    reader.helpers = SimpleNamespace(  # type: ignore[assignment]  # a module, there
        parseLinkLabel=_label_end, parseLinkDestination=parseLinkDestination, parseLinkTitle=parseLinkTitle
    )
    reader.inline.ruler.at("emphasis", _beside_cjk(emphasis.tokenize))
    reader.inline.ruler.at("strikethrough", _beside_cjk(strikethrough.tokenize))
    reader.inline.ruler.before("newline", "bare_address", _bare_address)
    return reader


_READER: Final = _reader()


# writing


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a block is."""

    lead: str = ""
    """Begins each of its lines."""
    depth: int = 0
    """Lists around it."""
    quoted: bool = False


_WEB: Final = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)
_LANGUAGE: Final = re.compile(r"[\w+#.-]{1,32}", re.ASCII)
_BOX: Final = re.compile(r"\[([ xX])\](?=\s)")


class _Writer:
    """One text in one dialect."""

    def __init__(self, dialect: Dialect, markdown: str, mend: Mend = list) -> None:
        self._dialect = dialect
        self._mend = mend
        self._lines = markdown.replace("\r\n", "\n").replace("\r", "\n").split("\n")

    def blocks(self, nodes: Iterable[SyntaxTreeNode], place: _Place) -> str:
        out = ""
        for node in nodes:
            text = self._block(node, place)
            if text and out:
                out += "\n\n" if self._apart(node) else "\n"
            out += text
        return out

    def _apart(self, node: SyntaxTreeNode) -> bool:
        """Whether a blank line was before it."""
        begins = node.map[0] if node.map else 0
        return not self._lines[begins - 1].strip("> \t")

    def _block(self, node: SyntaxTreeNode, place: _Place) -> str:
        dialect = self._dialect
        match node.type:
            case "paragraph":
                return self._led(self.inline(node.children), place)
            case "heading":
                title = self.inline(node.children, frozenset({"strong"}))
                if not title:
                    return ""
                level = int(node.tag.removeprefix("h"))
                return self._led(dialect.heading(title, level) if dialect.heading else dialect.bold(title), place)
            case "fence" | "code_block":
                words, language = words_of(node.info), _LANGUAGE.match(node.info.strip())
                if words:
                    return dialect.block(f"{words}\n{node.content}".removesuffix("\n"), "")
                return dialect.block(node.content.removesuffix("\n"), language[0] if language else "")
            case "hr":
                return place.lead + dialect.rule
            case "table":
                return self._table(node)
            case "blockquote":
                return self._quote(node, place)
            case _:  # the two kinds of list
                return self._list(node, place)

    def _led(self, text: str, place: _Place) -> str:
        return place.lead + text.replace("\n", f"\n{place.lead}") if text else ""

    def _quote(self, node: SyntaxTreeNode, place: _Place) -> str:
        if place.quoted:
            return self.blocks(node.children, replace(place, lead=place.lead + self._dialect.escape("> ")))
        inner = self.blocks(node.children, _Place(quoted=True))
        return self._dialect.quote(inner) if inner else ""

    def _list(self, node: SyntaxTreeNode, place: _Place) -> str:
        numbered = node.type == "ordered_list"
        first = int(node.attrs.get("start", 1))
        inner = replace(place, lead=place.lead + self._dialect.indent, depth=place.depth + 1)
        out = ""
        for number, item in enumerate(node.children, first):
            marker = place.lead + self._dialect.marker(number if numbered else None, inner.depth)
            text = self.blocks(item.children, inner)
            if item.children and item.children[0].type in {"paragraph", "heading"}:
                text = marker + text.removeprefix(inner.lead)
            else:  # a block that has to begin its line
                text = f"{marker.rstrip()}\n{text}".rstrip("\n")
            if out:
                out += "\n\n" if self._apart(item) else "\n"
            out += text
        return out

    def _table(self, node: SyntaxTreeNode) -> str:
        rows = [self._cells(row) for part in node.children for row in part.children]
        columns = max(map(len, rows))
        writer = self if self._dialect.table else _Writer(PLAIN, "")
        written = [[writer.inline(cell) for cell in [*row, *[[]] * (columns - len(row))]] for row in rows]
        return self._dialect.table(written) if self._dialect.table else self._dialect.block(aligned(written), "")

    def _cells(self, row: SyntaxTreeNode) -> list[Sequence[SyntaxTreeNode]]:
        if row.children[0].type == "th" or not row.map:
            return [cell.children for cell in row.children]
        # The library ends a cell in the midst of code, and drops what is more than the head has.
        line = self._lines[row.map[0]].lstrip("> \t")
        return [SyntaxTreeNode(self._cell(cell)).children for cell in cells(line)]

    def _cell(self, cell: str) -> list[Token]:
        tokens = _READER.parseInline(cell.replace("\\|", "|"), _env(cell))
        for token in tokens:
            token.children = self._mend(token.children or [])
        return tokens

    def inline(self, nodes: Iterable[SyntaxTreeNode], within: frozenset[str] = frozenset()) -> str:
        """What is in a line; `within` are the marks around it."""
        nodes = [inner for node in nodes for inner in (node.children if node.type == "inline" else [node])]
        pieces = [(node.type, self._piece(node, within)) for node in nodes]
        pieces = [(kind, text) for kind, text in pieces if text]
        marks = {"strong": self._dialect.bold, "em": self._dialect.italic, "s": self._dialect.strike}
        seam = self._dialect.seam
        out = ""
        for at, (kind, text) in enumerate(pieces):
            if kind not in marks or kind in within:
                out += text
                continue
            after = pieces[at + 1][1][0].strip() if at + 1 < len(pieces) else ""
            out += seam(out[-1:].strip(), text[0]) + marks[kind](text) + seam(after, text[-1])
        return out

    def _piece(self, node: SyntaxTreeNode, within: frozenset[str]) -> str:
        dialect = self._dialect
        match node.type:
            case "text":
                return self._text(node)
            case "softbreak" | "hardbreak":
                return dialect.newline
            case "code_inline":
                return dialect.code(node.content)
            case "link" | "image":
                return self._link(node, within)
            case _:  # marks
                return self.inline(node.children, within | {node.type})

    def _text(self, node: SyntaxTreeNode) -> str:
        text = node.content
        in_item = node.parent and node.parent.parent and node.parent.parent.parent
        if in_item and in_item.type == "list_item" and not node.previous_sibling and (box := _BOX.match(text)):
            text = ("☐" if box[1] == " " else "☑") + text[box.end() :]
        return self._dialect.escape(text)

    def _link(self, node: SyntaxTreeNode, within: frozenset[str]) -> str:
        label = self.inline(node.children, within | {"link"}).strip()
        if "link" in within:
            return label
        url = str(node.attrs.get("href") or node.attrs.get("src") or "")
        seen = _Writer(PLAIN, "").inline(node.children, frozenset({"link"})).strip()
        if not _WEB.match(url):
            return label + self._dialect.escape(f" ({url})" if label else url)
        if seen == url:
            return self._dialect.link("", url)
        if node.markup != "autolink" and hides(url, seen):
            return label + self._dialect.escape(" (") + self._dialect.link("", url) + self._dialect.escape(")")
        return self._dialect.link(label, url)


# shared with platforms that write by themselves


def hides(url: str, label: str) -> bool:
    """Whether a link's label pretends to be another address than the one it leads to."""
    if not _HOST_LIKE.match(label):
        return False
    try:
        promised = urlsplit(label if "://" in label else f"//{label}").hostname or ""
        real = urlsplit(url).hostname or ""
    except ValueError:
        return True
    return promised.removeprefix("www.") != real.removeprefix("www.")


_HOST_LIKE: Final = re.compile(r"(?:https?://|www\.)|[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}(?:[/:?#]|\Z)", re.IGNORECASE)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """A table of plain cells, its head first, for a font of fixed width. All rows have as many cells."""
    rooms = widths(rows)
    lines = [" | ".join(map(padded, row, rooms)).rstrip() for row in rows]
    return "\n".join([lines[0], "-+-".join("-" * room for room in rooms), *lines[1:]])


def cells(line: str) -> list[str]:
    """The Markdown in a table's row. A pipe in code or behind a backslash ends no cell; the backslash stays."""
    line = line.strip().removeprefix("|")
    whole = [span for span in spans(line) if line[span.start] in "`\\"]
    borders = [
        at for at, sign in enumerate(line) if sign == "|" and not any(span.start < at < span.end for span in whole)
    ]
    found = [line[start + 1 : end].strip() for start, end in pairwise([-1, *borders, len(line)])]
    return found[:-1] if len(found) > 1 and not found[-1] else found
