"""Samples of columns: every owner draws among its own, in private, and shares which of its candidates take part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.sampling import Bits, column_sample, node_sample
from mpfedxgb.data.binning import Candidates
from mpfedxgb.modes.mode import Setup
from mpfedxgb.party.party import Party
from mpfedxgb.protocols.bits import Bit, share_bit
from mpfedxgb.protocols.secret import concatenate
from mpfedxgb.protocols.share import share_each
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.ring import BIT, Shape
from mpfedxgb.tree.level import Nodes, Round


def with_samples(party: Party, setup: Setup, t: int, round_: Round) -> Round:
    """Return a round with the samples of columns; every owner samples its own features, in private.

    Those of trees and levels are shared at once, those of nodes when the level is there.
    """
    params = setup.params
    if not params.samples_columns or not setup.data.sizes.owners:  # nobody may have anything to split by
        return round_
    if params.colsample_bynode < 1:
        return replace(round_, sample=partial(_share_node_sample, party, setup, t))
    trees = params.trees_per_round
    if params.colsample_bylevel == 1:
        allowed = _share_sample(party, setup, (trees,), partial(column_sample, t=t))
        return replace(round_, allowed=allowed)
    roots = [(tree, 0) for tree in range(trees)]

    def draw(party: Party, params: TrainParams, candidates: Candidates, key: str) -> Bits:
        levels = range(params.max_depth)
        return np.stack([node_sample(party, params, candidates, key, t, depth, roots) for depth in levels])

    levels = _share_sample(party, setup, (params.max_depth, trees), draw)
    return replace(round_, sample=lambda nodes, depth: levels[depth, np.array([tree for tree, _ in nodes])])


def _share_sample(party: Party, setup: Setup, shape: Shape, draw: Callable[..., Bits]) -> Bit:
    """Share which candidates take part in trees, or in their levels: (*shape, columns), owner by owner."""
    sizes, pieces = setup.data.sizes, []
    for owner in sizes.owners:
        bits = None
        if party.role == owner and setup.data.candidates is not None and setup.mine is not None:
            drawn = draw(party, setup.params, setup.data.candidates, setup.mine.sample_key)
            bits = RingArray.encode(BIT, drawn)
        pieces.append(share_bit(party, owner, (*shape, sizes.columns[owner - 1]), bits).secret)
    return Bit(concatenate(pieces), owned=True)


def _share_node_sample(party: Party, setup: Setup, t: int, nodes: Nodes, depth: int) -> Bit:
    """Share which candidates take part in each node of a level, (nodes, columns), all owners at once."""
    sizes, candidates, own = setup.data.sizes, setup.data.candidates, {}
    width = max(sizes.columns)  # the others are padded
    if party.role in sizes.owners and candidates is not None and setup.mine is not None:
        drawn = node_sample(party, setup.params, candidates, setup.mine.sample_key, t, depth, nodes)
        padded = np.zeros((len(nodes), width), np.uint8)
        padded[:, : len(candidates)] = drawn
        own = {sizes.owners.index(party.role): RingArray.encode(BIT, padded)}
    shared = share_each(party, sizes.owners, BIT, (len(nodes), width), own)
    pieces = [shared[i][:, : sizes.columns[owner - 1]] for i, owner in enumerate(sizes.owners)]
    return Bit(concatenate(pieces), owned=True)
