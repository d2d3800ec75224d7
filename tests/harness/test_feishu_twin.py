"""The stand-in, proven with the client and the event reader that Feishu itself wrote.

That library takes seconds to load and blocks its loop, so it is loaded when the first test asks, and called in a thread.
"""

from __future__ import annotations

import asyncio
import importlib
import io
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, Self, cast

import pytest
from aiohttp import web
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from multidict import CIMultiDict
from pydantic import SecretStr

from gateway.platforms import Malformed, Outside, RawRequest, Unauthorized, own_ms
from gateway.platforms.feishu import Adapter, Settings
from tests.harness.feishu_twin import (
    APP_ID,
    APP_SECRET,
    DIRECT,
    ENCRYPT_KEY,
    GROUP,
    USER,
    VERIFICATION_TOKEN,
    FeishuTwin,
    encrypted,
    sign,
)

VECTORS = json.loads((Path(__file__).parents[1] / "vectors/feishu.json").read_text(encoding="utf-8"))
NOWHERE = cast("Outside", type("Nowhere", (), {"http": None, "files": None, "now_ms": own_ms}))


@pytest.fixture(scope="module")
def lark() -> Iterator[Any]:
    made = importlib.import_module("lark_oapi")
    yield made
    made.ws.client.loop.close()  # it makes one when it is loaded


@pytest.fixture
async def feishu() -> AsyncIterator[FeishuTwin]:
    async with FeishuTwin(retry_s=(0.0, 0.0, 0.0)) as twin:
        yield twin


class Client:
    """Feishu's client, one call a method: `await client.im.message.create(path_or_body...)`."""

    def __init__(self, lark: Any, url: str, secret: str = APP_SECRET) -> None:
        # A token is kept by app id for all clients of the process; each stand-in gives others.
        lark.core.token.manager.TokenManager.cache = lark.core.token.manager.LocalCache()
        self._client = lark.Client.builder().app_id(APP_ID).app_secret(secret).domain(url).build()

    async def call(self, where: str, what: str, *, body: dict[str, Any] | None = None, **fields: Any) -> Any:
        """As `client.im.v1.message.create(request)`, with the request's fields by name."""
        service, resource, method = where.split(".")
        models = importlib.import_module(f"lark_oapi.api.{service}.v1")
        builder = getattr(models, f"{what}Request").builder()
        for name, value in fields.items():
            builder = getattr(builder, name)(value)
        if body is not None:
            made = getattr(models, f"{what}RequestBody")(body)
            for name, value in body.items():
                setattr(made, name, value)  # its models take no streams
            builder = builder.request_body(made)
        bound: Callable[[Any], Any] = getattr(getattr(getattr(self._client, service).v1, resource), method)
        return await asyncio.to_thread(bound, builder.build())


@pytest.fixture
def client(lark: Any, feishu: FeishuTwin) -> Client:
    return Client(lark, feishu.url)


def card(text: str, **config: Any) -> str:
    body = {"elements": [{"tag": "markdown", "element_id": "text", "content": text}]}
    return json.dumps({"schema": "2.0", "config": {"update_multi": True, **config}, "body": body})


async def post(client: Client, content: str, kind: str = "interactive", uuid: str = "", room: str = GROUP) -> Any:
    body = {"receive_id": room, "msg_type": kind, "content": content, "uuid": uuid}
    return await client.call("im.message.create", "CreateMessage", body=body, receive_id_type="chat_id")


async def test_feishu_s_client_posts_answers_and_changes(feishu: FeishuTwin, client: Client) -> None:
    posted = await post(client, card("one"), uuid="u1")
    again = await post(client, card("two"), uuid="u1")
    assert posted.success(), posted.msg
    assert posted.data.message_id == again.data.message_id
    id_ = posted.data.message_id
    body = {"content": json.dumps({"text": "answer"}), "msg_type": "text", "reply_in_thread": True}
    reply = await client.call("im.message.reply", "ReplyMessage", body=body, message_id=id_)
    assert reply.data.thread_id == f"omt_{id_}"
    patched = await client.call("im.message.patch", "PatchMessage", body={"content": card("three")}, message_id=id_)
    edit = {"msg_type": "text", "content": json.dumps({"text": "answered"})}
    edited = await client.call("im.message.update", "UpdateMessage", body=edit, message_id=reply.data.message_id)
    assert (patched.code, edited.code) == (0, 0)
    assert [(one.text, one.thread) for one in feishu.shown] == [("three", None), ("answered", f"omt_{id_}")]


async def test_feishu_s_client_streams_a_card(feishu: FeishuTwin, client: Client) -> None:
    made = await client.call(
        "cardkit.card.create", "CreateCard", body={"type": "card_json", "data": card("...", streaming_mode=True)}
    )
    id_ = made.data.card_id
    await post(client, json.dumps({"type": "card", "data": {"card_id": id_}}))
    assert feishu.shown[0].is_growing
    where = {"card_id": id_, "element_id": "text"}
    body = {"content": "one two", "sequence": 5}
    shown = await client.call("cardkit.card_element.content", "ContentCardElement", body=body, **where)
    late = await client.call("cardkit.card_element.content", "ContentCardElement", body=body, **where)
    assert (shown.code, late.code) == (0, 300_317)
    settings = json.dumps({"config": {"streaming_mode": False}})
    ended = await client.call(
        "cardkit.card.settings", "SettingsCard", body={"settings": settings, "sequence": 6}, card_id=id_
    )
    over = await client.call(
        "cardkit.card_element.content", "ContentCardElement", body={**body, "sequence": 7}, **where
    )
    assert (ended.code, over.code) == (0, 300_309)
    whole = {"card": {"type": "card_json", "data": card("whole")}, "sequence": 8}
    assert (await client.call("cardkit.card.update", "UpdateCard", body=whole, card_id=id_)).code == 0
    found = await client.call("cardkit.card.id_convert", "IdConvertCard", body={"message_id": feishu.shown[0].id})
    assert found.data.card_id == id_
    assert [(one.text, one.is_growing) for one in feishu.shown] == [("whole", False)]


async def test_feishu_s_client_uploads_reacts_and_downloads(feishu: FeishuTwin, client: Client) -> None:
    image = await client.call(
        "im.image.create",
        "CreateImage",
        body={"image_type": "message", "image": ("a.png", io.BytesIO(b"png"), "image/png")},
    )
    file = await client.call(
        "im.file.create",
        "CreateFile",
        body={"file_type": "stream", "file_name": "a.csv", "file": ("a.csv", io.BytesIO(b"a;b"), "text/csv")},
    )
    assert image.success(), image.msg
    assert (await post(client, json.dumps({"image_key": image.data.image_key}), "image")).code == 0
    assert (await post(client, json.dumps({"file_key": file.data.file_key}), "file")).code == 0
    assert (await post(client, json.dumps({"file_key": "file_other"}), "file")).code == 230_001
    assert [one.file for one in feishu.shown] == [b"png", b"a;b"]
    id_ = feishu.shown[0].id
    reaction = {"reaction_type": {"emoji_type": "Typing"}}
    where = "im.message_reaction"
    made = await client.call(f"{where}.create", "CreateMessageReaction", body=reaction, message_id=id_)
    there = await client.call(f"{where}.list", "ListMessageReaction", message_id=id_, reaction_type="Typing")
    assert made.data.reaction_id in {one.reaction_id for one in there.data.items}
    gone = await client.call(
        f"{where}.delete", "DeleteMessageReaction", message_id=id_, reaction_id=made.data.reaction_id
    )
    assert gone.code == 0
    async with Gateway() as gateway:
        await feishu.picture(gateway.url, "look", b"png of a person")
    [key] = feishu.resources
    got = await client.call(
        "im.message_resource.get", "GetMessageResource", message_id=feishu.messages[-1].id, file_key=key, type="image"
    )
    assert got.file.read() == b"png of a person"


@pytest.mark.parametrize(
    ("content", "kind", "room", "code"),
    [
        ("no json", "interactive", GROUP, 230_001),
        ('{"schema":"1.0"}', "interactive", GROUP, 230_099),
        (card("x" * 31_000), "interactive", GROUP, 230_025),
        (card("| a |\n|---|\n\n" * 5), "interactive", GROUP, 230_099),
        (card(""), "interactive", GROUP, 230_099),
        ('{"text":""}', "text", GROUP, 230_001),
        ('{"text":"hi"}', "text", "oc_other", 230_002),
        ('{"text":"hi"}', "nonsense", GROUP, 230_001),
        ('{"type":"card","data":{"card_id":"7"}}', "interactive", GROUP, 230_099),
    ],
)
async def test_the_rules_are_kept(
    feishu: FeishuTwin, client: Client, *, content: str, kind: str, room: str, code: int
) -> None:
    assert (await post(client, content, kind, room=room)).code == code
    assert feishu.shown == []


async def test_a_wrong_secret_gets_no_token_and_a_long_uuid_no_message(feishu: FeishuTwin, lark: Any) -> None:
    assert (await post(Client(lark, feishu.url), '{"text":"hi"}', "text", uuid="u" * 51)).code == 99_992_402
    with pytest.raises(lark.core.exception.ObtainAccessTokenException, match="10014"):
        await post(Client(lark, feishu.url, "wrong"), '{"text":"hi"}', "text")


class Gateway:
    """Takes what is sent to it, after refusing as often as told."""

    def __init__(self, refusals: int = 0) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        self._refusals = refusals

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_post("/webhooks/feishu", self._take)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/webhooks/feishu"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _take(self, request: web.Request) -> web.Response:
        self.got.append((dict(request.headers), await request.read()))
        return web.json_response({}, status=503 if len(self.got) <= self._refusals else 200)


class Reader:
    """Feishu's event reader, and what it has read."""

    def __init__(self, lark: Any, key: str = ENCRYPT_KEY, token: str = VERIFICATION_TOKEN) -> None:
        self.heard: list[Any] = []
        self._lark = lark
        builder = lark.EventDispatcherHandler.builder(key, token, lark.LogLevel.CRITICAL)
        builder = builder.register_p2_im_message_receive_v1(self.heard.append)
        self._reader = builder.register_p2_card_action_trigger(self._pressed).build()

    def _pressed(self, event: Any) -> Any:
        self.heard.append(event)
        made = importlib.import_module("lark_oapi.event.callback.model.p2_card_action_trigger")
        return made.P2CardActionTriggerResponse({})

    def takes(self, headers: dict[str, str], body: bytes) -> bool:
        request = self._lark.RawRequest()
        request.uri, request.body, request.headers = "/", body, headers
        return bool(self._reader.do(request).status_code == 200)


async def test_what_people_do_is_read_by_feishu_s_own_reader(feishu: FeishuTwin, client: Client, lark: Any) -> None:
    buttons = {
        "tag": "button",
        "type": "primary",
        "text": {"tag": "plain_text", "content": "Yes"},
        "behaviors": [{"type": "callback", "value": {"say": "help"}}],
    }
    with_button = json.loads(card("sure?"))
    with_button["body"]["elements"].append(buttons)
    async with Gateway(refusals=2) as gateway:
        said = await feishu.mention(gateway.url, "hi")
        await post(client, json.dumps(with_button))
        await feishu.follow_up(gateway.url, said, "and?")
        await feishu.direct(gateway.url, "/help")
        await feishu.press(gateway.url, feishu.shown[-1], "Yes")
    assert said.statuses == [503, 503, 200]
    assert len({body for _, body in gateway.got[:3]}) == 1
    reader = Reader(lark)
    assert all(reader.takes(headers, body) for headers, body in gateway.got[2:])
    mention, follow, direct, press = reader.heard
    assert mention.event.message.mentions[0].key == "@_user_1"
    assert follow.event.message.parent_id == feishu.shown[-1].id
    assert (direct.event.message.chat_id, direct.event.message.chat_type) == (DIRECT, "p2p")
    assert press.event.action.value == {"say": "help"}
    assert press.event.operator.open_id == USER


def test_feishu_s_own_reader_agrees_on_the_vectors(lark: Any) -> None:
    for vector in VECTORS["decrypt_vectors"]:
        sealed = vector.get("encrypt") or json.loads(vector["request_body"])["encrypt"]
        opened = lark.core.utils.AESCipher(vector["encrypt_key"]).decrypt_str(sealed)
        assert opened == vector["plaintext"]
    for vector in VECTORS["signature_vectors"][:2]:
        names = ("X-Lark-Request-Timestamp", "X-Lark-Request-Nonce", "X-Lark-Signature")
        values = (vector["timestamp"], vector["nonce"], vector.get("signature") or vector["expected"])
        reader = Reader(lark, vector["encrypt_key"], "rvaYgkND1GOiu5MM0E1rncYC6PLtF7JV")
        headers = dict(zip(names, values, strict=True))
        assert reader.takes(headers, vector["body"].encode()) == vector["valid"]


@given(
    st.sampled_from(["as it is", "body", "signature", "key", "unsigned", "token", "no token"]),
    st.text(max_size=20),
    st.integers(0, 200),
)
@examples(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_we_and_feishu_s_own_reader_agree(lark: Any, spoil: str, text: str, at: int) -> None:
    token = {"token": "x", "no token": None}.get(spoil, VERIFICATION_TOKEN)
    message = {"message_id": "om_1", "chat_id": "oc_1", "content": json.dumps({"text": text}), "message_type": "text"}
    header = {"event_id": "e", "event_type": "im.message.receive_v1", "token": token}
    event = {"message": message, "sender": {"sender_id": {"open_id": "ou_1"}}}
    raw = encrypted(json.dumps({"schema": "2.0", "header": header, "event": event}).encode())
    headers = sign(raw, "another" if spoil == "key" else ENCRYPT_KEY)
    if spoil == "body":
        at = at % (len(raw) - 40) + 20
        raw = raw[:at] + (b"A" if raw[at : at + 1] != b"A" else b"B") + raw[at + 1 :]
    elif spoil == "signature":
        headers["X-Lark-Signature"] = headers["X-Lark-Signature"][::-1]
    elif spoil == "unsigned":
        headers = {}
    keys = {"app_secret": SecretStr("x"), "verification_token": SecretStr(VERIFICATION_TOKEN)}
    ours = Adapter(
        "feishu",
        Settings(platform="feishu", app_id=APP_ID, encrypt_key=SecretStr(ENCRYPT_KEY), **keys),
        NOWHERE,
    )
    try:
        request = RawRequest("POST", "/", {}, CIMultiDict(headers), raw)
        ours.verify(request, 0)
        accepted = bool(ours.parse(request, 0))
    except (Unauthorized, Malformed):
        accepted = False
    assert accepted == Reader(lark).takes(headers, raw)
