"""Some random trainings as `make fuzz` makes them, and what it says of a model that is not right."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from fuzz import against_export, against_oracle, fit, main
from mpfedxgb import FedXGBClassifier, join
from mpfedxgb.boosting.metrics import METRICS
from mpfedxgb.boosting.objectives import NAMED, OBJECTIVES
from mpfedxgb.tree import Leaf
from random_trainings import random_sealed_training, random_training

SEEDS = ("2", "38", "43", "2652", "2699", "2000350")
"""Small: a callable with hessians of 0, classes with samples and weights, counts with weights and ids; a residual whose
square is beyond float32, and a hessian that xgboost loses beside others; trees that take 0.9 to near 0."""

WITH_EVALUATION = 74

SEALED = ("3051", "3057", "3111")
"""Sealed, small: regression; classes with weights that stop early; regression with weights."""

HOW_IT_RUNS = {"participants", "callbacks", "verbosity", "deadline", "link", "topology", "client"}
HOW_IT_RUNS |= {"n_jobs", "max_memory", "spool", "importance_type", "feature_types"}
"""Parameters of an estimator that change no model, or that random trainings leave alone; their tables come dealt."""


@pytest.mark.parametrize("seed", SEEDS)
def test_random_trainings_are_as_they_should_be(seed: str) -> None:
    """Oracle, xgboost and export agree, and the exit code says so."""
    out = io.StringIO()
    code = main(["--runs", "1", "--seed", seed], out)
    assert code == 0, out.getvalue()
    assert f"from seed {seed}" in out.getvalue()


@pytest.mark.parametrize("seed", SEALED)
def test_random_sealed_trainings_are_as_they_should_be(seed: str) -> None:
    """Oracle, xgboost and export agree with what everybody's shares add up to."""
    out = io.StringIO()
    code = main(["--runs", "1", "--seed", seed, "--security", "sealed"], out)
    assert code == 0, out.getvalue()
    assert " refused, " not in out.getvalue()


def test_sealed_trainings_draw_what_is_extreme() -> None:
    """Rates, labels and weights of all sizes, all losses and topologies, no lambda of 0."""
    drawn = [random_sealed_training(seed) for seed in range(150)]
    losses = {name for name, loss in OBJECTIVES.items() if loss.sealed is not None}
    assert {training.objective for training in drawn} == losses
    assert {training.params["topology"] for training in drawn} == {"star", "mesh"}
    assert {1e-3, 3.0} < {training.params["learning_rate"] for training in drawn}
    assert min(training.params["reg_lambda"] for training in drawn) > 0
    largest = [float(abs(training.y).max()) for training in drawn if not training.has_classes]
    assert min(largest) < 1e-6 < 1e8 < max(largest)
    weights = [training.weight for training in drawn if training.weight is not None]
    assert any((weight == 0).any() for weight in weights)
    assert any(weight[weight > 0].min() < 1e-8 * weight.max() for weight in weights)


def test_a_wrong_share_is_found() -> None:
    """A unit in one participant's share of one leaf is a difference from the oracle."""
    training = random_sealed_training(int(SEALED[0]))
    model = fit(training)
    assert not against_oracle(training, model, join(model.partial_models_))

    second = model.partial_models_[1]
    tree = list(second.trees[-1])
    number, leaf = next((i, node) for i, node in enumerate(tree) if isinstance(node, Leaf))
    assert leaf.share is not None
    tree[number] = replace(leaf, share=leaf.share + 1)
    model.partial_models_[1] = replace(second, trees=(*second.trees[:-1], tuple(tree)))
    said = against_oracle(training, model, join(model.partial_models_))
    assert said.startswith("oracle: ")


def test_a_number_stands_for_one_training() -> None:
    """What a seed makes is the same every time, and other seeds make something else."""
    one, other = random_training(5), random_training(5)
    assert str(one) == str(other)
    assert all(one.tables[name].equals(other.tables[name]) for name in one.tables)
    assert (one.y == other.y).all()
    assert str(one) != str(random_training(6))


def test_everything_there_is_gets_drawn() -> None:
    """Some hundred seeds meet every objective, every metric and every option that can change a model."""
    trainings = [random_training(seed) for seed in range(700)]
    options = {name for training in trainings for name in training.params}
    metrics = {name.partition("@")[0] for training in trainings for name in training.params.get("eval_metric", [])}

    assert set(FedXGBClassifier().get_params()) - options == HOW_IT_RUNS
    assert {*NAMED, "custom", "custom classes"} == {training.objective for training in trainings}
    assert metrics == set(METRICS)
    assert any(training.weight is not None for training in trainings)
    assert any(training.evaluation_weight is not None for training in trainings)


def test_ids_bring_rows_together() -> None:
    """With ids, the others' rows are passed in another order than the active participant's, and are the same rows."""
    training = next(t for t in map(random_training, range(100)) if "id" in t.params)
    active, *others = training.as_passed(training.for_training).values()
    assert len(others) > 0
    for other in others:
        assert not (other["person"].to_numpy() == active["person"].to_numpy()).all()
        assert other.sort_values("person")["person"].tolist() == active["person"].tolist()


@pytest.mark.parametrize(("more", "told"), [(1, "oracle: tree 0 differs"), (1 << 30, "evaluation: ")])
def test_a_wrong_leaf_is_found(more: int, told: str) -> None:
    """The smallest change of one leaf is a difference from the oracle, a large one from what training reported too."""
    training = random_training(WITH_EVALUATION)
    model = fit(training)
    whole = join(model.partial_models_)
    assert not against_oracle(training, model, whole)
    assert not against_export(training, model, whole)

    active = model.partial_models_[0]
    moved = tuple(
        replace(node, weight=node.weight + more) if isinstance(node, Leaf) and node.weight is not None else node
        for node in active.trees[0]
    )
    model.partial_models_[0] = replace(active, trees=(moved, *active.trees[1:]))
    wrong = join(model.partial_models_)
    said = [against_oracle(training, model, wrong), against_export(training, model, wrong)]
    assert any(text.startswith(told) for text in said), said


def test_nothing_to_do_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    """A filter that no training fits ends with 1, and a number of runs below 1 is refused."""
    assert main(["--runs", "2", "--seed", "0", "--only", "no such objective"], io.StringIO()) == 1
    with pytest.raises(SystemExit):
        main(["--runs", "0"])
    assert "--runs and --jobs must be 1 or more, not 0 and 1" in capsys.readouterr().err
