"""`deskmate skills` where it changes what is in force, and `deskmate audit`: as an operator types them."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from gateway.audit.log import short
from gateway.cli import deskmate
from gateway.conversation.key import key_of
from gateway.conversation.mailbox import Mailbox
from gateway.events import Actor, Event
from gateway.store import Layout, Store
from tests.gateway.commands.world import DEV, MAX, OPS, World, skill_md, zipped
from tests.skills.test_library import write

CONNECTIONS = """\
redis: {{url: $REDIS_URL, key_prefix: {prefix}}}
connections:
  slack-main: {{platform: slack, signing_secret: $SECRET, bot_token: $SECRET}}
"""


@pytest.fixture
async def world(store: Store, layout: Layout, tmp_path: Path) -> World:
    made = World(store, tmp_path, settings=CONNECTIONS.format(prefix=layout.prefix))
    await made.packer.step()
    (tmp_path / "checklist.zip").write_bytes(zipped({"SKILL.md": skill_md("checklist", body="Look\u200b.\n")}))
    return made


class Typed:
    """What an operator types, against the world's Redis."""

    def __init__(self, world: World, redis_url: str) -> None:
        self._world = world
        self._env = {"REDIS_URL": redis_url, "SECRET": "xoxb-s3cret"}

    async def __call__(self, *words: str) -> str:
        """What comes back where all goes well."""
        said = await self.run(*words)
        assert said.exit_code == 0, said.output
        return said.output

    async def fails(self, *words: str) -> str:
        said = await self.run(*words)
        assert said.exit_code != 0
        assert said.exception is None or isinstance(said.exception, SystemExit), said.exception
        return said.output

    async def run(self, *words: str) -> Result:
        arguments = ["--config", str(self._world.folder / "deskmate.yaml"), *words]
        return await asyncio.to_thread(CliRunner().invoke, deskmate, arguments, env=self._env)


@pytest.fixture
def typed(world: World, redis_url: str) -> Typed:
    return Typed(world, redis_url)


HERE = ("--channel", "slack-main/C-DEV")
USER = pwd.getpwuid(os.getuid()).pw_name


async def test_a_switch_holds_for_one_channel_or_for_all(world: World, typed: Typed) -> None:
    assert "web-access is off in slack-main/C-DEV" in await typed("skills", "off", "WEB-access", *HERE)
    assert await world.ids(DEV) == ["skill-writing"]
    assert await world.ids(OPS) == ["skill-writing", "web-access"]
    assert "whole organisation" in await typed("skills", "off", "skill-writing", "--everywhere")
    assert await world.ids(OPS) == ["web-access"]
    assert "whole organisation" in await typed.fails("skills", "on", "skill-writing", *HERE)
    await typed("skills", "on", "skill-writing", "--everywhere")
    await typed("skills", "on", "web-access", *HERE)
    assert await world.ids(DEV) == ["skill-writing", "web-access"]


async def test_a_tool_is_switched_off_in_one_channel_and_given_back(world: World, typed: Typed) -> None:
    told = await typed("tools", "off", "LOAD_skill", *HERE)
    assert "load_skill is off in slack-main/C-DEV" in told
    assert "nobody has written in slack-main/C-DEV yet" in told
    assert (await world.shelf.here(DEV, world.loaded)).own.is_tool_off("load_skill")
    assert not (await world.shelf.here(OPS, world.loaded)).own.is_tool_off("load_skill")
    listed = await typed("tools", "list", *HERE)
    assert "load_skill: off (load_skill is switched off in slack-main/C-DEV)" in listed
    assert "Not in this channel's profile, so that `deskmate tools on --channel slack-main/C-DEV` does not" in listed
    assert "switched off in slack-main/C-DEV no longer" in await typed("tools", "on", "load_skill", *HERE)
    assert "load_skill: on (" in await typed("tools", "list", *HERE)
    lines = [json.loads(line) for line in (await typed("audit", "--json", *HERE)).splitlines()]
    assert [(one["who"], one["what"], one["rule"]) for one in lines] == [
        (f"operator {USER}", "tool off", "the command line"),
        (f"operator {USER}", "tool on", "the command line"),
    ]


async def test_a_slip_elsewhere_keeps_nobody_from_switching_off(world: World, typed: Typed) -> None:
    settings = world.folder / "deskmate.yaml"
    settings.write_text(settings.read_text() + "model: {provider: anthropic, api_key: $UNSET_KEY}\n")
    (world.folder / "profiles/default.yaml").write_text("tools: [load_skill\n")
    (world.folder / "profiles/other.yaml").write_text("tolls: []\n")
    told = await typed("skills", "off", "web-access", *HERE)
    assert "web-access is off in slack-main/C-DEV" in told
    assert "default.yaml:" in told
    assert "other.yaml:1: tolls: unknown key; did you mean tools?" in told
    assert await world.ids(DEV) == ["skill-writing"]
    for words in (
        ("skills", "list", *HERE),
        ("audit",),
        ("skills", "notes", "list"),
        ("skills", "on", "web-access", *HERE),
    ):
        await typed(*words)
    assert "can't be read" in await typed.fails("skills", "list")


async def test_switches_that_are_gone_are_closed_until_the_operator_begins_anew(world: World, typed: Typed) -> None:
    await typed("skills", "off", "web-access", *HERE)
    await typed("skills", "off", "web-access", "--everywhere")
    root = world.store.layout.skills_root
    await world.store.redis.delete(f"{root}:ch:{DEV.channel_id}")
    for tried in (
        ("skills", "off", "web-access"),
        ("skills", "list"),
        ("tools", "list"),
        ("tools", "off", "web_fetch"),
    ):
        told = await typed.fails(*tried, *HERE)
        assert "can't be read" in told
        assert "`deskmate skills anew --channel slack-main/C-DEV`" in told
        assert "--everywhere" not in told
    await world.store.redis.delete(f"{root}:org")
    told = await typed.fails("skills", "off", "web-access", "--everywhere")
    assert "what was decided is gone" in told
    assert "`deskmate skills anew --everywhere`." in told
    assert "--channel slack-main/C-DEV` and `deskmate skills anew --everywhere`" in await typed.fails(
        "skills", "list", *HERE
    )
    await typed.fails("skills", "anew")
    for where in (HERE, ("--everywhere",)):
        assert "Nothing is decided any more" in await typed("skills", "anew", *where)
        assert "nothing has to begin again" in await typed.fails("skills", "anew", *where)
    assert await world.ids(DEV) == ["skill-writing", "web-access"]
    assert "web-access is off in slack-main/C-DEV" in await typed("skills", "off", "web-access", *HERE)
    lines = [json.loads(line) for line in (await typed("audit", "--json", *HERE)).splitlines()]
    assert [(one["who"], one["what"], one["rule"]) for one in lines if one["what"] == "skill anew"] == [
        (f"operator {USER}", "skill anew", "the command line")
    ]


async def test_a_bundle_is_added_shown_trusted_and_removed(world: World, typed: Typed) -> None:
    zip_ = str(world.folder / "checklist.zip")
    assert "not trusted yet" in await typed("skills", "add", zip_, *HERE)
    shown = await typed("skills", "show", "checklist", *HERE)
    assert "Look<U+200B>." in shown
    trust = re.search(r"deskmate (skills trust checklist [0-9a-f]{12}) --channel", shown)
    assert trust
    assert "no" in (await typed("skills", "list", "--width", "100", *HERE)).partition("checklist")[2]
    assert "is trusted in slack-main/C-DEV" in await typed(*trust[1].split(), *HERE)
    assert "checklist" in await world.ids(DEV)
    assert "checklist" not in await world.ids(OPS)
    Path(zip_).write_bytes(zipped({"SKILL.md": skill_md("checklist", body="Look again.\n")}))
    await typed("skills", "add", zip_, *HERE)
    assert "+ Look again." in await typed("skills", "show", "checklist", *HERE)
    assert "taken away" in await typed("skills", "remove", "checklist", *HERE)
    assert "checklist" not in await world.ids(DEV)


@pytest.mark.sandbox
async def test_examples_of_a_bundle_run_once_it_is_trusted(world: World, typed: Typed) -> None:
    files = {
        "SKILL.md": skill_md("runs"),
        "main.py": "def run(params):\n    return 'made'\n",
        "schema.json": '{"type": "object", "effect": "read", "properties": {}}',
        "examples/one.input.json": "{}",
        "examples/one.expected.txt": "made",
    }
    (world.folder / "runs.zip").write_bytes(zipped(files))
    await typed("skills", "add", str(world.folder / "runs.zip"), *HERE)
    assert "There is no skill" in await typed.fails("skills", "test", "runs", *HERE)
    await typed("skills", "trust", "runs", *HERE)
    assert "1 example passed" in await typed("skills", "test", "runs", *HERE)


async def test_a_bundle_for_all_is_in_force_at_once_and_no_channel_takes_it_away(world: World, typed: Typed) -> None:
    await typed("skills", "add", str(world.folder / "checklist.zip"), "--everywhere")
    for key in (OPS, DEV):
        assert "checklist" in await world.ids(key)
    assert "for the whole organisation" in await world.told("/skill remove checklist")
    await typed("skills", "remove", "checklist", "--everywhere")
    assert "checklist" not in await world.ids(OPS)


async def test_the_list_of_a_channel_is_what_redis_says(world: World, typed: Typed) -> None:
    write(world.org, "standup")
    await world.say("/skill off web-access", key=DEV)
    told = await typed("skills", "list", "--width", "100", *HERE)
    assert "standup" not in told, "it lies on this machine, and nobody has published it"
    assert "off in this channel" in told.partition("web-access")[2]
    assert "In slack-main/C-DEV (profile default): 1 of 2 in force." in told


async def test_a_reload_needs_a_gateway_and_says_what_it_found(world: World, typed: Typed) -> None:
    write(world.org, "standup")

    async def pack() -> None:
        while True:
            await world.packer.step()
            await asyncio.sleep(0.01)

    packing = asyncio.create_task(pack())
    told = await typed("skills", "reload")
    packing.cancel()
    assert "standup: org, new" in told
    assert "3 of 3 in force here" in told


async def test_notes_are_decided_on_and_promoted(world: World, typed: Typed) -> None:
    code, other = await world.note("First", DEV), await world.note("Sec\u200bond", DEV)
    listed = await typed("skills", "notes", "list", *HERE)
    assert code in listed
    assert "Sec<U+200B>ond" in await typed("skills", "notes", "show", other, *HERE)
    assert "counts from now on" in await typed("skills", "approve", code, *HERE)
    assert "was refused" in await typed("skills", "reject", other, *HERE)
    promoted = re.search(r"as (A\w+)\.", await typed("skills", "notes", "promote", code, *HERE))
    assert promoted
    assert len(await world.notes.read(OPS.channel_id, "web-access", "references/x.md")) == 1
    assert "only the operator" in await world.told(f"/skill notes revert {promoted[1]}")
    assert promoted[1] in await typed("skills", "notes", "list")
    assert "ends on 2099-01-31 00:00" in await typed("skills", "notes", "expire", promoted[1], "2099-01-31")
    assert "no time" in await typed.fails("skills", "notes", "expire", promoted[1], "soon")
    assert "taken back" in await typed("skills", "notes", "revert", promoted[1])
    assert await world.notes.read(OPS.channel_id, "web-access", "references/x.md") == ()


async def test_a_room_that_nobody_has_written_in_is_told(world: World, typed: Typed) -> None:
    warning = "nobody has written in slack-main/C-DEV yet"
    assert warning in await typed("skills", "off", "web-access", *HERE)
    mailbox = Mailbox(world.store, world.loaded.settings.mailbox)
    await mailbox.open()
    thread = key_of("slack-main", "C-DEV", "thread")
    event = Event(kind="message", conversation=thread, actor=MAX, dedupe_keys=("k",), at_ms=1, text="hello")
    await mailbox.accept(thread, event.dump(), at_ms=1, dedupe_keys=event.dedupe_keys)
    assert warning not in await typed("skills", "on", "web-access", *HERE)


async def test_what_is_done_to_a_note_goes_with_and_without_the_word(world: World, typed: Typed) -> None:
    first, second = await world.note("First", DEV), await world.note("Second", DEV)
    assert "counts from now on" in await typed("skills", "notes", "approve", first, *HERE)
    assert "was refused" in await typed("skills", "notes", "reject", second, *HERE)
    assert "has ended" in await typed("skills", "expire", first, "now", *HERE)


async def test_times_and_hashes_in_the_audit_log_can_be_read(world: World, typed: Typed) -> None:
    code = await world.note("First", DEV)
    await typed("skills", "approve", code, *HERE)
    await typed("skills", "notes", "expire", code, "2099-01-31", *HERE)
    await typed("skills", "notes", "expire", code, "never", *HERE)
    told = (await typed("audit")).splitlines()
    assert re.search(r"without end → until 2099-01-3\d \d\d:\d\d", told[-2])
    assert re.search(r"until 2099-01-3\d \d\d:\d\d → without end", told[-1])
    assert not re.search(r"[0-9a-f]{13}|\d{13}", "\n".join(told))
    assert short(f"kept {'a' * 64}") == f"kept {'a' * 12}"


async def test_the_audit_log_says_who_where_what_before_and_after(world: World, typed: Typed) -> None:
    assert "Nothing is in the audit log" in await typed("audit")
    await world.say("/skill off web-access", key=DEV)
    await world.say("/skill on web-access", MAX, DEV)
    await typed("skills", "on", "web-access", *HERE)
    await typed("skills", "off", "skill-writing", "--everywhere")
    await world.note("Text", DEV)
    lines = (await typed("audit")).splitlines()
    assert [re.split(" {2,}", line)[1:6] for line in lines[:4]] == [
        ["slack-main/U-ANA", "slack-main/C-DEV", "skill off", "web-access", "– → off"],
        ["slack-main/U-MAX", "slack-main/C-DEV", "skill on refused", "web-access", lines[1].rpartition("  ")[2]],
        [f"operator {USER}", "slack-main/C-DEV", "skill on", "web-access", "off → on"],
        [f"operator {USER}", "everywhere", "skill off", "skill-writing", "– → off"],
    ]
    assert "default.yaml line" in lines[1]
    assert "(the command line)" in lines[2]
    assert "note save" in lines[4]
    assert len((await typed("audit", *HERE, "-n", "2")).splitlines()) == 2
    stored = [json.loads(line) for line in (await typed("audit", "--json", *HERE)).splitlines()]
    assert [one["what"] for one in stored] == ["skill off", "skill on refused", "skill on", "note save"]
    assert json.loads(stored[0]["after"])["by"] == "slack-main/U-ANA"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("skills", "off", "web-access"), "either --channel CONNECTION/CHANNEL or --everywhere"),
        (("skills", "off", "web-access", *HERE, "--everywhere"), "either --channel"),
        (("skills", "off", "web-access", "--channel", "slak-main/C"), "did you mean slack-main?"),
        (("skills", "off", "web-access", "--channel", "slack-main"), "such as slack-main/C0123"),
        (("skills", "off", "web-acces", *HERE), "Perhaps web-access?"),
        (("skills", "trust", "web-access", *HERE), "was not added to this channel"),
        (("skills", "approve", "XXXX", *HERE), "There is no note XXXX"),
        (("skills", "notes", "show", "XXXX"), "XXXX is the code of a note in one channel: give --channel"),
        (("skills", "notes", "expire", "XXXX", "now"), "give --channel"),
        (("skills", "remove", "web-access", "--everywhere"), "was not added for the whole organisation"),
        (("skills", "off", "web-access", "--channel", "web/nope"), "the chat page has one channel, web/web"),
        (("tools", "off", "zzz", *HERE), "`deskmate tools list --channel slack-main/C-DEV` names all"),
        (("tools", "off", "find_skills", *HERE), "find_skills comes with load_skill"),
        (("tools", "on", "web_fetch", *HERE), "This channel's profile does not list web_fetch"),
        (("tools", "off", "web_fetch"), "Missing option '--channel'"),
        (("skills", "off", "nothing-like-it", *HERE), "deskmate skills list --channel slack-main/C-DEV"),
        (("skills", "show", "checklist"), "is seen with --channel CONNECTION/CHANNEL"),
    ],
)
async def test_what_can_not_be_done_is_told(typed: Typed, words: tuple[str, ...], told: str) -> None:
    assert told in " ".join((await typed.fails(*words)).split())


@pytest.mark.parametrize("words", [("skills", "off", "web-access", "--everywhere"), ("audit",)])
async def test_without_redis_it_says_what_to_start(world: World, words: tuple[str, ...], unused_port: int) -> None:
    typed = Typed(world, f"redis://127.0.0.1:{unused_port}/0")
    assert "Redis does not answer" in await typed.fails(*words)


async def test_help_teaches_how_a_channel_is_named(typed: Typed) -> None:
    told = await typed("skills", "--help")
    assert "`/skill list`" in told
    assert "deskmate skills trust checklist" in told
    assert "..." not in told.partition("Commands:")[2].partition("Examples")[0], "a summary is cut"
    assert "..." not in (await typed("skills", "notes", "--help")).partition("Commands:")[2].partition("Examples")[0]


async def test_an_admin_of_a_channel_is_named_and_that_is_taken_back(world: World, typed: Typed) -> None:
    told = await typed("roles", "grant", "slack-main/U-MAX", *HERE)
    assert "slack-main/U-MAX is an admin of slack-main/C-DEV from now on" in told
    assert "nobody has written in slack-main/C-DEV yet" in told, "its name may be a slip"
    assert await typed("audit", "list", *HERE) == await typed("audit", *HERE) != ""
    assert await typed("audit", "list", "-n", "1", "--json") == await typed("audit", "-n", "1", "--json") != ""
    told = await typed("roles", "list", *HERE)
    assert re.search(r"admin of this channel +slack-main/U-MAX +\(operator .* made slack-main/U-MAX an admin", told)
    assert "is off" in (await world.told("/skill off web-access", MAX, DEV))
    assert json.loads(await typed("roles", "list", *HERE, "--json"))["admin"]
    assert "is no longer named" in await typed("roles", "revoke", "slack-main/U-MAX", *HERE)
    assert "needs the role" in (await world.told("/skill on web-access", MAX, DEV))
    assert "nobody's id" in await typed.fails("roles", "grant", "Max", *HERE)
    assert "no connection slack-mian. Perhaps slack-main?" in await typed.fails(
        "roles", "grant", "slack-mian/U-MAX", *HERE
    )


async def test_somebody_is_let_in_with_their_code_and_put_out_again(world: World, typed: Typed) -> None:
    assert "Nobody waits" in await typed("pair")
    event = Event(
        kind="message",
        conversation=key_of("slack-main", "D-EVE"),
        actor=Actor("U-EVE", "Eve"),
        dedupe_keys=("k",),
        at_ms=1,
        is_direct=True,
    )
    here = await world.shelf.here(event.conversation, world.loaded)
    ask = await world.shelf.pairing.ask(here, event)
    assert re.search("waits +slack-main/U-EVE +Eve", await typed("pair"))
    assert "Nobody waits under this code" in await typed.fails("pair", "AAAA-AAAA")
    assert "slack-main/U-EVE (Eve) is let in" in await typed("pair", ask.code.lower())
    assert [one["person"] for one in json.loads(await typed("pair", "--json"))["let_in"]] == ["slack-main/U-EVE"]
    assert await world.shelf.pairing.is_paired("slack-main/U-EVE")
    assert "not let in any more" in await typed("pair", "--end", "slack-main/U-EVE")
    assert not await world.shelf.pairing.is_paired("slack-main/U-EVE")
    assert [line["what"] for line in await world.audit()] == ["pair asked", "pair accept", "pair end"]


async def test_the_log_is_exported_and_checked_against_what_was_kept(
    world: World, typed: Typed, tmp_path: Path
) -> None:
    await typed("skills", "off", "web-access", *HERE)
    await typed("skills", "on", "web-access", *HERE)
    kept = tmp_path / "kept.jsonl"
    kept.write_text(await typed("audit", "export"))
    lines = [json.loads(line) for line in kept.read_text().splitlines()]
    assert [(one["stream"], one["n"], one["what"]) for one in lines] == [
        ("changes", 1, "skill off"),
        ("changes", 2, "skill on"),
    ]
    head = f"changes:2:{lines[1]['hash']}"
    assert head in await typed("audit", "verify")
    for against in (str(kept), head):
        assert "changes: 2 lines: unbroken" in await typed("audit", "verify", "--against", against)
    whole = kept.read_text()
    kept.write_text(whole.replace('"thing": "web-access"', '"thing": "web-acces"', 1))
    told = await typed.fails("audit", "verify", "--against", str(kept))
    assert "changes: 2 lines: line 1 of what was kept elsewhere was changed there" in told
    kept.write_text(whole)
    root = world.store.layout.skills_root
    stored: Any = await world.store.redis.xrange(f"{root}:audit")
    await world.store.redis.xdel(f"{root}:audit", stored[1][0])
    told = await typed.fails("audit", "verify", "--against", str(kept))
    assert "changes: 1 lines: line 2 is missing" in told
    assert "neither a head" in await typed.fails("audit", "verify", "--against", "nowhere.jsonl")
