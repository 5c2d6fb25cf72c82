"""Row vectors under a mask of which the coordinator knows everybody's part, as below the root."""

from __future__ import annotations

from mpfedxgb.party import COORDINATOR, Party
from mpfedxgb.protocols import RowVectors, Secret, to_shares
from mpfedxgb.protocols.opening import open_shares
from mpfedxgb.ring import RingArray


def mask_in_parts(party: Party, x: Secret) -> RowVectors:
    """Mask vectors anew, by all participants together."""
    party.step("mask in parts")
    fresh = {m: party.fresh_of(m, x.ring, x.shape) for m in range(1, party.roster.size + 1)}
    part = to_shares(party, x).part
    if not party.is_coordinator:
        part = part + fresh[party.role]
    (masked,) = open_shares(party, [part])
    hidden = RingArray.hidden(x.ring, x.shape)
    return RowVectors(masked, {m: f if party.role in (m, COORDINATOR) else hidden for m, f in fresh.items()})


def as_secret(party: Party, x: RowVectors) -> Secret:
    """Return vectors as a secret: the coordinator adds the parts of the mask up."""
    mask = RingArray.zeros(x.masked.ring, x.masked.shape)
    for part in x.parts.values():
        if not part.is_hidden:
            mask = mask + part
    return Secret(x.masked, mask)
