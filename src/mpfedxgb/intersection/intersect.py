"""Private set intersection of M participants over a star: who says what to whom (decision record 0023).

The active participant P_1 has each auxiliary P_m evaluate a keyed function F_m at its own ids without showing them (a
Diffie-Hellman OPRF). P_m writes a dictionary that holds, for each of its ids y, F_m(y) plus a share s_m(y); the shares
of all auxiliaries add up to zero. So P_1, who adds up over all auxiliaries what it finds for an id of its own, gets
zero where all have the id, and something random where any has not. It cannot tell which, or how many: pairwise overlaps
do not show (zero-sharing of Kolesnikov et al., CCS 2017, in its form for augmented semi-honest roles).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mpfedxgb.errors import DataError, FrameError, RefusedError, UserError
from mpfedxgb.intersection.dictionary import Places, Shape, look_up, write
from mpfedxgb.intersection.group import POINT_BYTES, SALT_BYTES, TAG_BYTES, Group, Oracles
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.handshake import MOST_ROWS, check_numbers
from mpfedxgb.party.party import ALL, Party
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.ring.kernels import U8, U64
from mpfedxgb.ring.prg import os_entropy, shuffled
from mpfedxgb.transport.frame import Form, check_form

_ROWS = ("rows to align", 0, MOST_ROWS)
_SIZE: Form = (np.int64, (1,))

Marks = npt.NDArray[np.bool_]
MakeOracles = Callable[[bytes], Oracles]


def intersect(
    party: Party,
    what: str,
    ids: Sequence[str],
    group: Group,
    agreed: U8 | None,
    least: int = 1,
    most: int = MOST_ROWS,
    make_oracles: MakeOracles = Oracles,
) -> Marks:
    """Return which of this participant's ids all participants have; a coordinator without columns takes no part.

    1. P_1 sends a fresh salt and how many ids it has. Each auxiliary answers with how many it has.
    2. P_1 shuffles its ids and sends them as points under a scalar of its own, some at a time; each auxiliary returns
       them under a scalar of its own, which P_1 takes for that auxiliary's function once its own is undone. A party
       at work on more says so in between: the auxiliary by an empty answer, P_1 by a 0, and by a 1 when all are done.
    3. Each auxiliary sends its dictionary: mask plus share for every id that it has.
    4. P_1 adds up. It tells each auxiliary the tags of the common ids, which only that one understands, sorted.

    Rounds: 4, and 1 per `aligned_ids` of P_1. Sent: 8 bytes, 32 per id of P_1 and 16 per column of its dictionary by
    each auxiliary; by P_1 to each 48 bytes, 32 per id, 16 per common id, and 8 each third of a deadline.
    Reveals: ROWS_BEFORE, of P_1 to all and of each auxiliary to P_1; ROWS_IN_COMMON to all participants. Where they are
    fewer than `least`, ROWS_IN_COMMON to P_1 alone, and to the others that they are so few, or none. A list that is
    shorter itself, or longer than this participant bears, is refused before anything that depends on an id is sent.

    Parameters
    ----------
    what : str
        What the rows are for, in messages.
    ids : sequence of str
        Different ones, in the common spelling.
    group : Group
    agreed : array of points or None
        At an auxiliary, what it has agreed on with each other one for its pads (see `pads`).
    least : int
        As many the participants must have in common; the same at all of them.
    most : int
        The longest list of another participant that this one compares with; each participant's own business.
    make_oracles : for tests: another set of hash functions for a salt
    """
    repeated = len(ids) - len(set(ids))
    if repeated:
        text = f"{party.name}: {repeated} of {len(ids)} {what} rows repeat an id; keep one row per id"
        raise DataError(text, "duplicate", what, repeated)
    _refuse_few(what, len(ids), least)
    with party.phase(f"align {what}"):
        _step(party, "sizes", 1, 2)
        if party.is_active:
            salt, sizes = _hear_sizes(party, len(ids), what, most)
            order = shuffled(len(ids))
            mine = _Mine(party, [ids[i] for i in order], group, make_oracles(salt), f"{len(ids)} {what} rows")
            sums, tags = _have_evaluated(mine, sizes)
            _add_dictionaries(mine, sizes, sums)
            common = np.empty(len(ids), np.bool_)
            common[order] = _tell_common(mine, what, sums, tags, least)
            return common
        assert agreed is not None, "an auxiliary has pads"
        salt, asked = _tell_size(party, len(ids), what, least, most)
        mine = _Mine(party, ids, group, make_oracles(salt), f"{len(ids)} {what} rows")
        values, own_tags = _evaluate(mine, asked)
        _send_dictionary(mine, values, agreed)
        return _hear_common(mine, own_tags, least)


@dataclass(frozen=True, slots=True)
class _Mine:
    """What a participant computes with."""

    party: Party
    ids: Sequence[str] = field(repr=False)
    group: Group
    oracles: Oracles
    what: str

    def done(self, steps: int, of: int) -> None:
        """Say how far this is."""
        self.party.observer.on_steps(self.what, steps, of)


def _hear_sizes(party: Party, size: int, what: str, most: int) -> tuple[bytes, dict[int, int]]:
    """Send the salt, and hear how many ids every auxiliary has (1, at P_1)."""
    salt, sizes = os_entropy(SALT_BYTES), {}
    party.send_bytes(party.roster.other_owners, [np.frombuffer(salt, np.uint8), np.array([size], np.int64)])
    for m in party.roster.other_owners:
        (announced,) = party.receive_bytes(m, _SIZE)
        check_numbers(party, m, announced.tolist(), _ROWS)
        sizes[m] = int(announced[0])
    _note_sizes(party)
    for m, count in sizes.items():
        _refuse_many(party, m, what, count, most)
    return salt, sizes


def _tell_size(party: Party, size: int, what: str, least: int, most: int) -> tuple[bytes, int]:
    """Return the salt and how many ids P_1 has, and tell it how many there are here (1, at an auxiliary)."""
    salt, asked = party.receive_bytes(ACTIVE, (np.uint8, (SALT_BYTES,)), _SIZE)
    check_numbers(party, ACTIVE, asked.tolist(), _ROWS)
    _note_sizes(party)
    _refuse_few(what, int(asked[0]), least)  # P_1 learns which of a few ids all have, whatever `least` is
    _refuse_many(party, ACTIVE, what, int(asked[0]), most)
    party.send_bytes([ACTIVE], [np.array([size], np.int64)])
    return salt.tobytes(), int(asked[0])


def _have_evaluated(mine: _Mine, sizes: dict[int, int]) -> tuple[U64, dict[int, U8]]:
    """Return the masks of all ids, added up over the auxiliaries, and their tags by auxiliary (2, at P_1).

    The next ids go out before the last come back.
    """
    party, group = mine.party, mine.group
    chunks = _chunks(party, len(mine.ids))
    _step(party, "points", len(chunks) + 1, 2 * len(chunks) + 1)
    scalar = group.scalar()
    back = group.inverse(scalar)
    sums = np.zeros((len(mine.ids), 2), np.uint64)
    tags = {m: np.empty((len(mine.ids), TAG_BYTES), np.uint8) for m in party.roster.other_owners}
    for steps, (going, coming) in enumerate(zip([*chunks, None], [None, *chunks], strict=True)):
        if going is not None:
            points = group.from_hashes(mine.oracles.hashes(mine.ids[going]))
            party.send_bytes(party.roster.other_owners, [group.multiply(scalar, points, party.name)])
        if coming is not None:
            some = mine.ids[coming]
            for m in party.roster.other_owners:
                (points,) = party.receive_bytes(m, (np.uint8, (len(some), POINT_BYTES)))
                points = group.multiply(back, points, party.roster.name(m))
                masks, tags[m][coming] = mine.oracles.masks(some, points)
                sums[coming] ^= masks
        mine.done(steps, len(chunks) + 1)
    _wait_for_others(party, len(chunks), {m: len(_chunks(party, size)) for m, size in sizes.items()})
    return sums, tags


def _wait_for_others(party: Party, done: int, chunks: dict[int, int]) -> None:
    """Hear from auxiliaries with longer lists that they are at work, and tell all of them, until the last is done."""
    last, pause = time.monotonic(), party.settings.tuning.sign_of_life * party.settings.deadline
    for i in range(done, max(chunks.values())):
        for m in (m for m, count in chunks.items() if i < count):
            party.receive_bytes(m, (np.uint8, (0, POINT_BYTES)))
            if time.monotonic() - last >= pause:
                party.send_bytes(party.roster.other_owners, [np.zeros(1, np.int64)])
                last = time.monotonic()
    party.send_bytes(party.roster.other_owners, [np.ones(1, np.int64)])


def _evaluate(mine: _Mine, asked: int) -> tuple[U64, U8]:
    """Return masks and tags of this auxiliary's own ids, having evaluated P_1's in between, as they came (2)."""
    party, group = mine.party, mine.group
    theirs, own = _chunks(party, asked), _chunks(party, len(mine.ids))
    _step(party, "points", len(theirs) + 1, 2 * len(theirs) + 1)
    key, active = group.scalar(), party.roster.name(ACTIVE)
    values = np.zeros((len(mine.ids), 2), np.uint64)
    tags = np.empty((len(mine.ids), TAG_BYTES), np.uint8)
    total = max(len(theirs), len(own))
    for i in range(total):
        if i < len(theirs):
            (points,) = party.receive_bytes(ACTIVE, (np.uint8, (theirs[i].stop - theirs[i].start, POINT_BYTES)))
            party.send_bytes([ACTIVE], [group.multiply(key, points, active)])
        if i < len(own):
            some = mine.ids[own[i]]
            points = group.multiply(key, group.from_hashes(mine.oracles.hashes(some)), party.name)
            values[own[i]], tags[own[i]] = mine.oracles.masks(some, points)
        if i >= len(theirs):
            party.send_bytes([ACTIVE], [np.empty((0, POINT_BYTES), np.uint8)])
        mine.done(i + 1, total + 1)
    while not party.receive_bytes(ACTIVE, (np.int64, (1,)))[0].any():
        pass  # others are still at work
    return values, tags


def _send_dictionary(mine: _Mine, values: U64, agreed: U8) -> None:
    """Send masks plus shares of zero (3, at an auxiliary): what two auxiliaries both add is gone from the sum."""
    _step(mine.party, "dictionaries", 1, 1)
    mine.party.send_bytes([ACTIVE], [dictionary_of(mine.oracles, mine.ids, values, agreed)])


def dictionary_of(oracles: Oracles, ids: Sequence[str], masks: U64, agreed: U8, fill: U64 | None = None) -> U64:
    """Return an auxiliary's dictionary: for each id its mask and, with every other auxiliary, a pad (alone)."""
    values = masks.copy()
    for point in agreed:
        values ^= oracles.pads(point, ids)
    shape = Shape.of(len(ids))
    return write(shape, Places.read(oracles.places(ids, shape), shape), values, fill)


def _add_dictionaries(mine: _Mine, sizes: dict[int, int], sums: U64) -> None:
    """Add to the sums what every auxiliary's dictionary says for all ids (3, at P_1)."""
    _step(mine.party, "dictionaries", 1, 1)
    for m, size in sizes.items():
        shape = Shape.of(size)
        (tables,) = mine.party.receive_bytes(m, (np.uint64, shape.array))
        for chunk in _chunks(mine.party, len(mine.ids)):
            places = Places.read(mine.oracles.places(mine.ids[chunk], shape), shape)
            sums[chunk] ^= look_up(tables, places)


def _tell_common(mine: _Mine, what: str, sums: U64, tags: dict[int, U8], least: int) -> Marks:
    """Return which ids are common, when the others know (4, at P_1)."""
    party = mine.party
    _step(party, "common", 1, 1)
    common: Marks = (sums[:, 0] | sums[:, 1]) == 0
    count = int(common.sum())
    if count < least:
        party.record(Entry.ROWS_IN_COMMON, party.role, count)
    _refuse_few(what, count, least)
    party.record(Entry.ROWS_IN_COMMON, ALL, count)
    for m in party.roster.other_owners:
        common_tags = tags[m][common]
        party.send_bytes([m], [common_tags[np.lexsort(common_tags.T[::-1])]])
    mine.done(1, 1)
    return common


def _hear_common(mine: _Mine, tags: U8, least: int) -> Marks:
    """Return which ids are common, as P_1 tells by their tags (4, at an auxiliary)."""
    party, active = mine.party, mine.party.roster.name(ACTIVE)
    _step(party, "common", 1, 1)
    arrays = party.receive_bytes(ACTIVE, expected=tags.nbytes)
    count = len(arrays[0]) if len(arrays) == 1 and arrays[0].ndim else len(tags)
    check_form(active, Entry.ROWS_IN_COMMON, arrays, (np.uint8, (count, TAG_BYTES)))
    place = {tag.tobytes(): i for i, tag in enumerate(tags)}
    places = [place[tag.tobytes()] for tag in arrays[0] if tag.tobytes() in place]
    if not len(arrays[0]) == len(places) == len(set(places)) or len(places) < least:
        claim = f"{active} announced {len(arrays[0])} common rows"
        raise FrameError(f"{claim}, which are not {least} or more different ones of {party.name}", parameter="rows")
    common = np.zeros(len(mine.ids), np.bool_)
    common[places] = True
    party.record(Entry.ROWS_IN_COMMON, ALL, len(places))
    mine.done(1, 1)
    return common


def _step(party: Party, name: str, rounds: int, hops: int) -> None:
    party.step(name)
    party.count(rounds=rounds, hops=hops)


def _note_sizes(party: Party) -> None:
    party.record(Entry.ROWS_BEFORE, ALL, 1)
    party.record(Entry.ROWS_BEFORE, ACTIVE, len(party.roster.other_owners))


def _chunks(party: Party, size: int) -> list[slice]:
    step = party.settings.tuning.aligned_ids
    return [slice(at, min(size, at + step)) for at in range(0, size, step)]


def _refuse_few(what: str, count: int, least: int) -> None:
    """Raise UserError if `count` rows, in common or in a whole list, are fewer than `least`."""
    if count >= least:
        return
    if count == 0:
        found = f"the participants have no {what} row in common"
    else:
        found = f"the participants have fewer than {least} {what} rows in common"
    text = (
        f"{found}; compare how all of them write the id column, and [align] ids, case, spaces and unicode, or lower "
        "[align] min_rows at all participants"
    )
    raise UserError(text, "few", "align.min_rows", least)


def _refuse_many(party: Party, peer: int, what: str, count: int, most: int) -> None:
    """Raise RefusedError if a peer's list is longer than this participant bears; only its own log has the numbers."""
    if count > most:
        name = party.roster.name(peer)
        text = (
            f"{name} brings more {what} rows to align than {party.name} compares its own with: a list of every id that "
            f"there could be would find out who is in {party.name}'s. If it is as long as it should be, raise [align] "
            f"max_rows at {party.name}"
        )
        raise RefusedError(
            text,
            f" ({name} has {count} rows, and max_rows is {most}; without the key it is twice the list itself)",
            code="range",
            parameter=what,
        )
