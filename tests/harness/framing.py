"""Whole messages in a stream of bytes: Redis's commands and answers, HTTP's requests and answers.

Each reader is fed what came and gives what is whole, as it stood on the wire, so that it can be passed on byte by byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(slots=True)
class Resp:
    """Redis's protocol (2 and 3), either direction: one frame is one command, or one answer."""

    _held: bytearray = field(default_factory=bytearray)

    def feed(self, piece: bytes) -> Iterator[bytes]:
        self._held += piece
        at = 0
        while (end := _end_of(self._held, at)) is not None:
            yield bytes(self._held[at:end])
            at = end
        del self._held[:at]


def words_of(command: bytes) -> list[bytes]:
    """The words of a command, which is a list of strings. What is none (a line by hand) is cut at its spaces."""
    if not command.startswith(b"*"):
        return command.split()
    words: list[bytes] = []
    at = command.index(b"\r\n") + 2
    while at < len(command):
        line_end = command.index(b"\r\n", at)
        length = int(command[at + 1 : line_end])
        words.append(command[line_end + 2 : line_end + 2 + length])
        at = line_end + length + 4
    return words


def _end_of(held: bytearray, at: int) -> int | None:
    """Where the frame that begins at `at` ends; none if it is not whole."""
    left = 1  # frames that are still to come, nested ones counted
    while left:
        line_end = held.find(b"\r\n", at)
        if line_end < 0:
            return None
        kind, line = held[at : at + 1], held[at + 1 : line_end]
        at = line_end + 2
        left -= 1
        if kind in b"$=!" and line != b"-1":
            at += int(line) + 2
            if at > len(held):
                return None
        elif kind in b"*~>" and line != b"-1":
            left += int(line)
        elif kind == b"%":
            left += 2 * int(line)
        elif kind == b"|":
            left += 2 * int(line) + 1
    return at


@dataclass(slots=True)
class HttpPiece:
    """Of an HTTP/1.1 message: its head, a piece of its body, or both; `is_end` with the last one."""

    raw: bytes
    head: bytes = b""
    """The first piece's, blank line included."""
    is_end: bool = False


@dataclass(slots=True)
class Http:
    """HTTP/1.1, either direction. An answer without a length ends with its connection: `end` gives what is left.

    Nobody here asks HEAD, whose answers have a length and no body.
    """

    _held: bytearray = field(default_factory=bytearray)
    _left: int | None = None
    """Bytes of the body that are still to come; None between two messages."""
    _chunked: bool = False
    _endless: bool = False

    def feed(self, piece: bytes) -> Iterator[HttpPiece]:
        self._held += piece
        while self._held:
            if self._left is None:
                begun = self._begin()
                if begun is None:
                    return
                yield begun
                continue
            got = self._body()
            if got is None:
                return
            yield got

    def end(self) -> HttpPiece:
        """The connection has ended: whatever was under way is over."""
        left, self._held, self._left, self._endless = bytes(self._held), bytearray(), None, False
        return HttpPiece(left, is_end=True)

    def _begin(self) -> HttpPiece | None:
        at = self._held.find(b"\r\n\r\n")
        if at < 0:
            return None
        head = bytes(self._held[: at + 4])
        del self._held[: at + 4]
        first = head.split(b"\r\n", 1)[0]
        fields = fields_of(head)
        self._chunked = fields.get("transfer-encoding", "").lower() == "chunked"
        is_answer = first.startswith(b"HTTP/")
        status = int(first.split(b" ")[1]) if is_answer else 0
        if is_answer and 100 <= status < 200:
            return HttpPiece(head)  # another head follows
        bodyless = status in {204, 304} or not is_answer
        self._endless = is_answer and not bodyless and not self._chunked and "content-length" not in fields
        length = 0 if status in {204, 304} else int(fields.get("content-length", 0))
        if self._chunked or self._endless or length:
            self._left = length
            return HttpPiece(head, head)
        return HttpPiece(head, head, is_end=True)

    def _body(self) -> HttpPiece | None:
        if self._endless:
            raw = bytes(self._held)
            self._held.clear()
            return HttpPiece(raw)
        if self._chunked:
            return self._chunk()
        assert self._left is not None
        raw = bytes(self._held[: self._left])
        del self._held[: self._left]
        self._left -= len(raw)
        if self._left == 0:
            self._left = None
            return HttpPiece(raw, is_end=True)
        return HttpPiece(raw)

    def _chunk(self) -> HttpPiece | None:
        line_end = self._held.find(b"\r\n")
        if line_end < 0:
            return None
        size = int(bytes(self._held[:line_end]).split(b";")[0], 16)
        if size == 0:
            end = self._held.find(b"\r\n\r\n", line_end)
            if end < 0:
                return None
            end += 4
        else:
            end = line_end + 2 + size + 2
            if end > len(self._held):
                return None
        raw = bytes(self._held[:end])
        del self._held[:end]
        if size == 0:
            self._left = None
        return HttpPiece(raw, is_end=size == 0)


def fields_of(head: bytes) -> dict[str, str]:
    """The fields of a head, names in lower case; of several with one name the last."""
    lines = head.decode("latin-1").split("\r\n")[1:]
    return {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}


def first_line(head: bytes) -> str:
    """Such as `POST /v1/messages` or `HTTP/1.1 200`."""
    return " ".join(head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")[:2])
