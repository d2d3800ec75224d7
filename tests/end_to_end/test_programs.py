"""A skill that runs, from a message to the reply; words and days are others in each run."""

from __future__ import annotations

import random
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from gateway.shelf.packing import LOOK_EVERY_S
from tests.end_to_end.conftest import Stage
from tests.harness.fake_model import Asked
from tests.harness.model_replies import Reply, calls, says
from tests.harness.processes import until
from tests.skills.test_programs import write_program

SOURCE = """\
import json
def run(params):
    {trap}
    return "{word} " + json.dumps(params, ensure_ascii=False)
"""


def schema() -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "date": {"type": "string", "format": "date", "description": "The day, YYYY-MM-DD."},
            "include_metrics": {"type": "boolean", "default": True, "description": "Whether with figures."},
        },
        "required": ["date"],
        "additionalProperties": False,
    }


def results(asked: Asked) -> list[dict[str, Any]]:
    blocks = [
        block for one in asked.request["messages"] if isinstance(one["content"], list) for block in one["content"]
    ]
    return [block for block in blocks if block["type"] == "tool_result"]


@pytest.mark.sandbox
async def test_a_report_is_made_from_what_the_model_meant(stage: Stage, tmp_path: Path) -> None:
    zone = random.choice(["Asia/Shanghai", "America/Lima", "Pacific/Auckland"])
    day = datetime(2024, 6, 11, tzinfo=ZoneInfo(zone)) + timedelta(days=random.randrange(900))
    noon = int((day + timedelta(hours=random.randrange(1, 23))).timestamp())
    word = f"报表{random.randrange(10**6)}"
    skill = f"生成{random.choice('日周月')}报"
    folder = write_program(
        tmp_path / "org", skill, SOURCE.format(trap="pass", word=word), schema(), more="returns: 表\n"
    )
    (folder / "examples").mkdir()
    (folder / "examples/a.input.json").write_text('{"date": "2024-06-11"}')
    attempts = [
        {"date": "前天", "include_metrics": "True", "scope": 3},
        {"date": noon, "include_metrics": "True"},
    ]

    def script(asked: Asked) -> Reply:
        name = next(tool["name"] for tool in asked.request["tools"] if skill in tool["description"])
        done = len(results(asked))
        if done < len(attempts):
            return calls(name, attempts[done])
        return calls("load_skill", {"name": skill, "file": "main.py"}) if done == 2 else says("Here it is.")

    stage.model.answer_with(script)
    profile = {"programs": [skill], "timezone": zone}
    await stage.start(
        settings={"skills": {"folder": str(tmp_path / "org")}, "log": {"format": "json"}}, profile=profile
    )
    await stage.slack.say(stage.hook, "make it")
    await stage.slack.until(lambda: "Here it is." in "".join(stage.posts()))
    refused, made, hidden = results(stage.model.asked[-1])
    assert refused["is_error"]
    assert 'date: wanted a date YYYY-MM-DD, came "前天"' in refused["content"]
    assert "scope: not known" in refused["content"]
    assert f'{word} {{"date": "{day:%Y-%m-%d}", "include_metrics": true}}' in made["content"]
    assert made["content"].startswith("<data ")
    assert hidden["is_error"]
    worker = next(one for one in stage.deskmate.running if one.name.startswith("worker"))
    events = [line["event"] for line in worker.lines()]
    assert f"argument date: {noon} → {day:%Y-%m-%d} ({zone})" in events
    assert 'argument include_metrics: "True" → true' in events
    before, after = (worker.lines(event)[0]["fields"] for event in ("program", "program ended"))
    assert before["id"] == after["id"] == skill
    for asked in stage.model.asked:
        assert b"json.dumps" not in asked.body


@pytest.mark.sandbox
async def test_a_new_version_counts_from_the_next_turn(stage: Stage, tmp_path: Path) -> None:
    folder = write_program(tmp_path / "org", "report", SOURCE.format(trap="pass", word="old"), schema())

    def script(asked: Asked) -> Reply:
        name = next(tool["name"] for tool in asked.request["tools"] if tool["name"].startswith("skill_report"))
        if "tool_result" in str(asked.request["messages"][-1]):
            return says("done")
        (folder / "main.py").write_text(SOURCE.format(trap="pass", word="newer"), "utf-8")  # while the turn runs
        return calls(name, {"date": "2024-06-11"})

    stage.model.answer_with(script)
    await stage.start(settings={"skills": {"folder": str(tmp_path / "org")}}, profile={"programs": ["*"]})
    said = await stage.slack.say(stage.hook, "one")
    await stage.slack.until(lambda: "done" in "".join(stage.posts()))
    assert "old {" in results(stage.model.asked[-1])[0]["content"]
    await until(lambda: time.time() > (folder / "main.py").stat().st_mtime + 2 * LOOK_EVERY_S)
    await stage.slack.say(stage.hook, "two", thread_ts=said.ts)
    await stage.slack.until(lambda: "".join(stage.posts()).count("done") == 2)
    assert "newer {" in results(stage.model.asked[-1])[1]["content"]
