"""Visiting: from a request to a visit and to what an operation is given, for API and pages alike."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import BodyPartReader, web
from aiohttp.http_exceptions import HttpProcessingError
from pydantic import ValidationError

from config.settings import Language
from gateway import content_types
from gateway.acts import answers
from gateway.acts.outcomes import Refusal
from gateway.admin.operations import Input, Operation
from gateway.admin.visits import Caller, House, Visit
from gateway.platforms import Malformed
from gateway.text.unmarked import plain
from gateway.wire import read_form

FIELDS_MAX: Final = 100
_AS_IT_IS: Final = {"", "7bit", "8bit", "binary"}


@dataclass(frozen=True, slots=True)
class Upload:
    """A file of a form."""

    filename: str
    body: bytes


Form = Mapping[str, str | Upload]
_FORM: Final = web.RequestKey[Form]("form", Mapping)


async def form_of(request: web.Request, house: House) -> Form:
    """The fields of a form, each once, within the limits of size and time. Raises `NotUnderstood`.

    Not by aiohttp's `post`, which decodes by whatever codec a header names, of a form or of one field: some that Python knows
    take minutes for a large body, and nothing else runs meanwhile.
    """
    if _FORM not in request:  # a body can be read once
        request[_FORM] = await _form(request, house)
    return request[_FORM]


async def _form(request: web.Request, house: House) -> Form:
    if content_types.media_type(request.headers.get("Content-Type", "")) != "multipart/form-data":
        try:
            return read_form(await body_of(request, house))
        except Malformed as why:
            raise NotUnderstood(str(why)) from None
    try:
        async with asyncio.timeout(house.loaded().settings.gateway.body_timeout_s):
            return await _fields(request)
    except TimeoutError:
        raise NotUnderstood("the body did not come in time") from None
    except (
        ValueError,
        LookupError,
        RuntimeError,
        AssertionError,
        HttpProcessingError,
    ):  # what a broken multipart body leads to
        raise NotUnderstood("not the form we read") from None


async def _fields(request: web.Request) -> Form:
    """Raises `ValueError`, and what aiohttp raises over a broken body."""
    found: dict[str, str | Upload] = {}
    left = request.client_max_size
    reader = await request.multipart()
    while (part := await reader.next()) is not None:
        if not isinstance(part, BodyPartReader) or not part.name or part.name in found or len(found) >= FIELDS_MAX:
            raise ValueError("no form of ours")
        if part.headers.get("Content-Transfer-Encoding", "").lower() not in _AS_IT_IS:
            raise ValueError("a field in another encoding")
        body = bytearray()
        while chunk := await part.read_chunk():
            body += chunk
            left -= len(chunk)
            if left < 0:
                raise web.HTTPRequestEntityTooLarge(max_size=request.client_max_size, actual_size=len(body))
        found[part.name] = Upload(part.filename, bytes(body)) if part.filename else body.decode("utf-8")
    return found


async def body_of(request: web.Request, house: House) -> bytes:
    """Within the limits of size and time. Raises `NotUnderstood`."""
    if content_types.charset(request.headers.get("Content-Type", "")).lower() not in {"", "utf-8"}:
        raise NotUnderstood("the body is not in UTF-8")  # `post` would take any name that Python knows, `punycode` too
    try:
        async with asyncio.timeout(house.loaded().settings.gateway.body_timeout_s):
            return await request.read()
    except TimeoutError:
        raise NotUnderstood("the body did not come in time") from None


class NotUnderstood(Exception):
    """`str()` says for people what is wrong with what was given."""


async def visit_of(house: House, caller: Caller, *, id_: str = "", language: Language = "en") -> Visit:
    """Raises `Unreachable`."""
    id_ = id_ or f"admin {secrets.token_hex(12)}"
    return Visit(house, await house.meets(caller), id_, house.mailbox.now_ms(), house.loaded(), language)


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
