"""Content types: what a header says, by hand."""

from __future__ import annotations

import pytest

from gateway.content_types import charset, media_type


@pytest.mark.parametrize(
    ("header", "kind", "encoding"),
    [
        ("text/html", "text/html", ""),
        (" Text/HTML ; Charset = UTF-8 ", "text/html", "UTF-8"),
        ('text/html;charset="gbk"; x=y', "text/html", "gbk"),
        ("text/html; charset='l1'", "text/html", "l1"),
        ("text/html; x=charset=y; charset", "text/html", ""),
        ("", "", ""),
        (";;;", "", ""),
    ],
)
def test_type_and_encoding(header: str, kind: str, encoding: str) -> None:
    assert (media_type(header), charset(header)) == (kind, encoding)
