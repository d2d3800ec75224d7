"""A list of skills that is too long, and a file that a skill is for: from a message to what the model is sent."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from skills.index import tokens
from tests.end_to_end.conftest import Stage
from tests.end_to_end.requests import results, system, tools
from tests.harness.fake_model import Asked
from tests.harness.model_replies import Reply, calls, says
from tests.skills.test_library import write

BUDGET_TOKENS = 2_000


async def test_a_skill_whose_description_is_cut_off_is_found_and_loaded(stage: Stage, tmp_path: Path) -> None:
    word, number = f"罗马数字{random.randrange(10**6)}", random.randrange(60)
    for at in range(60):
        end = f"Converts {word} into figures." if at == number else f"Handles matter {at}."
        write(tmp_path / "org", f"skill-{at:02}", description="And more words on it " * 13 + end, body=f"BODY {at}\n")

    def script(asked: Asked) -> Reply:
        done: list[tuple[str, dict[str, Any]]] = [
            ("find_skills", {"query": f"convert {word}"}),
            ("load_skill", {"name": f"skill-{number:02}"}),
        ]
        return calls(*done[len(results(asked))]) if len(results(asked)) < len(done) else says("Done it.")

    stage.model.answer_with(script)
    await stage.start(
        settings={
            "skills": {"folder": str(tmp_path / "org"), "index_max_tokens": BUDGET_TOKENS},
            "log": {"format": "json"},
        },
        profile={"order": [f"skill-{number:02}", "web-*"]},
    )
    said = await stage.slack.say(stage.hook, "convert it")
    await stage.slack.until(lambda: "Done it." in "".join(stage.posts()))
    await stage.slack.say(stage.hook, "again", thread_ts=said.ts)
    await stage.slack.until(lambda: "".join(stage.posts()).count("Done it.") == 2)

    first, *others = stage.model.asked
    section = system(first)[system(first).index("## Skills") :]
    listed = [line.split("**")[1] for line in section.split("\n") if line.startswith("- **")]
    assert listed[:3] == [f"skill-{number:02}", "web-access", "skill-00" if number else "skill-01"]
    assert len(listed) == 62  # the shipped ones too
    assert tokens(section) <= BUDGET_TOKENS
    assert "`find_skills`" in section.split("\n")[-1]
    assert word not in system(first)
    assert tools(first)[-1] == "find_skills"
    assert {(system(one), *tools(one)) for one in others} == {(system(first), *tools(first))}
    assert word in results(others[0])[0]["content"]
    assert f"BODY {number}" in others[1].body.decode()

    worker = next(one for one in stage.deskmate.running if one.name.startswith("worker"))
    [told] = [line["fields"] for line in worker.lines("list of skills is not whole")]
    assert (told["skills"], told["listed"], told["budget_tokens"]) == (62, 62, BUDGET_TOKENS)
    assert 60 <= told["shortened"] <= 62


async def test_a_message_with_a_file_says_which_skills_are_for_it(stage: Stage, tmp_path: Path) -> None:
    ending = random.choice(["csv", "xlsx", "dwg"])
    write(tmp_path / "org", "ledger", more=f'paths: ["*.{ending}"]\n')
    stage.model.answer_with(lambda _: says("Seen."))
    await stage.start(settings={"skills": {"folder": str(tmp_path / "org")}})
    direct = f"D{random.randrange(10**8)}"
    await stage.slack.say(stage.hook, "hello", channel=direct)
    await stage.slack.until(lambda: len(stage.posts()) == 1)
    file = {"id": "F1", "name": f"Juni.{ending.upper()}", "mimetype": "application/x-thing", "size": 12}
    await stage.slack.say(stage.hook, "what is this?", channel=direct, subtype="file_share", files=[file])
    await stage.slack.until(lambda: len(stage.posts()) == 2)
    plain, with_file = stage.model.asked
    assert "skills for this file" not in plain.body.decode()
    assert "(deskmate: skills for this file are ledger; load one with load_skill" in with_file.body.decode()
    assert (system(plain), tools(plain)) == (system(with_file), tools(with_file))
    assert "find_skills" not in tools(plain)
