"""Small tables full of ties and gaps, and their way into the middle of the tree pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from mpfedxgb.data import Candidates, Table, bin_table
from mpfedxgb.party import ACTIVE, ALL, Party
from mpfedxgb.protocols import (
    NOBODY,
    Bit,
    Opened,
    RowVectors,
    Secret,
    Shares,
    masked_by,
    open_masked,
    public_secret,
    publish_matrix,
    reveal,
    share,
    share_bit,
)
from mpfedxgb.protocols import to_shares as shares_of
from mpfedxgb.protocols.secret import concatenate
from mpfedxgb.ring import BIT, PACKED, VECTOR, RingArray, wide
from mpfedxgb.ring.array import pack
from mpfedxgb.tree import Constants, SplitData, TableSizes
from support.names import unlisted
from support.row_vectors import mask_in_parts

Ints = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint8]

MAX_BIN = 4
WIDE = wide(4)


def random_table(rng: np.random.Generator, owner: str, rows: int, columns: int) -> Table:
    """Return columns of few distinct numbers, some missing, or of categories."""
    frame: dict[str, Any] = {}
    for j in range(columns):
        values = rng.integers(0, 4, rows)
        if j % 3 == 2:
            codes = np.where(rng.random(rows) < 0.2, -1, values % 3)
            frame[f"c{j}"] = pd.Categorical.from_codes(codes, pd.Index(["u", "v", "w"]))
        else:
            frame[f"x{j}"] = np.where(rng.random(rows) < 0.2 * (j % 3), np.nan, values / 2)
    return Table.read(pd.DataFrame(frame, index=range(rows)), owner)


@dataclass(frozen=True, slots=True)
class Federation:
    """The tables of all participants, training and evaluation rows; each role looks at its own only."""

    tables: Sequence[Table]
    evaluation: Sequence[Table]
    candidates: Sequence[Candidates] = field(default_factory=list)

    @classmethod
    def random(cls, seed: int, rows: int, columns: Sequence[int], eval_rows: int = 0) -> Federation:
        """Return random tables, one per entry of `columns`."""
        rng = np.random.default_rng(seed)
        tables = [random_table(rng, f"P{m}", rows, c) for m, c in enumerate(columns, 1)]
        later = [random_table(rng, f"P{m}", eval_rows, c) for m, c in enumerate(columns, 1)] if eval_rows else []
        return cls(tables, later, [Candidates(bin_table(table, MAX_BIN)) for table in tables])

    @property
    def participants(self) -> int:
        """How many there are."""
        return len(self.tables)

    @property
    def sizes(self) -> TableSizes:
        """The public sizes."""
        eval_rows = self.evaluation[0].rows if self.evaluation else 0
        return TableSizes(self.tables[0].rows, eval_rows, tuple(len(c) for c in self.candidates))

    @property
    def bits(self) -> Bits:
        """All participants' candidate columns over the training rows, in order."""
        return np.concatenate([c.tile() for c in self.candidates])

    def check_choices(self, views: Sequence[Opened], expected: Sequence[int | None]) -> None:
        """Everyone learns the owners of the expected splits, and each owner its own candidates, nobody another's."""
        for tree, choice in enumerate(expected):
            (owner,) = {int(view.owner[tree]) for view in views}
            assert (owner == NOBODY) == (choice is None)
            for role, view in enumerate(views):
                local = int(view.local[tree])
                if choice is not None and role == owner:
                    assert self.place(owner, local) == choice
                else:
                    assert local == -1

    def goes_left(self, owner: int, candidate: int) -> Bits:
        """Return which rows, training and evaluation, go left by a candidate."""
        mine = self.candidates[owner - 1]
        parts = [mine.rows_left(candidate)]
        if self.evaluation:
            parts.append(mine.rows_left(candidate, self.evaluation[owner - 1]))
        return np.concatenate(parts)

    def place(self, owner: int, local: int) -> int:
        """Return the number of an owner's candidate among all of them."""
        return sum(self.sizes.columns[: owner - 1]) + local

    def publish(self, party: Party) -> SplitData:
        """Publish everybody's candidate columns; what a role does not own it does not get."""
        mine = None if party.is_coordinator else self.candidates[party.role - 1]
        sizes = self.sizes
        matrices = tuple(
            publish_matrix(party, m, sizes.columns[m - 1], sizes.rows, mine if party.role == m else None)
            for m in sizes.owners
        )
        later = () if party.is_coordinator or not self.evaluation else (self.evaluation[party.role - 1],)
        return SplitData(sizes, matrices, mine, later)


def gradients(seed: int, trees: int, rows: int, most: int = 1 << 20) -> Ints:
    """Return g and h, (trees, 2, rows): many equal ones, zeros, and h never negative."""
    rng = np.random.default_rng(seed)
    g = rng.choice([-3, -1, 0, 1, 2, 3], (trees, rows)) * rng.choice([1, 1, most], (trees, 1))
    h = rng.choice([0, 1, 1, 2], (trees, rows)) * rng.choice([1, 1, most], (trees, 1))
    h[:, 0] += 1  # without lambda a root needs a positive hessian
    return np.stack([g, h], axis=1).astype(np.int64)


def share_gradients(party: Party, gh: Ints, jointly: bool = False) -> RowVectors:
    """Share g and h, masked by the active participant, or by all together as below the root."""
    values = RingArray.encode(VECTOR, gh) if party.is_active else None
    secret = share(party, ACTIVE, VECTOR, gh.shape, values)
    return mask_in_parts(party, secret) if jointly else masked_by(party, ACTIVE, secret)


def share_members(party: Party, members: Bits) -> Secret:
    """Share which rows are inside which node, (nodes, rows), packed and masked by all together."""
    packed = pack(members)
    secret = share(party, ACTIVE, PACKED, packed.shape, packed if party.is_active else None)
    party.step("mask anew")
    return open_masked(party, shares_of(party, secret))


def share_allowed(party: Party, federation: Federation, allowed: Bits) -> Bit:
    """Share which candidates take part, (trees, candidates): each owner its own."""
    pieces, first = [], 0
    for owner in federation.sizes.owners:
        last = first + federation.sizes.columns[owner - 1]
        bits = RingArray.encode(BIT, allowed[:, first:last]) if party.role == owner else None
        pieces.append(share_bit(party, owner, (len(allowed), last - first), bits).secret)
        first = last
    return Bit(concatenate(pieces), owned=True)


def constants(party: Party, lam: int, gam: int, mcw: int) -> Constants:
    """Return public constants of a tree."""
    return Constants(
        public_secret(party, WIDE, np.array(lam, object)),
        public_secret(party, WIDE, np.array(gam, object)),
        public_secret(party, VECTOR, np.array(mcw, object)),
    )


def opened(party: Party, value: Secret | Shares) -> npt.NDArray[Any] | None:
    """Return a value in the clear, for the test to look at; None at the coordinator."""
    known = reveal(party, value, ALL, unlisted("result"))
    return None if party.is_coordinator else known.decode()
