"""What one process writes down others compare: it is in the server's time, and no module reads its own clock for that."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

HOUSE: Final = Path(__file__).parents[1]
CLOCKS: Final = {"time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "date.today"}
READS: Final = {
    "gateway/app.py": "a signature's age by what the platform says, and the Date of an answer",
    "gateway/bell.py": "RQ's own form of a job",
    "gateway/cli/doctor.py": "how far this clock is off",
    "gateway/conversation/mailbox.py": "the one that knows how far this clock is off",
    "gateway/logs.py": "a log tells its own machine's time",
    "gateway/platforms/__init__.py": "where nobody else compares",
    "gateway/platforms/feishu.py": "a message's age, where the platform tells no time",
    "gateway/platforms/standard_webhooks.py": "a signature's age",
    "gateway/platforms/wecom.py": "by the platform's own stamps",
    "gateway/web/chat.py": "a signature's age",
    "gateway/wire.py": "when a service says that it may be asked again, by the world's time",
    "workers/models/anthropic.py": "the same",
    "workers/tools/current_time.py": "what people ask for",
}
"""Those that may, and what for."""


def test_only_who_has_to_reads_its_own_clock() -> None:
    found = {
        place
        for layer in ("gateway", "workers")
        for file in (HOUSE / layer).rglob("*.py")
        if any(_clocks(file)) and (place := str(file.relative_to(HOUSE)))
    }
    assert found == set(READS)


def _clocks(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in CLOCKS:
            yield ast.unparse(node)
