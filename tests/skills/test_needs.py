"""Needs: variables are exact; of free text only what leaves nothing open counts."""

from __future__ import annotations

import platform
from importlib import metadata

import pytest

from skills import document
from skills.document import Document
from skills.needs import Machine, this_machine, unmet

LINUX = Machine("Linux", python="3.11.4", deskmate="0.9.0")


def head(fields: str) -> Document:
    return document.parse(f"---\nname: a\ndescription: b\n{fields}\n---\n".encode(), "a")


def why(compatibility: str, machine: Machine = LINUX) -> str | None:
    return unmet(head(f"compatibility: |-\n  {compatibility}"), (), (), machine)


def test_a_variable_has_to_be_granted_and_set() -> None:
    asks = head("env: [TOKEN, REGION]")
    assert unmet(asks, ["REGION"], ["TOKEN", "REGION"]) == (
        "needs the variable TOKEN, which the profile does not grant (program_env)"
    )
    assert unmet(asks, ["TOKEN", "REGION"], ["TOKEN"]) == (
        "needs the variable REGION, which is not set where workers run"
    )
    assert unmet(asks, ["TOKEN", "REGION"], ["TOKEN", "REGION"]) is None
    assert unmet(asks, ["TOKEN", "REGION"], None) is None, "what is set where workers run is not known everywhere"
    assert unmet(head("license: MIT"), (), ()) is None
    assert "the variable TO<U+200B>KEN, which" in str(unmet(head("env: [TO\u200bKEN]"), (), ()))


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("macOS only", "macOS"),
        ("Windows-only.", "Windows"),
        ("Requires macOS", "macOS"),
        ("Requires macOS 13+ and ffmpeg", "macOS"),
        ("Only works on Windows", "Windows"),
        ("Runs only on macOS or Windows.", "macOS or Windows"),
        ("macOS; browser access; clipboard modes use a script", "macOS"),
        ("macOS/Windows, git", "macOS or Windows"),
        ("Needs git. ＭＡＣＯＳ ONLY.", "macOS"),
        ("仅支持 macOS", "macOS"),
        ("需要 Windows，需要网络", "Windows"),
    ],
)
def test_a_system_that_is_demanded_by_name_and_is_not_ours_counts(text: str, needed: str) -> None:
    assert why(text) == f"needs {needed}; here is Linux"


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("python >= 3.12", "Python 3.12 or newer"),
        ("Python>=3.11.5", "Python 3.11.5 or newer"),
        ("Requires Python 3.12+", "Python 3.12 or newer"),
        ("Requires uv, Python 3.12 or newer, and git", "Python 3.12 or newer"),
        ("Python 3.12+ (stdlib only, no packages)", "Python 3.12 or newer"),
        ("Python 3.12 及以上", "Python 3.12 or newer"),
        ("Requires: Python 4 and up", "Python 4 or newer"),
    ],
)
def test_a_python_that_is_older_than_demanded_counts(text: str, needed: str) -> None:
    assert why(text) == f"needs {needed}; here is 3.11.4"


def test_a_deskmate_that_is_older_than_demanded_counts() -> None:
    assert why("deskmate >= 0.10") == "needs deskmate 0.10 or newer; here is 0.9.0"
    assert why("deskmate >= 0.9") is None


@pytest.mark.parametrize(
    "text",
    [
        "Node.js environment",
        "Requires git, pre-commit, uv, bun and gh (GitHub CLI) authenticated with write access to a/b.",
        "macOS, Linux",
        "Requires macOS, or Linux",
        "macOS or Linux. Needs Node.js 22+",
        "Works on macOS, Linux, Windows with Node.js 16+.",
        "macOS 12+, Ubuntu 24.04+, any Linux",
        "Tested on macOS",
        "Requires macOS for screenshots",
        "Requires macOS (optional)",
        "macOS only if you take screenshots",
        "Windows, cross-platform",
        "Optional: uv, Python 3.12+",
        "Python 3.12+ or Node.js 20+",
        "Python 3.12+ recommended",
        "Python 3.12 or newer for the linter. curl to apply it.",
        "Python project-agnostic; uses existing tools",
        "python >= 3.11",
        "Python 3.9+; agent-framework 2+",
        "python < 3.0",
        f"python >= {'9' * 5_000}",
        "Requires Python",
        "Works with macOS and Windows",
        "不需要 Windows",
        "windowsill",
        "",
    ],
)
def test_everything_else_is_held_against_no_skill(text: str) -> None:
    assert why(text) is None


def test_the_system_that_runs_us_is_the_one_that_counts() -> None:
    mac = Machine("macOS", LINUX.python, LINUX.deskmate)
    assert why("macOS only", mac) is None
    assert why("Requires Linux", mac) == "needs Linux; here is macOS"


def test_what_is_no_text_asks_for_nothing() -> None:
    assert unmet(head("compatibility: [macOS only]"), (), (), LINUX) is None


def test_long_texts_are_judged_quickly() -> None:
    for text in ("macos / " * 8_000, "python 1.1" * 6_000, "requires " * 7_000, "(" * 60_000, "only on " * 8_000):
        why(text)


def test_this_machine_is_named_as_skills_name_it() -> None:
    assert this_machine().python == platform.python_version()
    assert this_machine().deskmate == metadata.version("deskmate")
    assert this_machine().system in {"Linux", "macOS", "Windows"}
