"""What a sealed training carries from round to round, at every role: secrets of all rows, and shares between attempts.

Margins are a masked secret while a training runs. What is kept on disk between attempts are additive shares, one at
each participant: never a masked value beside its mask. A resumed attempt masks them afresh.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.scales import UNKNOWN, ScalePlan, constants_of, public_scale
from mpfedxgb.boosting.sealed.labels import SealedLabels
from mpfedxgb.boosting.sealed.rules import SealedRules
from mpfedxgb.party.party import Party, Spec
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.protocols.opening import open_masked
from mpfedxgb.protocols.secret import Secret, Shares, public_secret, to_shares
from mpfedxgb.protocols.share import share_together
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.ring import VECTOR, Ring
from mpfedxgb.tree.level import Constants, TableSizes


@dataclass(slots=True, eq=False)
class Sealed:
    """The secrets of a training.

    `margins` of all rows, training and evaluation; None before the first round, in which all are P_1's start.
    `private` is the active participant's.
    """

    rules: SealedRules
    constants: Constants
    labels: Secret
    weights: Secret | None
    sizes: TableSizes
    private: SealedLabels | None = field(repr=False)
    margins: Secret | None = None

    def margin_shares(self, party: Party) -> Shares:
        """Return the margins as additive shares; at first they are all P_1's. Local."""
        if self.margins is not None:
            return to_shares(party, self.margins)
        rows = (self.sizes.all_rows,)
        if party.follows_shapes:
            return Shares(RingArray.hidden(VECTOR, rows))
        start = 0 if self.private is None else self.private.start
        return Shares(RingArray.encode(VECTOR, np.full(rows, start, np.int64)))

    def kept(self, party: Party) -> npt.NDArray[np.int64] | None:
        """Return this participant's shares of the margins, (1, rows), to be kept; None at the coordinator."""
        shares = self.margin_shares(party)
        return None if shares.part.is_hidden else shares.part.decode().reshape(1, -1)

    def take_up(self, party: Party, kept: npt.NDArray[np.int64] | None) -> None:
        """Go on from shares that were kept, under fresh masks.

        Rounds: 1. Sent: one element per row by each auxiliary. Reveals: nothing.
        """
        party.step("kept margins")
        part = RingArray.hidden(VECTOR, (self.sizes.all_rows,))
        if not party.follows_shapes:
            assert kept is not None, "every participant keeps its shares"
            part = RingArray.encode(VECTOR, kept.reshape(-1))
        self.margins = open_masked(party, Shares(part))


def seal(
    party: Party,
    params: TrainParams,
    plan: ScalePlan,
    rules: SealedRules,
    ring: Ring,
    sizes: TableSizes,
    private: SealedLabels | None,
) -> Sealed:
    """Share what only the active participant has, once for all rounds: labels, row weights, constants.

    Rounds: 1. Sent: 8 bytes per row by the active participant, 16 where rows have weights; and the constants where they
    are its secrets. Reveals: nothing.
    """
    rows = (VECTOR, (sizes.rows,))
    specs: list[Spec] = [rows, rows] if rules.weighted else [rows]
    known = public_scale(params, plan, sizes.rows)
    secret = [] if known is not None else constants_of(ring, UNKNOWN)
    specs += [(r, ()) for r, _ in secret]
    values = None
    if private is not None:
        of_rows = [private.y] if private.weights is None else [private.y, private.weights]
        values = [RingArray.encode(VECTOR, numbers) for numbers in of_rows]
        if secret:
            values += [RingArray.encode(r, np.array(v, object)) for r, v in constants_of(ring, private.scale)]
    shared = share_together(party, ACTIVE, specs, values)
    labels, weights = shared[0], shared[1] if rules.weighted else None
    if known is not None:
        constants = [public_secret(party, r, np.array(v, object)) for r, v in constants_of(ring, known)]
    else:
        constants = shared[-3:]
    return Sealed(rules, Constants(*constants), labels, weights, sizes, private)
