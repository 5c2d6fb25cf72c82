"""The kernels of gains, with shares of two roles added up, against Python integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpfedxgb.ring.planes import fraction_masks, fraction_parts, lift_words
from support.wide_words import random_words, to_integers, two_shares

LIMBS = pytest.mark.parametrize("limbs", [2, 3, 4])
NODES, COLUMNS = 2, 3


@LIMBS
def test_lifted_words(limbs: int) -> None:
    """A number below 2^63 under a mask of 64 bits, wrapped around or not, is the number in the wide ring."""
    rng, offset = np.random.default_rng(limbs), 1 << 62
    numbers, mask = random_words(rng, 50) >> np.uint64(1), random_words(rng, 50)
    y = numbers + mask
    wide, wrap = np.zeros((2, 50, limbs), np.uint64)
    wide[:, 0], wrap[:, 1] = mask, mask >> np.uint64(63)
    total: Any = 0
    for active, r, w in zip((1, 0), two_shares(rng, wide), two_shares(rng, wrap), strict=True):
        out = np.zeros((50, limbs), np.uint64)
        lift_words(y, r, w, active, offset, out)
        total = total + to_integers(out)

    assert (total % (1 << (64 * limbs))).tolist() == [(int(n) - offset) % (1 << (64 * limbs)) for n in numbers]


@LIMBS
@pytest.mark.exhaustive
def test_fractions_of_all_candidates(limbs: int) -> None:
    """The parts of two participants and what is dealt add up to A and B, and to A of "no split"."""
    rng = np.random.default_rng(limbs)
    masked, mask = (random_words(rng, NODES, 2, COLUMNS + 1, limbs) for _ in range(2))
    constants, constant_masks = random_words(rng, 2, 1, limbs), random_words(rng, 2, 1, limbs)
    pairs, lacking = random_words(rng, 4, NODES, COLUMNS, limbs), random_words(rng, 2, NODES, COLUMNS, limbs)
    whole = random_words(rng, NODES, limbs)
    fraction_masks(mask, constant_masks[0], constant_masks[1], pairs, lacking, whole)
    found, none = to_integers(lacking), to_integers(whole)
    parts = zip((1, 0), two_shares(rng, mask), two_shares(rng, constant_masks), two_shares(rng, pairs), strict=True)
    for active, own, own_constants, own_pairs in parts:
        out, alone = np.zeros((2, NODES, COLUMNS, limbs), np.uint64), np.zeros((NODES, limbs), np.uint64)
        lam, gam = (np.stack([constants[i], own_constants[i]]) for i in (0, 1))
        fraction_parts(masked, own, lam, gam, own_pairs, active, out, alone)
        found, none = found + to_integers(out), none + to_integers(alone)

    values, modulus = to_integers(masked) - to_integers(mask), 1 << (64 * limbs)
    plain_lam, plain_gam = (int(x) for x in (to_integers(constants) - to_integers(constant_masks)).ravel())
    for n in range(NODES):
        (*left, G), (*heavy, H) = values[n]
        for c, (GL, HL) in enumerate(zip(left, heavy, strict=True)):
            GR, HL, HR = G - GL, HL + plain_lam, H - HL + plain_lam
            assert found[0, n, c] % modulus == (GL * GL * HR + GR * GR * HL) % modulus
            assert found[1, n, c] % modulus == HL * HR % modulus
        assert none[n] % modulus == (G * G + plain_gam * (H + plain_lam)) % modulus
