"""Reads the text of a PDF: bytes on standard input, a line of JSON for each page on standard output.

Started as a script by `workers.reading.pdfs`, in a process of its own, since a hostile file can take any time and any memory. The first line
is `{"pages": 12, "title": "..."}` or `{"refused": "locked"}` or `"broken"`, each further one `{"text": "..."}`, or
`{"text": null}` for a page that can't be read.
"""

import contextlib
import io
import json
import resource
import sys
from typing import Any

CPU_S = 30
MEMORY_MAX_BYTES = 1_024 * 1_024 * 1_024
PAGE_MAX_CHARACTERS = 500_000
TITLE_MAX = 200


def main() -> None:
    for kind, most in (
        (resource.RLIMIT_CPU, CPU_S),
        (resource.RLIMIT_AS, MEMORY_MAX_BYTES),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        with contextlib.suppress(ValueError, OSError):  # some systems refuse some of them
            resource.setrlimit(kind, (most, most))
    raw = sys.stdin.buffer.read()

    from pypdf import PdfReader  # noqa: PLC0415  # within the limits

    try:
        reader = PdfReader(io.BytesIO(raw))
        if reader.is_encrypted and not reader.decrypt(""):  # many are locked against changes only
            tell(refused="locked")
            return
        title = ""
        with contextlib.suppress(Exception):  # it is no reason to read nothing
            title = str((reader.metadata and reader.metadata.title) or "")[:TITLE_MAX]
        tell(pages=len(reader.pages), title=title)
    except Exception:  # noqa: BLE001  # whatever it stumbles over, there is nothing to read
        tell(refused="broken")
        return
    for number in range(len(reader.pages)):
        try:
            text: str | None = reader.pages[number].extract_text()[:PAGE_MAX_CHARACTERS]
        except Exception:  # noqa: BLE001  # the others may be well
            text = None
        tell(text=text)


def tell(**line: Any) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
