"""Random trainings against the oracle, against xgboost, and against the exported model.

    python benchmarks/fuzz.py --runs 500 [--seed S] [--only TEXT] [--jobs N] [--security none | sealed] [--three]

Training number n is made from the number n alone (random_trainings.py), and runs count up from the first seed, which is
printed. Every training is compared

- with the oracle (plain_boosting.py): strict models bit for bit; models of security="paper" split for split, and leaf
  weights within leaf_epsilon;
- with xgboost on the same bins, as parity.py does: same trees but for float32 ties, leaves and margins as promised.
  Trainings with row or column samples, a first-layer mask or security="paper" have no counterpart there;
- with the exported Booster, which has to predict what joint scoring predicts, and with the metric of the best round.

With --security none all of them train in the open, and are compared in the same way. With --security sealed they are
other trainings (`random_sealed_training`), compared with plain_sealed.py: every leaf weight in the integers that the
participants' shares add up to, what is scored, and the metrics of every round, from the oracle's margins.

Prints a line for each training that differs, with the command that repeats it, and counts at the end. Refused are those
that training refuses in words; of those compared with xgboost, the ones with the same trees to the end, and why the
others part: ties, or a rule of an installed xgboost before 3.4, counted by rule; rounded those with leaves that differ
by more than 1e-5 because g and h are rounded in two ways. The exit code is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import repeat
from multiprocessing import get_context
from typing import Any, TextIO

import numpy as np
import pandas as pd
import xgboost

from mpfedxgb import FedXGBClassifier, FedXGBRanker, FedXGBRegressor, join
from mpfedxgb.api.models import predict_margins
from mpfedxgb.boosting.join import Joined, JoinedTree
from mpfedxgb.boosting.metrics import named_metrics
from mpfedxgb.config import SessionSettings
from mpfedxgb.data.table import Table
from mpfedxgb.errors import UserError
from mpfedxgb.ring.ring import decode_fixed
from mpfedxgb.testing.comparison import LIGHT_ROOT, NO_HESSIAN, SHARED_RATE, has_older_rules, leaves_out_at_random
from mpfedxgb.testing.parity import Parity, compare_with_xgboost, has_other_gains
from mpfedxgb.tree.leaf import WEIGHT_BITS
from mpfedxgb.tree.nodes import Leaf
from parity import SEALED_TOLERANCE, values_agree
from plain_boosting import plain_trees
from plain_sealed import SealedAnswer, answer_to, joined_weights
from plain_table import table
from random_trainings import OTHER_ROWS, Training, coordinated, random_sealed_training, random_training

Model = FedXGBClassifier | FedXGBRegressor

_HALF_A_STEP = 2.0**-24
"""Relative error of one float32 addition."""

_FEW = 16
"""Additions that every comparison of float32 sums is allowed: partial sums may be larger than what they end in."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one training."""

    seed: int
    objective: str
    text: str
    difference: str = ""
    refused: str = ""
    trees: int = 0
    splits: int = 0
    has_counterpart: bool = False
    against_xgboost: int = 0
    parts: str = ""
    rounded_leaves: int = 0
    is_paper: bool = False
    seconds: float = 0.0

    @property
    def by_rule(self) -> bool:
        """Whether a rule of an older xgboost sets the trees apart."""
        return self.parts in (LIGHT_ROOT, NO_HESSIAN, SHARED_RATE)


def examine(seed: int, security: str = "", three: bool = False) -> Outcome:
    """Make a training from its number, run it, and compare; with another `security` than it has, if one is given.

    With `three` an auxiliary of three participants or more is the coordinator too.
    """
    started = time.perf_counter()
    training = _training(seed, security, three)
    outcome = Outcome(seed, training.objective, str(training), is_paper=training.params.get("security") == "paper")
    try:
        outcome = _compare(training, outcome)
    except UserError as error:  # a refusal in words is an answer
        outcome = replace(outcome, refused=str(error))
    except Exception as error:  # the others are to run all the same
        outcome = replace(outcome, difference=f"{type(error).__name__}: {error}")
    return replace(outcome, seconds=time.perf_counter() - started)


def _training(seed: int, security: str, three: bool = False) -> Training:
    training = random_sealed_training(seed) if security == "sealed" else random_training(seed)
    if three and training.params.get("security") != "paper":
        training = coordinated(training)
    return (
        training
        if security == "sealed"
        else replace(training, params=training.params | {"security": security})
        if security
        else training
    )


def _compare(training: Training, outcome: Outcome) -> Outcome:
    model = fit(training)
    joined = join(model.partial_models_)
    outcome = replace(outcome, trees=len(joined.trees), splits=sum(len(tree) // 2 for tree in joined.trees))
    difference = against_oracle(training, model, joined) or against_export(training, model, joined)
    older = has_older_rules(xgboost.__version__)
    other_algorithm = older and (joined.params.loss.averages or has_other_gains(joined.params))
    if difference or other_algorithm or not _has_counterpart(training, joined):
        return replace(outcome, difference=difference)
    whole = pd.concat(list(training.for_training.values()), axis=1)
    parity = compare_with_xgboost(model, whole, training.labels, training.weight, training.start, training.groups)
    if not parity.same_trees:
        difference = f"xgboost: {parity.difference}"
    elif not (_sealed_values_agree(parity) if joined.params.facts.hides_rows else values_agree(parity)):
        leaf, margin = f"{parity.max_leaf_difference:.1e}", f"{parity.max_margin_difference:.1e}"
        difference = f"xgboost: leaves differ by {leaf}, margins by {margin} of {parity.largest_margin:.3g}"
    return replace(
        outcome,
        difference=difference,
        has_counterpart=True,
        against_xgboost=parity.compared_trees,
        parts=re.split("[:;] ", parity.ties[0])[-1] if parity.ties else "",
        rounded_leaves=parity.rounded_leaves,
    )


def _sealed_values_agree(parity: Parity) -> bool:
    """Return whether margins are as near as sealed trainings promise, or as rounding to 24 places explains."""
    allowed = SEALED_TOLERANCE * parity.largest_margin + parity.margin_resolution
    return bool(parity.ties) or parity.max_margin_difference <= allowed


def fit(training: Training) -> Model:
    """Return the fitted model; the number that the training is made from repeats the masks too."""
    numbers = FedXGBRegressor if training.qid is None else FedXGBRanker
    kind = FedXGBClassifier if training.has_classes else numbers
    model: Any = kind(deadline=120.0, **training.params)
    evaluation = [(training.as_passed(training.for_evaluation), training.evaluation_labels)]
    weights = None if training.evaluation_weight is None else [training.evaluation_weight]
    margins = None if training.evaluation_start is None else [training.evaluation_start]
    more: dict[str, Any] = {"base_margin": training.start}
    if training.evaluates:
        more |= {"eval_set": evaluation, "sample_weight_eval_set": weights, "base_margin_eval_set": margins}
    if training.qid is not None:
        more |= {"qid": training.groups, "eval_qid": [training.evaluation_groups] if training.evaluates else None}
    labels, weight = training.labels, training.weight
    fitted: Model = model.fit(training.as_passed(training.for_training), labels, sample_weight=weight, **more)
    return fitted


def _has_counterpart(training: Training, joined: Joined) -> bool:
    params = training.params
    samples = any(params[name] < 1 for name in params if name.startswith(("subsample", "colsample")))
    samples = samples or leaves_out_at_random(joined.params)
    drawn = joined.params.loss.draws
    return not (drawn or samples or params["first_layer_mask"] or params.get("security") == "paper")


def against_oracle(training: Training, model: Model, joined: Joined) -> str:
    """Return where a model is not the oracle's; nothing if it is."""
    if joined.params.facts.hides_rows:
        return _against_sealed_oracle(training, model, joined)
    labels, weight, start = training.labels, training.weight, training.start
    expected = plain_trees(model, training.for_training, labels, weight, joined.trees, start, training.groups)
    epsilon = 0.0
    if not joined.params.facts.is_exact:
        largest = 1.0 if training.has_classes else float(np.abs(training.labels - joined.base_margin[0]).max())
        epsilon = model.learning_rate * model.leaf_epsilon * largest * 2**WEIGHT_BITS + 2
    for number, (mine, theirs) in enumerate(zip(joined.trees, expected, strict=True)):
        if joined.params.facts.is_exact and mine != theirs:
            place = next((i for i, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), "?")
            return f"oracle: tree {number} differs at node {place}"
        if not joined.params.facts.is_exact and _splits(mine) != _splits(theirs):
            return f"oracle: the splits of tree {number} differ"
        if not joined.params.facts.is_exact and np.abs(np.subtract(_leaves(mine), _leaves(theirs))).max() > epsilon:
            return f"oracle: leaf weights of tree {number} are not within leaf_epsilon"
    return ""


def _against_sealed_oracle(training: Training, model: Model, joined: Joined) -> str:
    """Return where a sealed model is not the oracle's: its trees, its weights, what it scores, what P_1 was told."""
    kept, done = len(joined.trees), len(joined.trees) // joined.params.trees_per_round
    rounds = max(done, _rounds_evaluated(model))
    starts = training.start, training.evaluation_start
    answer = answer_to(
        model, training.for_training, training.labels, training.weight, training.for_evaluation, rounds, *starts
    )
    for number, (mine, theirs) in enumerate(zip(joined.trees, answer.trees, strict=False)):
        if mine != theirs:
            return f"oracle: tree {number} differs"
    if joined_weights(model.partial_models_) != answer.weights[:kept]:
        return "oracle: leaf weights differ in units of their own"
    sums = answer.margins[done - 1] - answer.encoded.sealed.start
    start = _start(training, joined)
    if not (_margins(model, training) == decode_fixed(sums, answer.encoded.places) + start).all():
        return "oracle: what is scored is not what its trees add up to"
    return _metrics_of(training, model, joined, answer) if training.evaluates else ""


def _rounds_evaluated(model: Model) -> int:
    """Return of how many rounds there are metrics; a sealed model that stopped early keeps fewer."""
    found = [values for metrics in model.evals_result_.values() for values in metrics.values()]
    return len(found[0]) if found else 0


def _metrics_of(training: Training, model: Model, joined: Joined, answer: SealedAnswer) -> str:
    """Return in which round a metric is not that of the oracle's margins, if in one it is not."""
    codes = training.evaluation_labels
    codes = np.searchsorted(model.classes_, codes) if isinstance(model, FedXGBClassifier) else codes
    weight = np.ones(OTHER_ROWS) if training.evaluation_weight is None else training.evaluation_weight
    for name, values in model.evals_result_["validation_0"].items():
        for t, sums in enumerate(answer.evaluated(training.rows)):
            margins = decode_fixed(np.atleast_2d(sums), answer.encoded.places)
            margins = margins + _start(training, joined)[:, training.rows :]
            metric = named_metrics([name], joined.params.of_objectives)[name]
            value = metric(codes.astype(np.float64), joined.params.loss.transform(margins), weight)
            if not np.isclose(value, values[t], rtol=1e-6, atol=1e-8, equal_nan=True):  # margins to 2^-32 there
                return f"evaluation: {name} of round {t} is {values[t]:.9g}, that of the oracle's margins {value:.9g}"
    return ""


def _splits(tree: JoinedTree) -> list[Any]:
    return [None if isinstance(node, Leaf) else replace(node, gain=None) for node in tree]


def _leaves(tree: JoinedTree) -> list[float]:
    return [float(node.weight or 0) for node in tree if isinstance(node, Leaf)]


def against_export(training: Training, model: Model, joined: Joined) -> str:
    """Return how the exported model's margins, or the metric of the best round, are not joint scoring's, if so."""
    ours = _margins(model, training)
    booster, rows = model.to_xgboost(), _coded(training, joined)
    if training.base_margin is not None:
        rows.set_base_margin(training.base_margin)
    theirs = booster.predict(rows, output_margin=True).reshape(len(training.y), -1).T
    largest = max(  # of what is added up, beginning with base_score
        1e-3,
        float(np.abs(ours).max()),
        *np.abs(joined.base_margin).tolist(),
        *(abs(w) * 2.0**-WEIGHT_BITS for t in joined.trees for w in _leaves(t)),
    )
    apart = float(np.abs(ours - theirs).max())
    additions = max(_FEW, len(joined.trees_in_use) // joined.params.trees_per_round + 1)  # xgboost rounds after each
    if not apart <= additions * _HALF_A_STEP * largest:
        return f"export: margins of the Booster differ by {apart:.2e} of {largest:.3g}"
    return _against_evaluation(training, model, joined, ours) if training.evaluates else ""


def _against_evaluation(training: Training, model: Model, joined: Joined, margins: Any) -> str:
    """Return which metric of the best round is not that of joint scoring's margins, if one is not."""
    best = -1 if model.best_iteration_ is None else model.best_iteration_
    if joined.params.facts.hides_rows:
        return ""  # of every round, against the oracle
    if joined.params.drops_trees and len(joined.trees_in_use) < len(joined.trees):
        return ""  # later rounds have changed the scales of the trees in use, as in XGBoost
    codes = training.evaluation_labels
    codes = np.searchsorted(model.classes_, codes) if isinstance(model, FedXGBClassifier) else codes
    predictions = joined.params.loss.transform(margins[:, training.rows :])
    weight = np.ones(OTHER_ROWS) if training.evaluation_weight is None else training.evaluation_weight
    codes, beside = (codes, training.evaluation_groups) if codes.ndim == 1 else codes.T
    for name, values in model.evals_result_["validation_0"].items():
        metric = named_metrics([name], joined.params.of_objectives)[name]
        value = metric(codes.astype(np.float64), predictions, weight, beside)
        if not np.isclose(value, values[best], rtol=1e-9, atol=1e-9, equal_nan=True):  # auc of one class is nan
            return f"evaluation: {name} of the best round is {values[best]:.9g}, that of its predictions {value:.9g}"
    return ""


def _margins(model: Model, training: Training) -> Any:
    """Return margins of all rows by joint scoring, (classes, rows)."""
    matched = {name: Table.read(frame, name) for name, frame in training.tables.items()}
    start = None if training.base_margin is None else _columns(training.base_margin)
    return predict_margins(model.partial_models_, matched, SessionSettings(deadline=120.0), start)[0]


def _start(training: Training, joined: Joined) -> Any:
    """Return where all rows start, (classes, rows)."""
    if training.base_margin is not None:
        return _columns(training.base_margin)
    return np.repeat(np.array(joined.base_margin)[:, None], len(training.y), axis=1)


def _columns(margins: Any) -> Any:
    return margins.reshape(len(margins), -1).T


def _coded(training: Training, joined: Joined) -> Any:
    """Return all rows as an exported model takes them: categories by the codes of the training, unknown ones beyond."""
    columns = []
    for m, (name, frame) in enumerate(training.tables.items(), 1):
        features = [f for owner, f in joined.features if owner == m]
        known = {f.name: f.categories for f in features if f.categories is not None}
        columns += [c.values for c in Table.read(frame, name).match([f.name for f in features], known).columns]
    kinds = ["float" if f.categories is None else "c" for _, f in joined.features]
    names = [f.name for _, f in joined.features]
    values = np.column_stack(columns)
    return xgboost.DMatrix(values, feature_names=names, feature_types=kinds, enable_categorical=True)


# The run


def run(seeds: Sequence[int], jobs: int, security: str = "", three: bool = False) -> Iterator[Outcome]:
    """Yield the outcomes, in the order of the seeds; each of several jobs is a process of its own."""
    if jobs == 1:
        yield from map(examine, seeds, repeat(security), repeat(three))
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(examine, seeds, repeat(security), repeat(three))


def main(arguments: Sequence[str] | None = None, out: TextIO = sys.stdout) -> int:
    """Run, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=None, help="of the first training; the next has the next number")
    parser.add_argument("--only", default="", help="only trainings whose description contains this, such as poisson")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at a time")
    parser.add_argument("--security", default="", choices=["none", "sealed"], help="train in the open, or sealed")
    parser.add_argument("--three", action="store_true", help="an auxiliary of three or more is the coordinator too")
    args = parser.parse_args(arguments)
    if args.runs < 1 or args.jobs < 1:
        parser.error(f"--runs and --jobs must be 1 or more, not {args.runs} and {args.jobs}")
    first = random.SystemRandom().randrange(10**6) if args.seed is None else args.seed
    seeds = [
        seed
        for seed in range(first, first + args.runs)
        if not args.only or args.only in str(_training(seed, args.security, args.three))
    ]
    print(f"{len(seeds)} trainings, from seed {first}", file=sys.stderr, flush=True)
    outcomes = []
    began = time.perf_counter()
    for outcome in run(seeds, args.jobs, args.security, args.three):
        outcomes.append(outcome)
        if outcome.difference:
            print(_line(outcome, args.security, args.three), file=out, flush=True)
        differing = sum(bool(o.difference) for o in outcomes)
        told = f"{len(outcomes)}/{len(seeds)}, {differing} differ, {time.perf_counter() - began:.0f} s"
        print(told, file=sys.stderr, end="\r" if sys.stderr.isatty() else "\n", flush=True)
    print(_page(outcomes, first, time.perf_counter() - began), file=out)
    return 1 if not outcomes or any(o.difference for o in outcomes) else 0


def _line(outcome: Outcome, security: str = "", three: bool = False) -> str:
    options = f"{' --security ' * bool(security)}{security}{' --three' * three}"
    command = f'make fuzz ARGS="--runs 1 --seed {outcome.seed}{options}"'
    return f"seed {outcome.seed}: {outcome.difference} ({outcome.text}); repeat: {command}"


def _page(outcomes: Sequence[Outcome], first: int, seconds: float) -> str:
    rows = []
    for name in [*sorted({o.objective for o in outcomes}), "all"]:
        these = [o for o in outcomes if name in (o.objective, "all")]
        compared = [o for o in these if o.has_counterpart]
        counts = (
            len(these),
            sum(o.is_paper for o in these),
            sum(bool(o.refused) for o in these),
            sum(o.trees for o in these),
            sum(o.splits for o in these),
            len(compared),
            sum(not o.parts and not o.difference for o in compared),
            sum(bool(o.parts) and not o.by_rule for o in compared),
            sum(o.by_rule for o in compared),
            sum(o.against_xgboost for o in these),
            sum(bool(o.rounded_leaves) for o in these),
            sum(bool(o.difference) for o in these),
        )
        rows.append([name, *map(str, counts), f"{sum(o.seconds for o in these):.0f}"])
    header = ["objective", "trainings", "paper", "refused", "trees", "splits", "with xgboost", "same trees", "ties"]
    header += ["older rules", "trees there", "rounded", "differ", "seconds"]
    page = table(f"Random trainings from seed {first}, {seconds:.0f} s", header, rows)
    ties, rules = ([o.parts for o in outcomes if o.by_rule == by_rule] for by_rule in (False, True))
    for kind, texts in (("ties", ties), ("older rules", rules), ("refused", [o.refused for o in outcomes])):
        page += "".join(f"\n{kind}, {n} times: {text}" for text, n in Counter(filter(None, texts)).most_common())
    rounded = [f"{o.seed} ({o.rounded_leaves})" for o in outcomes if o.rounded_leaves]
    return page + (f"\nrounded, by seed (leaves): {', '.join(rounded)}" if rounded else "")


if __name__ == "__main__":
    sys.exit(main())
