"""One check for all: what a process refuses to start with is what `config check` and `doctor` tell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from config.problems import ConfigError
from gateway import inventory
from gateway.cli import run
from gateway.inventory import load_checked, load_for_operator, load_for_visitor, model_names, tool_names

WRONG = """
gateway: {host: not a host}
model: {provider: anthropc}
skills: {folder: nowhere}
tools:
  web_fetch: {allow_private: ["127.0.0.1"]}
connections:
  main:
    platform: slak
    bot_token: $UNSET
mailbox: {dedupe_s: 99999999}
"""
KEYS = [
    "gateway.host",
    "model.provider",
    "skills.folder",
    "tools.web_fetch.allow_private[0]",
    "connections.main.platform",
    "connections.main.bot_token",
    "mailbox.dedupe_s",
    "tools[1]",
    "approvals.ask[1]",
    "hosts[0]",
]


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    """Settings with one mistake of each kind, and a profile with another."""
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/default.yaml").write_text(
        "tools: [web_fetch, web_fech]\napprovals: {ask: [some/skill, web_fetc], free: [web_fetch]}\nhosts: [https://a.test/]\n"
    )
    file = tmp_path / "deskmate.yaml"
    file.write_text(WRONG)
    return file


def test_under_a_budget_in_money_a_model_without_a_price_is_told(tmp_path: Path) -> None:
    """It would be free, so it is not asked at all."""
    (tmp_path / "profiles").mkdir()
    profile = tmp_path / "profiles/default.yaml"
    profile.write_text(
        "fallback_model: spare\nmodels: [fast, big]\nbudget:\n  person:\n    month:\n      tokens: 5\n      money: 3.5\n"
    )
    file = tmp_path / "deskmate.yaml"
    prices = "{fast: {input: 1, output: 2}, big-: {input: 1, output: 2}}"
    file.write_text(f"model: {{name: fast-20270101, prices: {prices}}}\n")
    with pytest.raises(ConfigError) as caught:
        load_checked(file, {})
    [problem] = caught.value.problems
    assert (problem.key, problem.line) == ("budget.person.month.money", 7)
    assert "no price of 'spare', 'big'" in str(problem)
    assert "model.prices" in str(problem)
    profile.write_text("budget: {person: {day: {tokens: 5, turns: 3}}}\n")
    load_checked(file, {})


@pytest.mark.parametrize("name", ["*", "web_*", "some/*"])
def test_a_pattern_in_approvals_is_told_for_it_would_fit_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/default.yaml").write_text(f"approvals: {{ask: ['{name}'], free: ['{name}']}}\n")
    (tmp_path / "deskmate.yaml").write_text("data: data\n")
    with pytest.raises(ConfigError) as caught:
        load_checked(tmp_path / "deskmate.yaml", {})
    assert [problem.key for problem in caught.value.problems] == ["approvals.ask[0]", "approvals.free[0]"]


def test_all_kinds_of_mistakes_are_told_at_once(wrong: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_checked(wrong, {})
    assert [problem.key for problem in caught.value.problems] == KEYS
    assert [problem.nearest for problem in caught.value.problems if problem.nearest] == [
        "anthropic",
        "slack",
        "web_fetch",
        "web_fetch",
    ]


@pytest.mark.parametrize("command", [["config", "check"], ["doctor"], ["up"], ["gateway"], ["worker"]])
def test_each_of_them_tells_the_same(wrong: Path, command: list[str]) -> None:
    whole = [sys.executable, "-m", "gateway.cli", "--config", str(wrong), *command]
    here = str(Path(__file__).parents[2])
    ended = subprocess.run(
        whole,
        cwd=wrong.parent,
        env={"PATH": os.defpath, "PYTHONPATH": here},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode in {1, 2}
    said = ended.stdout + ended.stderr
    assert [key for key in KEYS if f" {key}: " not in said] == []
    assert "Traceback" not in said


def test_a_command_that_visits_does_not_ask_for_the_secrets_of_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, unused_port: int
) -> None:
    monkeypatch.delenv("REDIS_URL", raising=False)
    file = tmp_path / "deskmate.yaml"
    file.write_text(
        f"data: data\ngateway: {{port: {unused_port}}}\nmodel: {{provider: anthropic, api_key: $UNSET_KEY}}\n"
        "connections: {main: {platform: slack, signing_secret: $UNSET, bot_token: $UNSET}}\n"
        "channels: [{match: main/C1, profile: default}]\n"
    )
    for command, code, told in (
        (["redis", "where"], 0, "redis.sock"),
        (["status"], 1, "`deskmate up` starts one"),
        (["rq", "info"], 1, "`deskmate up` starts one"),
        (["say", "hello"], 3, "can't be reached"),
    ):
        assert run(["--config", str(file), *command]) == code, command
        said = capsys.readouterr()
        assert told in said.out + said.err
        assert "UNSET" not in said.out + said.err
    for command in (["config", "check"], ["doctor", "--json"], ["gateway"]):
        assert run(["--config", str(file), *command]) in {1, 2}
        said = capsys.readouterr()
        assert "the environment variable UNSET is not set" in said.out + said.err


def test_what_all_need_is_demanded_of_visitors_too(tmp_path: Path) -> None:
    file = tmp_path / "deskmate.yaml"
    file.write_text("gatewey: {}\nchat: {password: $UNSET}\n")
    with pytest.raises(ConfigError) as caught:
        load_for_visitor(file, {})
    assert [problem.key for problem in caught.value.problems] == ["gatewey", "chat.password"]


def test_who_visits_is_not_kept_out_by_a_profile(wrong: Path) -> None:
    wrong.write_text("{}")
    (wrong.parent / "profiles/default.yaml").write_text("tolls: []\n")
    assert [problem.nearest for problem in load_for_visitor(wrong, {}).mistakes] == ["tools"]


def test_an_operator_goes_on_with_what_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/broken.yaml").write_text("tools: [unclosed\n")
    (tmp_path / "profiles/fine.yaml").write_text("skills: [a]\n")
    file = tmp_path / "deskmate.yaml"
    file.write_text(
        "data: kept\nredis: {key_prefix: ours}\nmodel: {provider: anthropic, api_key: $UNSET}\nlgo: {}\n"
        "log: {level: loud, format: json}\nskills: {new_skills: off, budget_bytes: many}\n"
        "connections: {main: {platform: slack, signing_secret: $UNSET, api_base: nowhere}}\n"
        "channels: [{match: main/C0, profil: fine}, {match: main/C1, profile: fine}, {match: main/*, profile: broken}]\n"
    )
    loaded = load_for_operator(file, {})
    told = [problem.key for problem in loaded.mistakes]
    assert {"lgo", "log.level", "skills.budget_bytes", "connections.main.api_base", "channels[0].profil"} <= set(told)
    assert "connections.main.signing_secret" not in told, "it is not asked for here"
    settings = loaded.settings
    assert (settings.data, settings.redis.key_prefix) == (tmp_path / "kept", "ours")
    assert (settings.log.level, settings.log.format, settings.skills.new_skills) == ("info", "json", "off")
    assert list(settings.connections) == ["main"]
    assert loaded.profile_for("main", "C1").skills == ["a"]
    unread = loaded.profile_for("main", "C0")
    assert (unread.name, unread.skills, unread.tools) == ("broken", ["*"], [])


@pytest.mark.parametrize(
    "settings", ["redis: {url: $UNSET}", "redis: {key_prefx: a}", "rediss: {key_prefix: a}", "dta: x", "a: [b"]
)
def test_an_operator_is_stopped_where_it_would_be_another_redis(tmp_path: Path, settings: str) -> None:
    file = tmp_path / "deskmate.yaml"
    file.write_text(settings)
    with pytest.raises(ConfigError):
        load_for_operator(file, {})


def test_what_there_is_is_found_without_importing_it() -> None:
    script = (
        "import json, sys; from gateway.inventory import model_names, tool_names\n"
        "print(json.dumps([tool_names(), model_names(), [one for one in sys.modules if one.startswith('workers')]]))"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=True)
    assert json.loads(ended.stdout) == [tool_names(), model_names(), []]
    assert {"web_fetch", "load_skill"} <= set(tool_names())
    assert {"anthropic", "rehearsal"} <= set(model_names())


def test_a_profile_that_lists_a_search_which_nobody_set_up_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/default.yaml").write_text("tools: [web_fetch, web_search]\n")
    file = tmp_path / "deskmate.yaml"
    for written in ("tools:", "tools: {web_search: {timeout_s: 3}}"):
        file.write_text(f"{written}\n")
        with pytest.raises(
            ConfigError, match=r"tools\[1\]: web_search does nothing without tools\.web_search\.provider"
        ):
            load_checked(file, {})
    file.write_text("tools: {web_search: {provider: ddgs}}\n")
    assert load_checked(file, {}).settings.tools.web_search.provider == "ddgs"
    file.write_text("tools: {web_search: {provider: tavily, api_key: $KEY}}\n")
    loaded = load_checked(file, {"KEY": "tvly-secret"})
    assert "tvly-secret" in loaded.secret_values
    assert "tvly-secret" not in repr(loaded.settings)
    file.write_text("tools: {web_search: {provider: tavily}}\n")
    with pytest.raises(ConfigError, match=r"tools\.web_search\.api_key: missing"):
        load_checked(file, {})


def test_tools_of_servers_are_named_one_by_one_and_their_server_must_be_there(tmp_path: Path) -> None:
    """Which tools a server has only it can say."""
    (tmp_path / "profiles").mkdir()
    tools = "tools: [chrome__navigate_page, chrom__click, 'chrome__*', 'chrome__*x']\n"
    (tmp_path / "profiles/default.yaml").write_text(tools.replace(", 'chrome__*', 'chrome__*x'", ""))
    file = tmp_path / "deskmate.yaml"
    file.write_text("mcp: {servers: {chrome: {command: [node]}}}\n")
    with pytest.raises(ConfigError) as caught:
        load_checked(file, {})
    [problem] = caught.value.problems
    assert (
        "tools[1]: there is no MCP server 'chrom'; did you mean chrome? mcp.servers of the settings has: chrome"
        in str(problem)
    )
    (tmp_path / "profiles/default.yaml").write_text(tools)
    with pytest.raises(ConfigError) as caught:
        load_checked(file, {})
    assert {"tools[2]", "tools[3]"} <= {one.key for one in caught.value.problems}, "there are no patterns"


def test_servers_without_the_package_that_speaks_with_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory, "find_spec", lambda name: None if name == "mcp" else find_spec(name))
    file = tmp_path / "deskmate.yaml"
    file.write_text("mcp: {servers: {chrome: {command: [node]}}}\n")
    with pytest.raises(
        ConfigError, match=r"mcp.servers: .* not installed; wanted: \.venv/bin/pip install -e '\.\[mcp\]'"
    ):
        load_checked(file, {})
    file.write_text("mcp: {servers: {}}\n")
    load_checked(file, {})
