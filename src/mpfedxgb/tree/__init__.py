"""One tree: histograms, gains, splits, leaves, prediction. Sees bins and secrets, never labels or raw columns."""

from mpfedxgb.tree.grow import Grown, grow
from mpfedxgb.tree.level import Constants, Round, SplitData, TableSizes, TreeRules
from mpfedxgb.tree.nodes import Dummy, GrownLeaf, GrownNode, GrownSplit, GrownTree, Leaf, Node, Split, Tree

__all__ = [
    "Constants",
    "Dummy",
    "Grown",
    "GrownLeaf",
    "GrownNode",
    "GrownSplit",
    "GrownTree",
    "Leaf",
    "Node",
    "Round",
    "Split",
    "SplitData",
    "TableSizes",
    "Tree",
    "TreeRules",
    "grow",
]
