"""One tree. Sees bins and secrets, never labels or raw columns.

grow.py chooses splits and makes children, level by level; level.py has the histograms and gains of a level, bounded.py
and constrained.py the gains and children of bounded weights; leaf.py weighs leaves, predict.py finds the leaves of new
rows; nodes.py is what a tree consists of.
"""

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
