"""Targets: each reads bytes as one reader of ours does, lets pass how that reader may refuse, and says what must hold."""

from __future__ import annotations

import asyncio
import json
import posixpath
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import replace
from datetime import UTC
from ipaddress import ip_address
from typing import Any, Final, cast
from urllib.parse import urlencode

import httpx2
from multidict import CIMultiDict

from config.settings import ModelSettings, WebFetchSettings
from gateway.commands import command_of, find, said_to_model
from gateway.conversation.key import ConversationKey
from gateway.conversation.records import Record
from gateway.events import Actor, Event
from gateway.net import Fetcher, NotFetched, is_public
from gateway.platforms import Malformed, RawRequest, Unauthorized, webchat
from gateway.text import markdown, mrkdwn
from gateway.text.dialect import rich
from gateway.text.links import defused
from gateway.text.unmarked import plain
from gateway.text.urls import place_of
from gateway.wire import object_of, read_json, text_of
from gateway.workspace import path_fault
from skills import arguments, document, ids, schemas, zips
from skills.bundles import BrokenBundle
from tests.gateway.platforms import (
    test_discord,
    test_feishu,
    test_slack,
    test_standard_webhooks,
    test_telegram,
    test_wecom,
)
from tests.gateway.platforms.hostile import can_be_kept
from workers.agent.answers import Growing
from workers.models import ModelError
from workers.models.anthropic import AnthropicModel, _answer

Target = Callable[[bytes], None]
NOW_S: Final = 1_760_000_000.0
WHERE: Final = ConversationKey("c", "room", "t")


def text_in(raw: bytes) -> str:
    """As it may come out of JSON, half surrogate pairs among it."""
    return (
        raw.decode("utf-8", "surrogatepass" if b"\xed" in raw else "replace")
        if _is_text(raw)
        else raw.decode("latin-1")
    )


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def valid_text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


# ---- platforms: proven bodies ----


def _parsed(adapter: Any, request: RawRequest) -> None:
    with suppress(Malformed):
        if adapter.handshake(request) is None:
            events = adapter.parse(request, NOW_S)
            assert can_be_kept(events)
            for one in events:
                _commanded(one)
            adapter.acknowledge(events)


_TELEGRAM: Final = test_telegram.adapter()
_SLACK: Final = test_slack.adapter()
_DISCORD: Final = test_discord.adapter(test_discord.AGENT)
_FEISHU: Final = test_feishu.adapter()
_WECOM: Final = test_wecom.adapter()
_WECOM_APP: Final = test_wecom.app()
_BRIDGE: Final = test_standard_webhooks.adapter()
_PAGE: Final = webchat.Adapter(
    "chat", webchat.Settings(), cast("Any", type("Nowhere", (), {"feed": None, "files": None}))
)


_SIGNED: Final = {"X-Slack-Signature": "v0=1", "X-Slack-Request-Timestamp": "1760000000"}


def telegram(raw: bytes) -> None:
    _parsed(_TELEGRAM, test_telegram.request(raw))


def slack(raw: bytes) -> None:
    _parsed(_SLACK, test_slack.request(raw, headers=_SIGNED))
    _parsed(_SLACK, test_slack.request(raw, test_slack.FORM, headers=_SIGNED))
    _parsed(_SLACK, test_slack.request(urlencode({"payload": raw}).encode(), test_slack.FORM, headers=_SIGNED))


def discord(raw: bytes) -> None:
    _parsed(_DISCORD, test_discord.request(raw, headers={}))
    with suppress(Malformed):
        told = read_json(raw)
        assert can_be_kept(_DISCORD.heard(text_of(told.get("t")), object_of(told.get("d")), NOW_S))


def feishu(raw: bytes) -> None:
    _parsed(_FEISHU, test_feishu.request(raw))


def wecom(raw: bytes) -> None:
    _parsed(_WECOM, test_wecom.request(valid_text(raw)))
    with suppress(Unauthorized):
        _parsed(_WECOM_APP, test_wecom.request(valid_text(raw), receive_id="ww1"))


def standard_webhooks(raw: bytes) -> None:
    _parsed(_BRIDGE, test_standard_webhooks.request(raw, headers={"webhook-id": "msg_1"}))


def page(raw: bytes) -> None:
    """What the page sends has been read before (`gateway.web.chat`): its fields are there, whatever is in them."""
    with suppress(Malformed):
        assert can_be_kept(_PAGE.parse(RawRequest("POST", "/chat/messages", {}, CIMultiDict(), raw), NOW_S))


# ---- platforms: proof ----

_DOORS: Final[dict[str, tuple[Any, tuple[str, ...]]]] = {
    "telegram": (_TELEGRAM, ("X-Telegram-Bot-Api-Secret-Token",)),
    "slack": (_SLACK, ("X-Slack-Signature", "X-Slack-Request-Timestamp")),
    "discord": (_DISCORD, ("X-Signature-Ed25519", "X-Signature-Timestamp")),
    "feishu": (
        test_feishu.adapter(test_feishu.KEY),
        ("X-Lark-Signature", "X-Lark-Request-Timestamp", "X-Lark-Request-Nonce"),
    ),
    "wecom": (_WECOM, ("msg_signature", "timestamp", "nonce")),
    "standard_webhooks": (_BRIDGE, ("webhook-signature", "webhook-timestamp", "webhook-id")),
}


def signature(raw: bytes) -> None:
    """Lines: proofs, then the body. Nothing that chance writes is proven."""
    parts = raw.split(b"\n", 3)
    proofs = [part.decode("latin-1") for part in parts[:3]] + [""] * 3
    body = parts[-1]
    for name, (adapter, names) in _DOORS.items():
        told = dict(zip(names, proofs, strict=False))
        headers = CIMultiDict({**told, "Content-Type": "application/json"})
        query = told if name == "wecom" else {}
        request = RawRequest("POST", f"/webhooks/{name}", query, headers, body)
        try:
            adapter.verify(request, NOW_S)
        except (Unauthorized, Malformed):
            continue
        raise AssertionError(f"{name} takes it for proven")


# ---- skills ----


def skill_md(raw: bytes) -> None:
    with suppress(document.BrokenSkill):
        read = document.parse(raw, "name")
        assert read.description
        json.dumps(read.description).encode()
        document.body_of(raw)


def schema(raw: bytes) -> None:
    with suppress(schemas.BrokenSchema):
        read = schemas.read(raw)
        arguments.fit(read.arguments, {}, UTC)


_SCHEMAS: Final = tuple(
    schemas.read(json.dumps({"properties": properties, **more}).encode()).arguments
    for properties, more in (
        (
            {
                "name": {"type": "string", "maxLength": 20, "pattern": "^[a-z]+$"},
                "count": {"type": "integer", "default": 1},
            },
            {},
        ),
        (
            {"when": {"type": "string", "format": "date"}, "yes": {"type": "boolean"}, "x": {"type": "number"}},
            {"required": ["when"]},
        ),
        (
            {
                "many": {"type": "array", "items": {"type": "integer"}, "maxItems": 5},
                "in": {"type": "object", "properties": {"a": {"type": "string"}}},
            },
            {},
        ),
        ({"any": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "one": {"enum": ["a", 1, None]}}, {}),
    )
)


def tool_arguments(raw: bytes) -> None:
    """As a model wrote them, for several schemas."""
    try:
        given = json.loads(raw)
    except (ValueError, RecursionError):
        return
    if not isinstance(given, dict):
        return
    for one in _SCHEMAS:
        fitted = arguments.fit(one, given, UTC)
        if not fitted.faults:
            schemas.validator(one).validate(fitted.values)
        for fault in fitted.faults:
            fault.encode()


def bundle(raw: bytes) -> None:
    with suppress(BrokenBundle):
        for path in zips.from_zip(raw, "a.zip").files:
            _stays_inside(path)


# ---- names, paths, addresses ----


def path(raw: bytes) -> None:
    named = text_in(raw)
    if path_fault(named) is None:
        _stays_inside(named)
    if ids.fault(named) is None:
        _stays_inside(named)
    ids.key(named)
    ids.skeleton(named)


def _stays_inside(named: str) -> None:
    assert not named.startswith("/")
    assert "\0" not in named
    assert "\\" not in named
    assert posixpath.normpath(posixpath.join("/room", named)).startswith("/room/")
    named.encode()


_FETCHER: Final = Fetcher(WebFetchSettings())


def url(raw: bytes) -> None:
    named = text_in(raw)
    place_of(named)
    with suppress(NotFetched):
        found = _FETCHER.checked(named)
        assert found.scheme in {"http", "https"}
        assert found.raw_host
        assert not found.user
        assert not found.password
        assert found.port in {80, 443}
        str(found).encode("ascii")
        again = _FETCHER.checked(str(found))
        assert (again.scheme, again.raw_host, again.port, again.raw_path_qs) == (
            found.scheme,
            found.raw_host,
            found.port,
            found.raw_path_qs,
        ), "read again it is another address"
        _FETCHER._target(found, named)


def address(raw: bytes) -> None:
    """Four or sixteen bytes as a name server may give them: nothing of our own networks is public."""
    if len(raw) in {4, 16}:
        found = ip_address(raw)
        if is_public(found):
            assert not any((found.is_private, found.is_loopback, found.is_link_local, found.is_multicast))


# ---- texts ----


def split(raw: bytes) -> None:
    if not raw:
        return
    limit, text = 16 + raw[0], text_in(raw[1:])
    for measure in (markdown.chars, markdown.utf16):
        pieces = markdown.split(text, limit, measure)
        assert "".join(piece.text for piece in pieces) == text
        assert all(measure(str(piece)) <= limit for piece in pieces)


def link_defuser(raw: bytes) -> None:
    text = text_in(raw)
    made = defused(text, lambda _: False)
    defused(text, None)
    defused(text, lambda _: False, has_code=False)
    again = defused(made, lambda _: False)
    assert defused(again, lambda _: False) == again


def written(raw: bytes) -> None:
    """Markdown as each chat wants it."""
    text = text_in(raw)
    rich(text)
    mrkdwn.write(text)
    mrkdwn.read(text, own={"U1"})
    plain(text)


# ---- what comes from the model, and from people ----

_MODEL: Final = AnthropicModel(ModelSettings(name="m"))
_LOOP: Final = asyncio.new_event_loop()


def model_stream(raw: bytes) -> None:
    async def read() -> None:
        response = httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=raw)
        growing = Growing()
        with suppress(ModelError), _MODEL._faults_named():
            async with aclosing(_MODEL._events(response)) as events:
                async for said in events:
                    growing.feed(said)
                    if growing.is_whole:
                        break
            _answer(growing)

    _LOOP.run_until_complete(read())


def press(raw: bytes) -> None:
    """A button's command, or the same typed."""
    said = Event(kind="action", conversation=WHERE, actor=Actor("u"), dedupe_keys=("d",), at_ms=0, value=text_in(raw))
    _commanded(said)
    _commanded(replace(said, kind="message", value="", text=text_in(raw)))
    _commanded(replace(said, kind="command", value="", name=text_in(raw)[:9], text=text_in(raw)[9:]))


def _commanded(said: Event) -> None:
    if named := command_of(said):
        find(named[0])
    said_to_model(said)


def event(raw: bytes) -> None:
    """As it lies in Redis."""
    with suppress(ValueError, RecursionError):
        Event.load(raw)
    Record.load_all([raw, raw])


TARGETS: Final[dict[str, Target]] = {
    one.__name__: one
    for one in (
        telegram, slack, discord, feishu, wecom, standard_webhooks, page, signature,
        skill_md, schema, tool_arguments, bundle, path, url, address,
        split, link_defuser, written, model_stream, press, event,
    )
}  # fmt: skip
