"""Payloads that no platform sends: true ones in which a few values are others, whatever their kind."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from hypothesis import strategies as st

from gateway.events import Event

_DEEP: Final = "|deep|"
_VALUES: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, -1, 1, 1.5, -1e308, 2**53, 2**63, 2**64, -(2**70), 10**400, [], {}, [[]], [None], [1, "a", {}]),
    *({"id": 1}, {"a": {"b": {}}}, {"\0": "\ud800"}, "", "\0", "\ud83d", "a\udc00b", "/", "../../x", "\u202e\u200b", "x" * 5_000),
    *("😀" * 40, "1.2", "0" * 30, "9" * 20, "1_0", "２", "Infinity", "{}", "[1]", '{"text":[]}', '{"text":"\\ud800"}'),
    *("<@U1>", "@_user_1", "1760000000.000100", "2026-13-40T99:00:00Z", "0001-01-01T00:00:00+23:59", _DEEP),
)  # fmt: skip
_DEPTHS: Final = (3, 300, 800, 4_000)


def spoiled(samples: Sequence[Any]) -> st.SearchStrategy[bytes]:
    """One of the samples as JSON, with one to three values replaced or left out."""
    return st.builds(_spoiled, st.sampled_from(samples), st.randoms(use_true_random=False))


def _spoiled(sample: Any, random: Any) -> bytes:
    # By an own choice of `random`, as a strategy for each of the values takes ten times as long.
    body = copy.deepcopy(sample)
    for _ in range(random.randint(1, 3)):
        places = list(_places(body))
        if not places:
            break
        inside, at = random.choice(places)
        if random.random() < 0.1:
            del inside[at]
        else:
            inside[at] = copy.deepcopy(random.choice(_VALUES))
    deep = "[" * (depth := random.choice(_DEPTHS)) + "]" * depth
    if random.random() < 0.5:
        deep = '{"a":' * depth + "1" + "}" * depth
    return json.dumps(body).replace(f'"{_DEEP}"', deep).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Where each value is: in which list or object, and at what place."""
    inner = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    for at, one in inner:
        yield value, at
        yield from _places(one)


def can_be_kept(events: Sequence[Event]) -> bool:
    """Whether the mailbox can keep each of them, its files put away, and give it back."""
    put_away = [
        replace(one, attachments=tuple(replace(file, content=b"") for file in one.attachments)) for one in events
    ]
    return all(Event.load(one.dump().encode()) == one for one in put_away)
