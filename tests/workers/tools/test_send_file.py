"""A text file for the people in the chat."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import jsonschema_rs
import pytest

from config.profiles import Profile
from config.settings import MailboxSettings, WorkspaceSettings
from gateway.conversation.mailbox import Mailbox
from gateway.events import Actor, Event
from gateway.files import FILE_MAX_BYTES, Files
from gateway.platforms import Outcome
from gateway.store import Store
from gateway.workspace import Change, Workspace
from skills.library import scan
from tests.gateway.conversation.world import now_ms
from tests.workers.calling.test_calls import play
from tests.workers.places import Fixed, call, place
from tests.workers.records import WHERE, answer, use
from tests.workers.room import Room
from workers.prompt.rendering import messages
from workers.sending.cards import Cards
from workers.sending.delivery import Delivery
from workers.tools import Outside, ToolError, ToolResult
from workers.tools.send_file import Tool
from workers.turn import Parked, Turn, begin

HERE = place(scan([]))
CSV = {"name": "figures.csv", "content": "a,b\n1,2\n"}


def made() -> Tool:
    return Tool(cast("Outside", None))


async def sent(name: str = "a.txt", content: str = "text", file_max_bytes: int = 100) -> ToolResult:
    return await made().run({"name": name, "content": content}, call(HERE, file_max_bytes=file_max_bytes))


@pytest.fixture
async def turn(store: Store) -> Turn:
    mailbox = Mailbox(store, MailboxSettings())
    await mailbox.open()
    event = Event(kind="message", conversation=WHERE, actor=Actor("u"), dedupe_keys=("d",), at_ms=now_ms(), text="hi")
    await mailbox.accept(WHERE, event.dump(), dedupe_keys=("d",), at_ms=now_ms())
    claim = (await mailbox.claim(0, "w", 1)).grants[0]
    stored = await mailbox.load(claim.conversation)
    begun = begin(mailbox, claim, stored, Profile(), event)
    await begun.take(stored.inbox)
    return begun


def wanted(call_id: str, arguments: dict[str, str]) -> dict[str, Any]:
    return {**use(call_id, "send_file"), "input": arguments}


async def ask(turn: Turn, room: Any, *uses: dict[str, Any]) -> list[str]:
    """The model calls it; or, without `uses`, whoever goes on does what is left."""
    rights = Fixed(place(scan([]), Profile(name="p", tools=["send_file"])))
    tools: list[Any] = [made()]
    return [record.data["text"] for record in await play(turn, tools, *uses, rights=rights, platform=room)]


# what it takes


@pytest.mark.parametrize("name", ["a", "figures.csv", "报告 2026.md", "x.tar.gz", "a" * 100, "UPPER.TXT", "a..b"])
async def test_a_files_name_is_one(name: str) -> None:
    [file] = (await sent(name)).files
    assert (file.kind, file.name, file.size_bytes, file.content) == ("file", name, 4, b"text")


@pytest.mark.parametrize(
    "name",
    [
        *("", ".", "..", "/", "a/b.txt", "/etc/passwd", "../a.txt", "a/", "./a", "a\\b.txt", "\\\\host\\a", ".env"),
        *("a\nb.txt", "a\x00.txt", "\u202etxt.exe", "a\u200b.txt", "a\x7f", "a" * 101, "好" * 34),
    ],
)
async def test_what_is_no_name_is_refused_and_nothing_goes_out(name: str) -> None:
    with pytest.raises(ToolError, match="file's name"):
        await sent(name)


@pytest.mark.parametrize(
    ("name", "mime"),
    [("a.csv", "text/csv"), ("a.html", "text/html"), ("a", "text/plain"), ("a.nonsense", "text/plain")],
)
async def test_its_type_follows_its_name(name: str, mime: str) -> None:
    assert (await sent(name)).files[0].mime == mime


async def test_an_empty_file_is_refused() -> None:
    with pytest.raises(ToolError, match="would be empty"):
        await sent(content="")


async def test_what_is_too_large_for_the_chat_is_refused_with_both_sizes_in_bytes() -> None:
    assert (await sent(content="好" * 33)).files
    with pytest.raises(ToolError, match=r"102 bytes, this chat takes 100\."):
        await sent(content="好" * 34)


async def test_a_chat_that_takes_more_than_we_keep_gets_what_we_keep() -> None:
    with pytest.raises(ToolError, match=f"this chat takes {FILE_MAX_BYTES:,}"):
        await sent(content="x" * (FILE_MAX_BYTES + 1), file_max_bytes=10**9)


async def test_where_the_chat_takes_no_files_the_model_is_told_to_write_it_out() -> None:
    with pytest.raises(ToolError, match="takes no files"):
        await sent(file_max_bytes=0)


async def test_half_a_character_does_not_keep_the_rest_from_going_out() -> None:
    assert (await sent(content="a\ud800b")).files[0].content == b"a?b"


def test_the_arguments_are_closed() -> None:
    schema = jsonschema_rs.validator_for(dict(Tool.input_schema))
    assert schema.is_valid(CSV)
    assert schema.is_valid({"path": "a"})
    assert not schema.is_valid({**CSV, "to": "another channel"})


# from the workspace


async def from_workspace(store: Store, **arguments: str) -> ToolResult:
    here = Workspace(store, "channel", WorkspaceSettings(), 60)
    await here.change("1", Change("out/Chart.png", "put", b"\x89PNG\0"), Change("empty", "put", b""))
    return await made().run(arguments, call(HERE, file_max_bytes=100, workspace=here))


async def test_a_file_of_the_workspace_goes_out_as_it_is(store: Store) -> None:
    [file] = (await from_workspace(store, path="./out/chart.png")).files
    assert (file.name, file.mime, file.content, file.size_bytes) == ("Chart.png", "image/png", b"\x89PNG\0", 5)
    [file] = (await from_workspace(store, path="out/Chart.png", name="x.bin")).files
    assert (file.name, file.mime) == ("x.bin", "application/octet-stream")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"path": "a", "content": "x"}, "either `content`, which you write, or a `path`"),
        ({"name": "a"}, "either `content`, which you write, or a `path`"),
        ({"path": "/etc/passwd"}, "part of a name"),
        ({"path": "other"}, "no file 'other' in the workspace"),
        ({"path": "empty"}, "would be empty"),
        ({"path": "out/Chart.png", "name": "../x"}, "no file's name"),
        ({"content": "x"}, "file's name has 1 to 100"),
    ],
)
async def test_what_can_not_be_sent_from_there_is_told(store: Store, arguments: dict[str, str], why: str) -> None:
    with pytest.raises(ToolError, match=why):
        await from_workspace(store, **arguments)


# how it goes out


async def test_it_is_sent_in_the_midst_of_the_turn_and_its_bytes_are_in_no_record(turn: Turn) -> None:
    room = Room()
    assert await ask(turn, room, wanted("t1", CSV)) == ["figures.csv goes to the chat."]
    [(_, part)] = room.parts
    assert part.file
    assert (part.file.name, part.file.mime, part.file.content) == ("figures.csv", "text/csv", b"")
    assert await Files(turn.mailbox.store).read(part.file.fetch, 100) == b"a,b\n1,2\n"
    stored = await turn.mailbox.load(turn.claim.conversation)
    [row] = stored.rows
    assert (row.state, row.order < 0) == ("sent", True)
    assert "1,2" not in row.body()
    [record] = [one for one in stored.history if one.type == "file"]
    assert "1,2" not in record.dump()
    assert messages(stored.history) == messages([one for one in stored.history if one.type != "file"])


async def test_a_worker_that_dies_before_its_row_is_written_leaves_one_file_to_the_next(turn: Turn) -> None:
    room: Any = Room()
    await turn.write(answer(1, wanted("t1", CSV), stop_reason="tool_use"))
    result = await made().run(CSV, call(HERE, file_max_bytes=100))
    await Cards(turn, room).keep(result.files[0])
    assert room.parts == []
    assert await ask(turn, room) == ["figures.csv goes to the chat."]
    assert room.sent == ["figures.csv"]
    assert await turn.mailbox.store.redis.hlen(turn.mailbox.store.layout.key(WHERE.id, "files")) == 1


async def test_a_worker_that_dies_before_it_sends_leaves_a_row_that_the_next_one_sends_once(turn: Turn) -> None:
    room: Any = Room()
    room.outcomes = [Outcome("rate_limited", retry_after_s=30)]
    with pytest.raises(Parked):
        await ask(turn, room, wanted("t1", CSV))
    store = turn.mailbox.store
    async for held in store.redis.scan_iter(f"{store.layout.pace_root}:*"):
        await store.redis.delete(held)  # the wait is over
    for state in ("pending", "sent"):
        [row] = (await turn.mailbox.load(turn.claim.conversation)).rows
        assert row.state == state
        await Delivery(turn, room, turn.mailbox.settings).send_all([replace(row, since_ms=0)])
    assert room.sent == ["figures.csv"]


async def test_two_files_of_one_step_are_two_rows(turn: Turn) -> None:
    room = Room()
    other = {"name": "other.csv", "content": "c\n"}
    await ask(turn, room, wanted("t1", CSV), wanted("t2", other))
    assert room.sent == ["figures.csv", "other.csv"]
    assert len({key for key, _ in room.parts}) == 2


async def test_what_was_refused_sends_nothing(turn: Turn) -> None:
    room = Room(file_max_bytes=0)
    [told] = await ask(turn, room, wanted("t1", CSV))
    assert "takes no files" in told
    assert room.parts == []
    stored = await turn.mailbox.load(turn.claim.conversation)
    assert [one.type for one in stored.history if one.type == "file"] == []
