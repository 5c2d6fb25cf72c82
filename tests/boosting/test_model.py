"""Models: one file per participant, whole or refused; joined they are one XGBoost model, apart they keep secrets."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import xgboost
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb import FedXGBClassifier, FedXGBRegressor, PartialModel, join
from mpfedxgb.api.models import SUFFIX, load_models, to_booster
from mpfedxgb.boosting.join import Joined
from mpfedxgb.boosting.model import FORMAT, VERSION, WITHOUT_DIGEST, Feature, content_digest
from mpfedxgb.boosting.params import RULES, TrainParams
from mpfedxgb.boosting.xgboost_json import feature_names, to_xgboost_json
from mpfedxgb.data.table import Table
from mpfedxgb.errors import UserError
from mpfedxgb.tree.leaf import WEIGHT_BITS
from mpfedxgb.tree.nodes import Dummy, Leaf, Split, Tree, Walk
from support.property_tests import examples
from support.refusals import ANY, refused
from support.toy_tables import QUICK, Floats, halves, labels, margins_by_hand, people

THRESHOLDS = (-np.inf, -1.5, 0.0, float(np.float32(0.1)), 1e-30, 3e38, np.inf)
NAMES = st.text(st.characters(exclude_characters="[]<", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=6)


@st.composite
def federations(draw: st.DrawFn) -> list[PartialModel]:
    """Draw the parts of a model: any objective, any owners, thresholds and categories, coins tossed at will."""
    objective = draw(st.sampled_from(["binary:logistic", "reg:squarederror", "multi:softprob", "count:poisson"]))
    num_class = {"binary:logistic": 2, "multi:softprob": draw(st.integers(3, 4))}.get(objective, 1)
    params = TrainParams(objective=objective, num_class=num_class, n_estimators=2)
    owners = draw(st.lists(NAMES, min_size=2, max_size=4, unique=True))
    features = [draw(features_of_one()) for _ in owners]
    trees = [draw(views(features)) for _ in range(2 * params.trees_per_round)]
    base = draw(st.lists(st.floats(-2, 2), min_size=params.outputs, max_size=params.outputs))
    return [
        PartialModel(
            training="4f",
            participant=m,
            participants=tuple(owners),
            params=params,
            features=features[m - 1],
            trees=tuple(tree[m - 1] for tree in trees),
            base_margin=tuple(float(np.float32(b)) for b in base) if m == 1 else None,
            best_iteration=draw(st.sampled_from([None, 0, 1])) if m == 1 else None,
            classes=tuple(range(num_class)) if m == 1 and num_class > 1 else None,
        )
        for m in range(1, len(owners) + 1)
    ]


@st.composite
def features_of_one(draw: st.DrawFn) -> tuple[Feature, ...]:
    """Draw a participant's features, of numbers and of categories."""
    categories = st.none() | st.lists(NAMES, min_size=2, max_size=3, unique=True).map(tuple)
    names = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    return tuple(Feature(name, draw(categories)) for name in names)


@st.composite
def views(draw: st.DrawFn, features: list[tuple[Feature, ...]]) -> list[Tree]:
    """Draw one tree, as every participant sees it."""
    nodes: list[tuple[Any, ...]] = []
    queue = [0]
    for number in queue:
        if number > 6 or not draw(st.booleans()):
            leaf = Leaf(draw(st.integers(-(2**33), 2**33)), float(draw(st.integers(0, 99))))
            nodes.append((leaf, *[Leaf(None)] * (len(features) - 1)))
            continue
        left, owner = len(queue), draw(st.integers(1, len(features)))
        queue += [left, left + 1]
        feature = draw(st.sampled_from(features[owner - 1]))
        if feature.categories is None:
            threshold, category = draw(st.sampled_from(THRESHOLDS)), None
        else:
            threshold, category = None, draw(st.integers(0, len(feature.categories) - 1))
        own = Split(feature.name, threshold, category, draw(st.booleans()), draw(st.booleans()), left, left + 1)
        other = Dummy(owner, left, left + 1)
        views = [own if m == owner else other for m in range(1, len(features) + 1)]
        views[0] = replace(views[0], gain=draw(st.sampled_from([None, 0.0, 1e-6, 3e20])))
        nodes.append(tuple(views))
    return [tuple(node[m] for node in nodes) for m in range(len(features))]


def tables_of(parts: list[PartialModel], seed: int, rows: int = 25) -> dict[str, pd.DataFrame]:
    """Return a table for every participant: values on, just above and below thresholds, categories, holes."""
    rng = np.random.default_rng(seed)
    edges = np.array(THRESHOLDS[1:-1], np.float32)
    values = np.r_[
        edges, np.nextafter(edges, np.float32(np.inf)), -np.finfo(np.float32).max, np.finfo(np.float32).max, np.nan
    ]
    tables = {}
    for part in parts:
        columns: dict[str, Any] = {}
        for f in part.features:
            if f.categories is None:
                columns[f.name] = rng.choice(values, rows)
            else:
                codes = rng.integers(-1, len(f.categories), rows)
                columns[f.name] = pd.Categorical.from_codes(codes, categories=pd.Index(f.categories))
        tables[part.name] = pd.DataFrame(columns)
    return tables


def margins_by_views(parts: list[PartialModel], tables: dict[str, pd.DataFrame]) -> Floats:
    """Return margins from the parts: the leaf that everybody's own splits leave reachable."""
    rows = len(tables[parts[0].name])
    base = parts[0].base_margin
    assert base is not None
    margins = np.repeat(np.array(base)[:, None], rows, axis=1)
    read = [Table.read(tables[part.name], part.name) for part in parts]
    for number, tree in enumerate(parts[0].trees):
        marks = [Walk([p.trees[number]]).reachable(t, slice(0, rows)) for p, t in zip(parts, read, strict=True)]
        inside = np.prod(np.array(marks), axis=0)
        assert (inside.sum(axis=0) == 1).all()
        weights = np.array([leaf.weight for leaf in tree if isinstance(leaf, Leaf)], np.float64)
        margins[number % len(margins)] += weights / 2**WEIGHT_BITS @ inside
    return margins


@examples(40)
@given(federations())
def test_files_say_what_was_written(parts: list[PartialModel]) -> None:
    """From JSON and back nothing is lost, whatever the names, and the text is plain ASCII that anyone can read."""
    for part in parts:
        text = part.to_json()
        assert text.isascii()
        assert PartialModel.from_json(text) == part
        assert PartialModel.from_json(json.dumps(json.loads(text), sort_keys=True)) == part


@examples(20)
@given(federations(), st.integers(0, 1000))
def test_joined_trees_are_what_the_parts_decide_together(parts: list[PartialModel], seed: int) -> None:
    """In any order of the parts; the private coins are undone, the real left child comes first."""
    whole = join(parts[::-1])
    assert whole == join(parts)
    tables = tables_of(parts, seed)
    np.testing.assert_allclose(margins_by_hand(whole, tables), margins_by_views(parts, tables), atol=1e-9)
    for tree, view in zip(whole.trees, parts[0].trees, strict=True):
        assert len(tree) == len(view)


@examples(15)
@given(federations(), st.integers(0, 1000))
def test_xgboost_loads_any_model_and_predicts_the_same(parts: list[PartialModel], seed: int) -> None:
    """Every objective, numbers on the very edges, categories and missing values: the margins are ours."""
    whole, tables = join(parts), tables_of(parts, seed)
    names = feature_names(whole)
    frame = pd.concat(list(tables.values()), axis=1).set_axis(names, axis=1)
    booster = to_booster(whole)
    kinds = booster.feature_types
    codes = {n: frame[n].cat.codes.where(frame[n].notna()) for n, kind in zip(names, kinds, strict=True) if kind == "c"}
    data = xgboost.DMatrix(frame.assign(**codes), feature_types=kinds, enable_categorical=True)
    theirs = booster.predict(data, output_margin=True)
    ours = margins_by_hand(whole, tables, len(whole.trees_in_use))
    assert booster.num_boosted_rounds() == (2 if whole.best_iteration is None else whole.best_iteration + 1)
    np.testing.assert_allclose(theirs.reshape(len(frame), -1).T, ours, rtol=1e-6, atol=2e-6)


@pytest.mark.parametrize("kind", ["binary", "classes", "regression", "counts", "custom"])
def test_xgboost_predicts_what_was_trained(kind: str) -> None:
    """Trained models too, in the terms of the objective, for new rows; and xgboost can save and load them again."""
    X, new = people(), people(rows=50, seed=9)
    if kind in ("binary", "classes"):
        model: FedXGBClassifier | FedXGBRegressor = FedXGBClassifier(**QUICK).fit(halves(X), labels(X, kind))
    elif kind == "custom":
        model = FedXGBRegressor(**QUICK, objective=lambda y, m: (m - y, np.ones_like(m)))
        model.fit(halves(X), labels(X, "regression"))
    else:
        objective = "count:poisson" if kind == "counts" else None
        model = FedXGBRegressor(**QUICK, objective=objective).fit(halves(X), labels(X, kind))
    whole = join(model.partial_models_)
    booster = model.to_xgboost()
    again = xgboost.Booster(model_file=booster.save_raw("ubj"))
    data = xgboost.DMatrix(new[booster.feature_names], enable_categorical=True)
    ours = whole.params.loss.transform(margins_by_hand(whole, halves(new)))
    for theirs in (booster.predict(data), again.predict(data)):
        np.testing.assert_allclose(theirs.reshape(50, -1).T, ours, rtol=1e-6, atol=1e-6)
    assert booster.num_boosted_rounds() == 3
    assert len(booster.get_dump()) == len(whole.trees)


@pytest.mark.parametrize("kind", ["binary", "classes", "regression"])
def test_the_export_counts_classes_as_xgboost_does(kind: str) -> None:
    """None where a round has one tree, though there are two classes of labels."""
    X = people()
    model = (FedXGBRegressor if kind == "regression" else FedXGBClassifier)(**QUICK).fit(halves(X), labels(X, kind))
    twin = xgboost.XGBRegressor if kind == "regression" else xgboost.XGBClassifier
    numbers = X[["age", "income"]]
    codes = labels(X, kind) if kind == "regression" else np.unique(labels(X, kind), return_inverse=True)[1]
    theirs = twin(n_estimators=1).fit(numbers, codes).get_booster()
    counts = [
        json.loads(one.save_raw("json"))["learner"]["learner_model_param"]["num_class"]
        for one in (model.to_xgboost(), theirs)
    ]
    assert counts[0] == counts[1] == ("3" if kind == "classes" else "0")


@pytest.mark.parametrize(
    ("bank", "telecom", "names"),
    [
        (["age", "calls"], ["income"], ["age", "calls", "income"]),
        (["age", "calls"], ["calls"], ["age", "bank.calls", "telecom.calls"]),
        (["calls", "telecom.calls"], ["calls"], ["1.calls", "1.telecom.calls", "2.calls"]),
        (["calls"], ["bank.calls", "calls"], ["1.calls", "2.bank.calls", "2.calls"]),
    ],
)
def test_no_two_exported_columns_have_one_name(bank: list[str], telecom: list[str], names: list[str]) -> None:
    """Owners go in front where a name is used twice, and numbers of participants where that is ambiguous too."""
    columns = [(1, Feature(name)) for name in bank] + [(2, Feature(name)) for name in telecom]
    whole = Joined(("bank", "telecom"), TrainParams(), tuple(columns), ((Leaf(1, 1.0),),), (0.0,), None)

    assert feature_names(whole) == names
    assert xgboost.Booster(model_file=bytearray(to_xgboost_json(whole).encode())).feature_names == names


def test_export_is_readable(parts: list[PartialModel]) -> None:
    """Names, types and the number of features are in the exported model."""
    learner = json.loads(to_xgboost_json(join(parts)))["learner"]
    assert learner["feature_names"] == ["age", "city", "bank.calls", "telecom.calls"]
    assert learner["feature_types"] == ["float", "c", "float", "float"]
    assert learner["learner_model_param"]["num_feature"] == "4"
    assert learner["learner_model_param"]["base_score"] == "[0.5]"
    trees = learner["gradient_booster"]["model"]["trees"]
    assert [tree["loss_changes"] for tree in trees] == [[12.5, 0.0, 0.1, 0.0, 0.0], [0.0, 0.0, 0.0]]
    assert json.loads(learner["attributes"]["categories"]) == {"city": ["Basel", "Quito"]}


@pytest.fixture
def parts() -> list[PartialModel]:
    """Return a small model by hand, with every kind of node."""
    params = TrainParams(n_estimators=2, num_class=2)
    participants = ("bank", "telecom")
    bank = PartialModel(
        training="c0ffee",
        participant=1,
        participants=participants,
        params=params,
        features=(Feature("age"), Feature("city", ("Basel", "Quito")), Feature("calls")),
        trees=(
            (
                Split("age", 40.5, None, False, True, 1, 2, gain=12.5),
                Dummy(2, 3, 4, gain=0.1),
                Leaf(-5, 1.0),
                Leaf(7, 2.5),
                Leaf(2**33, 0.0),
            ),
            (Split("city", None, 1, True, False, 1, 2), Leaf(1, 1.0), Leaf(2, 1.0)),
        ),
        base_margin=(0.0,),
        best_iteration=1,
        classes=("no", "yes"),
    )
    telecom = PartialModel(
        training="c0ffee",
        participant=2,
        participants=participants,
        params=params,
        features=(Feature("calls"),),
        trees=(
            (Dummy(1, 1, 2), Split("calls", np.inf, None, False, False, 3, 4), Leaf(None), Leaf(None), Leaf(None)),
            (Dummy(1, 1, 2), Leaf(None), Leaf(None)),
        ),
    )
    return [bank, telecom]


@pytest.fixture
def shared_parts(parts: list[PartialModel]) -> list[PartialModel]:
    """Return the same model as the paper keeps it: every participant has a share of each leaf weight."""
    rng = np.random.default_rng(4)
    whole = [node.weight or 0 for tree in parts[0].trees for node in tree if isinstance(node, Leaf)]
    first = [int(v) for v in rng.integers(-(1 << 63), 1 << 63, len(whole))]
    second = [(w - v + (1 << 63)) % (1 << 64) - (1 << 63) for v, w in zip(first, whole, strict=True)]
    params = replace(parts[0].params, security="paper", min_child_weight=0.0)
    out = []
    for part, shares in zip(parts, (iter(first), iter(second)), strict=True):
        trees = tuple(
            tuple(
                Leaf(None, share=next(shares)) if isinstance(node, Leaf) else replace(node, gain=None) for node in tree
            )
            for tree in part.trees
        )
        out.append(replace(part, params=params, trees=trees))
    return out


def changed(part: PartialModel, path: tuple[Any, ...], value: Any, sealed: bool = True) -> str:
    """Return a part's text with the value at a path replaced, or left out if the value is `...`.

    If `sealed`, the digest fits the change, so that everything else in the file has to.
    """
    content = json.loads(part.to_json())
    inner = content
    for key in path[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    if sealed:
        content["digest"] = content_digest(content)
    return json.dumps(content)


def paths(content: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path to every value of a JSON document."""
    items: list[tuple[Any, Any]] = []
    if isinstance(content, dict):
        items = list(content.items())
    elif isinstance(content, list):
        items = list(enumerate(content))
    for key, value in items:
        yield (*above, key)
        yield from paths(value, (*above, key))


@pytest.mark.parametrize("which", [0, 1])
def test_half_a_file_is_refused(parts: list[PartialModel], which: int) -> None:
    """A file cut off anywhere is damaged, and the message names it."""
    text = parts[which].to_json().rstrip()
    for end in range(len(text)):
        with refused(UserError, "damaged", "bank.json"):
            PartialModel.from_json(text[:end], "bank.json")


ANYTHING: list[Any] = [None, True, -1, 10**30, 1.5, "x", "", [], {}, [[]], [None], {"leaf": "1"}, {"share": 1.0}, ...]


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("value", ANYTHING)
@pytest.mark.parametrize("kept", ["parts", "shared_parts"])
def test_any_other_value_is_refused_or_harmless(
    request: pytest.FixtureRequest, kept: str, which: int, value: Any
) -> None:
    """Whatever is put in the place of anything, or left out, the answer is a model that is whole, or a clear error."""
    parts: list[PartialModel] = request.getfixturevalue(kept)
    for path in paths(json.loads(parts[which].to_json())):
        text = changed(parts[which], path, value)
        try:
            read = PartialModel.from_json(text)
        except UserError as error:
            assert str(error).startswith("the model ")  # noqa: PT017 # a model may also be read
            continue
        assert PartialModel.from_json(read.to_json()) == read
        try:
            whole = join([read, parts[1 - which]])
        except UserError:
            continue
        xgboost.Booster(model_file=bytearray(to_xgboost_json(whole).encode()))


DAMAGE: dict[str, tuple[int, tuple[Any, ...], Any, str]] = {
    "a number as text": (0, ("participant",), "1", "participant is str, not int"),
    "a truth value as number": (0, ("participant",), True, "participant is bool, not int"),
    "text as a truth value": (0, ("trees", 0, 0, "flipped"), "false", "flipped is str, not bool"),
    "a third participant of two": (0, ("participant",), 3, "participant 3 of 2"),
    "two of one name": (0, ("participants",), ["a", "a"], "same name"),
    "no training": (0, ("training",), ..., "'training' is missing"),
    "no threshold": (0, ("trees", 0, 0, "threshold"), ..., "'threshold' is missing"),
    "a threshold in words": (0, ("trees", 0, 0, "threshold"), "much", "'much' is missing"),
    "no trees": (0, ("trees",), [], "0 trees"),
    "an empty tree": (0, ("trees", 1), [], "0 nodes"),
    "swapped children": (0, ("trees", 0, 0), {"dummy": 2, "left": 2, "right": 1}, "children 2 and 1"),
    "a child of two": (1, ("trees", 0, 1), {"dummy": 1, "left": 1, "right": 2}, "children 1 and 2"),
    "a child that is the root": (1, ("trees", 1, 0, "left"), 0, "children 0 and 2"),
    "a child too many": (1, ("trees", 1), [{"leaf": None}, {"leaf": None}], "2 nodes"),
    "children beyond the end": (1, ("trees", 1), [{"dummy": 1, "left": 1, "right": 2}], "1 nodes"),
    "an unknown owner": (0, ("trees", 0, 1, "dummy"), 3, "participant 3"),
    "a dummy of one's own": (0, ("trees", 0, 1, "dummy"), 1, "participant 1"),
    "an unlisted feature": (0, ("trees", 0, 0, "feature"), "income", "not listed"),
    "a feature twice": (0, ("features", 2, "name"), "age", "twice"),
    "categories of a number": (0, ("features", 0, "categories"), ["a", "b"], "'age' mixes up"),
    "a number of categories": (0, ("features", 1, "categories"), ..., "'city' mixes up"),
    "an unknown category": (0, ("trees", 1, 0, "category"), 2, "category 2 of 2"),
    "a leaf without weight": (0, ("trees", 0, 2, "leaf"), None, "active participant"),
    "a weight at an auxiliary": (1, ("trees", 0, 2), {"leaf": 3, "cover": 1.0}, "active participant"),
    "a huge weight": (0, ("trees", 0, 2, "leaf"), 1 << 63, "2^30"),
    "a gain at an auxiliary": (1, ("trees", 1, 0, "gain"), 1.5, "gains belong to the active participant"),
    "a gain as text": (0, ("trees", 0, 1, "gain"), "much", "gain is str, not float"),
    "no base margin": (0, ("base_margin",), None, "base margin"),
    "an empty base margin": (0, ("base_margin",), [], "base margin"),
    "two base margins": (0, ("base_margin",), [0.0, 1.0], "base margin"),
    "a base margin at an auxiliary": (1, ("base_margin",), [0.0], "base margin"),
    "a best round that is none": (0, ("best_iteration",), 2, "best_iteration 2"),
    "classes at an auxiliary": (1, ("classes",), ["no", "yes"], "classes"),
    "three classes of two": (0, ("classes",), ["a", "b", "c"], "3 classes"),
    "an impossible parameter": (0, ("params", "max_depth"), 0, "max_depth=0"),
    "an unknown parameter": (0, ("params", "depth"), 3, "no parameter depth"),
    "a refused parameter": (0, ("params", "max_leaves"), 1, "max_leaves is not supported"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_named(parts: list[PartialModel], name: str) -> None:
    """What is wrong with a file is said."""
    which, path, value, says = DAMAGE[name]
    with pytest.raises(UserError) as caught:
        PartialModel.from_json(changed(parts[which], path, value), "a file")
    assert str(caught.value).startswith("a file is damaged: ")
    assert says in str(caught.value)


SHARED_DAMAGE: dict[str, tuple[int, tuple[Any, ...], Any, str]] = {
    "a weight instead": (0, ("trees", 0, 2), {"leaf": 3, "cover": 1.0}, "leaf weights belong to"),
    "a leaf without a share": (1, ("trees", 0, 2), {"leaf": None}, "shares of leaf weights are kept"),
    "a share of another kind": (1, ("trees", 0, 2, "share"), 1.5, "share is float, not int"),
    "a share as text": (0, ("trees", 0, 2, "share"), "7", "share is str, not int"),
    "a share too wide": (0, ("trees", 0, 2, "share"), 1 << 63, "more than 64 bits"),
    "a share too far below": (1, ("trees", 0, 2, "share"), -(1 << 63) - 1, "more than 64 bits"),
    "shares in a strict model": (0, ("params", "security"), "strict", "leaf weights belong to"),
    "shares at a strict auxiliary": (1, ("params", "security"), "strict", "and only there"),
    "a scale at an auxiliary": (1, ("weight_bits",), 30, "scale of leaf weights is the active participant's"),
    "no number for a scale": (0, ("weight_bits",), "32", "weight_bits is str, not int"),
    "a scale beyond all weights": (0, ("weight_bits",), 10**30, "weight_bits"),
    "a scale far below all weights": (0, ("weight_bits",), -(10**30), "weight_bits"),
    "a gain": (0, ("trees", 0, 0, "gain"), 1.5, "nobody where leaf weights are shared"),
    "what does not go with the paper": (0, ("params", "min_child_weight"), 1.0, "min_child_weight=1.0"),
}


@pytest.mark.parametrize("name", SHARED_DAMAGE)
def test_damage_to_shares_is_named(shared_parts: list[PartialModel], name: str) -> None:
    """Shares belong where nobody knows the weights, to all leaves of all participants, and have 64 bits."""
    which, path, value, says = SHARED_DAMAGE[name]
    with pytest.raises(UserError) as caught:
        PartialModel.from_json(changed(shared_parts[which], path, value), "a file")
    assert str(caught.value).startswith("a file is damaged: ")
    assert says in str(caught.value)


def test_strict_models_have_no_scale_of_their_own(parts: list[PartialModel]) -> None:
    """Weights are in units of 2^-32; a file from before there was a choice says nothing of it."""
    with pytest.raises(UserError, match="scale of leaf weights"):
        PartialModel.from_json(changed(parts[0], ("weight_bits",), 30))
    assert PartialModel.from_json(changed(parts[0], ("weight_bits",), ...)) == parts[0]


@pytest.mark.parametrize("leaf_scale_bits", [-14, 20, 32, 50])
def test_shares_are_joined(parts: list[PartialModel], shared_parts: list[PartialModel], leaf_scale_bits: int) -> None:
    """From JSON and back nothing is lost; the sum of the shares, modulo 2^64, is the weight, at the file's scale."""
    shared = [replace(shared_parts[0], leaf_scale_bits=leaf_scale_bits), shared_parts[1]]
    read = [PartialModel.from_json(part.to_json()) for part in shared]
    assert read == shared

    def weights(model: Joined) -> list[int | None]:
        return [node.weight for tree in model.trees for node in tree if isinstance(node, Leaf)]

    exact = [Fraction(w or 0) * Fraction(2) ** (WEIGHT_BITS - leaf_scale_bits) for w in weights(join(parts))]
    assert weights(join(read)) == [round(w) for w in exact]
    booster = to_booster(join(read))
    assert booster.num_boosted_rounds() == 2


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", "9" * 5000])
def test_numbers_that_are_none(parts: list[PartialModel], number: str) -> None:
    """JSON readers take more for numbers than JSON allows; a model does not."""
    with refused(UserError, "damaged", "the model"):
        PartialModel.from_json(parts[0].to_json().replace("40.5", number))


def test_deep_nesting(parts: list[PartialModel]) -> None:
    """A file made to break readers is damaged, not a crash."""
    with refused(UserError, "damaged", "the model"):
        PartialModel.from_json("[" * 100_000)


@pytest.mark.parametrize(
    "text", ["[]", "3", "null", '"mpfedxgb partial model"', "{}", '{"learner": {}, "version": [3, 2, 0]}']
)
def test_foreign_files(text: str) -> None:
    """JSON of something else is not a model of ours."""
    with refused(UserError, "type", "x.json"):
        PartialModel.from_json(text, "x.json")


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("kept", ["parts", "shared_parts"])
def test_an_edited_file_is_refused(request: pytest.FixtureRequest, kept: str, which: int) -> None:
    """Whatever number, name or truth value is changed, or left out; also where the result could be some model."""
    part: PartialModel = request.getfixturevalue(kept)[which]
    content = json.loads(part.to_json())
    for path in paths(content):
        value = content
        for key in path:
            value = value[key]
        others: list[Any] = [...]
        if isinstance(value, bool):
            others.append(not value)
        elif isinstance(value, (int, float)):
            others += [value + 1, -value if value else 2]
        elif isinstance(value, str):
            others += [value + "x", value[1:]]
        for other in others:
            with pytest.raises(UserError):
                PartialModel.from_json(changed(part, path, other, sealed=False))


def test_an_edited_threshold_is_named(parts: list[PartialModel], tmp_path: Path) -> None:
    """The message names the file, what is wrong and what helps; white space and the order of keys change nothing."""
    path = tmp_path / "bank.json"
    path.write_text(parts[0].to_json().replace("40.5", "41.5"))
    with refused(UserError, "damaged", "bank.json"):
        PartialModel.load(path)
    path.write_text(json.dumps(json.loads(parts[0].to_json()), sort_keys=True, indent=7))
    assert PartialModel.load(path) == parts[0]


def test_files_from_before_the_digest(
    parts: list[PartialModel], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They are read, with a warning that names the file; what has a digest is held to it, whatever its version."""
    content = json.loads(parts[0].to_json()) | {"version": WITHOUT_DIGEST}
    del content["digest"]
    path = tmp_path / "old.json"
    path.write_text(json.dumps(content))
    assert PartialModel.load(path) == parts[0]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert f"{path} is of format 1, without a digest" in caplog.text
    with pytest.raises(UserError, match="the digest differs"):
        PartialModel.from_json(changed(parts[0], ("version",), WITHOUT_DIGEST, sealed=False))
    with pytest.raises(UserError, match="'digest' is missing"):
        PartialModel.from_json(changed(parts[0], ("digest",), ..., sealed=False))


@pytest.mark.parametrize("version", [VERSION, WITHOUT_DIGEST])
def test_files_from_before_rules_had_names(parts: list[PartialModel], version: int) -> None:
    """They are of XGBoost's rules 3.3, and stay as they are when they are written again."""
    content = json.loads(parts[0].to_json()) | {"version": version}
    assert content.pop("xgboost_rules") == RULES == "3.4"
    assert "xgboost_rules" not in content["params"], "older versions read the parameters, and refuse unknown ones"
    content["digest"] = content_digest(content)
    old = PartialModel.from_json(json.dumps(content))
    assert old.params.xgboost_rules == "3.3"
    assert replace(old, params=replace(old.params, xgboost_rules=RULES)) == parts[0]
    if version == VERSION:
        assert json.loads(old.to_json()) == content


@pytest.mark.parametrize("rules", ["3.5", "", None, 3.4, ["3.4"]])
def test_rules_that_nobody_knows(parts: list[PartialModel], rules: Any) -> None:
    """A file names rules that this version has, or none."""
    with refused(UserError, "damaged", "the model"):
        PartialModel.from_json(changed(parts[0], ("xgboost_rules",), rules))


@pytest.mark.parametrize("version", [VERSION + 1, 0, None, "1", True, 1.0])
def test_other_versions(parts: list[PartialModel], version: Any) -> None:
    """A file of another version says which one, and what helps."""
    with refused(UserError, "version", "the model", version):
        PartialModel.from_json(changed(parts[0], ("version",), version))


def test_one_round_is_a_model(parts: list[PartialModel]) -> None:
    """The least there is; less is none."""
    (bank, _), (first, *_) = parts, parts[0].trees
    one = replace(bank, trees=(first,), best_iteration=None)
    assert PartialModel.from_json(one.to_json()) == one
    with pytest.raises(UserError, match="0 trees are not whole rounds of 1"):
        PartialModel.from_json(replace(bank, trees=(), best_iteration=None).to_json())


def test_the_file_begins_with_what_it_is(parts: list[PartialModel]) -> None:
    """Format and version are the first things in a file."""
    assert list(json.loads(parts[0].to_json()).items())[:2] == [("format", FORMAT), ("version", VERSION)]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """No file, a folder, bytes that are no text: each an error that names the path."""
    with refused(UserError, "file", "gone.json"):
        PartialModel.load(tmp_path / "gone.json")
    with refused(UserError, "file", ANY):
        PartialModel.load(tmp_path)
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    with refused(UserError, "damaged", "bytes.json"):
        PartialModel.load(tmp_path / "bytes.json")


def test_parts_that_do_not_belong_together(parts: list[PartialModel]) -> None:
    """Another training, other parameters, other names, another number of trees: the message names both parts."""
    bank, telecom = parts
    for other in (
        replace(telecom, training="beef"),
        replace(telecom, params=replace(telecom.params, gamma=1.0)),
        replace(telecom, participants=("bank", "shop")),
        replace(telecom, trees=telecom.trees[:1]),
    ):
        with refused(UserError, "mismatch", "training", other.name):
            join([bank, other])


def test_parts_that_are_missing_or_twice(parts: list[PartialModel]) -> None:
    """Who is missing is named."""
    bank, telecom = parts
    with refused(UserError, "missing", "telecom"):
        join([bank])
    with refused(UserError, "missing", "bank"):
        join([telecom])
    with refused(UserError, "missing", "bank"):
        join([telecom, telecom])
    with refused(UserError, "duplicate", "models"):
        join([bank, telecom, telecom])
    with refused(UserError, "few", "models"):
        join([])


def test_parts_that_contradict_each_other(parts: list[PartialModel]) -> None:
    """Trees of other shapes, splits that two claim or nobody has, even if every part is whole in itself."""
    bank, telecom = parts
    leaf, own, dummy = Leaf(None), Split("calls", 1.0, None, False, False, 1, 2), Dummy(1, 1, 2)
    with refused(UserError, "damaged", "shapes"):
        join([bank, replace(telecom, trees=(telecom.trees[0], (leaf,)))])
    with refused(UserError, "damaged", "models", 0):
        join([bank, replace(telecom, trees=(telecom.trees[0], (own, leaf, leaf)))])
    first = (dummy, Dummy(1, 3, 4), leaf, leaf, leaf)
    with refused(UserError, "damaged", "models", 1):
        join([bank, replace(telecom, trees=(first, telecom.trees[1]))])
    bank_dummy = (Dummy(2, 1, 2), Leaf(1, 1.0), Leaf(2, 1.0))
    with refused(UserError, "damaged", "models", 0):
        join([replace(bank, trees=(bank.trees[0], bank_dummy)), telecom])


def test_a_folder_with_a_stranger(parts: list[PartialModel], tmp_path: Path) -> None:
    """Loading a folder with a part of another training, or without one, is refused as well."""
    for part in parts:
        part.save(tmp_path / f"{part.name}{SUFFIX}")
    assert load_models(tmp_path) == parts
    replace(parts[1], training="beef").save(tmp_path / f"old{SUFFIX}")
    with refused(UserError, "mismatch", "training", "telecom"):
        load_models(tmp_path)
    (tmp_path / f"old{SUFFIX}").unlink()
    (tmp_path / f"bank{SUFFIX}").unlink()
    with refused(UserError, "missing", "bank"):
        load_models(tmp_path)


def test_no_file_contains_anything_of_another(tmp_path: Path) -> None:
    """Searched as text: no names, categories or thresholds of others; weights, margins and classes at one only."""
    rng = np.random.default_rng(0)
    rows = 120
    tables = {
        owner: pd.DataFrame(
            {
                f"{owner}_income": rng.normal(size=rows),
                f"{owner}_debt": np.where(rng.random(rows) < 0.3, np.nan, rng.normal(size=rows)),
                f"{owner}_town": pd.Categorical(rng.choice([f"{owner}ville", f"{owner}burg", f"{owner}ton"], rows)),
            }
        )
        for owner in ("alpha", "beta", "gamma")
    }
    score = sum(t.iloc[:, 0] + (t.iloc[:, 2].cat.codes == 1) for t in tables.values())
    y = np.where(score > np.median(score), "defaulted", "repaid")
    model = FedXGBClassifier(n_estimators=6, max_depth=4, max_bin=8).fit(
        {name.upper(): table for name, table in tables.items()}, y
    )
    texts = {
        part.name.lower(): path.read_text()
        for part, path in zip(model.partial_models_, model.save_model(tmp_path), strict=True)
    }
    for part in model.partial_models_:
        owner = part.name.lower()
        splits = [node for tree in part.trees for node in tree if isinstance(node, Split)]
        assert len({node.feature for node in splits}) > 1
        thresholds = {repr(node.threshold) for node in splits if node.threshold and np.isfinite(node.threshold)}
        assert all(threshold in texts[owner] for threshold in thresholds)
        for other, text in texts.items():
            if other != owner:
                assert f"{owner}_" not in text
                assert not any(f"{owner}{town}" in text for town in ("ville", "burg", "ton"))
                assert not any(threshold in text for threshold in thresholds)
    leaves = [node.weight or 0 for tree in model.partial_models_[0].trees for node in tree if isinstance(node, Leaf)]
    weights = {str(weight) for weight in leaves if abs(weight) > 10**6}
    assert len(weights) > 20
    assert all(weight in texts["alpha"] for weight in weights)
    for other in ("beta", "gamma"):
        assert not any(weight in texts[other] for weight in weights)
        assert "defaulted" not in texts[other]
        assert json.loads(texts[other])["base_margin"] is None


def test_saving_is_whole_or_not_at_all(
    parts: list[PartialModel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If writing fails on the way, the old file is as it was, and nothing else is left in the folder."""
    path = tmp_path / f"bank{SUFFIX}"
    parts[0].save(path)
    before = path.read_bytes()
    newer = replace(parts[0], best_iteration=0)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    def interrupted(source: Path, target: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(UserError, match=r"cannot write .*No space left.* unchanged"):
            newer.save(path)
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [before]
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            newer.save(path)
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [before]
    newer.save(path)
    assert PartialModel.load(path) == newer
    assert list(tmp_path.iterdir()) == [path]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_parts_are_values(parts: list[PartialModel]) -> None:
    """Models are frozen and hashable, and know their names."""
    assert [part.name for part in parts] == ["bank", "telecom"]
    assert [part.is_active for part in parts] == [True, False]
    assert len({*parts, *parts}) == 2
    whole: Joined = join(parts)
    assert whole.best_iteration == 1
    margins: npt.NDArray[np.float64] = margins_by_hand(whole, tables_of(parts, 0))
    assert margins.shape == (1, 25)
