"""The oracle of sealed trainings: its rounding and its options."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from mpfedxgb.boosting.active import Labels
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.reference import RefLeaf, RefSealed, RefSplit, Rules, sealed_gradients, sealed_weight, train_sealed
from mpfedxgb.sigmoid import PLACES, sigmoid
from plain_sealed import encode
from support.sealed_answers import sealed_answer
from support.small_trainings import EVAL_ROWS, ROWS, Training, training_of

ONE = 1 << PLACES
LOGISTIC = RefSealed(is_logistic=True, rounds=1, learning_rate=0.5)
SQUARES = RefSealed(is_logistic=False, rounds=1, learning_rate=0.5, g_cap=1000, h_places=16)
RULES = Rules(max_depth=2, lam=1, gam=1, mcw=0, no_split_first=True)
KINDS = (
    "binary",
    "squared error",
    "weights",
    "no checks",
    "column samples",
    "row samples",
    "evaluation rows",
    "first layer masked",
    "nothing to split",
    "nothing to gain",
)
"""The small trainings that a sealed one can be."""


def ints(*values: int) -> Any:
    """Return an array of integers."""
    return np.array(values, np.int64)


# Gradients


def test_gradients_of_log_loss() -> None:
    """G = p - y and h = p (1 - p), which is 1/4 at a margin of 0; halves of a unit go up."""
    F = ints(0, 0, 1 << 26, -(1 << 40), 12345678)
    g, h = sealed_gradients(LOGISTIC, F, ints(0, ONE, ONE, 0, 0))
    p = [int(one) for one in sigmoid(F)]
    assert g.tolist() == [ONE // 2, -ONE // 2, p[2] - ONE, 1, p[4]]
    assert h.tolist() == [(2 * q * (ONE - q) + ONE) // (2 * ONE) for q in p]
    assert h.tolist()[:2] == [ONE // 4, ONE // 4]
    assert h[3] == 1


def test_gradients_of_squared_error_are_held_to_their_cap() -> None:
    """G = F - y within the cap, on both sides; h = 1."""
    g, h = sealed_gradients(SQUARES, ints(0, 0, 5000, -5000, 10), ints(7, -7, 0, 0, 10))
    assert g.tolist() == [-7, 7, 1000, -1000, 0]
    assert set(h.tolist()) == {1 << 16}


def test_row_weights_scale_and_round_once() -> None:
    """2^24 is a weight of 1; half a unit goes up, for negative g too; samples leave nothing."""
    weights = ints(1 << 24, 1 << 23, 1 << 23, 0, 1 << 24)
    inside = np.array([1, 1, 1, 1, 0], np.uint8)
    g, h = sealed_gradients(SQUARES, ints(3, 3, -3, 9, 9), ints(0, 0, 0, 0, 0), weights, inside)
    assert g.tolist() == [3, 2, -1, 0, 0]
    assert h.tolist() == [1 << 16, 1 << 15, 1 << 15, 0, 0]


# Leaves


@pytest.mark.parametrize(
    ("G", "H", "rate", "w"),
    [
        (1, 1, 1.0, -(1 << 15)),
        (3, (1 << 17) - 1, 1.0, -2),  # 1.5 goes up before the sign does
        (-3, (1 << 17) - 1, 1.0, 1),
        (0, 5, 0.3, 0),
        (1 << 40, (1 << 16) - 1, 0.25, -(1 << 38)),
    ],
)
def test_leaf_weights_round_by_the_rule(G: int, H: int, rate: float, w: int) -> None:
    """W = -round(rate G / (H + lambda)), halves of the quotient up."""
    assert sealed_weight(RefLeaf((), G, H), replace(SQUARES, learning_rate=rate), RULES.lam) == w


def test_the_rate_is_xgboosts_float32() -> None:
    """0.3 is num 2^-e with num odd, e = 25; rates too fine for the places work alike."""
    leaf = RefLeaf((), 1 << 60, 0)
    num = 10066330 // 2
    assert Fraction(float(np.float32(0.3))) == Fraction(num, 1 << 24)
    assert sealed_weight(leaf, replace(LOGISTIC, learning_rate=0.3), RULES.lam) == -(num << 60)
    tiny = float(np.float32(1e-9))
    exact = Fraction(tiny) * (1 << 60) * ONE
    assert sealed_weight(leaf, replace(LOGISTIC, learning_rate=1e-9), RULES.lam) == -((2 * exact + 1) // 2)


# Whole trainings


def test_a_training_by_hand() -> None:
    """One column that tells the labels apart: two leaves, and a third row that has no label follows."""
    bits = np.array([[1, 1, 0, 0, 1]], np.uint8)
    (tree,), (margins,) = train_sealed(bits, ints(0, 0, ONE, ONE), replace(RULES, lam=ONE), LOGISTIC)
    assert isinstance(tree, RefSplit)
    assert tree.left == RefLeaf((0, 1, 4), ONE, ONE // 2)
    assert tree.right == RefLeaf((2, 3), -ONE, ONE // 2)
    w = (ONE + 1) // 3  # rate 1/2, G = 1, H + lambda = 3/2
    assert margins.tolist() == [-w, -w, w, w, -w]


@pytest.mark.parametrize("kind", KINDS)
def test_every_option_trains(kind: str) -> None:
    """Weights of the joined trees add up to the margins, of evaluation rows too; more rounds begin like fewer."""
    training = training_of(kind, 3)
    answer = sealed_answer(training, 7)
    assert len(answer.trees) == len(answer.weights) == len(answer.margins) == 2
    assert answer.margins.shape[1] == ROWS + training.eval_rows
    first = answer.margins[0] - answer.encoded.sealed.start
    assert set(first.tolist()) <= set(answer.weights[0])
    shorter = sealed_answer(training, 7, rounds=1)
    assert shorter.trees == answer.trees[:1]
    assert (len(answer.trees[0]) > 1) == (not kind.startswith("nothing"))
    assert answer.evaluated(ROWS).shape == (2, training.eval_rows)


def test_evaluation_rows_change_nothing() -> None:
    """The same trees as without them."""
    training = training_of("evaluation rows", 2)
    without = Training(training.params, training.tables, training.labels)
    one, other = sealed_answer(training), sealed_answer(without)
    assert one.trees == other.trees
    assert (one.margins[:, :ROWS] == other.margins).all()
    assert training.eval_rows == 2 * EVAL_ROWS


def test_weights_of_one_are_no_weights() -> None:
    """The largest weight for every row only scales g and h, hence leaves the trees, where lambda has the same units."""
    training = training_of("binary", 2)
    training = replace(training, params=replace(training.params, security="sealed"))
    weighted = Training(
        replace(training.params, weighted=True),
        training.tables,
        replace(training.labels, weight=np.ones(ROWS)),
    )
    one, other = sealed_answer(training), sealed_answer(weighted)
    assert one.trees == other.trees
    assert other.encoded.weights is not None
    assert set(other.encoded.weights.tolist()) == {1 << 36}
    assert other.encoded.sealed.rounding < 36
    assert one.encoded.scale.lam << (36 - other.encoded.sealed.rounding) == other.encoded.scale.lam


def test_samples_are_those_of_the_participants_keys() -> None:
    """The same seed draws the same rows and columns, another one others."""
    for kind in ("row samples", "column samples"):
        training = training_of(kind, 3)
        assert sealed_answer(training, 7).trees == sealed_answer(training, 7).trees
        assert len({str(sealed_answer(training, seed).trees) for seed in range(5)}) > 1


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_labels_of_any_size_take_their_part_of_the_cap(scale: float) -> None:
    """The largest residual is at most a quarter of the cap on |g|, and more than an eighth."""
    params = TrainParams(objective="reg:squarederror", n_estimators=1)
    encoded = encode(params, Labels(scale * np.array([1.0, 2.5, -7.0])))
    largest = int(np.abs(encoded.y).max())
    assert encoded.sealed.g_cap // 8 < largest <= encoded.sealed.g_cap // 4
