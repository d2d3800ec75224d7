"""What all tests share: a Redis of this run, a corner of it for each test, and what must be installed."""

from __future__ import annotations

import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from typing import Final

import pytest
from redis import Redis

from gateway.running.children import leashed
from gateway.running.embedded import find_program, server_command, socket_path, socket_url
from gateway.store import Layout, Store, open_store

NEEDS = {
    "browser": (("chromium", "chromium-browser", "google-chrome"), "apt-get install chromium"),
    "sandbox": (("bwrap",), "apt-get install bubblewrap"),
    "devtools": (("chrome-devtools-mcp",), "npm install -g chrome-devtools-mcp@1.11.0, with Node.js 20.19 or newer"),
}
"""Marks of tests that need a program from outside: its names, and how to get it."""
LONG: Final = tuple(
    f"tests/{place}"
    for place in (
        "sweep/",
        "chaos/",
        "end_to_end/",
        "forged/",
        "fuzz/",
        "gateway/cli/",
        "gateway/conversation/",
        "gateway/web/",
        "machines/",
        "sabotage/",
    )
)
"""Few tests that take long: they are begun first, so that none is left for one process alone when the others are done."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--require",
        default="",
        metavar="MARK,...",
        help=f"fail instead of skipping where what these marks need is missing: {', '.join(NEEDS)}",
    )
    parser.addoption(
        "--examples",
        default="0",
        metavar="N",
        help="so many, and random ones, for each machine in tests/machines; 0: few, fixed",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))


def pytest_runtest_setup(item: pytest.Item) -> None:
    required = item.config.getoption("--require").split(",")
    for mark, (programs, remedy) in NEEDS.items():
        if item.get_closest_marker(mark) and not any(map(shutil.which, programs)):
            why = f"{programs[0]} is not installed ({remedy})"
            if mark in required:
                pytest.fail(f"{why}, and --require names {mark}", pytrace=False)
            pytest.skip(why)


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the developer's own deskmate uses must not reach a test."""
    for name in ("REDIS_URL", "ANTHROPIC_API_KEY", "DESKMATE_CONFIG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def redis_url(redis_server: str) -> Iterator[str]:
    """The address of a real server, where every test uses a key prefix of its own (`layout`). What a file of tests leaves
    there goes with it: tests scan for keys, and each scan walks over all that there are.
    """
    yield redis_server
    with Redis.from_url(redis_server) as redis:
        redis.flushall()


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The server of this run."""
    data = tmp_path_factory.mktemp("redis")
    place = socket_path(data)
    place.parent.mkdir(mode=0o700, exist_ok=True)
    server = subprocess.Popen(leashed(server_command(find_program(), data, place, fsync=False)), start_new_session=True)
    try:
        deadline = time.monotonic() + 10
        while not _listens(str(place)):
            assert server.poll() is None, (data / "redis.log").read_text()
            assert time.monotonic() < deadline, "the server did not come up"
            time.sleep(0.01)
        yield socket_url(place)
    finally:
        server.terminate()
        server.wait(10)


@pytest.fixture
def layout() -> Layout:
    """Names of keys that no other test uses."""
    return Layout(prefix=f"t{secrets.token_hex(6)}", partitions=1)


@pytest.fixture
async def store(redis_url: str, layout: Layout) -> AsyncIterator[Store]:
    """A store in a corner of its own."""
    opened = open_store(redis_url, layout, timeout_s=5.0)
    yield opened
    await opened.close()


@pytest.fixture
def unused_port() -> int:
    """A TCP port of 127.0.0.1 where nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _listens(place: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(place) == 0
