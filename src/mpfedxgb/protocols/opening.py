"""Openings that mean nothing: sums of shares under masks nobody knows (section 3.3, restoring e and f at P_1).

This is the only module in which the participants' shares meet. What is opened here carries a fresh mask, or one that
the caller has put there; values that mean something go through `reveal`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.protocols.secret import Secret, Shares
from mpfedxgb.ring.array import RingArray


def open_masked(party: Party, shares: Shares) -> Secret:
    """Turn shares into a masked secret.

    1. Everyone adds its share of a fresh mask and sends the sum to the active participant.
    2. The active participant adds up and returns the masked value.

    Rounds: 1. Sent: size elements by each auxiliary, and as many to each of them. Reveals: nothing.
    """
    return open_masked_batch(party, [shares])[0]


def open_masked_batch(party: Party, batch: Sequence[Shares]) -> list[Secret]:
    """Turn several arrays of shares, of any rings and shapes, into masked secrets in one round (see `open_masked`)."""
    masks = [party.fresh(x.ring, x.shape) for x in batch]
    sums = open_shares(party, [x.part + mask for x, mask in zip(batch, masks, strict=True)])
    return [Secret(total, mask) for total, mask in zip(sums, masks, strict=True)]


def open_shares(
    party: Party, parts: Sequence[RingArray], clip: Callable[[RingArray], RingArray] | None = None
) -> list[RingArray]:
    """Return the sums of what the participants hold, to all participants; hidden at the coordinator.

    The caller has masked every part with a share of a mask that is uniform in the same ring; where masks are narrower
    than the ring, `clip` reduces the sums to their width before the others get them.
    """
    if party.is_coordinator:
        return [RingArray.hidden(part.ring, part.shape) for part in parts]
    specs = [(part.ring, part.shape) for part in parts]
    party.meter.now.rounds += 1
    party.meter.now.hops += 2
    if not party.is_active:
        party.send([ACTIVE], parts)
        return party.receive(ACTIVE, specs)
    sums = list(parts)
    for m in party.others:
        sums = [total + part for total, part in zip(sums, party.receive(m, specs), strict=True)]
    if clip is not None:
        sums = [clip(total) for total in sums]
    party.send(party.others, sums)
    return sums
