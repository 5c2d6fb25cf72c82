"""What one role that deviates from the program learns today: these attacks succeed, and nobody notices.

They are controls. The promise is for roles that follow the program; openings that are checked would turn each of these
tests round, and then the assertions below have to say so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import pytest

from experiments.leaks import auxiliary_deviations, deviating
from experiments.leaks.active_deviations import planned_cuts, trees_needed
from experiments.leaks.auxiliary_deviations import LabelPlan, labels_from_own_splits
from experiments.leaks.deviating import Learnt, forced_candidates, labels_of_rows, made_up, matrix_of_no_bits
from experiments.leaks.deviations import edit_openings, train
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.party import ACTIVE, Party
from mpfedxgb.ring import RingArray
from mpfedxgb.tree import Tree

ROWS = 400


@cache
def revealed_without_deviation(security: str, first_layer_mask: bool) -> frozenset[str]:
    """Return the names in all ledgers of a training in which every role follows the program."""
    params = TrainParams(n_estimators=1, max_depth=2, max_bin=4, security=security, first_layer_mask=first_layer_mask)
    _, run = train(params, *made_up(ROWS, 1), 1, {})
    return frozenset(entry.name for ledger in run.ledgers for entry in ledger)


def assert_learns_all_unnoticed(learnt: Learnt, security: str, first_layer_mask: bool = False) -> None:
    """Make sure that an attack has everything right, and that no ledger has a name that others have not.

    That the training ended well at all roles is seen by there being a result.
    """
    assert learnt.right == learnt.of > 0
    assert learnt.chance < 0.95
    assert learnt.revealed <= revealed_without_deviation(security, first_layer_mask)


@pytest.mark.parametrize("security", ["strict", "sealed"])
def test_p1_forces_candidates_and_reads_a_column_of_an_auxiliary(security: str) -> None:
    """Three trees of depth 3 tell the bin of every row in a column of ten bins; sealed, with one scoring after it."""
    assert trees_needed(10, 3) == 3
    assert_learns_all_unnoticed(forced_candidates(3, security, rows=ROWS), security)


def test_p1_needs_a_second_cut_to_tell_sides_apart() -> None:
    """One tree has all cuts of eight bins, but coins hide which side is the lower one."""
    one = forced_candidates(3, "strict", bins=8, rows=ROWS, trees=1)
    two = forced_candidates(3, "strict", bins=8, rows=ROWS)

    assert one.right < one.of
    assert two.right == two.of


@pytest.mark.parametrize(("bins", "depth"), [(2, 1), (8, 3), (10, 3), (32, 3), (64, 6), (256, 6)])
def test_the_rule_of_thumb_makes_every_cut_where_another_tells_its_sides(bins: int, depth: int) -> None:
    """Every cut is made, and but for two bins each of them in a span of three bins at least."""
    made, ordered = set[int](), set[int]()
    for levels in planned_cuts(bins, depth, trees_needed(bins, depth)):
        spans = [(0, bins - 1)]
        for cuts in levels:
            parts = {span: cut for span in spans for cut in cuts if span[0] <= cut < span[1]}
            assert len(parts) == len(cuts), "one cut in a span"
            made |= set(cuts)
            ordered |= {cut for (low, high), cut in parts.items() if high - low > 1}
            ends = [(low, cut, high) for (low, high), cut in parts.items()]
            spans = [part for low, cut, high in ends for part in ((low, cut), (cut + 1, high))]

    assert made == set(range(bins - 1))
    assert ordered == (made if bins > 2 else set())


def test_p1_flips_membership_bits_and_learns_sides_of_rows_outside_a_node() -> None:
    """With First-Layer-Mask P_1 knows who is outside, puts them inside, and reads off leaves how they would go."""
    assert_learns_all_unnoticed(deviating.membership_bits(3, rows=ROWS), "strict", first_layer_mask=True)


@pytest.mark.parametrize("security", ["strict", "sealed"])
@pytest.mark.parametrize("positives", [0.5, 0.2])
def test_an_auxiliary_learns_a_label_per_node(security: str, positives: float) -> None:
    """One of its choice on every level of every tree, if it knows the share of positive labels."""
    assert_learns_all_unnoticed(labels_of_rows(3, security, positives, rows=ROWS, trees=2), security)


@pytest.mark.parametrize(("believed", "answer"), [(0.3, True), (0.15, False)])
def test_an_auxiliary_has_to_know_the_share_of_positives(
    believed: float, answer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A share that is off leaves it with one answer for all rows, which says whether it is too large or too small."""
    answers: list[bool] = []

    def read(trees: Sequence[Tree], asked: LabelPlan) -> dict[int, bool]:
        found = labels_from_own_splits(trees, asked)
        answers.extend(found.values())
        return found

    monkeypatch.setattr(auxiliary_deviations, "labels_from_own_splits", read)
    wrong = labels_of_rows(3, "strict", 0.2, believed, rows=ROWS, trees=2)

    assert answers == [answer] * wrong.of


@pytest.mark.parametrize("security", ["strict", "sealed"])
def test_an_auxiliary_whose_matrix_is_not_bits_learns_which_labels_differ(security: str) -> None:
    """A pair per level of one tree, and every message is as the program would send it."""
    found = [matrix_of_no_bits(seed, security, rows=ROWS) for seed in (3, 4)]

    for one in found:
        assert_learns_all_unnoticed(one, security)


def test_without_errors_the_patch_changes_nothing() -> None:
    """The patched party with no error to add grows the same trees as the ordinary one: what is learnt is by errors."""
    params, problem = TrainParams(n_estimators=2, max_depth=2, max_bin=4), made_up(ROWS, 1)
    seen: list[str] = []

    def look(label: str, parts: list[RingArray]) -> list[RingArray]:
        seen.append(label)
        return parts

    def deviate(party: Party) -> None:
        edit_openings(party, look)

    ordinary, _ = train(params, *problem, 1, {})
    for role in (ACTIVE, 3):
        seen.clear()
        patched, _ = train(params, *problem, 1, {role: deviate})
        assert [model.trees for model in patched.models] == [model.trees for model in ordinary.models]
        assert seen


def test_the_table_is_readable() -> None:
    """Every result is a line below the rule, with both figures."""
    learnt = Learnt("an attack", "P_1", "rows", 3999, 4000, 0.5)
    *_, line = deviating.page("What is learnt", [learnt]).splitlines()

    assert re.search(r"an attack +P_1 +rows +3,999 of 4,000 +50 %", line)
