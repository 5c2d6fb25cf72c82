"""The best split of every node as the paper finds it: the oracle's, ties with gamma included."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb import reference
from mpfedxgb.modes.paper.tree import FeatureIndex, _index, best_splits, index_features
from mpfedxgb.party import COORDINATOR, Party, run_locally
from mpfedxgb.protocols import NOBODY, Opened
from mpfedxgb.tree import Round, TreeRules
from mpfedxgb.tree.level import Level, aggregate_buckets
from support.evaluation import SEEDS
from support.property_tests import examples
from support.row_vectors import as_secret
from support.small_trees import WIDE, Federation, Ints, constants, gradients, share_gradients, share_members

TREES, ROWS = 5, 30


def features_of(party: Party, federation: Federation) -> FeatureIndex:
    """Index the features of all participants."""
    if party.is_coordinator:
        return index_features(party, [])
    mine = federation.candidates[party.role - 1]
    return index_features(party, np.bincount(mine.features, minlength=len(mine.bins.counts)).tolist())


@dataclass(frozen=True, slots=True)
class Case:
    """How the best splits of a batch of roots are looked for."""

    lam: int = 1
    gam: int = 1
    no_split_first: bool = True
    first_layer: bool = False

    def secure(self, federation: Federation, gh: Ints) -> list[Opened]:
        """Return what every role learns."""
        rules = TreeRules(
            max_depth=3,
            ring=WIDE,
            checks_children=False,
            no_split_first=self.no_split_first,
            first_layer_mask=self.first_layer,
            tosses_coins=False,
        )

        def program(party: Party) -> Opened:
            data, features = federation.publish(party), features_of(party, federation)
            vectors = share_gradients(party, gh)
            members = share_members(party, np.ones((len(gh), ROWS), np.uint8))
            sums = aggregate_buckets(party, data, vectors)
            level = Level([(tree, 0) for tree in range(len(gh))], members, as_secret(party, vectors), sums)
            round_ = Round("0", constants(party, self.lam, self.gam, 0))
            return best_splits(party, data, level, round_, rules, depth=0, features=features)

        return run_locally(program, federation.participants).results

    def plain(self, federation: Federation, gh: Ints) -> list[int | None]:
        """Return what the oracle chooses: a candidate's number, or None."""
        layer = slice(0, federation.sizes.columns[0]) if self.first_layer else None
        rules = reference.Rules(3, self.lam, self.gam, 0, self.no_split_first, layer)
        bits, choices = federation.bits.astype(np.int64), []
        among = range(len(bits)) if layer is None else range(len(bits))[layer]
        for g, h in gh:
            left = [(int(a), int(b)) for a, b in bits @ np.stack([g, h]).T]
            everything = np.ones(len(bits), bool)
            choices.append(reference._best(left, int(g.sum()), int(h.sum()), rules, everything, among))
        return choices


def check_against_oracle(case: Case, federation: Federation, gh: Ints) -> None:
    """Everyone learns the owners, each owner its own candidates, and they are the oracle's."""
    federation.check_choices(case.secure(federation, gh), case.plain(federation, gh))


CASES = {
    "plain": Case(),
    "large gamma": Case(gam=40, no_split_first=False),
    "gamma of one, last": Case(no_split_first=False),
    "first layer": Case(lam=3, first_layer=True),
}


@pytest.mark.parametrize("name", CASES)
@given(seed=SEEDS, columns=st.sampled_from([(2, 2), (1, 3), (2, 1, 2), (3, 0, 1), (0, 2)]))
@examples(4)
def test_best_splits_are_the_oracles(name: str, seed: int, columns: tuple[int, ...]) -> None:
    """Small tables full of ties, participants without columns, several trees in a batch: owner and candidate agree."""
    check_against_oracle(CASES[name], Federation.random(seed, ROWS, columns), gradients(seed, TREES, ROWS))


@pytest.mark.parametrize("first", [True, False])
def test_ties_with_no_split(first: bool) -> None:
    """A gain of exactly gamma splits where "no split" stands last, and does not where it stands first."""
    federation = Federation.random(0, ROWS, (1, 1))
    g = federation.candidates[0].rows_left(0).astype(np.int64)
    factor = (ROWS + 1) * (int(g.sum()) + 1)  # so that the gain is a whole number
    G = int(g.sum())
    gain = G**2 * factor // (G + 1) - G**2 * factor // (ROWS + 1)
    gh = np.stack([g, np.ones(ROWS, np.int64)])[None] * factor
    for gam, splits in ((gain - 1, True), (gain, not first), (gain + 1, False)):
        case = Case(lam=factor, gam=gam, no_split_first=first)
        check_against_oracle(case, federation, gh)
        assert (case.plain(federation, gh) != [None]) == splits


@pytest.mark.parametrize("columns", [(2, 3), (1, 0, 2), (2, 1, 1, 3)])
def test_indices_of_features(columns: tuple[int, ...]) -> None:
    """All learn the candidates of each feature, the owners their indices, nobody those of others."""
    federation = Federation.random(1, ROWS, columns)
    views = run_locally(lambda party: features_of(party, federation), len(columns)).results
    sizes = tuple(tuple(np.bincount(c.features, minlength=len(c.bins.counts)).tolist()) for c in federation.candidates)

    assert {view.sizes for view in views} == {sizes}
    assert [sum(mine) for mine in sizes] == list(federation.sizes.columns)
    assert views[COORDINATOR].mine == ()
    assert [len(view.mine) for view in views[1:]] == list(columns)
    assert sorted(index for view in views for index in view.mine) == list(range(sum(columns)))


def test_first_layer_without_columns_of_the_active_participant() -> None:
    """Nobody's column takes part: nothing splits, and nobody has a candidate."""
    federation, gh = Federation.random(2, ROWS, (0, 3)), gradients(2, TREES, ROWS)
    for view in Case(first_layer=True).secure(federation, gh):
        assert view.owner.tolist() == [NOBODY] * TREES
        assert view.local.tolist() == [-1] * TREES


def test_an_owner_tells_feature_and_bucket() -> None:
    """Of each of its candidates the permuted index of the feature, and the place among that feature's candidates."""
    federation = Federation.random(3, ROWS, (3, 2))

    def program(party: Party) -> tuple[tuple[int, ...], list[list[int]]]:
        data, features = federation.publish(party), features_of(party, federation)
        if data.candidates is None:
            return (), []
        return features.mine, _index(data, features, np.arange(len(data.candidates))).tolist()

    for m, (mine, told) in enumerate(run_locally(program, 2).results[1:]):
        features = federation.candidates[m].features.tolist()
        assert max(features.count(feature) for feature in features) > 1
        expected = [[mine[feature], features[:i].count(feature)] for i, feature in enumerate(features)]
        assert told == expected
