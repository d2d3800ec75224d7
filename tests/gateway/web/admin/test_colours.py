"""The colours of the admin pages: WCAG 2.2 AA, reckoned from the tokens of the style sheet."""

from __future__ import annotations

import re
from importlib import resources
from typing import Final

import pytest

import gateway.web

SHEET: Final = (resources.files(gateway.web) / "static/admin.css").read_text(encoding="utf-8")
GROUNDS: Final = ("ground", "surface", "raised")
TEXTS: Final = [
    *((ink, ground) for ink in ("ink", "soft", "accent") for ground in GROUNDS),
    ("red", "ground"),
    ("red", "surface"),
    ("on-accent", "accent"),
    ("on-good", "good"),
    ("on-amber", "amber"),
    ("red", "on-red"),
]
SHAPES: Final = [
    *((shape, ground) for shape in ("edge", "accent") for ground in GROUNDS),
    *((fill, "line") for fill in ("accent", "on-amber", "red")),
]
"""Edges of fields and switches, the ring of what has the focus, bars on their track."""


def _tokens(sheet: str) -> dict[str, str]:
    return dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{3,6});", sheet))


LIGHT: Final = _tokens(SHEET.partition("@media")[0])
SCHEMES: Final = {"light": LIGHT, "dark": LIGHT | _tokens(SHEET.partition("@media")[2].partition("\n}\n")[0])}


def _luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * one for one in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_contrast_is_reckoned_as_the_standard_says() -> None:
    assert round(_contrast("#fff", "#000000"), 2) == 21
    assert round(_contrast("#777777", "#fff"), 2) == 4.48


@pytest.mark.parametrize("scheme", SCHEMES)
def test_text_can_be_read_and_what_is_pressed_can_be_seen(scheme: str) -> None:
    tokens = SCHEMES[scheme]
    assert tokens.keys() == LIGHT.keys()
    low = {(*pair, round(found, 2)) for pair in TEXTS if (found := _contrast(*(tokens[one] for one in pair))) < 4.5}
    low |= {(*pair, round(found, 2)) for pair in SHAPES if (found := _contrast(*(tokens[one] for one in pair))) < 3}
    assert low == set()


def test_no_colour_stands_beside_the_tokens() -> None:
    rules = re.sub(r"--[a-z-]+: [^;]+;", "", SHEET)
    assert not re.findall(r"#[0-9a-f]{3,8}\b|rgba?\(|hsla?\(", rules)
