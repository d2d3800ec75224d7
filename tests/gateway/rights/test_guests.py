"""Who is a guest of a workspace is one by slash command and by button as well."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from config.loading import load
from config.settings import Settings
from gateway.conversation.key import ConversationKey
from gateway.events import Actor, Event
from gateway.rights.guests import Guests, is_guest_by_id
from gateway.store import Layout, Store
from tests.gateway.served import SLACK, Served, served
from tests.harness.slack_twin import CHANNEL, TEAM, USER, Message, SlackTwin

BUTTON = {
    "type": "actions",
    "elements": [
        {
            "type": "button",
            "action_id": "deskmate:0",
            "value": "skill list",
            "text": {"type": "plain_text", "text": "Go"},
        }
    ],
}


@pytest.fixture
async def slack() -> AsyncIterator[SlackTwin]:
    async with SlackTwin() as twin:
        yield twin


@pytest.fixture
async def there(tmp_path: Path, redis_url: str, layout: Layout, slack: SlackTwin) -> AsyncIterator[Served]:
    connections = {"slack-main": {**SLACK, "api_base": slack.url}}
    async with served(tmp_path, redis_url, layout.prefix, {"connections": connections}) as gateway:
        yield gateway


def hook(there: Served) -> str:
    return f"http://127.0.0.1:{there.port}/webhooks/slack-main"


async def guests(there: Served) -> list[bool | None]:
    """Of all commands and presses that were stored."""
    return [one.actor.is_guest for one in await there.waiting() if one.kind != "message"]


async def by_command(there: Served, slack: SlackTwin, user: str = USER) -> None:
    assert (await slack.command(hook(there), "skill list", user=user)).statuses == [200]


async def by_button(there: Served, slack: SlackTwin, user: str = USER) -> None:
    shown = Message(CHANNEL, f"{time.time():.6f}", "U0BOT01", "Well?", blocks=[BUTTON])
    slack.messages.append(shown)
    assert (await slack.press(hook(there), shown, "Go", user=user)).statuses == [200]


@pytest.mark.parametrize("way", [by_command, by_button])
@pytest.mark.parametrize(
    ("about", "is_guest"),
    [
        ({}, False),
        ({"is_restricted": True}, True),
        ({"is_ultra_restricted": True}, True),
        ({"is_stranger": True}, True),
        ({"team_id": "T0OTHER"}, True),
        ({"team_id": "T0OTHER", "enterprise_user": {"teams": [TEAM]}}, False),
    ],
)
async def test_the_platform_is_asked_once(
    there: Served, slack: SlackTwin, way: Any, about: dict[str, Any], is_guest: bool
) -> None:
    slack.about[USER] = about
    for _ in range(2):
        await way(there, slack)
    assert await guests(there) == [is_guest] * 2
    assert slack.calls.count("users.info") == 1


@pytest.mark.parametrize("way", [by_command, by_button])
async def test_whom_nobody_can_tell_of_is_no_member(there: Served, slack: SlackTwin, way: Any) -> None:
    slack.next(error="missing_scope", on="users.info")
    await way(there, slack)
    assert await guests(there) == [None]


@pytest.mark.parametrize("way", [by_command, by_button])
@pytest.mark.parametrize(("profile", "is_guest"), [({}, False), ({"is_restricted": True}, True)])
async def test_where_nobody_can_be_asked_the_last_message_counts(
    there: Served, slack: SlackTwin, way: Any, profile: dict[str, Any], is_guest: bool
) -> None:
    for number, told in enumerate(({"is_restricted": not is_guest}, profile)):
        event = {"type": "message", "user": USER, "text": "hi", "channel": CHANNEL, "ts": f"{time.time():.6f}"}
        body = slack.envelope(event | {"channel_type": "channel", "user_profile": told, "client_msg_id": str(number)})
        assert await slack.deliver(hook(there), body) == [200]
    slack.next(error="missing_scope", on="users.info")
    await way(there, slack)
    assert await guests(there) == [is_guest]


async def test_that_somebody_is_a_member_is_noted_once_and_that_they_are_a_guest_each_time(
    there: Served, slack: SlackTwin
) -> None:
    """What everybody writes all day costs no way to Redis each time."""
    store = there.parts.store
    noted: list[list[Any]] = []
    for number, is_guest in enumerate((False, False, True, True, False, False)):
        event = {"type": "message", "user": USER, "text": "hi", "channel": CHANNEL, "ts": f"{time.time():.6f}"}
        told = {"is_restricted": is_guest}
        body = slack.envelope(event | {"channel_type": "channel", "user_profile": told, "client_msg_id": str(number)})
        assert await slack.deliver(hook(there), body) == [200]
        found: Any = [key async for key in store.redis.scan_iter(f"{store.layout.guests_root}:told:*")]
        values: list[Any] = [value for key in found if (value := await store.redis.getdel(key)) is not None]
        noted.append(values)
    assert noted == [[b"0"], [], [b"1"], [b"1"], [b"0"], []]


CONNECTIONS = """\
redis: {{key_prefix: {prefix}}}
connections:
  slack-main: {{platform: slack, signing_secret: $SECRET, bot_token: $SECRET}}
  bridge: {{platform: standard_webhooks, secret: $BRIDGE, reply_url: "http://127.0.0.1:9/replies"}}
  telegram-main: {{platform: telegram, bot_token: $TELEGRAM, secret_token: $SECRET}}
"""


@pytest.fixture
def settings(tmp_path: Path, store: Store) -> Settings:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/default.yaml").write_text("{}\n")
    file = tmp_path / "deskmate.yaml"
    file.write_text(CONNECTIONS.format(prefix=store.layout.prefix))
    secrets = {"SECRET": "xoxb-s3cret", "BRIDGE": "whsec_" + "c2VjcmV0" * 4, "TELEGRAM": "4711:" + "A" * 35}
    return load(file, variables={**secrets, "REDIS_URL": "redis://127.0.0.1"}).settings


def did(connection: str, kind: str, *, is_guest: bool | None) -> Event:
    where = ConversationKey(connection, "C1")
    return Event(
        kind=kind, conversation=where, actor=Actor("U1", is_guest=is_guest), dedupe_keys=("1",), at_ms=1, text="hi"
    )


@pytest.mark.parametrize(
    ("connection", "kind", "said"),
    [
        ("slack-main", "message", False),
        ("slack-main", "message", True),
        ("slack-main", "command", None),
        ("bridge", "message", True),
        ("bridge", "action", False),
        ("telegram-main", "message", False),
    ],
)
async def test_of_whom_only_the_id_is_at_hand_counts_what_the_platform_told(
    store: Store, settings: Settings, connection: str, kind: str, said: bool | None
) -> None:
    before = False if connection == "telegram-main" else None
    assert await is_guest_by_id(store, settings, f"{connection}/U1") is before, (
        "Telegram tells of nobody, the others may"
    )
    await Guests(store).remember(settings, [did(connection, kind, is_guest=said)])
    assert await is_guest_by_id(store, settings, f"{connection}/U1") is said
    assert await is_guest_by_id(store, settings, f"{connection}/U2") is before


@pytest.mark.parametrize("person", ["gone/U1", "", "U1", "slack-main/"])
async def test_of_nobodys_id_nobody_is_told(store: Store, settings: Settings, person: str) -> None:
    assert await is_guest_by_id(store, settings, person) is None
