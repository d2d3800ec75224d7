"""What is found about a server: on a real one, and on answers of servers that are not here."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from redis.asyncio import Redis

from config.settings import RedisSettings, Settings
from gateway.running.checks import Finding, _version, check_server
from gateway.running.embedded import embedded


@asynccontextmanager
async def server(tmp_path: Path, **changes: str) -> AsyncIterator[Redis]:
    async with embedded(Settings(data=tmp_path)) as url:
        redis = Redis.from_url(url)
        try:
            for name, value in changes.items():
                await redis.config_set(name.replace("_", "-"), value)
            yield redis
        finally:
            await redis.aclose()


def worst(findings: list[Finding]) -> Finding:
    return max(findings, key=lambda finding: ("ok", "warn", "fail").index(finding.level))


async def test_the_embedded_server_is_fit(tmp_path: Path) -> None:
    async with server(tmp_path) as redis:
        findings = await check_server(redis, Settings())
    assert {finding.level for finding in findings} == {"ok"}
    assert {finding.about for finding in findings} == {"redis: version", "redis: eviction", "redis: persistence"}


async def test_a_server_that_may_evict_is_refused_with_the_setting_named(tmp_path: Path) -> None:
    async with server(tmp_path, maxmemory_policy="allkeys-lru") as redis:
        found = worst(await check_server(redis, Settings()))
    assert found.level == "fail"
    assert "maxmemory-policy is allkeys-lru" in found.text
    assert "CONFIG SET maxmemory-policy noeviction" in found.advice


async def test_a_server_that_keeps_nothing_on_disk_is_warned_of(tmp_path: Path) -> None:
    async with server(tmp_path, appendonly="no") as redis:
        found = worst(await check_server(redis, Settings()))
    assert (found.level, found.about) == ("warn", "redis: persistence")


@pytest.mark.parametrize(("appendfsync", "level"), [("always", "ok"), ("everysec", "fail"), ("no", "fail")])
async def test_fsync_is_promised_only_by_a_server_that_syncs(tmp_path: Path, appendfsync: str, level: str) -> None:
    settings = Settings(redis=RedisSettings(durability="fsync"))
    async with server(tmp_path, appendfsync=appendfsync) as redis:
        found = worst(await check_server(redis, settings))
    assert found.level == level


async def test_a_server_that_hides_its_configuration_is_warned_of_under_fsync(tmp_path: Path) -> None:
    async with server(tmp_path) as redis:
        await redis.acl_setuser("default", enabled=True, nopass=True, keys="*", commands=["+@all", "-config"])
        findings = await check_server(redis, Settings(redis=RedisSettings(durability="fsync")))
    assert [(one.level, one.about) for one in findings if one.level != "ok"] == [("warn", "redis: durability")]


async def test_a_server_that_is_away_is_one_finding(tmp_path: Path) -> None:
    redis = Redis.from_url(f"unix://{tmp_path}/nobody.sock")
    (found,) = await check_server(redis, Settings())
    assert (found.level, found.about) == ("fail", "redis")
    await redis.aclose()


@pytest.mark.parametrize(
    ("about", "level"),
    [
        ({"redis_version": "6.2.14"}, "fail"),
        ({"redis_version": "7.0.0"}, "ok"),
        ({"redis_version": "8.2.1"}, "ok"),
        ({"redis_version": "10.0.0"}, "ok"),
        ({"redis_version": "7.2.4", "valkey_version": "7.2.11"}, "ok"),
        ({"redis_version": "7.2.4", "valkey_version": "7.1.0"}, "fail"),
        ({}, "fail"),
    ],
)
def test_the_version_floor_is_each_kinds_own(about: dict[str, str], level: str) -> None:
    assert _version(about).level == level
