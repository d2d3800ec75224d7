"""`deskmate redis`: the operator's word after a loss."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner

from config.settings import MailboxSettings
from gateway.cli import deskmate, run
from gateway.conversation.mailbox import Mailbox
from gateway.store import Layout, Store, open_store


async def test_adopt_makes_running_processes_go_on_with_an_emptied_redis(
    tmp_path: Path, redis_url: str, layout: Layout
) -> None:
    file = tmp_path / "deskmate.yaml"
    file.write_text(f"redis: {{url: $REDIS_URL, key_prefix: {layout.prefix}}}\n")
    store: Store = open_store(redis_url, layout, timeout_s=5.0)
    mailbox = Mailbox(store, MailboxSettings())
    await mailbox.open()
    await store.redis.delete(*[key async for key in store.redis.scan_iter(f"{layout.prefix}:*")])
    assert not await mailbox.is_warm()

    arguments = ["--config", str(file), "redis", "adopt", "--yes"]
    said = await asyncio.to_thread(CliRunner().invoke, deskmate, arguments, env={"REDIS_URL": redis_url})
    assert said.exit_code == 0, said.output
    assert await mailbox.is_warm()
    assert mailbox.epoch in said.output
    await store.close()


def test_adopt_asks_first(tmp_path: Path) -> None:
    (tmp_path / "deskmate.yaml").write_text("data: data\n")
    said = CliRunner().invoke(deskmate, ["--config", str(tmp_path / "deskmate.yaml"), "redis", "adopt"], input="n\n")
    assert said.exit_code == 1
    assert "are lost. Go on with it?" in said.output


def test_without_a_running_server_it_says_what_to_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "deskmate.yaml").write_text("data: data\n")
    assert run(["--config", str(tmp_path / "deskmate.yaml"), "redis", "adopt", "--yes"]) == 1
    assert "`deskmate up` starts one" in capsys.readouterr().err


def test_where_names_folder_and_socket(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "deskmate.yaml").write_text("data: data\n")
    assert run(["--config", str(tmp_path / "deskmate.yaml"), "redis", "where"]) == 0
    assert str(tmp_path / "data" / "redis.sock") in capsys.readouterr().out
