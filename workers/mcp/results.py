"""What a server answered, as text for a model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from skills import depth


def text_of(result: CallToolResult) -> str:
    """All blocks, one below the other; what is no text is described. Structured content that no block repeats, as JSON."""
    parts = [part for block in result.content for part in _told(block) if part]
    structured = result.structured_content
    if structured is not None and not any(_says(part, structured) for part in parts):
        parts.append(json.dumps(structured, ensure_ascii=False))
    return "\n\n".join(parts)


def _told(block: Any) -> Iterator[str]:
    match block:
        case TextContent(text=text):
            yield text
        case ImageContent(data=data, mime_type=mime) | AudioContent(data=data, mime_type=mime):
            yield f"[{mime}, {_size(data)} bytes; not shown]"
        case EmbeddedResource(resource=TextResourceContents(uri=uri, text=text)):
            yield f"[{uri}]\n{text}"
        case EmbeddedResource(resource=BlobResourceContents(uri=uri, mime_type=mime, blob=blob)):
            yield f"[{uri}: {mime or 'unknown type'}, {_size(blob)} bytes; not shown]"
        case ResourceLink(uri=uri, name=name):
            yield f"[{name}: {uri}]"
        case _:
            yield f"[{getattr(block, 'type', 'something')}; not shown]"


def _size(base64: str) -> int:
    return len(base64.rstrip("=")) * 3 // 4


def _says(text: str, structured: Any) -> bool:
    """Whether a text is this very content: servers are told to give both, for those who know only text."""
    try:
        return bool(depth.read(text) == structured)
    except ValueError:
        return False
