"""Servers of a test: what they are like, and what they saw."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from config.settings import McpServerSettings
from tests.harness import mcp_server

SCRIPT = str(Path(mcp_server.__file__))


def program(folder: Path, **more: Any) -> McpServerSettings:
    """The stand-in as a program."""
    return McpServerSettings(command=[sys.executable, "-I", SCRIPT, str(folder)], **more)


def like(folder: Path, **how: Any) -> None:
    """From its next start on."""
    (folder / "like.json").write_text(json.dumps(how))


def ledger(folder: Path, event: str = "") -> list[dict[str, Any]]:
    file = folder / "ledger.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return [line for line in lines if not event or line["event"] == event]
