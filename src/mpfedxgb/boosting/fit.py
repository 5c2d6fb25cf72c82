"""SecureFit: the gradients of a round are shared, and its trees grow from them (Algorithm 2)."""

from __future__ import annotations

import numpy as np

from mpfedxgb.boosting import scales
from mpfedxgb.boosting.sampling import column_sample
from mpfedxgb.boosting.sealed.round import sealed_gradients
from mpfedxgb.boosting.setup import Setup
from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.protocols.bits import Bit, share_bit
from mpfedxgb.protocols.rows import RowVectors, masked_by
from mpfedxgb.protocols.secret import Secret, concatenate, public_secret
from mpfedxgb.protocols.share import share_together
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.ring import BIT, PACKED, VECTOR
from mpfedxgb.tree.grow import Grown, grow
from mpfedxgb.tree.level import Constants, Level, Round


def secure_fit(party: Party, setup: Setup, t: int) -> Grown:
    """Return this role's view of the trees of round t: one, or one per class."""
    trees = setup.params.trees_per_round
    s = public_secret(party, PACKED, np.full((trees, setup.data.sizes.packed), 255, np.uint8))  # 3
    with party.phase("gradients"):
        gh, vectors, constants = _gradients(party, setup, t)  # 4-7
    round_ = Round(str(t), constants, _share_sample(party, setup, t))
    roots = Level([(tree, 0) for tree in range(trees)], s, gh, fresh=vectors)
    return grow(party, setup.data, roots, round_, setup.rules)  # 8-9


def _gradients(party: Party, setup: Setup, t: int) -> tuple[Secret, RowVectors, Constants]:
    """Return g~ and h~ of the round, and the constants at their scales: P_1's, or computed on secrets."""
    if setup.sealed is not None:
        key = "" if setup.mine is None else setup.mine.sample_key
        gh, vectors = sealed_gradients(party, setup.sealed, setup.params.subsample, key, t)
        return gh, vectors, setup.sealed.constants
    gh, constants = _share_gradients(party, setup, t)
    return gh, masked_by(party, ACTIVE, gh), constants


def _share_gradients(party: Party, setup: Setup, t: int) -> tuple[Secret, Constants]:
    """Share g~ and h~ of the round, (trees, 2, rows), and lambda~, gamma~ and min_child_weight~ at their scales.

    All of it is the active participant's secret, in one message; the constants are public where the scales are.
    """
    ring, shape = setup.rules.ring, (setup.params.trees_per_round, 2, setup.data.sizes.rows)
    values = None
    if setup.active is not None:  # 4
        values = [RingArray.encode(VECTOR, setup.active.integers(t))]  # 5
    known = scales.public_scale(setup.params, setup.plan, setup.data.sizes.rows)
    if known is not None:
        (gh,) = share_together(party, ACTIVE, [(VECTOR, shape)], values)  # 6
        public = scales.constants_of(ring, known)
        return gh, Constants(*(public_secret(party, r, np.array(v, object)) for r, v in public))
    if values is not None and setup.active is not None:
        values += [RingArray.encode(r, np.array(v, object)) for r, v in scales.constants_of(ring, setup.active.scale)]
    specs = [(VECTOR, shape), *((r, ()) for r, _ in scales.constants_of(ring, scales.UNKNOWN))]
    gh, *constants = share_together(party, ACTIVE, specs, values)  # 6
    return gh, Constants(*constants)


def _share_sample(party: Party, setup: Setup, t: int) -> Bit | None:
    """Share which candidates take part in each tree of the round; every owner samples its own features, in private."""
    params, sizes, candidates = setup.params, setup.data.sizes, setup.data.candidates
    if params.colsample_bytree == 1 or not sizes.owners:  # nobody may have anything to split by
        return None
    pieces = []
    for owner in sizes.owners:
        bits = None
        if party.role == owner and candidates is not None and setup.mine is not None:
            bits = RingArray.encode(BIT, column_sample(party, params, candidates, setup.mine.sample_key, t))
        shape = (params.trees_per_round, sizes.columns[owner - 1])
        pieces.append(share_bit(party, owner, shape, bits).secret)
    return Bit(concatenate(pieces), owned=True)
