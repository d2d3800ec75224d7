"""Pictures of the admin pages for the documentation: `python -m tests.gateway.web.admin.pictures docs/screenshots`."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from config.settings import Settings
from gateway.admin.visits import Caller
from gateway.running.embedded import embedded
from gateway.store import Layout, open_store
from tests.gateway.admin.world import ADMIN, APPROVER, OPERATOR, ROOM
from tests.gateway.web.admin.busy import THREAD, make_busy
from tests.gateway.web.admin.signing_in import HTMX, signed_in
from tests.gateway.web.admin.world import Served, served
from tests.harness.browser import Browser, connected, find_program, running


@dataclass(frozen=True, slots=True)
class Picture:
    name: str
    path: str
    who: Caller = OPERATOR
    size: tuple[int, int] = (1440, 900)
    scheme: Literal["light", "dark"] = "light"
    language: str = "en"


CONVERSATION: Final = f"/admin/conversation?channel={ROOM}&conversation={THREAD.id}"
PICTURES: Final = (
    Picture("approvals", "/admin/approvals", APPROVER),
    Picture("conversation", CONVERSATION, ADMIN, size=(1440, 1000), scheme="dark"),
    Picture("spending", "/admin/spending?by=person", size=(1280, 664)),
    Picture("skills", f"/admin/skills?channel={ROOM}", ADMIN, size=(1440, 1000)),
    Picture("dead", "/admin/dead", size=(1440, 600), scheme="dark"),
    Picture("people-phone", f"/admin/people?channel={ROOM}", ADMIN, size=(390, 844)),
    Picture("approvals-phone-zh", "/admin/approvals", APPROVER, size=(390, 844), scheme="dark", language="zh-CN"),
)


async def take(site: Served, browser: Browser, one: Picture) -> bytes:
    page = await signed_in(site, await browser.visitor(), one.who)
    await page.resize(*one.size)
    await page.prefer(scheme=one.scheme)
    await page.speak(one.language)
    await page.go(site.url + one.path)
    await page.until(HTMX)
    return await page.screenshot()


async def main(folder: Path) -> None:
    program = find_program()
    assert program, "chromium is not installed"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="deskmate-") as name:
        data = Path(name)
        (data / "org").mkdir()
        async with embedded(Settings(data=data / "redis")) as url:
            store = open_store(url, Layout(prefix="pictures", partitions=1), timeout_s=5.0)
            with running(program, data / "chromium") as devtools:
                async with served(store, data / "org") as site, connected(devtools) as browser:
                    await make_busy(site.there)
                    for one in PICTURES:
                        (folder / f"{one.name}.png").write_bytes(await take(site, browser, one))
            await store.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
