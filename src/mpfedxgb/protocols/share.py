"""SHR: one participant puts a value of its own into the common computation (section 3.3)."""

from __future__ import annotations

from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import ACTIVE, COORDINATOR
from mpfedxgb.protocols.secret import Secret
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.ring import Ring, Shape


def share(party: Party, owner: int, ring: Ring, shape: Shape, values: RingArray | None = None) -> Secret:
    """Return a secret that only its owner knows (SHR).

    1. The owner masks the values with a mask it has in common with the coordinator; nobody else has a share of it.
    2. It publishes the masked values, by way of the active participant.

    `values` is looked at in the owner's run only. Rounds: 1. Sent: size elements by the owner (and, if the owner is an
    auxiliary, by the active participant to each of the others). Reveals: nothing.
    """
    party.step(f"share of {party.roster.name(owner)}")
    mask = party.fresh_of(owner, ring, shape)
    masked = RingArray.hidden(ring, shape)
    if party.role == owner:
        if values is None or values.ring != ring or values.shape != shape:
            raise DoesNotFitError(f"{party.name} has to share {ring}{list(shape)}, not {values}")
        masked = values + mask
    return Secret(publish(party, owner, masked), mask)


def publish(party: Party, owner: int, value: RingArray) -> RingArray:
    """Send what the owner has masked to all participants, over the star; hidden at the coordinator.

    Rounds: 1. Sent: as `share`. Reveals: nothing, since the caller has masked it.
    """
    if party.role == COORDINATOR:
        return value
    party.meter.now.rounds += 1
    party.meter.now.hops += 1 if owner == ACTIVE else 2
    if party.role == owner:
        party.send(party.others if party.is_active else [ACTIVE], [value])
        return value
    (received,) = party.receive(owner if party.is_active else ACTIVE, [(value.ring, value.shape)])
    if party.is_active:
        rest = [m for m in party.others if m != owner]
        if rest:
            party.send(rest, [received])
    return received
