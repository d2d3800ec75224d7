"""The JSON API: each operation is an address, with a token of a program."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from aiohttp import web
from pydantic import BaseModel

from gateway.acts.outcomes import Refusal
from gateway.admin.operations import Operation, operations, status_of
from gateway.admin.visits import House
from gateway.content_types import media_type
from gateway.logs import log
from gateway.phrases import say
from gateway.platforms import Malformed
from gateway.store import Unreachable
from gateway.web.admin.door import Closed, Door
from gateway.web.admin.openapi import IDEMPOTENCY, ROOT, Problem, document, path_of
from gateway.web.admin.visiting import NotUnderstood, body_of, given, given_json, refused, rule_of, visit_of
from gateway.wire import read_json

logger = logging.getLogger(__name__)

HEADERS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_KEY: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def routes(house: House, door: Door) -> list[web.RouteDef]:
    api = Api(house, door)
    return [
        web.get(f"{ROOT}/openapi.json", api.document),
        *(
            (web.get if one.is_safe else web.post)(path_of(one), api.answered(partial(api.do, one)))
            for one in operations().values()
        ),
        *(web.route("*", path, api.nothing) for path in (ROOT, f"{ROOT}/{{rest:.*}}")),  # behind all that there is
    ]


class Api:
    def __init__(self, house: House, door: Door) -> None:
        self._house = house
        self._door = door

    async def document(self, request: web.Request) -> web.Response:
        """The same everywhere, so that nobody need be let in for it."""
        del request
        return web.json_response(document(), headers=HEADERS)

    async def nothing(self, request: web.Request) -> web.Response:
        """What no operation answers, in the form of all refusals."""
        there = {path_of(one): "GET,HEAD" if one.is_safe else "POST" for one in operations().values()}
        allowed = {**there, f"{ROOT}/openapi.json": "GET,HEAD"}.get(request.path)
        status = 405 if allowed else 404
        log(logger, "refused", path=request.path, method=request.method, status=status)
        if not allowed:
            return _problem(status, Problem(error=say("admin.closed.no_path", "en"), kind="path"))
        response = _problem(status, Problem(error=say("admin.closed.method", "en", allowed=allowed), kind="method"))
        response.headers["Allow"] = allowed
        return response

    def answered(
        self, handler: Callable[[web.Request], Awaitable[web.Response]]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        """Refusals become answers, which name the rule."""

        async def handle(request: web.Request) -> web.Response:
            try:
                return await handler(request)
            except Closed as why:
                log(logger, "refused", path=request.path, status=why.status, reason=str(why))
                response = _problem(why.status, Problem(error=say(why.phrase), kind="door"))
                if why.status == 401:
                    response.headers["WWW-Authenticate"] = "Bearer"
                return response
            except NotUnderstood as why:
                return _problem(400, Problem(error=str(why), kind="input"))
            except Refusal as why:
                return _problem(status_of(why), Problem(error=refused(why, "en"), kind=why.kind, rule=rule_of(why)))
            except Unreachable as error:
                log(logger, "redis not reachable", logging.ERROR, path=request.path, reason=str(error))
                return _problem(503, Problem(error=say("admin.away"), kind="unreachable"))

        return handle

    async def do(self, operation: Operation[Any, Any], request: web.Request) -> web.Response:
        token = await self._door.token(request)
        fields = await self._given(operation, request)
        key = request.headers.get(IDEMPOTENCY, "")
        if key and not _KEY.fullmatch(key):
            raise NotUnderstood(f"{IDEMPOTENCY}: up to 64 letters, digits, - and _")
        id_ = f"admin {token.id} {operation.name} {key} {_digest(fields)}" if key else ""
        result = await operation(await visit_of(self._house, token.caller, id_=id_), fields)
        return web.Response(body=result.model_dump_json().encode(), content_type="application/json", headers=HEADERS)

    async def _given(self, operation: Operation[Any, Any], request: web.Request) -> Any:
        if operation.is_safe:
            fields = dict(request.query)
            if len(fields) != len(request.query):
                raise NotUnderstood("a field is there twice")
            return given(operation, fields)
        if media_type(request.headers.get("Content-Type", "")) != "application/json":
            raise Closed(415, "admin.closed.json", "no JSON")
        try:
            read = read_json(await body_of(request, self._house))
        except Malformed as error:
            raise NotUnderstood(str(error)) from None
        return given_json(operation, json.dumps(read).encode())


def _digest(fields: BaseModel) -> str:
    """Of what is asked for: with the same key something else is another act."""
    return hashlib.sha256(fields.model_dump_json().encode()).hexdigest()[:32]


def _problem(status: int, problem: Problem) -> web.Response:
    headers = {**HEADERS, "Connection": "close"} if status in {413, 415} else HEADERS
    return web.Response(
        status=status, body=problem.model_dump_json().encode(), content_type="application/json", headers=headers
    )
