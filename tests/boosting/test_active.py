"""What the active participant computes alone: integers, leaf weights, margins, metrics, when to stop."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from mpfedxgb.boosting import Labels
from mpfedxgb.boosting.active import Active
from mpfedxgb.boosting.callbacks import Callbacks, RoundReport
from mpfedxgb.boosting.objective import Floats
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.sampling import row_sample
from mpfedxgb.config import SessionSettings
from mpfedxgb.errors import UserError
from mpfedxgb.modes.choose import mode_of
from mpfedxgb.modes.paper.labels import choose_scale
from mpfedxgb.party import ACTIVE, Meter, Party, Roster
from mpfedxgb.party.communicator import Communicator
from mpfedxgb.party.roster import Keyring
from mpfedxgb.ring.ring import decode_fixed
from mpfedxgb.transport import MemoryHub
from mpfedxgb.tree import GrownTree, Leaf, TableSizes
from mpfedxgb.tree.leaf import WEIGHT_BITS
from support.refusals import refused

ROWS = 8
Y = np.array([0.0, 1, 1, 0, 1, 1, 1, 0])
ONE = 1 << WEIGHT_BITS


def party_of_its_own() -> Party:
    """Return the active participant before it has sent anything."""
    roster = Roster.numbered(2)
    hub = MemoryHub(roster.links(), 1 << 20)
    communicator = Communicator(hub.end(ACTIVE), roster, ACTIVE, SessionSettings(), Meter())
    return Party(communicator, Keyring({ACTIVE: bytes(32)}, b"context", private=bytes(range(32))))


def active_of(labels: Labels | None = None, eval_rows: int = 0, key: str = "", **params: Any) -> Active:
    """Return the active participant of a training of eight rows, before the first round."""
    labels = Labels(Y, base_score=0.5) if labels is None else labels
    made = TrainParams(**{"n_estimators": 5, "max_depth": 2, "min_child_weight": 0.0, **params})
    sizes = TableSizes(len(labels.y), eval_rows, (1, 1))
    return Active(party_of_its_own(), made, mode_of(made).plan(made, sizes.rows), labels, sizes, key)


def grown_of(trees: list[list[list[int]]]) -> tuple[list[GrownTree], list[npt.NDArray[np.int64]]]:
    """Return trees of one leaf or of two, by the rows of each leaf, and the rows of all leaves by place."""
    rows: list[npt.NDArray[np.int64]] = []
    grown = []
    for leaves in trees:
        tree = GrownTree()
        nodes = [0] if len(leaves) == 1 else list(tree.split(0, 2, -1, False))
        for node, inside in zip(nodes, leaves, strict=True):
            tree.close(node, len(rows))
            rows.append(np.array(inside, np.int64))
        grown.append(tree)
    return grown, rows


def update(active: Active, trees: list[list[list[int]]]) -> list[Leaf]:
    """Let the active participant weigh the leaves of some trees."""
    return active.update(*grown_of(trees))[0]


# Where it starts


@pytest.mark.parametrize(
    ("params", "labels", "start"),
    [
        ({}, Labels(Y), [math.log(5 / 3)]),
        ({}, Labels(Y, base_score=0.25), [math.log(1 / 3)]),
        ({"objective": "reg:squarederror"}, Labels(Y, weight=Y), [1.0]),
        ({"objective": "multi:softprob", "num_class": 3}, Labels(Y, base_score=0.5), [0.5] * 3),
    ],
)
def test_margins_start_the_same_for_every_row(params: dict[str, Any], labels: Labels, start: list[float]) -> None:
    """Training and evaluation rows alike, one row of margins per tree of a round; nothing is judged yet."""
    active = active_of(labels, eval_rows=3, **params)
    np.testing.assert_allclose(active.base, start, rtol=1e-6)
    np.testing.assert_array_equal(active.margins, np.rint(np.array(active.base) * ONE)[:, None].repeat(11, axis=1))
    assert active.metrics == {}
    assert active.best_iteration is None


# Integers


def test_integers_are_rounded_gradients() -> None:
    """g~ = rint(g 2^f), h~ = rint(h 2^f), at scales of the active participant's own, or at those that all know."""
    known = active_of(security="paper")
    known.integers(0, choose_scale)
    assert (known.scale.f_g, known.scale.f_h) == (known.plan.f_g, known.plan.f_h) == (24, 24)
    active = active_of()
    assert active.plan.f_g is None
    gh = active.integers(0)
    assert gh.shape == (1, 2, ROWS)
    assert gh[0, 0].tolist() == [round((0.5 - y) * 2**active.scale.f_g) for y in Y]
    assert gh[0, 1].tolist() == [2**active.scale.f_h // 4] * ROWS
    assert (np.abs(gh[0]).max(axis=1) <= [active.plan.g_cap, active.plan.h_cap]).all()


def test_integers_follow_the_margins_of_training_rows_only() -> None:
    """Evaluation rows have margins, and no gradients."""
    active = active_of(Labels(Y, eval_y=[Y[:3]], base_score=0.5), eval_rows=3)
    active.margins[0, 0], active.margins[0, -3:] = 2 * ONE, 5 * ONE
    g = decode_fixed(active.integers(0)[0, 0], active.scale.f_g)
    np.testing.assert_allclose(g, [1 / (1 + math.exp(-2)), *(0.5 - Y[1:])], atol=2.0**-20)


def test_every_class_has_integers_of_its_own() -> None:
    """One tree per class: p - (y is it)."""
    active = active_of(Labels(np.arange(6.0) % 3, base_score=0.5), objective="multi:softprob", num_class=3)
    g = decode_fixed(active.integers(0)[:, 0], active.scale.f_g)
    np.testing.assert_allclose(g, 1 / 3 - np.tile(np.eye(3), 2), atol=2.0**-20)


def test_weights_multiply_both() -> None:
    """Rows of weight zero count for nothing."""
    weight = np.array([0.0, 1, 2, 3, 0.5, 1, 1, 1])
    active = active_of(Labels(Y, weight=weight, base_score=0.5), weighted=True)
    gh = active.integers(0)[0]
    np.testing.assert_allclose(decode_fixed(gh[0], active.scale.f_g), weight * (0.5 - Y), atol=1e-6)
    np.testing.assert_allclose(decode_fixed(gh[1], active.scale.f_h), weight / 4, atol=1e-6)
    assert gh[:, 0].tolist() == [0, 0]


def test_rows_outside_the_sample_count_for_nothing() -> None:
    """Another sample every round, the one that its key gives."""
    active = active_of(key="k", subsample=0.5)
    samples = []
    for t in range(4):
        inside = row_sample(active.party, 0.5, ROWS, "k", t)
        gh = active.integers(t)[0]
        np.testing.assert_array_equal(gh != 0, np.stack([inside, inside]) != 0)
        samples.append(tuple(inside))
    assert len(set(samples)) > 1


def test_gradients_that_are_no_longer_finite() -> None:
    """As under weights that no number holds together with a residual: refused by name."""
    weight = np.array([1.0, 1e305])
    labels = Labels(np.array([0.0, 1e8]), weight=weight, base_score=0.0)
    active = active_of(labels, objective="reg:squarederror", weighted=True)
    with np.errstate(over="ignore"), refused(UserError, "range", "gradients"):
        active.integers(0)


@pytest.mark.parametrize("reg_lambda", [0.0, 1.0])
def test_hessians_of_zero_need_lambda(reg_lambda: float) -> None:
    """Without it there would be nothing to divide by."""

    def flat(y: Floats, margin: Floats) -> tuple[Floats, Floats]:
        return margin - y, np.zeros(len(y))

    active = active_of(Labels(Y, custom=flat, base_score=0.5), objective="custom", reg_lambda=reg_lambda)
    if reg_lambda:
        assert not active.integers(0)[0, 1].any()
    else:
        with refused(UserError, "range", "hessians"):
            active.integers(0)


PAPER: dict[str, Any] = {"objective": "reg:squarederror", "security": "paper", "min_child_weight": 0.0}


def test_the_papers_scale_is_chosen_once() -> None:
    """The strict way chooses anew in every round; the paper's keeps the first, and refuses residuals that double."""
    y = np.array([0.0, 1, 2, 3, -4, 1, 1, 1])
    for params, choose in ((PAPER, choose_scale), ({"objective": "reg:squarederror"}, None)):
        active = active_of(Labels(y, base_score=0.0), **params)
        active.integers(0, choose)
        first = active.scale
        active.margins[0] = np.rint(y * 0.875 * ONE).astype(np.int64)
        active.integers(1, choose)
        assert (active.scale != first) == (choose is None)
        active.margins[0] = np.rint(y * 4 * ONE).astype(np.int64)
        if choose is None:
            assert active.integers(2, choose)[0, 0].any()
        else:
            with refused(UserError, "range", "residual"):
                active.integers(2, choose)


def test_a_residual_may_double_in_the_papers_way() -> None:
    """The room that is left for it is a factor of two, wherever the largest label lies between powers of two."""
    for largest in (4.0, 5.0, 7.9):
        active = active_of(Labels(np.array([largest, 0, 0, 0]), base_score=0.0), **PAPER)
        active.integers(0, choose_scale)
        active.margins[0] = round(-largest * ONE)
        g = active.integers(1, choose_scale)[0, 0]
        assert decode_fixed(g, active.scale.f_g).tolist() == pytest.approx([-2 * largest, *[-largest] * 3])


def test_the_papers_scale_holds_rows_outside_the_first_sample() -> None:
    """The largest residual may be outside of it, and comes later."""
    inside = row_sample(party_of_its_own(), 0.5, ROWS, "k", 0)
    y = np.where(inside > 0, 1.0, 1000.0)
    active = active_of(Labels(y, base_score=0.0), key="k", subsample=0.5, **PAPER)
    whole = active_of(Labels(y, base_score=0.0), **PAPER)
    active.integers(0, choose_scale)
    whole.integers(0, choose_scale)
    assert active.scale == whole.scale


# Leaves and margins


def test_weights_of_leaves_by_hand() -> None:
    """-G / (H + lambda) times the rate, to the leaf's place; its rows' margins grow by it, evaluation rows' too."""
    active = active_of(Labels(Y, eval_y=[Y[:2]], base_score=0.5), eval_rows=2, learning_rate=0.5)
    active.integers(0)
    left, right = [0, 1, 2, 8], [3, 4, 5, 6, 7, 9]
    leaves = update(active, [[left, right]])

    exact = [Fraction(1, 2) / (Fraction(3, 4) + 1) / 2, Fraction(1, 2) / (Fraction(5, 4) + 1) / 2]
    assert [leaf.weight for leaf in leaves] == [round(w * ONE) for w in exact]
    assert [leaf.cover for leaf in leaves] == [0.75, 1.25]
    for leaf, rows in zip(leaves, (left, right), strict=True):
        assert set(active.margins[0, rows].tolist()) == {leaf.weight}
    second = active.integers(1)
    assert second[0, 1, 0] < 2**active.scale.f_h // 4, "the next round starts from there"


def test_gains_of_splits_by_hand() -> None:
    """Scores of both sides less that of the whole, without gamma, by node; a leaf gains nothing, at any rate."""
    active = active_of()
    active.integers(0)
    tree = GrownTree()
    left, right = tree.split(0, 1, -1, False)
    tree.close(left, 0)
    below = tree.split(right, 2, -1, False)
    for place, node in enumerate(below, 1):
        tree.close(node, place)
    leaves, gains = active.update([tree], [np.array(rows) for rows in ([0, 3, 7], [1, 2, 4, 5], [6])])

    def score(rows: int, G: Fraction) -> Fraction:
        return G**2 / (Fraction(rows, 4) + 1)

    root = score(3, Fraction(3, 2)) + score(5, Fraction(5, 2)) - score(8, Fraction(1))
    second = score(4, Fraction(2)) + score(1, Fraction(1, 2)) - score(5, Fraction(5, 2))
    assert gains == [pytest.approx([float(root), 0.0, float(second), 0.0, 0.0], rel=1e-6)]
    assert [leaf.cover for leaf in leaves] == [0.75, 1.0, 0.25]


def test_a_root_lighter_than_min_child_weight_weighs_what_it_weighs() -> None:
    """Hessians of 2 in all: min_child_weight above them makes no split, and leaves the weight as it is."""
    weights = []
    for least in (0.0, 2.0, 2.1, 1e5):
        active = active_of(min_child_weight=least)
        active.integers(0)
        (leaf,) = update(active, [[list(range(ROWS))]])
        weights.append(leaf.weight)
        assert leaf.cover == 2.0
    assert weights == [round(Fraction(1) / 3 * Fraction(0.3) * ONE)] * 4


@pytest.mark.parametrize("least", [0.0, 1.0])
@pytest.mark.parametrize(("h", "weighs"), [(0.0, False), (1e-16, True)])
def test_a_tree_weighs_nothing_only_if_no_row_has_a_hessian(h: float, weighs: bool, least: float) -> None:
    """A hessian of 1e-16 is 0 as an integer beside lambda, or the least there is; either way it counts as one."""

    def loss(y: Any, margin: Any) -> Any:
        return np.ones_like(y), np.full_like(y, h)

    labels = Labels(Y, base_score=0.5, custom=loss)
    active = active_of(labels, objective="custom", min_child_weight=least)
    active.integers(0)
    (leaf,) = update(active, [[list(range(ROWS))]])
    assert leaf.weight == (pytest.approx(-ROWS * 0.3 * ONE, rel=1e-5) if weighs else 0)


def test_a_tree_of_one_leaf_and_an_empty_leaf() -> None:
    """All rows share a weight; a leaf that no training row reaches weighs nothing."""
    active = active_of(Labels(Y, eval_y=[Y[:1]], base_score=0.5), eval_rows=1)
    active.integers(0)
    (leaf,) = update(active, [[list(range(9))]])
    assert set(active.margins[0].tolist()) == {leaf.weight}
    assert leaf.cover == 2.0
    assert leaf.weight == round(Fraction(1) / 3 * Fraction(0.3) * ONE)

    before = active.margins.copy()
    active.integers(1)
    full, empty = update(active, [[list(range(8)), [8]]])
    assert empty == Leaf(0, 0.0)
    assert full.weight
    np.testing.assert_array_equal(active.margins - before, [[full.weight] * 8 + [0]])


def test_every_class_adds_to_margins_of_its_own() -> None:
    """The trees of a round, one per class, and places that run through all of them."""
    active = active_of(Labels(np.arange(6.0) % 3, base_score=0.5), objective="multi:softprob", num_class=3)
    start = active.margins.copy()
    active.integers(0)
    leaves = update(active, [[[0, 3], [1, 2, 4, 5]], [[0, 1, 2, 3, 4, 5]], [[0, 1, 3, 4], [2, 5]]])
    added = active.margins - start
    w = [leaf.weight for leaf in leaves]
    assert added.tolist() == [
        [w[0], w[1], w[1], w[0], w[1], w[1]],
        [w[2]] * 6,
        [w[3], w[3], w[4], w[3], w[3], w[4]],
    ]
    assert w[0] == w[4]
    first, second, whole = (decode_fixed(np.array(w[i]), WEIGHT_BITS) for i in range(3))
    assert first > 0 > second
    assert whole == pytest.approx(0, abs=1e-6)


def test_weights_and_margins_have_a_limit() -> None:
    """Beyond 2^30 they are refused, each by name."""
    large = active_of(Labels(np.array([1e9, 1.2e9]), base_score=0.0), objective="reg:squarederror", reg_lambda=0.0)
    large.integers(0)
    with refused(UserError, "range", "leaf weight"):
        update(replace_rate(large, 1.0), [[[0], [1]]])

    sum_of_two = active_of(Labels(np.array([1e9, 1e9]), base_score=0.0), objective="reg:squarederror", reg_lambda=0.0)
    sum_of_two.integers(0)
    replace_rate(sum_of_two, 1.0)
    update(sum_of_two, [[[0, 1]]])
    with refused(UserError, "range", "margin"):
        update(sum_of_two, [[[0, 1]]])


def replace_rate(active: Active, learning_rate: float) -> Active:
    """Change the learning rate."""
    active.params = replace(active.params, learning_rate=learning_rate)
    return active


@pytest.mark.parametrize("bits", [20, 32, 40])
def test_predictions_are_added_at_any_scale(bits: int) -> None:
    """As the paper's way restores them: integers in units of 2^-bits, of either sign, one row per tree."""
    active = active_of(**PAPER)
    start = active.margins.copy()
    predictions = np.array([[3, -5, 0, 1, 2, -1, 7, -7]]) << (bits - 2)
    active.add(predictions, bits)
    active.add(predictions, bits)
    np.testing.assert_array_equal(active.margins - start, np.array([[3, -5, 0, 1, 2, -1, 7, -7]]) * ONE // 2)


def test_predictions_beyond_the_limit() -> None:
    """A margin far below zero is as bad as one above."""
    active, large = active_of(**PAPER), np.full((1, ROWS), -3 << (20 + 28))
    active.add(large, 20)
    with refused(UserError, "range", "margin"):
        active.add(large, 20)


# Judging


def test_without_evaluation_rows_there_is_nothing_to_judge() -> None:
    """Another round always follows, also with patience."""
    active = active_of(Labels(Y, base_score=0.5, early_stopping_rounds=1))
    assert [active.report(t) for t in range(4)] == [True] * 4
    assert (active.metrics, active.best_iteration) == ({}, None)


def judged(**labels: Any) -> Active:
    """Return one with two evaluation sets, of two rows and of one."""
    return active_of(Labels(Y, eval_y=[np.array([0.0, 1]), np.array([1.0])], base_score=0.5, **labels), eval_rows=3)


def set_probabilities(active: Active, *p: float) -> None:
    """Let the last margins be those of some probabilities."""
    active.margins[0, -len(p) :] = [round(math.log(q / (1 - q)) * ONE) for q in p]


def test_every_set_has_its_metrics() -> None:
    """By their names, each over its own rows, one value more per round; the default is the objective's."""
    active = judged(eval_metrics=["error", "logloss"])
    for p in ((0.25, 0.75, 0.5), (0.75, 0.25, 0.9)):
        set_probabilities(active, *p)
        active.report(0)
    assert active.metrics == {
        "validation_0": {
            "error": [0.0, 1.0],
            "logloss": pytest.approx([-math.log(0.75), -math.log(0.25)]),
        },
        "validation_1": {"error": [1.0, 0.0], "logloss": pytest.approx([-math.log(0.5), -math.log(0.9)])},
    }
    assert active.best_iteration is None, "nobody asked for it"
    default = judged()
    default.report(0)
    assert {name: list(values) for name, values in default.metrics.items()} == {
        "validation_0": ["logloss"],
        "validation_1": ["logloss"],
    }


def test_evaluation_rows_have_weights() -> None:
    """Of one set, and none of the other."""
    active = judged(eval_metrics=["error"], eval_weight=[np.array([3.0, 1]), None])
    set_probabilities(active, 0.75, 0.75, 0.25)
    active.report(0)
    assert active.metrics == {"validation_0": {"error": [0.75]}, "validation_1": {"error": [1.0]}}


@pytest.mark.parametrize(("patience", "goes_on"), [(1, [1, 1, 0, 1, 0, 0]), (2, [1, 1, 1, 1, 1, 0])])
def test_patience_counts_rounds_since_the_best(patience: int, goes_on: list[int]) -> None:
    """The last set decides, whatever the first does; a value that is only as good is no better."""
    active = judged(early_stopping_rounds=patience)
    answers = []
    for t, p in enumerate([0.5, 0.6, 0.6, 0.7, 0.65, 0.6]):
        set_probabilities(active, 0.5 - t / 100, 0.5 + t / 100, p)
        answers.append(active.report(t))
    assert answers == [bool(answer) for answer in goes_on]
    assert active.best_iteration == 3


def test_the_last_metric_decides_and_some_grow() -> None:
    """Of an area under the curve more is better; the loss before it has no say."""
    labels = Labels(
        Y, eval_y=[np.array([0.0, 1, 1])], eval_metrics=["logloss", "auc"], early_stopping_rounds=1, base_score=0.5
    )
    active = active_of(labels, eval_rows=3)
    answers = []
    for t, p in enumerate([(0.5, 0.6, 0.4), (0.9, 0.92, 0.91), (0.5, 0.6, 0.4)]):
        set_probabilities(active, *p)
        answers.append(active.report(t))
    assert active.metrics["validation_0"]["auc"] == [0.5, 1.0, 0.5]
    assert active.metrics["validation_0"]["logloss"][1] > active.metrics["validation_0"]["logloss"][0]
    assert answers == [True, True, False]
    assert active.best_iteration == 1


def test_callers_are_told_and_may_stop() -> None:
    """All of them hear of every round, with what there is to know; one that answers yes ends the training."""
    told: list[RoundReport] = []
    stop_at_two = [told.append, lambda report: report.iteration == 2, told.append]
    active = active_of(Labels(Y, base_score=0.5, callbacks=Callbacks(stop_at_two)))
    active.party.meter.now.rounds += 7
    assert [active.report(t) for t in range(3)] == [True, True, False]
    assert [report.iteration for report in told] == [0, 0, 1, 1, 2, 2]
    assert told[0] == RoundReport(0, 5, {}, 7, active.party.meter.total().bytes_sent)


# Going on


def test_what_is_remembered_is_where_it_goes_on() -> None:
    """Margins, metrics, the best so far and the scale; margins are its own from then on."""
    active = judged(early_stopping_rounds=2)
    active.integers(0)
    set_probabilities(active, 0.4, 0.6, 0.8)
    active.report(0)
    remembered = active.evaluation()
    assert remembered.best_iteration == 0
    assert remembered.best_value == pytest.approx(-math.log(0.8))

    other = judged(early_stopping_rounds=2)
    other.resume(remembered)
    assert (other.scale, other.metrics, other.best_iteration) == (active.scale, active.metrics, 0)
    np.testing.assert_array_equal(other.integers(1), active.integers(1))
    other.margins += 1
    assert (other.margins != active.margins).all()
    set_probabilities(other, 0.4, 0.6, 0.7)
    assert [other.report(1), other.report(2)] == [True, False]
    assert other.best_iteration == 0


def test_before_the_first_judgement_nothing_is_the_best() -> None:
    """A value is remembered only if there is one."""
    remembered = active_of().evaluation()
    assert (remembered.best_iteration, remembered.best_value) == (None, None)
    other = judged(early_stopping_rounds=1)
    other.resume(judged(early_stopping_rounds=1).evaluation())
    assert other.report(0)
    assert other.best_iteration == 0


@pytest.mark.parametrize(("spread", "told"), [(2.0**-13, True), (2.0**-11, False), (0.0, False)])
def test_labels_beside_which_steps_are_coarse(caplog: pytest.LogCaptureFixture, spread: float, told: bool) -> None:
    """Whoever trains on tiny numbers is told what to do, once; constant labels are no such case."""
    y = np.array([1.0, 1.0 + spread])
    active_of(Labels(y, base_score=1.0), objective="reg:squarederror")
    assert ["multiply the labels by a constant" in record.getMessage() for record in caplog.records] == [True] * told


def test_labels_are_not_shown() -> None:
    """Only how many there are."""
    assert repr(Labels(Y)) == "Labels(rows=8)"
