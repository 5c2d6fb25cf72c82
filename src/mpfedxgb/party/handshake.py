"""How a session begins: everybody says who it is and what it is about to run, seeds and nonces are exchanged.

1. Every participant sends its greeting and a fresh nonce to the coordinator and to the active participant.
2. The coordinator compares the greetings and hands each participant its own seed.
3. The active participant compares the greetings and passes all nonces on.

After this the coordinator receives announcements only.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from mpfedxgb.errors import HandshakeError
from mpfedxgb.party.keys import NONCE_BYTES, Keyring, MakeSource, context_digest, entropy_of
from mpfedxgb.party.post import Array, Post
from mpfedxgb.party.roster import ACTIVE, COORDINATOR
from mpfedxgb.ring.prg import SEED_BYTES
from mpfedxgb.transport.frame import Kind

PROTOCOL = 1
"""Grows with every change after which old and new roles could not finish a run together."""


def shake_hands(post: Post, make_source: MakeSource | None = None) -> Keyring:
    """Agree with all roles on the session and return this role's keys."""
    post.advance("handshake")
    roster, settings = post.roster, post.settings
    entropy = entropy_of(roster.name(post.role), settings)
    if post.role == COORDINATOR:
        seeds = {m: entropy(SEED_BYTES) for m in roster.roles if m != COORDINATOR}
        nonces = [_nonce(post, m) for m in seeds]
        for m, seed in seeds.items():
            post.send([m], [_octets(seed)], Kind.HELLO)
    else:
        nonces, seed = _participant(post, entropy)
        seeds = {post.role: seed}
    return Keyring(seeds, context_digest(settings, roster, nonces), make_source, entropy(SEED_BYTES))


def _participant(post: Post, entropy: Callable[[int], bytes]) -> tuple[list[bytes], bytes]:
    roster, mine = post.roster, entropy(NONCE_BYTES)
    post.send([COORDINATOR], [_octets(_greeting(post)), _octets(mine)], Kind.HELLO)
    if post.role == ACTIVE:
        nonces = [mine] + [_nonce(post, m) for m in roster.auxiliaries]
        post.send(roster.auxiliaries, [_octets(b"".join(nonces))], Kind.HELLO)
    else:
        post.send([ACTIVE], [_octets(_greeting(post)), _octets(mine)], Kind.HELLO)
        blob = _blob(post, ACTIVE, roster.size * NONCE_BYTES)
        nonces = [blob[i : i + NONCE_BYTES] for i in range(0, len(blob), NONCE_BYTES)]
        if nonces[post.role - 1] != mine:
            raise HandshakeError(f"{roster.name(ACTIVE)} passed on another nonce than {roster.name(post.role)} sent")
    return nonces, _blob(post, COORDINATOR, SEED_BYTES)


def _greeting(post: Post) -> bytes:
    settings, roster = post.settings, post.roster
    return json.dumps(
        {
            "protocol": PROTOCOL,
            "session": settings.session,
            "attempt": settings.attempt,
            "parameters": settings.parameters_digest,
            "roster": [roster.coordinator, *roster.participants],
        },
        sort_keys=True,
    ).encode()


def _nonce(post: Post, peer: int) -> bytes:
    """Check a peer's greeting against one's own and return its nonce."""
    arrays = post.receive(peer, Kind.HELLO)
    name = post.roster.name(peer)
    try:
        theirs, nonce = (array.tobytes() for array in arrays)
        greeting: dict[str, Any] = dict(json.loads(theirs))
    except (ValueError, TypeError, RecursionError):
        raise HandshakeError(f"{name} sent a greeting that cannot be read") from None
    for key, value in json.loads(_greeting(post)).items():
        if greeting.get(key) != value:
            raise HandshakeError(
                f"{name} and {post.roster.name(post.role)} do not agree on the {key}; "
                "give all roles the same settings and the same version of mpfedxgb"
            )
    if len(nonce) != NONCE_BYTES:
        raise HandshakeError(f"{name} sent a nonce of {len(nonce)} bytes instead of {NONCE_BYTES}")
    return nonce


def _blob(post: Post, peer: int, length: int) -> bytes:
    arrays = post.receive(peer, Kind.HELLO)
    if len(arrays) != 1 or arrays[0].nbytes != length:
        raise HandshakeError(f"{post.roster.name(peer)} sent something else than the {length} bytes expected")
    return arrays[0].tobytes()


def _octets(blob: bytes) -> Array:
    return np.frombuffer(blob, np.uint8)
