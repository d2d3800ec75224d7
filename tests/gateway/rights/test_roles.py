"""Roles: who is what, by the platform's own id alone, and the line that says so."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import gateway
from config.loading import load
from config.problems import ConfigError
from config.profiles import Profile, Roles
from gateway.events import Actor
from gateway.rights.access import (
    COMMANDS,
    NEEDS_ROLE,
    Approval,
    CommandUse,
    Here,
    Operator,
    Reply,
    Talk,
    ToolUse,
    Who,
    may,
    named_as,
    who_said,
)
from gateway.rights.roles import named, roles_of
from gateway.shelf.decisions import Decisions
from skills.library import Library

ADMIN = "slack-main/U-ANA"


def here(profile: Profile | None = None, *, room: str = "slack-main/C1", **more: object) -> Here:
    profile = profile or Profile(name="p", roles=Roles(admin=[ADMIN], approver=["slack-main/U-LI"]))
    rule = lambda key, value: f"p.yaml: {key} {value}".strip()  # noqa: E731
    return Here(room, "ch", profile, rule, Library({}), org_rule=rule, **more)  # type: ignore[arg-type]


def may_say(actor: Actor, command: str, place: Here) -> bool:
    return may(actor, place, CommandUse(command)).allowed


@pytest.mark.parametrize(
    "actor",
    [
        Actor("U-EVE", name="U-ANA"),
        Actor("U-EVE", name="slack-main/U-ANA"),
        Actor("u-ana", name="Ana"),
        Actor("U-АNA"),  # a Cyrillic А
        Actor("U-ANA\u200b"),
        Actor("U-ANA "),
        Actor("Ｕ-ANA"),
        Actor("U-ANA/x"),
        Actor("slack-main/U-ANA"),
    ],
)
def test_s_i1_whoever_looks_like_an_admin_is_a_member(actor: Actor) -> None:
    """S-I1: names, homoglyphs, invisible signs, another case."""
    assert list(roles_of(here(), actor)) == ["member"]
    assert not may_say(actor, "skill off", here())


def test_of_whom_nobody_says_whether_they_are_a_guest_is_one_unless_a_line_names_them() -> None:
    place = here()
    assert list(roles_of(place, Actor("U-EVE", is_guest=None))) == ["guest"]
    assert list(roles_of(place, Actor("U-ANA", is_guest=None))) == ["admin"]
    assert may_say(Actor("U-EVE", is_guest=None), "help", place)
    assert not may_say(Actor("U-EVE", is_guest=None), "skill list", place)


@pytest.mark.parametrize("room", ["slack-main/U-ANA", "telegram/C1", "slack-main/C1/U-ANA"])
def test_s_i3_an_id_that_is_somebody_elses_kind_of_id_gives_nothing(room: str) -> None:
    """S-I3: a channel, a thread or a bot of the same letters as an admin; and the same person on another platform."""
    place = here(room=room)
    assert not may_say(Actor("U-EVE"), "skill off", place)
    assert not may_say(Actor("U-ANA", is_bot=True), "skill off", place)
    assert may_say(Actor("U-ANA"), "skill off", place) == room.startswith("slack-main/")


@pytest.mark.parametrize("id_", ["", "0", "null", "None", "[]", "ANA", "-U-ANA", "xU-ANA", "U-ANA123", "123"])
def test_s_i4_no_id_or_half_an_id_is_refused(id_: str) -> None:
    """S-I4."""
    place = here(Profile(name="p", roles=Roles(admin=[ADMIN, "slack-main/4123"])))
    assert not may_say(Actor(id_), "skill off", place)
    if not id_:
        assert roles_of(place, Actor(id_)) == {}
        assert not may(Actor(id_), place, Talk(is_direct=False)).allowed
        assert not any(may_say(Actor(id_), command, place) for command in COMMANDS)


@pytest.mark.parametrize(
    "by", ["", " ", "operator", "operator ", "root", "Operator root", "/", "/U-ANA", "slack-main/"]
)
def test_s_i4_whom_a_stored_name_does_not_name_is_nobody(by: str) -> None:
    """S-I4: above all no operator, who may everything."""
    assert who_said(by) is None
    assert not any(may(who_said(by), here(), CommandUse(command)).allowed for command in COMMANDS)


def test_s_i4_who_has_no_id_answers_nobody() -> None:
    """S-I4."""
    for requester in ("", "U-MAX"):
        assert may(Actor(""), here(), Reply(requester)).reason == "nobody"
        assert not may(Actor(""), here(), Approval(requester)).allowed


@pytest.mark.parametrize("who", [Operator("root"), Actor.by_id("U-ANA", connection="slack-main"), None])
def test_a_name_that_is_stored_is_read_as_whose_it_is(who: Who) -> None:
    assert who_said(named_as(who, "telegram/C1")) == who


def test_s_i4_who_is_stored_by_id_is_no_member_because_nobody_asked() -> None:
    """S-I4: such as whoever allowed calls for good. A role that names them counts as ever."""
    stored = who_said("slack-main/U-NEW")
    assert may(stored, here(), CommandUse("status")).reason == "guest"
    assert may(stored, here(), Approval("U-NEW")).reason == "guest"
    assert may(Actor("U-NEW"), here(), CommandUse("status")).allowed
    named = here(Profile(name="p", roles=Roles(approver=["slack-main/U-NEW"])))
    assert may(stored, named, CommandUse("approve always")).allowed


MAKE_ACTORS = {"gateway/events.py", "gateway/platforms"}


def test_only_platforms_say_who_somebody_is() -> None:
    """Elsewhere people are stored ones: `Actor.by_id`, a guest unless that was asked."""
    root = Path(gateway.__file__).parents[1]
    made = set()
    for file in (*root.glob("gateway/**/*.py"), *root.glob("workers/**/*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Actor":
                made.add(file.relative_to(root).as_posix())
    assert {"gateway/platforms" if one.startswith("gateway/platforms/") else one for one in made} == MAKE_ACTORS


def test_s_i5_an_empty_list_is_nobody() -> None:
    """S-I5."""
    place = here(Profile(name="p"))
    assert not any(may_say(Actor("U-ANA"), command, place) for command in NEEDS_ROLE)
    assert may_say(Actor("U-ANA"), "skill off", here(Profile(name="q", roles=Roles(admin=["*/*"]))))
    assert not may_say(Actor("U-ANA"), "skill off", place), "what another profile says is no matter here"


@pytest.mark.parametrize("entry", ['""', '"*"', "helper-admin", '"slack-main/"', '"/U1"', '"a b/U1"'])
def test_s_i5_a_list_of_something_else_is_a_mistake_that_says_how_to_find_the_id(tmp_path: Path, entry: str) -> None:
    """S-I5; names as in an allow-list by name."""
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/default.yaml").write_text(f"roles: {{admin: [{entry}]}}\n")
    (tmp_path / "deskmate.yaml").write_text(f"people: {{owners: [{entry}]}}\n")
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "deskmate.yaml", variables={})
    assert str(caught.value).count("connection/id") == 2
    assert "`/role` tells each person their own" in str(caught.value)


def test_blanks_around_an_entry_are_nobodys(tmp_path: Path) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/default.yaml").write_text('roles: {admin: [" slack-main/42 "]}\n')
    (tmp_path / "deskmate.yaml").write_text("log: {}\n")
    place = here(load(tmp_path / "deskmate.yaml", variables={}).profiles["default"])
    assert may_say(Actor("42"), "skill off", place)
    assert not may_say(Actor("4"), "skill off", place)


@pytest.mark.parametrize(
    ("role", "may_say_", "not_"),
    [
        ("owner", [*COMMANDS], []),
        ("admin", ["skill off", "skill reload", "role grant", "pair accept"], ["skill trust", "skill off everywhere"]),
        ("channel_admin", ["skill off", "hitl on", "queue clear all"], ["skill reload", "role grant", "pair accept", "skill trust"]),
        ("approver", ["skill trust", "status"], ["skill off", "hitl on"]),
        ("member", ["status", "skill list", "plan"], ["skill off", "skill trust"]),
        ("guest", ["help", "stop", "pair"], ["status", "skill list", "plan", "approve", "new"]),
    ],
)  # fmt: skip
def test_what_each_role_may(role: str, may_say_: list[str], not_: list[str]) -> None:
    roles = {
        "admin": Roles(admin=["slack-main/U1"]),
        "approver": Roles(approver=["slack-main/U1"]),
        "guest": Roles(guest=["slack-main/U1"]),
        "channel_admin": Roles(channel_admin={"slack-main/C1": ["slack-main/U1"]}),
    }
    place = here(
        Profile(name="p", roles=roles.get(role, Roles())), owners=("slack-main/U1",) if role == "owner" else ()
    )
    assert list(roles_of(place, Actor("U1"))) == [role]
    assert [one for one in may_say_ if not may_say(Actor("U1"), one, place)] == []
    assert [one for one in not_ if may_say(Actor("U1"), one, place)] == []
    assert not may_say(Actor("U1"), "what nobody has thought of", place), "the default is no"


def test_an_owner_decides_on_calls_and_a_guest_on_none() -> None:
    place = here(Profile(name="p", roles=Roles(guest=["slack-main/G"])), owners=("slack-main/O",))
    assert may(Actor("O"), place, Approval("x")).rule == "p.yaml: people.owners slack-main/O"
    assert may(Actor("M"), place, Approval("M")).allowed
    assert may(Actor("G"), place, Approval("G")).reason == "guest"
    assert may(Operator("root"), place, Approval("x")).rule == "the command line"


def test_a_tool_that_changes_something_is_not_for_guests() -> None:
    place = here(Profile(name="p", tools=["a"], roles=Roles(guest=["slack-main/G"])))
    assert may(Actor("G"), place, ToolUse("a", "read")).allowed
    assert may(Actor("G"), place, ToolUse("a", "idempotent")).reason == "guest"
    assert may(Actor("G"), place, ToolUse("a")).reason == "guest", "what nobody says is taken for the worst"
    assert may(Actor("G"), place, ToolUse("b", "read")).reason == "profile"


def test_an_admin_of_one_channel_is_nobody_in_another_one() -> None:
    profile = Profile(name="p", roles=Roles(channel_admin={"slack-main/C1": ["slack-main/U1"]}))
    assert may_say(Actor("U1"), "skill off", here(profile))
    assert not may_say(Actor("U1"), "skill off", here(profile, room="slack-main/C2"))
    granted = here(Profile(name="p"), own=Decisions("1", channel_admins={"slack-main/U2": "slack-main/U-ANA"}))
    verdict = may(Actor("U2"), granted, CommandUse("skill off"))
    assert verdict.rule == "slack-main/U-ANA made slack-main/U2 an admin of slack-main/C1"
    assert named(granted)["channel_admin"] == {"slack-main/U2": verdict.rule}
