"""`deskmate skills uses`, as an operator types it."""

from __future__ import annotations

import json

from config.settings import MailboxSettings
from gateway.conversation.mailbox import Mailbox
from gateway.conversation.uses import Listed, Used
from gateway.store import Store
from tests.gateway.cli.test_acts import Typed, typed, world  # noqa: F401
from tests.gateway.commands.world import OPS


async def test_in_how_many_turns_skills_were_used(store: Store, typed: Typed) -> None:  # noqa: F811
    assert await typed("skills", "uses") == "In 0 turns of the last 30 days a model was asked, everywhere.\n"
    mailbox, listed = Mailbox(store, MailboxSettings()), Listed(("triage", "web-access"))
    await mailbox.open()
    await mailbox.accept(OPS, "{}", dedupe_keys=["one"], at_ms=1)
    [claim] = (await mailbox.claim(0, "w1", 1)).grants
    await mailbox.append(claim, listed=listed)
    for used in (Used(listed.hash, ("triage",), ("triage",)), Used(listed.hash, (), ())):
        await mailbox.append(claim, used=used)
    assert (await typed("skills", "uses", "--channel", "slack-main/C-OPS", "--days", "7")).splitlines() == [
        "id          offered  loaded  run",
        "triage      2        1       1",
        "web-access  2        0       0",
        "In 2 turns of the last 7 days a model was asked, slack-main/C-OPS.",
    ]
    lines = (await typed("skills", "uses", "--json")).splitlines()
    assert json.loads(lines[0]) == {"id": "triage", "offered": 2, "loaded": 1, "ran": 1}
    assert "triage" not in await typed("skills", "uses", "--channel", "slack-main/C-DEV")
