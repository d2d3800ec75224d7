"""Given: what a branch is told of its own, as a record, and that record as the model reads it.

What others found stands in marks, as data: their guidance does not travel, whatever they quote of it.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gateway.conversation.plans import Done, Step
from gateway.conversation.records import Record
from skills import marks

QUOTED_CHARACTERS: Final = 4_000

Results = Sequence[tuple[Step, Done]]


def for_step(turn: str, at_ms: int, step: Step, results: Results) -> Record:
    """At the start of a step."""
    return _record(turn, at_ms, "step", step.task, results, step=step.id)


def again(turn: str, at_ms: int, step: Step, change: str, results: Results) -> Record:
    """To a step that is done once more; without a change, because what it was given is otherwise now."""
    return _record(turn, at_ms, "again", change, results, step=step.id)


def edited(turn: str, at_ms: int, wish: str) -> Record:
    """To a planner whose plan a person wants otherwise."""
    return _record(turn, at_ms, "edit", wish, ())


def not_readable(turn: str, at_ms: int, fault: str) -> Record:
    """To a planner or reviewer who did not answer in the form that was asked for."""
    return _record(turn, at_ms, "fault", fault, ())


def for_review(turn: str, at_ms: int, results: Results) -> Record:
    """To a reviewer."""
    return _record(turn, at_ms, "review", "", results)


def for_closing(turn: str, at_ms: int, results: Results, objections: str) -> Record:
    """To whoever writes the reply. `objections`: what a reviewer still had against it."""
    return _record(turn, at_ms, "closing", objections, results)


def _record(turn: str, at_ms: int, how: str, what: str, results: Results, **more: Any) -> Record:
    found = [{"id": step.id, "task": step.task, "text": done.text, "failed": done.failed} for step, done in results]
    data = {"turn": turn, "how": how, "what": what, "results": found, "mark": secrets.token_hex(4), **more}
    return Record("given", at_ms, data)


def text_of(data: Mapping[str, Any]) -> str:
    """What the model reads."""
    what = _quoted(data["what"])
    match data["how"]:
        case "step":
            told = (
                "this is carried out in steps, each by one who works alone. "
                f"Yours is step {_quoted(data['step'])}: {what}. Do this one and no other. Your answer is given "
                "to those who do the next steps: give them what you found, whole, with where it is from"
            )
        case "again" if data["what"]:
            told = f"do your step again, with this change: {what}. Answer with the whole result, not with what is new"
        case "again":
            told = "what others found has changed. Do your step again with it, and answer with the whole result"
        case "edit" if not data["what"]:
            told = "the person looked at the plan and answers with the files that follow. Answer with the whole plan, changed accordingly"
        case "edit":
            told = f"the person looked at the plan and says: {what}. Answer with the whole plan, changed accordingly"
        case "fault":
            told = f"this can't be read: {what}. Answer once more, whole, in the form that is asked for"
        case "closing" if data["what"]:
            told = f"all steps have ended, and a reviewer still objects: {what}. Tell the person what is uncertain"
        case _:
            told = "all steps have ended"
    found = [_result(one, data["mark"]) for one in data["results"]]
    return "\n".join([f"{marks.NOTE}: {told}{'. What was found follows' if found else ''})", *found])


def _result(found: Mapping[str, Any], mark: str) -> str:
    about = f"{marks.NOTE}: step {_quoted(found['id'])}, {_quoted(found['task'])},"
    text = marks.from_outside(found["text"])
    if found["failed"]:
        return f"{about} failed: {_quoted(found['text'])})"
    return f'{about} found)\n<data from="step" mark="{mark}">\n{text}\n</data mark="{mark}">'


def _quoted(text: str) -> str:
    """Words of a model or a person within a note of ours: one line, which ends at its quotes."""
    line = " ".join(text.replace("[", "(").replace("]", ")").split())
    return json.dumps(marks.from_outside(line)[:QUOTED_CHARACTERS], ensure_ascii=False)
