"""What becomes of the trees of a round: P_1 adds their predictions to its margins, everyone keeps its part of them.

Algorithm 1, lines 7-11, once in the strict way, once sealed, and once as the paper has it; `UPDATES` names them by
`security`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from mpfedxgb.boosting.model import keep_trees
from mpfedxgb.boosting.sealed.round import add_leaves
from mpfedxgb.boosting.setup import Setup
from mpfedxgb.party.party import Party
from mpfedxgb.protocols.opening import open_masked
from mpfedxgb.protocols.secret import Shares, to_shares
from mpfedxgb.tree.grow import Grown
from mpfedxgb.tree.leaf import LEAF_MEMBERSHIP, record_own_paths, reveal_leaves
from mpfedxgb.tree.nodes import Leaf, Tree
from mpfedxgb.tree.paper.leaf import secure_leaf_weight
from mpfedxgb.tree.predict import predict_rows
from mpfedxgb.tree.reachable import Scorer
from mpfedxgb.tree.sealed import secure_leaf_weights

Update = Callable[[Party, Setup, Grown, int], list[Tree]]
"""From the grown trees of round t to what is kept of them; t labels private draws, of which the strict way has none."""


def strict_update(party: Party, setup: Setup, grown: Grown, t: int) -> list[Tree]:
    """Return the kept trees of round t: P_1 learns which rows share a leaf, and computes the weights alone."""
    members = reveal_leaves(party, grown, setup.data.sizes)  # 7
    leaves, gains = None, None
    if setup.active is not None and members is not None:  # 8
        leaves, gains = setup.active.update(
            grown.trees, [np.flatnonzero(m) for m in members]
        )  # 9, after Algorithm 3, lines 5 and 43
    return keep_trees(party.role, grown.trees, setup.data.candidates, leaves, gains)  # 11


def paper_update(party: Party, setup: Setup, grown: Grown, t: int) -> list[Tree]:
    """Return the kept trees of round t, with shares of leaf weights: P_1 learns what the trees predict for each row.

    SecureLeafWeight, then SecurePredict over the training and evaluation rows, restored at P_1.
    """
    assert grown.totals is not None
    assert setup.leaf_rules is not None
    weights = secure_leaf_weight(party, grown.totals, setup.rules.ring, setup.leaf_rules, str(t))  # Algorithm 3, 5, 43
    leaves = None if party.is_coordinator else [Leaf(None, share=int(share)) for share in weights.part.decode()]
    kept = keep_trees(party.role, grown.trees, setup.data.candidates, leaves)  # 11
    with party.phase("update"):
        predictions = _predict(party, setup, grown, kept, weights)  # 7
        for tree in grown.trees:
            record_own_paths(party, tree)
    if setup.active is not None and predictions is not None:  # 8
        setup.active.add(predictions, setup.weight_bits)  # 9
    return kept


def sealed_update(party: Party, setup: Setup, grown: Grown, t: int) -> list[Tree]:
    """Return the kept trees of round t, with shares of leaf weights; nobody learns anything of a training row."""
    sealed = setup.sealed
    assert sealed is not None
    weights = secure_leaf_weights(party, grown, sealed.constants, sealed.rules.division)
    shares, leaves = to_shares(party, weights).part, None
    if not shares.is_hidden:
        leaves = [Leaf(None, share=int(share)) for share in shares.decode()]
    kept = keep_trees(party.role, grown.trees, setup.data.candidates, leaves)  # 11
    with party.phase("update"):
        evaluated = add_leaves(party, sealed, grown, weights)  # 7-9
        for tree in grown.trees:
            record_own_paths(party, tree, knows_leaves=False)
    if setup.active is not None and evaluated is not None:
        setup.active.see_evaluation(evaluated, setup.weight_bits)
    return kept


def _predict(
    party: Party, setup: Setup, grown: Grown, kept: list[Tree], shares: Shares
) -> npt.NDArray[np.int64] | None:
    """Return what each tree predicts for every row, (trees, rows), to P_1 (section 4.5)."""
    used = [(k, tree.outline(k)) for k, tree in enumerate(grown.trees)]
    places = np.array([place for tree in grown.trees for place in tree.leaf_places()])
    party.step("kept shares")
    weights = open_masked(party, shares[places])
    scorer = None if setup.all_rows is None else Scorer(kept, setup.all_rows, holds_shares=True)
    return predict_rows(party, scorer, used, weights, len(used), setup.data.sizes.all_rows, LEAF_MEMBERSHIP)


UPDATES: dict[str, Update] = {"strict": strict_update, "sealed": sealed_update, "paper": paper_update}
