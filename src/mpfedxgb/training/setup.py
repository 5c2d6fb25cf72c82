"""What stands before the first round: own columns binned, sizes announced, candidates published, rules fixed.

Going on from a model: its trees are the first, and new rounds start from their margins (XGBoost's xgb_model).
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial

from mpfedxgb.boosting import scales
from mpfedxgb.boosting.active import Active
from mpfedxgb.boosting.callbacks import State
from mpfedxgb.boosting.metrics import rounds_of
from mpfedxgb.boosting.params import TrainParams, checks_sides
from mpfedxgb.boosting.parts import TrainData
from mpfedxgb.data.binning import Candidates, bin_table
from mpfedxgb.data.directions import directions_of
from mpfedxgb.errors import UserError
from mpfedxgb.machine import give_back
from mpfedxgb.modes.choose import mode_of
from mpfedxgb.modes.mode import Setup
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.handshake import MOST_COLUMNS, MOST_ROWS, MOST_TREES, check_announced, check_numbers
from mpfedxgb.party.party import Party
from mpfedxgb.protocols.row_blocks import RowBlocks
from mpfedxgb.protocols.secret import concatenate
from mpfedxgb.protocols.share import publish_matrices, share
from mpfedxgb.protocols.storage import LocalRows
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.ring import Ring, wide
from mpfedxgb.training import memory
from mpfedxgb.tree.level import SplitData, TableSizes, TreeRules
from mpfedxgb.tree.predict import secure_predict

ROOM = "room for a training of these sizes"
_SIZES = (
    ("training rows", 1, MOST_ROWS),
    ("evaluation rows", 0, MOST_ROWS),
    ("candidate columns", 0, MOST_COLUMNS),
)

_log = logging.getLogger("mpfedxgb.training")


def set_up(party: Party, params: TrainParams, mine: TrainData | None, held: RowBlocks | None = None) -> Setup:
    """Prepare a training; every role runs this, the coordinator without data.

    `held` is where this role's row blocks live, in memory if it does not say.

    Reveals: TABLE_SIZES to everyone; and what `mode.begin` tells.
    """
    with party.phase("setup"):
        data = _publish(party, params, mine, LocalRows() if held is None else held)
    rows, mode = data.sizes.rows, mode_of(params)
    plan = mode.plan(params, rows)
    rules = TreeRules(
        max_depth=params.max_depth,
        ring=wide(plan.limbs),
        checks_children=checks_sides(params),
        no_split_first=scales.no_split_first(params),
        first_layer_mask=params.first_layer_mask,
        tosses_coins=mode.tosses_coins,
        sums_in_leaves=params.facts.shares_leaf_weights or params.constrained,
        constrained=params.constrained,
        **scales.tree_widths(params, plan, rows),
    )
    if params.constrained:
        data = _share_directions(party, data, mine, rules.ring)
    active = None
    if mine is not None and mine.labels is not None:
        active = Active(party, params, plan, mine.labels, data.sizes, mine.sample_key)
    setup = Setup(mode, params, plan, rules, data, mine, active)
    return replace(setup, state=mode.begin(party, setup))


def _publish(party: Party, params: TrainParams, mine: TrainData | None, held: RowBlocks) -> SplitData:
    """Bin the own table, tell the sizes, wait until all have room for them, publish the candidate columns."""
    candidates = None if mine is None else Candidates(bin_table(mine.table, params.max_bin, params.binning))
    sizes = _tell_sizes(party, mine, candidates)
    party.observer.on_sizes(party, params, sizes)
    held.expect(party.role, memory.layouts_of(sizes), partial(memory.bytes_besides, params, sizes))
    party.barrier(ROOM)
    keep = memory.keeps_masks(sizes)
    columns = {m: sizes.columns[m - 1] for m in sizes.owners}
    matrices = publish_matrices(party, columns, sizes.rows, candidates, keep, held)
    give_back(sum(layout.octets for layout in memory.layouts_of(sizes).values()))
    evaluation = () if mine is None else tuple(mine.evaluation)
    return SplitData(sizes, matrices, candidates, evaluation, held.threads)


def _share_directions(party: Party, data: SplitData, mine: TrainData | None, ring: Ring) -> SplitData:
    """Return the candidates with the directions of their columns: own ones, and everybody's as secrets.

    Rounds: 1 for each owner. Sent: an element per candidate by its owner. Reveals: nothing.
    """
    directions = None
    if mine is not None and data.candidates is not None:
        directions = directions_of(data.candidates, mine.directions)
    shared = []
    with party.phase("setup"):
        for owner in data.sizes.owners:
            values = None
            if party.has_values_of(owner) and directions is not None:
                values = RingArray.encode(ring, directions)
            shared.append(share(party, owner, ring, (data.sizes.columns[owner - 1],), values))
    return replace(data, directions=directions, sigma=concatenate(shared) if shared else None)


def _tell_sizes(party: Party, mine: TrainData | None, candidates: Candidates | None) -> TableSizes:
    own = None
    if mine is not None and candidates is not None:
        own = [mine.table.rows, sum(table.rows for table in mine.evaluation), len(candidates)]
        check_numbers(party, party.role, own, *_SIZES)
    announced = party.tell_everyone(Entry.TABLE_SIZES, own, (len(_SIZES),))
    check_announced(party, Entry.TABLE_SIZES, announced, *_SIZES)
    rows, eval_rows, columns = announced.T.tolist()
    for what, counts in (("training", rows), ("evaluation", eval_rows)):
        if len(set(counts)) > 1:
            listed = ", ".join(f"{n} {c}" for n, c in zip(party.roster.owner_names, counts, strict=True))
            text = f"the participants bring different numbers of {what} rows ({listed}); align the tables first"
            raise UserError(text, "mismatch", f"{what} rows")
    return TableSizes(rows[0], eval_rows[0], tuple(columns), party.roster.coordinator_owns)


def state_of_model(party: Party, setup: Setup) -> State:
    """Return this role's state after the rounds of the model that its data name; every role runs this.

    1. Everyone tells how many rounds its part of the model has, so that the coordinator knows where to go on.
    2. The training and evaluation rows are scored jointly, with all trees of the model.
    3. The active participant takes the sums, which are exact, for the margins that it had after growing them.

    Rounds: 1, and those of `secure_predict`. Reveals: CONTINUED to everyone; what `secure_predict` tells, hence the sum
    of leaf weights of each row to the active participant.
    """
    model = None if setup.mine is None else setup.mine.start
    with party.phase("setup"):
        announced = party.tell_everyone(Entry.CONTINUED, None if model is None else [rounds_of(model)])
        check_announced(party, Entry.CONTINUED, announced, ("boosting rounds of the model", 1, MOST_TREES))
        if len(set(announced[:, 0].tolist())) > 1:
            listed = ", ".join(f"{n} {c}" for n, c in zip(party.roster.owner_names, announced[:, 0], strict=True))
            text = f"the parts of the model to continue have different numbers of boosting rounds ({listed})"
            raise UserError(text, "mismatch", "xgb_model")
        scorer = None
        if setup.mine is not None and model is not None:
            scorer = model.scorer(setup.mine.table.followed_by(setup.mine.evaluation))
        sums = secure_predict(party, setup.params.outputs, scorer, None)
    if setup.active is not None and model is not None and sums is not None:
        assert model.base_margin is not None
        setup.active.start_from(model.base_margin, sums)
    return State(int(announced[0, 0]), trees=() if model is None else model.trees)
