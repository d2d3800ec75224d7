"""Rules that the code itself keeps, looked for in its text: no second way to the network, no comparison that tells how far."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SESSIONS: Final = {
    "gateway/app.py": "what platforms' adapters of a gateway ask, by addresses of the settings",
    "gateway/net.py": "each address from outside, checked where the socket is made",
    "gateway/cli/outside.py": "the same as the gateway's, for commands",
    "gateway/cli/demo.py": "our own gateway",
    "gateway/cli/say.py": "our own gateway",
    "workers/opening.py": "what platforms' adapters and searches of a worker ask, by addresses of the settings",
    "workers/prompt/least.py": "nobody: tools are opened for their descriptions",
    "workers/prompt/probe.py": "the same as workers, for a command",
}
"""Where a client is made, and whom it asks."""
CLIENTS: Final = {
    "workers/models/anthropic.py": {"httpx2"},
    "workers/mcp/http.py": {"httpx2"},
    "workers/searching/ddgs.py": {"ddgs"},
}
"""Who uses another one: SDKs, with addresses of the settings."""
OTHERS: Final = {"httpx", "httpx2", "requests", "urllib3", "http.client", "urllib.request", "ftplib", "ddgs", "pycurl"}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for package in ("config", "gateway", "skills", "workers"):
        for file in sorted((ROOT / package).rglob("*.py")):
            if "builtin" not in file.parts:
                yield file.relative_to(ROOT).as_posix(), ast.parse(file.read_text("utf-8"))


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)


def test_s_n12_there_is_no_second_way_to_the_network() -> None:
    """S-N12: whoever adds one says here whom it asks, or fetches with `gateway.net`."""
    made = {
        name
        for name, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "ClientSession" and isinstance(node.ctx, ast.Load)
        if any(isinstance(one, ast.Call) and one.func is node for one in ast.walk(tree))
    }
    assert made == SESSIONS.keys()
    used = {name: found for name, tree in modules() if (found := OTHERS & set(imported(tree)))}
    assert used == CLIENTS


PROOFS: Final = {"secret", "signature", "given", "digest", "proof", "token", "password", "csrf", "signed", "expected"}


def test_s_w17_nothing_secret_is_compared_sign_by_sign() -> None:
    """S-W17: how long a comparison takes tells nobody how much of a guess was right. It can't be measured here with others
    at work; that it is `hmac.compare_digest` (or the library of the signature) can be read.
    """
    doors = [
        (name, tree)
        for name, tree in modules()
        if name.startswith(("gateway/platforms/", "gateway/web/", "gateway/admin/"))
    ]
    found = [
        f"{name}:{node.lineno}"
        for name, tree in doors
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare) and any(isinstance(one, (ast.Eq, ast.NotEq)) for one in node.ops)
        if any(words(side) & PROOFS for side in [node.left, *node.comparators])
        and not any(isinstance(side, ast.Constant) for side in [node.left, *node.comparators])
    ]
    assert found == []
    uses = {
        name
        for name, tree in doors
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "compare_digest"
    }
    assert {
        f"gateway/platforms/{one}.py" for one in ("feishu", "slack", "standard_webhooks", "telegram", "wecom")
    } <= uses


def words(side: ast.expr) -> set[str]:
    """Of the name that it goes by: `self._given` has `given`."""
    name = side.attr if isinstance(side, ast.Attribute) else side.id if isinstance(side, ast.Name) else ""
    return set(name.strip("_").split("_"))
