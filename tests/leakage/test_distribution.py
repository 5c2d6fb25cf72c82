"""What a coalition receives does not move when others' secrets change, its own randomness and inputs being fixed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from mpfedxgb.config import SessionSettings
from mpfedxgb.party import ACTIVE, COORDINATOR, Party, run_locally
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.party import Spec
from mpfedxgb.party.roster import Roster
from mpfedxgb.ring import Ring, RingArray
from mpfedxgb.ring.prg import Source, Stream, digest
from mpfedxgb.ring.ring import Shape
from mpfedxgb.transport.frame import Frame, Kind
from support.chance import THRESHOLD, Symbols, Words, joint, p_alike, p_bytes_alike
from support.every_protocol import LARGEST, SMALLEST, ZEROS, Everything, Private, every_protocol
from support.views import Coalition, Recorder, coalitions, written_out

RUNS = 256
C = frozenset({COORDINATOR})


@dataclass(slots=True)
class Repeated:
    """A fixed stream whose draws are the same in all runs of the batch (the leading axis)."""

    stream: Stream

    def elements(self, ring: Ring, shape: Shape) -> RingArray:
        """Return the next elements."""
        return written_out(self.stream.elements(ring, (1, *shape[1:])).broadcast_to(shape))

    def again(self, start: int = 0) -> Repeated:
        """Return the same stream from so many bytes behind its beginning."""
        return Repeated(self.stream.again(start))


def record(coalition: Coalition, secrets: Sequence[Private], seed: int, owns: bool = False) -> Recorder:
    """Run every protocol, with fixed randomness of the coalition and that of the others by seed.

    If the coordinator `owns` columns, the last secrets are its own.
    """
    recorder, roster = Recorder(), Roster.numbered(len(secrets))
    roster = Roster.coordinated_by(roster.participants, roster.participants[-1]) if owns else roster

    def source(participant: int, label: str, key: bytes) -> Source:
        if participant in coalition:
            return Repeated(Stream(digest(b"fixed", str(participant).encode(), label.encode())))
        return Stream(key)

    private = roster.by_role([(RUNS, own) for own in secrets], (RUNS,))
    settings = SessionSettings(insecure_seed=seed)
    run = run_locally(every_protocol, roster, private, settings, recorder, source)
    check_ledger(run.results[ACTIVE], secrets, owns)
    return recorder


def check_ledger(active: Everything, secrets: Sequence[Private], owns: bool) -> None:
    """Make sure that all runs of a comparison reveal the same: owners, sums, memberships."""
    owner = len(secrets) if secrets[-1].numerators != (0, 0) else ACTIVE
    membership, total = active.revealed[0].decode(), active.revealed[1].decode()
    assert (active.opened[0].owner == owner).all()
    assert (total == sum(own.summand for own in secrets[: len(secrets) - owns])).all(), "a sum of shares"
    assert (membership == (secrets[0].bit & secrets[-1].bit)).all()


def two_worlds(participants: int, coalition: Coalition, owns: bool = False) -> tuple[list[Private], list[Private]]:
    """Return all participants' secrets, twice: alike for the coalition and on the ledger, far apart otherwise."""
    honest = [m for m in range(1, participants + 1) if m not in coalition]
    one = [Private(bit=0, summand=1 << 20) for _ in range(participants)]
    two = list(one)
    for m in honest:
        two[m - 1] = replace(LARGEST, numerators=(0, 0), denominator=1 << 20, summand=one[m - 1].summand)
    if len(honest) > 1 and not owns:  # the same sum of other summands
        for m, summand in zip(honest, (-(1 << 62), (1 << 62) + (1 << 21)), strict=True):
            two[m - 1] = replace(two[m - 1], summand=summand)
    if honest != [2] or participants == 2:  # the same owner, another candidate
        winner = max(m for m in honest if m in (1, participants)) - 1
        one[winner] = replace(one[winner], numerators=(9 << 60, 5 << 60))
        two[winner] = replace(two[winner], numerators=(5 << 60, 9 << 60))
    return one, two


def recorded(participants: int, coalition: Coalition, owns: bool = False) -> tuple[Recorder, Recorder]:
    """Return what was sent in both worlds."""
    one, two = two_worlds(participants, coalition, owns)
    return record(coalition, one, 11, owns), record(coalition, two, 12, owns)


def every_coalition() -> list[tuple[int, Coalition, bool]]:
    """Return all coalitions of two and three participants; of three also where the last is the coordinator."""
    apart = [(m, coalition, False) for m in (2, 3) for coalition in coalitions(m)]
    return [*apart, *((3, coalition, True) for coalition in coalitions(2))]


def nibbles(array: npt.NDArray[np.generic]) -> Symbols:
    """Return an array as half bytes, one column per place behind the batch axis; one column if there is none."""
    octets = np.ascontiguousarray(array).view(np.uint8)
    octets = octets.reshape(RUNS, -1) if array.shape[0] == RUNS else octets.reshape(-1, 1)
    return np.concatenate([octets & 15, octets >> 4], axis=1)


def octets(array: npt.NDArray[np.generic]) -> Symbols:
    """Return all bytes of an array in one column."""
    return np.ascontiguousarray(array).view(np.uint8).reshape(-1, 1)


def p_of_arrays(one: Sequence[Frame], two: Sequence[Frame]) -> list[tuple[float, str]]:
    """Compare the arrays of two recordings one by one: half bytes by place, bytes, and words as numbers."""
    p_values = []
    for a, b in zip(one, two, strict=True):
        for place, (x, y) in enumerate(zip(a.arrays, b.arrays, strict=True)):
            what = f"{a.step}:{a.label} [{place}] from {a.sender}"
            p_values.append((p_alike(nibbles(x), nibbles(y), 16), what))
            p_values.append((p_alike(octets(x), octets(y), 256), what))
            if x.dtype == np.uint64:
                p_values.append((float(stats.ks_2samp(x.ravel(), y.ravel(), method="asymp").pvalue), what))
    return p_values


def p_of_pairs(one: Sequence[Frame], two: Sequence[Frame]) -> list[tuple[float, str]]:
    """Compare the sums and differences of all pairs of words: what is masked once alone may not be masked together."""
    words: dict[Shape, list[tuple[str, Words, Words]]] = {}
    for a, b in zip(one, two, strict=True):
        for x, y in zip(a.arrays, b.arrays, strict=True):
            if x.dtype == np.uint64 and x.shape[0] == RUNS:
                words.setdefault(x.shape, []).append((f"{a.step}:{a.label} from {a.sender}", x, y))
    pairs = [pair for group in words.values() for pair in combinations(group, 2)]
    sums = p_bytes_alike((x + v, y + w) for (_, x, y), (_, v, w) in pairs)
    differences = p_bytes_alike((x - v, y - w) for (_, x, y), (_, v, w) in pairs)
    names = [f"{first} and {second}" for (first, *_), (second, *_) in pairs]
    return list(zip(sums + differences, names + names, strict=True))


@pytest.mark.parametrize(("participants", "coalition", "owns"), every_coalition())
def test_distribution_does_not_move_with_secrets(participants: int, coalition: Coalition, owns: bool) -> None:
    """Two worlds that agree on the ledger: all a coalition receives is alike, the coordinator's mail is the same.

    But for tags of its own winners, if it has columns.
    """
    worlds = recorded(participants, coalition, owns)
    one, two = (list(world.received(coalition, [Kind.DATA, Kind.OWN])) for world in worlds)
    p_values = p_of_arrays(one, two) + p_of_pairs(one, two)
    heard = [[f for f in w.received(C, [Kind.ANNOUNCE]) if Entry.OWN_SPLIT not in f.label] for w in worlds]
    mail = [[(frame.label, [a.tolist() for a in frame.arrays]) for frame in frames] for frames in heard]

    assert len(p_values) > 500
    assert joint([p for p, _ in p_values]) > THRESHOLD, min(p_values)
    assert mail[0] == mail[1]


def test_reveal_without_sharing_of_zero_moves_the_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: by bare shares in reveals the active participant tells the two worlds apart, in pairs only."""
    deal = Party.deal

    def deal_zeros(
        party: Party, specs: Sequence[Spec], compute: Callable[[], Sequence[RingArray]]
    ) -> Sequence[RingArray]:
        dealt = deal(party, specs, compute)
        return [RingArray.zeros(*spec) for spec in specs] if party.label == "reveal sum" else dealt

    monkeypatch.setattr(Party, "deal", deal_zeros)
    worlds = [record(frozenset({1}), secrets, 20 + i) for i, secrets in enumerate(two_worlds(3, frozenset({1})))]
    one, two = (list(world.received(frozenset({1}), [Kind.DATA])) for world in worlds)

    assert joint([p for p, _ in p_of_arrays(one, two)]) > THRESHOLD
    assert joint([p for p, _ in p_of_pairs(one, two)]) < THRESHOLD


def form(frame: Frame) -> tuple[object, ...]:
    """Return all of a frame but its content."""
    return frame.kind, frame.sender, frame.step, frame.label, [(a.dtype, a.shape) for a in frame.arrays]


@pytest.mark.parametrize("participants", [2, 3])
def test_number_order_and_size_of_messages_do_not_depend_on_secrets(participants: int) -> None:
    """On every link the same frames in the same order, whatever the secrets and the seed."""
    forms = []
    for seed, secrets in enumerate((ZEROS, LARGEST, SMALLEST)):
        recorder = Recorder()
        private = [(16,)] + [(16, secrets)] * participants
        run_locally(every_protocol, participants, private, SessionSettings(insecure_seed=seed), recorder)
        forms.append({link: [form(frame) for frame in frames] for link, frames in recorder.links.items()})

    assert forms[0] == forms[1] == forms[2]


def test_two_sample_test_has_teeth() -> None:
    """Other values, and the same values more often, are told apart."""
    generator = np.random.default_rng(3)
    a, b = generator.integers(0, 16, (2, RUNS, 5), np.uint8)

    assert p_alike(a, b, 16) > THRESHOLD
    assert p_alike(a, np.zeros_like(a), 16) < THRESHOLD
    assert p_alike(a, np.where(generator.random(a.shape) < 0.2, 3, b).astype(np.uint8), 16) < THRESHOLD
