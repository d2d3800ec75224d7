"""The transcript: what a page shows of a conversation, made from its records and its inbox."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

from gateway.commands import command_of
from gateway.conversation.records import Record
from gateway.events import Event
from gateway.rights import skill_tools
from skills.visible import one_line

SHOWN_MAX: Final = 600
"""So many of the newest records are read for a page."""
TASK_CHARACTERS: Final = 120
"""Of a plan's step."""
STOP: Final = "/stop"


@dataclass(frozen=True, slots=True)
class Item:
    """One thing on the page. `index` is the record's place in the history and never changes; the steps of a plan share it."""

    kind: Literal["person", "step", "reply"]
    index: int
    at_ms: int = 0
    id: str = ""
    """Of a person's message: the sender's own id."""
    text: str = ""
    files: tuple[str, ...] = ()
    """Names of what is attached."""
    waiting: bool = False
    """A person's message that no turn has taken yet."""
    notice: bool = False
    """The product itself says it."""
    command: bool = False
    """It answers a command."""
    card: bool = False
    """It is said in the midst of a turn, whose reply is still to come."""
    answers: str = ""
    """The `id` of the message whose answer it is, where that one was answered beside a turn or has ended it."""
    buttons: tuple[dict[str, str], ...] = ()
    """Of a card: `label`, `command` and `style` of each, as long as they decide something."""
    model: str = ""
    """Which model said a reply."""
    step: Literal["", "skill", "tool", "step"] = ""
    """`step`: one of a plan; `id` is its own there."""
    name: str = ""
    state: Literal["", "waiting", "running", "done", "failed", "refused", "stopped"] = ""
    """`refused`: a person said no. `stopped`: a person said /stop."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """Items in their order. `running`: somebody waits for an answer that is not there yet."""

    items: tuple[Item, ...]
    running: bool
    earlier: bool
    """There is more history than is shown."""
    asked: bool = False
    """What runs waits for somebody's word."""

    def dump(self) -> dict[str, Any]:
        """JSON for the page; what is empty is left out."""
        items = [
            {name: value for name, value in asdict(item).items() if value or name == "index"} for item in self.items
        ]
        return {"items": items, "running": self.running, "asked": self.asked, "earlier": self.earlier}


def transcript(lines: Sequence[bytes], first: int, inbox: Sequence[bytes], control: Sequence[bytes] = ()) -> Transcript:
    """From JSON lines of records (the one at 0 has index `first`), members of the inbox (`<seq>:<event>`) and what waits in
    control.
    """
    items: list[Item] = []
    running = False
    said: dict[str, str] = {}
    """The ids of messages, by what records call them."""
    stopped = ""
    records = list(map(Record.load, lines))
    for index, record in enumerate(records, first):
        if record.type in {"event", "withdrawn"}:
            event = record.data.get("event", {})
            items += _of_event(event, index)
            said |= dict.fromkeys(event.get("dedupe_keys", ())[:1], event.get("message_id", ""))
            stopped = event.get("message_id", "") if _stops(event) else stopped
        elif record.type == "card":
            items.append(_of_card(record, index, said))
        elif record.type == "reply":
            model = _last_model(lines[: index - first])
            items.append(_of_reply(record, index, model, stopped))
            items = [_ended(item, "stopped" if stopped else "failed") for item in items]
            stopped = ""
        else:
            _add_step(items, record, index, has_stopped=bool(stopped))
        if record.type in {"event", "reply", "failed"}:
            running = record.type == "event"
    if not running:
        items = [_ended(item, "failed") for item in items]
    codes = _codes(records)
    items = [_still_open(item, codes) for item in items]
    after = first + len(lines)
    waiting = [*control, *(member.partition(b":")[2] for member in inbox)]
    for number, event in enumerate(waiting):
        items += _of_event(json.loads(event), after + number, waiting=True)
    return Transcript(tuple(items), running or bool(waiting), earlier=first > 0, asked=any(codes.values()))


def _of_event(event: dict[str, Any], index: int, *, waiting: bool = False) -> list[Item]:
    if event.get("kind") != "message":
        return []
    files = tuple(str(one.get("name", "")) for one in event.get("attachments", ()))
    at_ms, name, text = event.get("at_ms", 0), event["message_id"], event["text"]
    return [Item("person", index, at_ms, id=name, text=text, files=files, waiting=waiting)]


def _stops(event: dict[str, Any]) -> bool:
    try:
        said = command_of(Event.of(event))
    except ValueError:
        return False
    return said is not None and f"/{said[0]}" == STOP


def _of_reply(record: Record, index: int, model: str, stopped: str) -> Item:
    """`stopped`: the message that has ended its turn, if one has."""
    said = record.data
    is_notice, is_command = bool(said.get("notice")), bool(said.get("command"))
    return Item(
        "reply",
        index,
        record.at_ms,
        text=said.get("text", ""),
        notice=is_notice,
        command=is_command,
        answers=stopped if is_notice else "",
        model="" if is_notice or is_command else model,
    )


def _last_model(lines: Sequence[bytes]) -> str:
    for line in reversed(lines):
        if b'"answer"' in line:
            record = Record.load(line)
            if record.type == "answer":
                return str(record.data.get("model", ""))
    return ""


def _of_card(record: Record, index: int, said: Mapping[str, str]) -> Item:
    text, answers = record.data["text"], said.get(record.data.get("of", ""), "")
    return Item(
        "reply", index, record.at_ms, text=text, notice=True, card=True, answers=answers, buttons=_buttons(record)
    )


def _codes(records: Sequence[Record]) -> dict[str, bool]:
    """What was asked, and whether it waits for a word still."""
    codes: dict[str, bool] = {}
    for record in records:
        if record.type in {"asked", "decided"}:
            codes[record.data["code"]] = record.type == "asked"
        elif record.type in {"reply", "failed"}:
            codes = dict.fromkeys(codes, False)
    return codes


def _buttons(record: Record) -> tuple[dict[str, str], ...]:
    names = ("label", "command", "style")
    return tuple(dict(zip(names, one, strict=True)) for one in record.data.get("buttons", ()))


def _still_open(item: Item, codes: Mapping[str, bool]) -> Item:
    """Without the buttons that decide on what was decided, or is over."""
    if not item.buttons:
        return item
    over = {code for code, is_open in codes.items() if not is_open}
    return replace(item, buttons=tuple(one for one in item.buttons if over.isdisjoint(one["command"].split())))


def _add_step(items: list[Item], record: Record, index: int, *, has_stopped: bool) -> None:
    """A skill that was loaded is one line of its own; the call that loaded it is shown only when it failed, or when it
    brought a file of the skill.
    """
    data = record.data
    if record.type == "plan":
        tasks = [(f"step {one['id']}", one_line(one["task"])[:TASK_CHARACTERS]) for one in data["steps"]]
        items += [
            Item("step", index, record.at_ms, id=name, step="step", name=task, state="waiting") for name, task in tasks
        ]
    elif record.type == "given":
        _change_step(items, record.branch, "running")
    elif record.type == "step_done":
        _change_step(items, f"step {data['id']}", "failed" if data.get("failed") else "done")
    elif record.type == "skill":
        items.append(Item("step", index, record.at_ms, step="skill", name=data["id"], state="done"))
    elif record.type == "tool_start" and data["name"] != skill_tools.LOAD:
        name = data.get("shown", data["name"])
        items.append(Item("step", index, record.at_ms, id=data["id"], step="tool", name=name, state="running"))
    elif record.type == "tool_result":
        state = _state(data, has_stopped=has_stopped)
        for at in range(len(items) - 1, -1, -1):
            item = items[at]
            if item.kind == "step" and item.step != "step" and item.id == data["id"]:
                items[at] = replace(item, state=state, name=data.get("shown", item.name))
                return
        if state != "done" or data.get("skill"):  # refused, did not come, or is a file: no line of it is there yet
            kind: Literal["skill", "tool"] = "skill" if data["name"] == skill_tools.LOAD else "tool"
            name = data.get("shown", data["name"])
            items.append(Item("step", index, record.at_ms, id=data["id"], step=kind, name=name, state=state))


def _state(result: Mapping[str, Any], *, has_stopped: bool) -> Literal["done", "failed", "refused", "stopped"]:
    if not result.get("error"):
        return "done"
    return "refused" if result.get("refused") else "stopped" if has_stopped else "failed"


def _change_step(items: list[Item], name: str, state: Literal["running", "done", "failed"]) -> None:
    """Of the newest plan that has such a step."""
    for at in range(len(items) - 1, -1, -1):
        if items[at].step == "step" and items[at].id == name:
            items[at] = replace(items[at], state=state)
            return


def _ended(item: Item, state: Literal["failed", "stopped"]) -> Item:
    """Nothing runs any more: what has no result was cut off."""
    return replace(item, state=state) if item.state in {"running", "waiting"} else item
