"""`deskmate doctor` says what is wrong and what to do, on real servers."""

from __future__ import annotations

import json
import os
import re
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic import SecretStr

from config.loading import load
from config.settings import Connection, GatewaySettings, ModelSettings, RedisSettings, Settings, SkillsSettings
from gateway.cli import run
from gateway.cli.doctor import (
    check_age,
    check_connection,
    check_exceptions,
    check_folder,
    check_model,
    check_port,
    check_redis,
    check_sandbox,
    check_search,
    examine,
)
from gateway.connections import Opened
from gateway.conversation.key import named
from gateway.conversation.mailbox import Mailbox
from gateway.events import Actor
from gateway.platforms import ConnectionRefused, Outside, Platform
from gateway.running.address import address_noted
from gateway.running.checks import Finding
from gateway.shelf.decisions import ORG, scope_of
from gateway.shelf.packing import Packer
from gateway.store import Store
from tests.gateway.shelf.world import World
from tests.harness.fake_model import FakeModel


def written(folder: Path, text: str) -> Path:
    file = folder / "deskmate.yaml"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as server:  # bound, but not listening: who connects is told at once
        server.bind(("127.0.0.1", 0))
        yield server.getsockname()[1]


async def test_a_machine_where_nothing_runs_yet_is_well(tmp_path: Path, unused_port: int) -> None:
    file = written(tmp_path, f"data: data\ngateway: {{port: {unused_port}}}\n")
    findings = await examine(load(file, variables={}))
    assert [finding for finding in findings if finding.level == "fail"] == []
    (redis,) = (finding for finding in findings if finding.about == "redis")
    assert "deskmate up" in redis.text
    assert str(tmp_path / "data") in redis.text


async def test_a_budget_under_which_nobody_is_ever_answered_is_warned_of(tmp_path: Path, unused_port: int) -> None:
    file = written(tmp_path, f"data: data\ngateway: {{port: {unused_port}}}\n")
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/default.yaml").write_text("budget: {channel: {day: {tokens: 500}}}\n")
    [found] = [one for one in await examine(load(file, variables={})) if one.about == "budget"]
    assert found.level == "warn"
    assert "profiles/default.yaml:1: budget.channel.day.tokens: nobody is ever answered under this limit" in found.text
    assert re.search(r"raise it: wanted: [\d,]+ tokens or more", found.advice)


async def test_a_running_redis_is_looked_at_and_workers_are_counted(store: Store) -> None:
    settings = Settings()
    findings = {finding.about: finding for finding in await check_redis(store, settings)}
    assert set(findings) >= {"redis: version", "redis: eviction", "redis: persistence", "redis: latency", "clock"}
    assert findings["workers"].level == "warn"
    assert "deskmate worker" in findings["workers"].advice
    assert (findings["skills"].level, "none were published yet" in findings["skills"].text) == ("warn", True)
    await Packer(store, SkillsSettings(), "host-1").step()
    findings = {one.about: one for one in await check_redis(store, Settings())}
    assert findings["skills"] == Finding("ok", "skills", "snapshot 1; the folders are looked at by host-1")

    await Mailbox(store, settings.mailbox).beat("somebody")
    findings = {finding.about: finding for finding in await check_redis(store, settings)}
    del findings["redis: latency"]  # whatever else this machine does
    assert {finding.level for finding in findings.values()} == {"ok"}


async def test_switches_that_are_gone_fail_with_the_way_out(store: Store, tmp_path: Path) -> None:
    world = World(store, tmp_path)
    here = named("slack-main", "C-DEV")
    change = replace(world.change(), room="slack-main/C-DEV")
    for scope in (ORG, scope_of(here.channel_id), scope_of("nameless")):
        change = replace(change, id=scope)
        await world.shelf.switch(scope, "web-access", "off", change)

    async def told() -> list[Finding]:
        return [one for one in await check_redis(store, Settings()) if one.about == "switches"]

    assert [one.level for one in await told()] == ["ok"]
    await store.redis.delete(f"{store.layout.skills_root}:{scope_of(here.channel_id)}")
    [one] = await told()
    assert (one.level, "of slack-main/C-DEV:" in one.text) == ("fail", True)
    assert "`deskmate skills anew --channel slack-main/C-DEV`" in one.advice
    await store.redis.delete(f"{store.layout.skills_root}:org")
    await store.redis.set(f"{store.layout.skills_root}:ch:nameless", "no hash")
    found = await told()
    assert [one.text.split(":")[0] for one in found[:2]] == ["of ch", "of slack-main/C-DEV"]
    assert ":ch:nameless back" in found[0].advice
    assert "`deskmate skills anew --everywhere`" in found[2].advice


async def test_a_port_that_something_else_uses_fails(taken_port: int) -> None:
    found = await check_port(Settings(gateway=GatewaySettings(port=taken_port)))
    assert found.level == "fail"
    assert "gateway.port" in found.advice


def test_a_folder_that_can_not_be_written_fails(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert check_folder(Settings(data=tmp_path / "file" / "data")).level == "fail"
    assert check_folder(Settings(data=tmp_path / "new" / "data")).level == "ok"
    assert not (tmp_path / "new").exists()


def test_exceptions_of_web_fetch_are_always_shown() -> None:
    settings = Settings.model_validate({"tools": {"web_fetch": {"allow_private": ["10.0.0.7:8000"]}}})
    found = check_exceptions(settings)
    assert (found.level, "10.0.0.7:8000" in found.text) == ("warn", True)


class Platformlet:
    """A platform's module as far as the doctor uses it."""

    def __init__(self, answer: Actor | Exception) -> None:
        self.answer = answer

    def Adapter(self, *_: Any) -> SimpleNamespace:  # noqa: N802 - the contract's name
        return SimpleNamespace(identity=self.identity, is_checked=True)

    async def identity(self) -> Actor:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "level", "text"),
    [
        (Actor("U1", name="desk"), "ok", "we are desk"),
        (ConnectionRefused("invalid_auth"), "fail", "invalid_auth"),
    ],
)
async def test_each_connection_is_asked_who_we_are(answer: Actor | Exception, level: str, text: str) -> None:
    opened = Opened("slack-main", cast("Platform", Platformlet(answer)), Connection(platform="slack"))
    found = await check_connection(opened, cast("Outside", None))
    assert found.level == level
    assert text in found.text
    assert "slack-main" in found.about


async def test_a_wrong_key_of_the_model_fails_and_is_not_printed() -> None:
    async with FakeModel(key="right") as server:
        wrong = ModelSettings(provider="anthropic", name="m", base_url=server.url, api_key=SecretStr("sk-wrong-key"))
        found = await check_model(Settings(model=wrong))
        assert found.level == "fail"
        assert "model.api_key" in found.advice
        assert "sk-wrong-key" not in str(found)
        right = wrong.model_copy(update={"api_key": SecretStr("right")})
        assert (await check_model(Settings(model=right))).level == "ok"


async def test_an_unknown_provider_fails() -> None:
    found = await check_model(Settings(model=ModelSettings(provider="nobody")))
    assert (found.level, found.text) == ("fail", "there is no provider 'nobody'")


@pytest.mark.sandbox
async def test_the_sandbox_is_tried_and_what_may_go_out_of_it_is_named() -> None:
    tried = await check_sandbox(Settings())
    assert (tried.level, tried.about) == ("ok", "sandbox")
    online = Settings.model_validate({"skills": {"programs": {"network": ["weather"]}}})
    told = await check_sandbox(online)
    assert told.level == "warn"
    assert "weather" in told.text


def test_every_problem_of_the_settings_is_a_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, "gatewey: {}\nworker: {concurrency: many}\n")
    assert run(["--config", str(file), "doctor", "--json"]) == 1
    findings = [Finding(**found) for found in json.loads(capsys.readouterr().out)]
    assert [finding.about for finding in findings] == ["settings", "settings"]
    assert "gatewey" in findings[0].text
    assert "concurrency" in findings[1].text


def test_what_is_printed_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str], taken_port: int) -> None:
    file = written(tmp_path, f"data: data\ngateway: {{port: {taken_port}}}\n")
    assert run(["--config", str(file), "doctor"]) == 1
    said = capsys.readouterr()
    assert f"FAIL  port {taken_port}" in said.out
    assert "-> stop what uses it, or set gateway.port" in said.out
    assert "checks failed" in said.err


async def test_a_redis_that_is_away_is_one_failure(tmp_path: Path, unused_port: int) -> None:
    away = f"redis://127.0.0.1:{unused_port}"
    file = written(tmp_path, "gateway: {port: 0}\n")
    findings = await examine(load(file, variables={"REDIS_URL": away}))
    assert [finding.about for finding in findings if finding.level == "fail"] == ["redis"]


def test_settings_without_url_do_not_use_the_folder() -> None:
    settings = Settings(redis=RedisSettings(url=SecretStr("redis://127.0.0.1")))
    assert "not used" in check_folder(settings).text


def test_a_search_library_that_is_missing_is_told_with_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    assert check_search(Settings()) == Finding("ok", "web_search", "no provider is set")
    by_library = Settings.model_validate({"tools": {"web_search": {"provider": "ddgs"}}})
    assert check_search(by_library).advice == ".venv/bin/pip install -e '.[search]'"
    own = Settings.model_validate({"tools": {"web_search": {"provider": "searxng", "base_url": "http://a.test"}}})
    assert check_search(own).level == "ok"


def test_settings_that_are_younger_than_what_runs_say_so(tmp_path: Path) -> None:
    file = tmp_path / "deskmate.yaml"
    file.write_text("data: data\n")
    os.utime(file, (1, 1))
    with address_noted(tmp_path / "data", "http://127.0.0.1:8080"):
        assert check_age(load(file)).level == "ok"
        os.utime(file, (2**32, 2**32))
        found = check_age(load(file))
    assert "changed since `deskmate up` was started" in found.text
    assert found.advice == "all of it but channels, people, profiles counts after a restart"
    assert check_age(load(file)).level == "ok", "nothing runs"
