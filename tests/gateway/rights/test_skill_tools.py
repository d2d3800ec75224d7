"""Which tools about skills are there beside which."""

from __future__ import annotations

import pytest

from gateway.rights.skill_tools import ABOUT_SKILLS, FIND, LOAD, READ_ON, SAVE, UNLOAD, is_listed, offered

LISTED = ["web_fetch", LOAD, SAVE]


@pytest.mark.parametrize(
    ("has_skills", "is_whole", "names"),
    [
        (True, True, [*LISTED, UNLOAD]),
        (True, False, [*LISTED, UNLOAD, FIND]),
        (False, True, ["web_fetch"]),
        (False, False, ["web_fetch"]),
    ],
)
def test_what_comes_with_the_tool_that_loads_stands_behind_what_is_listed(
    has_skills: bool, is_whole: bool, names: list[str]
) -> None:
    assert offered([*LISTED, UNLOAD], has_skills=has_skills, is_whole=is_whole) == names
    assert offered([FIND, SAVE], has_skills=True, is_whole=False) == [SAVE], "nothing is found that can't be loaded"


@pytest.mark.parametrize("by", ["load_skill", "web_fetch"])
def test_what_is_offered_may_be_called(by: str) -> None:
    assert {name: is_listed(name, [by]) for name in ABOUT_SKILLS} == {
        LOAD: by == LOAD,
        UNLOAD: by == LOAD,
        FIND: by == LOAD,
        SAVE: False,
        READ_ON: True,
    }
    assert all(is_listed(name, LISTED) for name in offered(LISTED, has_skills=True, is_whole=False))
