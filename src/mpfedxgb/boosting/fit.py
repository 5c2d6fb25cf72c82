"""SecureFit: the gradients of a round are shared, and its trees grow from them (Algorithm 2)."""

from __future__ import annotations

import numpy as np

from mpfedxgb.boosting import scales
from mpfedxgb.boosting.sampling import column_sample
from mpfedxgb.boosting.setup import Setup
from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.protocols.bits import Bit, share_bit
from mpfedxgb.protocols.secret import Secret, concatenate, public_secret
from mpfedxgb.protocols.share import share
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.ring import BIT, PACKED, VECTOR, Ring
from mpfedxgb.tree.grow import Grown, grow
from mpfedxgb.tree.level import Constants, Level, Round


def secure_fit(party: Party, setup: Setup, t: int) -> Grown:
    """Return this role's view of the trees of round t: one, or one per class."""
    trees = setup.params.trees_per_round
    s = public_secret(party, PACKED, np.full((trees, setup.data.sizes.packed), 255, np.uint8))  # 3
    with party.phase("gradients"):
        gh = _share_gradients(party, setup, t)  # 4-7
        constants = _constants(party, setup)
    round_ = Round(str(t), constants, _share_sample(party, setup, t))
    roots = Level([(tree, 0) for tree in range(trees)], s, gh)
    return grow(party, setup.data, roots, round_, setup.rules)  # 8-9


def _share_gradients(party: Party, setup: Setup, t: int) -> Secret:
    """Share g~ and h~ of the round, (trees, 2, rows), which the active participant computes."""
    values = None
    if setup.active is not None:  # 4
        values = RingArray.encode(VECTOR, setup.active.integers(t))  # 5
    return share(party, ACTIVE, VECTOR, (setup.params.trees_per_round, 2, setup.data.sizes.rows), values)  # 6


def _constants(party: Party, setup: Setup) -> Constants:
    """Return lambda~, gamma~ and min_child_weight~: public where the scales are, or else the active one's secrets."""
    plan, ring = setup.plan, setup.rules.ring
    if plan.f_g is not None and plan.f_h is not None:
        known = scales.scale(setup.params, plan, setup.data.sizes.rows, plan.f_g, plan.f_h)
        return Constants(
            lam=public_secret(party, ring, np.array(known.lam, object)),
            gam=public_secret(party, ring, np.array(known.gam, object)),
            mcw=public_secret(party, VECTOR, np.array(known.mcw, object)),
        )
    own = None if setup.active is None else setup.active.scale
    return Constants(
        lam=_share_number(party, ring, None if own is None else own.lam),
        gam=_share_number(party, ring, None if own is None else own.gam),
        mcw=_share_number(party, VECTOR, None if own is None else own.mcw),
    )


def _share_number(party: Party, ring: Ring, number: int | None) -> Secret:
    return share(party, ACTIVE, ring, (), None if number is None else RingArray.encode(ring, np.array(number, object)))


def _share_sample(party: Party, setup: Setup, t: int) -> Bit | None:
    """Share which candidates take part in each tree of the round; every owner samples its own features, in private."""
    params, sizes, candidates = setup.params, setup.data.sizes, setup.data.candidates
    if params.colsample_bytree == 1:
        return None
    pieces = []
    for owner in sizes.owners:
        bits = None
        if party.role == owner and candidates is not None and setup.mine is not None:
            bits = RingArray.encode(BIT, column_sample(party, params, candidates, setup.mine.sample_key, t))
        shape = (params.trees_per_round, sizes.columns[owner - 1])
        pieces.append(share_bit(party, owner, shape, bits).secret)
    return Bit(concatenate(pieces), owned=True)
