"""/role, and what owners say for the whole organisation."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.store import Store
from tests.gateway.commands.world import ANA, DEV, LI, MAX, World


async def test_an_admin_names_admins_of_one_channel_and_takes_it_back(world: World) -> None:
    assert "needs the role `admin`" in await world.told("/role grant slack-main/U-MAX", MAX)
    assert "`slack-main/U-MAX` is an admin of `slack-main/C-OPS`" in await world.told("/role grant @U-MAX", ANA)
    assert "already" in await world.told("/role grant slack-main/U-MAX", ANA)
    await world.say("/skill off web-access", MAX)
    assert "web-access" not in await world.ids()
    assert "needs the role `channel_admin`" in await world.told("/skill off web-access", MAX, DEV)
    assert "needs the role" in await world.told("/role grant slack-main/U-EVE", MAX), "they name nobody themselves"
    assert "made slack-main/U-MAX an admin" in await world.told("/role", MAX)
    assert "no longer" in await world.told("/role revoke slack-main/U-MAX", ANA)
    assert "needs the role" in await world.told("/skill on web-access", MAX)
    assert "nobody's id" in await world.told("/role grant slack-main/*", ANA)
    said = [
        (line["who"], line["what"], line["thing"]) for line in await world.audit() if line["what"].startswith("role")
    ]
    grant = ("slack-main/U-ANA", "role grant", "channel_admin slack-main/U-MAX")
    assert {grant, ("slack-main/U-MAX", "role grant refused", "slack-main/U-MAX")} < set(said)
    assert said[-1] == ("slack-main/U-ANA", "role revoke", "channel_admin slack-main/U-MAX")


async def test_nobody_of_a_connection_that_there_is_not_is_named(world: World) -> None:
    assert "needs the role `admin`" in await world.told("/role grant nowhere/U-MAX", MAX)
    assert "no connection `nowhere`. Perhaps `slack-main, web`?" in await world.told("/role grant nowhere/U-MAX", ANA)
    lines = [(one["who"], one["what"], one["thing"]) for one in await world.audit()]
    assert lines[-1] == ("slack-main/U-ANA", "role grant refused", "nowhere/U-MAX")
    assert "was not named" in await world.told("/role revoke nowhere/U-MAX", ANA), "what was named before goes"


async def test_an_owner_switches_for_the_whole_organisation(store: Store, tmp_path: Path) -> None:
    world = World(store, tmp_path, settings="people: {owners: [slack-main/U-MAX]}\n")
    await world.packer.step()
    assert "needs the role `owner`" in await world.told("/skill off web-access everywhere", ANA)
    assert "for the whole organisation" in await world.told("/skill off web-access everywhere", MAX)
    assert "no channel can switch it on" in await world.told("/skill on web-access", ANA, DEV)
    line = (await world.audit())[-2]
    assert (line["who"], line["channel"], line["what"]) == ("slack-main/U-MAX", "", "skill off")
    assert line["rule"] == "deskmate.yaml line 4: people.owners"
    assert "on wherever" in await world.told("/skill on web-access everywhere", MAX)
    assert "`/skill off ID`" in await world.told("/skill off web-access nowhere", MAX)


async def test_who_is_named_is_told_to_whoever_asks(world: World) -> None:
    told = await world.told("/role", LI)
    assert "You are `slack-main/U-LI`: approver (`profiles/default.yaml line 7: roles.approver`)" in told
    assert "- admin: `slack-main/U-ANA`" in told
    assert "\n\nWhoever is named nowhere" in told, "it is no part of the list"


@pytest.mark.parametrize("odd", ["U-MAX\u202e", "U-MAX\u200b", "\u2066U-MAX", "U-MAX\u3164"])
async def test_an_id_that_looks_like_another_is_nobodys(world: World, odd: str) -> None:
    for typed in (odd, f"slack-main/{odd}"):
        told = await world.told(f"/role grant {typed}", ANA)
        assert "nobody's id" in told
        assert "<U+" in told
    assert [line for line in await world.audit() if line["what"].startswith("role")] == []
