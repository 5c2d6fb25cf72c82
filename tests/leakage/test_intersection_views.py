"""What the intersection shows in a group so small that all keys, hashes and orders can be enumerated.

In such a group discrete logarithms are no obstacle, so these tests ask for more than the real one gives: views must not
depend on ids outside the intersection even for somebody who can compute everything. What replaces the assumption is
that hash functions are random: those of ids that a coalition does not have are enumerated like keys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

from mpfedxgb.config import TOPOLOGIES, SessionSettings
from mpfedxgb.intersection import dictionary
from mpfedxgb.intersection import intersect as module
from mpfedxgb.intersection.dictionary import Shape
from mpfedxgb.intersection.group import Edwards25519, Oracles, agree_on_pads, pass_keys_on
from mpfedxgb.intersection.intersect import dictionary_of, intersect
from mpfedxgb.party import Party, Roster, run_locally
from mpfedxgb.ring.kernels import U8, U64
from mpfedxgb.transport.frame import Kind
from support.views import Recorder

ORDER = 5
"""Of the toy group: numbers modulo 5 under addition, of which hashes are never 0."""

View = tuple[Any, ...]


class ToyGroup:
    """A group of five elements, written in the first byte of a point; its scalars are chosen beforehand."""

    def __init__(self, *scalars: int) -> None:
        self._scalars = iter(scalars)

    def scalar(self) -> bytes:
        """Return the next scalar."""
        return bytes([next(self._scalars)])

    def inverse(self, scalar: bytes) -> bytes:
        """Return what undoes it."""
        return bytes([pow(scalar[0], -1, ORDER)])

    def public(self, scalar: bytes) -> U8:
        """Return a scalar times 1."""
        return self._point(np.array([[scalar[0]]]))

    def from_hashes(self, hashes: U8) -> U8:
        """Return the first byte of each."""
        return self._point(hashes[:, :1])

    def multiply(self, scalar: bytes, points: U8, sender: str) -> U8:
        """Return products."""
        return self._point(scalar[0] * points[:, :1].astype(int) % ORDER)

    def _point(self, numbers: Any) -> U8:
        points = np.zeros((len(numbers), 32), np.uint8)
        points[:, :1] = numbers
        return points


class ToyOracles(Oracles):
    """Hashes into the toy group as a table says; the others as they are."""

    def __init__(self, table: Mapping[str, int]) -> None:
        super().__init__(bytes(32))
        self._table = table

    def hashes(self, ids: Sequence[str]) -> U8:
        """Return what the table says."""
        out = np.zeros((len(ids), 64), np.uint8)
        out[:, 0] = [self._table[one] for one in ids]
        return out


def find(party: Party, ids: Sequence[str], group: Any, **options: Any) -> None:
    """Intersect, as a participant; the coordinator passes the keys of pads on."""
    if not party.owner:
        pass_keys_on(party)
        return
    (agreed,) = agree_on_pads(party, group, 1)
    intersect(party, "training", ids, group, agreed, **options)


# What auxiliaries see: P_1's points, and which ids are common

COMMON = ("c", "g")
HASHES = {"c": 2, "g": 3, "k": 1}
OF_P1 = [("c", "g", "a"), ("c", "e", "g"), ("c", "g", "x")]
"""Lists of P_1 with the same common ids, and another id at each place of the order."""


ROSTERS = {"independent": Roster.numbered(3), "P3": Roster(("P1", "P2"), "P3", coordinator_owns=True)}
"""Three participants, by who coordinates."""


def view_of_auxiliaries(
    ids: Sequence[str],
    scalar: int,
    hashed: int,
    order: Sequence[int],
    patch: pytest.MonkeyPatch,
    shuffles: bool,
    roster: Roster,
) -> View:
    """Run the protocol and return all that two auxiliaries, who know their own keys, were sent by P_1."""
    patch.setattr(module, "os_entropy", bytes)
    patch.setattr(module, "shuffled", lambda count: np.array(order if shuffles else range(count)))
    table = {**HASHES, **dict.fromkeys(set(ids) - set(COMMON), hashed)}
    lists = {1: ids, 2: (*COMMON, "k"), 3: ("k", *COMMON)}
    groups = {1: (scalar,), 2: (2, 3), 3: (4, 2)}

    def program(party: Party) -> None:
        mine = ToyGroup(*groups.get(party.owner, ()))
        find(party, lists.get(party.owner, ()), mine, make_oracles=lambda salt: ToyOracles(table))

    recorder = Recorder()
    run_locally(program, roster, tap=recorder)
    frames = recorder.received(frozenset(map(roster.role_of, (2, 3))), [Kind.DATA, Kind.OWN])
    return tuple(tuple(array.tobytes() for array in frame.arrays) for frame in frames)


def views_of_auxiliaries(
    ids: Sequence[str], patch: pytest.MonkeyPatch, shuffles: bool, roster: Roster = ROSTERS["independent"]
) -> Counter[View]:
    """Return the views over every scalar of P_1, every hash of its other id and every order."""
    orders = list(permutations(range(len(ids)))) if shuffles else [()]
    every = product(range(1, ORDER), range(1, ORDER), orders)
    return Counter(view_of_auxiliaries(ids, a, h, order, patch, shuffles, roster) for a, h, order in every)


@pytest.mark.parametrize("coordinator", ROSTERS)
def test_auxiliaries_see_nothing_of_other_ids(monkeypatch: pytest.MonkeyPatch, coordinator: str) -> None:
    """Their view is the same whichever other id P_1 has, wherever it stands; also if one of them coordinates."""
    roster = ROSTERS[coordinator]
    first, *others = (views_of_auxiliaries(ids, monkeypatch, shuffles=True, roster=roster) for ids in OF_P1)
    assert first.total() == 4 * 4 * 6
    assert all(first == other for other in others)


def test_the_order_would_show_something(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the shuffle, whoever can divide points sees where the common ids stand: the comparison is not blind."""
    first, second, _ = (views_of_auxiliaries(ids, monkeypatch, shuffles=False) for ids in OF_P1)
    assert first != second


def test_one_point_hides_even_an_id_whose_hash_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over the scalars of P_1 alone, its only point is any of the group, whichever id it has."""
    monkeypatch.setattr(module, "os_entropy", bytes)

    def views(own: str) -> Counter[View]:
        seen: Counter[View] = Counter()
        for scalar in range(1, ORDER):

            def program(party: Party, scalar: int = scalar) -> None:
                group, ids = (ToyGroup(scalar), [own]) if party.is_active else (ToyGroup(2, 3), ["k"])
                find(party, ids, group, least=0, make_oracles=lambda salt: ToyOracles(HASHES))

            recorder = Recorder()
            run_locally(program, 2, tap=recorder)
            frames = recorder.received(frozenset({2}), [Kind.DATA])
            seen[tuple(tuple(array.tobytes() for array in frame.arrays) for frame in frames)] += 1
        return seen

    assert views("c") == views("g")
    assert len(views("c")) == ORDER - 1


def test_every_key_is_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same lists under the same salt give other points, answers, dictionaries, tags and public keys every time."""
    monkeypatch.setattr(module, "os_entropy", bytes)
    monkeypatch.setattr(module, "shuffled", np.arange)

    def sent() -> list[bytes]:
        def program(party: Party) -> None:
            find(party, ["a", "b"], Edwards25519(1))

        recorder = Recorder()
        run_locally(program, 3, tap=recorder)
        every = [Kind.DATA, Kind.ANNOUNCE]
        frames = [frame for role in range(4) for frame in recorder.received(frozenset({role}), every)]
        return [array.tobytes() for frame in frames for array in frame.arrays if array.nbytes > 32 or array.ndim == 2]

    first, second = sent(), sent()
    assert len(first) == len(second) > 10
    assert not set(first) & set(second)


class Listening(Oracles):
    """The real functions, which write down the masks that they give."""

    def __init__(self, salt: bytes) -> None:
        super().__init__(salt)
        self.given: list[U64] = []

    def masks(self, ids: Sequence[str], points: U8) -> tuple[U64, U8]:
        """Return masks and tags, and keep the masks."""
        found = super().masks(ids, points)
        self.given.append(found[0])
        return found


@pytest.mark.parametrize("coordinator", ROSTERS)
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_no_single_dictionary_tells_p1_whether_it_has_an_id(
    topology: str, coordinator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a whole run, what P_1 finds in one dictionary never fits by itself: not even for an id that all have."""
    looked_up: list[U64] = []
    heard: list[Listening] = []
    lists = {1: ["a", "b", "c"], 2: ["b", "a"], 3: ["c", "a"]}

    def look_up(tables: U64, places: dictionary.Places) -> U64:
        looked_up.append(dictionary.look_up(tables, places))
        return looked_up[-1]

    def listen(salt: bytes) -> Oracles:
        heard.append(Listening(salt))
        return heard[-1]

    def program(party: Party) -> None:
        make = listen if party.is_active else Oracles
        find(party, lists.get(party.owner, ()), Edwards25519(1), make_oracles=make)

    monkeypatch.setattr(module, "look_up", look_up)
    monkeypatch.setattr(module, "shuffled", np.arange)
    run_locally(program, ROSTERS[coordinator], settings=SessionSettings(topology=topology))
    telecom, retail = (mask ^ found for mask, found in zip(heard[0].given, looked_up, strict=True))
    assert (telecom != 0).all()
    assert (retail != 0).all()
    assert (telecom == retail).all(axis=1).tolist() == [True, False, False], "only together, and only what all have"


# What P_1 sees: the dictionaries

UNIVERSE = ("a", "b", "c")
PLACES = {"a": 0b001, "b": 0b011, "c": 0b110}
"""Which of three columns each id names; any two of them are independent."""
OWN = ("a", "b")
"""The ids of P_1."""

Bits = Mapping[str, int]


class BitOracles(Oracles):
    """Places of three columns and pads of one bit, as tables say."""

    def __init__(self, pads: Bits) -> None:
        super().__init__(bytes(32))
        self._pads = pads

    def places(self, ids: Sequence[str], shape: Shape) -> U8:
        """Return the places above, in the only bin."""
        words = np.array([[0, PLACES[one]] for one in ids], np.uint64).reshape(-1, 2)
        return words.view(np.uint8)

    def pads(self, agreed: U8, ids: Sequence[str]) -> U64:
        """Return the bits of a table."""
        return bit_values([self._pads[one] for one in ids])


def bit_values(bits: Sequence[int]) -> U64:
    """Return values of one bit."""
    values = np.zeros((len(bits), 2), np.uint64)
    values[:, 0] = bits
    return values


def a_dictionary(ids: Sequence[str], masks: Bits, pads: Bits | None, fill: Sequence[int]) -> View:
    """Return an auxiliary's dictionary; with pads, those with one other auxiliary."""
    agreed = np.zeros((0 if pads is None else 1, 32), np.uint8)
    values = bit_values([masks[one] for one in ids])
    tables = dictionary_of(BitOracles(pads or {}), ids, values, agreed, bit_values(fill))
    return tuple(tables[0, :, 0].tolist())


def every_bits(names: Sequence[str]) -> Iterator[Bits]:
    """Yield every table of bits."""
    for bits in product((0, 1), repeat=len(names)):
        yield dict(zip(names, bits, strict=True))


@pytest.fixture
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every dictionary have one bin of three columns."""
    tiny = Shape(1, 3)
    monkeypatch.setattr(dictionary.Shape, "of", classmethod(lambda cls, keys: tiny))


KNOWN = {"a": 1, "b": 0}
"""Masks of P_1's own ids, which it has had evaluated; that of any other is enumerated."""

PAIRS = [("a", "b"), ("a", "c"), ("b", "c")]


def views_of_active(lists: Sequence[Sequence[str]], with_pads: bool = True) -> Counter[View]:
    """Return P_1's views of two honest auxiliaries' dictionaries, over their pads, other masks and fills."""
    seen: Counter[View] = Counter()
    fills = list(product((0, 1), repeat=3))
    for pads in every_bits(UNIVERSE) if with_pads else [None]:
        parts = []
        for ids in lists:
            each = [a_dictionary(ids, {**KNOWN, **others}, pads, f) for others in every_bits(["c"]) for f in fills]
            parts.append(Counter(each))
        for (one, times), (two, often) in product(parts[0].items(), parts[1].items()):
            seen[one, two] += times * often
    return seen


def by_what_is_granted(
    views: Callable[[Sequence[Sequence[str]]], Counter[View]], granted: Callable[[Sequence[Sequence[str]]], Any]
) -> dict[Any, list[Counter[View]]]:
    """Return the views of all pairs of lists, by what P_1 may know of them."""
    found: dict[Any, list[Counter[View]]] = {}
    for lists in product(PAIRS, repeat=2):
        found.setdefault(granted(lists), []).append(views(lists))
    return found


def in_common(lists: Sequence[Sequence[str]]) -> frozenset[str]:
    """Return what all three have."""
    return frozenset(OWN).intersection(*lists)


@pytest.mark.usefixtures("_tiny")
def test_p1_sees_the_intersection_and_no_overlap() -> None:
    """For the same intersection its view is the same, whichever of its ids one of the two auxiliaries has besides."""
    found = by_what_is_granted(views_of_active, in_common)
    assert sorted(map(len, found.values())) == [1, 2, 3, 3]
    for same in found.values():
        assert all(one == same[0] for one in same)
    assert len({frozenset(same[0].items()) for same in found.values()}) == len(found), "the intersection shows"


@pytest.mark.usefixtures("_tiny")
def test_without_pads_overlaps_would_show() -> None:
    """The comparison notices a protocol in which P_1 sees pairwise overlaps."""
    found = by_what_is_granted(lambda lists: views_of_active(lists, with_pads=False), in_common)
    assert any(one != same[0] for same in found.values() for one in same)


@pytest.mark.usefixtures("_tiny")
def test_p1_and_an_auxiliary_see_what_p1_has_in_common_with_the_rest() -> None:
    """They know the pad, so they see which of P_1's ids the honest one has, as decision record 0023 says; no other."""
    pads = {"a": 1, "b": 1, "c": 0}
    seen = {}
    for ids in PAIRS:
        every = product(every_bits(["c"]), product((0, 1), repeat=3))
        seen[ids] = Counter(a_dictionary(ids, {**KNOWN, **others}, pads, fill) for others, fill in every)
    views = {ids: frozenset(counter.items()) for ids, counter in seen.items()}
    assert len(set(views.values())) == len({frozenset(OWN) & set(ids) for ids in PAIRS}) == 3
    only_a_differs = Counter(
        a_dictionary(("a",), KNOWN, pads, fill) for fill in product((0, 1), repeat=3) for _ in range(2)
    )
    assert seen["a", "c"] == only_a_differs, "an id that P_1 does not have might as well not be there"
