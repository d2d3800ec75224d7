"""Forgeries: each makes of a genuine delivery one that its platform did not send; and fuzz, which it could have sent."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, Final

from tests.forged.proofs import JSON, PLATFORMS, Delivery, samples, with_proof
from tests.harness import feishu_twin

Forgery = Callable[[random.Random, str, int], Delivery | None]
"""By chance, for this connection, in this second. None: it can't be done there."""

ODD_STAMPS: Final[Sequence[str | bytes]] = (
    *(
        "",
        " ",
        "nan",
        "inf",
        "-1",
        "+1700000000",
        "1e9",
        "1_760_000_000",
        "0x6553f100",
        "9" * 40,
        "1760000000.5",
        "null",
    ),
    *("١٧٦٠٠٠٠٠٠٠", b"\xff\xfe", "1760000000 ", "1760000000,1760000000", "0"),
)
BESIDE_S: Final = 60
"""So far outside the window, the time that sending takes counts for nothing."""
HOSTILE: Final[Sequence[Any]] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1.5,
        2**63,
        10**400,
        "",
        " ",
        "\0",
        "\ud800",
        "\u202e\u2066",
        "x" * 40_000,
        "{}",
        "a:b",
    ),
    *([], {}, [[]], [None] * 500, {"": {"": {}}}, "＠", "<@U0BOT01>", "/skill on all", "../../etc/passwd"),
)
DEPTHS: Final = (50, 101, 2_000, 50_000)


def genuine(rng: random.Random, connection: str, now_s: int, **how: Any) -> Delivery:
    """As the platform sends it."""
    told, content_type = rng.choice(samples(connection))
    return PLATFORMS[connection].delivery(connection, told, now_s, content_type=content_type, **how)


# ---- what proves it


def unproven(rng: random.Random, connection: str, now_s: int) -> Delivery:
    """Nothing, or a part of it."""
    one = genuine(rng, connection, now_s)
    left = rng.sample(one.proof, rng.randrange(len(one.proof)))
    if connection == "feishu":  # its check of an address comes without a signature: what is encrypted proves it
        one = replace(one, body=feishu_twin.encrypted(samples(connection)[-1][0]))
    return replace(one, proof=tuple(left))


def another_secret(rng: random.Random, connection: str, now_s: int) -> Delivery:
    key = {"standard-webhooks": "whsec_cmVwbHktc2VjcmV0LWZvci10ZXN0cw==", "feishu": "k"}.get(connection, "another")
    made = genuine(rng, connection, now_s, key=rng.choice((key, key * 4)) if connection != "standard-webhooks" else key)
    sealed = PLATFORMS[connection].seal
    if not sealed or rng.random() < 0.5:
        return made
    true = genuine(rng, connection, now_s)  # what is inside is true, only the signature is not
    return replace(true, proof=made.proof)


def spoiled_signature(rng: random.Random, connection: str, now_s: int) -> Delivery:
    one = genuine(rng, connection, now_s)
    name = PLATFORMS[connection].signature
    whole = str(dict(one.proof)[name])
    place = rng.randrange(len(whole))
    swapped = whole[:place] + chr(33 + (ord(whole[place]) - 33 + rng.randrange(1, 90)) % 94) + whole[place + 1 :]
    others: tuple[str | bytes, ...] = (
        whole[:place],
        whole[place:] if place else whole[1:],
        whole + rng.choice("0aZ="),
        "",
        whole.encode() + rng.randbytes(3).replace(b"\r", b"\xe9").replace(b"\n", b"\xe9") + b"\xff",
        "v0=" + "0" * 64,
        "é" * len(whole),
        "0" * len(whole),
        swapped,
    )
    forged = rng.choice(others)
    if connection == "discord" and isinstance(forged, str) and forged.lower() == whole.lower():
        forged = ""  # hexadecimal digits are the same in capitals
    return with_proof(one, **{name.replace("-", "_"): forged})


def signed_then(rng: random.Random, connection: str, now_s: int) -> Delivery | None:
    """A true request of another time."""
    if not PLATFORMS[connection].stamp:
        return None
    beyond_s = PLATFORMS[connection].window_s + BESIDE_S + rng.choice((0, 3_600, 86_400, 10**8))
    return genuine(rng, connection, now_s + beyond_s * rng.choice((-1, 1)))


def restamped(rng: random.Random, connection: str, now_s: int) -> Delivery | None:
    """An old one that is given the time of now, or a time that is none."""
    name = PLATFORMS[connection].stamp
    if not name:
        return None
    one = genuine(rng, connection, now_s - PLATFORMS[connection].window_s - rng.randrange(BESIDE_S, 10**6))
    return with_proof(one, **{name.replace("-", "_"): rng.choice((str(now_s), *ODD_STAMPS))})


def told_twice(rng: random.Random, connection: str, now_s: int) -> Delivery | None:
    """Two signatures, one of which is true."""
    if PLATFORMS[connection].in_address:
        return None
    one, name = genuine(rng, connection, now_s), PLATFORMS[connection].signature
    false = (name, rng.choice(("", "v0=00", "v1,AAAA", "0" * 64)))
    return replace(one, proof=(false, *one.proof) if rng.random() < 0.5 else (*one.proof, false))


def another_body(rng: random.Random, connection: str, now_s: int) -> Delivery | None:
    """The true proof of something else."""
    if not PLATFORMS[connection].signs_body:
        return None
    one, other = genuine(rng, connection, now_s), genuine(rng, connection, now_s)
    body = rng.choice((other.body if other.body != one.body else one.body + b" ", flipped(rng, one.body)))
    if connection == "wecom":  # what is not inside `encrypt` is not signed: its envelope may look otherwise
        sealed = json.loads(one.body)["encrypt"]
        place = rng.randrange(len(sealed))
        changed = sealed[:place] + ("A" if sealed[place] != "A" else "B") + sealed[place + 1 :]
        body = json.dumps({"encrypt": changed}).encode()
    return replace(one, body=body)


def of_another(rng: random.Random, connection: str, now_s: int) -> Delivery:
    """What is true for another connection."""
    other = rng.choice([name for name in PLATFORMS if name != connection])
    made = genuine(rng, other, now_s)
    if PLATFORMS[other].in_address or PLATFORMS[connection].in_address:
        made = replace(made, proof=() if PLATFORMS[connection].in_address else made.proof)
    return replace(made, connection=connection)


def out_of_nothing(rng: random.Random, connection: str, now_s: int) -> Delivery:
    """The right names, and nothing but noise in them."""
    one = genuine(rng, connection, now_s)
    proof = tuple((name, rng.randbytes(rng.choice((1, 20, 32, 64))).hex()) for name, _ in one.proof)
    return replace(one, proof=proof, body=rng.randbytes(rng.choice((0, 1, 100, 5_000))))


def hostile_unproven(rng: random.Random, connection: str, now_s: int) -> Delivery:
    """A body that is meant to break whoever reads it before it is proven."""
    del now_s
    depth = rng.choice(DEPTHS)
    body = rng.choice(
        (b"[" * depth, b'{"a":' * depth + b"1" + b"}" * depth, b'{"encrypt":' + b"9" * 5_000 + b"}", b"\xff\xfe{}", b"{",
         json.dumps({"encrypt": rng.choice(HOSTILE)}).encode(), b'{"encrypt":"' + b"A" * 4_001 + b'"}')
    )  # fmt: skip
    headers = [("Content-Type", rng.choice((JSON, "text/plain", "application/x-www-form-urlencoded", "é", "")))]
    if rng.random() < 0.3:
        packed = gzip.compress(body)
        body = packed if rng.random() < 0.5 else packed[: len(packed) // 2]
        headers.append(("Content-Encoding", rng.choice(("gzip", "deflate"))))
    return Delivery(connection, body, (), tuple(headers))


def another_way(rng: random.Random, connection: str, now_s: int) -> Delivery:
    """Not as a platform sends it at all, without the proof."""
    return replace(unproven(rng, connection, now_s), method=rng.choice(("GET", "PUT", "DELETE", "PATCH", "OPTIONS")))


FORGERIES: Final[Mapping[str, Forgery]] = {
    one.__name__: one
    for one in (
        *(unproven, another_secret, spoiled_signature, signed_then, restamped, told_twice, another_body, of_another),
        *(out_of_nothing, hostile_unproven, another_way),
    )
}


# ---- what a platform could have said, and nobody thought of


def fuzzed(rng: random.Random, connection: str, now_s: int) -> Delivery:
    """Rightly signed, whatever is in it."""
    told, content_type = rng.choice(samples(connection))
    changed = flipped(rng, told) if rng.random() < 0.4 or content_type != JSON else replaced(rng, told)
    platform = PLATFORMS[connection]
    if connection == "standard-webhooks":  # its reference library signs text alone
        changed = changed.decode("utf-8", "replace").encode()
    return platform.delivery(connection, changed, now_s, content_type=content_type)


def flipped(rng: random.Random, raw: bytes) -> bytes:
    """Other bytes at a few places: never the same."""
    made = bytearray(raw)
    for _ in range(rng.choice((1, 1, 2, 8))):
        place = rng.randrange(len(made)) if made else 0
        match rng.randrange(4):
            case 0 if made:
                made[place] ^= 1 << rng.randrange(8)
            case 1 if made:
                del made[place : place + rng.randrange(1, 20)]
            case 2:
                made[place:place] = rng.choice(
                    (b"\0", b"\xed\xa0\x80", b'"', b"{", b"]", b"\\u0000", b"\\ud800", b"1e999")
                )
            case _:
                made[place:place] = made[: rng.randrange(30)]
    return bytes(made) if bytes(made) != raw else raw + b"\0"


def replaced(rng: random.Random, raw: bytes) -> bytes:
    """One or two of its values are something else, gone, or one level deeper."""
    whole = json.loads(raw)
    for _ in range(rng.choice((1, 2))):
        places = list(_places(whole))
        if not places:
            break
        held, key = rng.choice(places)
        match rng.randrange(4):
            case 0:
                del held[key]
            case 1:
                held[key] = [held[key]] if rng.random() < 0.5 else {"id": held[key]}
            case _:
                held[key] = deepcopy(rng.choice(HOSTILE))
    return json.dumps(whole).encode()


def _places(value: Any) -> Any:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in list(inside):
        yield value, key
        yield from _places(one)
