"""PDF files, as small as they can be and odd as a test wants them."""

from __future__ import annotations

import io
import zlib

from pypdf import PdfReader, PdfWriter


def pdf(*pages: str | bytes, title: str = "") -> bytes:
    """A file with a page for each text; bytes are a page's content as it stands, packed with zlib."""
    count = len(pages)
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(count))
    parts = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, page in enumerate(pages):
        content = page if isinstance(page, bytes) else _shows(page)
        packed = zlib.compress(content)
        head = f"/Type /Page /Parent 2 0 R /Contents {5 + 2 * number} 0 R /MediaBox [0 0 600 800]"
        parts.append(f"<< {head} /Resources << /Font << /F 3 0 R >> >> >>".encode())
        parts.append(b"<< /Filter /FlateDecode /Length %d >>\nstream\n%b\nendstream" % (len(packed), packed))
    parts.append(f"<< /Title ({title}) >>".encode())
    raw, places = bytearray(b"%PDF-1.7\n"), []
    for number, part in enumerate(parts, 1):
        places.append(len(raw))
        raw += b"%d 0 obj\n%b\nendobj\n" % (number, part)
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(parts) + 1
    trailer = f"trailer << /Size {size} /Root 1 0 R /Info {size - 1} 0 R >>\nstartxref\n{len(raw)}\n%%EOF\n"
    return bytes(raw) + f"xref\n0 {size}\n0000000000 65535 f \n{table}{trailer}".encode()


def locked(raw: bytes, password: str) -> bytes:
    """The same, encrypted. With an empty password anybody may read it."""
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(raw)))
    writer.encrypt(password, "owner", algorithm="AES-256")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def _shows(text: str) -> bytes:
    lines = "".join(f"({line}) Tj 0 -14 Td\n" for line in text.split("\n"))
    return f"BT /F 12 Tf 50 750 Td\n{lines}ET".encode()
