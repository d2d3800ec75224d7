"""A run that would try nothing is refused in a line that says what is wrong, before anything begins."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.run import Came
from tests.harness.checking import check
from tests.harness.history import History
from tests.sweep.run import Result

WRONG: dict[str, str] = {
    "sweep --count -1": "-1 is not a whole number",
    "sweep --lanes 0": "0 is not a whole number",
    "sweep --gateways 0": "0 is not a whole number",
    "sweep --model-s -1": "-1 is not a number above 0",
    "sweep --at (": "(: missing )",
    "sweep --kinds bogus": "bogus: not one of plain",
    "chaos chaos --messages -3": "-3 is not a whole number",
    "chaos chaos --messages many": "many is not a whole number",
    "chaos chaos --conversations 0": "0 is not a whole number",
    "chaos chaos --rate 0": "0 is not a number above 0",
    "chaos chaos --redis-s inf": "inf is not a number above 0",
    "chaos soak --minutes 0": "0 is not a number above 0",
    "chaos soak --minutes nan": "nan is not a number above 0",
    "forged --count 0": "0 is not a whole number",
    "fuzz 0": "0 is not a whole number",
    "fuzz 1 bogus": "bogus: not one of address",
    "sabotage --jobs 0": "0 is not a whole number",
    "sabotage --within 0": "0 is not a number above 0",
    "sabotage zzz": "no guard, or file, holds `zzz`",
}


@pytest.mark.parametrize("line", WRONG)
def test_what_would_try_nothing_is_refused(
    line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program, *given = line.split()
    monkeypatch.setattr("sys.argv", [program, *given])
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(f"tests.{program}.__main__").main()
    assert ended.value.code == 2
    assert WRONG[line] in capsys.readouterr().err.splitlines()[-1]


def test_a_run_in_which_nothing_was_tried_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def quiet(order: Any, *_: Any) -> Any:
        return Came(order, check(History(())), 0, 0, 0, 1.0, 0.0, (0.0, 0.0, 0.0))

    async def empty(order: Any, *_: Any) -> Any:
        return Result(order)

    monkeypatch.setattr("tests.chaos.__main__.chaos", quiet)
    monkeypatch.setattr("tests.sweep.__main__.sweep", empty)
    for line in ("chaos chaos", "sweep --count 0"):
        program, *given = line.split()
        monkeypatch.setattr("sys.argv", [program, *given, "--folder", str(tmp_path)])
        assert importlib.import_module(f"tests.{program}.__main__").main() == 2
        said = capsys.readouterr().out
        assert "so nothing is shown" in said.splitlines()[-1]
        assert "all held" not in said
