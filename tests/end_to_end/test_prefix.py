"""Requests as received: each begins with the bytes of the one before, and where one does not, that was counted."""

from __future__ import annotations

import asyncio
import json
import secrets
from typing import Any

import pytest

from config.profiles import Delivery
from gateway.audit.log import Change
from gateway.conversation.key import ConversationKey
from gateway.shelf.decisions import scope_of
from gateway.shelf.shelf import Shelf
from gateway.store import Layout, open_store
from skills.bundles import Cache
from tests.end_to_end.conftest import Stage
from tests.end_to_end.requests import breaks
from tests.harness.fake_model import Asked
from tests.harness.model_replies import Reply, calls, says

BODY = f"canary-{secrets.token_hex(6)}"


async def counted(stage: Stage) -> dict[str, int]:
    code, printed = await stage.deskmate.run("status", "--json")
    assert code == 0, printed
    counts: dict[str, int] = json.loads(printed.splitlines()[-1])["counts"]
    return counts


def where(asked: Asked) -> tuple[str, str, str]:
    """Where the first skill's text stands: the kind of the block before, its own, and who speaks after."""
    for message in asked.request["messages"]:
        blocks = [{"type": ""}, *message["content"], {"text": ""}]
        for at, block in enumerate(blocks):
            if f"{BODY} of one." in json.dumps(block):
                return blocks[at - 1]["type"], block["type"], blocks[at + 1].get("text", "").split()[0]
    raise AssertionError("it is not there")


def script(*replies: Reply) -> Any:
    given = iter(replies)
    return lambda _: next(given)


@pytest.mark.parametrize("delivery", ["message", "tool_result", "next_turn"])
async def test_loads_and_a_steer_only_append_and_each_break_is_counted_once(stage: Stage, delivery: Delivery) -> None:
    skills = stage.deskmate.folder / "skills"
    for name in ("one", "two"):
        (skills / name).mkdir(parents=True)
        text = f"---\nname: {name}\ndescription: For tests of {name}.\n---\n{BODY} of {name}.\n"
        (skills / name / "SKILL.md").write_text(text)
    hold = asyncio.Event()
    stage.model.answer_with(
        script(
            calls("load_skill", {"name": "one"}, hold=hold),
            calls("load_skill", {"name": "two"}),
            calls("current_time"),
            says("first"),
            calls("load_skill", {"name": "one"}),
            says("second"),
            calls("unload_skill", {"name": "two"}),
            says("third"),
            says("fourth"),
        )
    )
    profile = {"delivery": delivery, "queue": {"mode": "steer"}, "skills": ["one", "two"]}
    await stage.start(settings={"skills": {"folder": str(skills)}}, profile=profile)
    first = await stage.slack.say(stage.hook, "begin")
    await stage.model.until(lambda: len(stage.model.asked) == 1)
    await stage.slack.say(stage.hook, "and this too", thread_ts=first.ts)
    hold.set()
    await stage.slack.until(lambda: "first" in stage.posts())
    await stage.slack.say(stage.hook, "again", thread_ts=first.ts)
    await stage.slack.until(lambda: "second" in stage.posts())
    assert len(stage.model.asked) == 6
    assert breaks(stage.model.asked) == 0
    assert await counted(stage) == {}
    assert (
        where(stage.model.asked[-1])
        == {
            "message": ("tool_result", "text", "[U0USER1]"),
            "tool_result": ("", "tool_result", "[U0USER1]"),
            "next_turn": ("", "text", "[U0USER1]"),
        }[delivery]
    )
    whole = stage.model.asked[-1].body.decode()
    assert [whole.count(f"{BODY} of {name}.") for name in ("one", "two")] == [1, 1]

    await stage.slack.say(stage.hook, "put it away", thread_ts=first.ts)
    await stage.slack.until(lambda: "third" in stage.posts())
    assert f"{BODY} of two." not in stage.model.asked[-1].body.decode()
    assert await counted(stage) == {"break": 1, "break:unloaded": 1}
    await stage.slack.say(stage.hook, "/new", thread_ts=first.ts)
    await stage.slack.say(stage.hook, "from the start", thread_ts=first.ts)
    await stage.slack.until(lambda: "fourth" in stage.posts())
    assert BODY not in stage.model.asked[-1].body.decode()
    assert await counted(stage) == {"break": 2, "break:unloaded": 1, "break:cleared": 1}
    assert breaks(stage.model.asked) == 2


@pytest.mark.parametrize("delivery", ["message", "tool_result", "next_turn"])
async def test_a_skill_that_is_switched_off_leaves_what_is_sent_and_a_line_says_so(
    stage: Stage, delivery: Delivery
) -> None:
    folder = stage.deskmate.folder / "skills" / "one"
    (folder / "references").mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\nname: one\ndescription: For tests.\n---\n{BODY} of one.\n")
    (folder / "references" / "a.md").write_text(f"{BODY} of a file.")
    file = {"name": "one", "file": "references/a.md"}
    stage.model.answer_with(
        script(
            calls("load_skill", {"name": "one"}),
            calls("load_skill", file),
            says("first"),
            says("second"),
            calls("load_skill", {"name": "one"}),
            says("third"),
            calls("load_skill", {"name": "one"}),
            says("fourth"),
        )
    )
    profile = {"delivery": delivery, "skills": ["*"]}
    await stage.start(settings={"skills": {"folder": str(folder.parent)}}, profile=profile)
    first = await stage.slack.say(stage.hook, "begin")
    await stage.slack.until(lambda: "first" in stage.posts())
    await stage.slack.say(stage.hook, "go on", thread_ts=first.ts)
    await stage.slack.until(lambda: "second" in stage.posts())
    assert stage.model.asked[-1].body.decode().count(BODY) == 2
    assert await counted(stage) == {}

    store = open_store(stage.deskmate.redis_url, Layout(stage.deskmate.prefix, 1), timeout_s=5.0)
    shelf = Shelf(store, Cache(stage.deskmate.folder / "cache"), present=())
    scope = scope_of(ConversationKey("slack-main", first.channel).channel_id)
    await shelf.switch(scope, "one", "off", Change("off", "slack-main/U", "", "", "a test"))
    await stage.slack.say(stage.hook, "and now", thread_ts=first.ts)
    await stage.slack.until(lambda: "third" in stage.posts())
    off, refused = (asked.body.decode() for asked in stage.model.asked[-2:])
    assert (BODY in off, off.count("skill one stood here: the skill is switched off here")) == (False, 2)
    assert "one is switched off in this channel" in refused
    assert BODY not in refused
    assert await counted(stage) == {"break": 1, "break:off": 1, "break:prompt": 1}

    await shelf.switch(scope, "one", "on", Change("on", "slack-main/U", "", "", "a test"))
    await store.close()
    await stage.slack.say(stage.hook, "once more", thread_ts=first.ts)
    await stage.slack.until(lambda: "fourth" in stage.posts())
    assert stage.model.asked[-1].body.decode().count(BODY) == (delivery != "next_turn")
    assert await counted(stage) == {"break": 2, "break:off": 1, "break:prompt": 2}
    assert breaks(stage.model.asked) == 2
