"""Who may what: each operation for each role. A new operation needs its row here."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, cast

import pytest

from gateway.acts.outcomes import Refusal
from gateway.admin.operations import EVERYTHING, SIGNED_IN, WORD, Act, Seeing, operations, status_of
from gateway.rights.access import OF_PAGES
from tests.gateway.admin.world import MEMBER, ROLES, ROOM, STRANGER, Admins, zip_as_base64

Given = Callable[[Admins], dict[str, Any]]

ADMINS: Final = {"operator", "owner", "admin"}
CHANNEL_ADMINS: Final = {*ADMINS, "channel_admin"}
APPROVERS: Final = {"operator", "owner", "approver"}
KEEPERS: Final = {*CHANNEL_ADMINS, *APPROVERS}
WORDERS: Final = {"approver", "owner"}
"""Those who may say yes, in their own name."""
ROWS: Final[dict[str, tuple[Given, set[str]]]] = {
    "approvals.decide": (lambda _: {"channel": ROOM, "code": "KQZX", "word": "yes"}, WORDERS),
    "approvals.list": (lambda _: {}, KEEPERS),
    "audit.list": (lambda _: {}, KEEPERS),
    "audit.verify": (lambda _: {}, {"operator", "owner"}),
    "channels.hitl": (lambda _: {"channel": ROOM, "to": "on"}, CHANNEL_ADMINS),
    "channels.list": (lambda _: {}, KEEPERS),
    "channels.show": (lambda _: {"channel": ROOM}, KEEPERS),
    "channels.test": (lambda _: {"channel": ROOM, "text": "the pager"}, KEEPERS),
    "channels.tool": (lambda _: {"channel": ROOM, "name": "web_fetch", "to": "off"}, CHANNEL_ADMINS),
    "connections.list": (lambda _: {}, {"operator", "owner"}),
    "conversations.list": (lambda _: {"channel": ROOM}, KEEPERS),
    "conversations.show": (lambda there: {"channel": ROOM, "conversation": there.conversation}, CHANNEL_ADMINS),
    "dead.drop": (lambda there: {"channel": ROOM, "letter": there.letter or "0-1-1"}, ADMINS),
    "dead.list": (lambda _: {}, KEEPERS),
    "dead.retry": (lambda there: {"channel": ROOM, "letter": there.letter or "0-1-1"}, CHANNEL_ADMINS),
    "dead.show": (lambda there: {"channel": ROOM, "letter": there.letter or "0-1-1"}, CHANNEL_ADMINS),
    "explain.show": (lambda _: {"channel": ROOM}, KEEPERS),
    "me.show": (lambda _: {}, set(ROLES)),
    "notes.approve": (lambda there: {"channel": ROOM, "code": there.waiting}, APPROVERS),
    "notes.expire": (lambda there: {"channel": ROOM, "code": there.kept, "when": "7d"}, CHANNEL_ADMINS),
    "notes.list": (lambda _: {"channel": ROOM}, KEEPERS),
    "notes.promote": (lambda there: {"channel": ROOM, "code": there.kept}, ADMINS),
    "notes.reject": (lambda there: {"channel": ROOM, "code": there.waiting}, APPROVERS),
    "notes.revert": (lambda there: {"channel": ROOM, "code": there.kept}, CHANNEL_ADMINS),
    "notes.show": (lambda there: {"channel": ROOM, "code": there.waiting}, KEEPERS),
    "notes.waiting": (lambda _: {}, KEEPERS),
    "overview.show": (lambda _: {}, KEEPERS),
    "people.accept": (lambda there: {"channel": ROOM, "code": there.code or "AAAA-AAAA"}, ADMINS),
    "people.end": (lambda _: {"channel": ROOM, "person": "slack-main/U-NEW"}, ADMINS),
    "people.grant": (lambda _: {"channel": ROOM, "person": "slack-main/U-BO"}, ADMINS),
    "people.list": (lambda _: {}, KEEPERS),
    "people.newcomers": (lambda _: {"channel": ROOM}, ADMINS),
    "people.revoke": (lambda _: {"channel": ROOM, "person": "slack-main/U-KIM"}, ADMINS),
    "people.show": (lambda _: {"channel": ROOM}, KEEPERS),
    "people.waiting": (lambda _: {}, KEEPERS),
    "skills.add": (lambda _: {"channel": ROOM, "filename": "another.zip", "zip": zip_as_base64()}, CHANNEL_ADMINS),
    "skills.list": (lambda _: {"channel": ROOM}, KEEPERS),
    "skills.remove": (lambda _: {"channel": ROOM, "id": "checklist"}, CHANNEL_ADMINS),
    "skills.show": (lambda _: {"channel": ROOM, "id": "checklist"}, KEEPERS),
    "skills.switch": (lambda _: {"channel": ROOM, "id": "triage", "to": "off"}, CHANNEL_ADMINS),
    "skills.trust": (lambda _: {"channel": ROOM, "id": "checklist", "digits": ""}, APPROVERS),
    "skills.uses": (lambda _: {"channel": ROOM}, KEEPERS),
    "skills.waiting": (lambda _: {}, KEEPERS),
    "spending.budgets": (lambda _: {}, KEEPERS),
    "spending.ledger": (lambda _: {}, KEEPERS),
    "spending.list": (lambda _: {}, KEEPERS),
}
SLOW: Final = {"skills.reload": ADMINS}
"""They wait for a gateway that packs: who may is asked before."""


def test_every_operation_has_its_row() -> None:
    assert set(operations()) == set(ROWS) | set(SLOW)


@pytest.mark.parametrize("name", ROWS)
async def test_who_may_not_is_told_the_rule_and_who_may_see_sees(there: Admins, name: str) -> None:
    given, allowed = ROWS[name]
    await there.ask("KQZX")
    await there.knock("slack-main", "U-NEW", "Nele")
    await there.bury()
    for role in ROLES.keys() - allowed:
        with pytest.raises(Refusal) as refused:
            await there.do(name, ROLES[role], **given(there))
        assert status_of(refused.value) == 403, role
        assert refused.value.values["rule"], role
    if operations()[name].is_safe:
        for role in allowed:
            await there.do(name, ROLES[role], **given(there))


ACTS: Final = [(name, role) for name, row in ROWS.items() if not operations()[name].is_safe for role in sorted(row[1])]


@pytest.mark.parametrize(("name", "role"), ACTS)
async def test_who_may_do_something_does_it(there: Admins, name: str, role: str) -> None:
    await there.ask("KQZX")
    await there.knock("slack-main", "U-NEW", "Nele")
    await there.bury()
    await there.do(name, ROLES[role], **ROWS[name][0](there))


@pytest.mark.parametrize("name", SLOW)
async def test_who_may_let_others_work(there: Admins, name: str) -> None:
    operation = operations()[name]
    for role, caller in ROLES.items():
        check = operation.who.check(there.visit(caller), operation.input.model_validate({"channel": ROOM}))
        if role in SLOW[name]:
            await check
        else:
            with pytest.raises(Refusal):
                await check


UNSAFE: Final = [name for name, one in operations().items() if isinstance(one.who, Act)]


async def test_a_member_changes_nothing_and_each_try_is_in_the_audit_log(there: Admins) -> None:
    for caller, name in itertools.product((MEMBER, STRANGER), UNSAFE):
        given = ROWS[name][0](there) if name in ROWS else {"channel": ROOM}
        operation = operations()[name]
        with pytest.raises(Refusal):
            await there.do(name, caller, **given)
        assert isinstance(operation.who, Act)
        command, _ = operation.who.of(operation.input.model_validate(given))
        line = (await there.audit())[-1]
        assert (line.who, line.what) == (caller.person, f"{command} refused")


PLACED: Final = [name for name in ROWS if "channel" in operations()[name].input.model_fields]
ANYWHERE: Final = [name for name in PLACED if not operations()[name].input.model_fields["channel"].is_required()]


async def test_the_whole_organisation_is_for_owners_and_the_operator(there: Admins) -> None:
    for name in ANYWHERE:
        if name in {"audit.list", "spending.list"}:  # they tell of those channels that are yours
            continue
        for role in ("admin", "channel_admin", "approver", "member", "guest"):
            with pytest.raises(Refusal) as refused:
                await there.do(name, ROLES[role], **{**ROWS[name][0](there), "channel": ""})
            assert status_of(refused.value) == 403, (name, role)


async def test_who_has_a_role_in_one_channel_is_nobody_in_another(there: Admins) -> None:
    for name in PLACED:
        for role in ("admin", "channel_admin", "approver"):
            with pytest.raises(Refusal) as refused:
                await there.do(name, ROLES[role], **{**ROWS[name][0](there), "channel": "slack-main/C-DEV"})
            assert status_of(refused.value) == 403, (name, role)


def test_what_changes_something_is_an_act_or_the_operators() -> None:
    for one in operations().values():
        assert one.is_safe or isinstance(one.who, Act) or one.who in {EVERYTHING, WORD}
        assert one.who is not SIGNED_IN or one.name == "me.show"


async def test_what_nobody_is_said_to_may_is_not_done(there: Admins) -> None:
    """A kind of people for whom no check was written."""
    done: list[object] = []

    async def run(*given: object) -> None:
        done.append(given)

    with pytest.raises(TypeError):
        Seeing("whoever")  # type: ignore[call-arg]
    one = replace(operations()["me.show"], run=run, who=cast("Any", "whoever"))
    with pytest.raises(AttributeError):
        await one(there.visit(), one.input())
    assert not done


async def test_a_word_is_a_persons_of_that_connection_before_anything_is_looked_at(there: Admins) -> None:
    given = operations()["approvals.decide"].input.model_validate({"channel": ROOM, "code": "AAAA", "word": "yes"})
    for role in ("operator", "stranger"):
        with pytest.raises(Refusal, match="no_person"):
            await WORD.check(there.visit(ROLES[role]), given)
    await WORD.check(there.visit(ROLES["member"]), given)


def test_an_act_of_the_pages_is_not_told_as_a_command_of_the_chat() -> None:
    told = {one.who.command: one.who.told for one in operations().values() if isinstance(one.who, Act)}
    assert told.keys() & OF_PAGES
    for command, text in told.items():
        assert ("`/" in text) == (command not in OF_PAGES), text
