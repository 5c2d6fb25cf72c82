"""One round of a sealed training: gradients before its tree, leaf weights and margins after it (Algorithm 1)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mpfedxgb.boosting.sampling import row_sample
from mpfedxgb.boosting.sealed.gradients import GradientRows, secure_gradients
from mpfedxgb.boosting.sealed.state import Sealed
from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.protocols.bits import Bit, share_bit
from mpfedxgb.protocols.opening import open_masked
from mpfedxgb.protocols.reveal import reveal
from mpfedxgb.protocols.rows import RowVectors, mask_rows, masked_by
from mpfedxgb.protocols.secret import Secret
from mpfedxgb.protocols.share import share
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.ring import BIT, VECTOR
from mpfedxgb.tree.grow import Grown
from mpfedxgb.tree.sealed import sum_of_leaves

EVALUATION_MARGINS = "leaf membership and weights of evaluation rows"
"""Ledger name of what margins of evaluation rows, round by round, amount to."""


def sealed_gradients(
    party: Party, sealed: Sealed, subsample: float, sample_key: str, t: int
) -> tuple[Secret, RowVectors]:
    """Return g~ and h~ of round t, (1, 2, rows), masked, and the same as vectors whose masks' makers are known.

    In the first round every margin is P_1's start, so it computes them alone and shares them, as in the strict way.

    Rounds: 1 in the first round; later 1 and those of `secure_gradients`, and 1 for a sample of rows. Reveals: nothing.
    """
    count, private = sealed.sizes.rows, sealed.private
    inside = None
    if private is not None and subsample < 1:
        inside = row_sample(party, subsample, count, sample_key, t).astype(np.uint8)
    if sealed.margins is None:
        values = None
        if private is not None:
            values = RingArray.encode(VECTOR, private.first_gradients(sealed.rules, inside)[None])
        gh = share(party, ACTIVE, VECTOR, (1, 2, count), values)
        return gh, masked_by(party, ACTIVE, gh)
    rows = GradientRows(sealed.margins[:count], sealed.labels, *_sampled(party, sealed, subsample < 1, inside))
    shares = secure_gradients(party, rows, sealed.rules)
    return mask_rows(party, shares.reshape(1, 2, count))


def _sampled(
    party: Party, sealed: Sealed, samples: bool, inside: npt.NDArray[np.uint8] | None
) -> tuple[Secret | None, Bit | None]:
    """Return the rows' weights, 0 outside the sample; without weights, which rows are inside, if there is a sample."""
    rows, private = (sealed.sizes.rows,), sealed.private
    if not samples:
        return sealed.weights, None
    if not sealed.rules.weighted:
        return None, share_bit(party, ACTIVE, rows, None if inside is None else RingArray.encode(BIT, inside))
    values = None
    if private is not None and private.weights is not None and inside is not None:
        values = RingArray.encode(VECTOR, private.weights * inside)
    return share(party, ACTIVE, VECTOR, rows, values), None


def add_leaves(party: Party, sealed: Sealed, grown: Grown, weights: Secret) -> npt.NDArray[np.int64] | None:
    """Add the weight of each row's leaf to its margin; return what the trees so far add up to in evaluation rows.

    The latter, (evaluation rows,), goes to the active participant; None to the others, and where there are none.

    Rounds: 1, and 1 for evaluation rows. Sent: one element per row by each auxiliary. Reveals: EVALUATION_MARGINS to
    the active participant.
    """
    sizes = sealed.sizes
    shares = sealed.margin_shares(party) + sum_of_leaves(party, grown, weights, sizes.all_rows)
    party.step("margins")
    sealed.margins = open_masked(party, shares)
    if not sizes.eval_rows:
        return None
    value = reveal(party, sealed.margins[sizes.rows :], ACTIVE, EVALUATION_MARGINS)
    return None if value.is_hidden or sealed.private is None else value.decode() - sealed.private.start
