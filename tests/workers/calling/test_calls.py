"""Tool calls: refused where not allowed, intent before, result after, and what a crash left half done."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from config.profiles import Approvals, Profile
from config.settings import MailboxSettings, ToolsSettings
from gateway.conversation.claim import Lost
from gateway.conversation.mailbox import Mailbox
from gateway.conversation.records import Record
from gateway.events import Actor, Event
from gateway.platforms import Address, Capabilities, Outbound, Outcome, Part, Plain, Sent
from gateway.shelf.notes import Notes
from gateway.store import Store, Unreachable
from skills.folders import Root, Skill
from skills.library import scan
from tests.gateway.conversation.world import now_ms
from tests.harness.processes import until
from tests.skills.test_library import write
from tests.skills.test_programs import write_program
from tests.workers.calling.test_programs import offered as programs_of
from tests.workers.places import Fixed, place
from tests.workers.records import WHERE, answer, skill, use
from workers.agent.moves import Run, next_move
from workers.calling.calls import Calls, cut
from workers.prompt.loaded import withheld
from workers.prompt.rendering import messages
from workers.sending.cards import Cards
from workers.sending.live import Live
from workers.tools import Call, Effect, Outside, Reach, Tool, ToolError, ToolResult
from workers.turn import Turn, begin


class Quiet(Plain):
    """A platform that shows no growing answer."""

    capabilities = Capabilities(text_limit=1)

    def __init__(self) -> None:
        self.sent: list[str] = []

    def render(self, outbound: Outbound) -> list[Part]:
        return [Part({"text": outbound.markdown})]

    async def send(self, to: Address, part: Part, key: str) -> Outcome:
        del to
        self.sent.append(part.payload["text"])
        return Outcome("ok", Sent(key))


class Hammer:
    """A tool that does what a test says."""

    description = "Hits."
    input_schema: Mapping[str, Any] = {
        "type": "object",
        "properties": {"times": {"type": "integer", "description": "How often."}},
        "required": ["times"],
        "additionalProperties": False,
    }

    def __init__(self, outside: Outside | None = None, effect: Effect = "read") -> None:
        del outside
        self.name = f"hammer_{effect}"
        self.effect: Effect = effect
        self.reach: Reach = "inside"
        self.ran: list[tuple[Any, str]] = []
        self.does: Callable[[Call], Any] = lambda _: "hit"
        self.gives: tuple[Record, ...] = ()
        self.of: Skill | None = None

    async def run(self, arguments: dict[str, Any], call: Call) -> ToolResult:
        self.ran.append((arguments["times"], call.key))
        done = self.does(call)
        text = await done if asyncio.iscoroutine(done) else done
        return ToolResult(text, records=self.gives, skill=self.of)


@pytest.fixture
async def turn(store: Store) -> Turn:
    mailbox = Mailbox(store, MailboxSettings())
    await mailbox.open()
    event = Event(kind="message", conversation=WHERE, actor=Actor("u"), dedupe_keys=("d",), at_ms=now_ms(), text="hi")
    await mailbox.accept(WHERE, event.dump(), dedupe_keys=("d",), at_ms=now_ms())
    claim = (await mailbox.claim(0, "w", 1)).grants[0]
    stored = await mailbox.load(claim.conversation)
    made = begin(mailbox, claim, stored, Profile(), event)
    await made.take(stored.inbox)
    return made


async def play(
    turn: Turn,
    tools: list[Tool],
    *uses: dict[str, Any],
    rights: Fixed | None = None,
    platform: Quiet | None = None,
    **settings: Any,
) -> list[Record]:
    """The model has asked for these; run what has no result. The turn's records of results, as stored."""
    if uses:
        await turn.write(answer(1, *uses, stop_reason="tool_use"))
    move = next_move(turn.records)
    assert isinstance(move, Run)
    if rights is None:
        rights = Fixed(place(scan([]), Profile(name="p", tools=[tool.name for tool in tools])))
    platform = platform or Quiet()
    live, cards = Live(turn, platform), Cards(turn, platform)  # type: ignore[arg-type]
    offered = {tool.name: tool for tool in tools}
    await Calls(ToolsSettings(**settings), offered, turn, rights, live, cards).run(move.calls)  # type: ignore[arg-type]
    stored = await turn.mailbox.load(turn.claim.conversation)
    return [record for record in stored.history if record.type == "tool_result"]


async def test_what_is_not_offered_is_refused_and_not_run(turn: Turn) -> None:
    tool = Hammer()
    names = ["other", "HAMMER_READ", "hammer＿read", "web-access:hammer_read", "hammer_read "]
    results = await play(turn, [tool], *(use(f"t{at}", name, times=1) for at, name in enumerate(names)))
    assert [result.data["error"] for result in results] == [True] * 5
    assert all("There is no tool" in result.data["text"] for result in results)
    assert not tool.ran


async def test_what_is_not_allowed_any_more_is_refused_and_noted(turn: Turn) -> None:
    tool, other = Hammer(), Hammer(effect="idempotent")
    rights = Fixed(place(scan([]), Profile(name="p", tools=[other.name])))
    results = await play(
        turn, [tool, other], use("t1", tool.name, times=1), use("t2", other.name, times=1), rights=rights
    )
    assert [bool(result.data.get("error")) for result in results] == [True, False]
    assert f"Tools: {other.name}." in results[0].data["text"], "what is not allowed any more is not named either"
    assert not tool.ran
    assert rights.refusals == [("u", tool.name, f"p.yaml: tools {tool.name}")]
    assert [result.data.get("rule") for result in results] == [f"p.yaml: tools {tool.name}", None]
    assert [result.data.get("reason") for result in results] == ["profile", None]


async def test_a_card_is_sent_in_the_midst_of_the_turn_and_kept_from_the_model(turn: Turn) -> None:
    class Asking(Hammer):
        async def run(self, arguments: dict[str, Any], call: Call) -> ToolResult:
            await super().run(arguments, call)
            return ToolResult("asked", untrusted=False, cards=(Outbound("**May I?**"), Outbound("**And that?**")))

    platform = Quiet()
    tool = Asking(effect="once")
    (result,) = await play(turn, [tool], use("t1", tool.name, times=1), platform=platform)
    assert result.data["text"] == "asked"
    assert platform.sent == ["**May I?**", "**And that?**"]
    stored = await turn.mailbox.load(turn.claim.conversation)
    assert [record.data["text"] for record in stored.history if record.type == "card"] == platform.sent
    assert {row.state for row in stored.rows} == {"sent"}
    assert "May I" not in str(messages(stored.history))


async def test_a_program_goes_by_its_skills_id_from_the_start(turn: Turn, tmp_path: Path) -> None:
    write_program(tmp_path / "skills", "财务/日报")
    programs, here = await programs_of(tmp_path, "*")
    (result,) = await play(turn, list(programs), use("t", programs[0].name), rights=Fixed(here))
    stored = await turn.mailbox.load(turn.claim.conversation)
    started = [record.data["shown"] for record in stored.history if record.type == "tool_start"]
    assert (started, result.data["shown"]) == (["财务/日报"], "财务/日报")


async def test_all_wrong_arguments_are_named_at_once(turn: Turn) -> None:
    tool = Hammer()
    (result,) = await play(turn, [tool], use("t", "hammer_read", times="many", colour="red"))
    assert "times" in result.data["text"]
    assert "colour" in result.data["text"]
    assert not tool.ran


async def test_what_is_converted_or_filled_in_is_what_runs_and_stands_in_the_log(
    turn: Turn, caplog: pytest.LogCaptureFixture
) -> None:
    tool = Hammer()
    times = {"type": "integer", "description": "How often."}
    hard = {"type": "boolean", "default": True, "description": "Whether with force."}
    tool.input_schema = {"type": "object", "properties": {"times": times, "hard": hard}, "additionalProperties": False}
    with caplog.at_level("INFO"):
        (result,) = await play(turn, [tool], use("t", "hammer_read", times="3"))
    assert result.data["text"] == "hit"
    assert [times for times, _ in tool.ran] == [3]
    told = [record.getMessage() for record in caplog.records if record.getMessage().startswith("argument ")]
    assert told == ['argument times: "3" → 3', "argument hard: true (default)"]


async def test_unreadable_arguments_do_not_run(turn: Turn) -> None:
    tool = Hammer()
    await turn.write(answer(1, use("t", "hammer_read"), stop_reason="tool_use", bad_inputs={"t": "cut in the middle"}))
    (result,) = await play(turn, [tool])
    assert "cut in the middle" in result.data["text"]
    assert not tool.ran


async def test_the_intent_is_stored_before_the_tool_runs_and_the_result_after(turn: Turn) -> None:
    tool = Hammer(effect="once")
    seen: list[list[str]] = []

    async def look() -> str:
        stored = await turn.mailbox.load(turn.claim.conversation)
        seen.append([record.type for record in stored.history])
        return "hit"

    tool.does = lambda _: look()
    results = await play(turn, [tool], use("t", "hammer_once", times=1))
    assert seen == [["event", "answer", "tool_start"]]
    assert [result.data["text"] for result in results] == ["hit"]


async def test_neighbours_that_only_read_run_side_by_side_and_the_others_one_by_one(turn: Turn) -> None:
    read, once = Hammer(), Hammer(effect="once")
    running = {"read": 0, "once": 0}
    most = {"read": 0, "once": 0}

    async def count(kind: str) -> str:
        running[kind] += 1
        most[kind] = max(most[kind], running[kind])
        await asyncio.sleep(0.05)
        running[kind] -= 1
        return kind

    read.does = lambda _: count("read")
    once.does = lambda _: count("once")
    kinds = ["read", "read", "read", "once", "once", "read"]
    uses = [use(f"t{at}", f"hammer_{kind}", times=at) for at, kind in enumerate(kinds)]
    free = Approvals(free=[once.name])  # what was read before would make it ask
    rights = Fixed(place(scan([]), Profile(tools=[read.name, once.name], approvals=free)))
    results = await play(turn, [read, once], *uses, rights=rights)
    assert most == {"read": 3, "once": 1}
    assert [result.data["text"] for result in results] == kinds


@pytest.mark.parametrize(("effect", "runs"), [("read", 1), ("idempotent", 1), ("once", 0)])
async def test_what_a_dead_worker_began_is_run_again_only_where_that_does_no_harm(
    turn: Turn, effect: Effect, runs: int
) -> None:
    tool = Hammer(effect=effect)
    await turn.write(answer(1, use("t", tool.name, times=1), stop_reason="tool_use"))
    await turn.write(Record("tool_start", now_ms(), {"step": 1, "id": "t", "name": tool.name}))
    (result,) = await play(turn, [tool])
    assert len(tool.ran) == runs
    assert ("not known whether this ran" in result.data["text"]) == (runs == 0)


async def test_the_same_call_has_the_same_key_on_every_run(turn: Turn) -> None:
    tool = Hammer(effect="idempotent")
    await turn.write(answer(1, use("t", tool.name, times=1), use("u", tool.name, times=2), stop_reason="tool_use"))
    tool.does = lambda _: asyncio.sleep(60, "never")
    dying = asyncio.create_task(play(turn, [tool]))
    await until(lambda: bool(tool.ran))
    dying.cancel()
    await asyncio.wait([dying])
    tool.does = lambda _: "hit"
    await turn.mailbox.hand_over(turn.claim)
    turn.claim = (await turn.mailbox.claim(0, "another", 1)).grants[0]
    await play(turn, [tool])
    keys = [key for _, key in tool.ran]
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (ToolError("no such file; there are: a, b"), "no such file; there are: a, b"),
        (ValueError("secret inside"), "failed inside"),
        (OSError(5, "x"), "failed inside"),
        (asyncio.CancelledError(), "failed inside"),
    ],
)
async def test_a_tool_that_fails_is_a_result_marked_as_error(turn: Turn, fault: BaseException, told: str) -> None:
    tool = Hammer()

    def fail(_: Call) -> str:
        raise fault

    tool.does = fail
    (result,) = await play(turn, [tool], use("t", "hammer_read", times=1))
    assert result.data["error"]
    assert told in result.data["text"]
    assert "secret" not in result.data["text"]


async def test_that_redis_is_away_is_no_answer_of_a_tool(turn: Turn) -> None:
    """The model is not told that it failed: whoever goes on runs it again, or says that nobody knows."""
    tool = Hammer()

    def fail(_: Call) -> str:
        raise Unreachable("connection lost")

    tool.does = fail
    with pytest.raises(Unreachable):
        await play(turn, [tool], use("t", "hammer_read", times=1))
    stored = await turn.mailbox.load(turn.claim.conversation)
    assert [record.type for record in stored.history][-1] == "tool_start"


async def test_a_tool_that_takes_too_long_is_cut(turn: Turn) -> None:
    tool = Hammer()
    tool.does = lambda _: asyncio.sleep(60, "late")
    (result,) = await play(turn, [tool], use("t", "hammer_read", times=1), timeout_s=0.05)
    assert "took longer than 0.05 s" in result.data["text"]


async def test_text_from_outside_is_marked_with_a_word_of_its_own(turn: Turn) -> None:
    results = await play(turn, [Hammer()], use("t", "hammer_read", times=1), use("u", "hammer_read", times=2))
    marks = {result.data["mark"] for result in results if result.data["untrusted"]}
    assert len(marks) == 2


def test_a_giant_result_keeps_its_beginning_and_its_end() -> None:
    text = cut("a" * 1_000_000 + "THE END", 1_000)
    assert len(text) < 1_100
    assert text.endswith("THE END")
    assert "999007 characters left out" in text
    assert cut("binary\x00\ud800", 100) == "binary\N{REPLACEMENT CHARACTER}?"


async def test_past_the_lease_no_tool_is_started(turn: Turn) -> None:
    tool = Hammer(effect="once")
    await turn.write(answer(1, use("t", tool.name, times=1), stop_reason="tool_use"))
    await turn.write(Record("tool_start", turn.now_ms(), {"step": 1, "id": "t", "name": tool.name}))
    other = Hammer(effect="idempotent")
    other.name = tool.name
    turn.claim.deadline_s = 0.0
    with pytest.raises(Lost):
        await play(turn, [other])
    assert not other.ran


async def test_what_is_somebody_elses_by_the_time_its_line_is_in_the_log_is_not_started(
    turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def takes_longer_than_the_lease(*_: Any) -> None:
        turn.claim.deadline_s = 0.0

    monkeypatch.setattr(Calls, "_note_run", takes_longer_than_the_lease)
    tool = Hammer(effect="once")
    await turn.write(answer(1, use("t", tool.name, times=1), stop_reason="tool_use"))
    with pytest.raises(Lost):
        await play(turn, [tool])
    assert not tool.ran


def narrowed(name: str, *tools: str, **more: Any) -> Record:
    """A skill's text in context that names tools."""
    return skill("Do it so.", name, tools=list(tools), **more)


@pytest.mark.parametrize(
    ("guidance", "refused_by"),
    [
        ([skill("Use all.", "free")], None),
        ([narrowed("a", "hammer_read")], None),
        ([narrowed("a", "Hammer_READ", "Bash(git *)")], None),
        ([narrowed("a", "hammer")], "a"),
        ([narrowed("a", "hammer_read(x)", "hammer_read*")], "a"),
        ([narrowed("a")], "a"),
        ([narrowed("a", "hammer_read"), narrowed("b", "web_fetch")], "b"),
        ([narrowed("a", "web_fetch"), narrowed("a", "hammer_read", hash="newer")], None),
        ([narrowed("a", "web_fetch", delivery="next_turn")], None),
        ([narrowed("a", "web_fetch"), withheld(["a"], "unloaded", at_ms=0)], None),
        ([narrowed("a", "web_fetch"), Record("cleared", 0)], None),
    ],
)
async def test_a_skill_in_context_narrows_the_tools_to_those_it_names(
    turn: Turn, guidance: list[Record], refused_by: str | None
) -> None:
    tool = Hammer()
    await turn.write(*guidance)
    (result,) = await play(turn, [tool], use("t", "hammer_read", times=1))
    assert bool(tool.ran) == (refused_by is None)
    if refused_by:
        assert result.data["error"]
        assert f"the skill {refused_by} is loaded" in result.data["text"]


async def test_tools_about_skills_stay_whatever_is_loaded_and_nothing_is_granted(turn: Turn) -> None:
    await turn.write(narrowed("a", "web_fetch"))
    names = ["load_skill", "unload_skill", "find_skills", "read_result", "save_skill_reference"]
    tools = [Hammer() for _ in names]
    for tool, name in zip(tools, names, strict=True):
        tool.name = name
    results = await play(
        turn, [*tools], *(use(name, name, times=1) for name in names), use("w", "web_fetch", url="http://x.test")
    )
    assert [len(tool.ran) for tool in tools] == [1, 1, 1, 1, 1]
    assert "There is no tool 'web_fetch'" in results[-1].data["text"]


async def test_a_skill_that_a_batch_loads_narrows_the_calls_after_it_and_odd_names_are_logged(
    turn: Turn, caplog: pytest.LogCaptureFixture
) -> None:
    loader, hammer = Hammer(effect="idempotent"), Hammer()
    loader.name = "load_skill"
    loader.gives = (narrowed("a", "LOAD_skill", "Bash(git:*)", "Read"),)
    uses = [use("t", "hammer_read", times=1), use("u", "load_skill", times=1), use("v", "hammer_read", times=2)]
    results = await play(turn, [loader, hammer], *uses)
    assert [times for times, _ in hammer.ran] == [1]
    assert [result.data.get("error", False) for result in results] == [False, False, True]
    [told] = [one for one in caplog.records if "allowed-tools" in one.getMessage()]
    assert told.levelname == "WARNING"


async def test_a_result_with_a_skills_file_names_the_skill(turn: Turn, tmp_path: Path) -> None:
    write(tmp_path, "ops/triage")
    tool = Hammer()
    [tool.of] = scan([Root("org", tmp_path)]).skills.values()
    (result,) = await play(turn, [tool], use("t", "hammer_read", times=1))
    assert (result.data["skill"], result.data["bundle"]) == ("ops/triage", tool.of.hash)


async def test_a_tool_hears_where_and_for_whom_it_runs_and_the_model_says_nothing_of_it(turn: Turn) -> None:
    tool = Hammer()
    heard: list[Call] = []

    def listen(call: Call) -> str:
        heard.append(call)
        return "hit"

    tool.does = listen
    here = place(scan([]), Profile(name="p", tools=[tool.name]))
    rights = Fixed(here, notes=Notes(turn.mailbox.store))
    await play(turn, [tool], use("t1", tool.name, times=1), rights=rights)

    (call,) = heard
    assert (call.conversation, call.here) == (WHERE.id, here)
    assert call.actor == Actor("u")
    assert call.notes is rights.notes


class Picky(Exception):
    """Can't be made again from its text."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(one, two)


def raises(error: BaseException) -> Any:
    raise error


@pytest.mark.parametrize(
    "does",
    [
        lambda _: threading.Lock(),
        lambda _: object(),
        lambda _: None,
        lambda _: b"bytes",
        lambda _: "half \ud800 a sign",
        lambda _: raises(Picky(1, 2)),
        lambda _: raises(ToolError("half \ud800 a sign")),
        lambda _: raises(RecursionError()),
        lambda _: raises(MemoryError()),
        lambda _: raises(UnicodeError()),
        lambda _: raises(asyncio.CancelledError()),
    ],
    ids=range(11),
)
async def test_f27_what_can_not_be_stored_is_an_error_of_the_tool_and_the_turn_goes_on(
    turn: Turn, does: Callable[[Call], Any]
) -> None:
    """F27: results and errors that no record can hold."""
    tool, other = Hammer(), Hammer(effect="idempotent")
    tool.does = does
    results = await play(turn, [tool, other], use("t1", tool.name, times=1), use("t2", other.name, times=1))
    assert [record.data["id"] for record in results] == ["t1", "t2"]
    assert all(isinstance(record.data["text"], str) for record in results)
    assert other.ran
