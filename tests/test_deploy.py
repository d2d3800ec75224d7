"""The files in deploy/ name commands, settings and files that exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
import yaml

from config.settings import Settings
from gateway.cli import COMMANDS, deskmate

ROOT = Path(__file__).parent.parent
UNITS = sorted((ROOT / "deploy").glob("*.service"))
KNOWN = {name for group in COMMANDS.values() for name in group}


def unit(file: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in file.read_text().splitlines() if re.match(r"[A-Za-z]+=", line))


@pytest.mark.parametrize("file", UNITS, ids=lambda file: file.name)
def test_a_unit_starts_a_command_that_exists_and_gives_it_time_to_stop(file: Path) -> None:
    written = unit(file)
    program, option, _, command, *_ = shlex.split(written["ExecStart"])
    assert (Path(program).name, option) == ("deskmate", "--config")
    assert command in KNOWN
    settings = Settings()
    needed_s = settings.gateway.shutdown_s if command == "gateway" else settings.worker.grace_s
    assert float(written["TimeoutStopSec"]) > needed_s


def test_the_unit_for_one_machine_uses_options_that_up_has() -> None:
    arguments = shlex.split(unit(ROOT / "deploy" / "deskmate.service")["ExecStart"])[4:]
    with click.Context(deskmate) as ctx:
        up = deskmate.get_command(ctx, "up")
        assert up
        assert up.make_context("up", arguments, parent=ctx).params["data"] == Path("/var/lib/deskmate")


def test_compose_runs_gateway_worker_and_listener_on_a_server_as_doctor_wants_it() -> None:
    services = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]
    assert {services[name]["command"][0] for name in ("gateway", "worker", "listen")} <= KNOWN
    server = " ".join(services["redis"]["command"])
    assert "--appendonly yes" in server
    assert "--maxmemory-policy noeviction" in server
    assert (
        ROOT / "deploy" / services["gateway"]["build"]["context"] / services["gateway"]["build"]["dockerfile"]
    ).is_file()


def test_compose_keeps_the_data_folder_and_the_image_lets_it_be_written() -> None:
    compose = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())
    for name in ("gateway", "worker", "listen"):
        assert "data:/data" in compose["services"][name]["volumes"]
    assert "data" in compose["volumes"]
    assert "install -d -o deskmate /data" in (ROOT / "deploy" / "Dockerfile").read_text()


def test_the_image_holds_every_package() -> None:
    copied = re.findall(r"^COPY (\S+) \1$", (ROOT / "deploy" / "Dockerfile").read_text(), re.MULTILINE)
    assert set(copied) == {"config", "skills", "gateway", "workers"}
