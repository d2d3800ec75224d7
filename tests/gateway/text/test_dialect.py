from __future__ import annotations

import html
import re
import sys
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from itertools import count

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gateway.text.dialect import MARKDOWN as READY
from gateway.text.dialect import PLAIN, Dialect, Entity, Rich, aligned, cells, hides, rich, write
from gateway.text.markdown import MEASURES, fitting, utf16
from tests.harness.cpu import cpu_within

HTML = Dialect(
    escape=html.escape,
    bold="<b>{}</b>".format,
    italic="<i>{}</i>".format,
    strike="<s>{}</s>".format,
    code=lambda code: f"<code>{html.escape(code)}</code>",
    block=lambda code, language: f'<pre lang="{language}">{html.escape(code)}</pre>',
    link=lambda label, url: f'<a href="{html.escape(url)}">{label or html.escape(url)}</a>',
    quote="<blockquote>{}</blockquote>".format,
)
MARKS = Dialect(
    escape=lambda text: re.sub(r"([\\*_~`|>#\[\]])", r"\\\1", text),
    bold="**{}**".format,
    italic="_{}_".format,
    strike="~~{}~~".format,
    code="`{}`".format,
    block="```{1}\n{0}\n```".format,
    link=lambda label, url: f"[{label}]({url})" if label else url,
    heading=lambda title, level: f"{'#' * level} {title}",
    marker=lambda number, _: f"{number}. " if number is not None else "- ",
    quote=lambda text: "> " + text.replace("\n", "\n> "),
    rule="---",
    newline="  \n",
    table=lambda rows: "\n".join("|".join(row) for row in rows),
    seam=lambda outer, inner: "\u200a" if outer.isalpha() and not inner.isalpha() else "",
)
FAMILY = "👨‍👩‍👧‍👦"


@pytest.mark.parametrize(
    ("markdown", "written"),
    [
        ("**bold** *italic* ***both*** ~~gone~~", "**bold** _italic_ _**both**_ ~~gone~~"),
        ("__bold__ _italic_ snake_case_name 2 * 3 * 4", r"**bold** _italic_ snake\_case\_name 2 \* 3 \* 4"),
        ("Set **order_item_id** to a_b - it costs $5.00!", r"Set **order\_item\_id** to a\_b - it costs $5.00!"),
        ("*   **Overview**: *nested **bold** inside*", "- **Overview**: _nested **bold** inside_"),
        ("**a **b** c**", "**a b c**"),
        ("an open ` backtick", r"an open \` backtick"),
        ("`a < **b**` and ``x`y``", "`a < **b**` and `x`y`"),
        ("# Title **x** *y* #", "# Title x _y_"),
        ("text\n---\nmore\n***", "text\n---\nmore\n---"),
        ("- one\n  - two\n    more\n* [x] done\n+ [ ] open", "- one\n  - two  \n    more\n- ☑ done\n- ☐ open"),
        ("3. c\n4. d\n\n   e", "3. c\n4. d\n\n  e"),
        ("-\n- > q\n- # h", "-\n-\n> q\n- # h"),
        ("1. run\n\n   ```sh -x\n   ls\n     -l\n   ```\n2. see", "1. run\n\n```sh\nls\n  -l\n```\n2. see"),
        ("> said **he**\n> > and *she*\n>\n> end", "> said **he**\n> \\> and _she_\n> \n> end"),
        ("    indented\n\n```c++\nopen", "```\nindented\n```\n\n```c++\nopen\n```"),
        ("``` all WORDS\ncode\n```", "```\nall WORDS\ncode\n```"),
        ("~~~这 是 字\n~~~", "```\n这 是 字\n```"),
        ('```python title="my app"\nx\n```', "```python\nx\n```"),
        ("hard  \nsoft\nline\\\nend", "hard  \nsoft  \nline  \nend"),
        (r"\*not bold\* \<", r"\*not bold\* <"),
        ("<b>x</b> &lt;i&gt; &copy; <!-- c -->", r"<b\>x</b\> &lt;i&gt; &copy; <!-- c --\>"),
        ("[r][1]\n\n[1]: https://a.example", "\\[r\\]\\[1\\]\n\n\\[1\\]: https://a.example"),
        ("", ""),
        (" \n\n", ""),
        ("#\n\nx", "x"),
    ],
)
def test_markdown_is_written_in_a_dialect(markdown: str, written: str) -> None:
    assert write(markdown, MARKS) == written


@pytest.mark.parametrize(
    ("markdown", "written"),
    [
        ("[link](http://a.example/x_(y))", "[link](http://a.example/x_(y))"),
        ("<https://a.example/b_c>", "https://a.example/b_c"),
        ("![**graph**](https://a.example/g.png)", "[**graph**](https://a.example/g.png)"),
        ("[![alt](https://i.example)](https://a.example)", "[alt](https://a.example)"),
        ("[](https://a.example) ![](https://b.example)", "https://a.example https://b.example"),
        ("[x](<https://a.example/b c\"'>)", "[x](https://a.example/b%20c%22')"),
        ("[run](javascript:alert(1))", r"\[run\](javascript:alert(1))"),
        ("[file](docs/x.md)", "file (docs/x.md)"),
        ("[a@b.example](mailto:a@b.example)", "[a@b.example](mailto:a@b.example)"),
        ("https://a.example/x_y_z?a=1&b=2 *b*", "https://a.example/x_y_z?a=1&b=2 _b_"),
        ("见https://a.example/x_y，然后", "见https://a.example/x_y，然后"),
        (
            "(see https://a.example/x_(y)), **https://b.example/**!",
            "(see https://a.example/x_(y)), **https://b.example/**!",
        ),
        ("xhttps://a_b_c http://", r"xhttps://a\_b\_c http://"),
        ("[https://bank.example](https://evil.example)", "https://bank.example (https://evil.example)"),
        ("[bank.example/**login**](https://evil.example)", "bank.example/**login** (https://evil.example)"),
        ("[www.bank.example](https://bank.example/a)", "[www.bank.example](https://bank.example/a)"),
    ],
)
def test_links_lead_where_they_seem_to(markdown: str, written: str) -> None:
    assert write(markdown, MARKS) == written


@pytest.mark.parametrize(
    ("markdown", "bold"),
    [
        ("请先看**截止日期**再回复，备注「**加急**」。오늘**마감**입니다", ["截止日期", "加急", "마감"]),
        ("备**注「加急」**的", ["注「加急」"]),
        ("他说**“好的”**就走，**（注）**后，**50%**的", ["“好的”", "（注）", "50%"]),
        ("结果**`code`**如下 **[链接](https://a.example)**。", ["code", "链接"]),
        ("オプション**「速い」**です", ["「速い」"]),
        ("오늘**(마감)**입니다", ["(마감)"]),
        ("🚀**빠른**🚀 **مرحبا** **👨‍👩‍👧‍👦**", ["빠른", "مرحبا", FAMILY]),
        ("a**b** **注意** ** 不 ** 2**3", ["b", "注意"]),
        ("a**(b)**c", []),
    ],
)
def test_bold_needs_no_blanks_where_none_are_written(markdown: str, bold: list[str]) -> None:
    found = re.findall(r"<b>(.*?)</b>", write(markdown, HTML))
    assert [re.sub(r"<[^>]*>", "", text) for text in found] == bold


def test_a_seam_stands_only_where_a_letter_touches_a_mark_with_a_sign_inside() -> None:
    assert write("a**b** 注**「急」**的 **「x」** **y**", MARKS) == "a**b** 注\u200a**「急」**\u200a的 **「x」** **y**"


TABLE = "| 功能 | Before | After |\n|---|:-:|--:|\n| **速度** | 10 ms | [x](https://a.example) |\n| a \\| b | `x|y` | | more | `z`"


def test_a_table_is_aligned_by_display_width_without_marks() -> None:
    rows = [
        "功能  | Before | After                 |      |",
        "------+--------+-----------------------+------+--",
        "速度  | 10 ms  | x (https://a.example) |      |",
        "a | b | x|y    |                       | more | z",
    ]
    assert write(f"{TABLE}\n\nafter", HTML) == f'<pre lang="">{chr(10).join(rows)}</pre>\n\nafter'
    assert write(TABLE, PLAIN) == "\n".join(rows)
    assert write("| a |\n|---|\n| `x\\|y` |", PLAIN) == "a\n---\nx|y"
    quoted = "".join(f"> {line}\n" for line in TABLE.split("\n"))
    assert write(quoted, PLAIN) == "\n".join(rows)


def test_a_platform_with_tables_gets_their_cells_in_its_dialect() -> None:
    assert write(TABLE, MARKS) == (
        "功能|Before|After||\n**速度**|10 ms|[x](https://a.example)||\na \\| b|`x|y`||more|`z`"
    )


def test_a_row_s_cells_end_at_pipes_outside_of_code() -> None:
    assert cells("| a \\| b | `c|d` | ``e`|`` | ` | |") == ["a \\| b", "`c|d`", "``e`|``", "`", ""]
    assert cells("a|b") == ["a", "b"]
    assert cells("") == [""]
    assert aligned([["h", "速"], ["x", "y"]]) == "h | 速\n--+---\nx | y"


def test_a_label_hides_an_address_only_when_it_looks_like_another() -> None:
    assert hides("https://evil.example", "bank.example")
    assert hides("https://evil.example", "https://[bank")
    assert not hides("https://www.bank.example/x", "BANK.example/y")
    assert not hides("https://evil.example", "the bank")


def test_text_and_entities_are_counted_in_utf_16() -> None:
    made = rich("🚀 **bold `x` *i***\n\n> q [l](https://a.example)\n\n```py\na\n b\n```\n[`c`](https://b.example)")
    assert made == Rich(
        "🚀 bold x i\n\nq l\n\na\n b\nc",
        (
            Entity("bold", 3, 5),
            Entity("code", 8, 1),
            Entity("bold", 9, 2),
            Entity("italic", 10, 1),
            Entity("quote", 13, 3),
            Entity("link", 15, 1, "https://a.example"),
            Entity("block", 18, 4, "py"),
            Entity("link", 23, 1, "https://b.example"),
        ),
    )


def test_what_shows_nothing_is_empty() -> None:
    assert rich("```\n   \n```") == rich("#") == Rich("")


def test_what_a_text_holds_is_never_taken_for_the_marks_of_entities() -> None:
    for forged in ("\0<bold \0x\0>bold\0", "&#0;<bold &#0;x", "\0>bold\0", "`\0<bold \0`", ">" * 80 + "\0<bold \0"):
        made = rich(forged)
        assert "bold" in made.text
        assert not any(entity.kind == "bold" for entity in made.entities)


@pytest.mark.parametrize("deep", [">" * 200 + " word", "".join(" " * 2 * n + "- x\n" for n in range(90)) + "word"])
def test_what_is_nested_beyond_reason_is_shown_as_it_stands(deep: str) -> None:
    assert write(deep, HTML) == html.escape(deep)


def test_marks_nested_beyond_reason_are_no_recursion() -> None:
    assert "word" in write("*a " * 3_000 + "word" + " b*" * 3_000, HTML)


# properties

LABELS = ["§", "§ §", "速§", "**§**", "`§`", FAMILY, "مرحبا§"]
LINK = st.builds(
    "[{}]({})".format,
    st.sampled_from(LABELS),
    st.sampled_from(
        ["https://a.example", "http://b.example/x_(y)", "https://c.example/?q=1&r=*2*", "docs/x.md", "<a b>"]
    ),
)
PHRASE = st.one_of(
    st.sampled_from(
        ["§", "§ §", "速度§", "§。", "🚀", FAMILY, "🇩🇪", "e\u0301", "שלום§", "مرحبا", "a_§_b", "5 < 6 & 7", "<b>§</b>"]
    ),
    st.sampled_from(
        ["**§**", "*§*", "~~§~~", "***§***", "**「§」**", "_§_", "`§`", "``§`|§``", "**§ *§* §**", "~~**§**~~"]
    ),
    st.sampled_from(["https://a.example/x_y_z?a=1&b=2", "<https://b.example>", "![§](https://i.example/g.png)"]),
    st.sampled_from(["`", "``", "**", "*", "~~", "[", "](", "\\", "\\*", "!", "&lt;§&gt;", "|", '"']) | LINK,
)
LINE = st.tuples(st.lists(PHRASE, min_size=1, max_size=6), st.sampled_from([" ", "", "，"])).map(
    lambda made: made[1].join(made[0])
)
PARAGRAPH = st.lists(LINE, min_size=1, max_size=3).map("\n".join)
FENCED = st.tuples(
    st.sampled_from(["```", "~~~", "````python", "```c++"]), st.lists(st.sampled_from(["§", "  § < §", "``§``", ""]))
).map(lambda made: "\n".join([made[0], *made[1], made[0].rstrip("python+c")]))
GRID = st.lists(st.tuples(PHRASE, PHRASE), max_size=4).map(
    lambda rows: "\n".join(["| § | 速§ |", "|---|:-:|", *("| {} | {} |".format(*row) for row in rows)])
)
HEADING = st.tuples(st.integers(1, 6), LINE).map(lambda made: f"{'#' * made[0]} {made[1]}")


def listed(blocks: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def one(made: tuple[str, list[str]]) -> str:
        mark, items = made
        return "\n".join(mark + item.replace("\n", "\n" + " " * len(mark)) for item in items)

    return st.tuples(st.sampled_from(["- ", "* ", "1. ", "10) ", "> "]), st.lists(blocks, min_size=1, max_size=3)).map(
        one
    )


BLOCK = st.recursive(
    st.one_of(PARAGRAPH, FENCED, GRID, HEADING, st.just("---")),
    lambda blocks: listed(st.lists(blocks, min_size=1, max_size=2).map("\n\n".join)),
    max_leaves=5,
)


def numbered(markdown: str) -> str:
    """Each § becomes a word of its own."""
    numbers = count()
    return re.sub("§", lambda _: f"w{next(numbers)}x", markdown)


MARKDOWN = st.lists(BLOCK, max_size=4).map("\n\n".join).map(numbered)
ANY = MARKDOWN | st.text(alphabet="<>!@#&|;:/.ahttps()[]*_`~-+\\ \n\t\0\"'1速「」🚀\u200d\u0301", max_size=120)
SOME = settings(max_examples=120, deadline=None)


class Page(HTMLParser):
    """Reads what was written as Telegram would: a tag ends in order, is not in itself, and code holds none."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""
        self.kinds: Counter[str] = Counter()
        self._open: list[str] = []
        self.feed(source)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in {"b", "i", "s", "code", "pre", "a", "blockquote"}
        assert tag not in self._open
        assert not {"code", "pre"} & set(self._open)
        assert [name for name, _ in attrs] == {"a": ["href"], "pre": ["lang"]}.get(tag, [])
        self._open.append(tag)
        self.kinds[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    def handle_decl(self, decl: str) -> None:
        raise AssertionError(decl)


@given(ANY)
@SOME
def test_what_is_written_as_html_is_well_formed_and_holds_the_text(markdown: str) -> None:
    assert Page(write(markdown, HTML)).text.strip() == rich(markdown).text.strip()


@given(MARKDOWN)
@SOME
def test_nothing_that_can_be_seen_is_left_out(markdown: str) -> None:
    assume(not re.search(r"(```|~~~)[^\n]*w\d", markdown))  # a code block's language is not shown
    seen = re.compile(r"w\d+x|[速🚀🇩👨م]|a_b")
    words = seen.findall(markdown)
    assert seen.findall(rich(markdown).text) == words
    addresses = re.compile(seen.pattern + r"|[abc]\.example")  # not of a picture in a link's label
    for dialect in (PLAIN, MARKS):
        assert addresses.findall(write(markdown, dialect)) == addresses.findall(markdown)


@given(ANY)
@SOME
def test_entities_lie_in_the_text_and_each_within_or_outside_of_each_other(markdown: str) -> None:
    made = rich(markdown)
    units = made.text.encode("utf-16-le")
    around: list[Entity] = []
    previous = (0, -len(units))
    for entity in made.entities:
        end = entity.offset + entity.length
        assert entity.length > 0
        assert end * 2 <= len(units)
        units[entity.offset * 2 : end * 2].decode("utf-16-le")  # no half of a pair
        assert previous <= (entity.offset, -entity.length)
        previous = (entity.offset, -entity.length)
        while around and around[-1].offset + around[-1].length <= entity.offset:
            around.pop()
        assert not around or end <= around[-1].offset + around[-1].length
        assert {one.kind for one in around} <= (
            {"quote"}
            if entity.kind in {"code", "block"}
            else {"bold", "italic", "strike", "link", "quote"} - {entity.kind}
        )
        around.append(entity)
    assert bool(made.text) == bool(made.text.strip())


@given(ANY, st.integers(96, 400), st.sampled_from(sorted(MEASURES)))
@SOME
def test_parts_fit_as_they_are_and_as_they_are_written(markdown: str, limit: int, unit: str) -> None:
    measure = MEASURES[unit]  # type: ignore[index]  # sampled from its keys
    parts = fitting(markdown, limit, measure, lambda part: write(part, HTML), measure)
    for source, written in parts:
        assert 0 < measure(written) <= limit
        assert measure(source) <= limit
        written.encode()
        Page(written)
    shown = "".join(Page(written).text for _, written in parts)
    assert all(
        word in shown for word in re.findall(r"w\d+x", markdown) if not re.search(rf"(```|~~~).*{word}", markdown)
    )
    for _, made in fitting(markdown, limit, measure, rich, lambda made: measure(made.text)):
        assert 0 < measure(made.text) <= limit


def test_a_table_that_grows_is_cut_again() -> None:
    rows = "".join(f"| {'x' * (number % 40)} | {number} |\n" for number in range(60))
    parts = fitting(f"| a | b |\n|---|---|\n{rows}", 600, utf16, rich, lambda made: utf16(made.text))
    assert all(utf16(made.text) <= 600 for _, made in parts)
    assert [number for _, made in parts for number in re.findall(r"\d+$", made.text, re.MULTILINE)] == [
        str(number) for number in range(60)
    ]
    assert fitting("\n \n", 100, len, rich, lambda made: len(made.text)) == []


HOSTILE = ["**a **a ", "[a", "`", "[[](", "*a_", "_a *b **c ~~d ", "![a](", "***a", "[x]((", "https://a/(", "<http://"]
HOSTILE += ["\\", "> ", "- ", "`a``b", "*`", "**「a」", "|`a", "a|\n-|\n", "- a\n  ", "*a\n"]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_markdown_costs_no_time(hostile: str) -> None:
    with cpu_within(0.5):
        rich((hostile * 4_000)[:4_000])
        cells((hostile * 4_000)[:4_000])


@pytest.mark.parametrize(
    "markdown",
    [
        "**bold** *italic* ~~gone~~ `co``de` [label](https://a.example/x_y) <https://a.example/z>",
        "# Title\n\n- one\n    - two\n\n1. first\n2. second\n\n> quoted\n> **more**",
        "````c++\n```\ncode\n````",
        "| a | b |\n| --- | --- |\n| 1 \\| 2 | **3** |",
        "5 * 3 < 4, snake_case, &amp; [x] \\# a\n\\- b\n1\\. c\n---",
    ],
)
def test_markdown_is_written_so_that_it_is_read_alike(markdown: str) -> None:
    once = write(markdown, READY)
    assert write(once, READY) == once
    assert rich(once) == rich(markdown)


@given(st.text(st.sampled_from("ab1 *_~`|<>&#;+-=.)[](\\\n"), max_size=40))
def test_escaped_text_has_no_marks(text: str) -> None:
    words = " ".join(text.split())
    assume(words)
    assert rich(READY.escape(words)).text == words
    assert not rich(READY.escape(words)).entities


def steps(work: Callable[[], object]) -> int:
    """How many functions are called, which another machine's haste does not change."""
    called = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal called
        called += event == "call"

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return called


@pytest.mark.parametrize("end", ["", "]", "](http://a.example/)"])
@pytest.mark.parametrize("seed", ["[", "![", "[a](", "![a](", "[[]", "[a][", "[**", "[`", "~a~", "*a_", "<a "])
def test_twice_the_text_is_about_twice_the_work(seed: str, end: str) -> None:
    once, twice = (steps(lambda times=times: write(seed * times + end, PLAIN)) for times in (1_000, 2_000))  # type: ignore[misc]
    assert twice < 2.6 * once


def test_the_brackets_of_a_usual_text_all_find_their_ends() -> None:
    line = "- [a *link* with `code` [in] it](http://a.example/x) and ![a picture [1]](http://a.example/y.png), [2]\n"
    assert write(line * 100, PLAIN).count("(http://a.example/") == 200
