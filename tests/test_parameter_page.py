"""docs/parameters.md names every objective, metric and refused parameter that there is, and no other."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from functools import partial
from pathlib import Path

import pytest
import xgboost

from mpfedxgb.boosting.metrics import METRICS
from mpfedxgb.boosting.objectives import NAMED, OBJECTIVES
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.scales import plan
from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.schema.training import ALIASES, IGNORED, REFUSED, REFUSED_VALUES

PAGE = (Path(__file__).parents[1] / "docs" / "parameters.md").read_text()


def section(title: str) -> str:
    """Return a section of the page."""
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def rows(text: str) -> list[list[str]]:
    """Return the cells of the lines of a table, without its head."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return cells[2:]


def names(text: str) -> list[str]:
    """Return what stands in back-quotes."""
    return re.findall(r"`([^`]+)`", text)


def test_objectives() -> None:
    """Each has a row with its default metric; the callable comes last."""
    *named, custom = rows(section("Objectives and metrics"))
    told = [(*names(row[0]), *names(row[-1])) for row in named]
    assert sorted(told) == sorted((name, OBJECTIVES[name].default_metric) for name in NAMED)
    assert custom[0] == "a callable"


def test_numbers() -> None:
    """Every objective's scales are told."""
    told = [name for row in rows(section("Numbers")) for name in names(row[0])]
    assert sorted(told) == sorted(NAMED)


def takes_more(limbs: int, params: TrainParams, rows: int) -> bool:
    """Return whether a table of that many rows needs numbers of more limbs."""
    try:
        return plan(params, rows).limbs > limbs
    except DoesNotFitError:
        return True


@pytest.mark.parametrize("row", rows(section("When a table is too large")), ids=lambda row: str(row[0]))
def test_largest_tables(row: list[str]) -> None:
    """A table of the size shown fits, one with a row more does not."""
    (objective, *others), *sizes = names(row[0]), *row[1:]
    given = {name: ast.literal_eval(value) for name, value in (other.split("=") for other in others)}
    params = TrainParams(objective=objective, **given)
    for limbs, size in zip((3, 4), sizes, strict=True):
        most = bisect_left(range(1 << 40), True, lo=1, key=partial(takes_more, limbs, params)) - 1
        assert f"{most:,}" == size


def test_metrics() -> None:
    """The sentence on metrics lists them all."""
    listed = section("Objectives and metrics").split("\nMetrics: ")[1].split("\n\n")[0]
    assert sorted(names(listed)) == sorted(METRICS)


def test_refused_parameters() -> None:
    """All of them, each once."""
    told = [name for row in rows(section("What is refused, and why")) for name in names(row[0])]
    assert sorted(told) == sorted(REFUSED)
    assert told == list(REFUSED) == list(ISSUE)


ISSUE = (
    "interaction_constraints",
    *("grow_policy", "max_leaves"),  # lossguide with max_leaves
    "tree_method",  # exact, approx
    *("sampling_method", "feature_weights"),  # gradient_based
    *("max_cat_to_onehot", "max_cat_threshold"),
    *("lambdarank_unbiased", "lambdarank_bias_norm"),
    *("process_type", "updater", "refresh_leaf"),
    "multi_strategy",  # multi_output_tree
    *("device", "gpu_id"),  # GPUs
    *("feature_selector", "top_k"),  # of gblinear
    "expectile_alpha",
)
"""What is refused, and nothing else; with them booster="gblinear"."""

ON_XGBOOSTS_PAGE = (
    "booster device verbosity validate_parameters nthread disable_default_eval_metric eta gamma max_depth "
    "min_child_weight max_delta_step subsample sampling_method colsample_bytree colsample_bylevel colsample_bynode "
    "lambda alpha tree_method scale_pos_weight updater refresh_leaf process_type grow_policy max_leaves max_bin "
    "num_parallel_tree monotone_constraints interaction_constraints multi_strategy max_cached_hist_node "
    "extmem_single_page max_cat_to_onehot max_cat_threshold sample_type normalize_type rate_drop one_drop skip_drop "
    "feature_selector top_k objective base_score eval_metric seed seed_per_iteration num_class "
    "tweedie_variance_power huber_slope quantile_alpha expectile_alpha aft_loss_distribution "
    "aft_loss_distribution_scale lambdarank_pair_method lambdarank_num_pair_per_sample lambdarank_normalization "
    "lambdarank_score_normalization lambdarank_unbiased lambdarank_bias_norm ndcg_exp_gain"
)
"""As of 3.4, without those of the removed command line."""


def test_every_parameter_of_xgboost_is_the_same_different_or_refused() -> None:
    """Those of its estimators and of its page of parameters: in one table each, with what differs or why."""
    too = {names(row[0])[0]: row[-1] for row in rows(section("Parameters that XGBoost has too"))}
    assert [name for name, differs in too.items() if not differs] == [], "what differs is said, or that nothing does"
    tables = (list(too), list(IGNORED), list(REFUSED), ["num_class"])  # the estimators find that out
    known = [ALIASES.get(name, name) for name in (*ON_XGBOOSTS_PAGE.split(), *xgboost.XGBClassifier().get_params())]
    for name in known:
        assert sum(name in table for table in tables) == 1, name
    told = [name for row in rows(section("What changes nothing")) for name in names(row[0])]
    assert told == list(IGNORED)
    assert "gblinear" in section("What is refused, and why")
    assert list(REFUSED_VALUES) == [("booster", "gblinear")]
