"""`deskmate status`: what runs, what waits, what was given up."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict

import click

from config.settings import Settings
from gateway.acts.letter_answers import for_programs, why
from gateway.cli import ENGLISH, Stop, cold, no_redis, pass_settings
from gateway.conversation.mailbox import Mailbox
from gateway.conversation.overview import Overview, overview, waits_for_word
from gateway.counts import BREAK, counted
from gateway.running.embedded import NoServer, redis_url
from gateway.store import Layout, Unreachable, open_store

WORDS = {"running": "running for", "ready": "ready since", "waiting": "waits for"}
ASKED = "waits for a person's word, at most"


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.option("--dead", type=click.IntRange(0, 1_000), default=10, show_default=True, help="How many dead letters.")
@pass_settings
def status(settings: Settings, as_json: bool, dead: int) -> None:
    """Show workers, the turns that run, the conversations that wait, and the latest dead letters."""
    try:
        seen, asked, counts, lost = asyncio.run(_look(settings, dead))
    except NoServer as error:
        raise Stop(f"{error}.") from None
    except Unreachable as error:
        raise no_redis(error) from None
    dead_letters = [for_programs(one, ENGLISH) for one in seen.dead]
    whole = {**asdict(seen), "dead": dead_letters, "asked": sorted(asked), "counts": counts, "cold": lost}
    told = [*([cold(lost)] if lost else []), _told(seen, asked), *told_counts(counts)]
    click.echo(json.dumps(whole, ensure_ascii=False) if as_json else "\n".join(told))


async def _look(settings: Settings, dead: int) -> tuple[Overview, frozenset[str], dict[str, int], str]:
    layout = Layout(settings.redis.key_prefix, settings.redis.partitions)
    store = open_store(redis_url(settings), layout, timeout_s=settings.redis.timeout_s)
    try:
        mailbox = Mailbox(store, settings.mailbox, data=settings.data)
        seen = await overview(mailbox, letters=dead)
        asked = await waits_for_word(mailbox, seen.conversations)
        return seen, asked, await counted(store), await mailbox.why_cold(notes=False)
    finally:
        await store.close()


def _told(seen: Overview, asked: Collection[str]) -> str:
    lines = [
        f"workers: {len(seen.workers)}" + "".join(f"\n  {name}" for name in seen.workers),
        f"ready for a worker: {seen.ready}",
    ]
    rows = [
        (
            one.conversation[:8],
            "/".join(part for part in (one.connection, one.channel, one.thread) if part),
            f"{ASKED if one.conversation in asked else WORDS[one.state]} {one.seconds:g} s",
            f"turn {one.turn}" if one.turn else "",
            one.worker,
            f"{one.tries} died with it" if one.tries else "",
            f"{one.inbox} more in the inbox" if one.inbox else "",
        )
        for one in sorted(seen.conversations, key=lambda one: (one.state, -one.seconds))
    ]
    lines += ["conversations: " + ("none has work" if not rows else ""), *_table(rows)]
    if seen.dead:
        letters = [
            (
                one.id,
                time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one.at_ms / 1000)),
                one.conversation[:8],
                one.turn[:8],
                why(one, ENGLISH),
            )
            for one in seen.dead
        ]
        lines += ["dead letters (see `deskmate dead show ID`):", *_table(letters)]
    return "\n".join(line.rstrip() for line in lines)


def told_counts(counts: Mapping[str, int]) -> list[str]:
    """Requests that did not begin with the bytes of the one before, and why: each costs the provider's cache once."""
    whole = counts.get(BREAK, 0)
    reasons = [
        f"{name.removeprefix(f'{BREAK}:')} {number}" for name, number in counts.items() if name.startswith(f"{BREAK}:")
    ]
    told = f"requests to the model that its cache did not know the beginning of, each at full price: {whole}"
    return [f"{told} (because of: {', '.join(reasons)})"] if whole else []


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    if not rows:
        return []
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True) if width) for row in rows
    ]
