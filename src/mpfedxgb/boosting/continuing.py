"""Going on from a model: its trees are the first, and new rounds start from their margins (XGBoost's xgb_model)."""

from __future__ import annotations

from mpfedxgb.boosting.progress import State
from mpfedxgb.boosting.rounds import rounds_of
from mpfedxgb.boosting.setup import Setup
from mpfedxgb.errors import UserError
from mpfedxgb.party.bounds import MOST_TREES, check_told
from mpfedxgb.party.party import Party
from mpfedxgb.tree.predict import secure_predict

CONTINUED = "rounds of the model that is continued"


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
        told = party.tell_everyone(CONTINUED, None if model is None else [rounds_of(model)])
        check_told(party, CONTINUED, told, ("rounds of the model", 1, MOST_TREES))
        if len(set(told[:, 0].tolist())) > 1:
            listed = ", ".join(f"{n} {c}" for n, c in zip(party.roster.participants, told[:, 0], strict=True))
            raise UserError(f"the parts of the model to continue have different numbers of rounds ({listed})")
        scorer = None
        if setup.mine is not None and model is not None:
            scorer = model.scorer(setup.mine.table.followed_by(setup.mine.evaluation))
        sums = secure_predict(party, setup.params.trees_per_round, scorer, None)
    if setup.active is not None and model is not None and sums is not None:
        assert model.base_margin is not None
        setup.active.start_from(model.base_margin, sums)
    return State(int(told[0, 0]), trees=() if model is None else model.trees)
