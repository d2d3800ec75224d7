"""The JSON API: what it says of itself, and that it is so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import hypothesis
import jsonschema_rs
import pytest
import schemathesis
from schemathesis.checks import CHECKS, load_all_checks

from gateway.admin.keys import Session
from gateway.admin.operations import operations
from gateway.admin.visits import Caller
from gateway.events import Event
from gateway.web.admin.openapi import document
from tests.gateway.admin.world import ADMIN, APPROVER, MEMBER, OPERATOR, OTHER_ROOM, ROOM
from tests.gateway.commands.world import ANA
from tests.gateway.web.admin.world import Served

ROOT = "/admin/api/v1"
FEW = hypothesis.settings(
    max_examples=15,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http:
        yield http


async def ask(
    site: Served, http: aiohttp.ClientSession, method: str, path: str, token: str, **more: Any
) -> tuple[int, dict[str, Any]]:
    headers = {"Authorization": f"Bearer {token}", **more.pop("headers", {})}
    async with http.request(method, f"{site.url}{ROOT}/{path}", headers=headers, **more) as answer:
        return answer.status, await answer.json()


async def test_the_document_has_every_operation_and_is_open_to_all(site: Served, http: aiohttp.ClientSession) -> None:
    async with http.get(f"{site.url}{ROOT}/openapi.json") as answer:
        found = await answer.json()
    assert found == document()
    assert found["openapi"] == "3.1.0"
    told = {one["operationId"]: (path, method) for path, by in found["paths"].items() for method, one in by.items()}
    assert told == {
        name: (f"{ROOT}/{name.replace('.', '/')}", "get" if one.is_safe else "post")
        for name, one in operations().items()
    }
    assert not [name for name in found["components"]["schemas"] if "__" in name], "two types of one name"
    for schema in found["components"]["schemas"].values():
        jsonschema_rs.Draft202012Validator({**schema, "components": found["components"]})


async def test_a_program_does_what_its_person_may(site: Served, http: aiohttp.ClientSession) -> None:
    token = await site.token(ADMIN)
    status, told = await ask(site, http, "GET", "me/show", token)
    assert (status, told["person"]) == (200, ADMIN.person)
    off = {"channel": ROOM, "id": "triage", "to": "off"}
    status, told = await ask(site, http, "POST", "skills/switch", token, json=off)
    assert status == 200
    assert "triage" not in await site.there.world.ids()
    status, told = await ask(site, http, "POST", "skills/switch", token, json={**off, "channel": ""})
    assert (status, told["kind"]) == (403, "role")
    assert "people.owners" in told["rule"]


async def test_an_act_in_a_room_that_nobody_has_written_in_warns_of_it(
    site: Served, http: aiohttp.ClientSession
) -> None:
    token, off = await site.token(OPERATOR), {"id": "triage", "to": "off"}
    for room, warnings in (
        (ROOM, []),
        (OTHER_ROOM, [f"Nobody has written in {OTHER_ROOM} yet, as far as Redis knows."]),
        ("", []),
    ):
        status, told = await ask(site, http, "POST", "skills/switch", token, json={**off, "channel": room})
        assert (status, told["warnings"]) == (200, warnings)


async def test_a_members_token_is_refused_at_everything_that_changes_something(
    site: Served, http: aiohttp.ClientSession
) -> None:
    token = await site.token(MEMBER)
    fields = {
        "id": "triage",
        "letter": "0-1-1",
        "name": "load_skill",
        "to": "off",
        "code": site.there.kept,
        "when": "7d",
        "digits": "",
        "filename": "a.zip",
        "word": "yes",
        "person": "slack-main/U-NEW",
    }
    for name, one in operations().items():
        if not one.is_safe:
            wanted = {key: fields[key] for key in one.input.model_fields if key in fields}
            body = {**wanted, "channel": ROOM, **({"zip": "eA=="} if "zip" in one.input.model_fields else {})}
            status, told = await ask(site, http, "POST", name.replace(".", "/"), token, json=body)
            assert (status, told["kind"] in {"role", "look"}) == (403, True), name
            assert told["rule"]


@pytest.mark.parametrize("way", ["api", "page"])
@pytest.mark.parametrize("is_guest", [True, None, False])
async def test_a_guest_approves_their_own_call_by_no_way(
    site: Served, http: aiohttp.ClientSession, way: str, is_guest: bool | None
) -> None:
    """As in the chat: what the platform told of somebody holds here as well, and whom it did not tell of is no member."""
    eli = Caller("slack-main/U-ELI")
    if is_guest is not None:
        await site.there.tell_of("U-ELI", is_guest=is_guest)
    key = await site.there.ask("KQZX", requester="U-ELI")
    fields = {"channel": ROOM, "code": "KQZX", "word": "yes"}
    if way == "api":
        status, told = await ask(site, http, "POST", "approvals/decide", await site.token(eli), json=fields)
        assert (status, told.get("kind")) == ((200, None) if is_guest is False else (403, "guest"))
    else:
        async with site.browser(eli) as browser:
            [cookie] = browser.http.cookie_jar
            csrf = Session(cookie.value, eli).csrf  # no page that they get has it, their cookie does
            await browser.post("/admin/do/approvals.decide", {**fields, "csrf": csrf})
    said = [Event.load(one.partition(b":")[2]) for one in (await site.there.house.mailbox.waiting(key.id))[1]]
    assert [(one.actor.id, one.actor.is_guest) for one in said] == ([("U-ELI", False)] if is_guest is False else [])


async def test_a_guests_word_is_posted_as_that_of_a_guest(site: Served, http: aiohttp.ClientSession) -> None:
    """They are named as an approver, who may: and the conversation hears who they are."""
    await site.there.tell_of("U-LI", is_guest=True)
    key = await site.there.ask("KQZX")
    token = await site.token(APPROVER)
    fields = {"channel": ROOM, "code": "KQZX", "word": "yes"}
    assert (await ask(site, http, "POST", "approvals/decide", token, json=fields))[0] == 200
    [member] = (await site.there.house.mailbox.waiting(key.id))[1]
    actor = Event.load(member.partition(b":")[2]).actor
    assert (actor.id, actor.connection, actor.is_guest) == ("U-LI", "", True)


@pytest.mark.parametrize("is_guest", [True, None, False])
async def test_what_is_explained_of_a_guest_is_what_a_guest_may(
    site: Served, http: aiohttp.ClientSession, is_guest: bool | None
) -> None:
    there = site.there
    if is_guest is not None:
        await there.tell_of("U-ELI", is_guest=is_guest)
    asked = {"channel": ROOM, "person": "slack-main/U-ELI"}
    status, told = await ask(site, http, "GET", "explain/show", await site.token(ADMIN), params=asked)
    assert status == 200, told
    answers = {one["subject"]: one["answer"] for one in told["answers"]}
    role, own = ("member", "yes") if is_guest is False else ("guest", "no")
    assert (answers.get(role), answers["say yes to their own calls"]) == ("yes", own)
    said = await there.world.told("/why person slack-main/U-ELI", ANA)
    assert f"role {role}: yes" in said
    assert f"say yes to their own calls: {own}" in said


async def test_without_a_token_that_opens_nothing_is_told(site: Served, http: aiohttp.ClientSession) -> None:
    token = await site.token()
    for header in ({}, {"Authorization": f"Basic {token}"}, {"Authorization": "Bearer dma_x"}, {"Cookie": token}):
        for name, one in operations().items():
            address = f"{site.url}{ROOT}/{name.replace('.', '/')}"
            async with http.request("GET" if one.is_safe else "POST", address, headers=header) as answer:
                assert answer.status in {401, 429}
    await site.keys.revoke((await site.keys.tokens())[0].id)
    assert (await ask(site, http, "GET", "me/show", token))[0] in {401, 429}


@pytest.mark.parametrize(
    ("asked", "more", "status"),
    [
        ("GET channels/show", {}, 400),
        ("GET channels/show?channel=nowhere", {}, 400),
        ("GET channels/show?channel=nowhere/C1", {}, 404),
        ("GET channels/show?channel=slack-main/C1&more=1", {}, 400),
        ("GET channels/show?channel=slack-main/C1&channel=slack-main/C2", {}, 400),
        ("GET overview/show?letters=many", {}, 400),
        ("GET channels/show?channel=slack-main/C1%E2%80%AE", {}, 404),
        ("GET channels/show?channel=slack-main/C1%20", {}, 404),
        ("POST people/grant", {"json": {"channel": ROOM, "person": "slack-main/U-BO\u202e"}}, 400),
        ("POST people/grant", {"json": {"channel": ROOM, "person": "slack-main/U-BO\u3164"}}, 400),
        ("POST skills/switch", {"data": b"{"}, 415),
        ("POST skills/switch", {"data": b"{", "headers": {"Content-Type": "application/json"}}, 400),
        ("POST skills/switch", {"json": {"channel": ROOM, "id": "triage", "to": "maybe"}}, 400),
        ("POST skills/switch", {"json": {"channel": ROOM, "id": "nothing-like-it", "to": "on"}}, 404),
        ("POST skills/trust", {"json": {"channel": ROOM, "id": "triage", "digits": "zz"}}, 400),
        ("POST notes/expire", {"json": {"channel": ROOM, "code": "ABCD", "when": "soon"}}, 409),
    ],
)
async def test_what_is_not_understood_is_told_in_the_same_form(
    site: Served, http: aiohttp.ClientSession, asked: str, more: dict[str, Any], status: int
) -> None:
    method, _, path = asked.partition(" ")
    found, told = await ask(site, http, method, path, await site.token(), **more)
    assert found == status, told
    assert told["error"]
    assert told["kind"]


@pytest.mark.parametrize("asked", ["GET nothing/here", "POST me/show/", "GET ", "DELETE me"])
async def test_so_is_what_there_is_not(site: Served, http: aiohttp.ClientSession, asked: str) -> None:
    await nothing_there(site, http, asked, 404, "path")


@pytest.mark.parametrize(
    ("asked", "allow"),
    [
        ("POST me/show", "GET,HEAD"),
        ("DELETE skills/switch", "POST"),
        ("GET skills/switch", "POST"),
        ("PUT openapi.json", "GET,HEAD"),
    ],
)
async def test_so_is_another_method(site: Served, http: aiohttp.ClientSession, asked: str, allow: str) -> None:
    assert await nothing_there(site, http, asked, 405, "method") == allow


async def nothing_there(site: Served, http: aiohttp.ClientSession, asked: str, status: int, kind: str) -> str | None:
    """The methods that there are."""
    method, _, path = asked.partition(" ")
    async with http.request(method, f"{site.url}{ROOT}/{path}") as answer:
        told = await answer.json()
        assert (answer.status, told["kind"], told["rule"]) == (status, kind, "")
        assert told["error"]
        assert answer.headers["Cache-Control"] == "no-store"
        return answer.headers.get("Allow")


async def test_an_act_that_is_sent_again_with_its_key_is_done_once(site: Served, http: aiohttp.ClientSession) -> None:
    token = await site.token(ADMIN)
    off = {"channel": ROOM, "id": "triage", "to": "off"}
    for _ in range(2):
        headers = {"Idempotency-Key": "deploy-17"}
        assert (await ask(site, http, "POST", "skills/switch", token, json=off, headers=headers))[0] == 200
    assert [one.what for one in await site.there.audit()].count("skill off") == 1


async def test_with_the_same_key_something_else_is_another_act(site: Served, http: aiohttp.ClientSession) -> None:
    token, headers = await site.token(ADMIN), {"Idempotency-Key": "deploy-17"}
    for id_ in ("triage", "web-access", "triage"):
        off = {"channel": ROOM, "id": id_, "to": "off"}
        status, told = await ask(site, http, "POST", "skills/switch", token, json=off, headers=headers)
        assert (status, id_ in str(told)) == (200, True)
    done = [one.thing for one in await site.there.audit() if one.what == "skill off"]
    assert sorted(done) == ["triage", "web-access"]


async def test_a_refusal_hides_no_other_of_the_same_key(site: Served, http: aiohttp.ClientSession) -> None:
    token, headers = await site.token(MEMBER), {"Idempotency-Key": "deploy-17"}
    for id_ in ("triage", "web-access"):
        off = {"channel": ROOM, "id": id_, "to": "off"}
        assert (await ask(site, http, "POST", "skills/switch", token, json=off, headers=headers))[0] == 403
    refused = [one.thing for one in await site.there.audit() if one.what == "skill off refused"]
    assert sorted(refused) == ["triage", "web-access"]


async def test_answers_are_as_the_document_says(site: Served) -> None:
    """Whatever fits the document or nearly does: no answer is a failure, each is of a kind that the document names."""
    await asyncio.to_thread(_hunt, site.url, await site.token())


def _hunt(url: str, token: str) -> None:
    load_all_checks()
    checks: Any = CHECKS.get_by_names(
        ["not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance"]
    )
    schema = schemathesis.openapi.from_url(f"{url}{ROOT}/openapi.json")
    found: list[Any] = list(schema.get_all_operations())
    for operation in (one.ok() for one in found):
        if not operation.path.endswith("skills/reload"):  # it waits for a gateway that packs

            @FEW
            @hypothesis.given(case=operation.as_strategy())
            def asked(case: Any) -> None:
                case.call_and_validate(headers={"Authorization": f"Bearer {token}"}, checks=checks)

            asked()
