from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gateway.store import Store
from tests.gateway.web.world import World, served
from tests.harness.browser import Browser, Visitor, connected, find_program, running


@pytest.fixture
async def world(store: Store, redis_url: str, tmp_path: Path) -> AsyncIterator[World]:
    async with served(store, redis_url, tmp_path) as world:
        yield world


@pytest.fixture(scope="session")
def devtools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    program = find_program()
    assert program, "tests that use this are marked `browser`"
    with running(program, tmp_path_factory.mktemp("chromium")) as address:
        yield address


@pytest.fixture
async def browser(devtools: str) -> AsyncIterator[Browser]:
    async with connected(devtools) as browser:
        yield browser
        assert [error for page in browser.pages.values() for error in page.errors] == []


@pytest.fixture
async def visitor(browser: Browser) -> Visitor:
    return await browser.visitor()
