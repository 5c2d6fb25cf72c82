"""Blinded tags: the owner to all, the index to its owner alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.party import ALL, COORDINATOR, Party, Reveal
from mpfedxgb.party.entries import Entry
from mpfedxgb.protocols import NOBODY, Bit, Opened, Secret, make_tags, open_tags, reveal, select
from mpfedxgb.ring import BIT, VECTOR, Ring, wide
from mpfedxgb.ring.ring import Shape
from support.evaluation import PARTICIPANTS, PROPERTY, SEEDS, check_masks, enter, operand, run_patiently
from support.names import unlisted
from support.refusals import refused

Counts = list[tuple[int, int]]


def owners_and_indices(counts: Counts) -> list[tuple[int, int]]:
    """Return owner and local index of every candidate, in order."""
    return [(owner, index) for owner, count in counts for index in range(count)]


def check(views: list[Opened], winners: list[tuple[int, int]], shape: Shape) -> None:
    """Everyone knows the owners; the index is known to its owner, and -1 elsewhere."""
    for role, view in enumerate(views):
        assert (view.owner.shape, view.local.shape) == (shape, shape)
        assert (view.owner.dtype, view.local.dtype) == (np.dtype(np.int64),) * 2
        assert view.owner.reshape(-1).tolist() == [owner for owner, _ in winners]
        mine = [index if owner == role and role != COORDINATOR else -1 for owner, index in winners]
        assert view.local.reshape(-1).tolist() == mine


@pytest.mark.parametrize("participants", PARTICIPANTS)
@pytest.mark.parametrize("ring", [VECTOR, wide(2), Ring(20)], ids=str)
def test_every_candidate_is_known_to_its_owner_only(ring: Ring, participants: int) -> None:
    """Whoever wins, all learn whose candidate it was, and the owner alone which; nobody's is nobody's."""
    counts = [(NOBODY, 1), *((m, 2 + m % 3) for m in range(1, participants + 1))]
    candidates = owners_and_indices(counts)

    def program(party: Party) -> list[Opened]:
        views = []
        for _ in range(2):
            tags = make_tags(party, (), counts, ring)
            views.append(open_tags(party, tags, tags.secret, unlisted("winner")))
        return views

    views = run_patiently(program, participants).results

    for repetition in range(2):
        check([view[repetition] for view in views], candidates, (len(candidates),))


@pytest.mark.parametrize("participants", PARTICIPANTS)
@given(seed=SEEDS)
@PROPERTY
def test_winners_of_a_batch(participants: int, seed: int) -> None:
    """One winner per tournament, chosen by hidden bits, for batches of every shape."""
    rng = np.random.default_rng(seed)
    counts = [(m, int(rng.integers(0, 6))) for m in range(1, participants + 1)]
    counts.insert(int(rng.integers(0, participants + 1)), (NOBODY, 1))
    candidates = owners_and_indices(counts)
    for shape in ((), (0,), (7,), (2, 3)):
        size = int(np.prod(shape, dtype=int))
        first, second = rng.integers(0, len(candidates), (2, size))
        chosen = rng.integers(0, 2, size)
        picked = np.where(chosen, second, first)

        def program(
            party: Party,
            shape: Shape = shape,
            pair: tuple[np.ndarray[tuple[int, ...], np.dtype[np.int64]], ...] = (first, second),
            bits: np.ndarray[tuple[int, ...], np.dtype[np.int64]] = chosen,
        ) -> Opened:
            tags = make_tags(party, shape, counts)
            flat = tags.secret.reshape(-1, len(candidates))
            places = np.arange(len(bits))
            a, b = (flat[places, which].reshape(*shape) for which in pair)
            bit = Bit(enter(party, 2, operand(BIT, bits.reshape(shape))))
            (winner,) = select(party, bit, [(a, b)])
            return open_tags(party, tags, winner, unlisted("winner"))

        views = run_patiently(program, participants).results

        check(views, [candidates[i] for i in picked], shape)


def test_the_ledger_names_both_parts() -> None:
    """The owner is announced to everyone, the index revealed to its owner; all roles write the same."""
    counts = [(NOBODY, 1), (1, 2), (2, 3)]

    def program(party: Party) -> None:
        tags = make_tags(party, (), counts)
        open_tags(party, tags, tags.secret[1:5], unlisted("winner"))

    run = run_patiently(program, 2)

    expected = {
        Reveal("winner", "participants", 4),
        Reveal("winner", "coordinator", 4),
        Reveal(Entry.OWN_SPLIT, "P1", 2),
        Reveal(Entry.OWN_SPLIT, "P2", 2),
    }
    assert [set(ledger) for ledger in run.ledgers] == [expected] * 3


def test_the_coordinator_is_told_owners_only() -> None:
    """It receives one announcement: eight bytes per winner, from P_1."""

    def program(party: Party) -> None:
        tags = make_tags(party, (), [(1, 2), (3, 2)])
        with party.phase("open"):
            open_tags(party, tags, tags.secret, unlisted("winner"))

    counts = run_patiently(program, 3).meters[COORDINATOR].total("open")

    assert counts.payload_received == {"P1": 4 * 8}


def test_blindings_hide_the_index() -> None:
    """The opened tag is the owner in its low byte; above it, fresh for every tournament and not the index."""

    def program(party: Party) -> tuple[Secret, list[int]]:
        tags = make_tags(party, (50,), [(2, 1)])
        value = reveal(party, tags.secret[:, 0], ALL, unlisted("tag"))
        return tags.secret, [] if value.is_hidden else value.decode().tolist()

    results = run_patiently(program, 3).results

    check_masks([[secret] for secret, _ in results])
    values = results[1][1]
    assert {value & 255 for value in values} == {2}
    assert len({value >> 8 for value in values}) == 50


def test_tags_of_one_owner_share_their_blinding() -> None:
    """Within a tournament an owner's candidates differ by their index only, so that one winner names it."""

    def program(party: Party) -> list[int]:
        tags = make_tags(party, (), [(1, 3)])
        value = reveal(party, tags.secret, ALL, unlisted("tag"))
        return [] if value.is_hidden else np.diff(value.decode()).tolist()

    assert run_patiently(program, 2).results[1:] == [[256, 256]] * 2


@pytest.mark.parametrize(
    ("ring", "count"), [(Ring(8), 1), (Ring(12), 8), (Ring(20), 1 << 11), (VECTOR, 1 << 55)], ids=str
)
def test_what_does_not_fit_a_tag_is_refused(ring: Ring, count: int) -> None:
    """A ring too narrow for owner and index is refused by name, before anything is expanded."""
    with refused(DoesNotFitError, "range", "ring"):
        run_patiently(lambda party: make_tags(party, (), [(NOBODY, 1), (1, count)], ring), 2)


def test_the_narrowest_ring_that_fits() -> None:
    """Seven candidates are the most that twelve bits hold."""

    def program(party: Party) -> Opened:
        tags = make_tags(party, (), [(2, 7)], Ring(12))
        return open_tags(party, tags, tags.secret, unlisted("winner"))

    check(run_patiently(program, 2).results, [(2, i) for i in range(7)], (7,))
