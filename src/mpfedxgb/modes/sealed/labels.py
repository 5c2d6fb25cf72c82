"""What a sealed training carries from round to round, at every role: secrets of all rows, and shares between attempts.

Margins are a masked secret while a training runs. What is kept on disk between attempts are additive shares, one at
each participant: never a masked value beside its mask. A resumed attempt masks them afresh.

One round of a sealed training: gradients before its tree, leaf weights and margins after it (Algorithm 1).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from mpfedxgb.boosting.callbacks import EvaluationState, State
from mpfedxgb.boosting.metrics import NO_METRIC
from mpfedxgb.boosting.model import keep_trees
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.sampling import row_sample
from mpfedxgb.boosting.scales import UNKNOWN, ScalePlan, constants_of, public_scale
from mpfedxgb.modes.mode import RoundGradients, Setup, encoded, public_constants
from mpfedxgb.modes.sealed.encoding import SealedLabels, SealedRules, encode_labels, sealed_rules
from mpfedxgb.modes.sealed.gradients import GradientRows, secure_gradients
from mpfedxgb.modes.sealed.tree import secure_leaf_weights, sum_of_leaves
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.handshake import check_numbers
from mpfedxgb.party.party import Party, Spec
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.protocols.bits import Bit, share_bit
from mpfedxgb.protocols.opening import open_masked
from mpfedxgb.protocols.reveal import reveal
from mpfedxgb.protocols.rows import RowVectors, mask_rows, masked_by
from mpfedxgb.protocols.secret import Secret, Shares, to_shares
from mpfedxgb.protocols.share import share, share_together
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.ring import BIT, VECTOR, Ring
from mpfedxgb.tree.grow import Grown
from mpfedxgb.tree.leaf import WEIGHT_BITS, record_own_paths
from mpfedxgb.tree.level import Constants, TableSizes
from mpfedxgb.tree.nodes import Leaf, Tree

_log = logging.getLogger("mpfedxgb.training")


@dataclass(slots=True, eq=False)
class Sealed:
    """The secrets of a training.

    `margins` of all rows, training and evaluation, (all rows,) or (classes, all rows); None before the first round, in
    which they are where P_1 starts.
    `largest` bounds leaf weights, if something does.
    `private` is the active participant's.
    """

    rules: SealedRules
    constants: Constants
    labels: Secret
    weights: Secret | None
    largest: Secret | None
    sizes: TableSizes
    private: SealedLabels | None = field(repr=False)
    margins: Secret | None = None

    def margin_shares(self, party: Party) -> Shares:
        """Return the margins as additive shares; at first they are all P_1's. Local."""
        if self.margins is not None:
            return to_shares(party, self.margins)
        shape = self.rules.shape(self.sizes.all_rows)
        if party.is_symbolic:
            return Shares(RingArray.hidden(VECTOR, shape))
        start = np.zeros(shape, np.int64) if self.private is None else self.private.start
        return Shares(RingArray.encode(VECTOR, start))

    def margin_shares_to_save(self, party: Party) -> npt.NDArray[np.int64] | None:
        """Return this participant's shares of the margins, (classes, rows), to be kept; None at the coordinator."""
        shares = self.margin_shares(party)
        return None if shares.part.is_hidden else np.atleast_2d(shares.part.decode())

    def resume_from_shares(self, party: Party, kept: npt.NDArray[np.int64] | None) -> None:
        """Go on from shares that were kept, under fresh masks.

        Rounds: 1. Sent: one element per row and class by each auxiliary. Reveals: nothing.
        """
        party.step("kept margins")
        shape = self.rules.shape(self.sizes.all_rows)
        part = RingArray.hidden(VECTOR, shape)
        if not party.is_symbolic:
            assert kept is not None, "every participant keeps its shares"
            part = RingArray.encode(VECTOR, kept.reshape(shape))
        self.margins = open_masked(party, Shares(part))


def seal(
    party: Party,
    params: TrainParams,
    plan: ScalePlan,
    rules: SealedRules,
    ring: Ring,
    sizes: TableSizes,
    private: SealedLabels | None,
) -> Sealed:
    """Share what only the active participant has, once for all rounds: labels, row weights, constants.

    Rounds: 1. Sent: 8 bytes per row by the active participant, 16 where rows have weights, or 8 for every class and 8;
    and the constants where they are its secrets. Reveals: nothing.
    """
    specs: list[Spec] = [(VECTOR, rules.shape(sizes.rows))]
    specs += [(VECTOR, (sizes.rows,))] if rules.weighted else []
    specs += [(VECTOR, ())] if params.largest_step else []
    known = public_scale(params, plan, sizes.rows)
    secret = {} if known is not None else constants_of(params, ring, UNKNOWN)
    specs += [(r, ()) for r, _ in secret.values()]
    values = None
    if private is not None:
        of_rows = [private.y] if private.weights is None else [private.y, private.weights]
        of_rows += [np.array(private.largest)] if params.largest_step else []
        values = [RingArray.encode(VECTOR, numbers) for numbers in of_rows]
        if secret:
            values += encoded(constants_of(params, ring, private.scale))
    shared = share_together(party, ACTIVE, specs, values)
    labels, weights = shared[0], shared[1] if rules.weighted else None
    largest = shared[1 + rules.weighted] if params.largest_step else None
    if known is not None:
        constants = public_constants(party, constants_of(params, ring, known))
    else:
        constants = Constants(**dict(zip(secret, shared[-len(secret) :], strict=True)))
    return Sealed(rules, constants, labels, weights, largest, sizes, private)


def sealed_gradients(
    party: Party, sealed: Sealed, subsample: float, sample_key: str, t: int
) -> tuple[Secret, RowVectors]:
    """Return g~ and h~ of round t, (trees, 2, rows), masked, and the same as vectors whose masks' makers are known.

    In the first round P_1 knows every margin, so it computes them alone and shares them, as in the strict way.

    Rounds: 1 in the first round; later 1 and those of `secure_gradients`, and 1 for a sample of rows. Reveals: nothing.
    """
    count, private = sealed.sizes.rows, sealed.private
    shape = (sealed.rules.classes or 1, 2, count)
    inside = None
    if private is not None and subsample < 1:
        inside = row_sample(party, subsample, count, sample_key, t).astype(np.uint8)
    if sealed.margins is None:
        values = None
        if private is not None:
            values = RingArray.encode(VECTOR, private.first_gradients(sealed.rules, inside).reshape(shape))
        gh = share(party, ACTIVE, VECTOR, shape, values)
        return gh, masked_by(party, ACTIVE, gh)
    rows = GradientRows(sealed.margins[..., :count], sealed.labels, *_sampled(party, sealed, subsample < 1, inside))
    shares = secure_gradients(party, rows, sealed.rules)
    return mask_rows(party, shares.reshape(*shape))


def _sampled(
    party: Party, sealed: Sealed, samples: bool, inside: npt.NDArray[np.uint8] | None
) -> tuple[Secret | None, Bit | None]:
    """Return the rows' weights, 0 outside the sample; without weights, which rows are inside, if there is a sample."""
    rows, private = (sealed.sizes.rows,), sealed.private
    if not samples:
        return sealed.weights, None
    if not sealed.rules.weighted:
        return None, share_bit(party, ACTIVE, rows, None if inside is None else RingArray.encode(BIT, inside))
    values = None
    if private is not None and private.weights is not None and inside is not None:
        values = RingArray.encode(VECTOR, private.weights * inside)
    return share(party, ACTIVE, VECTOR, rows, values), None


def add_leaves(party: Party, sealed: Sealed, grown: Grown, weights: Secret) -> npt.NDArray[np.int64] | None:
    """Add the weight of each row's leaf to its margin; return what the trees so far add up to in evaluation rows.

    The latter, (evaluation rows,), goes to the active participant; None to the others, and where there are none.

    Rounds: 1, and 1 for evaluation rows. Sent: one element per row by each auxiliary, or for each class. Reveals:
    EVALUATION_MARGINS to the active participant.
    """
    sizes = sealed.sizes
    places = [tree.leaf_places() for tree in grown.trees] if sealed.rules.classes else None
    shares = sealed.margin_shares(party) + sum_of_leaves(party, grown, weights, sizes.all_rows, places)
    party.step("margins")
    sealed.margins = open_masked(party, shares)
    if not sizes.eval_rows:
        return None
    value = reveal(party, sealed.margins[..., sizes.rows :], ACTIVE, Entry.EVALUATION_MARGINS)
    if value.is_hidden or sealed.private is None:
        return None
    return np.asarray(value.decode() - sealed.private.start[..., sizes.rows :])


def _of(setup: Setup) -> Sealed:
    assert isinstance(setup.state, Sealed)
    return setup.state


def begin(party: Party, setup: Setup) -> Sealed:
    """Encode the labels, which the active participant does alone, and share them."""
    params, plan, rules, sizes, active = setup.params, setup.plan, setup.rules, setup.data.sizes, setup.active
    numbers, private = sealed_rules(params, plan, sizes.rows), None
    if active is not None:
        start = active.start if numbers.classes else active.start[0]
        private = encode_labels(params, plan, numbers, active.labels.y, active.weight, start, sizes.rows)
        active.scale = private.scale
        if not sizes.eval_rows:
            _log.info("%s", NO_METRIC)
    with party.phase("setup"):
        return seal(party, params, plan, numbers, rules.ring, sizes, private)


def gradients_of_round(party: Party, setup: Setup, t: int) -> RoundGradients:
    """Return g~ and h~ of the round, computed on secrets, and the constants, the same in all rounds."""
    sealed, key = _of(setup), "" if setup.mine is None else setup.mine.sample_key
    gh, vectors = sealed_gradients(party, sealed, setup.params.subsample, key, t)
    return gh, vectors, sealed.constants


def update(party: Party, setup: Setup, grown: Grown, t: int) -> list[Tree]:
    """Return the kept trees of round t, with shares of leaf weights; nobody learns anything of a training row."""
    sealed = _of(setup)
    division = sealed.rules.division
    weights = secure_leaf_weights(party, grown, sealed.constants, division, setup.rules, sealed.largest)
    shares, leaves = to_shares(party, weights).part, None
    if not shares.is_hidden:
        leaves = [Leaf(None, share=int(share)) for share in shares.decode()]
    kept = keep_trees(party.owner, grown.trees, setup.data.candidates, leaves)  # 11
    with party.phase("update"):
        evaluated = add_leaves(party, sealed, grown, weights)  # 7-9
        for tree in grown.trees:
            record_own_paths(party, tree, knows_leaves=False)
    if setup.active is not None and evaluated is not None:
        setup.active.see_evaluation(evaluated, leaf_scale_bits(setup))
    return kept


def leaf_scale_bits(setup: Setup) -> int:
    """Return the scale of the kept leaf weights: that of the labels, which P_1 alone knows."""
    private = _of(setup).private
    return WEIGHT_BITS if private is None else private.places


def kept(party: Party, setup: Setup) -> EvaluationState | None:
    """Return everybody's part of margins that nobody knows, and the rest at the active participant."""
    evaluation = None if setup.active is None else setup.active.evaluation()
    shares = _of(setup).margin_shares_to_save(party)
    if shares is None:
        return evaluation
    return EvaluationState(shares) if evaluation is None else replace(evaluation, margins=shares)


def resumed(party: Party, setup: Setup, state: State) -> None:
    """Go on from shares of margins, which are none of the active participant's business."""
    evaluation = state.evaluation
    _of(setup).resume_from_shares(party, None if evaluation is None else evaluation.margins)
    if setup.active is not None and evaluation is not None:
        setup.active.resume(replace(evaluation, margins=setup.active.margins))


def trees_to_score(party: Party, setup: Setup, trees: list[Tree], rounds: int) -> list[Tree]:
    """Return the trees that the model keeps: those only with which rows are ever scored.

    Two sums over different numbers of trees would give single trees away. `rounds` are those that are done.

    Rounds: 1 where a training may stop early, or else 0. Reveals: NUMBER_OF_TREES to everyone.
    """
    if not setup.params.may_stop_early:
        return trees
    best = None if setup.active is None else setup.active.best_iteration
    (kept,) = party.broadcast(Entry.NUMBER_OF_TREES, [rounds if best is None else best + 1])
    check_numbers(party, ACTIVE, [int(kept)], ("trees to keep", 1, rounds))
    return trees[: int(kept) * setup.params.trees_per_round]
