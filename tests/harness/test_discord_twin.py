"""The stand-in, proven with the client that most bots on Discord are written with."""

from __future__ import annotations

import asyncio
import io
import json
import warnings
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from yarl import URL

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "'audioop' is deprecated", DeprecationWarning)
    import discord as sdk
    from discord.gateway import DiscordWebSocket
    from discord.http import Route

from tests.harness.discord_twin import BOT, BOT_TOKEN, CHANNEL, DIRECT, PUBLIC_KEY, USER, DiscordTwin, sign


@pytest.fixture
async def discord(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DiscordTwin]:
    async with DiscordTwin() as twin:
        monkeypatch.setattr(Route, "BASE", twin.url)
        monkeypatch.setattr(DiscordWebSocket, "DEFAULT_GATEWAY", URL(twin.url).with_scheme("ws").with_path("/gateway"))
        yield twin


class Client(sdk.Client):
    """Keeps what it hears."""

    def __init__(self, intents: sdk.Intents) -> None:
        super().__init__(intents=intents)
        self.heard: list[sdk.Message] = []
        self.was_resumed = asyncio.Event()

    async def on_resumed(self) -> None:
        self.was_resumed.set()

    async def on_message(self, message: sdk.Message) -> None:
        self.heard.append(message)


@pytest.fixture
async def client(discord: DiscordTwin) -> AsyncIterator[Client]:
    del discord  # it has to be there first
    async with Client(sdk.Intents(guild_messages=True, dm_messages=True)) as made:
        await made.login(BOT_TOKEN)
        yield made


async def test_discord_s_usual_client_posts_edits_and_uploads(discord: DiscordTwin, client: Client) -> None:
    assert client.user
    assert str(client.user.id) == BOT
    room = client.get_partial_messageable(int(CHANNEL))
    quiet = sdk.AllowedMentions.none()
    sent = await room.send("hi", nonce="k1", allowed_mentions=quiet)
    again = await room.send("another text", nonce="k1")
    assert (again.id, again.content) == (sent.id, "hi")
    await sent.edit(content="ho", suppress=True)
    await room.send(file=sdk.File(io.BytesIO(b"1;2"), "Zahlen für März.csv"))
    async with room.typing():
        pass
    assert [one.text for one in discord.shown] == ["ho", ""]
    assert discord.messages[1].files == [("Zahlen für März.csv", b"1;2")]
    assert discord.taken[0].body["enforce_nonce"] is True
    assert discord.taken[0].body["allowed_mentions"] == {"parse": []}
    assert [one.what for one in discord.taken] == ["create message", "edit message", "create message"]
    view = sdk.ui.View()
    view.add_item(sdk.ui.Button(label="Yes", custom_id="skill approve 7F3K", style=sdk.ButtonStyle.success))
    await room.send("Shall I?", view=view)
    assert discord.shown[-1].buttons == ["Yes"]


@pytest.mark.parametrize(
    ("channel", "content", "error"),
    [
        (CHANNEL, "x" * 2_001, "Must be 2000 or fewer in length"),
        (CHANNEL, " ", "Cannot send an empty message"),
        ("1", "x", "Unknown Channel"),
    ],
)
async def test_the_rules_are_kept(discord: DiscordTwin, client: Client, channel: str, content: str, error: str) -> None:
    with pytest.raises(sdk.HTTPException, match=error):
        await client.get_partial_messageable(int(channel)).send(content)
    assert discord.taken == []


async def test_a_wrong_token_and_somebody_else_s_message_are_refused(discord: DiscordTwin, client: Client) -> None:
    with pytest.raises(sdk.LoginFailure):
        async with Client(sdk.Intents.none()) as stranger:
            await stranger.login("wrong")
    listening = asyncio.create_task(client.connect())
    said = await discord.mention("", "hi")
    with pytest.raises(sdk.Forbidden, match="another user"):
        await client.get_partial_messageable(int(CHANNEL)).get_partial_message(int(said.id)).edit(content="x")
    await client.close()
    await listening


@pytest.mark.parametrize(
    "body",
    [
        {"content": "x", "nonsense": 1},
        {"content": "x", "nonce": "n" * 26},
        {"content": "x", "allowed_mentions": {"parse": ["all"]}},
        {"content": "x", "components": [{"type": 1, "components": []}]},
    ],
)
async def test_what_no_client_should_send_is_refused(discord: DiscordTwin, body: dict[str, Any]) -> None:
    headers = {"Authorization": f"Bot {BOT_TOKEN}", "User-Agent": "DiscordBot (x, 1)"}
    async with aiohttp.ClientSession(headers=headers) as http:
        async with http.post(f"{discord.url}/channels/{CHANNEL}/messages", json=body) as answer:
            assert (answer.status, (await answer.json())["code"]) == (400, 50035)
        async with http.get(f"{discord.url}/users/@me", headers={"User-Agent": "Python"}) as answer:
            assert answer.status == 403


async def test_the_gateway_s_client_hears_what_is_said_and_resumes(discord: DiscordTwin, client: Client) -> None:
    listening = asyncio.create_task(client.connect())
    await discord.mention("", "one")
    await discord.direct("", "two")
    await discord.say("three")
    async with asyncio.timeout(10):
        while len(client.heard) < 3:
            await asyncio.sleep(0.005)
        await discord.order(7)
        await client.was_resumed.wait()
        await discord.direct("", "four")
        while len(client.heard) < 4:
            await asyncio.sleep(0.005)
    # The text of what is not for the bot is not sent along.
    assert [one.content for one in client.heard] == [f"<@{BOT}> one", "two", "", "four"]
    assert [one.id for one in client.heard[0].mentions] == [int(BOT)]
    assert {str(one.author.id) for one in client.heard} == {USER}
    assert client.heard[1].guild is None
    assert str(client.heard[1].channel.id) == DIRECT
    assert discord.identified == 1
    await client.close()
    await listening


async def test_texts_that_were_not_granted_are_not_given(discord: DiscordTwin) -> None:
    async with Client(sdk.Intents(guild_messages=True, message_content=True)) as greedy:
        await greedy.login(BOT_TOKEN)
        with pytest.raises(sdk.PrivilegedIntentsRequired):
            await greedy.connect()
    assert discord.identified == 0


async def test_a_limit_is_told_as_the_client_expects_it(discord: DiscordTwin, client: Client) -> None:
    discord.next(retry_after=0.01)
    await client.get_partial_messageable(int(CHANNEL)).send("hi")  # it waits, and tries again
    assert discord.calls[-2:] == ["create message", "create message"]
    assert [one.text for one in discord.shown] == ["hi"]


async def test_interactions_are_signed_over_time_and_body() -> None:
    raw = json.dumps({"type": 1}).encode()
    headers = sign(raw)
    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(PUBLIC_KEY))
    signature = bytes.fromhex(headers["X-Signature-Ed25519"])
    key.verify(signature, headers["X-Signature-Timestamp"].encode() + raw)
    with pytest.raises(InvalidSignature):
        key.verify(signature, raw)


async def test_discords_client_takes_a_message_back(discord: DiscordTwin, client: Client) -> None:
    said = await discord.say("mine", waits=False)
    room = client.get_partial_messageable(int(CHANNEL))
    sent = await room.send("hi")
    await sent.delete()
    assert discord.shown == []
    with pytest.raises(sdk.NotFound):
        await sent.delete()
    with pytest.raises(sdk.Forbidden):
        await room.get_partial_message(int(said.id)).delete()
