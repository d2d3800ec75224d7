"""Visiting: from a request to a visit and to what an operation is given, for API and pages alike."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from typing import Any

from aiohttp import web
from pydantic import ValidationError

from config.settings import Language
from gateway.admin.operations import Input, Operation
from gateway.admin.visits import Caller, House, Visit
from gateway.commands.skill import answers
from gateway.content_types import charset
from gateway.shelf.outcomes import Refusal
from gateway.text.unmarked import plain


async def form_of(request: web.Request, house: House) -> Mapping[str, str | web.FileField]:
    """The fields of a form of somebody who is signed in, within the limits of size and time. Raises `NotUnderstood`."""
    try:
        async with asyncio.timeout(house.loaded().settings.gateway.body_timeout_s):
            found = await request.post()
    except TimeoutError:
        raise NotUnderstood("the body did not come in time") from None
    except (ValueError, AssertionError):  # what a broken multipart body leads to
        raise NotUnderstood("not the form we read") from None
    return {name: one for name, one in found.items() if isinstance(one, str | web.FileField)}


async def body_of(request: web.Request, house: House) -> bytes:
    """Within the limits of size and time. Raises `NotUnderstood`."""
    if charset(request.headers.get("Content-Type", "")).lower() not in {"", "utf-8"}:
        raise NotUnderstood("the body is not in UTF-8")  # `post` would take any name that Python knows, `punycode` too
    try:
        async with asyncio.timeout(house.loaded().settings.gateway.body_timeout_s):
            return await request.read()
    except TimeoutError:
        raise NotUnderstood("the body did not come in time") from None


class NotUnderstood(Exception):
    """`str()` says for people what is wrong with what was given."""


def visit_of(house: House, caller: Caller, *, id_: str = "", language: Language = "en") -> Visit:
    id_ = id_ or f"admin {secrets.token_hex(12)}"
    return Visit(house, caller, id_, house.mailbox.now_ms(), house.loaded(), language)


def given(operation: Operation[Any, Any], fields: Mapping[str, Any]) -> Input:
    """From texts, as forms and addresses have them. Raises `NotUnderstood`."""
    try:
        made: Input = operation.input.model_validate(fields)
    except ValidationError as error:
        raise NotUnderstood(wrong(error)) from None
    return made


def given_json(operation: Operation[Any, Any], body: bytes) -> Input:
    """From JSON, in which a number is a number. Raises `NotUnderstood`."""
    try:
        made: Input = operation.input.model_validate_json(body, strict=True)
    except ValidationError as error:
        raise NotUnderstood(wrong(error)) from None
    return made


def wrong(error: ValidationError) -> str:
    told = [
        f"{'.'.join(map(str, one['loc'])) or 'the whole'}: {one['msg']}" for one in error.errors(include_input=False)
    ]
    return "; ".join(told)


def refused(refusal: Refusal, language: Language) -> str:
    """In the words of the chat."""
    return plain(answers.refused(refusal, language))


def rule_of(refusal: Refusal) -> str:
    return str(refusal.values.get("rule", ""))
