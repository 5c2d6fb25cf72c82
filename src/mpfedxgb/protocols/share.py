"""SHR: one participant puts a value of its own into the common computation (section 3.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.party.party import Party, Spec
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.protocols.secret import Secret
from mpfedxgb.ring.array import RingArray, stack
from mpfedxgb.ring.ring import Ring, Shape
from mpfedxgb.transport.transport import MESH

Entries = dict[int, RingArray]
"""Masked arrays by their place."""


def share(party: Party, owner: int, ring: Ring, shape: Shape, values: RingArray | None = None) -> Secret:
    """SHR: return a secret that only its owner knows (see `share_together`)."""
    return share_together(party, owner, [(ring, shape)], None if values is None else [values])[0]


def share_together(
    party: Party, owner: int, specs: Sequence[Spec], values: Sequence[RingArray] | None = None
) -> list[Secret]:
    """Return secrets that only their owner knows (SHR), of any rings and shapes, in one message.

    1. The owner masks the values with masks it has in common with the coordinator; nobody else has a share of them.
    2. It publishes the masked values: to each of the others, or by way of the active participant in a star.

    `values` is looked at in the owner's run only. Rounds: 1. Sent: size elements by the owner (in a mesh, to each of
    the others; in a star, an auxiliary's are sent on to the others by the active participant). Reveals: nothing.
    """
    party.step(f"share of {party.roster.name(owner)}")
    masks = [party.fresh_of(owner, *spec) for spec in specs]
    masked = [RingArray.hidden(*spec) for spec in specs]
    if party.has_values_of(owner):
        given = [] if values is None else list(values)
        if [(value.ring, value.shape) for value in given] != list(specs):
            wanted = ", ".join(f"{ring}{list(shape)}" for ring, shape in specs)
            raise DoesNotFitError(f"{party.name} has to share {wanted}, not {values if values is None else given}")
        # The owner knows the whole mask, as in ABY2.0 (2021), so one message is enough.
        masked = [value + mask for value, mask in zip(given, masks, strict=True)]
    return [Secret(*pair) for pair in zip(publish(party, owner, masked), masks, strict=True)]


def publish(party: Party, owner: int, values: Sequence[RingArray]) -> list[RingArray]:
    """Send what the owner has masked to all participants, in one message each; hidden at the coordinator.

    Rounds: 1. Sent: as `share_together`. Reveals: nothing, since the caller has masked it.
    """
    if party.is_dealer:
        return list(values)
    straight = party.topology == MESH or owner == ACTIVE
    party.count(rounds=1, hops=1 if straight else 2)
    if party.role == owner:
        party.send(party.peers if straight else [ACTIVE], values)
        return list(values)
    specs = [(value.ring, value.shape) for value in values]
    received = party.receive(owner if straight or party.is_active else ACTIVE, specs)
    if party.is_active and not straight:
        rest = [m for m in party.others if m != owner]
        if rest:
            party.send(rest, received)
    return received


def share_each(
    party: Party, owners: Sequence[int], ring: Ring, shape: Shape, values: Mapping[int, RingArray] | None = None
) -> Secret:
    """Return one secret array per entry of `owners`, each known to that owner only, stacked: (len(owners), *shape).

    `values` maps an entry's place to its values, for the entries this role owns. One round for all of them.

    Rounds: 1. Sent: size elements per entry by its owner; in a star, the active participant sends each auxiliary what
    is not its own, in a mesh the owner each of the others. Reveals: nothing.
    """
    party.step("share each")
    masks = stack([party.fresh_of(owner, ring, shape) for owner in owners])
    if party.is_dealer:
        return Secret(RingArray.hidden(ring, masks.shape), masks)
    own = [i for i, owner in enumerate(owners) if owner == party.role]
    given = values or {} if party.has_values_of(party.role) else {i: RingArray.hidden(ring, shape) for i in own}
    missing = [i for i in own if i not in given]
    if missing:
        raise DoesNotFitError(f"{party.name} has to share the entries {missing}, which it owns, too")
    masked = {i: given[i] + masks[i] for i in own}
    party.count(rounds=1, hops=1 if party.topology == MESH or set(owners) == {ACTIVE} else 2)
    through = _collect_and_pass_on if party.is_active else _send_and_collect
    complete = _exchange if party.topology == MESH else through
    entries = complete(party, owners, masked, (ring, shape))
    return Secret(stack([entries[i] for i in range(len(owners))]), masks)


def _exchange(party: Party, owners: Sequence[int], own: Entries, each: Spec) -> Entries:
    """Return all entries, in a mesh: send the own ones to everyone, and take the others'."""
    places = {m: [i for i, owner in enumerate(owners) if owner == m] for m in party.peers if m in owners}
    outgoing = [(party.peers, [stack(list(own.values()))])] if own else []
    ring, shape = each
    received = party.exchange(outgoing, {m: [(ring, (len(of_m), *shape))] for m, of_m in places.items()})
    return own | {i: received[m][0][k] for m, of_m in places.items() for k, i in enumerate(of_m)}


def _collect_and_pass_on(party: Party, owners: Sequence[int], own: Entries, each: Spec) -> Entries:
    """Return all entries, at the active participant: take the others', and send everyone those that are not its own."""
    entries = dict(own)
    for m in party.others:
        entries |= _receive_entries(party, m, [i for i, owner in enumerate(owners) if owner == m], each)
    for m in party.others:
        _send_entries(party, m, [entries[i] for i, owner in enumerate(owners) if owner != m])
    return entries


def _send_and_collect(party: Party, owners: Sequence[int], own: Entries, each: Spec) -> Entries:
    """Return all entries, at an auxiliary: send the own ones to the active participant, and take the rest from it."""
    _send_entries(party, ACTIVE, list(own.values()))
    return own | _receive_entries(party, ACTIVE, [i for i, owner in enumerate(owners) if owner != party.role], each)


def _send_entries(party: Party, receiver: int, entries: Sequence[RingArray]) -> None:
    if entries:
        party.send([receiver], [stack(entries)])


def _receive_entries(party: Party, sender: int, places: Sequence[int], each: Spec) -> Entries:
    """Return entries that come stacked, by place; nothing is sent where there are none."""
    if not places:
        return {}
    ring, shape = each
    (received,) = party.receive(sender, [(ring, (len(places), *shape))])
    return {i: received[k] for k, i in enumerate(places)}
