"""docs/testing.md says what is so: its script talks to a real deskmate, its settings exist."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest
import yaml

from config.settings import Section, Settings, environment
from tests.gateway.cli.test_up import up
from tests.harness.deployment import free_port

TEXT = (Path(__file__).parent.parent / "docs" / "testing.md").read_text(encoding="utf-8")
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def block(first_line: str) -> str:
    """The code block that begins with this comment."""
    found = re.search(rf"^```\w+\n({re.escape(first_line)}\n.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    assert found, first_line
    return found[1]


async def test_the_script_as_it_stands_there_gets_a_reply(
    tmp_path: Path, unused_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRIPT_SECRET", SECRET)
    gateway, own = str(unused_port), str(free_port())
    for name in ("deskmate.yaml", "chat.py"):
        (tmp_path / name).write_text(block(f"# {name}").replace("8080", gateway).replace("9100", own))
    async with up(tmp_path, unused_port) as started:
        await started.ready()
        script = await asyncio.create_subprocess_exec(
            *(sys.executable, "chat.py", "Please search the web: what time is it?"),
            cwd=tmp_path,
            env=environment(),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, told = await asyncio.wait_for(script.communicate(), 30)
    assert script.returncode == 0, told.decode()
    assert "rehearsal" in out.decode()
    assert "(tool current_time: done)" in told.decode()


def exists(name: str, section: type[Section] = Settings) -> bool:
    first, _, rest = name.partition(".")
    if first not in section.model_fields:
        return False
    kind = section.model_fields[first].annotation
    return not rest or (isinstance(kind, type) and issubclass(kind, Section) and exists(rest, kind))


def test_every_setting_that_it_names_exists() -> None:
    sections = "|".join(name for name, one in Settings.model_fields.items() if isinstance(one.annotation, type))
    names = set(re.findall(rf"`((?:{sections})\.[a-z_.]+)`", TEXT))
    assert len(names) > 12
    assert {name for name in names if not exists(name)} == set()


def test_the_quick_settings_are_settings() -> None:
    [quick] = [one for one in re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL) if "lease_s" in one]
    made = Settings.model_validate(yaml.safe_load(quick))
    assert made.mailbox.send_timeout_s < made.mailbox.lease_s


@pytest.mark.parametrize("module", re.findall(r"python -m (tests\.[a-z_.]+)", TEXT))
async def test_the_stand_ins_that_it_names_run_alone(module: str) -> None:
    ran = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, "--help"), cwd=Path(__file__).parent.parent, stdout=asyncio.subprocess.PIPE
    )
    told, _ = await asyncio.wait_for(ran.communicate(), 30)
    assert (b"--port" if "harness" in module else b"--seed") in told
