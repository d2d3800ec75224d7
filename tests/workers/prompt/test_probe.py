"""The probe, on a model behind real HTTP: what it is sent, and what its calls count for."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from config.profiles import Profile
from config.settings import ModelSettings, Settings, SkillsSettings
from skills.folders import Root
from skills.library import Catalogue, scan
from tests.harness.fake_model import KEY, Asked, FakeModel
from tests.harness.model_replies import Reply, fails, says
from tests.skills.test_library import write
from workers.models import ModelError
from workers.prompt.probe import Case, probe, read_cases, score

PROFILE = Profile(
    name="team", skills=["*"], tools=["load_skill", "current_time"], instructions="You are the canary 4711."
)


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalogue:
    write(tmp_path, "finance/report", description="Monthly figures.")
    write(tmp_path, "standup", description="Collects the standup.", more="alias: daily\n")
    return scan([Root("org", tmp_path)]).catalogue(["*"])


def settings(model: FakeModel) -> Settings:
    return Settings(model=ModelSettings(provider="anthropic", name="fake", base_url=model.url, api_key=SecretStr(KEY)))


def uses(*calls: tuple[str, dict[str, str]]) -> Reply:
    content = [{"type": "tool_use", "name": name, "input": given} for name, given in calls]
    return Reply(content, stop_reason="tool_use")


async def test_the_model_gets_what_it_would_get_in_a_chat(catalogue: Catalogue) -> None:
    async with FakeModel(says("Hello.")) as model:
        [result] = await probe(settings(model), PROFILE, catalogue, [Case("hello there")])
        [asked] = model.asked
    assert result.loaded == ()
    system = asked.request["system"][0]["text"]
    assert "canary 4711" in system
    assert "- **finance/report**: Monthly figures." in system
    assert [tool["name"] for tool in asked.request["tools"]] == ["load_skill", "current_time", "unload_skill"]
    assert asked.text == "hello there"


async def test_a_list_that_is_not_whole_comes_with_the_tool_that_searches_it(tmp_path: Path) -> None:
    for number in range(60):
        write(tmp_path, f"skill-{number:02}", description="and more words on it " * 14)
    long = scan([Root("org", tmp_path)]).catalogue(["*"])
    async with FakeModel(says("Hello.")) as model:
        short = Settings(model=settings(model).model, skills=SkillsSettings(index_max_tokens=500))
        await probe(short, PROFILE, long, [Case("hello there")])
        [asked] = model.asked
    assert [tool["name"] for tool in asked.request["tools"]][-1] == "find_skills"
    assert "`find_skills`" in asked.request["system"][0]["text"]


async def test_loads_are_counted_from_calls_and_not_from_words(catalogue: Catalogue) -> None:
    def reply(asked: Asked) -> Reply:
        if "talk" in asked.text:
            return says("I would call load_skill for standup.")
        return uses(("load_skill", {"name": "daily"}), ("load_skill", {"name": "nope"}), ("current_time", {}))

    async with FakeModel(reply) as model:
        cases = [Case("talk", frozenset({"standup"})), Case("act", frozenset({"standup"}))]
        talked, acted = await probe(settings(model), PROFILE, catalogue, cases)
    assert (talked.loaded, talked.is_right) == ((), False)
    assert (acted.loaded, acted.refused, acted.other_calls, acted.is_right) == (
        ("standup",),
        ("nope",),
        ("current_time",),
        False,
    )
    found = score([talked, acted])
    assert found is not None
    assert (found.precision, found.recall, found.right, found.cases) == (0.5, 0.5, 0, 2)


async def test_a_model_that_fails_is_a_model_error(catalogue: Catalogue) -> None:
    async with FakeModel(fails(401)) as model:
        with pytest.raises(ModelError):
            await probe(settings(model), PROFILE, catalogue, [Case("one"), Case("two")])


async def test_a_profile_that_can_load_nothing_is_told(catalogue: Catalogue) -> None:
    with pytest.raises(ValueError, match="does not list the tool load_skill"):
        await probe(Settings(), Profile(name="bare", skills=["*"]), catalogue, [Case("x")])
    with pytest.raises(ValueError, match="has no skills"):
        await probe(Settings(), PROFILE, scan([]).catalogue(["*"]), [Case("x")])


def test_a_file_of_sentences_is_read_with_ids_and_aliases(catalogue: Catalogue) -> None:
    lines = ["# by hand", "", "plain", "a => b => daily, report", "nothing => -"]
    assert read_cases(lines, catalogue) == [
        Case("plain"),
        Case("a => b", frozenset({"standup", "finance/report"})),
        Case("nothing", frozenset()),
    ]


@pytest.mark.parametrize(
    ("line", "why"), [("x =>", "line 1: wanted are"), ("x => nope", "line 1: There is no skill"), ("#", "no sentence")]
)
def test_a_file_that_says_nothing_clear_is_refused(line: str, why: str, catalogue: Catalogue) -> None:
    with pytest.raises(ValueError, match=why):
        read_cases([line], catalogue)


def test_without_expectations_there_is_no_score() -> None:
    assert score([]) is None
