"""`deskmate connect` says how, and finds out whether it is done, on the platform's stand-in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.cli import run
from gateway.connections import platform_module, platform_names
from tests.harness.deployment import Deployment
from tests.harness.telegram_twin import TelegramTwin

URL = "https://desk.example"


def written(folder: Path, text: str) -> str:
    file = folder / "deskmate.yaml"
    file.write_text(text, encoding="utf-8")
    return str(file)


def test_without_a_platform_it_names_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["connect"]) == 0
    told = capsys.readouterr().out
    assert all(name in told for name in platform_names())


def test_a_platform_that_is_none_is_told_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["connect", "slick"]) == 2
    assert (
        "There is no platform 'slick'. Did you mean slack? There are: discord, feishu, slack" in capsys.readouterr().err
    )


@pytest.mark.parametrize("platform", platform_names())
def test_every_platform_says_step_by_step_what_to_do(
    platform: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, f"gateway: {{public_url: '{URL}'}}\n")
    assert run(["--config", file, "connect", platform]) == 0
    told = capsys.readouterr().out
    name = f"{platform.replace('_', '-')}-main"
    assert f"{URL}/webhooks/{name}" in told
    assert "1. " in told
    assert not any(mark in told for mark in ("{name}", "{url}", "{{", "}}"))
    assert f"  {name}:\n    platform: {platform}\n" in told
    needed = [key for key, one in platform_module(platform).Settings.model_fields.items() if one.is_required()]
    assert all(f"    {key}: " in told for key in needed if key != "platform")
    assert f"run `deskmate connect {platform} --name {name}` again" in told


def test_every_platform_has_its_page_in_the_docs() -> None:
    docs = Path(__file__).parents[3] / "docs/platforms"
    assert {f"{name.replace('_', '-')}.md" for name in platform_names()} <= {file.name for file in docs.iterdir()}


@pytest.mark.parametrize(
    ("written_so", "told"),
    [
        ("connections:\n  desk:\n    platform: telegram\n    bot_token: $NO_SUCH_VARIABLE\n", "NO_SUCH_VARIABLE"),
        ("conections: {}\n", "did you mean connections?"),
        ("worker: {concurency: 5}\n", "concurency"),
        (": not YAML: [", "deskmate.yaml"),
    ],
)
def test_whatever_keeps_the_settings_from_being_used_is_told(
    written_so: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--config", written(tmp_path, written_so), "connect", "telegram", "--name", "desk"]) == 1
    printed = capsys.readouterr()
    assert "1. " in printed.out
    assert "Nothing is checked, as the settings can't be used yet" in printed.err
    assert told in printed.err


def test_what_is_meant_is_guessed_and_the_built_in_page_needs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["connect", "telegran"]) == 2
    assert "Did you mean telegram?" in capsys.readouterr().err
    assert run(["connect", "webchat"]) == 2
    assert "The page is built in" in capsys.readouterr().err
    assert run(["connect", "telegram", "--url", "desk.example"]) == 2
    assert "--url: " in capsys.readouterr().err


def test_a_name_that_is_another_platforms_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRIDGE", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    bridge = "{platform: standard_webhooks, secret: $BRIDGE, reply_url: 'https://a.example'}"
    file = written(tmp_path, f"connections:\n  bridge: {bridge}\n")
    assert run(["--config", file, "connect", "telegram", "--name", "bridge"]) == 2
    assert "The connection bridge is on standard_webhooks, not on telegram" in capsys.readouterr().err


async def deployed(folder: Path, twin: TelegramTwin, **connection: Any) -> Deployment:
    made = Deployment(folder, "redis://127.0.0.1:9/0", {}, dict(twin.environment))
    made.write({"gateway": {"public_url": URL}, "connections": {"desk": {**twin.connection, **connection}}})
    return made


async def test_credentials_are_checked_and_the_webhook_is_registered_by_who_says_so(tmp_path: Path) -> None:
    async with TelegramTwin() as twin:
        deskmate = await deployed(tmp_path, twin)
        code, told = await deskmate.run("connect", "telegram")
        assert (code, "the credentials are good: we are" in told) == (0, True), told
        assert twin.webhook == {}, "a program that only looks turns no platform elsewhere"
        assert "`deskmate connect desk --yes` has it send to" in told
        assert "BotFather" not in told, "the steps are for who is not there yet"
        code, told = await deskmate.run("connect", "desk", "--yes", "--steps")
        assert (code, "BotFather" in told) == (0, True), told
        assert twin.webhook["url"] == f"{URL}/webhooks/desk"
        deskmate.environment["TELEGRAM_BOT_TOKEN"] = "1:wrong"
        code, told = await deskmate.run("connect", "telegram")
        assert code == 1
        assert "Error: desk: " in told
        assert "Traceback" not in told
        assert "1:wrong" not in told
        code, told = await deskmate.run("connect")
        assert f"  {'telegram':<18} desk" in told


async def test_where_nobody_can_be_asked_nothing_is_called_good(tmp_path: Path) -> None:
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    made = Deployment(tmp_path, "redis://127.0.0.1:9/0", {}, {"BRIDGE": secret})
    bridge = {"platform": "standard_webhooks", "secret": "$BRIDGE", "reply_url": "https://a.example"}
    made.write({"gateway": {"public_url": URL}, "connections": {"bridge": bridge}})
    code, told = await made.run("connect", "bridge")
    assert (code, "can't be checked" in told, "good" in told) == (0, True, False), told
    assert f"give the platform {URL}/webhooks/bridge" in told
