"""Run protocols on known integers: share, compute, reveal; and see what it cost each role.

Operands enter under both kinds of mask, an owner's alone and everyone's, and all of a ring in one message, so that one
run evaluates many cases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st

from mpfedxgb.config import SessionSettings
from mpfedxgb.party import ALL, Counts, LocalRun, Party, Reveal, run_locally
from mpfedxgb.protocols import Secret, Shares, open_masked, reveal, share, to_shares
from mpfedxgb.protocols.secret import concatenate_shares
from mpfedxgb.ring import BIT, VECTOR, Ring, RingArray, wide
from mpfedxgb.ring.ring import Shape
from patience import patience
from support.names import unlisted

Integers = npt.NDArray[Any]
"""Python integers in an array of objects."""

T = TypeVar("T")

PARTICIPANTS = (2, 3, 5, 8)
WIDE = (wide(2), wide(3), wide(4))
RINGS = (VECTOR, *WIDE)
TINY = (Ring(3), Ring(8), Ring(13))
SHAPES: tuple[Shape, ...] = ((), (0,), (1,), (17,), (2, 0, 3), (2, 3, 4))

DRAWN = settings(max_examples=10)
"""How tests of drawn integers run; a failure is reduced to its smallest example."""

PROPERTY = settings(DRAWN, max_examples=3, phases=[Phase.explicit, Phase.reuse, Phase.generate])
"""How tests of seeds run: few, each a batch of all rings and shapes; a failure prints its seed, as it is."""

SEEDS = st.integers(0, 2**32 - 1)
"""Seeds of test data; what protects a secret comes from elsewhere."""


@dataclass(frozen=True, slots=True)
class Operand:
    """Integers that enter a computation as a secret."""

    ring: Ring
    values: Integers


Case = tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Results, as every participant saw them; and per role, the coordinator first, what they cost and revealed."""

    values: list[Integers]
    costs: list[Counts]
    reveals: list[tuple[Reveal, ...]]


Compute = Callable[[Party, list[Secret]], Sequence[Secret | Shares]]


def integers(values: npt.ArrayLike, shape: Shape | None = None) -> Integers:
    """Return Python integers in an array of objects."""
    array = np.array(np.asarray(values, object))
    return array if shape is None else array.reshape(shape)


def operand(ring: Ring, values: npt.ArrayLike) -> Operand:
    """Return integers as an operand."""
    return Operand(ring, integers(values))


def wrapped(ring: Ring, values: npt.ArrayLike) -> Integers:
    """Return integers as a ring decodes them: signed, or unsigned where it holds bits."""
    array, modulus = integers(values), 1 << ring.bits
    half = 0 if ring.bitwise or ring.bits == 1 else modulus // 2
    flat = [(int(v) + half) % modulus - half for v in array.flat]
    return integers(flat, array.shape)


def assert_identical(actual: npt.NDArray[Any], expected: npt.NDArray[Any]) -> None:
    """Fail unless shape, type and content are those expected; NumPy's own check is slower, and words the failure."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype or not np.array_equal(actual, expected):
        np.testing.assert_array_equal(actual, expected, strict=True)
        pytest.fail(f"{actual!r} is not {expected!r}")


def same(actual: Integers, ring: Ring, expected: npt.ArrayLike) -> None:
    """Fail unless shape and content are those expected, modulo the ring."""
    assert_identical(actual, wrapped(ring, expected))


def extremes(bits: int) -> list[int]:
    """Return the edges of the integers |x| < 2^bits."""
    top = (1 << bits) - 1
    return sorted({0, 1, -1, top, -top, top - 1, 1 - top, (top + 1) // 2, -((top + 1) // 2)})


def numbers(bits: int) -> st.SearchStrategy[int]:
    """Draw integers |x| < 2^bits, the edges often."""
    top = (1 << bits) - 1
    return st.one_of(st.sampled_from(extremes(bits)), st.integers(-top, top))


def bulk(rng: np.random.Generator, bits: int, shape: Shape) -> Integers:
    """Return integers |x| < 2^bits: a quarter of them edges, the others of any length."""
    edges = extremes(bits)
    size = int(np.prod(shape, dtype=int))
    lengths, choices = rng.integers(0, bits + 1, size), rng.integers(0, 4 * len(edges), size)
    signs = rng.choice([-1, 1], size)
    blob = rng.bytes(32 * size)
    values = []
    for i in range(size):
        number = int.from_bytes(blob[32 * i : 32 * i + 32], "little") % (1 << int(lengths[i]))
        values.append(edges[choices[i]] if choices[i] < len(edges) else int(signs[i]) * number)
    return integers(values, shape)


def residues(rng: np.random.Generator, ring: Ring, shape: Shape) -> Integers:
    """Return any elements of a ring, among them the most negative one."""
    if ring.bitwise:
        return integers(rng.integers(0, 1 << ring.bits, shape), shape)
    values = bulk(rng, ring.bits - 1, shape)
    values[rng.random(shape) < 1 / 16] = -(1 << (ring.bits - 1))
    return values


def cases(
    seed: int,
    rings: Sequence[Ring],
    count: int = 1,
    bits: Callable[[Ring], int] | None = None,
    shapes: Sequence[Shape] = SHAPES,
    gates: int = 0,
) -> list[Case]:
    """Return, for every ring and every shape, `gates` bits and `count` operands (of |x| < 2^bits(ring), if given)."""
    rng = np.random.default_rng(seed)
    batch = []
    for ring in rings:
        for shape in shapes:
            drawn = [Operand(BIT, residues(rng, BIT, shape)) for _ in range(gates)]
            for _ in range(count):
                values = residues(rng, ring, shape) if bits is None else bulk(rng, bits(ring), shape)
                drawn.append(Operand(ring, values))
            batch.append(tuple(drawn))
    return batch


def run_patiently(program: Callable[[Party], T], participants: int, **settings: Any) -> LocalRun[T]:
    """Run all roles as threads; a program that hangs fails within minutes, on the slowest machine."""
    return run_locally(program, participants, settings=SessionSettings(deadline=patience(60.0), **settings))


def evaluate(participants: int, operands: Sequence[Operand], compute: Compute, **settings: Any) -> Evaluation:
    """Share the operands, compute on them, reveal the results; check that all roles hold parts of the same secrets."""

    def program(party: Party) -> tuple[list[Integers] | None, tuple[Reveal, ...], list[Secret]]:
        with party.phase("enter"):
            secrets = _enter(party, operands)
        with party.phase("compute"):
            results = list(compute(party, secrets))
        reveals = tuple(party.ledger)
        with party.phase("leave"):
            return _leave(party, results), reveals, [x for x in results if isinstance(x, Secret)]

    run = run_patiently(program, participants, **settings)
    assert all(a == b for a, b in zip(run.ledgers, run.ledgers[1:], strict=False)), "all roles keep the same ledger"
    check_masks([secrets for _, _, secrets in run.results])
    views = [values for values, _, _ in run.results[1:] if values is not None]
    for view in views[1:]:
        for mine, theirs in zip(views[0], view, strict=True):
            assert_identical(mine, theirs)
    costs = [meter.total("compute") for meter in run.meters]
    return Evaluation(views[0], costs, [reveals for _, reveals, _ in run.results])


def check_masks(secrets: Sequence[Sequence[Secret]]) -> None:
    """Fail unless the participants agree on every masked value, and their shares of its mask add up to the whole.

    One sequence of secrets per role, the coordinator's first; it holds the whole masks.
    """
    for whole, *parts in zip(*secrets, strict=True):
        assert whole.masked.is_hidden
        total = RingArray.zeros(whole.ring, whole.shape)
        for part in parts:
            total = total + part.mask
            assert_identical(part.masked.data, parts[0].masked.data)
        assert_identical(total.data, whole.mask.data)


def evaluate_each(
    participants: int, batch: Sequence[Case], function: Callable[..., Secret | Shares], **arguments: object
) -> list[Integers]:
    """Return function(party, *operands) of every case, all in one run."""

    def compute(party: Party, secrets: list[Secret]) -> list[Secret | Shares]:
        rest = iter(secrets)
        return [function(party, *(next(rest) for _ in case), **arguments) for case in batch]

    return evaluate(participants, [x for case in batch for x in case], compute).values


def enter(party: Party, owner: int, x: Operand) -> Secret:
    """Share one operand; only its owner uses the values."""
    values = RingArray.encode(x.ring, x.values)
    return share(party, owner, x.ring, values.shape, values if party.role == owner else None)


def _enter(party: Party, operands: Sequence[Operand]) -> list[Secret]:
    """Share all operands of a ring in one message; mask some of them anew, by all participants together."""
    secrets: dict[int, Secret] = {}
    for j, ring in enumerate(dict.fromkeys(x.ring for x in operands)):
        for joint in (False, True):
            chosen = [i for i, x in enumerate(operands) if x.ring == ring and (i % 5 in (2, 3)) == joint]
            if not chosen:
                continue
            flat = np.concatenate([operands[i].values.reshape(-1) for i in chosen])
            whole = enter(party, party.roster.size - j % party.roster.size, Operand(ring, flat))
            if joint:
                party.step("mask anew")
                whole = open_masked(party, to_shares(party, whole))
            start = 0
            for i in chosen:
                values = operands[i].values
                secrets[i] = whole[start : start + values.size].reshape(*values.shape)
                start += values.size
    return [secrets[i] for i in range(len(operands))]


def _leave(party: Party, results: Sequence[Secret | Shares]) -> list[Integers] | None:
    """Reveal all results of a ring in one message; None at the coordinator, who sees nothing."""
    values: dict[int, Integers] = {}
    for ring in dict.fromkeys(x.ring for x in results):
        chosen = [i for i, x in enumerate(results) if x.ring == ring]
        flat = concatenate_shares([_as_shares(party, results[i]).reshape(-1) for i in chosen])
        opened = reveal(party, flat, ALL, unlisted("result"))
        assert opened.is_hidden == party.is_coordinator
        if party.is_coordinator:
            continue
        start = 0
        for i in chosen:
            size = RingArray.hidden(ring, results[i].shape).size
            values[i] = integers(opened[start : start + size].decode(), results[i].shape)
            start += size
    return None if party.is_coordinator else [values[i] for i in range(len(results))]


def _as_shares(party: Party, x: Secret | Shares) -> Shares:
    return to_shares(party, x) if isinstance(x, Secret) else x
