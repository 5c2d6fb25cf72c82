"""What trainings reveal: the strict column of the design's table, exactly; all else that is received is uniform."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from mpfedxgb.boosting.active import Active, ChooseScale
from mpfedxgb.party import ACTIVE, COORDINATOR
from mpfedxgb.party.entries import Entry, Run
from mpfedxgb.party.roster import Keyring
from mpfedxgb.protocols.reveal import NOBODY
from mpfedxgb.training.setup import ROOM
from mpfedxgb.transport.frame import Frame, Kind
from mpfedxgb.tree import Dummy, Leaf, Split
from support.chance import THRESHOLD, Symbols, half_bytes, joint, p_uniform, p_views_alike
from support.names import entries_in
from support.received import operation, p_outside_ledger
from support.small_trainings import (
    KINDS,
    Training,
    announcements,
    models,
    owner_of,
    paths,
    recorded,
    rounds_of,
    strict_ledger,
    training_of,
    two_halves,
)
from support.streams import own_randomness_fixed
from support.views import Coalition, Recorder

EVERY_KIND = pytest.mark.parametrize("kind", KINDS)
PARTICIPANTS = pytest.mark.parametrize("participants", [2, 3])
STRICT = set(entries_in(Run.TRAINING, "strict"))


@PARTICIPANTS
@EVERY_KIND
def test_ledger_is_the_strict_column(kind: str, participants: int) -> None:
    """Names, receivers and numbers are those that follow from the model; all roles keep the same ledger."""
    training, run, _ = recorded(kind, participants)
    written = [{(entry.name, entry.receiver): entry.count for entry in ledger} for ledger in run.ledgers]

    assert written == [strict_ledger(training, run)] * (participants + 1)
    assert {name for name, _ in written[0]} <= STRICT


def test_every_row_of_the_strict_column_occurs() -> None:
    """The trainings above are various enough: each name is on the ledger of one, splits are everybody's."""
    ledgers = [strict_ledger(*recorded(kind, 3)[:2]) for kind in KINDS]

    assert {name for ledger in ledgers for name, _ in ledger} == STRICT
    assert {who for ledger in ledgers for name, who in ledger if name == Entry.OWN_SPLIT} == {"P1", "P2", "P3"}
    training, run, _ = recorded("early stopping", 2)
    assert 1 < len(rounds_of(training, run)) < training.params.n_estimators


@PARTICIPANTS
@EVERY_KIND
def test_coordinator_hears_sizes_owners_and_whether_to_go_on(kind: str, participants: int) -> None:
    """Greetings, what was agreed, that all have room, then P_1's announcements: exactly those, in order, no data."""
    training, run, recorder = recorded(kind, participants)
    frames = list(recorder.received(frozenset({COORDINATOR})))
    told = [frame for frame in frames if frame.kind is Kind.ANNOUNCE]

    assert {frame.kind for frame in frames} == {Kind.HELLO, Kind.ANNOUNCE}
    assert sorted(f.sender for f in frames if f.kind is Kind.HELLO) == [ACTIVE, *range(1, participants + 1)]
    assert {frame.sender for frame in told} == {ACTIVE}
    assert [operation(frame) for frame in told if not frame.arrays] == [ROOM]
    said = [frame for frame in told if frame.arrays]
    heard = [(operation(f).removeprefix("announce "), f.arrays[0].tolist()) for f in said]
    assert heard == announcements(training, run)
    assert all(len(frame.arrays) == 1 for frame in said)


@PARTICIPANTS
@EVERY_KIND
def test_everything_outside_the_ledger_is_uniform(kind: str, participants: int) -> None:
    """All that a participant receives of one kind passes a chi-square test: bytes, bits, each digit on its table."""
    _, _, recorder = recorded(kind, participants)
    p_values = p_outside_ledger(recorder, participants, (Entry.TREE_SHAPE,))

    assert len(p_values) > (2 if kind == "nothing to split" else 40)
    assert joint([p for p, _ in p_values]) > THRESHOLD, min(p_values)


@PARTICIPANTS
def test_opened_tags_are_uniform_above_the_owner(participants: int) -> None:
    """What all participants see of a split is its owner, and seven bytes that mean nothing; of a leaf, nothing."""
    upper = []
    for kind in KINDS:
        for frame in recorded(kind, participants)[2].received(frozenset({2}), [Kind.DATA]):
            if operation(frame) == f"reveal {Entry.TREE_SHAPE}" and frame.sender == ACTIVE:
                octets = frame.arrays[0].astype("<u8").view(np.uint8).reshape(-1, 8)
                splits = octets[:, 0] != NOBODY
                assert not octets[~splits].any()
                upper.append(octets[splits, 1:])

    different = np.unique(np.concatenate(upper), axis=0)  # under one seed, kinds have the same tags of the same splits
    assert len(different) > 50
    assert p_uniform(different.ravel(), 256) > THRESHOLD


@PARTICIPANTS
@EVERY_KIND
def test_auxiliaries_keep_no_weight(kind: str, participants: int) -> None:
    """Leaves without weight or cover, no gain, margin or metric; of others' splits the owner and nothing more."""
    _, run, _ = recorded(kind, participants)
    for model, result in zip(models(run), run.results[1:], strict=True):
        assert result is not None
        mine = {feature.name for feature in model.features}
        for node in (node for tree in model.trees for node in tree):
            if isinstance(node, Leaf):
                assert (node == Leaf(None)) == (not model.is_active)
                continue
            is_known = model.is_active and not (node.gain is None and model.params.constrained)
            assert (node.gain is None) == (not is_known)
            if isinstance(node, Split):
                assert node.feature in mine
            else:
                assert isinstance(node, Dummy)
                assert node.owner != model.participant
        if not model.is_active:
            assert (model.base_margin, model.best_iteration) == (None, None)
            assert (result.metrics, result.best_iteration) == ({}, None)
            text = json.loads(model.to_json())
            assert {node["leaf"] for tree in text["trees"] for node in tree if "leaf" in node} == {None}


def form(frame: Frame) -> tuple[object, ...]:
    """Return all of a frame but its content."""
    return frame.kind, frame.sender, frame.step, frame.label, [(a.dtype, a.shape) for a in frame.arrays]


def forms_of(training: Training, owner: int) -> dict[tuple[int, int], list[tuple[object, ...]]]:
    """Run a training whose tree has the root and one child split by one owner, and return the form of all frames."""
    recorder = Recorder()
    run = training.run(tap=recorder)
    (tree,) = models(run)[0].trees
    assert sorted(owner_of(tree, i) for i in range(len(tree))) == [NOBODY] * 3 + [owner] * 2
    return {link: [form(frame) for frame in frames] for link, frames in recorder.links.items()}


@PARTICIPANTS
@pytest.mark.parametrize("owner", [1, 2])
def test_form_of_messages_depends_on_the_ledger_only(owner: int, participants: int) -> None:
    """Other labels, other columns with as many bins, other coins: on every link the same frames in the same order."""
    first = forms_of(two_halves("01 and", owner, participants), owner)

    for labels, noise in (("01 and", 0), ("12 and", 1), ("02 or", 2), ("12 or", 0)):
        assert forms_of(two_halves(labels, owner, participants, noise), owner) == first


def test_coins_are_tossed_anew_in_every_run() -> None:
    """Which side of a split is called left differs from run to run, so it means nothing to others."""
    training = two_halves("01 and", 2, 2)
    flips, dummies = set[tuple[bool, ...]](), set[tuple[int, ...]]()
    for _ in range(60):
        active, auxiliary = models(training.run())
        flips.add(tuple(node.flipped for node in auxiliary.trees[0] if isinstance(node, Split)))
        dummies.add(tuple(i for i, node in enumerate(active.trees[0]) if isinstance(node, Dummy)))
        if len(flips) > 1 and len(dummies) > 1:
            break

    assert len(flips) > 1
    assert dummies == {(0, 1), (0, 2)}


def test_coins_are_fair() -> None:
    """Over many splits and seeds, heads and tails come equally often, whoever tosses."""
    flips = [
        (model.participant, node.flipped)
        for seed in range(6)
        for model in models(training_of("classes", 2).run(seed))
        for tree in model.trees
        for node in tree
        if isinstance(node, Split)
    ]
    for participant in (1, 2):
        mine = [flipped for m, flipped in flips if m == participant]
        assert len(mine) > 20
        assert stats.binomtest(sum(mine), len(mine)).pvalue > THRESHOLD
        assert 0 < sum(mine) < len(mine)


@PARTICIPANTS
def test_first_layer_mask_leaves_no_path_to_one_auxiliary(participants: int) -> None:
    """With the mask every path has a split of the active participant; on the same tables without it, none has."""
    bare = two_halves("01 and", 2, participants, noise=1)
    masked = replace(bare, params=replace(bare.params, first_layer_mask=True, n_estimators=3))

    for training, whole in ((bare, True), (masked, False)):
        run = training.run(1)
        found = [path for tree in models(run)[0].trees for path in paths(tree)]
        assert {ACTIVE in path for path in found} == {not whole}
        assert (Entry.OWN_PATH in {entry.name for entry in run.ledgers[0]}) == whole
    assert all(ACTIVE in p for t in models(recorded("first layer masked", participants)[1])[0].trees for p in paths(t))


def view(training: Training, coalition: Coalition, seed: int, forgotten: str = "") -> list[Symbols]:
    """Return all that a coalition receives and may make of it in one training, array by array, as half bytes."""
    recorder = Recorder()
    run = training.run(seed, recorder, own_randomness_fixed(coalition, forgotten))
    arrays = [array for frame in recorder.received(coalition, [Kind.DATA]) for array in frame.arrays]
    for m in coalition:
        (tree,) = models(run)[m - 1].trees
        arrays.append(np.array([0 if isinstance(n, Leaf) else n.owner if isinstance(n, Dummy) else m for n in tree]))
        arrays.append(np.array([0 if n.weight is None else n.weight for n in tree if isinstance(n, Leaf)]))
    return half_bytes(arrays)


def p_of_worlds(worlds: Sequence[Training], coalition: Coalition, runs: int, forgotten: str = "") -> float:
    """Return how likely a coalition's views of two trainings are, if both have one distribution."""
    one, two = (
        [view(training, coalition, 1000 * world + i, forgotten) for i in range(runs)]
        for world, training in enumerate(worlds)
    )
    return p_views_alike(one, two)


def two_labellings(participants: int) -> list[Training]:
    """Return two trainings of one shape: other labels, other splits, and the leaf at the root on the other side."""
    return [two_halves(labels, ACTIVE, participants) for labels in ("01 and", "12 or")]


@PARTICIPANTS
def test_auxiliaries_cannot_tell_labels_apart(participants: int) -> None:
    """What all auxiliaries see, opened tags and trees included, is distributed alike for labellings of one shape."""
    coalition = frozenset(range(2, participants + 1))

    assert p_of_worlds(two_labellings(participants), coalition, 32) > THRESHOLD


def test_active_participant_cannot_tell_columns_apart() -> None:
    """An auxiliary's columns turned round and in another order: what the active participant sees is alike."""
    worlds = [two_halves("01 and", 2, 2, mirrored=mirrored) for mirrored in (False, True)]

    assert p_of_worlds(worlds, frozenset({ACTIVE}), 24) > THRESHOLD


def test_a_forgotten_mask_tells_labels_apart() -> None:
    """Negative control: were the gradients shared without a mask, the auxiliary would know the labels at once."""
    assert p_of_worlds(two_labellings(2), frozenset({2}), 24, forgotten="gradients/share of P1") < THRESHOLD


class Tails:
    """A coin that always falls the same way."""

    def octets(self, count: int) -> Symbols:
        """Return zeros."""
        return np.zeros(count, np.uint8)


@pytest.mark.parametrize("who", ["auxiliary", "active participant"])
def test_a_coin_that_never_flips_tells(monkeypatch: pytest.MonkeyPatch, who: str) -> None:
    """Negative control: without coins the side of a leaf would show labels to one and columns to the other."""
    monkeypatch.setattr(Keyring, "private_stream", lambda self, label: Tails())
    if who == "auxiliary":
        worlds, coalition = two_labellings(2), frozenset({2})
    else:
        worlds, coalition = [two_halves("01 and", 2, 2, mirrored=m) for m in (False, True)], frozenset({ACTIVE})

    assert p_of_worlds(worlds, coalition, 24) < THRESHOLD


@pytest.mark.parametrize("kind", ["binary", "squared error", "weights"])
def test_gradients_are_in_no_frame(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """The integers g and h that the active participant shares are sent by nobody as they are."""
    shared, recorder, original = [], Recorder(), Active.integers

    def integers(active: Active, t: int, choose: ChooseScale | None = None) -> npt.NDArray[np.int64]:
        shared.append(original(active, t, choose))
        return shared[-1]

    monkeypatch.setattr(Active, "integers", integers)
    training_of(kind, 2).run(3, recorder)
    frames = [frame for frames in recorder.links.values() for frame in frames]
    words = np.concatenate([a.ravel() for frame in frames for a in frame.arrays if a.dtype == np.uint64])
    secret = np.unique(np.concatenate([gh.ravel() for gh in shared]).astype(np.uint64))
    secret = secret[secret != 0]  # what is opened of a leaf is zero, too

    assert secret.size > 2
    assert not np.isin(secret, words).any()
