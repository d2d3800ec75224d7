"""Our own secrets are taken out of what tools say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from workers.calling.unsaid import unsaid
from workers.tools import ToolError, ToolResult

KEY = "canary-0123456789"
ANY: Any = None


async def test_a_result_and_an_error_are_told_without_them() -> None:
    async def run(*_: object) -> ToolResult:
        return ToolResult(
            f"it was {KEY}", note=KEY, addresses=(f"https://a.test/?key={KEY}", "https://b.test"), own=True
        )

    async def fail(*_: object) -> ToolResult:
        raise ToolError(f"wrong: {KEY}", untrusted=True, note=KEY)

    came = await unsaid(run, {KEY})(ANY, {}, ANY)
    assert came == ToolResult(
        "it was ***", note="***", addresses=("https://a.test/?key=***", "https://b.test"), own=True
    )
    with pytest.raises(ToolError) as caught:
        await unsaid(fail, {KEY})(ANY, {}, ANY)
    assert (str(caught.value), caught.value.note, caught.value.untrusted) == ("wrong: ***", "***", True)


@pytest.mark.parametrize("text", ["desk", "{folder}", "https://me:word@host.test"])
async def test_what_may_stand_in_any_text_stays(text: str, tmp_path: Path) -> None:
    """A short word, a folder of this machine, a password that is none of ours: a file would be changed by it."""
    text = text.format(folder=tmp_path)

    async def run(*_: object) -> ToolResult:
        return ToolResult(text)

    came = await unsaid(run, {"desk", str(tmp_path), "x" * 5_000, "/" + "x" * 5_000})(ANY, {}, ANY)
    assert came.text == text
