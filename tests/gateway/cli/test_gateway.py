"""`deskmate gateway`: what it says when it can't begin."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest


def gateway(folder: Path, settings: str) -> subprocess.CompletedProcess[str]:
    (folder / "deskmate.yaml").write_text(settings)
    command = [sys.executable, "-m", "gateway.cli", "--config", str(folder / "deskmate.yaml"), "gateway"]
    here = {"PATH": os.defpath, "PYTHONPATH": str(Path(__file__).parents[3]), "REDIS_URL": "redis://127.0.0.1:1"}
    return subprocess.run(command, env=here, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("shared", [False, True])
def test_a_port_in_use_is_told_with_what_to_do(tmp_path: Path, shared: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = gateway(tmp_path, f"gateway: {{port: {port}, processes: {2 if shared else 1}}}\n")
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1] == (
        f"Error: port {port} on 127.0.0.1 can't be used: Address already in use. "
        "Stop what uses it, or choose another with --port."
    )
    assert "Traceback" not in ran.stderr


def test_an_address_that_is_not_ours_is_told_with_what_to_do(tmp_path: Path) -> None:
    ran = gateway(tmp_path, "gateway: {host: 192.0.2.1}\n")
    assert ran.returncode == 1
    assert "Set gateway.host to an address of this machine." in ran.stderr
    assert "Traceback" not in ran.stderr
