"""A skill that runs: its folder changes, and nobody has to say so."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gateway.shelf.packing import LOOK_EVERY_S
from tests.end_to_end.conftest import Stage
from tests.end_to_end.requests import results
from tests.harness.fake_model import Asked
from tests.harness.model_replies import Reply, calls, says
from tests.harness.processes import until
from tests.skills.test_programs import write_program

SOURCE = """\
import json
def run(params):
    return "{word} " + json.dumps(params, ensure_ascii=False)
"""
SCHEMA = {
    "type": "object",
    "properties": {"date": {"type": "string", "format": "date", "description": "The day, YYYY-MM-DD."}},
}


@pytest.mark.sandbox
async def test_a_new_version_counts_from_the_next_turn(stage: Stage, tmp_path: Path) -> None:
    folder = write_program(tmp_path / "org", "report", SOURCE.format(word="old"), SCHEMA)

    def script(asked: Asked) -> Reply:
        name = next(tool["name"] for tool in asked.request["tools"] if tool["name"].startswith("skill_report"))
        if "tool_result" in str(asked.request["messages"][-1]):
            return says("done")
        (folder / "main.py").write_text(SOURCE.format(word="newer"), "utf-8")  # while the turn runs
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
