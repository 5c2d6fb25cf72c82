"""What sealed trainings reveal: the sealed column of the table, exactly; all else that is received is uniform."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest

from mpfedxgb.boosting.scales import UNKNOWN, plan
from mpfedxgb.config import SessionSettings
from mpfedxgb.modes.sealed.encoding import SealedLabels, plain_gradients, sealed_rules
from mpfedxgb.party import ACTIVE, COORDINATOR
from mpfedxgb.party.entries import Entry, Run
from mpfedxgb.party.roster import MakeSource
from mpfedxgb.ring.ring import encode_fixed
from mpfedxgb.sigmoid import PLACES
from mpfedxgb.training.setup import ROOM
from mpfedxgb.transport.frame import Frame, Kind
from mpfedxgb.tree import Dummy, Leaf, Split, Tree
from support.chance import THRESHOLD, Symbols, half_bytes, joint, p_uniform, p_views_alike
from support.names import entries_in
from support.received import operation, p_outside_ledger, secret_symbols
from support.sealed_trainings import (
    KINDS,
    RESUMED,
    Recorded,
    announcements,
    leaf_shares,
    other_rows,
    recorded,
    run_sealed,
    sealed,
    sealed_ledger,
    sealed_of,
)
from support.small_trainings import Training, models, two_halves
from support.streams import Spoilt, Zeros, own_randomness_fixed, sound
from support.views import Coalition, Recorder

EVERY_KIND = pytest.mark.parametrize("kind", KINDS)
PARTICIPANTS = pytest.mark.parametrize("participants", [2, 3])
SEALED = {*entries_in(Run.TRAINING, "sealed"), Entry.ROUNDS_DONE}
"""All that the ledger of a sealed training may have, by name; membership of training rows is not among it."""
RUNS = 26


@PARTICIPANTS
@EVERY_KIND
def test_ledger_is_the_sealed_column(kind: str, participants: int) -> None:
    """Names, receivers and numbers are those that follow from the trees; all roles keep the same ledger."""
    record = recorded(kind, participants)
    written = [{(entry.name, entry.receiver): entry.count for entry in ledger} for ledger in record.run.ledgers]

    assert written == [sealed_ledger(record)] * (participants + 1)
    assert {name for name, _ in written[0]} <= SEALED


def test_every_row_of_the_sealed_column_occurs() -> None:
    """The trainings above are various enough: each name is on a ledger, the active participant's own paths too."""
    ledgers = [sealed_ledger(recorded(kind, 2)) for kind in KINDS]
    stopped = recorded("early stopping", 2)

    assert {name for ledger in ledgers for name, _ in ledger} == SEALED
    assert {who for ledger in ledgers for name, who in ledger if name == Entry.OWN_PATH} == {"P1", "P2"}
    assert len(models(stopped.run)[0].trees) < len(stopped.grown) < stopped.training.params.n_estimators
    assert len(recorded(RESUMED, 2).grown) == 3


@PARTICIPANTS
@EVERY_KIND
def test_coordinator_hears_sizes_owners_and_numbers_of_trees(kind: str, participants: int) -> None:
    """Greetings, what was agreed, that all have room, then P_1's announcements: exactly those, in order, no data."""
    record = recorded(kind, participants)
    frames = list(record.recorder.received(frozenset({COORDINATOR})))
    told = [frame for frame in frames if frame.kind is Kind.ANNOUNCE]
    heard = [(operation(f).removeprefix("announce "), f.arrays[0].tolist()) for f in told if f.arrays]

    assert {frame.kind for frame in frames} == {Kind.HELLO, Kind.ANNOUNCE}
    assert {frame.sender for frame in told} == {ACTIVE}
    assert [operation(frame) for frame in told if not frame.arrays] == [ROOM]
    assert heard == announcements(record)


@PARTICIPANTS
@EVERY_KIND
def test_everything_outside_the_ledger_is_uniform(kind: str, participants: int) -> None:
    """All that a participant receives of one kind passes a chi-square test: bytes, bits, places, digits."""
    p_values = p_outside_ledger(recorded(kind, participants).recorder, participants, (Entry.TREE_SHAPE,))

    assert len(p_values) > (20 if kind == "nothing to split" else 100)
    assert joint([p for p, _ in p_values]) > THRESHOLD, min(p_values)


@PARTICIPANTS
def test_everything_outside_the_ledgers_of_all_kinds_is_uniform(participants: int) -> None:
    """The same with what was received in all kinds of trainings together, in which less would show."""
    found: dict[tuple[str, int], list[Symbols]] = {}
    for kind, m in product(KINDS, range(1, participants + 1)):
        for what, pieces in secret_symbols(recorded(kind, participants).recorder, m, (Entry.TREE_SHAPE,)).items():
            found.setdefault(what, []).extend(pieces)
    whole = {what: np.concatenate(pieces) for what, pieces in found.items()}
    p_values = [(p_uniform(values, what[1]), what) for what, values in whole.items() if values.size]

    assert sum(values.size > 1 << 11 for values in whole.values()) > 50
    assert joint([p for p, _ in p_values]) > THRESHOLD, min(p_values)


def test_a_mesh_changes_nothing() -> None:
    """The same ledger and the same trees, and all else uniform, where everybody talks to everybody."""
    star, recorder = recorded("evaluation rows", 3), Recorder()
    settings = SessionSettings(insecure_seed=7, topology="mesh")
    run, memories, grown = run_sealed(star.training, settings, recorder)
    meshed = Recorded(star.training, run, recorder, memories, grown)
    p_values = p_outside_ledger(recorder, 3, (Entry.TREE_SHAPE,))

    assert {(entry.name, entry.receiver): entry.count for entry in run.ledgers[0]} == sealed_ledger(meshed)
    assert {t: F.tolist() for t, F in meshed.margins.items()} == {t: F.tolist() for t, F in star.margins.items()}
    assert len(p_values) > 100
    assert joint([p for p, _ in p_values]) > THRESHOLD, min(p_values)


def test_encoded_labels_show_nothing() -> None:
    """Neither labels, weights and the start nor their scales are in the text of what P_1 encodes."""
    numbers = np.arange(3)
    assert repr(SealedLabels(23, numbers, numbers, numbers, UNKNOWN)) == "SealedLabels()"


@PARTICIPANTS
def test_what_a_role_keeps_is_uniform(participants: int) -> None:
    """Its shares of margins and of leaf weights, in all kinds of trainings together."""
    for m in range(1, participants + 1):
        margins, weights = [], []
        for record in (recorded(kind, participants) for kind in KINDS):
            states = record.memories[m].states.values()
            margins += [state.evaluation.margins.ravel() for state in states if state.evaluation is not None]
            weights.append(leaf_shares(models(record.run)[m - 1].trees))
        for shares in (np.concatenate(margins), np.concatenate(weights)):
            assert shares.size > 40
            assert p_uniform(shares.view(np.uint8), 256) > THRESHOLD


@PARTICIPANTS
@EVERY_KIND
def test_nobody_keeps_a_weight_a_cover_or_a_gain(kind: str, participants: int) -> None:
    """Leaves have shares and nothing else, splits no gain; of others' splits the owner; metrics are P_1's."""
    record = recorded(kind, participants)
    for model, result in zip(models(record.run), record.run.results[1:], strict=True):
        for node in (node for tree in model.trees for node in tree):
            if isinstance(node, Leaf):
                assert node == Leaf(None, share=node.share)
            else:
                assert node.gain is None
                assert isinstance(node, Split) or node.owner != model.participant
        if not model.is_active:
            assert result is not None
            assert (model.base_margin, model.best_iteration, result.metrics) == (None, None, {})


def words_of(frames: Sequence[Frame]) -> npt.NDArray[np.uint64]:
    """Return all 64-bit words of frames."""
    return np.concatenate([a.ravel() for frame in frames for a in frame.arrays if a.dtype == np.uint64])


@pytest.mark.parametrize("kind", ["binary", "squared error", "evaluation rows", RESUMED, "classes"])
def test_margins_weights_and_gradients_are_in_no_frame_and_no_file(kind: str) -> None:
    """What nobody has is sent by nobody, and is in nobody's model or checkpoint, as it is."""
    record = recorded(kind, 3)
    training, params = record.training, record.training.params
    rows, logistic = len(training.labels.y), params.objective == "binary:logistic"
    margins = {t: of_all[..., :rows] for t, of_all in record.margins.items()}
    secrets = [record.weights, *(of_all.ravel() for of_all in margins.values())]
    if logistic:
        rules = sealed_rules(params, plan(params, rows), rows)
        y = training.labels.y.astype(np.int64) << PLACES
        secrets += [plain_gradients(rules, F, y, None).ravel() for F in margins.values()]
        start = encode_fixed(np.array(models(record.run)[0].base_margin), PLACES)
        assert len(np.unique(margins[1] - start)) == sum(isinstance(node, Leaf) for node in record.grown[0])
    if params.outputs > 1:
        rules = sealed_rules(params, plan(params, rows), rows)
        hit = (training.labels.y == np.arange(params.outputs)[:, None]).astype(np.int64) << PLACES
        secrets += [plain_gradients(rules, F, hit, None).ravel() for F in margins.values()]
    secret = np.unique(np.concatenate(secrets))
    secret = secret[np.abs(secret) > 1 << 12]
    kept = [memory.states[t].evaluation for memory in record.memories[1:] for t in memory.states]
    files = [json.loads(model.to_json()) for model in models(record.run)]
    numbers = [int(word) for word in _numbers(files)]

    assert len(secret) > 10
    assert not np.isin(secret.astype(np.uint64), words_of(list(every_frame(record)))).any()
    assert not any(np.isin(secret, state.margins).any() for state in kept if state is not None)
    assert not np.isin(secret, np.array(numbers, object).astype(np.int64)).any()


def every_frame(record: Recorded) -> list[Frame]:
    """Return all frames of a training, but for what the ledger tells of evaluation rows."""
    return [f for frames in record.recorder.links.values() for f in frames if Entry.EVALUATION_MARGINS not in f.label]


def _numbers(found: object) -> list[int]:
    if isinstance(found, dict):
        return [n for value in found.values() for n in _numbers(value)]
    if isinstance(found, list):
        return [n for value in found for n in _numbers(value)]
    return [found] if isinstance(found, int) and not isinstance(found, bool) and abs(found) < 1 << 63 else []


def shape_of(tree: Tree) -> list[int]:
    """Return the owners of nodes, 0 for leaves, in P_1's view."""
    return [0 if isinstance(n, Leaf) else n.owner if isinstance(n, Dummy) else ACTIVE for n in tree]


def view(training: Training, coalition: Coalition, seed: int, streams: MakeSource) -> list[Symbols]:
    """Return all that a coalition receives, is shown and keeps in one training, array by array, as half bytes."""
    recorder = Recorder()
    shown: list[tuple[int, npt.NDArray[np.generic]]] = []
    settings = SessionSettings(insecure_seed=seed)
    run, memories, grown = run_sealed(training, settings, recorder, streams, shown=shown)
    assert sorted(owner for tree in grown for owner in shape_of(tree) if owner) == [max(shape_of(grown[0]))] * 4
    arrays = [array for frame in recorder.received(coalition, [Kind.DATA]) for array in frame.arrays]
    arrays += [array for m, array in shown if m in coalition]
    for m in sorted(coalition):
        own = models(run)[m - 1].trees
        arrays += [np.array(shape_of(tree)) for tree in own]
        if training.params.security == "sealed":
            arrays += [leaf_shares(own), *(s.evaluation.margins for s in memories[m].states.values() if s.evaluation)]
    return half_bytes(arrays)


def p_of_worlds(worlds: Sequence[Training], coalition: Coalition, streams: MakeSource) -> float:
    """Return how likely a coalition's views of two trainings are, if both have one distribution."""
    one, two = (
        [view(training, coalition, 1000 * world + i, streams) for i in range(RUNS)]
        for world, training in enumerate(worlds)
    )
    return p_views_alike(one, two)


def two_labellings(participants: int) -> list[Training]:
    """Return two trainings of two trees each, of one shape: other labels, and so other gradients and leaves."""
    return [sealed(two_halves(labels, ACTIVE, participants), n_estimators=2) for labels in ("01 and", "12 or")]


def test_auxiliaries_cannot_tell_labels_apart() -> None:
    """What an auxiliary receives and keeps is distributed alike for labellings of one shape."""
    coalition = frozenset({2})

    assert p_of_worlds(two_labellings(2), coalition, own_randomness_fixed(coalition)) > THRESHOLD


def test_active_participant_cannot_tell_the_rows_of_leaves_apart() -> None:
    """P_2's rows change places, which changes who is in which leaf: what P_1 receives and keeps is alike."""
    coalition = frozenset({ACTIVE})
    worlds = [other_rows(2, world) for world in (0, 1)]

    assert p_of_worlds(worlds, coalition, own_randomness_fixed(coalition)) > THRESHOLD


def test_strict_tells_the_rows_of_leaves_apart() -> None:
    """Negative control: the same two worlds, as a strict training shows them to P_1."""
    coalition = frozenset({ACTIVE})
    worlds = [other_rows(2, world, "strict") for world in (0, 1)]

    assert p_of_worlds(worlds, coalition, own_randomness_fixed(coalition)) < THRESHOLD
    assert Entry.LEAF_MEMBERSHIP in {entry.name for entry in worlds[0].run(1).ledgers[0]}


MASKED = [
    "setup/share of P1",
    "gradients/open bit",
    "gradients/look up",
    "gradients/bits to ring",
    "gradients/quadratic",
    "gradients/truncate",
    "gradients/hessian",
    "gradients/mask rows",
    "leaf weights/lift",
    "quotient/remainder",
    "quotient/bits to a number",
    "update/margins",
]
"""Steps of a sealed training in which something is masked."""


@pytest.mark.parametrize(
    ("kind", "step"),
    [
        *(("binary", step) for step in MASKED),
        ("amounts", "gradients/exponential"),
        *(("classes", f"gradients/{step}") for step in ("select", "sum of classes", "probability")),
    ],
)
def test_a_forgotten_mask_is_not_uniform(kind: str, step: str) -> None:
    """Negative control: leave the masks of one step out, and the test of uniformity notices."""
    streams, recorder = Spoilt(sound, lambda m, label, _: Zeros() if label.endswith(step) else None), Recorder()
    run_sealed(sealed(sealed_of(kind, 2), n_estimators=6), SessionSettings(insecure_seed=7), recorder, streams)

    assert streams.count > 0
    assert joint([p for p, _ in p_outside_ledger(recorder, 2, (Entry.TREE_SHAPE,))]) < THRESHOLD
