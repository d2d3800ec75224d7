"""`deskmate doctor`: look at everything that deskmate needs, and say what to do about what is missing."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import shlex
import shutil
import statistics
import tempfile
import time
from dataclasses import asdict, replace
from importlib.util import find_spec
from typing import Any, Final
from urllib.parse import urlsplit

import click
from redis.asyncio import Redis
from redis.exceptions import RedisError

from config.loading import Loaded
from config.problems import ConfigError, Problem
from config.settings import Settings
from config.watching import WITHOUT_RESTART
from gateway.audit.log import read
from gateway.cli import Stop, config_option, given_config
from gateway.cli.outside import opened_outside
from gateway.connections import Opened, open_connections
from gateway.conversation.key import named
from gateway.conversation.mailbox import COLD_ADVICE, Mailbox
from gateway.inventory import installing, load_checked
from gateway.listening import how_it_stands
from gateway.logs import Mask
from gateway.platforms import ConnectionRefused, Outside
from gateway.rights.pins import Pins
from gateway.running.address import noted_address, noted_since_s
from gateway.running.checks import Finding, check_server
from gateway.running.embedded import NoServer, find_program, redis_url
from gateway.running.machine import Machine, PortTaken, free_port, reachable
from gateway.shelf.decisions import ORG, scope_of
from gateway.shelf.packing import published
from gateway.shelf.shelf import Shelf
from gateway.store import Store, Unreachable
from skills import sandbox
from skills.bundles import Cache
from skills.visible import exact

OUTSIDE_S: Final = 15.0
"""The longest wait for a platform or a model."""
LATENCY_MAX_MS: Final = 5.0
AUDIT_MAX: Final = 10_000
"""Of so many lines of the audit log names of channels are learnt."""
CLOCK_MAX_S: Final = 2.0
"""Signed webhooks are refused past five minutes; two seconds of difference say that nobody sets the clock."""
MARKS: Final = {"ok": ("ok  ", "green"), "warn": ("warn", "yellow"), "fail": ("FAIL", "red")}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@config_option
def doctor(as_json: bool) -> None:
    """Check settings, Redis, credentials, model, sandbox, clock, folders and ports. Exit code 1 if anything fails."""
    try:
        loaded = load_checked(given_config())
    except ConfigError as error:
        findings = [Finding("fail", "settings", str(problem), "correct it") for problem in error.problems]
    else:
        findings = [check_age(loaded), *asyncio.run(examine(loaded))]
    failed = [finding for finding in findings if finding.level == "fail"]
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings], indent=2, ensure_ascii=False))
    else:
        for finding in findings:
            _print(finding)
    if failed:
        raise Stop(f"{len(failed)} of {len(findings)} checks failed.")


def check_age(loaded: Loaded) -> Finding:
    """Where the settings are from, and whether they are younger than what runs with them."""
    begun_s = noted_since_s(loaded.settings.data)
    with contextlib.suppress(OSError):
        if begun_s is not None and loaded.path and loaded.path.stat().st_mtime > begun_s:
            what = f"{loaded.path}: changed since `deskmate up` was started; what follows is of the file as it is now"
            advice = f"all of it but {', '.join(sorted(WITHOUT_RESTART))} counts after a restart"
            return Finding("warn", "settings", what, advice)
    return Finding("ok", "settings", str(loaded.path))


async def examine(loaded: Loaded) -> list[Finding]:
    """All findings but those of the settings file itself, in the order in which one would mend them."""
    settings = loaded.settings
    findings = [check_folder(settings), await check_port(settings), check_exceptions(settings), check_search(settings)]
    try:
        url = redis_url(settings)
    except NoServer:
        url = None
        findings.append(no_redis(settings))
    async with opened_outside(settings, url) as (store, outside):
        if url:
            findings += await check_redis(store, settings)
        all_opened = open_connections(loaded).values()
        connections = [check_connection(opened, outside) for opened in all_opened]
        if url:
            connections += [check_listener(opened, store) for opened in all_opened if opened.settings.listens]
        findings += await asyncio.gather(*connections, check_model(settings), check_sandbox(settings))
        findings += await check_servers(loaded, Pins(store) if url else None)
        findings += await check_budgets(loaded)
    mask = Mask(loaded.secret_values)  # a service may repeat in its error what it was sent
    return [replace(one, text=mask(one.text)) for one in findings]


def check_folder(settings: Settings) -> Finding:
    """Can the data folder be written? It matters where the embedded server is used."""
    data = settings.data.resolve()
    if settings.redis.url:
        return Finding("ok", "data folder", "not used: redis.url is set")
    there = next(folder for folder in (data, *data.parents) if folder.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        return Finding("fail", "data folder", f"{there}: {error.strerror}", "set data to a folder that is ours")
    free_mb = shutil.disk_usage(there).free // 1_000_000
    if free_mb < 500:
        return Finding("warn", "data folder", f"{data}: {free_mb} MB left on its disk", "make room")
    return Finding("ok", "data folder", str(data))


async def check_port(settings: Settings) -> Finding:
    """Is the gateway's port free, or is it the gateway that listens there?"""
    host, port = settings.gateway.host, settings.gateway.port
    if noted := noted_address(settings.data):
        where = urlsplit(noted)
        if await Machine(where.hostname or "", where.port or 0, redis_url="").readiness():
            return Finding("ok", f"port {where.port}", f"a gateway listens there: {noted}")
        return Finding("warn", f"port {where.port}", f"`deskmate up` runs, and {noted} does not answer", "see its log")
    about = f"port {port}"
    try:
        free_port(host, port)
    except PortTaken as error:
        if await Machine(reachable(host), port, redis_url="").readiness():
            return Finding("ok", about, "a gateway listens there")
        return Finding("fail", about, str(error), "stop what uses it, or set gateway.port")
    return Finding("ok", about, f"{'free' if port else 'any free one'} on {host}; no gateway runs")


def check_exceptions(settings: Settings) -> Finding:
    """Holes in the rule that only public addresses are fetched are shown every time."""
    holes = settings.tools.web_fetch.allow_private
    if not holes:
        return Finding("ok", "web_fetch", "fetches public addresses only")
    advice = "remove from tools.web_fetch.allow_private what is not meant for everybody in the chat"
    return Finding("warn", "web_fetch", f"may also fetch {', '.join(holes)}", advice)


def check_search(settings: Settings) -> Finding:
    """Is there what the chosen provider of `web_search` needs? Nothing is asked of it: searches cost money."""
    provider = settings.tools.web_search.provider
    if provider == "ddgs" and find_spec("ddgs") is None:
        return Finding("warn", "web_search", "the library ddgs is not installed", installing("search"))
    return Finding("ok", "web_search", f"set to {provider}; not asked" if provider else "no provider is set")


def no_redis(settings: Settings) -> Finding:
    """Nothing to connect to: could the embedded server start?"""
    try:
        program = find_program()
    except NoServer as error:
        return Finding("fail", "redis", str(error), "one of the three")
    text = f"none runs; `deskmate up` starts {program.kind} {program.version} in {settings.data.resolve()}"
    return Finding("ok", "redis", text)


async def check_redis(store: Store, settings: Settings) -> list[Finding]:
    """Version, eviction, persistence; then distance, clock and who works."""
    findings = await check_server(store.redis, settings)
    if findings[0].about == "redis":  # it does not answer
        return findings
    mailbox = Mailbox(store, settings.mailbox, data=settings.data)
    with contextlib.suppress(RedisError, OSError, Unreachable):
        findings += [
            await _latency(store.redis),
            await _clock(store.redis),
            await _data(mailbox),
            await _workers(mailbox),
            await _skills(store),
        ]
    with contextlib.suppress(Unreachable):
        findings += await _switches(store, settings)
    return findings


async def check_connection(opened: Opened, outside: Outside) -> Finding:
    """Does the platform take our credentials, and who are we there?"""
    about = f"connection {opened.name}"
    try:
        async with asyncio.timeout(OUTSIDE_S):
            adapter = opened.platform.Adapter(opened.name, opened.settings, outside)
            me = await adapter.identity()
    except ConnectionRefused as error:
        return Finding("fail", about, str(error), f"check connections.{opened.name}")
    except TimeoutError:
        return Finding("fail", about, f"no answer within {OUTSIDE_S:.0f} s", "check api_base and the network")
    if not adapter.is_checked:
        return Finding("ok", about, f"{opened.settings.platform}; credentials can't be checked, there is nobody to ask")
    return Finding("ok", about, f"{opened.settings.platform}: we are {me.name or me.id}")


async def check_listener(opened: Opened, store: Store) -> Finding:
    """Does somebody hold the connection over which messages come?"""
    about = f"listener {opened.name}"
    try:
        listens, trouble = await how_it_stands(store, opened.name)
    except Unreachable:
        return Finding("warn", about, "unknown, as Redis does not answer", "see redis")
    if trouble:
        return Finding("fail", about, trouble, f"check connections.{opened.name}")
    if not listens:
        return Finding(
            "warn", about, "nobody: what people write is not heard", "start `deskmate listen`, or `deskmate up`"
        )
    return Finding("ok", about, "somebody listens")


async def check_model(settings: Settings) -> Finding:
    """One cheap call. The module is imported here by name: nothing else of the gateway loads the model's SDK."""
    provider = settings.model.provider
    try:
        module: Any = importlib.import_module(f"workers.models.{provider}")
    except ModuleNotFoundError as error:
        why = f"there is no provider {provider!r}" if provider in str(error.name) else f"{error.name} is missing"
        return Finding("fail", "model", why, "set model.provider")
    failure: type[Exception] = importlib.import_module("workers.models").ModelError
    try:
        async with asyncio.timeout(OUTSIDE_S):
            model = module.open_model(settings.model)
            try:
                said = await model.check()
            finally:
                await model.close()
    except failure as error:
        return Finding("fail", "model", str(error), "check model.api_key, model.name and model.base_url")
    except TimeoutError:
        return Finding("fail", "model", f"no answer within {OUTSIDE_S:.0f} s", "check model.base_url")
    if provider == "rehearsal":
        advice = "set model.provider: anthropic, and ANTHROPIC_API_KEY in the environment"
        return Finding("warn", "model", "rehearsal: offline and scripted, no model at all", advice)
    return Finding("ok", "model", said)


async def check_sandbox(settings: Settings) -> Finding:
    """Is there a cage for programs, and does the kernel let us build it? Whatever goes round it is shown every time."""
    found = await sandbox.find()
    bare, online = settings.skills.unsandboxed, settings.skills.programs.network
    if found.cage is None:
        why = f"{'; '.join(found.reasons)}: programs of skills are not run"
        why += f", but for {', '.join(bare)}, with all rights of this user" if bare else ""
        advice = f"apt-get install bubblewrap and allow unprivileged user namespaces, or {installing('sandbox')}"
        return Finding("warn", "sandbox", why, advice)
    if online:
        advice = "remove from skills.programs.network what needs none: it reaches what this machine reaches"
        return Finding("warn", "sandbox", f"{found.cage.kind} works; with a network: {', '.join(online)}", advice)
    return Finding("ok", "sandbox", f"{found.cage.kind} works")


async def check_servers(loaded: Loaded, pins: Pins | None) -> list[Finding]:
    """MCP servers, from this machine. The module is imported by name, as that of the model is."""
    if not loaded.settings.mcp.servers:
        return []
    try:
        found: list[Finding] = await importlib.import_module("workers.mcp.looking").examine(loaded, pins)
    except Unreachable:
        return [Finding("warn", "mcp", "unknown, as Redis does not answer", "see redis")]
    return found


async def check_budgets(loaded: Loaded) -> list[Finding]:
    """Limits under which nobody is ever answered, whatever becomes of the rest; nothing where there are none."""
    if find_spec("workers") is None:
        return []
    found: list[Problem] = await importlib.import_module("workers.prompt.least").too_small(loaded)
    return [Finding("warn", "budget", str(replace(one, wanted="")), f"raise it: {one.wanted}") for one in found]


async def _latency(redis: Redis) -> Finding:
    took_ms = []
    for _ in range(20):
        before = time.perf_counter()
        await redis.ping()
        took_ms.append((time.perf_counter() - before) * 1_000)
    middle = statistics.median(took_ms)
    if middle > LATENCY_MAX_MS:
        return Finding("warn", "redis: latency", f"{middle:.1f} ms a question", "bring Redis and deskmate together")
    return Finding("ok", "redis: latency", f"{middle:.2f} ms a question")


async def _clock(redis: Redis) -> Finding:
    before = time.time()
    seconds, microseconds = await redis.time()
    off_s = seconds + microseconds / 1e6 - (before + time.time()) / 2
    if abs(off_s) > CLOCK_MAX_S:
        text = f"Redis' clock is {abs(off_s):.1f} s {'ahead of' if off_s > 0 else 'behind'} ours"
        return Finding("warn", "clock", text, "let NTP set both: signed webhooks with a wrong time are refused")
    return Finding("ok", "clock", f"{abs(off_s) * 1_000:.0f} ms from Redis' clock")


async def _data(mailbox: Mailbox) -> Finding:
    if why := await mailbox.why_cold(notes=False):
        return Finding("fail", "redis: data", f"{why}: nothing is accepted", COLD_ADVICE)
    return Finding("ok", "redis: data", "nothing is known to be lost")


async def _workers(mailbox: Mailbox) -> Finding:
    if workers := await mailbox.workers():
        return Finding("ok", "workers", f"{len(workers)} at work")
    return Finding("warn", "workers", "none: messages are kept and not answered", "start `deskmate worker`")


async def _skills(store: Store) -> Finding:
    number, packer = await published(store)
    if packer:
        return Finding("ok", "skills", f"snapshot {number}; the folders are looked at by {packer}")
    text = f"snapshot {number} stays in force" if number else "none were published yet"
    return Finding("warn", "skills", f"nobody looks at the folders now; {text}", "start `deskmate gateway`")


async def _switches(store: Store, settings: Settings) -> list[Finding]:
    """Places where switches are gone or can't be read, by name as far as the audit log still tells it."""
    lost = await Shelf(store, Cache(settings.data / "skills"), present=None).unread()
    if not lost:
        return [Finding("ok", "switches", "can be read wherever somebody decided")]
    places = {ORG: ("the whole organisation", "--everywhere")}
    for room in {line.channel for line in await read(store, most=AUDIT_MAX)} if lost != [ORG] else ():
        connection, _, channel = room.partition("/")
        with contextlib.suppress(ValueError):
            places[scope_of(named(connection, channel).channel_id)] = (exact(room), f"--channel {shlex.quote(room)}")
    return [
        Finding(
            "fail",
            "switches",
            f"of {where}: gone, or not to be read: no skill and no tool is on there",
            f"put {store.layout.skills_root}:{scope} back from a backup; or `deskmate audit`, to see what was decided, and "
            f"`deskmate skills anew {option}`",
        )
        for scope in lost
        for where, option in [places.get(scope, (scope, "--channel CONNECTION/CHANNEL"))]
    ]


def _print(finding: Finding) -> None:
    word, colour = MARKS[finding.level]
    click.echo(f"{click.style(word, fg=colour)}  {finding.about:<18}  {finding.text}")
    if finding.advice:
        click.echo(f"{'':24}  -> {finding.advice}")
