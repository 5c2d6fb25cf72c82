"""SecureTrain and SecurePredict in the clear: `security="none"`.

One process that has all tables computes the model that `security="strict"` would give, from the same integers, samples
and coins, without a protocol. It is for experiments: nothing is hidden from anybody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from mpfedxgb.boosting import scales
from mpfedxgb.boosting.active import Active
from mpfedxgb.boosting.model import PartialModel, keep_trees
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.parts import TrainData, TrainResult, part_so_far, trained
from mpfedxgb.boosting.sampling import coins_of, column_sample, node_sample
from mpfedxgb.config import SessionSettings
from mpfedxgb.data.binning import Candidates, bin_table
from mpfedxgb.data.directions import directions_of
from mpfedxgb.data.table import Table
from mpfedxgb.modes.none.tree import PlainLeaf, PlainRules, PlainTable, grow_plain
from mpfedxgb.party.ledger import Ledger
from mpfedxgb.party.local import LocalRun
from mpfedxgb.party.meter import Meter
from mpfedxgb.party.observer import Observer
from mpfedxgb.party.roster import ACTIVE, Keyring, Roster, keys_of_choices
from mpfedxgb.ring import kernels
from mpfedxgb.tree.grow import toss
from mpfedxgb.tree.level import TableSizes
from mpfedxgb.tree.nodes import Leaf, Split, Tree, goes_first


@dataclass(frozen=True, slots=True)
class _Participant:
    """One whose choices are drawn here: coins and samples come from keys of its own, as in a federation."""

    name: str
    keys: Keyring = field(repr=False)
    meter: Meter = field(default_factory=Meter, repr=False)


def plain_train(
    params: TrainParams,
    roster: Roster,
    data: Sequence[TrainData],
    settings: SessionSettings,
    observer: Observer,
) -> LocalRun[TrainResult | None]:
    """Train on all participants' input and return what each would have; nobody sent anything, the ledger is empty.

    Their coins and samples are those of a training with security="strict" and the same `insecure_seed`, if one is set.
    """
    params.check_rules()
    if data[0].start is not None:
        params.check_continued()
    kernels.warm_up()
    keys = keys_of_choices(roster, replace(settings, parameters=params.as_protected().to_json()))
    people = [_Participant(name, own) for name, own in zip(roster.owner_names, keys, strict=True)]
    forest = _Forest(params, people, data)
    active, first = forest.active, len(forest.kept[0]) // params.trees_per_round

    def part(m: int = ACTIVE) -> PartialModel:
        known, own = active if m == ACTIVE else None, forest.candidates[m - 1]
        return part_so_far(keys[0].training, roster, m, params, own, forest.kept[m - 1], known)

    active.labels.callbacks.begin(part(), first, active.metrics)
    for t in range(first, params.n_estimators):
        observer.on_progress(f"boosting round {t + 1} of {params.n_estimators}")
        forest.add_round(t)
        if not active.report(t, part()) and params.may_stop_early:
            break
    results: list[TrainResult | None] = [
        trained(part(m), own, active if m == ACTIVE else None) for m, own in enumerate(forest.candidates, ACTIVE)
    ]
    meters = roster.by_role([person.meter for person in people], Meter())
    return LocalRun(roster, roster.by_role(results, None), meters, [Ledger() for _ in roster.roles])


class _Forest:
    """A training in the making: the tables in one place, the active participant's margins, everybody's kept trees."""

    def __init__(self, params: TrainParams, people: Sequence[_Participant], data: Sequence[TrainData]) -> None:
        self.params, self.people, self.data = params, people, data
        self.candidates = [Candidates(bin_table(own.table, params.max_bin, params.binning)) for own in data]
        self.table = PlainTable.of(self.candidates, [own.evaluation for own in data])
        self.directions = None
        if params.constrained:
            known = [directions_of(c, own.directions) for c, own in zip(self.candidates, data, strict=True)]
            self.directions = np.concatenate(known)
        self.kept: list[list[Tree]] = [[] for _ in data]
        sizes = TableSizes(self.table.rows, self.table.eval_rows, tuple(len(own) for own in self.candidates))
        labels = data[0].labels
        assert labels is not None, "the active participant has the labels"
        plan = scales.plan(params, sizes.rows)
        self.active = Active(people[0], params, plan, labels, sizes, data[0].sample_key)
        self._continue_from([own.start for own in data if own.start is not None])

    def _continue_from(self, start: Sequence[PartialModel]) -> None:
        """Begin with the trees of a model, and with the margins that they give, if there is one to go on from."""
        if start:
            assert start[0].base_margin is not None
            self.kept = [list(part.trees) for part in start]
            rows = [own.table.followed_by(own.evaluation) for own in self.data]
            self.active.start_from(start[0].base_margin, _sum_leaves(start, rows, None))

    def add_round(self, t: int) -> None:
        """Grow the trees of a round and keep everybody's part of them."""
        gh = self.active.integers(t)
        rules, allowed = self._rules(), self._sample(partial(column_sample, t=t))
        trees, grown = [], list[PlainLeaf]()
        for k in range(self.params.trees_per_round):
            of_tree = None if allowed is None else allowed[k]
            tree, closed = grow_plain(
                self.table, gh[k], rules, of_tree, self._coin(t, k), len(grown), self._node_sample(t, k)
            )
            trees.append(tree)
            grown += closed
        held = [leaf.held for leaf in grown] if self.params.constrained else None
        leaves, gains = self.active.update(trees, [leaf.rows for leaf in grown], held)
        for m, own in enumerate(self.candidates, ACTIVE):
            known = (leaves, gains) if m == ACTIVE else (None, None)
            self.kept[m - 1] += keep_trees(m, trees, own, *known)

    def _rules(self) -> PlainRules:
        params, scale = self.params, self.active.scale
        return PlainRules(
            max_depth=params.max_depth,
            lam=scale.lam,
            gam=scale.gam,
            mcw=scale.mcw,
            no_split_first=scales.no_split_first(params),
            first_layer_mask=params.first_layer_mask,
            alpha=scale.alpha,
            delta=scale.delta,
            places=self.active.plan.places,
            coarse=self.active.plan.coarse,
            directions=self.directions,
        )

    def _sample(self, draw: Callable[..., npt.NDArray[np.uint8]]) -> npt.NDArray[np.uint8] | None:
        """Return which candidates take part in each tree, or node, (trees, candidates); None if all do."""
        if not self.params.samples_columns:
            return None
        samples = [
            draw(person, self.params, own, mine.sample_key)
            for person, own, mine in zip(self.people, self.candidates, self.data, strict=True)
            if len(own)
        ]
        return np.concatenate(samples, axis=1) if samples else None

    def _node_sample(self, t: int, tree: int) -> Callable[[Sequence[int], int], npt.NDArray[np.uint8]] | None:
        """Return how a level's nodes are sampled, (nodes, candidates); None if they have the tree's sample."""
        if min(self.params.colsample_bylevel, self.params.colsample_bynode) == 1:
            return None

        def sample(nodes: Sequence[int], depth: int) -> npt.NDArray[np.uint8]:
            drawn = self._sample(partial(node_sample, t=t, depth=depth, nodes=[(tree, node) for node in nodes]))
            assert drawn is not None, "somebody has candidates"
            return drawn

        return sample

    def _coin(self, t: int, tree: int) -> Callable[[int, int], bool]:
        keys = [coins_of(person, self.params, self.data[0].sample_key) for person in self.people]
        return lambda owner, node: toss(keys[owner - ACTIVE], str(t), tree, node)


def plain_predict(
    models: Sequence[PartialModel], tables: Sequence[Table], rounds: int | None, roster: Roster
) -> LocalRun[npt.NDArray[np.int64] | None]:
    """Return a run whose result, at the active participant, is the sum of leaf weights per class and row.

    `models` and the `tables` that go with them are all participants', the active one's first; `rounds` limits the trees
    in use. The sums, (classes, rows), are in units of 2^-32.
    """
    return _told_to_active(_sum_leaves(models, tables, rounds), roster)


def plain_leaves(
    models: Sequence[PartialModel], tables: Sequence[Table], rounds: int | None, roster: Roster
) -> LocalRun[npt.NDArray[np.int64] | None]:
    """Return a run whose result, at the active participant, is the number of each row's leaf, (trees, rows)."""
    found = list(_leaves(models, tables, rounds))
    leaves = np.zeros((1 + max(number for number, _, _ in found), tables[0].rows), np.int64)
    for number, node, rows in found:
        leaves[number, rows] = node
    return _told_to_active(leaves, roster)


def _told_to_active(result: npt.NDArray[np.int64], roster: Roster) -> LocalRun[npt.NDArray[np.int64] | None]:
    results = [result if role == ACTIVE else None for role in roster.roles]
    return LocalRun(roster, results, [Meter() for _ in roster.roles], [Ledger() for _ in roster.roles])


def _sum_leaves(models: Sequence[PartialModel], tables: Sequence[Table], rounds: int | None) -> npt.NDArray[np.int64]:
    params, trees = models[0].params, models[0].scaled_trees
    sums = np.zeros((params.outputs, tables[0].rows), np.int64)
    for number, node, rows in _leaves(models, tables, rounds):
        leaf = trees[number][node]
        assert isinstance(leaf, Leaf)
        assert leaf.weight is not None
        sums[params.output_of(number), rows] += leaf.weight
    return sums


def _leaves(
    models: Sequence[PartialModel], tables: Sequence[Table], rounds: int | None
) -> Iterator[tuple[int, int, npt.NDArray[np.int64]]]:
    """Yield every leaf of the trees in use, by the numbers of its tree and its node, with the rows inside."""
    columns = [{column.name: column.values for column in table.columns} for table in tables]
    trees = len(models[0].trees) if rounds is None else rounds * models[0].params.trees_per_round
    for number in range(trees):
        views = [model.trees[number] for model in models]
        open_ = [(0, np.arange(tables[0].rows))]
        for node, rows in open_:  # grows while it is walked
            if isinstance(views[0][node], Leaf):
                yield number, node, rows
                continue
            owner, split = _owned(views, node)
            first = goes_first(split, columns[owner][split.feature][rows])
            left, right = (split.right, split.left) if split.flipped else (split.left, split.right)
            open_ += [(left, rows[first]), (right, rows[~first])]


def _owned(views: Sequence[Tree], node: int) -> tuple[int, Split]:
    """Return whose split a node is, and the split."""
    return next((m, view[node]) for m, view in enumerate(views) if isinstance(view[node], Split))  # type: ignore[return-value]
