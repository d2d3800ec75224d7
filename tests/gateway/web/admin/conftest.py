from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.store import Store
from tests.gateway.web.admin.world import Served, served


@pytest.fixture
async def site(store: Store, tmp_path: Path) -> AsyncIterator[Served]:
    async with served(store, tmp_path) as site:
        yield site
