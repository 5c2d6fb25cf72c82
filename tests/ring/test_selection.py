"""The wide kernels of a tournament, with shares of two roles added up, against Python integers."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from mpfedxgb.ring.row_kernels import choose_members, chosen_masks, cross_differences
from support.wide_words import random_words, to_integers, to_words, two_shares

LIMBS = pytest.mark.parametrize("limbs", [1, 2, 3, 4])
GROUPS = 5


@LIMBS
@pytest.mark.parametrize("size", [2, 3, 5])
def test_cross_differences(size: int, limbs: int) -> None:
    """The parts of an active and an auxiliary participant, and the dealt products, add up to A_i B_j - A_j B_i."""
    rng, modulus = np.random.default_rng(size), 1 << (64 * limbs)
    pairs = np.array(list(combinations(range(size), 2)), np.int64)
    masked, mask = random_words(rng, 2, GROUPS * size, limbs), random_words(rng, 2, GROUPS * size, limbs)
    out = np.zeros((3, GROUPS, len(pairs), limbs), np.uint64)
    one, two = two_shares(rng, mask)
    cross_differences(pairs, masked, one, 1, out[0])
    cross_differences(pairs, masked, two, 0, out[1])
    cross_differences(pairs, masked, mask, -1, out[2])

    total = to_integers(out).sum(axis=0)
    A, B = (to_integers(masked) - to_integers(mask)).reshape(2, GROUPS, size)
    for g in range(GROUPS):
        for p, (i, j) in enumerate(pairs):
            expected = A[g, i] * B[g, j] - A[g, j] * B[g, i]
            assert total[g, p] % modulus == expected % modulus


@LIMBS
@pytest.mark.parametrize(("size", "chosen"), [(2, 1), (2, 2), (4, 3), (4, 4)])
@pytest.mark.exhaustive
def test_members_are_chosen(size: int, chosen: int, limbs: int) -> None:
    """One role alone: the member whose bit is 1; without one the first member or, if that has a bit too, neutral."""
    rng, modulus = np.random.default_rng(size), 1 << (64 * limbs)
    value, mask = random_words(rng, 1, GROUPS * size, limbs), random_words(rng, 1, GROUPS * size, limbs)
    masked = to_words(to_integers(value) + to_integers(mask), limbs)
    winners = np.array([-1, 0, 1, size - 1, -1])[:GROUPS] - (size - chosen)
    bits = (np.arange(chosen)[:, None] == winners).astype(np.uint8)
    rho = rng.integers(0, 2, (chosen, GROUPS), np.uint8)
    alone = np.zeros((GROUPS, chosen, limbs), np.uint64)
    alone[..., 0] = rho.T
    with_mask = np.empty((1, GROUPS, chosen, limbs), np.uint64)
    chosen_masks(rho, mask, with_mask)
    out = np.zeros((1, GROUPS, limbs), np.uint64)
    choose_members(bits ^ rho, masked, mask, alone, with_mask, 1, np.array([-1]), out)

    numbers = to_integers(value).reshape(GROUPS, size)
    for g, winner in enumerate(winners + (size - chosen)):
        nobody = -1 if chosen == size else numbers[g, 0]
        expected = numbers[g, winner] if winner >= size - chosen else nobody
        assert to_integers(out)[0, g] % modulus == expected % modulus
