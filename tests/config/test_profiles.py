from __future__ import annotations

from pathlib import Path

import pytest

from config.loading import load
from config.problems import ConfigError
from config.profiles import profile_for, profiles_of
from config.settings import ChannelRule

STEERING = [
    *("PYTHONPATH", "LD_PRELOAD", "PYTHONSTARTUP", "BASH_ENV", "GIT_SSH_COMMAND", "NODE_OPTIONS", "PATH", "HOME", "TZ"),
    *("ANTHROPIC_API_KEY", "REDIS_URL", "DESKMATE_CONFIG", "lower", "A=B", "''"),
]


def test_the_first_rule_that_fits_the_room_counts() -> None:
    rules = [
        ChannelRule(match="slack-main/C1", profile="one"),
        ChannelRule(match="slack-main/*", profile="rest"),
        ChannelRule(match="*/D[12]", profile="direct"),
    ]
    assert profile_for(rules, "slack-main", "C1") == "one"
    assert profile_for(rules, "slack-main", "c1") == "rest"
    assert profile_for(rules, "slack-other", "C1") == "default"
    assert profile_for(rules, "tg", "D2") == "direct"
    assert profile_for([], "tg", "D2") == "default"


def test_the_profiles_that_rooms_of_a_connection_may_have() -> None:
    rules = [
        ChannelRule(match="slack-main/C1", profile="one"),
        ChannelRule(match="tg/*", profile="chats"),
        ChannelRule(match="slack-main/*", profile="rest"),
        ChannelRule(match="*/D[12]", profile="direct"),
    ]
    assert profiles_of(rules, "slack-main") == ["one", "rest"]
    assert profiles_of(rules, "tg") == ["chats"]
    assert profiles_of(rules, "slack") == ["direct", "default"]
    assert profiles_of([ChannelRule(match="sl*", profile="all")], "slack") == ["all"]


def test_a_rule_that_fits_no_connection_is_a_mistake(tmp_path: Path) -> None:
    settings = tmp_path / "deskmate.yaml"
    rules = ["slack-mian/*", "slack-main", "slack-main/*", "slack-*/C1", "*", "*/C1", "web/*", "slack*C1"]
    channels = "".join(f"  - {{match: '{rule}', profile: default}}\n" for rule in rules)
    settings.write_text(f"connections: {{slack-main: {{platform: slack}}}}\nchannels:\n{channels}")
    with pytest.raises(ConfigError) as caught:
        load(settings, variables={})
    told = [(one.line, one.key, one.nearest) for one in caught.value.problems]
    assert told == [(3, "channels[0].match", "slack-main"), (4, "channels[1].match", "slack-main")]


def test_profiles_beside_the_settings_come_before_the_shipped_ones(tmp_path: Path) -> None:
    settings = tmp_path / "deskmate.yaml"
    settings.write_text("connections: {a: {platform: slack}}\nchannels: [{match: 'a/*', profile: finance}]\n")
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/default.yaml").write_text("tools: []\n")
    (tmp_path / "profiles/finance.yaml").write_text("skills: [finance/*]\nlimits: {steps: 3}\n")
    loaded = load(settings, variables={})
    assert loaded.profile_for("b", "c").tools == []
    finance = loaded.profile_for("a", "c")
    assert (finance.name, finance.skills, finance.limits.steps) == ("finance", ["finance/*"], 3)


def test_a_folder_that_the_settings_name_is_used_instead_and_must_exist(tmp_path: Path) -> None:
    settings = tmp_path / "deskmate.yaml"
    settings.write_text("profiles: rules\n")
    with pytest.raises(ConfigError, match=r"deskmate\.yaml:1: profiles: there is no folder"):
        load(settings, variables={})
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules/quiet.yaml").write_text("thread_follow: false\n")
    assert set(load(settings, variables={}).profiles) == {"default", "eval", "quiet", "wechat"}


def test_mistakes_in_profiles_and_settings_are_told_together(tmp_path: Path) -> None:
    settings = tmp_path / "deskmate.yaml"
    settings.write_text("log: {level: loud}\nchannels:\n  - {match: '*', profile: finanse}\n")
    profiles = tmp_path / "profiles"
    profiles.mkdir()
    (profiles / "finance.yaml").write_text("skils: ['*']\nqueue:\n  mode: colect\n")
    (profiles / "Bad Name.yaml").write_text("tools: []\n")
    (profiles / "other.yaml").write_text("name: another\ntools: [Web]\n")
    (profiles / "void.yaml").write_text("")
    with pytest.raises(ConfigError) as caught:
        load(settings, variables={})
    told = [(Path(one.file).name, one.line, one.key, one.nearest) for one in caught.value.problems]
    assert told == [
        ("deskmate.yaml", 1, "log.level", None),
        ("deskmate.yaml", 3, "channels[0].profile", "finance"),
        ("Bad Name.yaml", None, "", None),
        ("finance.yaml", 1, "skils", "skills"),
        ("finance.yaml", 3, "queue.mode", "collect"),
        ("other.yaml", 1, "name", None),
        ("other.yaml", 2, "tools[0]", None),
        ("void.yaml", 1, "", None),
    ]


def test_the_name_is_not_among_the_keys_that_a_profile_may_hold(tmp_path: Path) -> None:
    settings = tmp_path / "deskmate.yaml"
    settings.write_text("log: {}\n")
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/default.yaml").write_text("nam: x\n")
    with pytest.raises(ConfigError) as caught:
        load(settings, variables={})
    (problem,) = caught.value.problems
    assert problem.wanted.startswith("allowed: language, instructions, model, fallback_model, models, skills, tools, ")


def test_a_profile_reads_nothing_from_the_environment(tmp_path: Path) -> None:
    settings = tmp_path / "deskmate.yaml"
    settings.write_text("log: {}\n")
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/default.yaml").write_text("instructions: $HOME\n")
    assert load(settings, variables={"HOME": "/root"}).profile_for("a", "b").instructions == "$HOME"


@pytest.mark.parametrize(
    ("written", "key", "wanted"),
    [
        ("timezone: Asia/Shangai", "timezone", "IANA time zone"),
        ("timezone: ../../etc/passwd", "timezone", "IANA time zone"),
        ("timezone: America", "timezone", "IANA time zone"),
        *((f"program_env: [{name}]", "program_env[0]", "steers programs") for name in STEERING),
    ],
)
def test_a_zone_or_variable_that_programs_can_not_have_is_a_mistake(
    tmp_path: Path, written: str, key: str, wanted: str
) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/default.yaml").write_text(written)
    (tmp_path / "deskmate.yaml").write_text("log: {format: json}\n")
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "deskmate.yaml", variables={})
    (problem,) = caught.value.problems
    assert problem.key == key
    assert wanted in str(problem)


def test_the_shipped_profiles_for_outsiders_and_measuring_are_lists_of_what_is_allowed(tmp_path: Path) -> None:
    settings = tmp_path / "deskmate.yaml"
    settings.write_text("log: {level: info}\n")
    profiles = load(settings, variables={}).profiles
    for name in ("wechat", "eval"):
        allowed = [*profiles[name].skills, *profiles[name].tools]
        assert allowed
        assert not [one for one in allowed if "*" in one or "save" in one], "no pattern, nothing that writes"
