"""Bounds: what is counted, and what becomes of a message that has too much of it."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCResponse

from workers.mcp.bounds import ASIDE_MAX, BLOCKS_MAX, COMMAS_MAX, PARTS_MAX, Commas, Gate, TooMany, check


@pytest.mark.parametrize(
    "result",
    [
        {"content": [0] * BLOCKS_MAX},
        {"structuredContent": {"a": [0] * 2 * PARTS_MAX}, "_meta": {"b": [0] * 2 * PARTS_MAX}},
        {"tools": [{"inputSchema": {"enum": [0] * 10}}] * BLOCKS_MAX},
        [],
        None,
    ],
)
def test_what_is_usual_passes(result: Any) -> None:
    check(result)


@pytest.mark.parametrize(
    "result",
    [
        {"content": [0] * (BLOCKS_MAX + 1)},
        {"tools": [{}] * (BLOCKS_MAX + 1)},
        {"content": [{"annotations": {"audience": [0] * PARTS_MAX}}]},
        {"capabilities": {"experimental": {str(n): 0 for n in range(PARTS_MAX)}}},
    ],
)
def test_too_many_parts_are_refused_wherever_they_stand(result: Any) -> None:
    with pytest.raises(TooMany):
        check(result)


def test_commas_are_counted_over_all_that_comes() -> None:
    commas = Commas()
    for _ in range(4):
        commas.take(b"," * (COMMAS_MAX // 4))
    with pytest.raises(TooMany):
        commas.take(b",")


async def test_an_answer_becomes_an_error_and_what_nobody_asked_for_is_dropped() -> None:
    said, heard = anyio.create_memory_object_stream[SessionMessage | Exception](9)
    many = {"data": [0] * (ASIDE_MAX + 1)}
    broken = ValueError()
    async with said, Gate(heard) as gate:
        for one in (
            JSONRPCNotification(jsonrpc="2.0", method="notifications/message", params=many),
            JSONRPCResponse(jsonrpc="2.0", id=1, result={"content": [0] * (BLOCKS_MAX + 1)}),
            JSONRPCResponse(jsonrpc="2.0", id=2, result=many),
        ):
            await said.send(SessionMessage(one))
        await said.send(broken)
        first, second = await gate.receive(), await anext(aiter(gate))
        assert isinstance(first, SessionMessage)
        assert isinstance(first.message, JSONRPCError)
        assert (first.message.id, "1,000 blocks" in first.message.error.message) == (1, True)
        assert isinstance(second, SessionMessage)
        assert isinstance(second.message, JSONRPCResponse)
        assert await gate.receive() is broken
