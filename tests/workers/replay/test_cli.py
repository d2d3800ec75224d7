"""`deskmate replay`, as it is typed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from gateway.cli import run
from gateway.conversation.key import ConversationKey
from gateway.store import Layout
from tests.harness.fake_model import KEY
from tests.harness.logs import put_back
from tests.harness.model_replies import says
from tests.workers.at_desk import WHERE
from tests.workers.replay.world import Replays, replays

Typed = Callable[..., Awaitable[tuple[int, str, str]]]


@pytest.fixture
async def made(tmp_path: Path, redis_url: str, layout: Layout) -> AsyncIterator[Replays]:
    async with replays(tmp_path, redis_url, layout) as opened:
        yield opened


@pytest.fixture
def typed(
    tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[Typed]:
    monkeypatch.setenv("REDIS_URL", redis_url)
    monkeypatch.setenv("MODEL_KEY", KEY)

    async def of(*words: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = await asyncio.to_thread(run, ["replay", "--config", str(tmp_path / "deskmate.yaml"), *words])
        said = capfd.readouterr()
        return code, said.out, said.err

    with put_back():
        yield of


async def test_a_turn_is_listed_played_saved_and_played_from_its_file(
    made: Replays, typed: Typed, tmp_path: Path
) -> None:
    code, out, _ = await typed("--list")
    assert (code, "Nothing is recorded." in out) == (0, True)
    await made.world.ask("hello")
    case = await made.case(1)
    _, out, _ = await typed("--list", WHERE.id[:6])
    assert f"{WHERE.id[:8]}  turn {case.turn[:8]}  1 request, " in out
    assert out.rstrip().endswith("  chat/room/t  Max: hello")
    file = tmp_path / "turn.yaml"
    code, out, err = await typed(WHERE.id[:8], "last", "--save", str(file))
    assert (code, out.splitlines()[-1]) == (0, "equal")
    assert f"Written: {file}" in err
    code, out, _ = await typed(str(file), "--json")
    assert (code, json.loads(out)["equal"]) == (0, True)
    assert len(made.world.model.asked) == 1


async def test_a_live_model_that_says_something_else_is_a_difference(made: Replays, typed: Typed) -> None:
    await made.world.ask("hello")
    turn = (await made.case(1)).turn
    made.world.model.answer_with(says("Not well."))
    code, out, _ = await typed("chat/room/t", turn[:8], "--against", "live", "--json")
    assert (code, json.loads(out)["steps"][0]["text"]) == (1, {"then": "Well.", "now": "Not well."})


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "Name a conversation and a turn"),
        (("kwgedboi",), "Which turn?"),
        (("kwgedboi", "last"), "Not possible: nothing is recorded. The settings say recordings.keep: true"),
        (("turn.yaml",), "Not possible: turn.yaml can't be read"),
        (("turn.yaml", "--against", "live"), "--against live is for turns that Redis has"),
        (("kwgedboi", "last", "--save", "turn.txt"), "has to end in .yaml or .json"),
    ],
)
@pytest.mark.usefixtures("made")
async def test_what_is_not_possible_ends_with_the_reason_and_code_2(
    typed: Typed, words: tuple[str, ...], why: str
) -> None:
    code, out, err = await typed(*words)
    assert (code, out) == (2, "")
    assert why in err


async def test_a_conversation_is_found_by_its_place_whoevers_it_is(made: Replays, typed: Typed) -> None:
    mine, theirs = (ConversationKey("chat", "room", "e3", who) for who in ("U-MAX", "U-ANA"))
    await made.world.ask("hello", mine)
    assert (await typed("chat/room/e3", "last"))[0] == 0
    _, out, _ = await typed("--list", "chat/room/e3")
    assert f"{mine.id[:8]}  turn" in out
    await made.world.ask("hello too", theirs)
    code, _, err = await typed("chat/room/e3", "last")
    assert code == 2
    assert "is several people's" in err
    assert theirs.id[:8] in err
    assert (await typed(theirs.id[:8], "last"))[0] == 0
