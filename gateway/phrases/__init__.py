"""What the product itself says to people, in English and Chinese: `en.yaml` and `zh.yaml`, one line a phrase.

The command line, logs and exceptions speak to operators, in English, and are not in here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final

from config.settings import Language
from config.source import read

LANGUAGES: Final[tuple[Language, ...]] = ("en", "zh")


def say(key: str, language: str | None = None, /, **values: object) -> str:
    """The phrase in that language, English when it is another one; `values` fill its `{placeholders}`.

    Raises `KeyError` for an unknown key or a value that is missing: both are mistakes in our code.
    """
    return phrases(language_of(None, language))[key].format_map(values)


def language_of(profile_language: str | None, platform_locale: str | None = None) -> Language:
    """The language to speak: the profile's, else the one that the platform says of the person, such as `zh-CN`."""
    if profile_language in {"en", "zh"}:
        return "zh" if profile_language == "zh" else "en"
    return "zh" if (platform_locale or "").lower().replace("_", "-").split("-")[0] == "zh" else "en"


@cache
def phrases(language: Language) -> Mapping[str, str]:
    """All phrases of a language by key, unfilled: what a page takes along."""
    return read(Path(str(resources.files(__name__) / f"{language}.yaml"))).tree
