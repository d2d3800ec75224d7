"""`deskmate admin`, as an operator types it."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from gateway.admin.keys import Keys, Unknown
from gateway.admin.visits import Caller
from gateway.audit.log import read
from gateway.running.address import address_noted
from gateway.store import Layout, Store
from tests.gateway.cli.test_acts import CONNECTIONS, Typed
from tests.gateway.commands.world import World


@pytest.fixture
def typed(store: Store, layout: Layout, tmp_path: Path, redis_url: str) -> Typed:
    settings = CONNECTIONS.format(prefix=layout.prefix) + "gateway: {public_url: 'https://agent.example'}\n"
    return Typed(World(store, tmp_path, settings=settings), redis_url)


async def test_a_link_begins_with_the_public_address_and_is_for_whom_it_says(typed: Typed, store: Store) -> None:
    told = await typed("admin", "link", "--as", "slack-main/U-ANA")
    found = re.search(r"^https://agent\.example/admin/login\?link=(\S+)$", told, re.MULTILINE)
    assert found
    assert (await Keys(store).look_at_link(found[1], "peer")).person == "slack-main/U-ANA"
    operators = await typed("admin", "link")
    secret = operators.partition("link=")[2].split()[0]
    caller = await Keys(store).look_at_link(secret, "peer")
    assert (caller.person, caller.actor) == ("", None)
    assert [(one.what, one.thing.split()[0]) for one in await read(store)] == [
        ("admin link", "slack-main/U-ANA"),
        ("admin link", "operator"),
    ]


async def test_a_token_is_shown_once_listed_and_revoked(typed: Typed, store: Store) -> None:
    told = await typed("admin", "token", "--as", "slack-main/U-ANA", "--name", "ci", "--days", "3")
    secret = told.split()[0]
    token = await Keys(store).token(secret, "peer")
    assert (token.name, token.caller.person) == ("ci", "slack-main/U-ANA")
    listed = await typed("admin", "tokens")
    assert token.id in listed
    assert secret not in listed
    assert "no token" in await typed.fails("admin", "revoke", "nothing")
    assert "opens nothing any more" in await typed("admin", "revoke", token.id)
    assert "There are no tokens" in await typed("admin", "tokens")
    assert "no token" in await typed.fails("admin", "revoke", token.id)
    lines = [(one.what, one.thing) for one in await read(store)]
    assert lines[-1] == ("admin revoke", "ci for slack-main/U-ANA")
    assert [what for what, _ in lines].count("admin revoke") == 1, "what is not there leaves no line"


async def test_a_token_that_can_not_be_read_is_listed_as_that_and_revoked(typed: Typed, store: Store) -> None:
    made, secret = await Keys(store).make_token(Caller("slack-main/U-ANA"), "ci", 1)
    await store.redis.set(f"{store.layout.admin_root}:token:{hashlib.sha256(secret.encode()).hexdigest()}", "{")
    assert f"{made.id}  can't be read" in await typed("admin", "tokens")
    assert f"{made.id}, which nobody could read, opens nothing" in await typed("admin", "revoke", made.id)
    assert "There are no tokens" in await typed("admin", "tokens")
    assert [(one.what, one.thing) for one in await read(store)] == [("admin revoke", f"{made.id}, unreadable")]


@pytest.mark.parametrize("port", [0, 8123])
async def test_a_link_begins_with_the_address_that_answers(
    store: Store, layout: Layout, tmp_path: Path, redis_url: str, port: int
) -> None:
    data = tmp_path / "data"
    settings = f"{CONNECTIONS.format(prefix=layout.prefix)}gateway: {{port: {port}}}\n"
    typed = Typed(World(store, tmp_path, settings=settings), redis_url)
    if port:
        assert "http://127.0.0.1:8123/admin/login?link=" in await typed("admin", "link")
    else:
        assert "no `deskmate up` runs here" in await typed.fails("admin", "link")
    with address_noted(data, "http://127.0.0.1:43210"):  # of an `up` with a port of its own
        assert "http://127.0.0.1:43210/admin/login?link=" in await typed("admin", "link")


async def test_logout_ends_links_and_sessions(typed: Typed, store: Store) -> None:
    keys = Keys(store)
    told = await typed("admin", "link", "--as", "slack-main/U-ANA")
    session = await keys.use_link(told.partition("link=")[2].split()[0], "peer", 60)
    assert "1 ended" in await typed("admin", "logout", "--as", "slack-main/U-ANA")
    with pytest.raises(Unknown):
        await keys.session(session.secret, "peer")
    session = await keys.use_link(await keys.make_link(Caller("slack-main/U-ANA"), 60), "peer", 60)
    await store.redis.set(
        f"{store.layout.admin_root}:session:{hashlib.sha256(session.secret.encode()).hexdigest()}", "{"
    )
    assert "1 ended" in await typed("admin", "logout")


@pytest.mark.parametrize(
    "person", ["U-ANA", "nowhere/U1", "slack-main/", "slack-main/*", "slack-main/U 1", "slack-main/U1\u202e"]
)
async def test_a_person_who_can_not_be_is_told(typed: Typed, person: str) -> None:
    assert "CONNECTION/ID" in await typed.fails("admin", "link", "--as", person)
