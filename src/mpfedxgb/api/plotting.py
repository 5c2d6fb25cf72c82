"""Pictures with matplotlib, as XGBoost's: importance, a tree, metrics. Nobody's picture shows what it may not know."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mpfedxgb.api.models import part_of
from mpfedxgb.boosting.join import feature_importance
from mpfedxgb.boosting.metrics import first_judged
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.errors import SettingsError, UserError
from mpfedxgb.report.html.pictures import places
from mpfedxgb.report.trees import condition, sides
from mpfedxgb.tree.leaf import WEIGHT_BITS
from mpfedxgb.tree.nodes import Dummy, Leaf, Node, Split

_OWN, _OTHERS, _LEAF = "#cfe2f7", "#dddddd", "#ffffff"


def plot_importance(
    model: Any,
    ax: Any = None,
    *,
    height: float = 0.2,
    xlim: tuple[float, float] | None = None,
    ylim: tuple[float, float] | None = None,
    title: str = "Feature importance",
    xlabel: str = "Importance score",
    ylabel: str = "Features",
    importance_type: str = "weight",
    max_num_features: int | None = None,
    grid: bool = True,
    show_values: bool = True,
    values_format: str = "{v:g}",
    **options: Any,
) -> Any:
    """Plot how much features matter, a colour for each participant; arguments as in `xgboost.plot_importance`.

    Parameters
    ----------
    model : fitted estimator, or PartialModel
        A part shows its owner's features only.
    ax : matplotlib Axes or None
        Where to draw; new axes if None.
    importance_type : "weight", "gain" or "cover"
        The last two are the active participant's, of its own features.
    max_num_features : int or None
        How many to show, the most important ones; features without any split are not shown.
    options
        Passed to `ax.barh`.

    Returns
    -------
    matplotlib Axes
    """
    parts = _parts(model)
    knowing = parts if importance_type == "weight" or len(parts) == 1 else parts[:1]
    found = [
        (p.name, str(n), float(v)) for p in knowing for n, v in feature_importance(p, importance_type).items() if v
    ]
    if not found:
        raise UserError(
            "there is nothing to plot: no split uses a feature; train more boosting rounds, or on other columns",
            "few",
            "model",
        )
    found = sorted(found, key=lambda one: one[2])[-max_num_features if max_num_features else 0 :]
    owners = [p.name for p in knowing]
    names = [name for _, name, _ in found]
    ax = _axes(ax)
    ends = np.arange(len(found))
    for number, owner in enumerate(owners):
        own = [i for i, one in enumerate(found) if one[0] == owner]
        colour = {"color": f"C{number}"} if len(owners) > 1 else {}
        ax.barh(ends[own], [found[i][2] for i in own], align="center", height=height, label=owner, **colour | options)
    if show_values:
        for y, (_, _, value) in zip(ends, found, strict=True):
            ax.text(value, y, " " + values_format.format(v=value), va="center")
    ax.set_yticks(ends)
    ax.set_yticklabels([f"{o}.{n}" if names.count(n) > 1 else n for o, n, _ in found])
    ax.set_xlim(xlim or (0, max(value for _, _, value in found) * 1.1))
    ax.set_ylim(ylim or (-1, len(found)))
    if len(owners) > 1:
        ax.legend()
    return _named(ax, title, xlabel, ylabel, grid)


def plot_tree(model: Any, tree_idx: int = 0, ax: Any = None, *, participant: str | None = None) -> Any:
    """Plot one tree as a participant knows it: its own splits in words, the others' in grey (Figure 1 of the paper).

    Parameters
    ----------
    model : fitted estimator, or PartialModel
    tree_idx : int
        Which tree; with several classes a round has one for each.
    ax : matplotlib Axes or None
        Where to draw; new axes if None.
    participant : str or None
        Whose view, of an estimator; the active participant's if None. It alone knows the weights of leaves; with
        security="sealed" or "paper" nobody does.

    Returns
    -------
    matplotlib Axes
    """
    part = part_of(_parts(model), participant)
    if not 0 <= tree_idx < len(part.trees):
        text = f"tree_idx={tree_idx!r} is none of the model's {len(part.trees)} trees; count from 0"
        raise SettingsError(text, "range", "tree_idx", tree_idx)
    tree = part.trees[tree_idx]
    at = {number: (slot, -level) for number, (slot, level) in places(tree).items()}
    leaves, depth = sum(isinstance(node, Leaf) for node in tree), 1 - min(y for _, y in at.values())
    ax = _axes(ax, (max(4.0, 0.8 * leaves), max(2.0, 1.2 * depth)))
    for number, node in enumerate(tree):
        x, y = at[number]
        for side, child in zip(("yes", "no"), () if isinstance(node, Leaf) else sides(node), strict=False):
            ax.plot([x, at[child][0]], [y, at[child][1]], color="#888888", zorder=1)
            if isinstance(node, Split):
                middle = (x + at[child][0]) / 2, (y + at[child][1]) / 2
                ax.text(*middle, side, ha="center", va="center", fontsize="small", backgroundcolor="white", zorder=2)
        colour = _LEAF if isinstance(node, Leaf) else _OTHERS if isinstance(node, Dummy) else _OWN
        box = {"boxstyle": "round", "facecolor": colour, "edgecolor": "#444444"}
        ax.text(x, y, _words(part, node), ha="center", va="center", fontsize="small", bbox=box, zorder=3)
    ax.set(xlim=(-0.7, leaves - 0.3), ylim=(0.5 - depth, 0.5), title=f"Tree {tree_idx} as {part.name} knows it")
    ax.set_axis_off()
    return ax


def plot_metrics(model: Any, metric: str | None = None, ax: Any = None, *, title: str = "", grid: bool = True) -> Any:
    """Plot the metrics of evaluation rows over the rounds, and the best round after early stopping.

    Parameters
    ----------
    model : fitted estimator, or what `Federation.train` returns at the active participant
    metric : str or None
        Which one; all of them if None.
    ax : matplotlib Axes or None
        Where to draw; new axes if None.

    Returns
    -------
    matplotlib Axes
    """
    part, metrics = _parts(model)[0], getattr(model, "evals_result_", None)
    metrics = getattr(model, "metrics", {}) if metrics is None else metrics
    curves = {f"{on} {name}": v for on, found in metrics.items() for name, v in found.items() if metric in (None, name)}
    if not curves:
        names = sorted({name for found in metrics.values() for name in found})
        listed = f"the metrics are {', '.join(names)}" if names else "fit with an eval_set, or give [data] evaluate"
        raise SettingsError(
            f"there is no metric {'' if metric is None else repr(metric)} to plot; {listed}", "choice", "metric", metric
        )
    ax = _axes(ax)
    for label, values in curves.items():
        first = first_judged(part, len(values))
        ax.plot(range(first, first + len(values)), values, marker="." if len(values) < 30 else "", label=label)
    if part.best_iteration is not None:
        ax.axvline(
            part.best_iteration, color="#888888", linestyle="--", label=f"best boosting round {part.best_iteration}"
        )
    ax.legend()
    return _named(ax, title or "Evaluation", "Round", metric or "Metric", grid)


def _axes(ax: Any, size: tuple[float, float] | None = None) -> Any:
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise UserError("plots need matplotlib; pip install 'mpfedxgb[plot]'", "package", "matplotlib") from None
    return plt.subplots(1, 1, figsize=size)[1]


def _named(ax: Any, title: str, xlabel: str, ylabel: str, grid: bool) -> Any:
    ax.set(title=title, xlabel=xlabel, ylabel=ylabel)
    ax.grid(grid)
    ax.set_axisbelow(True)
    return ax


def _parts(model: Any) -> list[PartialModel]:
    """Return the parts of a fitted estimator, or the one that is given or that a federation trained."""
    found = model if isinstance(model, PartialModel) else getattr(model, "model", None)
    parts = [found] if isinstance(found, PartialModel) else getattr(model, "partial_models_", None)
    if not parts:
        text = f"a {type(model).__name__} cannot be plotted; give a fitted estimator or a partial model"
        raise SettingsError(text, "type", "model", type(model).__name__)
    return list(parts)


def _words(part: PartialModel, node: Node) -> str:
    if isinstance(node, Dummy):
        return f"split of {part.participants[node.owner - 1]}"
    if isinstance(node, Split):
        rest = condition(part, node).removeprefix(node.feature).strip()
        for mark, side in (("(missing first)", "yes"), ("(missing second)", "no")):
            rest = rest.replace(f" {mark}", f"\nmissing: {side}")
        return f"{node.feature}\n{rest}"
    if node.weight is None:
        return "leaf" if node.share is None else "leaf,\nshared"
    return f"{math.ldexp(node.weight, -WEIGHT_BITS):+.4g}"
