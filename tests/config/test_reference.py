from __future__ import annotations

from pathlib import Path

from config.reference import reference
from config.settings import Settings
from config.watching import WITHOUT_RESTART
from gateway.connections import platform_names, platform_settings

DOCS = Path(__file__).parents[2] / "docs/settings.md"


def test_the_docs_hold_the_tables_of_today() -> None:
    tables = reference({name: platform_settings(name) for name in platform_names()})
    assert DOCS.read_text(encoding="utf-8").endswith(tables), "run: deskmate config reference"


def test_the_docs_name_what_counts_without_a_restart() -> None:
    [line] = [one for one in DOCS.read_text(encoding="utf-8").splitlines() if "of anything else after a restart" in one]
    said = line.partition("counts a second after")[0]
    assert {one for one in Settings.model_fields if f"`{one}`" in said} == WITHOUT_RESTART


def test_every_setting_says_what_it_is() -> None:
    rows = [line for line in reference({}).splitlines() if line.startswith("| `")]
    assert len(rows) > 60
    assert [row for row in rows if row.endswith("|  |")] == []
