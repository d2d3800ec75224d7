"""What was looked at and found, each with what to do about it; and what any Redis must be like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from redis.asyncio import Redis
from redis.exceptions import RedisError

from config.settings import Settings
from gateway.running.embedded import FLOORS, version_numbers

Level = Literal["ok", "warn", "fail"]
"""`fail`: a process must not start like this. `warn`: it can, with a consequence that `text` names."""

PERSISTENCE: Final = "redis: persistence"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    level: Level
    about: str
    text: str
    advice: str = ""
    """What the operator can do; empty where all is well."""


async def check_server(redis: Redis, settings: Settings) -> list[Finding]:
    """Is this server fit to hold messages? Looks at version, eviction, persistence and the promised durability."""
    try:
        about: dict[str, Any] = await redis.info()
    except (RedisError, OSError, TimeoutError) as error:
        return [
            Finding("fail", "redis", f"no answer: {error or type(error).__name__}", "start it, or correct redis.url")
        ]
    return [
        _version(about),
        _eviction(about),
        _persistence(about),
        *(await _fsync(redis) if settings.redis.durability == "fsync" else ()),
    ]


def _version(about: Mapping[str, Any]) -> Finding:
    # Valkey names Redis 7.2.4 in `redis_version`, for clients that look there
    kind, version = (
        ("Valkey", str(about["valkey_version"]))
        if "valkey_version" in about
        else ("Redis", str(about.get("redis_version", "0.0.0")))
    )
    if version_numbers(version) < FLOORS[kind]:
        wanted = ", ".join(f"{name} {major}.{minor}+" for name, (major, minor) in FLOORS.items())
        return Finding("fail", "redis: version", f"{kind} {version} is too old", f"use one of {wanted}")
    return Finding("ok", "redis: version", f"{kind} {version}")


def _eviction(about: Mapping[str, Any]) -> Finding:
    policy = about.get("maxmemory_policy")
    if policy == "noeviction":
        return Finding("ok", "redis: eviction", "noeviction")
    return Finding(
        "fail",
        "redis: eviction",
        f"maxmemory-policy is {policy}: the server may throw messages away",
        "CONFIG SET maxmemory-policy noeviction, and the same line in its configuration file",
    )


def _persistence(about: Mapping[str, Any]) -> Finding:
    if not about.get("aof_enabled"):
        return Finding(
            "warn",
            PERSISTENCE,
            "appendonly is off: when the server dies, accepted messages are lost",
            "CONFIG SET appendonly yes, and the same line in its configuration file",
        )
    if (status := about.get("aof_last_write_status", "ok")) != "ok":
        return Finding("fail", PERSISTENCE, f"the last write to the append-only file: {status}", "look at its disk")
    return Finding("ok", PERSISTENCE, "append-only file")


async def _fsync(redis: Redis) -> list[Finding]:
    about = "redis: durability"
    try:
        value = (await redis.config_get("appendfsync")).get("appendfsync")
    except RedisError:
        return [
            Finding(
                "warn",
                about,
                "redis.durability is fsync, and the server does not tell its appendfsync",
                "make sure that it is always: nothing less keeps every message through a power cut",
            )
        ]
    value = value.decode() if isinstance(value, bytes) else value
    if value == "always":
        return [Finding("ok", about, "appendfsync always")]
    return [
        Finding(
            "fail",
            about,
            f"redis.durability is fsync, and the server's appendfsync is {value}",
            "CONFIG SET appendfsync always, or redis.durability: everysec",
        )
    ]
