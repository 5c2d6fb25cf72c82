"""How a session begins: everybody says who it is and what it is about to run, seeds and nonces are exchanged.

1. Every participant sends its greeting and a fresh nonce to the coordinator and to the active participant; in a mesh,
   auxiliaries also to each other, who later hold what is passed on against it.
2. The coordinator compares the greetings, and hands each participant its own greeting and that participant's seed.
3. The active participant compares the greetings too. It settles what may differ - the newest protocol that all speak,
   the highest number of an attempt that anyone has reached, the smallest limit of a frame, and for what link its own
   settings say to plan - and passes this and all nonces on.

After this the coordinator receives announcements only. Sizes that roles tell each other later are held against limits
(`check_announced`) before anybody takes memory for them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from mpfedxgb.config import PROTOCOLS, SMALLEST_FRAME, Link, SessionSettings
from mpfedxgb.errors import (
    AlienFrameError,
    DoesNotFitError,
    FrameError,
    HandshakeError,
    OutOfStepError,
    PeerFinishedError,
    SettingsError,
    printable,
)
from mpfedxgb.party.communicator import Array, Communicator
from mpfedxgb.party.meter import Meter
from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import (
    ACTIVE,
    COORDINATOR,
    NONCE_BYTES,
    Keyring,
    MakeSource,
    Roster,
    commitment,
    context_digest,
    entropy_of,
    training_name,
)
from mpfedxgb.ring.prg import SEED_BYTES
from mpfedxgb.transport.frame import Kind, check_form
from mpfedxgb.transport.transport import Transport

MOST_ROWS = 1 << 26
"""Of a table, and of a batch to score."""
MOST_COLUMNS = 1 << 22
"""Candidate columns, and features, of one participant."""
MOST_TREES = 1 << 24
MOST_CLASSES = 10_000
MOST_LEAVES = 1 << 24
"""Of all trees that rows are scored with."""

Bound = tuple[str, int, int]
"""What is counted, its least and its largest number."""


def check_announced(party: Party, name: str, announced: npt.NDArray[np.int64], *bounds: Bound) -> None:
    """Raise FrameError, naming the participant, unless all announced one number for each bound, within it."""
    check_form(party.roster.name(ACTIVE), name, [announced], (np.int64, (len(party.roster.owners), len(bounds))))
    for owner, numbers in zip(party.roster.owners, announced.tolist(), strict=True):
        check_numbers(party, party.roster.role_of(owner), numbers, *bounds)


def check_numbers(party: Party, sender: int, numbers: Sequence[int], *bounds: Bound) -> None:
    """Raise FrameError unless a participant's numbers are within bounds; DoesNotFitError if they are this role's."""
    for number, (what, least, most) in zip(numbers, bounds, strict=True):
        if not least <= number <= most:
            text = f"{party.roster.name(sender)} announced {number} {what}; allowed: {least} to {most}"
            raise (DoesNotFitError if sender == party.role else FrameError)(text, parameter=what, value=number)


def check_flag(party: Party, name: str, flag: int) -> None:
    """Raise FrameError unless what the active participant broadcast as yes or no is 1 or 0."""
    if flag not in (0, 1):
        text = f"malformed {name} from {party.roster.name(ACTIVE)}: got {flag}, expected 0 or 1"
        raise FrameError(text, parameter=name, value=flag)


COMMITMENT_BYTES = 32
_MOST_SHOWN, _MOST_NAMED = 100, 8
_NONE = object()
_MUST_AGREE = ("session", "parameters", "roster", "topology")


def shake_hands(comm: Communicator, make_source: MakeSource | None = None, private: bytes | None = None) -> Keyring:
    """Agree with all roles on the session and return this role's keys.

    `private` is the key of this role's own choices; one that is kept from attempt to attempt makes them repeat.
    """
    comm.advance("handshake")
    entropy = entropy_of(comm.roster.name(comm.role), comm.settings)
    private = private or entropy(SEED_BYTES)
    nonce = entropy(NONCE_BYTES)
    if comm.role == COORDINATOR:
        seeds = {m: entropy(SEED_BYTES) for m in comm.roster.roles if m != COORDINATOR}
        greetings, nonces = _collect(comm, list(seeds))
        for m, seed in seeds.items():
            comm.send([m], [_octets(_greeting(comm, private)), _octets(seed)], Kind.HELLO)
        agreed = _read_agreement(comm, _receive(comm, ACTIVE, 1)[0])
        commitments = [bytes.fromhex(greetings[m]["commitment"]) for m in seeds]
        if comm.roster.coordinator_owns:
            commitments.append(commitment(private))
    else:
        agreed, nonces, commitments, seed = _participant(comm, nonce, private)
        seeds = {comm.role: seed}
    comm.settings = replace(comm.settings, **{key: agreed[key] for key in ("attempt", "max_frame_bytes", "link")})
    context = context_digest(comm.settings, comm.roster, nonces)
    comm.begin(context)
    return Keyring(seeds, context, make_source, private, training_name(comm.settings, commitments))


def handshake_messages(comm: Communicator) -> list[tuple[Sequence[int], Sequence[int], list[int]]]:
    """Return what `shake_hands` sends, on paper: from whom to whom, and the bytes of each array."""
    size, greeting, agreement = comm.roster.size, len(_greeting(comm, b"")), len(_settle(comm, {}))
    everyone, others = range(ACTIVE, size + 1), comm.roster.auxiliaries
    fellows = {m: set(comm.roster.neighbours(m, comm.settings.topology)).intersection(others) for m in others}
    return [
        (everyone, [COORDINATOR], [greeting, NONCE_BYTES]),  # 1
        (others, [ACTIVE], [greeting, NONCE_BYTES]),
        *(([m], sorted(fellows[m]), [greeting, NONCE_BYTES]) for m in others),
        ([COORDINATOR], everyone, [greeting, SEED_BYTES]),  # 2
        ([ACTIVE], [COORDINATOR], [agreement]),  # 3
        ([ACTIVE], others, [agreement, size * NONCE_BYTES, size * COMMITMENT_BYTES]),
    ]


def _participant(
    comm: Communicator, nonce: bytes, private: bytes
) -> tuple[dict[str, Any], list[bytes], list[bytes], bytes]:
    """Return what was agreed, everyone's nonces and commitments, and this participant's seed."""
    roster, mine = comm.roster, _greeting(comm, private)
    comm.send([COORDINATOR], [_octets(mine), _octets(nonce)], Kind.HELLO)
    linked = comm.roster.neighbours(comm.role, comm.settings.topology)
    fellows = [m for m in linked if m not in (COORDINATOR, ACTIVE)] if comm.role != ACTIVE else []
    if comm.role != ACTIVE:
        comm.send([ACTIVE], [_octets(mine), _octets(nonce)], Kind.HELLO)
        for fellow in fellows:
            with suppress(PeerFinishedError):  # the coordinator knows why, and answers first
                comm.send([fellow], [_octets(mine), _octets(nonce)], Kind.HELLO)
    greeting, seed = _receive_greeting(comm, COORDINATOR)
    greetings = {COORDINATOR: greeting}
    if len(seed) != SEED_BYTES:
        text = f"{roster.coordinator} sent a seed of {len(seed)} bytes instead of {SEED_BYTES}"
        raise HandshakeError(text, parameter="seed", value=len(seed))
    if comm.role == ACTIVE:
        others, received = _collect(comm, roster.auxiliaries)
        greetings |= others | {ACTIVE: json.loads(mine)}
        nonces = [nonce, *received]
        commitments = [bytes.fromhex(greetings[m]["commitment"]) for m in range(ACTIVE, roster.size + 1)]
        agreement = _settle(comm, greetings)
        comm.send([COORDINATOR], [_octets(agreement)], Kind.HELLO)
        blobs = [agreement, b"".join(nonces), b"".join(commitments)]
        comm.send(roster.auxiliaries, [_octets(blob) for blob in blobs], Kind.HELLO)
    else:
        others, received = _collect(comm, fellows)
        heard = {m: (n, bytes.fromhex(others[m]["commitment"])) for m, n in zip(fellows, received, strict=True)}
        heard[comm.role] = (nonce, commitment(private))
        agreement, *blobs = _receive(comm, ACTIVE, 3)
        nonces = _pieces(comm, blobs[0], NONCE_BYTES)
        commitments = _pieces(comm, blobs[1], COMMITMENT_BYTES)
        for m, own in heard.items():
            if (nonces[m - ACTIVE], commitments[m - ACTIVE]) != own:
                text = f"{roster.name(ACTIVE)} passed on another nonce or commitment than {roster.name(m)} sent"
                raise HandshakeError(text, parameter="nonce", value=roster.name(m))
    if roster.coordinator_owns:  # it has private choices too, and tells everyone itself
        commitments = [*commitments, bytes.fromhex(greeting["commitment"])]
    return _read_agreement(comm, agreement), nonces, commitments, seed


def _greeting(comm: Communicator, private: bytes) -> bytes:
    settings, roster = comm.settings, comm.roster
    return json.dumps(
        {
            "protocols": list(PROTOCOLS),
            "session": settings.session,
            "attempt": settings.attempt,
            "parameters": settings.parameters,
            "max_frame_bytes": settings.max_frame_bytes,
            "topology": settings.topology,
            "roster": [roster.coordinator, *roster.owner_names],
            "commitment": commitment(private).hex(),
        },
        sort_keys=True,
    ).encode()


def _collect(comm: Communicator, peers: Sequence[int] | range) -> tuple[dict[int, dict[str, Any]], list[bytes]]:
    """Return the peers' greetings, checked, and their nonces."""
    greetings, nonces = {}, []
    for m in peers:
        greetings[m], nonce = _receive_greeting(comm, m)
        if len(nonce) != NONCE_BYTES:
            text = f"{comm.roster.name(m)} sent a nonce of {len(nonce)} bytes instead of {NONCE_BYTES}"
            raise HandshakeError(text, parameter="nonce", value=len(nonce))
        nonces.append(nonce)
    return greetings, nonces


def _check(comm: Communicator, peer: int, theirs: bytes) -> dict[str, Any]:
    """Return a peer's greeting; raise HandshakeError if it is none, or differs where it must not."""
    name = comm.roster.name(peer)
    try:
        greeting: dict[str, Any] = dict(json.loads(theirs))
    except (ValueError, TypeError, RecursionError):
        raise _unreadable(name) from None
    mine = json.loads(_greeting(comm, b""))
    for key in _MUST_AGREE:
        if greeting.get(key) != mine[key]:
            difference = _difference(key, greeting.get(key), mine[key], name, comm.roster.name(comm.role))
            text = (
                f"{name} and {comm.roster.name(comm.role)} do not agree on the {key}: {difference}; "
                "give all roles the same settings and the same version of mpfedxgb"
            )
            raise HandshakeError(text, parameter=key, value=name)
    spoken, attempt, commitment = (greeting.get(key) for key in ("protocols", "attempt", "commitment"))
    greeting["protocols"] = [p for p in spoken if isinstance(p, int)] if isinstance(spoken, list) else []
    if not set(PROTOCOLS).intersection(greeting["protocols"]):
        text = (
            f"{name} speaks the protocols {spoken!r:.50}, {comm.roster.name(comm.role)} speaks {list(PROTOCOLS)}; "
            "install versions of mpfedxgb that have one in common"
        )
        raise HandshakeError(text, "version", "protocols", spoken)
    limit = greeting.get("max_frame_bytes")
    if not _is_number(attempt, 1) or not _is_number(limit, SMALLEST_FRAME) or not _is_hex(commitment, COMMITMENT_BYTES):
        raise _unreadable(name)
    return greeting


def _difference(key: str, theirs: Any, mine: Any, name: str, me: str) -> str:
    """Return in what two roles differ, with both values; of the parameters, in which of them."""
    pairs = {"it": (theirs, mine)}
    if key == "parameters":
        with suppress(ValueError, TypeError, RecursionError):  # of a peer that sent something else
            other, own = dict(json.loads(theirs)), dict(json.loads(mine))
            names = [p for p in sorted({*other, *own}) if other.get(p, _NONE) != own.get(p, _NONE)]
            pairs = {f"{p!s:.40}": (other.get(p, _NONE), own.get(p, _NONE)) for p in names[:_MOST_NAMED]} or pairs
    pairs_shown = (f"{what} is {_shown(a)} at {name} and {_shown(b)} at {me}" for what, (a, b) in pairs.items())
    return printable(", ".join(pairs_shown))


def _shown(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False) if value is not _NONE else "not there"
    except RecursionError:  # of a peer that nests as deep as can still be read
        text = "too deep to show"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def _settle(comm: Communicator, greetings: dict[int, dict[str, Any]]) -> bytes:
    """Return what the active participant settles for all: the newest common protocol and the highest attempt."""
    common = set(PROTOCOLS).intersection(*(g["protocols"] for g in greetings.values()))
    if not common:
        text = "there is no protocol that all roles speak; install versions of mpfedxgb that have one in common"
        raise HandshakeError(text, "version", "protocols")
    agreed = {
        "protocol": max(common),
        "attempt": max((g["attempt"] for g in greetings.values()), default=comm.settings.attempt),
        "max_frame_bytes": min(
            (g["max_frame_bytes"] for g in greetings.values()), default=comm.settings.max_frame_bytes
        ),
        "link": [comm.settings.link.latency, comm.settings.link.bandwidth],
    }
    return json.dumps(agreed).encode()


def _read_agreement(comm: Communicator, blob: bytes) -> dict[str, Any]:
    name = comm.roster.name(ACTIVE)
    try:
        agreed: dict[str, Any] = dict(json.loads(blob))
        protocol, attempt, limit = agreed["protocol"], agreed["attempt"], agreed["max_frame_bytes"]
        agreed["link"] = Link(*agreed["link"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError, SettingsError):
        raise HandshakeError(f"{name} sent an agreement that cannot be read", "damaged", "agreement", name) from None
    mine = comm.settings
    sound = protocol in PROTOCOLS and _is_number(attempt, 1) and _is_number(limit, SMALLEST_FRAME)
    if not sound or attempt < mine.attempt or limit > mine.max_frame_bytes:
        values = f"protocol {protocol!r:.50}, attempt {attempt!r:.50}, frames of {limit!r:.50} bytes"
        text = f"{name} chose values that {comm.roster.name(comm.role)} did not offer: {values}"
        raise HandshakeError(text, parameter="agreement", value=name)
    return agreed


def _receive_greeting(comm: Communicator, peer: int) -> tuple[dict[str, Any], bytes]:
    """Return a peer's greeting, checked, and what came with it."""
    arrays, alien = comm.receive_greeting(peer)
    if len(arrays) != 2:
        raise _unreadable(comm.roster.name(peer))
    greeting = _check(comm, peer, arrays[0].tobytes())  # which names what differs, if something does
    if alien is not None:
        raise alien
    return greeting, arrays[1].tobytes()


def _receive(comm: Communicator, peer: int, count: int) -> list[bytes]:
    arrays = comm.receive(peer, Kind.HELLO)
    if len(arrays) != count:
        raise _unreadable(comm.roster.name(peer))
    return [array.tobytes() for array in arrays]


def _pieces(comm: Communicator, blob: bytes, length: int) -> list[bytes]:
    if len(blob) != length * comm.roster.size:
        text = f"{comm.roster.name(ACTIVE)} sent something else than the {length * comm.roster.size} bytes expected"
        raise HandshakeError(text, parameter="greetings")
    return [blob[i : i + length] for i in range(0, len(blob), length)]


def _unreadable(name: str) -> HandshakeError:
    return HandshakeError(f"{name} sent a greeting that cannot be read", "damaged", "greeting", name)


def _is_number(value: Any, least: int) -> bool:
    return type(value) is int and least <= value < 1 << 62


def _is_hex(text: Any, length: int) -> bool:
    try:
        return isinstance(text, str) and len(bytes.fromhex(text)) == length
    except ValueError:
        return False


def _octets(blob: bytes) -> Array:
    return np.frombuffer(blob, np.uint8)


# Before the handshake: the active participant tells every role what it proposes, and an inquiry is agreed to.

T = TypeVar("T")


def propose(
    transport: Transport,
    roster: Roster,
    role: int,
    session: SessionSettings,
    wait: float,
    mine: npt.NDArray[np.uint8] | None,
    decide: Callable[[Sequence[Array]], T | None],
) -> T | None:
    """Return what `decide` makes of the bytes that the active participant proposes, `mine` in its own run.

    If that is None, all roles agree before they end. What `decide` raises stops the roles, who are told.
    """
    comm = Communicator(transport, roster, role, session, Meter(), wait)
    comm.advance("proposal")
    try:
        if mine is not None:
            comm.send([role for role in roster.roles if role != ACTIVE], [mine], Kind.HELLO)
        decided = decide(_hear(comm) if mine is None else [mine])
        if decided is None:
            _agree(comm)
    except BaseException as error:
        comm.abort(error)
        raise
    return decided


def _hear(comm: Communicator) -> Sequence[Array]:
    try:
        arrays, alien = comm.receive_greeting(ACTIVE)
    except OutOfStepError:
        arrays, alien = (), AlienFrameError()
    if alien is not None:
        name = comm.roster.name(ACTIVE)
        text = f"{name} proposed nothing; give all roles the same federation name and the same version of mpfedxgb"
        raise HandshakeError(text, "version", "proposal", name)
    return arrays


def _agree(comm: Communicator) -> None:
    """Tell the active participant that this role agrees, and wait until all do."""
    others = [role for role in comm.roster.roles if role != ACTIVE]
    if comm.role == ACTIVE:
        for role in others:
            comm.receive(role, Kind.HELLO)
        comm.advance("agreed")
        comm.send(others, [], Kind.HELLO)
        return
    comm.send([ACTIVE], [], Kind.HELLO)
    comm.advance("agreed")
    comm.receive(ACTIVE, Kind.HELLO)
