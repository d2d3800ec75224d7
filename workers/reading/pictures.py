"""Pictures as a model takes them: whole, of a type that it knows, no larger than it looks at."""

from __future__ import annotations

import io
from typing import Final

from PIL import ExifTags, Image, UnidentifiedImageError

EDGE_MAX: Final = 1_568
"""Pixels of the longer side; what is larger a model makes smaller itself, after all of it was sent."""
BYTES_MAX: Final = 1_000_000
"""A picture that is larger is written as JPEG."""
PIXELS_MAX: Final = 50_000_000
"""What would take more memory than a worker should give for one."""
_KNOWN: Final = {"PNG", "JPEG", "GIF", "WEBP"}
_TURNS: Final = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""What makes upright what a camera has noted as lying. (`ImageOps.exif_transpose` writes its other notes anew, and fails
where one of them is not as it should be.)"""
_QUALITIES: Final = (85, 60, 30)
"""Of JPEG, the first with which a picture is not larger than it should be."""


class NoPicture(Exception):
    """`str()` says why: `it is no picture that can be read`."""


def fit(content: bytes) -> tuple[str, bytes]:
    """The picture's type and bytes, made smaller where needed. Takes time: call it in a thread. Raises `NoPicture`.

    What it is, its bytes say: a name or a type that came along may be anything.
    """
    try:
        with Image.open(io.BytesIO(content), formats=sorted(_KNOWN)) as opened:
            # MPO: several pictures of one camera, within a JPEG
            kind = "JPEG" if opened.format == "MPO" else opened.format or ""
            if opened.width * opened.height > PIXELS_MAX:
                raise NoPicture(f"it has {opened.width} x {opened.height} pixels")
            if max(opened.size) <= EDGE_MAX and len(content) <= BYTES_MAX:
                opened.load()  # a picture that breaks off is found here, and not by the model's service
                return f"image/{kind.lower()}", content
            turn = _TURNS.get(opened.getexif().get(ExifTags.Base.Orientation, 1))
            opened.thumbnail((EDGE_MAX, EDGE_MAX))  # turned afterwards: only one is in memory whole
            return _written(opened.transpose(turn) if turn is not None else opened, kind)
    except NoPicture:
        raise
    except UnidentifiedImageError:
        raise NoPicture("it is no picture that can be read (PNG, JPEG, GIF and WebP can)") from None
    except Exception as error:  # noqa: BLE001  # what readers of formats raise for broken ones has no common base
        raise NoPicture(f"the picture is broken ({type(error).__name__})") from None


def _written(picture: Image.Image, kind: str) -> tuple[str, bytes]:
    if kind == "PNG":
        out = io.BytesIO()
        picture.save(out, "PNG")
        if out.tell() <= BYTES_MAX:
            return "image/png", out.getvalue()
    whole = Image.new("RGB", picture.size, "white")
    seen = picture.convert("RGBA")
    whole.paste(seen, mask=seen.getchannel("A"))
    for quality in _QUALITIES:
        out = io.BytesIO()
        whole.save(out, "JPEG", quality=quality)
        if out.tell() <= BYTES_MAX:
            break
    return "image/jpeg", out.getvalue()
