"""The page's Markdown, rendered by the page's own module in a real Chromium."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.web.world import World
from tests.harness.browser import Page, Visitor

pytestmark = pytest.mark.browser

LINK = 'target="_blank" rel="noopener noreferrer nofollow"'

TABLE: list[tuple[str, str]] = [
    ("plain", "<p>plain</p>"),
    ("one\ntwo", "<p>one<br>two</p>"),
    ("one\n\ntwo", "<p>one</p><p>two</p>"),
    (
        "**a** *b* ***c*** ~~d~~ `e`",
        "<p><strong>a</strong> <em>b</em> <strong><em>c</em></strong> <s>d</s> <code>e</code></p>",
    ),
    ("__a__ _b_ snake_case_name 2*3*4", "<p><strong>a</strong> <em>b</em> snake_case_name 2<em>3</em>4</p>"),
    ("**重点**：和_别的_", "<p><strong>重点</strong>：和_别的_</p>"),
    ("a * b * c ** d", "<p>a * b * c ** d</p>"),
    ("**open and `open", "<p>**open and `open</p>"),
    (r"\*not\* \`code\` \\", "<p>*not* `code` \\</p>"),
    ("``a ` b`` ` c `", "<p><code>a ` b</code> <code>c</code></p>"),
    ("# A\n###### B #\n#no", "<h3>A</h3><h6>B</h6><p>#no</p>"),
    ("---\n***\n_ _ _", "<hr><hr><hr>"),
    ("> a\n> > b\nlazy", "<blockquote><p>a</p><blockquote><p>b<br>lazy</p></blockquote></blockquote>"),
    ("- a\n- b\n  - c\n- d", "<ul><li>a</li><li>b<ul><li>c</li></ul></li><li>d</li></ul>"),
    ("3. a\n4. b", '<ol start="3"><li>a</li><li>b</li></ol>'),
    ("- a\n\n- b", "<ul><li><p>a</p></li><li><p>b</p></li></ul>"),
    ("text\n- a", "<p>text</p><ul><li>a</li></ul>"),
    ("in 2024. that\n2. year", "<p>in 2024. that<br>2. year</p>"),
    ("1. a\n\n   more\n2. b", "<ol><li><p>a</p><p>more</p></li><li><p>b</p></li></ol>"),
    ("<b>x</b> &amp;", "<p>&lt;b&gt;x&lt;/b&gt; &amp;amp;</p>"),
    ("<script>alert(1)</script>", "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>"),
    (
        "see https://a.test/x_y_z, and (https://b.test).",
        (
            f'<p>see <a href="https://a.test/x_y_z" {LINK}>https://a.test/x_y_z</a>, and '
            f'(<a href="https://b.test/" {LINK}>https://b.test</a>).</p>'
        ),
    ),
    ("见https://a.test/页，好", "<p>见https://a.test/页，好</p>"),
    ("见 https://a.test/p，好", f'<p>见 <a href="https://a.test/p" {LINK}>https://a.test/p</a>，好</p>'),
    (
        '[a *b*](https://c.test/d "t")',
        f'<p><a href="https://c.test/d" {LINK}>a <em>b</em></a><span class="host"> (c.test)</span></p>',
    ),
    (
        "[a](https://c.test/d_(e))!",
        f'<p><a href="https://c.test/d_(e)" {LINK}>a</a><span class="host"> (c.test)</span>!</p>',
    ),
    (
        "[bank.test](https://user:pw@evil.test)",
        f'<p><a href="https://user:pw@evil.test/" {LINK}>bank.test</a><span class="host"> (evil.test)</span></p>',
    ),
    (
        "[a](https://аpple.test)",
        f'<p><a href="https://xn--pple-43d.test/" {LINK}>a</a><span class="host"> (xn--pple-43d.test)</span></p>',
    ),
    (
        "![cat](https://a.test/c.png)",
        f'<p><a href="https://a.test/c.png" {LINK}>Image: cat</a><span class="host"> (a.test)</span></p>',
    ),
    ("[a](javascript:alert(1)) [b](JaVaScRiPt:x)", "<p><span>a</span> <span>b</span></p>"),
    ("[a](data:text/html,x) [b](//c.test) [c](/d)", "<p><span>a</span> <span>b</span> <span>c</span></p>"),
    ("[a][r]\n\n[r]: https://x.test", f'<p>[a][r]</p><p>[r]: <a href="https://x.test/" {LINK}>https://x.test</a></p>'),
    (
        "<https://a.test> <javascript:x>",
        f'<p><a href="https://a.test/" {LINK}>https://a.test</a> &lt;javascript:x&gt;</p>',
    ),
    ("[x](", "<p>[x](</p>"),
    ("[[[[", "<p>[[[[</p>"),
    ("", ""),
    ("\n\n  \n", ""),
]


@pytest.fixture
async def page(world: World, visitor: Visitor) -> Page:
    return await visitor.page(f"{world.url}/chat")


async def rendered(page: Page, text: str) -> str:
    return str(
        await page.evaluate(
            f"{MODULE}.then(({{ render }}) => {{ const into = document.createElement('div');"
            f"render(into, {json.dumps(text)}, {{'chat.image': 'Image: {{name}}', 'chat.code_copy': 'Copy'}}); return into.innerHTML; }})"
        )
    )


MODULE = "import('/chat/static/markdown.js')"


async def test_markdown_becomes_nodes(page: Page) -> None:
    wrong = [(text, got, html) for text, html in TABLE if (got := await rendered(page, text)) != html]
    assert wrong == []


async def test_code_keeps_every_character(page: Page) -> None:
    for text, code in [
        ("```js\na <b> *c*\n\n  d\n```\nafter", "a <b> *c*\n\n  d"),
        ("~~~\n```\n~~~", "```"),
        ("````\n```\n````", "```"),
        ("```\nstill open", "still open"),
    ]:
        shown = await page.evaluate(
            f"{MODULE}.then(({{ render }}) => {{ const into = document.createElement('div');"
            f"render(into, {json.dumps(text)}, {{}}); return into.querySelector('pre').textContent; }})"
        )
        assert shown == code


async def test_a_table_has_cells_and_sides(page: Page) -> None:
    html = await rendered(page, "| a | b\\|c |\n|:-:|--:|\n| `1` | 2 |\n| 3 |\n\nafter")
    assert html == (
        '<div class="table" tabindex="0"><table><thead><tr><th class="center">a</th><th class="right">b|c</th></tr></thead>'
        '<tbody><tr><td class="center"><code>1</code></td><td class="right">2</td></tr>'
        '<tr><td class="center">3</td><td class="right"></td></tr></tbody></table></div><p>after</p>'
    )


async def test_blocks_that_stay_keep_their_nodes(page: Page) -> None:
    kept = await page.evaluate(
        f"{MODULE}.then(({{ render }}) => {{ const into = document.createElement('div');"
        "render(into, 'one\\n\\ntwo', {}); const first = into.firstChild; const second = into.lastChild;"
        "render(into, 'one\\n\\ntwo more\\n\\nthree', {});"
        "return [into.children[0] === first, into.children[1] === second, into.textContent]; })"
    )
    assert kept == [True, False, "onetwo morethree"]


HOSTILE: dict[str, Any] = {
    "stars": "*a " * 20_000,
    "underscores": "_a __b " * 10_000,
    "backticks": "".join("`" * (n % 60 + 1) + "a" for n in range(2_000)),
    "brackets": "[" * 40_000,
    "half links": "[a](" * 20_000,
    "quotes": ">" * 20_000,
    "lists": "- " * 20_000,
    "indented lists": "\n".join(" " * n + "- a" for n in range(400)),
    "addresses": "https://" * 20_000,
    "bangs": "![" * 20_000,
    "pipes": "|" * 20_000 + "\n" + "|-" * 10_000,
    "hashes": "#" * 40_000,
    "escapes": "\\" * 40_000,
    "blanks": " " * 40_000 + "a" + " \n" * 20_000,
    "dashes": "- - " * 10_000 + "a",
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_four_times_the_hostile_text_takes_no_more_than_linear_time(page: Page, name: str) -> None:
    """A ratio within one page, each side the best of three: four times the text, far from sixteen times the work."""
    quarter, whole = await page.evaluate(
        f"{MODULE}.then(({{ render }}) => {{ const text = {json.dumps(HOSTILE[name])};"
        "const took = (size) => Math.min(...[1, 2, 3].map(() => { const began = performance.now();"
        "render(document.createElement('div'), text.slice(0, size), {}); return performance.now() - began; }));"
        "return [took(Math.floor(text.length / 4)), took(text.length)]; })"
    )
    assert whole < 10 * quarter + 100


def test_the_module_makes_no_html_of_text() -> None:
    """Of the chat page. The admin pages load htmx, which puts HTML of our own templates in its place."""
    static = Path(__file__).parents[3] / "gateway" / "web" / "static"
    for file in set(static.glob("*.js")) - {static / "htmx.min.js"}:
        text = file.read_text()
        for forbidden in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "setAttribute('on",
        ):
            assert forbidden not in text, file.name
