from __future__ import annotations

import ast
import re
import string
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

import pytest

from gateway.phrases import LANGUAGES, language_of, phrases, say

ROOT: Final = Path(__file__).parents[2]
NAMES: Final = {"deskmate"}
"""Said in every language alike."""


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def test_a_phrase_is_said_in_the_language_asked_for() -> None:
    assert say("turn.stopped", "en") == "Stopped."
    assert say("turn.stopped", "zh") == "已停止。"
    assert say("turn.stopped", "fr") == "Stopped."
    assert say("turn.stopped") == "Stopped."
    assert say("step.tool_done", "zh", name="{web_fetch}") == "已运行 {web_fetch}"


def test_an_unknown_phrase_or_a_missing_value_is_our_mistake() -> None:
    with pytest.raises(KeyError, match=r"turn\.nothing"):
        say("turn.nothing", "en")
    with pytest.raises(KeyError, match="reference"):
        say("turn.failed", "en")


@pytest.mark.parametrize(
    ("profile", "locale", "language"),
    [
        (None, None, "en"),
        (None, "zh-CN", "zh"),
        (None, "ZH_tw", "zh"),
        (None, "zha", "en"),
        (None, "de", "en"),
        ("en", "zh-CN", "en"),
        ("zh", "en-GB", "zh"),
    ],
)
def test_the_profile_chooses_the_language_else_the_platform(
    profile: str | None, locale: str | None, language: str
) -> None:
    assert language_of(profile, locale) == language


def test_both_languages_hold_the_same_phrases_with_the_same_placeholders() -> None:
    english, chinese = phrases("en"), phrases("zh")
    assert english.keys() == chinese.keys()
    assert {key: placeholders(text) for key, text in english.items()} == {
        key: placeholders(text) for key, text in chinese.items()
    }


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_catalogue_is_sorted_one_line_a_phrase(language: str) -> None:
    lines = (ROOT / f"gateway/phrases/{language}.yaml").read_text(encoding="utf-8").splitlines()
    keys = [line.partition(":")[0] for line in lines]
    assert keys == sorted(set(keys))
    for line in lines:
        assert re.fullmatch(r'[a-z_]+(\.[a-z_]+)+: "[^"\\]*(\\.[^"\\]*)*"', line), line


def test_chinese_phrases_are_chinese() -> None:
    for key, text in phrases("zh").items():
        said = re.sub(r"\{\w+\}", "", text)
        if text != phrases("en")[key]:
            assert re.search(r"[\u4e00-\u9fff]", said), f"{key}: {text}"


# ---- nothing is said to people that is not in the catalogue ----

SPOKEN: Final = {"Outbound": "markdown", "Done": "text", "notice": "text"}
"""What is handed to people: a call's name, and the argument (its first) which they read."""


def has_words(text: str) -> bool:
    bare = re.sub(r"\{\{.*?\}\}|\$\{[^}]*\}|<[^>]*>|&#?\w+;|https?://\S+", " ", text, flags=re.DOTALL)
    return any(character.isalpha() for character in bare) and bare.strip() not in NAMES


def said_in_python(source: str) -> Iterator[tuple[int, str]]:
    """Text with words that reaches people without the catalogue: as it stands, or by way of a name in the same file."""
    tree = ast.parse(source)
    named: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    named.setdefault(target.id, []).append(node.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            named.setdefault(node.target.id, []).append(node.value)

    def texts(value: ast.expr, seen: frozenset[str] = frozenset()) -> Iterator[str]:
        match value:
            case ast.Constant(value=str(text)):
                yield text
            case ast.JoinedStr(values=parts):
                for part in parts:
                    yield from texts(part.value if isinstance(part, ast.FormattedValue) else part, seen)
            case ast.BinOp(left=left, right=right):
                yield from texts(left, seen)
                yield from texts(right, seen)
            case ast.IfExp(body=body, orelse=orelse):
                yield from texts(body, seen)
                yield from texts(orelse, seen)
            case ast.BoolOp(values=parts) | ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    yield from texts(part, seen)
            case ast.Call(func=ast.Attribute(value=text, attr="format" | "join" | "strip" | "replace"), args=parts):
                yield from texts(text, seen)
                for part in parts:
                    yield from texts(part, seen)
            case ast.Name(id=name) if name not in seen:
                for other in named.get(name, ()):
                    yield from texts(other, seen | {name})

    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in SPOKEN:
            spoken = [*node.args[:1], *(given.value for given in node.keywords if given.arg == SPOKEN[called])]
            yield from ((node.lineno, text) for value in spoken for text in texts(value) if has_words(text))


class _Page(HTMLParser):
    """Words in a page: its text, and the attributes that people see or hear."""

    HEARD: Final = {"alt", "aria-description", "aria-label", "aria-roledescription", "placeholder", "title"}

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[int, str]] = []
        self.silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.silent += tag in {"script", "style"}
        is_button = tag in {"button", "input"} and ("type", "text") not in attrs
        for name, value in attrs:
            heard = name in self.HEARD or (name == "value" and is_button and ("type", "hidden") not in attrs)
            if heard and value and has_words(value):
                self.found.append((self.getpos()[0], value))

    def handle_endtag(self, tag: str) -> None:
        self.silent -= tag in {"script", "style"}

    def handle_data(self, data: str) -> None:
        if not self.silent and has_words(data):
            self.found.append((self.getpos()[0], data.strip()))


def said_in_page(source: str) -> list[tuple[int, str]]:
    page = _Page()
    page.feed(re.sub(r"\{[%#].*?[%#]\}", lambda found: re.sub(r"[^\n]", " ", found[0]), source, flags=re.DOTALL))
    page.close()
    return page.found


_SHOWN = re.compile(
    r"""(?:\b(?:textContent|innerText|innerHTML|placeholder|title|ariaLabel|alt)\s*\+?=\s*
         |setAttribute\(\s*["'](?:aria-label|aria-description|title|placeholder|alt)["']\s*,\s*
         |\b(?:alert|confirm|prompt|append|prepend|replaceChildren|createTextNode|insertAdjacentText)\(\s*
        )(["'`])((?:\\.|(?!\1).)*)\1""",
    re.VERBOSE | re.DOTALL,
)


def said_in_script(source: str) -> Iterator[tuple[int, str]]:
    for found in _SHOWN.finditer(source):
        if has_words(found[2]):
            yield source.count("\n", 0, found.start()) + 1, found[2]


def test_nothing_is_said_to_people_outside_the_catalogue() -> None:
    found: list[str] = []
    for folder in ("gateway", "workers"):
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix not in {".py", ".html", ".js", ".mjs"} or "cli" in file.parts:
                continue
            if file.name.endswith(".min.js"):
                continue  # not ours
            source = file.read_text(encoding="utf-8")
            finder = {".py": said_in_python, ".html": said_in_page}.get(file.suffix, said_in_script)
            found += [f"{file.relative_to(ROOT)}:{line}: {text!r}" for line, text in finder(source)]
    assert found == []


def phrases_by_key() -> Iterator[tuple[str, ast.Call]]:
    for folder in ("gateway", "workers"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Name)
                    and node.func.id in {"say", "Ended"}
                    and node.args
                ):
                    yield f"{file.relative_to(ROOT)}:{node.lineno}", node


def test_what_is_said_by_key_is_in_the_catalogue_and_gets_its_values() -> None:
    english = phrases("en")
    wrong: list[str] = []
    for place, call in phrases_by_key():
        key = call.args[0]
        if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
            continue
        given = {one.arg for one in call.keywords}
        if key.value not in english:
            wrong.append(f"{place}: there is no phrase {key.value!r}")
        elif None not in given and given != placeholders(english[key.value]):
            wrong.append(f"{place}: {key.value!r} wants {sorted(placeholders(english[key.value]))}")
    assert wrong == []


@pytest.mark.parametrize(
    "planted",
    [
        'Outbound("Stopped.")',
        'Outbound(markdown="已停止")',
        "Outbound(f'{name} stopped')",
        'platforms.Outbound(say("a", "en") + " and more")',
        'Outbound("Sorry" if broken else say("a", "en"))',
        'Outbound(text or "nothing")',
        'Outbound("Wait {s} seconds".format(s=3))',
        'SORRY = "Sorry"\ndef f(): return Outbound(SORRY, is_notice=True)',
        'def f():\n    text = "Sorry"\n    return Done(text)',
        'await self.notice("Sorry")',
    ],
)
def test_planted_words_in_python_are_found(planted: str) -> None:
    assert list(said_in_python(planted))


@pytest.mark.parametrize(
    "right",
    [
        'Outbound(say("turn.stopped", language), is_notice=True)',
        "Outbound(f\"{text}\\n\\n{say('turn.cut', language)}\")",
        'Outbound(answer.text or "…")',
        'log(logger, "sorry")',
        'raise Malformed("Sorry")',
    ],
)
def test_what_comes_from_the_catalogue_or_goes_elsewhere_is_let_through(right: str) -> None:
    assert list(said_in_python(right)) == []


def test_planted_words_in_pages_are_found() -> None:
    planted = (
        "<title>{{ chat.title }}</title>\n<p>Hello</p>\n<input placeholder='Type here'>\n"
        "<button aria-label='{{chat.send}}'>{{ chat.send }}</button>\n<script>let hello = 1</script>\n<h1>deskmate</h1>"
    )
    assert said_in_page(planted) == [(2, "Hello"), (3, "Type here")]


def test_planted_words_in_scripts_are_found() -> None:
    planted = (
        "button.textContent = phrases['chat.send'];\nlabel.textContent = 'Send';\nalert(`Sorry, ${name}`);\n"
        "box.append(`${a} · ${b}`);\nbox.setAttribute('aria-label', \"Close\");\nbox.className = 'open';\n"
    )
    assert [line for line, _ in said_in_script(planted)] == [2, 3, 5]
