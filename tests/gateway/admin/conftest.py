from pathlib import Path

import pytest

from gateway.store import Store
from tests.gateway.admin.world import Admins, admins


@pytest.fixture
async def there(store: Store, tmp_path: Path) -> Admins:
    return await admins(store, tmp_path)
