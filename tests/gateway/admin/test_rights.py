"""Who may what: each operation for each role. A new operation needs its row here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from gateway.admin.operations import EVERYTHING, SIGNED_IN, WORD, Act, operations, status_of
from gateway.shelf.outcomes import Refusal
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
    "channels.hitl": (lambda _: {"channel": ROOM, "to": "on"}, CHANNEL_ADMINS),
    "channels.list": (lambda _: {}, KEEPERS),
    "channels.show": (lambda _: {"channel": ROOM}, KEEPERS),
    "channels.test": (lambda _: {"channel": ROOM, "text": "the pager"}, KEEPERS),
    "connections.list": (lambda _: {}, {"operator", "owner"}),
    "conversations.list": (lambda _: {"channel": ROOM}, KEEPERS),
    "conversations.show": (lambda there: {"channel": ROOM, "conversation": there.conversation}, CHANNEL_ADMINS),
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
    "people.list": (lambda _: {}, KEEPERS),
    "people.show": (lambda _: {"channel": ROOM}, KEEPERS),
    "skills.add": (lambda _: {"channel": ROOM, "filename": "another.zip", "zip": zip_as_base64()}, CHANNEL_ADMINS),
    "skills.list": (lambda _: {"channel": ROOM}, KEEPERS),
    "skills.remove": (lambda _: {"channel": ROOM, "id": "checklist"}, CHANNEL_ADMINS),
    "skills.show": (lambda _: {"channel": ROOM, "id": "checklist"}, KEEPERS),
    "skills.switch": (lambda _: {"channel": ROOM, "id": "triage", "to": "off"}, CHANNEL_ADMINS),
    "skills.trust": (lambda _: {"channel": ROOM, "id": "checklist", "digits": ""}, APPROVERS),
    "skills.waiting": (lambda _: {}, KEEPERS),
    "spending.list": (lambda _: {}, KEEPERS),
}
SLOW: Final = {"skills.reload": ADMINS}
"""They wait for a gateway that packs: who may is asked before."""


def test_every_operation_has_its_row() -> None:
    assert set(operations()) == set(ROWS) | set(SLOW)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("name", ROWS)
async def test_who_may(there: Admins, name: str, role: str) -> None:
    given, allowed = ROWS[name]
    await there.ask("KQZX")
    if role in allowed:
        await there.do(name, ROLES[role], **given(there))
        return
    with pytest.raises(Refusal) as refused:
        await there.do(name, ROLES[role], **given(there))
    assert status_of(refused.value) == 403
    assert refused.value.values["rule"], "it names the rule"


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("name", SLOW)
async def test_who_may_let_others_work(there: Admins, name: str, role: str) -> None:
    operation = operations()[name]
    check = operation._check(there.visit(ROLES[role]), operation.input.model_validate({"channel": ROOM}))
    if role in SLOW[name]:
        await check
    else:
        with pytest.raises(Refusal):
            await check


UNSAFE: Final = [name for name, one in operations().items() if isinstance(one.who, Act)]


@pytest.mark.parametrize("caller", [MEMBER, STRANGER], ids=["member", "stranger"])
@pytest.mark.parametrize("name", UNSAFE)
async def test_a_member_changes_nothing_and_each_try_is_in_the_audit_log(there: Admins, name: str, caller: Any) -> None:
    given = ROWS[name][0](there) if name in ROWS else {"channel": ROOM}
    operation = operations()[name]
    before = await there.audit()
    with pytest.raises(Refusal):
        await there.do(name, caller, **given)
    assert isinstance(operation.who, Act)
    command, _ = operation.who.of(operation.input.model_validate(given))
    assert [(one.who, one.what) for one in (await there.audit())[len(before) :]] == [
        (caller.person, f"{command} refused")
    ]


PLACED: Final = [name for name in ROWS if "channel" in operations()[name].input.model_fields]
ANYWHERE: Final = [name for name in PLACED if not operations()[name].input.model_fields["channel"].is_required()]


@pytest.mark.parametrize("name", [name for name in ANYWHERE if name not in {"audit.list", "spending.list"}])
async def test_the_whole_organisation_is_the_operators(there: Admins, name: str) -> None:
    for role in ("admin", "channel_admin", "approver", "member", "guest"):
        with pytest.raises(Refusal) as refused:
            await there.do(name, ROLES[role], **{**ROWS[name][0](there), "channel": ""})
        assert status_of(refused.value) == 403


@pytest.mark.parametrize("name", PLACED)
async def test_an_admin_of_one_channel_is_nobody_in_another(there: Admins, name: str) -> None:
    for role in ("admin", "channel_admin", "approver"):
        with pytest.raises(Refusal) as refused:
            await there.do(name, ROLES[role], **{**ROWS[name][0](there), "channel": "slack-main/C-DEV"})
        assert status_of(refused.value) == 403


def test_what_changes_something_is_an_act_or_the_operators() -> None:
    for one in operations().values():
        assert one.is_safe or isinstance(one.who, Act) or one.who in {EVERYTHING, WORD}
        assert one.who is not SIGNED_IN or one.name == "me.show"
