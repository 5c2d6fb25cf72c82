"""Secrets and shares: what is local, what is refused."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from mpfedxgb.errors import DoesNotFitError, SecretError
from mpfedxgb.party import Party, run_locally
from mpfedxgb.protocols import Secret, Shares, add_public, public_secret, public_shares, to_shares
from mpfedxgb.protocols.secret import concatenate, concatenate_shares, reduced, stack
from mpfedxgb.ring import BIT, PACKED, VECTOR, Ring, RingArray, wide
from support.evaluation import (
    PARTICIPANTS,
    PROPERTY,
    RINGS,
    SEEDS,
    TINY,
    Operand,
    cases,
    evaluate,
    evaluate_each,
    integers,
    operand,
    same,
    wrapped,
)
from support.refusals import refused

Operator = Callable[[Any, Any], Any]

OPERATORS: dict[str, Operator] = {
    "x + y": lambda x, y: x + y,
    "x - y": lambda x, y: x - y,
    "-x": lambda x, y: -x,
    "x + 7": lambda x, y: x + 7,
    "7 + x": lambda x, y: 7 + x,
    "x - 7": lambda x, y: x - 7,
    "7 - x": lambda x, y: 7 - x,
    "3 x": lambda x, y: 3 * x,
    "x (-5)": lambda x, y: x * -5,
    "x 0": lambda x, y: x * 0,
    "x 2^70": lambda x, y: x * (1 << 70),
    "x - 2^300": lambda x, y: x - (1 << 300),
    "together": lambda x, y: 2 * (x - y) - (-y + 1) * 9 - x,
}

SHAPERS: dict[str, Callable[[Any], Any]] = {
    "first": lambda x: x[0],
    "one": lambda x: x[1, 2, 3],
    "last axis": lambda x: x[..., -1],
    "slice": lambda x: x[:, 1:, ::2],
    "picked": lambda x: x[..., np.array([2, 0, 2])],
    "picked in front": lambda x: x[np.array([1])],
    "new axis": lambda x: x[:, None],
    "none of it": lambda x: x[:0],
    "sum of the first axis": lambda x: x.sum(0),
    "sum of the middle axis": lambda x: x.sum(1),
    "sum of the last axis": lambda x: x.sum(-1),
    "sum of nothing": lambda x: x[:0].sum(0),
    "flat": lambda x: x.reshape(-1),
    "reshaped": lambda x: x.reshape(4, -1, 2),
}

BLOCK = integers(np.arange(24) ** 9 - 10**9, (2, 3, 4))


def encoded(ring: Ring, values: Any) -> RingArray:
    """Return integers modulo a ring, however large."""
    return RingArray.encode(ring, wrapped(ring, values))


def some_secret() -> Secret:
    """Return one role's part of a secret."""
    values = RingArray.encode(VECTOR, [123456789, 987654321])
    return Secret(values, values)


def some_shares() -> Shares:
    """Return one role's shares."""
    return Shares(RingArray.encode(VECTOR, [123456789, 987654321]))


GUARDED = pytest.mark.parametrize("guarded", [some_secret(), some_shares()], ids=["Secret", "Shares"])


@pytest.mark.parametrize("participants", PARTICIPANTS)
@given(seed=SEEDS)
@PROPERTY
def test_operators_are_those_of_integers(participants: int, seed: int) -> None:
    """Every operator does to a secret what Python does to integers, modulo the ring."""
    batch = cases(seed, (*RINGS, *TINY), 2)

    results = evaluate_each(
        participants, batch, lambda party, x, y: stack([operator(x, y) for operator in OPERATORS.values()])
    )

    for (x, y), result in zip(batch, results, strict=True):
        same(result, x.ring, np.stack([integers(operator(x.values, y.values)) for operator in OPERATORS.values()]))


@pytest.mark.parametrize("participants", PARTICIPANTS)
@given(seed=SEEDS)
@PROPERTY
def test_shares_compute_like_integers(participants: int, seed: int) -> None:
    """Shares are added, subtracted, negated and scaled by an integer or by values that the participants know."""
    batch = cases(seed, (*RINGS, *TINY), 2)

    def compute(party: Party, x: Secret, y: Secret) -> Shares:
        a, b = to_shares(party, x), to_shares(party, y)
        factor = encoded(x.ring, np.full(x.shape, -3, object))
        return 2 * (a - b) + (-a) * 5 - b * factor

    results = evaluate_each(participants, batch, compute)

    for (x, y), result in zip(batch, results, strict=True):
        same(result, x.ring, 2 * (x.values - y.values) - 5 * x.values + 3 * y.values)


@pytest.mark.parametrize("participants", PARTICIPANTS)
@given(seed=SEEDS)
@PROPERTY
def test_secrets_are_scaled_by_numbers_that_all_know(participants: int, seed: int) -> None:
    """One factor per element, known to the coordinator too, who scales the mask; shapes broadcast."""
    rng = np.random.default_rng(seed)
    batch = cases(seed, (*RINGS, *TINY))
    factors = [integers(rng.integers(-9, 10, x.values.shape), x.values.shape) for (x,) in batch]

    def compute(party: Party, secrets: list[Secret]) -> list[Secret]:
        return [x.scaled(encoded(x.ring, f)) for x, f in zip(secrets, factors, strict=True)]

    results = evaluate(participants, [x for (x,) in batch], compute).values

    for (x,), factor, result in zip(batch, factors, results, strict=True):
        same(result, x.ring, x.values * factor)


def test_scaling_broadcasts() -> None:
    """A factor per column serves all rows."""

    def compute(party: Party, secrets: list[Secret]) -> list[Secret]:
        return [secrets[0].scaled(encoded(VECTOR, [2, -3, 0, 1 << 40]))]

    (result,) = evaluate(2, [Operand(VECTOR, wrapped(VECTOR, BLOCK))], compute).values
    same(result, VECTOR, BLOCK * integers([2, -3, 0, 1 << 40]))


@pytest.mark.parametrize("name", SHAPERS)
def test_slices_sums_and_shapes_are_those_of_numpy(name: str) -> None:
    """Indexing, reshaping and summing work along logical axes, on secrets and on shares."""
    shaper = SHAPERS[name]
    batch = [(Operand(ring, wrapped(ring, BLOCK)),) for ring in (*RINGS, *TINY)]

    secrets = evaluate_each(2, batch, lambda party, x: shaper(x))
    shares = evaluate_each(3, batch, lambda party, x: shaper(to_shares(party, x)))

    for (x,), first, second in zip(batch, secrets, shares, strict=True):
        same(first, x.ring, shaper(x.values))
        same(second, x.ring, shaper(x.values))


@pytest.mark.parametrize("target", [VECTOR, *TINY], ids=str)
@given(seed=SEEDS)
@PROPERTY
def test_reduced_secrets_are_those_of_the_narrower_ring(seed: int, target: Ring) -> None:
    """Whatever its ring, a secret modulo a narrower one, or its own, is the number modulo that."""
    batch = cases(seed, [ring for ring in (*RINGS, *TINY) if ring.bits >= target.bits])

    results = evaluate_each(3, batch, lambda party, x: reduced(x, target))

    for (x,), result in zip(batch, results, strict=True):
        same(result, target, x.values)


@pytest.mark.parametrize(("ring", "target"), [(VECTOR, wide(2)), (Ring(8), Ring(9)), (VECTOR, BIT), (PACKED, BIT)])
def test_only_to_a_narrower_ring_a_secret_is_reduced(ring: Ring, target: Ring) -> None:
    """A wider ring takes a lift, and bits are no numbers."""
    with refused(DoesNotFitError, "range", "ring"):
        reduced(Secret(RingArray.zeros(ring, (2,)), RingArray.zeros(ring, (2,))), target)


@pytest.mark.parametrize("ring", [*RINGS, *TINY], ids=str)
def test_joining_and_broadcasting_are_those_of_numpy(ring: Ring) -> None:
    """Secrets are concatenated, stacked and broadcast along logical axes; shares are concatenated."""
    x, y = wrapped(ring, BLOCK), wrapped(ring, 3 - BLOCK[:, :, :2])

    def compute(party: Party, secrets: list[Secret]) -> list[Secret | Shares]:
        a, b = secrets
        return [
            concatenate([a, b, a]),
            concatenate([a, a], axis=0),
            concatenate([a, a[:, :0]], axis=1),
            stack([a, a]),
            stack([a, -a, a], axis=-1),
            a[0].broadcast_to((5, 3, 4)),
            a[0, 0, 0].broadcast_to((2, 2)),
            a[..., :1] + b,
            a[0, 0, 0] + encoded(ring, [7, -8, 9]),
            a[:, :1, :1] - encoded(ring, [7, -8, 9]),
            concatenate_shares([to_shares(party, a), to_shares(party, b)]),
        ]

    expected = [
        np.concatenate([x, y, x], axis=-1),
        np.concatenate([x, x]),
        x,
        np.stack([x, x]),
        np.stack([x, -x, x], axis=-1),
        np.broadcast_to(x[0], (5, 3, 4)),
        np.full((2, 2), x[0, 0, 0]),
        x[..., :1] + y,
        x[0, 0, 0] + integers([7, -8, 9]),
        x[:, :1, :1] - integers([7, -8, 9]),
        np.concatenate([x, y], axis=-1),
    ]

    values = evaluate(3, [Operand(ring, x), Operand(ring, y)], compute).values

    for value, right in zip(values, expected, strict=True):
        same(value, ring, right)


@pytest.mark.parametrize("participants", PARTICIPANTS)
@given(seed=SEEDS)
@PROPERTY
def test_public_values_join_in(participants: int, seed: int) -> None:
    """A value all roles know is added as it is, as a secret with mask zero, or as shares of the participants."""
    batch = cases(seed, (*RINGS, *TINY))

    def compute(party: Party, x: Secret) -> Shares:
        known = encoded(x.ring, np.full(x.shape, 11, object))
        shifted = (known - (x + known)) + (known + public_secret(party, x.ring, known.decode())) - known
        return to_shares(party, shifted) - public_shares(party, known)

    results = evaluate_each(participants, batch, compute)

    for (x,), result in zip(batch, results, strict=True):
        same(result, x.ring, -x.values)


@pytest.mark.parametrize("public_share", [0, 1, 3])
def test_public_terms_are_multiplied_by_the_public_share(public_share: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever share of public terms a role has, it adds that much of them; a term that counts 0 is not computed."""
    monkeypatch.setattr(Party, "public_share", public_share)
    term, part, computed = RingArray.encode(VECTOR, [5, 7]), RingArray.encode(VECTOR, [1, 2]), []

    def program(party: Party) -> list[list[int]] | None:
        def public() -> RingArray:
            computed.append(party.role)
            return term

        parts = [add_public(party, part, public), public_shares(party, term).part]
        parts.append(to_shares(party, Secret(term, part)).part)
        return None if party.is_symbolic else [[int(v) for v in one.decode()] for one in parts]

    results = run_locally(program, 2).results[1:]

    times = [public_share * value for value in (5, 7)]
    assert results == [[[times[0] + 1, times[1] + 2], times, [times[0] - 1, times[1] - 2]]] * 2
    assert bool(computed) == (public_share > 0)


@pytest.mark.parametrize("ring", [BIT, PACKED], ids=str)
def test_bits_add_by_exclusive_or(ring: Ring) -> None:
    """In a ring of bits, plus and minus are XOR, and an even factor is zero."""
    rng = np.random.default_rng(1)
    x, y = rng.integers(0, 1 << ring.bits, (2, 50))

    def compute(party: Party, secrets: list[Secret]) -> list[Secret]:
        a, b = secrets
        return [a + b, a - b, -a, a + 1, a.sum()]

    values = evaluate(3, [operand(ring, x), operand(ring, y)], compute).values

    for value, right in zip(values, [x ^ y, x ^ y, x, x ^ 1, np.bitwise_xor.reduce(x)], strict=True):
        same(value, ring, right)


def test_local_means_that_nothing_is_sent() -> None:
    """Operators, joins and conversions cost no round, no byte, no dealer's byte and reveal nothing."""

    def compute(party: Party, secrets: list[Secret]) -> list[Secret | Shares]:
        x = secrets[0]
        y = (-x * 3 + 4)[..., ::2].sum() - public_secret(party, VECTOR, [1, 2])
        return [concatenate([y, stack([y, y])[0]]).reshape(2, 2), to_shares(party, y) * 2]

    evaluation = evaluate(3, [operand(VECTOR, np.arange(8).reshape(2, 4))], compute)

    for counts, reveals in zip(evaluation.costs, evaluation.reveals, strict=True):
        assert (counts.rounds, counts.messages, counts.dealer_bytes, counts.products) == (0, {}, 0, 0)
        assert reveals == ()


@GUARDED
def test_repr_shows_ring_and_shape_only(guarded: Secret | Shares) -> None:
    """Neither repr, str nor format shows a digit of the content."""
    expected = f"{type(guarded).__name__}(Z_2^64, shape=(2,))"

    assert [repr(guarded), str(guarded), f"{guarded}", f"{guarded!r}"] == [expected] * 4


@GUARDED
@pytest.mark.parametrize(
    "look",
    [
        bool,
        list,
        pickle.dumps,
        copy.copy,
        copy.deepcopy,
        lambda x: x == x,
        lambda x: x != x,
        lambda x: x == 0,
        lambda x: 0 if x else 1,
        lambda x: x and 1,
    ],
    ids=["bool", "list", "pickle", "copy", "deepcopy", "==", "!=", "== 0", "if", "and"],
)
def test_looking_at_a_secret_is_refused(guarded: Secret | Shares, look: Callable[[Any], object]) -> None:
    """Whatever would test, compare, loop over or copy out a secret raises SecretError."""
    with pytest.raises(SecretError):
        look(guarded)


@GUARDED
def test_a_secret_is_no_number_and_no_key(guarded: Secret | Shares) -> None:
    """Conversion to a number, ordering and hashing are type errors."""
    looks: list[Callable[[Any], object]] = [int, float, hash, len, lambda x: x < x, lambda x: 1 in x]
    for look in looks:
        with pytest.raises(TypeError):
            look(guarded)


@pytest.mark.parametrize(
    "factor",
    [0.123456, np.int64(123456), np.array([123456, 123456]), "123456", None, some_secret(), some_secret().masked],
    ids=["float", "NumPy integer", "array", "text", "None", "Secret", "RingArray"],
)
def test_only_integers_scale_a_secret(factor: Any) -> None:
    """A product with anything but an int is refused, from either side, and the message does not repeat the value."""
    scales: list[Callable[[], object]] = [lambda: some_secret() * factor, lambda: factor * some_secret()]
    for scale in scales:
        with refused(SecretError, "type", "factor") as refusal:
            scale()
        assert "123456" not in str(refusal.value)


def test_numpy_arrays_do_not_swallow_secrets() -> None:
    """An array plus a secret is an error, never an array of secrets."""
    numbers = np.array([1, 2])
    sums: list[Callable[[Any], object]] = [lambda x: numbers + x, lambda x: x + numbers, lambda x: np.float64(1) - x]
    for add in sums:
        with pytest.raises(TypeError):
            add(some_secret())


def test_rings_do_not_mix() -> None:
    """Adding secrets of two rings is refused by name."""
    other = RingArray.encode(wide(2), [1, 2])

    with refused(DoesNotFitError, "mismatch", "ring"):
        some_secret() + Secret(other, other)


def test_public_integers_must_fit() -> None:
    """A public value outside the ring is refused, not wrapped."""
    with refused(DoesNotFitError, "range", "Z_2^64"):
        evaluate(2, [], lambda party, secrets: [public_secret(party, VECTOR, [1 << 64])])
