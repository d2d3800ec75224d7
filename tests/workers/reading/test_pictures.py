"""Pictures as a model takes them: what comes in may be anything, what goes out is small and what it says it is."""

from __future__ import annotations

import io
import os
import struct
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from gateway.files import FILE_MAX_BYTES
from workers.reading.pictures import BYTES_MAX, EDGE_MAX, PIXELS_MAX, NoPicture, fit

BLUE = (0, 0, 255)


def picture(kind: str, size: tuple[int, int] = (30, 20), mode: str = "RGB", **more: Any) -> bytes:
    out = io.BytesIO()
    Image.new(mode, size, BLUE if mode == "RGB" else 0).save(out, kind, **more)
    return out.getvalue()


def opened(content: bytes) -> Image.Image:
    found = Image.open(io.BytesIO(content))
    found.load()
    return found


def png_that_says(width: int, height: int) -> bytes:
    """A few bytes with the head of a picture of any size."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return len(body).to_bytes(4, "big") + name + body + zlib.crc32(name + body).to_bytes(4, "big")

    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + b"\x08\x02\x00\x00\x00"
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_a_small_picture_stays_as_it_is(kind: str) -> None:
    content = picture(kind)
    assert fit(content) == (f"image/{kind.lower()}", content)


def test_an_animation_stays_one() -> None:
    frames = [Image.new("RGB", (30, 20), colour) for colour in ("red", "green", "blue")]
    for kind in ("GIF", "WEBP"):
        out = io.BytesIO()
        frames[0].save(out, kind, save_all=True, append_images=frames[1:])
        assert fit(out.getvalue()) == (f"image/{kind.lower()}", out.getvalue())


def test_a_cameras_double_picture_is_a_jpeg() -> None:
    """No service knows `image/mpo`, and a history that holds it would be refused for ever."""
    out = io.BytesIO()
    Image.new("RGB", (30, 20)).save(out, "MPO", save_all=True, append_images=[Image.new("RGB", (30, 20), "red")])
    assert fit(out.getvalue())[0] == "image/jpeg"


@pytest.mark.parametrize(
    ("kind", "mode", "becomes"),
    [
        ("PNG", "RGB", "PNG"),
        ("PNG", "RGBA", "PNG"),
        ("PNG", "P", "PNG"),
        ("PNG", "1", "PNG"),
        ("PNG", "LA", "PNG"),
        ("PNG", "I;16", "PNG"),
        ("JPEG", "RGB", "JPEG"),
        ("JPEG", "CMYK", "JPEG"),
        ("JPEG", "L", "JPEG"),
        ("GIF", "P", "JPEG"),
        ("WEBP", "RGBA", "JPEG"),
    ],
)
def test_a_huge_one_is_made_as_small_as_models_look_at(kind: str, mode: str, becomes: str) -> None:
    mime, content = fit(picture(kind, (4_000, 1_000), mode))
    small = opened(content)
    assert (mime, small.format, small.size) == (f"image/{becomes.lower()}", becomes, (EDGE_MAX, 392))


def test_a_strip_of_one_pixel_keeps_it() -> None:
    assert opened(fit(picture("PNG", (20_000, 1)))[1]).size == (EDGE_MAX, 1)


def test_what_was_turned_by_the_camera_is_turned_when_it_is_made_small() -> None:
    lies = Image.Exif()
    lies[0x0112] = 6
    assert opened(fit(picture("JPEG", (4_000, 2_000), exif=lies))[1]).size == (784, EDGE_MAX)


def test_what_is_seen_through_becomes_white_where_a_jpeg_is_made() -> None:
    _, content = fit(picture("WEBP", (4_000, 1_000), "RGBA"))
    assert opened(content).getpixel((10, 10)) == (255, 255, 255)


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_what_can_hardly_be_packed_is_small_as_well(kind: str) -> None:
    """Noise in black and white of each colour: nothing takes more room."""
    noise = os.urandom(EDGE_MAX * EDGE_MAX * 3).translate(bytes(255 * (one & 1) for one in range(256)))
    fast: dict[str, Any] = {"compress_level": 1} if kind == "PNG" else {"quality": 100}
    out = io.BytesIO()
    Image.frombytes("RGB", (EDGE_MAX, EDGE_MAX), noise).save(out, kind, **fast)
    mime, content = fit(out.getvalue())
    assert mime == "image/jpeg"
    assert len(content) < 1.2 * BYTES_MAX < FILE_MAX_BYTES


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<!DOCTYPE html><html><title>Sign in</title></html>",
        b"%PDF-1.7",
        b'<svg xmlns="http://www.w3.org/2000/svg"/>',
        b"\x89PNG\r\n\x1a\n",
        picture("BMP"),
        picture("TIFF"),
        picture("ICO"),
    ],
)
def test_what_is_no_picture_that_models_know_is_refused(content: bytes) -> None:
    with pytest.raises(NoPicture, match="no picture that can be read"):
        fit(content)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
@pytest.mark.parametrize("size", [(300, 200), (2_000, 1_500)])
def test_a_picture_that_breaks_off_is_refused(kind: str, size: tuple[int, int]) -> None:
    content = picture(kind, size)
    with pytest.raises(NoPicture):
        fit(content[: len(content) * 2 // 3])


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize(
    ("size", "told"),
    [
        ((PIXELS_MAX // 1_000 + 1, 1_000), "pixels"),
        ((10_000, 10_000), "pixels"),
        ((60_000, 60_000), "broken"),
        ((2**31 - 1, 2**31 - 1), "broken"),
    ],
)
def test_a_few_bytes_that_would_be_a_giant_are_refused_before_they_grow(size: tuple[int, int], told: str) -> None:
    with pytest.raises(NoPicture, match=told):
        fit(png_that_says(*size))


def test_text_within_a_picture_that_would_fill_the_memory_is_refused() -> None:
    def chunk(name: bytes, body: bytes) -> bytes:
        return len(body).to_bytes(4, "big") + name + body + zlib.crc32(name + body).to_bytes(4, "big")

    content = picture("PNG")
    bomb = chunk(b"zTXt", b"Comment\x00\x00" + zlib.compress(bytes(50_000_000)))
    with pytest.raises(NoPicture):
        fit(content[:33] + bomb + content[33:])


ORIGINALS = [picture(kind, (40, 30)) for kind in ("PNG", "JPEG", "GIF", "WEBP")]
_turned = Image.Exif()
_turned[0x0112], _turned[0x010E] = 6, "x" * 40
ORIGINALS.append(picture("JPEG", (40, 30), exif=_turned))


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(ORIGINALS), st.data())
def test_whatever_bytes_are_wrong_it_is_a_picture_or_none(original: bytes, data: st.DataObject) -> None:
    broken = bytearray(original)
    for at, value in data.draw(
        st.dictionaries(st.integers(0, len(broken) - 1), st.integers(0, 255), max_size=8)
    ).items():
        broken[at] = value
    try:
        mime, content = fit(bytes(broken[: data.draw(st.integers(1, len(broken)))]))
    except NoPicture:
        return
    assert mime in {"image/png", "image/jpeg", "image/gif", "image/webp"}
    assert content


ODD_NOTES = [(0x010E, 5, 1), (0x010E, 11, 2), (0x0128, 2, 4), (0x9003, 4, 1), (0x8769, 2, 9)]


@pytest.mark.parametrize(("tag", "of_type", "count"), ODD_NOTES)
def test_a_turned_photo_whose_other_notes_are_odd_is_read_all_the_same(tag: int, of_type: int, count: int) -> None:
    entries = struct.pack("<HHII", 0x0112, 3, 1, 6) + struct.pack("<HHII", tag, of_type, count, 9)
    notes = b"Exif\x00\x00II*\x00" + struct.pack("<IH", 8, 2) + entries + bytes(68)
    assert opened(fit(picture("JPEG", (4_000, 2_000), exif=notes))[1]).size == (784, EDGE_MAX)


TURNS = [(1, (0, 0)), (2, (1, 0)), (3, (1, 1)), (4, (0, 1)), (5, (0, 0)), (6, (1, 0)), (7, (1, 1)), (8, (0, 1))]


@pytest.mark.parametrize(("noted", "corner"), TURNS)
def test_each_way_to_lie_is_made_upright(noted: int, corner: tuple[int, int]) -> None:
    """A red quarter, up and left in the file, comes to where the note says."""
    lies = Image.Exif()
    lies[0x0112] = noted
    drawn = Image.new("RGB", (2_000, 1_000), BLUE)
    drawn.paste("red", (0, 0, 1_000, 500))
    out = io.BytesIO()
    drawn.save(out, "PNG", exif=lies)
    upright = opened(fit(out.getvalue())[1]).convert("RGB")
    at = tuple(10 + one * (side - 20) for one, side in zip(corner, upright.size, strict=True))
    assert upright.getpixel((at[0], at[1])) == (255, 0, 0)
    assert (upright.width > upright.height) == (noted < 5)
