"""The rehearsal: no model, but a fixed way to answer, so that all the rest can be tried offline and for nothing.

It follows the list of skills by its words, loads the one that the message comes closest to, fetches the page that the
message names, and says what it did. Where the message has lines `CALL tool {json}` it makes these calls and nothing else. A pure function of the request: the same request has the same answer.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from config.settings import ModelSettings
from gateway.phrases import say
from workers.agent import rehearsed
from workers.models import Answer, Request, TextDelta, Usage

THRESHOLD: Final = 1.0
"""One word in common that is not an everyday one."""
LINES_SHOWN: Final = 3

_INDEX_LINE: Final = re.compile(r"^- \*\*(?P<id>.+?)\*\*(?:: (?P<description>.*))?$", re.MULTILINE)
_URL: Final = re.compile(r"https?://[^\s<>\"'`|（）()，。；、！？]+[^\s<>\"'`|（）()，。；、！？.,;:!?\]}*]")
_CJK: Final = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD: Final = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+")
_HYPHENATED: Final = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)+")
"""Which somebody else writes as one word."""
_PIECE: Final = re.compile(rf"[{_CJK}]{{1,4}}|[^\s{_CJK}]+\s*|\s+")
_SENTENCE: Final = re.compile(r"[^.!?。！？]+[.!?。！？]*")
_TIME_ASKED: Final = re.compile(
    r"what time|which time|time is it|the time|what day|which day|what date|today's date|几点|时间|几号|星期几|日期",
    re.IGNORECASE,
)
_EVERYDAY: Final = frozenset(
    re.findall(
        r"\S+",
        "a about after all also am an and answer any are as ask at be been before but by can could did do does file "
        "first for from get give had has have hello help her here him his how i if in into is it its just know last "
        "let like line list make me more my name need no not now of on one or our out over please question right say "
        "sentence she should skill so some tell text than thank thanks that the their them then there these they "
        "thing this title those to too up use user using want was way we were what when where whether which who why "
        "will with word would wrong yes you your "
        "一下 一个 什么 怎么 可以 帮我 帮忙 请你 这个 那个 我们 你们 他们 如何 这样 那样 为什 没有 是否 需要 使用 用户",
    )
)
_EVERYDAY_FORMS: Final = frozenset(
    form for word in _EVERYDAY for form in (*(word + end for end in ("", "s", "ed", "ing", "d")), f"{word[:-1]}ing")
)
"""As they are said; stems would take more with them, such as notes with not."""
_OF_READING: Final = frozenset(
    re.findall(
        r"\S+",
        "browse fetch http https internet link look online open page read site url visit web webpage website "
        "网页 网址 链接 打开 读取 阅读 网站 上网",
    )
)
"""Words that a message with an address in it brings along whatever it is about: they count little."""


def open_model(settings: ModelSettings) -> Rehearsal:  # noqa: ARG001 - every model is opened like this
    return Rehearsal()


class Rehearsal:
    """The model that is none."""

    label: str | None = "rehearsal"

    def __init__(self, delay_s: float = 0.0) -> None:
        """`delay_s` is the pause before each piece of text."""
        self._delay_s = delay_s

    async def stream(self, request: Request) -> AsyncIterator[TextDelta | Answer]:
        scene = _Scene.of(request)
        planned = rehearsed.answer(request.system, scene.question, scene.language)
        call = None if planned else scene.next_call()
        usage = Usage(input_tokens=len(json.dumps([request.system, request.messages, request.tools])) // 4)
        if call:
            yield Answer([call], "tool_use", usage, request.model)
            return
        text = planned or scene.reply()
        for piece in _PIECE.findall(text):
            await asyncio.sleep(self._delay_s)
            yield TextDelta(piece)
        usage = Usage(usage.input_tokens, len(text) // 4 + 1)
        yield Answer([{"type": "text", "text": text}], "end_turn", usage, request.model)

    async def check(self) -> str:
        return "rehearsal: offline and scripted, no model is asked"

    async def close(self) -> None:
        return


@dataclass(frozen=True, slots=True)
class _Use:
    """A tool call of the conversation, and what came of it."""

    name: str
    input: Mapping[str, Any]
    result: str
    failed: bool


@dataclass(slots=True)
class _Scene:
    """What a request says about the conversation."""

    request: Request
    question: str = ""
    """What a person said last."""
    uses: list[_Use] = field(default_factory=list)
    begin: int = 0
    """How many of `uses` lie before this turn."""
    guidance: list[str] = field(default_factory=list)
    told: str = ""
    """What others of the turn found, as it was told last."""

    @property
    def language(self) -> str:
        return "zh" if re.search(f"[{_CJK}]", self.question) else "en"

    @classmethod
    def of(cls, request: Request) -> _Scene:
        scene = cls(request)
        calls: dict[str, Any] = {}
        for message in request.messages:
            blocks = _blocks(message)
            if message["role"] == "assistant":
                calls = {block["id"]: block for block in blocks if block["type"] == "tool_use"}
                scene.begin = scene.begin if calls else len(scene.uses)
                continue
            has_loaded = False
            for block in blocks:
                if block["type"] == "tool_result" and block["tool_use_id"] in calls:
                    call = calls[block["tool_use_id"]]
                    failed = bool(block.get("is_error"))
                    scene.uses.append(_Use(call["name"], call["input"], _plain(block.get("content", "")), failed))
                    if not failed and "skill" in call["name"]:
                        has_loaded = True
                        scene.guidance += _enclosed(scene.uses[-1].result)
                elif block["type"] == "text" and has_loaded and _is_guidance(block["text"]):
                    # Only what follows a load directly: anybody may write a message that looks like it.
                    scene.guidance.append(block["text"])
                    has_loaded = False
                elif block["type"] == "text" and rehearsed.is_told(block["text"]):
                    scene.told = block["text"]
                    scene.question = rehearsed.task_in(scene.told) or scene.question
                elif block["type"] == "text" and not re.fullmatch(r"\(.*\)", block["text"], re.DOTALL):
                    scene.question = re.sub(r"^\[[^\]\n]{1,80}\] ", "", block["text"])
        return scene

    def next_call(self) -> dict[str, Any] | None:
        """The tool_use block to answer with, or none if all is done that can be."""
        if orders := rehearsed.orders(self.question):
            left = (one for one in orders if not self._was_obeyed(one))
            return next((self._made(one.tool, one.arguments) for one in left), None)
        skill = self._skill()
        load = _tool(self.request.tools, "load", "skill")
        if skill and load and not self._is_loaded(load, skill) and not self._tried(load, skill):
            return self._call(load, skill)
        fetch = _tool(self.request.tools, "fetch", "page|url|web")
        url = self._url()
        if fetch and url and not self._tried(fetch, url):
            return self._call(fetch, url)
        clock = _tool(self.request.tools, "time|clock", "current|now|clock")
        if clock and _TIME_ASKED.search(self.question) and not clock["input_schema"].get("required"):
            return None if self._tried(clock, None) else self._call(clock, None)
        return None

    def reply(self) -> str:
        """What to say when there is nothing more to do."""
        language = self.language
        orders = rehearsed.orders(self.question)
        skill, url = (None, None) if orders else (self._skill(), self._url())
        load = _tool(self.request.tools, "load", "skill")
        parts = []
        if skill and load and self._is_loaded(load, skill):
            parts.append(say("rehearsal.skill", language, skill=skill, sentence=self._sentence(skill)))
        for use in self.uses[self.begin :]:
            if use.failed:
                parts.append(say("rehearsal.failed", language, tool=use.name, reason=_first_lines(use.result, 1)))
            elif url and url in use.input.values():
                lines = "\n".join(f"> {line}" for line in _first_lines(use.result, LINES_SHOWN).split("\n"))
                parts.append(say("rehearsal.page", language, url=url, lines=lines))
            elif not use.input or any(one.tool == use.name for one in orders):
                parts.append(say("rehearsal.found", language, tool=use.name, lines=_first_lines(use.result, 2)))
        if url and not self.told and not _tool(self.request.tools, "fetch", "page|url|web"):
            parts.append(say("rehearsal.no_fetch", language, url=url))
        parts += rehearsed.found_in(self.told, _first_lines, language)
        if not parts:
            parts.append(say("rehearsal.echo", language, text=" ".join(self.question.split())[:200]))
        return "\n\n".join([f"[rehearsal] {say('rehearsal.lead', language)}", *parts])

    def _skill(self) -> str | None:
        """The skill whose id and description have most in common with the question."""
        system = "\n".join(block.get("text", "") for block in self.request.system)
        entries = [(match["id"], match["description"] or "") for match in _INDEX_LINE.finditer(system)]
        asked = _words(_URL.sub(_host, self.question))
        if _URL.search(self.question):
            asked |= _stems(_OF_READING)
        words = {id_: (_words(id_), _words(description)) for id_, description in entries}
        spread = Counter(word for own, more in words.values() for word in own | more)
        best = (THRESHOLD, -1.0)
        chosen = None
        for id_, (own, more) in words.items():
            common = asked & (own | more)
            weak = min(0.25 * len(common & _stems(_OF_READING)), 1.0)
            strong = sum(_weight(word, own) / spread[word] for word in common - _stems(_OF_READING))
            if (strong + weak, weak) > best:
                best, chosen = (strong + weak, weak), id_
        return chosen

    def _url(self) -> str | None:
        """The address that the question names, else one in the body of the skill that fits it."""
        skill = self._skill()
        texts = [self.question, *([self._body(skill)] if skill else [])]
        return next((found[0] for text in texts if (found := _URL.search(text))), None)

    def _body(self, skill: str) -> str:
        """The newest text of this skill in the conversation, without the paragraph that introduces it."""
        name = re.compile(rf"(?<![\w/-]){re.escape(skill)}(?![\w/-])")
        heads = [text.partition("\n\n") for text in self.guidance]
        return next((body for lead, _, body in reversed(heads) if name.search(lead)), "")

    def _sentence(self, skill: str) -> str:
        """The sentence of the body that has most to do with the question; the first of those."""
        asked = _words(self.question)
        sentences = list(_sentences(self._body(skill)))
        return max(sentences, key=lambda one: len(asked & _words(one)), default="…")

    def _tried(self, tool: Mapping[str, Any], value: str | None) -> bool:
        """Whether this turn has made this call already, whatever came of it: nothing is tried twice."""
        return any(use.name == tool["name"] and _fits(use, value) for use in self.uses[self.begin :])

    def _was_obeyed(self, order: rehearsed.Order) -> bool:
        return any(use.name == order.tool and use.input == order.arguments for use in self.uses[self.begin :])

    def _is_loaded(self, tool: Mapping[str, Any], skill: str) -> bool:
        """Whether the conversation, as far as it is sent, has loaded this skill."""
        return any(use.name == tool["name"] and _fits(use, skill) and not use.failed for use in self.uses)

    def _call(self, tool: Mapping[str, Any], value: str | None) -> dict[str, Any]:
        return self._made(tool["name"], {} if value is None else {_argument(tool): value})

    def _made(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        # Ids must differ within a conversation and be the same for the same request.
        seed = json.dumps([name, arguments, len(self.uses), self.question]).encode()
        id_ = "toolu_rehearsal_" + hashlib.sha256(seed).hexdigest()[:16]
        return {"type": "tool_use", "id": id_, "name": name, "input": dict(arguments)}


def _tool(tools: Sequence[Mapping[str, Any]], *words: str) -> Mapping[str, Any] | None:
    """The first tool whose name and description say all of `words` (each of them a choice)."""
    for tool in tools:
        text = f"{tool['name']} {tool.get('description', '')}".replace("_", " ").lower()
        if all(re.search(rf"\b(?:{word})", text) for word in words) and re.search("|".join(words), tool["name"]):
            return tool
    return None


def _argument(tool: Mapping[str, Any]) -> str:
    schema = tool["input_schema"]
    return str(next(iter([*schema.get("required", []), *schema.get("properties", {})]), "input"))


def _fits(use: _Use, value: str | None) -> bool:
    return value in use.input.values() if value is not None else not use.input


def _blocks(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _plain(content: str | Sequence[Mapping[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(block.get("text", "")) for block in content)


def _enclosed(result: str) -> list[str]:
    """The text of a skill that stands in a result, as it would stand in a message."""
    found = re.search(r"(?:^|\n)([^\n]*)\n<skill name=\"[^\"\n]*\">\n(.*)\n</skill>", result, re.DOTALL)
    return [f"{found[1]}\n\n{found[2]}"] if found and _is_guidance(found[1]) else []


def _is_guidance(text: str) -> bool:
    first = text.partition("\n")[0].casefold()
    return "guidance" in first and "skill" in first


def _first_lines(text: str, count: int) -> str:
    """The first lines that say something, without the marks of text from outside and the `Name: value` lines on top."""
    text = re.sub(r"^</?data\b.*\n?", "", text, flags=re.MULTILINE)
    head, _, rest = text.partition("\n\n")
    if rest.strip() and all(re.match(r"\w+: ", line) for line in head.split("\n")):
        text = rest
    lines = [line.strip()[:200] for line in text.split("\n") if line.strip()]
    return "\n".join(lines[:count])


def _sentences(body: str) -> Iterable[str]:
    in_code = False
    for line in body.split("\n"):
        if re.match(r"\s*(?:```|~~~)", line):
            in_code = not in_code
        elif not in_code and not re.match(r"\s*(?:#|\||---|<)", line):
            text = re.sub(r"^\s*(?:[-*+>]|\d+[.)])\s+", "", line)
            yield from (one for part in _SENTENCE.findall(text) if len(one := part.strip()) > 3)


def _host(url: re.Match[str]) -> str:
    return " ".join(re.findall(r"[^\W\d_]{4,}", url[0].split("/")[2]))


def _words(text: str) -> frozenset[str]:
    """Stems of words; pairs of neighbouring characters where a script has no blanks. Everyday words are left out."""
    found: set[str] = set()
    for run in _WORD.findall(text.casefold()):
        if re.match(f"[{_CJK}]", run):
            found.update(run[at : at + 2] for at in range(max(len(run) - 1, 1)))
        else:
            found.add(run)
    found.update(joined.replace("-", "") for joined in _HYPHENATED.findall(text.casefold()))
    return _stems(found - _EVERYDAY_FORMS)


def _stems(words: Iterable[str]) -> frozenset[str]:
    return frozenset(re.sub(r"(?:ing|ed|e)$", "", re.sub(r"(?<=[^\Ws]..)s$", "", word)) or word for word in words)


def _weight(word: str, own: frozenset[str]) -> float:
    """A word of the id says more than one of the description, a pair of characters less than a word."""
    return (2.0 if word in own else 1.0) * (0.5 if re.match(f"[{_CJK}]", word) else 1.0)
