"""Row vectors under a mask of which the coordinator knows everybody's part, as below the root."""

from __future__ import annotations

from mpfedxgb.party import Party
from mpfedxgb.protocols import RowVectors, Secret, mask_rows, to_shares
from mpfedxgb.ring import RingArray


def mask_in_parts(party: Party, x: Secret) -> RowVectors:
    """Mask vectors anew, by all participants together."""
    return mask_rows(party, to_shares(party, x))[1]


def as_secret(party: Party, x: RowVectors) -> Secret:
    """Return vectors as a secret: the coordinator adds the parts of the mask up."""
    mask = RingArray.zeros(x.masked.ring, x.masked.shape)
    for part in x.parts.values():
        if not part.is_hidden:
            mask = mask + part
    return Secret(x.masked, mask)
