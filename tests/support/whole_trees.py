"""Random trees as nobody sees them whole, what each participant keeps of them, and tables to score."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mpfedxgb.data import Table
from mpfedxgb.party import ACTIVE
from mpfedxgb.tree import Dummy, Leaf, Node, Split, Tree

LARGEST_WEIGHT = 1 << 55


@dataclass(frozen=True, slots=True)
class WholeTree:
    """A tree as nobody sees it: every split with its owner, every leaf with its weight."""

    nodes: tuple[tuple[int, Split] | Leaf, ...]

    def view(self, participant: int) -> Tree:
        """Return what one participant keeps."""
        kept: list[Node] = []
        for node in self.nodes:
            if isinstance(node, Leaf):
                kept.append(node if participant == ACTIVE else Leaf(None))
            else:
                owner, split = node
                kept.append(split if owner == participant else Dummy(owner, split.left, split.right))
        return tuple(kept)

    def walk(self, tables: list[Table], row: int) -> Leaf:
        """Return the leaf that one row falls into."""
        node = self.nodes[0]
        while not isinstance(node, Leaf):
            owner, split = node
            (column,) = (c for c in tables[owner - 1].columns if c.name == split.feature)
            value = float(column.values[row])
            if math.isnan(value):
                first = split.missing_left
            elif split.category is not None:
                first = value != split.category
            else:
                assert split.threshold is not None
                first = value <= split.threshold
            node = self.nodes[split.left if first != split.flipped else split.right]
        return node


def random_tree(rng: np.random.Generator, owners: list[int], depth: int) -> WholeTree:
    """Return a tree whose nodes, numbered level by level, split with probability 3/4 by one of the owners' columns."""
    nodes: list[tuple[int, Split] | Leaf] = []
    queue = [0]
    for level in queue:  # grows while it is walked
        if not owners or level == depth or (level and rng.random() < 0.25):
            nodes.append(Leaf(int(rng.integers(-LARGEST_WEIGHT, LARGEST_WEIGHT))))
            continue
        left = len(queue)
        queue += [level + 1] * 2
        flips, missing = bool(rng.integers(0, 2)), bool(rng.integers(0, 2))
        if rng.random() < 0.3:
            split = Split("category", None, int(rng.integers(0, 3)), missing, flips, left, left + 1)
        else:
            threshold = float(rng.choice([-np.inf, 0.25, 0.5, 1.0, np.inf]))
            split = Split("number", threshold, None, missing, flips, left, left + 1)
        nodes.append((int(rng.choice(owners)), split))
    return WholeTree(tuple(nodes))


def random_tables(rng: np.random.Generator, participants: int, rows: int) -> list[Table]:
    """Return a column of numbers and one of categories for everyone, with gaps."""
    tables = []
    for m in range(participants):
        frame: dict[str, Any] = {
            "number": rng.choice([0.0, 0.25, 0.5, 0.75, 2.0, np.nan], rows),
            "category": pd.Categorical.from_codes(rng.integers(-1, 3, rows), pd.Index(["u", "v", "w"])),
        }
        tables.append(Table.read(pd.DataFrame(frame), f"P{m + 1}"))
    return tables


def shared_views(rng: np.random.Generator, trees: list[WholeTree], participants: int) -> list[list[Tree]]:
    """Return everybody's trees, with shares of the leaf weights instead of weights at one of them."""
    views: list[list[Tree]] = [[] for _ in range(participants)]
    for tree in trees:
        shares = rng.integers(-(1 << 63), 1 << 63, (participants - 1, len(tree.nodes)))
        for m in range(1, participants + 1):
            kept = list(tree.view(m))
            for i, node in enumerate(tree.nodes):
                if isinstance(node, Leaf):
                    assert node.weight is not None
                    last = (node.weight - int(shares[:, i].sum(dtype=object)) + (1 << 63)) % (1 << 64) - (1 << 63)
                    kept[i] = Leaf(None, share=last if m == participants else int(shares[m - 1, i]))
            views[m - 1].append(tuple(kept))
    return views
