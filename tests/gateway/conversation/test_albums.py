"""An album in a group is for us if one of its pictures says so, in whatever order they come."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.conversation.key import ConversationKey
from gateway.events import Actor, Attachment, Event
from gateway.store import Layout
from tests.gateway.served import Served, served

GROUP = ConversationKey("slack-main", "C1")


def picture(name: str, *, addressed: bool = False, group: str = "album") -> Event:
    return Event(
        kind="message",
        conversation=GROUP,
        actor=Actor("u1"),
        dedupe_keys=(name,),
        at_ms=1,
        message_id=name,
        text="look" if addressed else "",
        addressed=addressed,
        group=group,
        attachments=(Attachment("image", name, "image/png", 1, {"id": name}),),
    )


async def names(gateway: Served) -> list[str]:
    return sorted(event.message_id for event in await gateway.waiting())


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
async def test_all_pictures_are_taken_whichever_comes_first(
    order: tuple[int, ...], tmp_path: Path, redis_url: str, layout: Layout
) -> None:
    pictures = [picture("a", addressed=True), picture("b"), picture("c")]
    async with served(tmp_path, redis_url, layout.prefix) as gateway:
        for at in order:
            await gateway.parts.intake.receive([pictures[at]])
        assert await names(gateway) == ["a", "b", "c"]
        again = await gateway.parts.intake.receive([pictures[0]])  # nobody saw that it was stored
        assert [one.state for one in again] == ["known"]
        assert await names(gateway) == ["a", "b", "c"]


async def test_what_belongs_to_another_album_or_says_nothing_stays_out(
    tmp_path: Path, redis_url: str, layout: Layout
) -> None:
    async with served(tmp_path, redis_url, layout.prefix) as gateway:
        await gateway.parts.intake.receive([picture("a", addressed=True)])
        await gateway.parts.intake.receive([picture("x", group="another")])
        elsewhere = replace(picture("y"), conversation=ConversationKey("slack-main", "C2"))
        await gateway.parts.intake.receive([elsewhere])
        assert await names(gateway) == ["a"]


async def test_a_picture_for_which_there_is_no_room_is_not_taken_for_stored(
    tmp_path: Path, redis_url: str, layout: Layout
) -> None:
    async with served(tmp_path, redis_url, layout.prefix, {"mailbox": {"inbox_max": 1}}) as gateway:
        await gateway.parts.intake.receive([picture("b"), picture("c")])
        [received] = await gateway.parts.intake.receive([picture("a", addressed=True)])
        assert received.state == "full"
