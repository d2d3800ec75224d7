"""`deskmate mcp` and `doctor`: an operator sees what servers offer, and what is approved is what was shown."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.cli import run
from gateway.store import Layout
from tests.workers.mcp.twins import ledger, like, program

ECHO = ["echo", "Says it again.", {"type": "object", "properties": {"text": {"type": "string"}}}]
Command = Callable[..., str]


@pytest.fixture
def command(
    tmp_path: Path,
    redis_url: str,
    layout: Layout,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Command:
    """What a command prints, after its exit code where that is not 0."""
    monkeypatch.setenv("REDIS_URL", redis_url)
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/default.yaml").write_text("tools: [twin__echo, twin__missing]")
    settings: dict[str, Any] = {
        "redis": {"key_prefix": layout.prefix},
        "mcp": {
            "servers": {
                "twin": program(tmp_path).model_dump(exclude_defaults=True),
                "dead": {"command": ["no-such-program"]},
            }
        },
    }
    file = tmp_path / "deskmate.yaml"
    file.write_text(yaml.safe_dump(settings))
    like(tmp_path, tools=[ECHO, ["a/b", "Is odd.", ECHO[2]]])

    def do(*arguments: str) -> str:
        code = run(["--config", str(file), *arguments])
        printed = capsys.readouterr()
        return f"{code or ''}{printed.out}{printed.err}"

    return do


def test_tools_are_listed_with_how_they_stand(command: Command, tmp_path: Path) -> None:
    assert command("mcp", "list").splitlines() == [
        "dead: ended; the last that it printed: no-such-program: No such file or directory",
        "twin: 1 tools",
        "  not usable    twin__a/b  (in no profile)  a tool's name, with the server's before it, has 1 to 64 of A-Z, a-z, 0-9, _ and -; this has 9",
        "  not approved  twin__echo  (listed in default)  Says it again.",
        "  gone          twin__missing  (listed in default)",
    ]
    command("mcp", "approve", "twin__echo", "--yes")
    assert "approved      twin__echo" in command("mcp", "list", "twin")
    like(tmp_path, tools=[[ECHO[0], "Says it to others, too.", ECHO[2]]])
    assert "changed       twin__echo" in command("mcp", "list", "twin")


def test_a_tool_is_shown_before_it_is_approved(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    like(tmp_path, tools=[[ECHO[0], "Says it\u202e again.", ECHO[2]]])
    shown = command("mcp", "show", "twin__echo")
    assert shown.startswith("twin__echo: not approved\n\nSays it<U+202E> again.\n\n{\n")
    monkeypatch.setattr("click.confirm", lambda *_, **__: False)
    assert "Says it<U+202E> again." in command("mcp", "approve", "twin__echo")
    assert "not approved" in command("mcp", "show", "twin__echo")
    monkeypatch.setattr("click.confirm", lambda *_, **__: True)
    assert command("mcp", "approve", "twin").endswith("twin__echo is approved; listed in default.\n")
    assert command("mcp", "show", "twin__echo").startswith("twin__echo: approved\napproved by operator ")


def test_what_is_otherwise_than_approved_is_shown_line_by_line(command: Command, tmp_path: Path) -> None:
    command("mcp", "approve", "twin", "--yes")
    like(tmp_path, tools=[[ECHO[0], "Says it to others, too.", ECHO[2]]])
    shown = command("mcp", "show", "twin__echo")
    assert shown.startswith("twin__echo: changed\n")
    assert "\n-Says it again.\n+Says it to others, too.\n" in shown.partition("Otherwise than it was approved:")[2]
    command("mcp", "approve", "twin__echo", "--yes")
    assert "Otherwise" not in command("mcp", "show", "twin__echo")


def test_a_yes_can_be_taken_back_without_the_server(command: Command, tmp_path: Path) -> None:
    command("mcp", "approve", "twin__echo", "--yes")
    starts = len(ledger(tmp_path, "start"))
    assert command("mcp", "revoke", "twin__echo") == "twin__echo is not approved any more.\n"
    assert command("mcp", "revoke", "twin__echo") == "twin__echo was not approved.\n"
    assert len(ledger(tmp_path, "start")) == starts
    assert "not approved" in command("mcp", "show", "twin__echo")
    given, taken = command("audit").splitlines()
    assert "mcp approve  twin__echo  – → " in given
    assert "mcp revoke  twin__echo" in taken
    assert taken.split("  ")[1].startswith("operator ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("list", "twn"), "There is no MCP server 'twn'; did you mean twin?"),
        (("show", "elsewhere__echo"), "There is no MCP server 'elsewhere'; mcp.servers has: dead, twin."),
        (("show", "dead__echo"), "The server dead ended; the last that it printed: no-such-program"),
        (("approve", "dead", "--yes"), "The server dead ended"),
        (("approve", "twin__missing", "--yes"), "Nothing to approve: twin__missing is gone."),
        (("approve", "twin__a/b", "--yes"), "Nothing to approve: a tool's name"),
    ],
)
def test_what_can_not_be_done_says_why(command: Command, arguments: tuple[str, ...], said: str) -> None:
    told = command("mcp", *arguments)
    assert told.startswith("1Error: ")
    assert said in told


def test_the_doctor_tells_of_dead_servers_and_of_tools_that_wait_for_a_yes(command: Command) -> None:
    told = command("doctor")
    assert "warn  mcp dead            ended; the last that it printed: no-such-program" in told
    assert "warn  mcp twin            not offered to the model: twin__echo: not approved, twin__missing: gone" in told
    command("mcp", "approve", "twin__echo", "--yes")
    assert "not offered to the model: twin__missing: gone" in command("doctor")


def test_without_the_sdk_the_remedy_is_told(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise ModuleNotFoundError("no", name="mcp")

    monkeypatch.setattr("workers.mcp.cli.look", missing)
    assert command("mcp", "list") == "1Error: mcp is not installed: .venv/bin/pip install -e '.[mcp]'.\n"


def test_without_servers_there_is_nothing_to_list(
    tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REDIS_URL", redis_url)
    (tmp_path / "deskmate.yaml").write_text("mcp: {}\n")
    assert run(["--config", str(tmp_path / "deskmate.yaml"), "mcp", "list"]) == 0
    assert capsys.readouterr().out == "No server is configured: mcp.servers of the settings.\n"


def test_a_list_of_servers_none_of_which_answers_is_a_failure(command: Command) -> None:
    assert command("mcp", "list", "dead").startswith("1dead: ended")
    listed = command("mcp", "list")
    assert "not approved  twin__echo  (listed in default)" in listed
    assert not listed.startswith("1"), "one did"


def test_where_nobody_can_answer_nothing_is_approved_and_it_says_so(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    told = command("mcp", "approve", "twin__echo")
    assert told.startswith("1")
    assert "so twin__echo is not approved. `--yes` says it without a question." in told
    assert "not approved" in command("mcp", "show", "twin__echo")
