"""Numbers on the command lines of runs: one that makes no sense is refused before anything begins."""

from __future__ import annotations

import argparse
import math


def count(text: str) -> int:
    """How many of something that there has to be. Raises `ArgumentTypeError`."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 1 on")
    return number


def count_or_none(text: str) -> int:
    """How many, and 0 is well. Raises `ArgumentTypeError`."""
    return 0 if text == "0" else count(text)


def amount(text: str) -> float:
    """More than nothing. Raises `ArgumentTypeError`."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return number


def amount_or_none(text: str) -> float:
    """Nothing, or more. Raises `ArgumentTypeError`."""
    return 0.0 if text == "0" else amount(text)
