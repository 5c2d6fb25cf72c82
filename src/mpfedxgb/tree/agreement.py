"""Who says what before rows are scored: everyone's number of rows and the public outline of its trees, to everyone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mpfedxgb.errors import FrameError, UserError
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.handshake import MOST_LEAVES, MOST_ROWS, MOST_TREES, check_numbers, check_told
from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.tree.nodes import Outline, Scorer, outline

_SIZES = (
    ("rows to score", 0, MOST_ROWS),
    ("trees", 1, MOST_TREES),
    ("rounds in use", 0, MOST_TREES),
    ("holders of shares", 0, 1),
    ("takers of all trees", 0, 1),
)
_OTHER_TREES = "the participants' models do not have the same trees; do they come from the same training?"


@dataclass(frozen=True, slots=True)
class Agreed:
    """What all roles know before rows are scored; `shared` says that all participants hold shares of the weights."""

    rows: int
    outlines: list[Outline]
    shared: bool


def agree(party: Party, classes: int, scorer: Scorer | None, rounds: int | None) -> Agreed:
    """Agree on rows, trees and who holds the weights; `rounds`, the active participant's, limits the trees in use.

    Everyone's model and table decide: what it said itself it finds in what it is told (`tell_everyone`), and all agree.
    Rounds: 2. Reveals: ROWS_TO_SCORE and TREE_SHAPE to everyone.
    """
    mine = None
    if scorer is not None:
        mine = [scorer.table.rows, len(scorer.trees), 0 if rounds is None else rounds]
        mine += [int(scorer.holds_shares), int(scorer.takes_all)]
    told = party.tell_everyone(Entry.ROWS_TO_SCORE, mine, (len(_SIZES),))
    check_told(party, Entry.ROWS_TO_SCORE, told, *_SIZES)
    rows, trees, limits, shared, takes_all = told.T
    if len(set(rows)) > 1:
        counts = ", ".join(f"{n} {c}" for n, c in zip(party.roster.participants, rows, strict=True))
        raise UserError(f"the participants bring different numbers of rows to score ({counts}); align the tables first")
    if any(len(set(column)) > 1 for column in (trees, shared, takes_all)):
        raise UserError(_OTHER_TREES)
    limit = int(limits[0]) * classes or int(trees[0])
    if takes_all[0] and limit != trees[0]:  # everybody sees to that, since it is everybody's model
        raise UserError(
            f"{party.roster.name(ACTIVE)} asks for the sum of {limit} of {trees[0]} trees; a model of "
            "security='sealed' tells sums over all its trees only, for the difference of two would give trees away"
        )
    check_numbers(party, ACTIVE, [limit], ("trees in use", 1, int(trees[0])))
    numbers = None
    if scorer is not None:
        outlines = [outline(tree, i % classes, party.role) for i, tree in enumerate(scorer.trees[:limit])]
        numbers = [_to_numbers(o, party.roster.size) for o in outlines]
    public = party.tell_everyone(Entry.TREE_SHAPE, numbers, (limit, 2 + party.roster.size))
    if (public != public[0]).any():
        raise UserError(_OTHER_TREES)
    _check_outlines(party, public[0], classes)
    return Agreed(int(rows[0]), [_from_numbers(row) for row in public[0]], bool(shared[0]))


def _check_outlines(party: Party, trees: npt.NDArray[np.int64], classes: int) -> None:
    """Raise FrameError unless all trees are of classes that there are, and have as many leaves as there may be."""
    kinds, leaves, owns = trees[:, 0], trees[:, 1], trees[:, 2:]
    if not ((kinds >= 0) & (kinds < classes)).all() or (leaves < 1).any() or ((owns < 0) | (owns > 1)).any():
        raise FrameError(f"{party.roster.name(ACTIVE)} announced trees that no model has")
    check_numbers(party, ACTIVE, [sum(leaves.tolist())], ("leaves", 1, MOST_LEAVES))


def _to_numbers(o: Outline, participants: int) -> list[int]:
    return [o.class_index, o.leaves, *(int(m in o.owners) for m in range(1, participants + 1))]


def _from_numbers(numbers: npt.NDArray[np.int64]) -> Outline:
    class_index, leaves, *owns = numbers.tolist()
    return Outline(class_index, leaves, tuple(m for m, owner in enumerate(owns, 1) if owner))
