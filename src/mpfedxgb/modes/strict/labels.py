"""A round of `security="strict"` around its trees: P_1's gradients are shared before, and its weights follow after."""

from __future__ import annotations

import numpy as np

from mpfedxgb.boosting import scales
from mpfedxgb.boosting.active import ChooseScale
from mpfedxgb.boosting.model import keep_trees
from mpfedxgb.modes.mode import RoundGradients, Setup, encoded, public_constants
from mpfedxgb.modes.strict.tree import reveal_held, reveal_leaves
from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.protocols.rows import masked_by
from mpfedxgb.protocols.share import share_together
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.ring import VECTOR
from mpfedxgb.tree.grow import Grown
from mpfedxgb.tree.level import Constants
from mpfedxgb.tree.nodes import Tree


def share_gradients(party: Party, setup: Setup, t: int, choose: ChooseScale | None = None) -> RoundGradients:
    """Share g~ and h~ of the round, and lambda~, gamma~ and min_child_weight~ at their scales, which P_1 chooses.

    All of it is the active participant's secret, in one message; the constants are public where the scales are.
    """
    params, ring, shape = setup.params, setup.rules.ring, (setup.params.trees_per_round, 2, setup.data.sizes.rows)
    values = None
    if setup.active is not None:  # 4
        values = [RingArray.encode(VECTOR, setup.active.integers(t, choose))]  # 5
    known = scales.public_scale(params, setup.plan, setup.data.sizes.rows)
    if known is not None:
        (gh,) = share_together(party, ACTIVE, [(VECTOR, shape)], values)  # 6
        return gh, masked_by(party, ACTIVE, gh), public_constants(party, scales.constants_of(params, ring, known))
    if values is not None and setup.active is not None:
        values += encoded(scales.constants_of(params, ring, setup.active.scale))
    wanted = scales.constants_of(params, ring, scales.UNKNOWN)
    specs = [(VECTOR, shape), *((r, ()) for r, _ in wanted.values())]
    gh, *constants = share_together(party, ACTIVE, specs, values)  # 6
    return gh, masked_by(party, ACTIVE, gh), Constants(**dict(zip(wanted, constants, strict=True)))


def update(party: Party, setup: Setup, grown: Grown, t: int) -> list[Tree]:
    """Return the kept trees of round t: P_1 learns which rows share a leaf, and computes the weights alone."""
    members = reveal_leaves(party, grown, setup.data.sizes)  # 7
    held = reveal_held(party, grown, setup.rules)
    leaves, gains = None, None
    if setup.active is not None and members is not None:  # 8
        leaves, gains = setup.active.update(
            grown.trees, [np.flatnonzero(m) for m in members], held
        )  # 9, after Algorithm 3, lines 5 and 43
    return keep_trees(party.owner, grown.trees, setup.data.candidates, leaves, gains)  # 11
