"""Pictures: what is drawn is what the participant may know, on the axes that were given."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

from mpfedxgb import FedXGBClassifier, PartialModel, plot_importance, plot_metrics, plot_tree
from mpfedxgb.boosting.model import Feature
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.errors import SettingsError, UserError
from mpfedxgb.tree.nodes import Dummy, Leaf, Split
from support.refusals import refused
from support.toy_tables import BANK, QUICK, TELECOM, halves, labels, people

pytestmark = pytest.mark.process  # where matplotlib was never imported before, it asks fc-list for fonts

X = people()


@pytest.fixture(autouse=True)
def _no_screen() -> Iterator[None]:
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    yield
    plt.close("all")


@pytest.fixture(scope="module")
def model() -> FedXGBClassifier:
    """Train with early stopping, so that there is a best round."""
    y = labels(X, "binary")
    wrong = np.where(np.arange(len(y)) % 3 == 0, np.where(y == "yes", "no", "yes"), y)
    judged = FedXGBClassifier(**QUICK | {"n_estimators": 20}, eval_metric=["auc", "logloss"], early_stopping_rounds=2)
    return judged.fit(halves(X), y, eval_set=[(halves(X), y), (halves(X), wrong)])


def texts(ax: Any) -> list[str]:
    """Return everything that is written inside the axes."""
    return [text.get_text() for text in ax.texts]


def test_importance(model: FedXGBClassifier) -> None:
    """A bar for each feature that splits, as long as its count, the largest on top, a colour for each owner."""
    ax = plot_importance(model)
    counts = {n: v for own in model.feature_importance().values() for n, v in own.items() if v}
    names = [label.get_text() for label in ax.get_yticklabels()]
    widths = {round(bar.get_y() + bar.get_height() / 2): bar.get_width() for bar in ax.patches}
    assert {names[place]: width for place, width in widths.items()} == counts
    assert [counts[name] for name in names] == sorted(counts.values())
    assert len({bar.get_facecolor() for bar in ax.patches}) == 2
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["bank", "telecom"]
    assert (ax.get_title(), ax.get_xlabel(), ax.get_ylabel()) == ("Feature importance", "Importance score", "Features")


def test_importance_of_one_part(model: FedXGBClassifier) -> None:
    """Its owner's features only; gains are the active participant's; given axes are used and returned."""
    import matplotlib.pyplot as plt

    _, ax = plt.subplots()
    assert plot_importance(model.partial_models_[1], ax, max_num_features=1, show_values=False, title="ours") is ax
    assert next(label.get_text() for label in ax.get_yticklabels()) in TELECOM
    assert (len(ax.patches), ax.texts[:], ax.get_legend(), ax.get_title()) == (1, [], None, "ours")
    names = [label.get_text() for label in plot_importance(model, importance_type="gain").get_yticklabels()]
    assert set(names) <= set(BANK)
    with refused(SettingsError, "place", "kind", "gain"):
        plot_importance(model.partial_models_[1], importance_type="gain")


@pytest.mark.parametrize("participant", ["bank", "telecom"])
def test_trees(model: FedXGBClassifier, participant: str) -> None:
    """Own splits in words, the others' by their owner, weights at the active one; nothing of another's columns."""
    (part,) = [part for part in model.partial_models_ if part.name == participant]
    others = TELECOM if participant == "bank" else BANK
    for number, tree in enumerate(part.trees):
        written = texts(plot_tree(model, number, participant=participant))
        boxes = [text for text in written if text not in ("yes", "no")]
        assert len(boxes) == len(tree)
        for node, text in zip(tree, boxes, strict=True):
            if isinstance(node, Split):
                assert text.split("\n")[0] == node.feature
            elif isinstance(node, Dummy):
                assert text == f"split of {part.participants[node.owner - 1]}"
            else:
                assert (text == "leaf") == (participant == "telecom")
        assert written.count("yes") == written.count("no") == sum(isinstance(node, Split) for node in tree)
        assert not any(name in text for name in others for text in written)


def test_sides_of_a_tree() -> None:
    """Where a split's condition holds is on the left, whatever its private coin says; leaves never overlap."""
    leaves = Leaf(-(1 << 32), 1.0), Leaf(1 << 31, 1.0)
    tree = (Split("age", 40.0, None, False, True, 1, 2, 1.0), *leaves)
    ax = plot_tree(PartialModel("t", 1, ("bank", "shop"), TrainParams(), (Feature("age"),), (tree,), (0.0,)))
    places = {text.get_text(): text.get_position() for text in ax.texts if text.get_text() not in ("yes", "no")}
    assert places["+0.5"][0] < places["-1"][0]
    assert places["+0.5"][1] == places["-1"][1] < places["age\n<= 40\nmissing: no"][1]


def test_metrics(model: FedXGBClassifier) -> None:
    """A line for each set and metric, with the values over the rounds, and the best round."""
    ax = plot_metrics(model)
    lines = {line.get_label(): line for line in ax.get_lines()}
    assert model.best_iteration_ is not None
    for on, found in model.evals_result_.items():
        for name, values in found.items():
            np.testing.assert_array_equal(lines[f"{on} {name}"].get_ydata(), values)
            np.testing.assert_array_equal(lines[f"{on} {name}"].get_xdata(), range(len(values)))
    assert lines[f"best boosting round {model.best_iteration_}"].get_xdata()[0] == model.best_iteration_
    assert len(plot_metrics(model, "auc").get_lines()) == 3
    later = FedXGBClassifier(**QUICK).fit(
        halves(X), labels(X, "binary"), eval_set=[(halves(X), labels(X, "binary"))], xgb_model=model
    )
    first = len(model.partial_models_[0].trees)
    assert plot_metrics(later).get_lines()[0].get_xdata().tolist() == [first, first + 1, first + 2]
    trained: Any = SimpleNamespace(model=model.partial_models_[0], metrics=model.evals_result_)
    assert len(plot_metrics(trained).get_lines()) == 5


def test_what_cannot_be_plotted(model: FedXGBClassifier) -> None:
    """Is refused by name."""
    bare = FedXGBClassifier(**QUICK).fit(np.ones((9, 2)), np.arange(9) % 2)
    cases: list[tuple[type[Exception], str, Callable[[], Any]]] = [
        (
            SettingsError,
            "there is no metric 'rmse' to plot; the metrics are auc, logloss",
            lambda: plot_metrics(model, "rmse"),
        ),
        (SettingsError, "fit with an eval_set", lambda: plot_metrics(bare)),
        (UserError, "nothing to plot: no split uses a feature", lambda: plot_importance(bare)),
        (SettingsError, "tree_idx=99 is none of the model's", lambda: plot_tree(model, 99)),
        (
            SettingsError,
            "participant='shop' has no part here; it is one of bank, telecom",
            lambda: plot_tree(model, participant="shop"),
        ),
        (
            SettingsError,
            "a FedXGBClassifier cannot be plotted; give a fitted estimator",
            lambda: plot_tree(FedXGBClassifier()),
        ),
    ]
    for error, message, call in cases:
        with pytest.raises(error, match=message):
            call()


def test_without_matplotlib(model: FedXGBClassifier, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever lacks it is told what to install."""
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with refused(UserError, "package", "matplotlib"):
        plot_metrics(model)
