"""SHR: one participant puts a value or a 0/1 matrix of its own into the common computation (section 3.3).

Private matrices times secret vectors take no round (SecureAggBucket, section 4.2, line 9).

The owner o of a matrix publishes E = B - A once, where A is expanded from the seed it has in common with the
coordinator. Of the mask lam of a vector x it knows its own part lam^o, so

    B x = B (m - lam^o) - (E + A) (lam - lam^o):

the owner's plain histogram, a dense product of each of the others with its own part of the mask, and a dense product of
the coordinator, dealt. Where the owner made the mask alone, as the active participant that of g and h at the root, the
histogram is all. What each role computes over rows is done where its row blocks live (`row_blocks`).

A coordinator that brings columns knows all masks, so that nobody else may know one of its values': they are fresh ones
of which every participant has a part, and it sends what is masked to all. Its matrix is dealt like any number, a share
S^p to each participant, once; then B x = sum_p S^p m - B lam, of which the coordinator deals the last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.party.party import Party, Spec
from mpfedxgb.party.roster import ACTIVE, COORDINATOR
from mpfedxgb.protocols.row_blocks import Matrix, RowBlocks, RowLayout, Tile, share_key
from mpfedxgb.protocols.rows import RowVectors, in_turns
from mpfedxgb.protocols.secret import Secret, Shares, concatenate_shares
from mpfedxgb.protocols.storage import LocalRows
from mpfedxgb.ring.array import RingArray, stack
from mpfedxgb.ring.kernels import U64
from mpfedxgb.ring.ring import VECTOR, Ring, Shape
from mpfedxgb.transport.frame import Kind
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
       Those of a coordinator that brings columns have a part of everybody's.
    2. It publishes the masked values: to each of the others, or by way of the active participant in a star.

    `values` is looked at in the owner's run only. Rounds: 1. Sent: size elements by the owner (in a mesh, to each of
    the others; in a star, an auxiliary's are sent on to the others by the active participant). Reveals: nothing.
    """
    party.step(f"share of {party.roster.name(party.roster.role_of(owner))}")
    masks = [party.fresh_of(owner, *spec) for spec in specs]
    masked = [RingArray.hidden(*spec) for spec in specs]
    if party.has_values_of(owner):
        given = [] if values is None else list(values)
        if [(value.ring, value.shape) for value in given] != list(specs):
            wanted = ", ".join(f"{ring}{list(shape)}" for ring, shape in specs)
            raise DoesNotFitError(
                f"{party.name} has to share {wanted}, not {values if values is None else given}", "mismatch", party.name
            )
        # The owner knows the whole mask, as in ABY2.0 (2021), so one message is enough.
        masked = [value + mask for value, mask in zip(given, masks, strict=True)]
    return [Secret(*pair) for pair in zip(publish(party, owner, masked), masks, strict=True)]


def publish(party: Party, owner: int, values: Sequence[RingArray]) -> list[RingArray]:
    """Send what the owner has masked to all participants, in one message each; hidden at the coordinator.

    Rounds: 1. Sent: as `share_together`. Reveals: nothing, since the caller has masked it.
    """
    specs = [(value.ring, value.shape) for value in values]
    source = party.roster.role_of(owner)
    if party.is_dealer:
        if source == party.role:
            party.send(party.roster.holders, values, Kind.OWN)
        return [RingArray.hidden(*spec) for spec in specs]
    straight = party.topology == MESH or source in (ACTIVE, COORDINATOR)
    party.count(rounds=1, hops=1 if straight else 2)
    if party.role == source:
        party.send(party.peers if straight else [ACTIVE], values)
        return list(values)
    if source == COORDINATOR:
        return party.receive(COORDINATOR, specs, Kind.OWN)
    received = party.receive(source if straight or party.is_active else ACTIVE, specs)
    if party.is_active and not straight:
        rest = [m for m in party.others if m != source]
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
    own = _places(owners, party.owner)
    given = values or {} if party.has_values_of(party.owner) else {i: RingArray.hidden(ring, shape) for i in own}
    missing = [i for i in own if i not in given]
    if missing:
        raise DoesNotFitError(
            f"{party.name} has to share the entries {missing}, which it owns, too", "mismatch", party.name
        )
    masked = {i: given[i] + masks[i] for i in own}
    dealers = _places(owners, party.roster.owning_coordinator)
    if party.is_dealer:
        if dealers:
            party.send(party.roster.holders, [stack(list(masked.values()))], Kind.OWN)
        return Secret(RingArray.hidden(ring, masks.shape), masks)
    straight = party.topology == MESH or {ACTIVE, party.roster.owning_coordinator}.issuperset(owners)
    party.count(rounds=1, hops=1 if straight else 2)
    through = _collect_and_pass_on if party.is_active else _send_and_collect
    complete = _exchange if party.topology == MESH else through
    entries = complete(party, owners, masked, (ring, shape))
    entries |= _receive_entries(party, COORDINATOR, dealers, (ring, shape), Kind.OWN)
    return Secret(stack([entries[i] for i in range(len(owners))]), masks)


def _places(owners: Sequence[int], owner: int) -> list[int]:
    """Return the places of an owner's entries."""
    return [i for i, one in enumerate(owners) if one == owner]


def _exchange(party: Party, owners: Sequence[int], own: Entries, each: Spec) -> Entries:
    """Return all entries, in a mesh: send the own ones to everyone, and take the others'."""
    places = {m: _places(owners, m) for m in party.peers if m in owners}
    outgoing = [(party.peers, [stack(list(own.values()))])] if own else []
    ring, shape = each
    received = party.exchange(outgoing, {m: [(ring, (len(of_m), *shape))] for m, of_m in places.items()})
    return own | {i: received[m][0][k] for m, of_m in places.items() for k, i in enumerate(of_m)}


def _collect_and_pass_on(party: Party, owners: Sequence[int], own: Entries, each: Spec) -> Entries:
    """Return all entries, at the active participant: take the others', and send everyone those that are not its own."""
    entries = dict(own)
    for m in party.others:
        entries |= _receive_entries(party, m, _places(owners, m), each)
    for m in party.others:
        _send_entries(party, m, [entries[i] for i in _passed_on(party, owners, m)])
    return entries


def _send_and_collect(party: Party, owners: Sequence[int], own: Entries, each: Spec) -> Entries:
    """Return all entries, at an auxiliary: send the own ones to the active participant, and take the rest from it."""
    _send_entries(party, ACTIVE, list(own.values()))
    return own | _receive_entries(party, ACTIVE, _passed_on(party, owners, party.role), each)


def _passed_on(party: Party, owners: Sequence[int], receiver: int) -> list[int]:
    """Return the places that the active participant sends an auxiliary: neither its own nor the coordinator's."""
    return [i for i, owner in enumerate(owners) if owner not in (receiver, party.roster.owning_coordinator)]


def _send_entries(party: Party, receiver: int, entries: Sequence[RingArray]) -> None:
    if entries:
        party.send([receiver], [stack(entries)])


def _receive_entries(party: Party, sender: int, places: Sequence[int], each: Spec, kind: Kind = Kind.DATA) -> Entries:
    """Return entries that come stacked, by place; nothing is sent where there are none."""
    if not places:
        return {}
    ring, shape = each
    (received,) = party.receive(sender, [(ring, (len(places), *shape))], kind)
    return {i: received[k] for k, i in enumerate(places)}


KEPT_BYTES = 1 << 28
"""The coordinator keeps the A of all matrices of a training, once expanded, if together they take no more than this."""


@dataclass(frozen=True, slots=True, eq=False)
class PrivateMatrix:
    """A published matrix, and where this role has its part of it: B at the owner, A at the coordinator, E elsewhere.

    Of a coordinator's own, every participant has its share S^p.
    """

    owner: int
    columns: int
    rows: int
    held: RowBlocks = field(repr=False)


def publish_matrix(
    party: Party,
    owner: int,
    columns: int,
    rows: int,
    plain: Matrix | None = None,
    keep: bool = False,
    held: RowBlocks | None = None,
) -> PrivateMatrix:
    """Put one participant's 0/1 matrix (columns, rows) into the computation.

    1. The owner expands A tile by tile, and publishes E = B - A.

    `held` is where this role's row blocks live, in memory if it does not say; `keep` lets the coordinator hold A from
    the first product on.

    Rounds: 1 per tile. Sent: 8 columns * rows bytes by the owner to each receiver (in a star, an auxiliary's E is
    passed on by the active participant). Reveals: nothing.
    """
    return publish_matrices(party, {owner: columns}, rows, plain, keep, LocalRows() if held is None else held)[0]


def publish_matrices(
    party: Party, columns: Mapping[int, int], rows: int, plain: Matrix | None, keep: bool, held: RowBlocks
) -> tuple[PrivateMatrix, ...]:
    """Put the matrices of several owners, by owner how many columns, into the computation (see `publish_matrix`).

    A tile of every owner at a time: all of them expand and mask their next one while those of others are on their way.
    That of a coordinator is dealt after them. `plain` is this role's own matrix.
    """
    tuning = party.settings.tuning
    layouts = {m: RowLayout(count, rows, tuning.block_rows, tuning.tile_bytes) for m, count in columns.items()}
    dealt = layouts.pop(party.roster.owning_coordinator, None)
    own: Iterator[U64] = iter(())
    ready: U64 | None = None
    turns = party.one_per_cost_class(_tile_by_tile(layouts), lambda turn: (turn[0], turn[1] and turn[1].shape))
    for owner, tile in turns:
        party.step(_matrix_of(party, owner))
        if tile is None:
            own = _begin_matrix(party, owner, layouts[owner], plain, keep, held) or own
            continue
        values = RingArray.hidden(VECTOR, tile.shape)
        if party.has_values_of(owner):
            values = RingArray(VECTOR, next(own) if ready is None else ready)
        (values,) = publish(party, owner, [values])
        if party.has_values_of(owner):
            ready = next(own, None)
        elif not values.is_hidden:
            # Kept as it came in its frame: where participants share a process, those who got one frame share it.
            held.put(owner, tile, np.asarray(values.data, np.uint64))
    if dealt is not None:
        _deal_matrix(party, party.roster.owning_coordinator, dealt, plain, held)
    return tuple(PrivateMatrix(owner, count, rows, held) for owner, count in columns.items())


def _matrix_of(party: Party, owner: int) -> str:
    return f"matrix of {party.roster.name(party.roster.role_of(owner))}"


def _tile_by_tile(layouts: Mapping[int, RowLayout]) -> Iterator[tuple[int, Tile | None]]:
    """Yield owners and their tiles, one of each at a time; before the first of each None, for its beginning."""
    left = {owner: layout.all_tiles() for owner, layout in layouts.items()}
    begun = set[int]()
    while left:
        for owner in list(left):
            if owner not in begun:
                begun.add(owner)
                yield owner, None
            tile = next(left[owner], None)
            if tile is None:
                del left[owner]
            else:
                yield owner, tile


def _begin_matrix(
    party: Party, owner: int, layout: RowLayout, plain: Matrix | None, keep: bool, held: RowBlocks
) -> Iterator[U64] | None:
    """Prepare for a matrix, and return what its owner publishes, at the owner."""
    source = party.source_of(owner, "A")
    if source is None:
        held.receive(owner, layout)
    elif party.is_dealer:
        held.expand(owner, layout, source, keep)
    elif plain is None:
        raise _no_matrix(party, layout)
    else:
        held.own(owner, layout, plain, source)
        return held.published(owner)
    return None


def _no_matrix(party: Party, layout: RowLayout) -> DoesNotFitError:
    text = f"{party.name} has to bring a matrix of {layout.columns} columns and {layout.rows} rows"
    return DoesNotFitError(text, "mismatch", party.name)


def _deal_matrix(party: Party, owner: int, layout: RowLayout, plain: Matrix | None, held: RowBlocks) -> None:
    """Deal a coordinator's own matrix tile by tile: a share S^p to each participant, by turns the one that is sent.

    Rounds: 0. Sent: 8 columns * rows bytes in all by the coordinator, each tile to one participant. Reveals: nothing.
    """
    party.step(_matrix_of(party, owner))
    if party.has_values_of(owner):
        if plain is None:
            raise _no_matrix(party, layout)
        held.own(owner, layout, plain, None)
    elif not party.is_dealer:
        held.receive(owner, layout, share_key(party.role))
    for tile in in_turns(party, list(layout.all_tiles()), lambda tile: tile.shape):
        party.step(_matrix_of(party, owner))

        def values(tile: Tile = tile) -> list[RingArray]:
            assert plain is not None
            return [RingArray(VECTOR, plain.tile(tile.columns, tile.rows).astype(np.uint64))]

        (part,) = party.deal([(VECTOR, tile.shape)], values)
        if not party.is_dealer and not part.is_hidden:
            held.put(owner, tile, np.asarray(part.data, np.uint64))


def matrices_times(party: Party, matrices: Sequence[PrivateMatrix], x: RowVectors) -> Shares:
    """Return shares of several owners' matrices times each of the secret vectors x (V, rows): (V, all their columns).

    1. For each matrix the coordinator deals -A times what the parts of the mask add up to without the owner's; nothing
       where the others have none. For its own it deals -B lam.
    2. The owner adds B (m - lam^o) for its own part of the mask, everyone else -E lam^p for its. To a product with the
       coordinator's matrix, everyone adds S^p m.

    Rounds: 0. Sent: nothing. Reveals: nothing.
    """
    for matrix in matrices:
        if x.masked.ring != VECTOR or x.masked.shape[1:] != (matrix.rows,):
            wanted = f"vectors (V, {matrix.rows}) of {VECTOR}"
            raise DoesNotFitError(f"a matrix of {matrix.rows} rows takes {wanted}, not {x.masked}", "mismatch", "x")
    party.step("matrix products")
    count = x.masked.shape[0]
    others = [[part for m, part in x.parts.items() if m != matrix.owner] for matrix in matrices]
    specs = [(VECTOR, (count, m.columns)) for m, rest in zip(matrices, others, strict=True) if rest]

    def products() -> list[RingArray]:
        return [-_times(m, rest) for m, rest in zip(matrices, others, strict=True) if rest]

    dealt = iter(party.deal(specs, products)) if specs else iter(())
    pieces = []
    for matrix, rest in zip(matrices, others, strict=True):
        part = next(dealt) if rest else RingArray.zeros(VECTOR, (count, matrix.columns))
        mine = [x.parts[party.role]] if party.role in x.parts else []
        if party.is_symbolic:
            part = RingArray.hidden(VECTOR, part.shape)
        elif matrix.owner == party.roster.owning_coordinator:
            part = part + _times(matrix, [x.masked])
        elif party.role == matrix.owner:
            part = part + _times(matrix, [x.masked], mine)
        elif mine:
            part = part - _times(matrix, mine)
        pieces.append(Shares(part))
    return concatenate_shares(pieces)


def _times(matrix: PrivateMatrix, added: Sequence[RingArray], taken: Sequence[RingArray] = ()) -> RingArray:
    """Return the sum of some vectors, less that of others, times what this role has of a matrix."""
    return RingArray(VECTOR, matrix.held.times(matrix.owner, _words(added), _words(taken)))


def _words(vectors: Sequence[RingArray]) -> list[U64]:
    return [np.asarray(one.data, np.uint64) for one in vectors]
