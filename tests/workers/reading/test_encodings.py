"""Encodings: the names of the standard, and nothing else that Python knows by name."""

from __future__ import annotations

import codecs
import encodings.aliases

import pytest

from workers.reading.encodings import CODECS, codec


def test_each_name_leads_to_a_codec_for_text() -> None:
    for label, name in CODECS.items():
        assert label == label.lower().strip()
        assert b"abc".decode(name, "replace") if name.startswith("utf-16") else b"abc".decode(name) == "abc"


def test_no_name_leads_to_what_the_standard_does_not_have() -> None:
    ours = {codecs.lookup(name).name for name in CODECS.values()}
    reached = {codecs.lookup(found).name for name in encodings.aliases.aliases if (found := codec(name))}
    assert reached <= ours
    for name in (
        "punycode",
        "idna",
        "unicode_escape",
        "raw_unicode_escape",
        "utf-7",
        "uu",
        "zlib",
        "rot13",
        "hex",
        "mbcs",
    ):
        assert codec(name) is None


@pytest.mark.parametrize("label", ["UTF-8", " utf8\t", "Windows-1252", "GBK"])
def test_case_and_blanks_do_not_matter(label: str) -> None:
    assert codec(label)


@pytest.mark.parametrize("label", ["", "utf\N{NON-BREAKING HYPHEN}8", "utf-8 utf-8", "utf-8" + " " * 1_000])
def test_what_is_almost_a_name_is_none(label: str) -> None:
    assert codec(label) is None
