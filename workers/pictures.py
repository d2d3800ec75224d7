"""Pictures as a model takes them: whole, of a type that it knows, no larger than it looks at."""

from __future__ import annotations

import io
from typing import Final

from PIL import Image, ImageOps, UnidentifiedImageError

EDGE_MAX: Final = 1_568
"""Pixels of the longer side; what is larger a model makes smaller itself, after all of it was sent."""
BYTES_MAX: Final = 1_000_000
"""A picture that is larger is written as JPEG."""
PIXELS_MAX: Final = 100_000_000
"""What would take more memory than a worker should give for one."""
_KNOWN: Final = {"PNG", "JPEG", "GIF", "WEBP"}


class NoPicture(Exception):
    """`str()` says why: `it is no picture that can be read`."""


def fit(content: bytes) -> tuple[str, bytes]:
    """The picture's type and bytes, made smaller where needed. Takes time: call it in a thread. Raises `NoPicture`.

    What it is, its bytes say: a name or a type that came along may be anything.
    """
    try:
        with Image.open(io.BytesIO(content), formats=sorted(_KNOWN)) as opened:
            kind = opened.format or ""
            if opened.width * opened.height > PIXELS_MAX:
                raise NoPicture(f"it has {opened.width} x {opened.height} pixels")
            opened.load()  # a picture that breaks off is found here, and not by the model's service
            if max(opened.size) <= EDGE_MAX and len(content) <= BYTES_MAX:
                return f"image/{kind.lower()}", content
            turned = ImageOps.exif_transpose(opened)
            turned.thumbnail((EDGE_MAX, EDGE_MAX))
            return _written(turned, kind)
    except UnidentifiedImageError:
        raise NoPicture("it is no picture that can be read (PNG, JPEG, GIF and WebP can)") from None
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError) as error:
        raise NoPicture(f"the picture is broken ({type(error).__name__})") from None


def _written(picture: Image.Image, kind: str) -> tuple[str, bytes]:
    if kind == "PNG":
        out = io.BytesIO()
        picture.save(out, "PNG", optimize=True)
        if out.tell() <= BYTES_MAX:
            return "image/png", out.getvalue()
    whole = Image.new("RGB", picture.size, "white")
    seen = picture.convert("RGBA")
    whole.paste(seen, mask=seen.getchannel("A"))
    out = io.BytesIO()
    whole.save(out, "JPEG", quality=85)
    return "image/jpeg", out.getvalue()
