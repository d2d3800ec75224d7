"""Links and pictures of a model's text: what is not allowed is live nowhere, and nothing of it is lost."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from gateway.platforms import Adapter, Outbound, Part
from gateway.text.links import defused
from tests.gateway.platforms import test_discord as discord
from tests.gateway.platforms import test_feishu as feishu
from tests.gateway.platforms import test_slack as slack
from tests.gateway.platforms import test_standard_webhooks as webhooks
from tests.gateway.platforms import test_telegram as telegram
from tests.gateway.platforms import test_wecom as wecom
from tests.harness.cpu import cpu_within

GOOD: Final = "https://good.test/a"


def allowed(address: str) -> bool:
    return address in {GOOD, GOOD.removeprefix("https://"), "ann@good.test"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello **world**, snake_case and [x] <b\n\n    indented",
        "e.g. this; U.S. 3.14 v1.2.3, 10:30, a/b, and so on...",
        f"see {GOOD}, ({GOOD}) or good.test/a.",
        f"[good]({GOOD}) <{GOOD}>",
        "mail ann@good.test",
        "看good.test/a吧",
    ],
)
def test_what_is_allowed_stays_as_it_is(text: str) -> None:
    assert defused(text, allowed) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("see https://evil.test/?d=1.", "see `https://evil.test/?d=1`."),
        ("[a](https://evil.test/?d=1)", "a (`https://evil.test/?d=1`)"),
        ('[a](https://evil.test "title")', "a (`https://evil.test`)"),
        ("[a [b](https://evil.test)", r"\[a b (`https://evil.test`)"),
        ("[**a**](<https://evil.test/x>)", "**a** (`https://evil.test/x`)"),
        ("[](https://evil.test)", "`https://evil.test`"),
        ("<https://evil.test/>", "`https://evil.test/`"),
        ("<HTTPS://evil.test/>", "`HTTPS://evil.test/`"),
        ("[r]: https://evil.test\n\n[a][r]", r"\[r]: `https://evil.test`" + "\n\n" + r"\[a]\[r]"),
        ('<a href="https://evil.test">x</a>', r'\<a href="`https://evil.test`">x\</a>'),
        ("<https://evil.test|words>", "`https://evil.test%7Cwords`"),
        ("evil.test/?d=1, www.evil.test", "`evil.test/?d=1`, `www.evil.test`"),
        ("secret.evil.test", "`secret.evil.test`"),
        ("evil.*test*/?d=1", "`evil.test/?d=1`"),
        (r"evil\.test", "`evil.test`"),
        ("//evil.test/x and [x](//evil.test)", "`//evil.test/x` and x (`//evil.test`)"),
        (r"https:\\evil.test\x", r"`https:\evil.test\x`"),
        ("https://good.test@evil.test/", "`https://good.test@evil.test/`"),
        ("[x](https://evil.test/\n?d=1)", r"\[x](`https://evil.test/`" + "\n?d=1)"),
        ("tg://resolve?domain=evil", "`tg://resolve?domain=evil`"),
        ("a@evil.test and mailto:b@evil.test?body=1", "`a@evil.test` and `mailto:b@evil.test?body=1`"),
        ("https://bücher.test/", "`https://xn--bcher-kva.test/`"),
        ("[x](https://аpple.com/)", "x (`https://xn--pple-43d.com/`)"),
        ("看https://evil.test/x吧", "看`https://evil.test/x`吧"),
        ("请看evil.test吧", "请看`evil.test`吧"),
        ("例子.测试", "`例子.测试`"),
        ("127.0.0.1/x", "`127.0.0.1/x`"),
        (f"[evil.test/x]({GOOD})", f"`evil.test/x` (`{GOOD}`)"),
        (f"evil.[te]({GOOD})st", f"`evil.test` (`{GOOD}`)"),
        (f"[good]({GOOD}) evil.test", f"[good]({GOOD}) `evil.test`"),
        ("`a\nhttps://evil.test`", "`a https://evil.test`"),
        ("| a | b |\n|--|--|\n| evil.test | x |", "| a | b |\n| --- | --- |\n| `evil.test` | x |"),
        (
            "1. a\n\n   ```\n   b\n\nc\n\n```\nevil.test\n```",
            "1. a\n\n```\nb\n\n```\n\nc\n\n```\nevil.test\n```",
        ),
    ],
)
def test_what_is_not_allowed_is_code_with_its_whole_address(text: str, shown: str) -> None:
    made = defused(text, allowed)
    assert made.replace("\\]", "]") == shown
    assert defused(made, allowed).replace("\\]", "]") == shown


@pytest.mark.parametrize("check", [allowed, None])
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"![a *b*]({GOOD})", f"a *b* (`{GOOD}`)"),
        (f"![]({GOOD})", f"`{GOOD}`"),
        (f"[![a]({GOOD})]({GOOD})", f"[a (`{GOOD}`)]({GOOD})"),
        (f"![a][r]\n\n[r]: {GOOD}", f"!\\[a]\\[r]\n\n\\[r]: [{GOOD}]({GOOD})"),
        (f'<img src="{GOOD}">', rf'\<img src="[{GOOD}]({GOOD})">'),
        ("![a](data:image/png;base64,AAAA)", "a (`data:image/png;base64,AAAA`)"),
    ],
)
def test_no_picture_stays_one(check: Callable[[str], bool] | None, text: str, shown: str) -> None:
    assert defused(text, check).replace("\\]", "]") == shown


def test_without_pictures_and_rules_a_text_is_left_alone() -> None:
    assert defused("[a](https://evil.test)  and *evil.test*", None) == "[a](https://evil.test)  and *evil.test*"


def test_a_long_address_is_in_pieces_that_no_limit_cuts() -> None:
    address = "https://evil.test/?d=" + "a" * 2_000
    for text in (address, f"[x]({address})", f"`{address}`"):
        pieces = re.findall("`([^`]*)`", defused(text, allowed))
        assert "".join(pieces) == address
        assert max(map(len, pieces)) == 400


def test_what_is_nested_too_deep_is_code_as_a_whole() -> None:
    text = ">" * 100 + " https://evil.test"
    assert defused(text, allowed) == f"```\n{text}\n```"


def test_where_there_is_no_code_addresses_are_taken_apart() -> None:
    made = defused("`evil.test` [a](https://evil.test/x) good.test/a", allowed, has_code=False)
    assert made == "evil.\u200btest a (https:\u200b//\u200bevil.\u200btest/x) good.test/a"


# in what each platform is sent

PIECES: Final = [
    *("https://attacker.test/?d=S", "HTTPS://ATTACKER.TEST/", "attacker.test/x", "www.attacker.test", "//attacker.test"),
    *("[a](https://attacker.test)", "![i](https://attacker.test/i.png)", "<https://attacker.test>", "[a][r]"),
    *("[r]: https://attacker.test\n", '<img src="https://attacker.test">', "<https://attacker.test|x>", "[a](attacker.test)"),
    *("a@attacker.test", "mailto:a@attacker.test", "https://good.test@attacker.test/", "https:\\\\attacker.test"),
    *("attacker.", "test", "https://", "attacker", ".test/", "://attacker.test", "secret.", f"[g]({GOOD})", GOOD),
    *("[a](", "](https://attacker.test)", "[", "]", "(", ")", "<", ">", "!", "|", '"', "\\", "&lt;", "&#46;", "@everyone"),
    *("`", "``", "```\n", "\n```\n", "~~~\n", "*", "**", "_", "~~", "\u200b", "看", "。", "\t", " ", "\n", "\n\n"),
    *("> ", "- ", "1. ", "   ", "    ", "# ", "---\n", "| a | b |\n|---|---|\n| ", " |\n", "words", "x"),
]  # fmt: skip
EVIL: Final = re.compile(r"attacker\.test|attacker\\.test", re.IGNORECASE)


def without_code(text: str) -> str:
    """As a chat reads Markdown: fences by their lines, then ticks within a line."""
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        mark = re.match(r"[ >]*(`{3,}|~{3,})", line)
        if fence:
            fence = "" if mark and mark[1].startswith(fence) and not line.strip("> ").strip(mark[1][0]) else fence
        elif mark and "`" not in line[mark.end() :]:
            fence = mark[1]
        else:
            lines.append(re.sub(r"(?<![`\\])(`+)(?!`)(.+?)(?<!`)\1(?!`)", " code ", line))
    return "\n".join(lines)


def of_markdown(part: Part, field: str) -> Iterator[str]:
    yield from of_marked(part.payload[field])


def of_marked(text: str) -> Iterator[str]:
    text = html.unescape(without_code(text))
    yield re.sub(r"[*_~]|\\(?=[!-/:-@\[-`{-~])", "", text)


def of_slack(part: Part) -> Iterator[str]:
    """Slack takes `&gt;` at a line's begin for the mark of a quote, and what stands between fences for code there too."""
    yield from of_marked(part.payload["text"].replace("&gt;", ">"))


def of_telegram(part: Part) -> Iterator[str]:
    text = part.payload["text"].encode("utf-16-le")
    for entity in part.payload.get("entities", ()):
        yield entity.get("url", "")
        begin, end = 2 * entity["offset"], 2 * (entity["offset"] + entity["length"])
        if entity["type"] in {"code", "pre", "text_link"}:
            text = text[:begin] + "\n".encode("utf-16-le") * entity["length"] + text[end:]
    yield text.decode("utf-16-le")


def of_commonmark(part: Part) -> Iterator[str]:
    """As anybody's reader of Markdown may, with references and HTML."""
    for block in MarkdownIt("commonmark").enable("table").parse(part.payload["text"]):
        if block.type == "html_block":
            yield block.content
        shown = ""
        for token in block.children or ():
            shown += token.content if token.type == "text" else "" if token.nesting else "\n"
            yield str(token.attrs.get("href", "")) + str(token.attrs.get("src", ""))
            yield token.content if token.type == "html_inline" else ""
        yield shown


def of_text(part: Part) -> Iterator[str]:
    yield part.payload["content"]


Looks = Callable[[Part], Iterator[str]]
PLATFORMS: Final[dict[str, tuple[Any, Looks]]] = {
    "slack": (slack.adapter(), of_slack),
    "telegram": (telegram.adapter(), of_telegram),
    "discord": (discord.adapter(), lambda part: of_markdown(part, "content")),
    "feishu": (feishu.adapter(), lambda part: of_markdown(part, "markdown")),
    "wecom": (wecom.adapter(), lambda part: of_markdown(part, "content")),
    "webhooks": (webhooks.adapter(), of_commonmark),
}


def live_in(adapter: Adapter, look: Looks, text: str) -> list[str]:
    made = defused(text, allowed, has_code=adapter.capabilities.has_code)
    return [shown for part in adapter.render(Outbound(made)) for shown in look(part) if EVIL.search(shown)]


@pytest.mark.parametrize("platform", PLATFORMS)
@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=14).map("".join))
@example("1. a\n\n   ```\n   b\n\nc\n\n```\nhttps://attacker.test\n```")
@example("`a\nhttps://attacker.test`")
@example(">     https://attacker.test/?d=S")
@example("attacker.*test")
@example("|\n---\n<ps:attacker.test|>")
@example("*attacker&#46;test!")
@example("attacker.\\_test")
@example("看attacker.~test")
def test_nothing_that_is_not_allowed_is_live_anywhere(platform: str, text: str) -> None:
    adapter, look = PLATFORMS[platform]
    assert live_in(adapter, look, text) == []


def test_the_look_finds_what_is_live() -> None:
    for adapter, look in PLATFORMS.values():
        for text in ("https://attacker.test/x", "[a](https://attacker.test)", "*attacker.test*"):
            assert any(EVIL.search(one) for part in adapter.render(Outbound(text)) for one in look(part)), text


@pytest.mark.parametrize(
    "text",
    [
        "a." * 30_000,
        "a@" * 30_000,
        "https://a." * 6_000,
        "[a.test](https://a.test/) " * 2_500,
        "*a*.test " * 6_000,
        "![a](https://b.test) " * 2_500,
        "a.test" + ")]" * 25_000,
        "看a.test" * 6_000,
        "[a](" * 15_000,
        "|a|b|\n|-|-|\n" + "|a.test|b.test|\n" * 2_000,
    ],
    ids=lambda text: text[:12],
)
def test_long_texts_take_a_short_time(text: str) -> None:
    with cpu_within(2):
        defused(text, lambda _: False)
