"""Content types: what a header says of a body, read in one pass.

Not by aiohttp's `content_type` and `charset`: those read it as a header of mail, and take seconds of the loop for one of 8,000 quotation
marks, which anybody may send.
"""

from __future__ import annotations

from typing import Final

LONGEST: Final = 256
"""Characters. A longer one of a request is refused, as aiohttp reads it whenever a form with files is taken."""
_BLANKS: Final = " \t"


def media_type(header: str) -> str:
    """Without its parameters, in small letters."""
    return header.partition(";")[0].strip(_BLANKS).lower()


def charset(header: str) -> str:
    """Of its parameters the one of this name, as it stands there; empty without one."""
    for parameter in header.split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip(_BLANKS).lower() == "charset":
            return value.strip(_BLANKS).strip("\"'")
    return ""
