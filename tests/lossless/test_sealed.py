"""Sealed trainings against the oracle, bit for bit: splits, weights and margins that nobody knows, what is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from mpfedxgb import FedXGBClassifier, FedXGBRegressor, join
from mpfedxgb.boosting import Labels, PartialModel
from mpfedxgb.boosting.active import Active
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.config import TOPOLOGIES, SessionSettings
from mpfedxgb.data import Table
from mpfedxgb.errors import UserError
from mpfedxgb.exponential import exponential
from mpfedxgb.party import ACTIVE, Party, run_locally
from mpfedxgb.sigmoid import LIMIT, PLACES
from mpfedxgb.tree.nodes import Scorer
from mpfedxgb.tree.predict import secure_predict
from patience import patience
from plain_sealed import SealedAnswer, answer_to, joined_weights
from support.property_tests import examples
from support.refusals import refused
from support.sealed_answers import sealed_answer
from support.sealed_trainings import KINDS, RESUMED, Recorded, recorded, run_sealed, sealed_of
from support.small_problems import Problem, directions_for, small_problem
from support.small_trainings import Training, models
from support.views import Recorder

SEED = 7
ROWS, EVAL_ROWS = 45, 15
OBJECTIVES = {
    "binary": "binary:logistic",
    "regression": "reg:squarederror",
    "counts": "count:poisson",
    "classes": "multi:softprob",
}
Ints = npt.NDArray[np.int64]


def assert_lossless(record: Recorded, seed: int = SEED) -> SealedAnswer:
    """Compare the trees, the weights of all leaves and the margins of all rows after each round with the oracle's."""
    training, parts = record.training, models(record.run)
    kept = len(parts[0].trees)
    answer = sealed_answer(training, seed, rounds=len(record.margins))

    assert list(join(parts).trees) == answer.trees[:kept]
    assert parts[0].leaf_scale_bits == answer.encoded.places
    assert joined_weights(parts) == answer.weights[:kept]
    for t, margins in record.margins.items():
        np.testing.assert_array_equal(margins, answer.margins[t - 1])
    return answer


def run_here(training: Training) -> Recorded:
    """Train, with samples that the oracle can repeat."""
    run, memories, grown = run_sealed(training, SessionSettings(insecure_seed=SEED))
    return Recorded(training, run, Recorder(), memories, grown)


@pytest.mark.parametrize("participants", [2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_every_option_is_lossless(kind: str, participants: int) -> None:
    """Everybody's shares add up to the oracle's weights and margins, of resumed trainings too."""
    record = recorded(kind, participants) if kind == RESUMED else run_here(sealed_of(kind, participants))
    answer = assert_lossless(record)
    assert len(record.grown) == len(answer.trees)


# Random tables, with every option


def weights_of(rng: np.random.Generator, kind: str | None) -> Any:
    """Return row weights of one kind: some zeros, all of them tiny, or far apart."""
    if kind is None:
        return None
    steps = {"steps": [0.0, 0.5, 1.0, 3.7], "tiny": [1e-9, 2e-9], "far apart": [1e-7, 1.0, 1e3, 0.0]}[kind]
    weight = rng.choice(steps, ROWS)
    weight[:2] = steps[1]  # some rows count
    return weight


def labels_of(problem: Problem, size: float) -> Any:
    """Return the labels, those of regression with a largest of `size`; 0 stands for labels that are all equal."""
    if problem.kind in ("binary", "classes"):
        return problem.y.astype(np.float64)
    if problem.kind == "counts":
        return size * problem.y
    return np.full(len(problem.y), 2.5) if size == 0 else size * problem.y / np.abs(problem.y).max()


def training_of(problem: Problem, y: Any, weight: Any, evaluates: bool, **params: Any) -> Training:
    """Return the sealed training of a problem's first rows; the others are for evaluation, or left out."""
    tables = [Table.read(frame, name) for name, frame in problem.tables.items()]
    first, rest = (
        [
            replace(t, columns=tuple(replace(c, values=c.values[rows]) for c in t.columns), rows=len(y[rows]))
            for t in tables
        ]
        for rows in (slice(0, ROWS), slice(ROWS, None))
    )
    named: dict[str, Any] = {"objective": OBJECTIVES[problem.kind]} | params
    if problem.kind == "classes":
        named["num_class"] = int(y.max()) + 1
    settings = TrainParams(**named, security="sealed", weighted=weight is not None)
    labels = Labels(y[:ROWS], weight, eval_y=[y[ROWS:]] if evaluates else ())
    return Training(settings, first, labels, [rest] if evaluates else [])


def scored(parts: Sequence[PartialModel], tables: Sequence[Table], settings: SessionSettings) -> Ints:
    """Return what joint scoring tells the active participant: the sums of leaf weights, as integers."""

    def program(party: Party, scorer: Scorer | None) -> Ints | None:
        return secure_predict(party, classes, scorer, None)

    classes = parts[0].params.outputs
    private = [(None,), *((part.scorer(table),) for part, table in zip(parts, tables, strict=True))]
    sums = run_locally(program, len(parts), private, settings).results[ACTIVE]
    assert sums is not None
    return np.asarray(sums if classes > 1 else sums[0])


def assert_all_lossless(training: Training, seed: int, topology: str) -> SealedAnswer:
    """Train and score; compare all there is with the oracle, what the active participant is told included."""
    told: list[Ints] = []
    see = Active.see_evaluation

    def hear(active: Active, sums: Ints, leaf_scale_bits: int) -> None:
        told.append(sums)
        see(active, sums, leaf_scale_bits)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Active, "see_evaluation", hear)
        settings = SessionSettings(insecure_seed=seed, topology=topology, deadline=patience(120.0))
        run, memories, grown = run_sealed(training, settings)
    answer = assert_lossless(Recorded(training, run, Recorder(), memories, grown), seed)

    start = answer.encoded.sealed.start
    sums = answer.margins[-1] - start
    np.testing.assert_array_equal(scored(models(run), training.tables, settings), sums[..., :ROWS])
    if training.evaluation:
        np.testing.assert_array_equal(np.array(told), answer.evaluated(ROWS))
        np.testing.assert_array_equal(scored(models(run), training.evaluation[0], settings), sums[..., ROWS:])
    else:
        assert not told
    return answer


@examples(25)
@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(["binary", "regression", "classes"]),
    participants=st.integers(2, 5),
    weights=st.sampled_from([None, None, "steps", "tiny", "far apart"]),
    size=st.sampled_from([0.0, 1e-6, 1.0, 1e3, 1e8]),
    evaluates=st.booleans(),
    topology=st.sampled_from(TOPOLOGIES),
    n_estimators=st.integers(1, 5),
    max_depth=st.integers(1, 4),
    gamma=st.sampled_from([0.0, 1e-6, 0.3, 1.0]),
    reg_lambda=st.sampled_from([1e-3, 0.4, 1.0, 100.0, 1e6]),
    min_child_weight=st.sampled_from([0.0, 1.0, 3.0, 1e9]),
    max_bin=st.sampled_from([2, 5, 32]),
    learning_rate=st.sampled_from([1e-3, 0.3, 0.7, 1.0, 3.0]),
    first_layer_mask=st.booleans(),
    samples=st.sampled_from([(1.0, 1.0), (0.7, 1.0), (1.0, 0.5), (0.6, 0.6)]),
    colsample_bynode=st.sampled_from([1.0, 1.0, 0.5]),
    reg_alpha=st.sampled_from([0.0, 0.0, 0.3, 2.0]),
    max_delta_step=st.sampled_from([0.0, 0.0, 0.05, 0.7]),
    constrained=st.booleans(),
)
def test_random_trainings_are_lossless(
    seed: int,
    kind: str,
    participants: int,
    weights: str | None,
    size: float,
    evaluates: bool,
    topology: str,
    samples: tuple[float, float],
    **params: Any,
) -> None:
    """Ties, duplicates, gaps, categories; every option at once; labels and weights of any size."""
    problem = small_problem(seed, kind, ROWS + EVAL_ROWS, participants)
    weight = weights_of(np.random.default_rng(seed), weights)
    if weight is not None:
        params["reg_lambda"] = max(params["reg_lambda"], float(weight.max()) / 2000)
    subsample, colsample = samples
    if params["constrained"]:
        params["max_delta_step"] *= size if kind == "regression" else 1
        params["reg_lambda"] = min(params["reg_lambda"], 100.0)
    training = training_of(
        problem, labels_of(problem, size), weight, evaluates, subsample=subsample, colsample_bytree=colsample, **params
    )
    if params["constrained"]:
        training = replace(training, directions=list(directions_for(problem, seed).values()))
    try:
        assert_all_lossless(training, seed, topology)
    except UserError as error:  # large labels, and a rate that overshoots
        if (error.code, error.parameter) != ("range", "margin"):
            raise
        reject()


def test_evaluation_margins_beyond_their_range_are_refused() -> None:
    """Labels of 1e8 and a rate of 30: the active participant hears what to change, not how numbers are written."""
    problem = small_problem(0, "regression", ROWS + EVAL_ROWS, 2)
    training = training_of(problem, labels_of(problem, 1e8), None, True, n_estimators=3, learning_rate=30.0)
    with refused(UserError, "range", "margin"):
        assert_all_lossless(training, 0, "star")


@examples(20)
@given(
    seed=st.integers(0, 10**6),
    participants=st.integers(2, 4),
    objective=st.sampled_from(["count:poisson", "reg:gamma", "reg:tweedie"]),
    power=st.sampled_from([1.03125, 1.3, 1.5, 1.96875]),
    weights=st.sampled_from([None, None, "steps", "far apart"]),
    size=st.sampled_from([1e-6, 1.0, 1.0, 1e6]),
    evaluates=st.booleans(),
    topology=st.sampled_from(TOPOLOGIES),
    reg_lambda=st.sampled_from([0.4, 1.0, 100.0]),
    learning_rate=st.sampled_from([0.3, 1.0, 3.0]),
    max_bin=st.sampled_from([2, 5, 32]),
    subsample=st.sampled_from([1.0, 0.6]),
    max_delta_step=st.sampled_from([0.0, 0.0, 0.7, 2.5]),
    reg_alpha=st.sampled_from([0.0, 0.0, 0.5]),
    constrained=st.sampled_from([False, False, True]),
)
def test_random_positive_means_are_lossless(
    seed: int,
    participants: int,
    objective: str,
    power: float,
    weights: str | None,
    size: float,
    evaluates: bool,
    topology: str,
    **params: Any,
) -> None:
    """Counts, ratios and amounts of any size, in their own units; labels of 0 where the loss takes them."""
    problem = small_problem(seed, "counts", ROWS + EVAL_ROWS, participants)
    y = labels_of(problem, size) + (size if objective == "reg:gamma" else 0)
    y[0] += size
    if objective == "reg:tweedie":
        params["tweedie_variance_power"] = power
    weight = weights_of(np.random.default_rng(seed), weights)
    if weight is not None:
        params["reg_lambda"] = max(params["reg_lambda"], float(weight.max()) / 2000)
    training = training_of(problem, y, weight, evaluates, objective=objective, n_estimators=3, max_depth=2, **params)
    if params["constrained"]:
        training = replace(training, directions=list(directions_for(problem, seed).values()))
    assert_all_lossless(training, seed, topology)


# What is extreme


@pytest.mark.parametrize("objective", ["count:poisson", "reg:gamma", "reg:tweedie"])
def test_margins_beyond_the_range_of_the_exponential(objective: str) -> None:
    """A rate of 300 sends margins beyond both ends, where e is 0 or as at the top, and training goes on from there."""
    problem = small_problem(3, "counts", ROWS + EVAL_ROWS)
    y = labels_of(problem, 1.0) + (objective == "reg:gamma")
    training = training_of(
        problem, y, None, False, objective=objective, n_estimators=4, learning_rate=300.0, min_child_weight=0.0
    )
    answer = assert_all_lossless(training, 3, "star")
    f = exponential({"count:poisson": 1.0, "reg:gamma": 1.0, "reg:tweedie": 0.5}[objective])
    x = answer.margins if objective != "reg:gamma" else answer.encoded.y - answer.margins[:, :ROWS]
    assert (x > f.low + f.width).any()
    assert (x < f.low).any()
    assert (answer.margins[-1] != answer.margins[-2]).any()


def test_margins_beyond_the_range_of_the_sigmoid() -> None:
    """A rate of 100 sends margins beyond +-16 at once, where p is u or 1 - u, and training goes on from there."""
    problem = small_problem(3, "binary", ROWS + EVAL_ROWS)
    training = training_of(
        problem, labels_of(problem, 1.0), None, True, n_estimators=4, learning_rate=100.0, min_child_weight=0.0
    )
    answer = assert_all_lossless(training, 3, "star")
    assert (np.abs(answer.margins[0]) > LIMIT).any()
    assert (answer.margins[-1] != answer.margins[0]).any()


@pytest.mark.parametrize("learning_rate", [0.3, 30.0])
@pytest.mark.parametrize("classes", [2, 5, 7])
def test_any_number_of_classes(classes: int, learning_rate: float) -> None:
    """Some of them rare, one without a row; a rate of 30 sends margins farther apart than the exponential reaches."""
    problem = small_problem(5, "classes", ROWS + EVAL_ROWS)
    y = np.arange(ROWS + EVAL_ROWS) % classes * (np.arange(ROWS + EVAL_ROWS) % 3 > 0)
    y[(y == 1) & (classes > 2)] = 0
    y[-1] = classes - 1
    training = training_of(
        problem, y.astype(np.float64), None, True,
        n_estimators=3, max_depth=2, learning_rate=learning_rate, min_child_weight=0.0,
    )  # fmt: skip
    answer = assert_all_lossless(training, 3, "mesh" if classes == 5 else "star")
    assert training.params.num_class == classes
    assert len(answer.trees) == 3 * classes
    apart = np.ptp(answer.margins[-1], axis=0)
    assert (apart.max() > 31 << PLACES) == (learning_rate == 30.0)
    assert (answer.margins[-1] != answer.margins[-2]).any()


def test_residuals_beyond_their_cap() -> None:
    """A rate of 40 makes residuals grow until they are held to the cap."""
    problem = small_problem(4, "regression", ROWS + EVAL_ROWS)
    training = training_of(problem, labels_of(problem, 1.0), None, True, n_estimators=4, learning_rate=40.0)
    answer = assert_all_lossless(training, 4, "mesh")
    assert (np.abs(answer.margins[-2]) > 4 * answer.encoded.sealed.g_cap).any()


@pytest.mark.parametrize("kind", ["binary", "regression"])
def test_leaves_of_one_row(kind: str) -> None:
    """Deep trees of few rows, whose sides may be empty in the sample."""
    problem = small_problem(7, kind, ROWS + EVAL_ROWS)
    training = training_of(
        problem, labels_of(problem, 1.0), None, False,
        n_estimators=4, max_depth=6, max_bin=32, min_child_weight=0.0, reg_lambda=1e-3, subsample=0.75,
    )  # fmt: skip
    answer = assert_all_lossless(training, 8, "star")
    assert max(map(len, answer.weights)) >= 10


@pytest.mark.parametrize("kind", ["binary", "regression"])
def test_a_tree_lighter_than_min_child_weight_weighs_as_any_other(kind: str) -> None:
    """One leaf, and margins change by its weight, whether its hessians reach min_child_weight or not."""
    problem = small_problem(8, kind, ROWS + EVAL_ROWS)
    y = labels_of(problem, 1.0)
    y[0] = y[1]  # of one class there are more, so that sums are not 0
    weights = []
    for least in (1e5, float(ROWS) if kind == "regression" else 5.0):
        training = training_of(problem, y, None, True, n_estimators=2, gamma=1e9, min_child_weight=least, subsample=1.0)
        labels = replace(training.labels, base_score=0.25)
        answer = assert_all_lossless(replace(training, labels=labels), 8, "star")
        assert [len(tree) for tree in answer.trees] == [1, 1]
        assert (answer.margins[-1] != answer.encoded.sealed.start).all()
        weights.append(answer.weights)
    assert weights[0] == weights[1]


# The estimators


@pytest.mark.parametrize("kind", ["binary", "regression", "classes"])
def test_estimators_give_the_oracles_trees(kind: str) -> None:
    """With evaluation rows and a random_state; and predictions are the oracle's sums."""
    problem = small_problem(11, kind, rows=60, weighted=True)
    assert problem.weight is not None
    first, rest = (
        {name: frame.iloc[rows] for name, frame in problem.tables.items()} for rows in (slice(0, ROWS), slice(ROWS, 60))
    )
    y, weight = problem.y[:ROWS], problem.weight[:ROWS]
    estimator = FedXGBRegressor if kind == "regression" else FedXGBClassifier
    model = estimator(security="sealed", n_estimators=3, subsample=0.8, colsample_bynode=0.5, random_state=5)
    model.fit(first, y, sample_weight=weight, eval_set=[(rest, problem.y[ROWS:])])
    answer = answer_to(model, first, y, weight)

    assert list(join(model.partial_models_).trees) == answer.trees
    assert joined_weights(model.partial_models_) == answer.weights
    sums = np.ldexp((answer.margins[-1] - answer.encoded.sealed.start).astype(np.float64), -answer.encoded.places)
    base = np.array(model.partial_models_[0].base_margin)
    found = model.decision_function(first) if isinstance(model, FedXGBClassifier) else model.predict(first)
    np.testing.assert_array_equal(found, sums.T + base)
