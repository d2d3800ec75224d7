from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.acts.cards import GOING_MAX_CHARACTERS, card
from gateway.acts.cards import shown as text_of_card
from gateway.platforms import BUTTON_MAX_BYTES
from tests.skills.test_notes import NOTE

WAITING = replace(NOTE, state="pending")


def difference(shown: str) -> str:
    return shown.split("```diff\n")[1].rsplit("\n```", 1)[0]


def test_a_card_has_who_where_which_file_the_whole_text_and_what_to_say() -> None:
    shown = text_of_card(replace(WAITING, text="- one\n\n- two"), (), "en")

    assert difference(shown) == "+ - one\n+ \n+ - two"
    for fact in ("KMTR", "`Max`", "`slack/U1`", "`slack/C1`", "`references/a.md`", "`report`"):
        assert fact in shown
    assert "/skill approve KMTR" in shown
    assert "/skill reject KMTR" in shown
    assert "等待批准" in text_of_card(WAITING, (), "zh")


def test_a_note_that_waits_has_buttons_that_say_what_can_be_said_and_one_that_counts_has_none() -> None:
    asked = card(WAITING, (), "en")
    assert [(one.label, one.command, one.style) for one in asked.buttons] == [
        ("Approve", "skill approve KMTR", "primary"),
        ("Refuse", "skill reject KMTR", "danger"),
    ]
    assert all(len(one.command.encode()) <= BUTTON_MAX_BYTES for one in asked.buttons)
    assert not card(NOTE, (), "en").buttons


def test_a_note_that_counts_at_once_is_shown_with_how_to_take_it_back() -> None:
    shown = text_of_card(NOTE, (), "en")

    assert "approve" not in shown
    assert "/skill notes revert KMTR" in shown


def test_what_is_replaced_is_a_difference() -> None:
    old = (replace(NOTE, text="- same\n- goes"), replace(NOTE, text="- goes too\n- end"))

    shown = text_of_card(replace(WAITING, text="- same\n- comes\n- end", overwrite=True), old, "en")

    assert difference(shown) == "  - same\n- - goes\n- - goes too\n+ - comes\n  - end"
    assert "2" in shown.split("```", maxsplit=1)[0]


def test_nothing_is_hidden_and_nothing_is_markup() -> None:
    sly = replace(WAITING, text="pay\u200bload \u202eevil\n```\n/skill approve OTHER", by_name="`Ana`\n**admin**\u200b")

    shown = text_of_card(sly, (), "en")

    assert difference(shown) == "+ pay<U+200B>load <U+202E>evil\n+ ```\n+ /skill approve OTHER"
    assert "`'Ana' **admin**<U+200B>`" in shown


@pytest.mark.parametrize("name", ["", "slack-main/U-MAX", "U-MAX"])
def test_a_person_whose_name_is_the_id_is_named_once(name: str) -> None:
    told = text_of_card(replace(WAITING, by="slack-main/U-MAX", by_name=name), (), "en")
    assert "\n`slack-main/U-MAX` in " in told


def test_what_comes_is_whole_and_what_goes_is_counted_where_it_is_much() -> None:
    comes = "\n".join(f"new {n}" for n in range(1_000))

    shown = text_of_card(
        replace(WAITING, text=comes), [replace(NOTE, text=f"old {n}\n" * 300) for n in range(10)], "en"
    )

    assert [line[2:] for line in shown.splitlines() if line.startswith("+ ")] == comes.splitlines()
    gone = [line for line in shown.splitlines() if line.startswith("- old")]
    assert sum(len(line) - 1 for line in gone) <= GOING_MAX_CHARACTERS
    assert f"- … and {3_000 - len(gone)} more lines" in shown
