"""What a role does once the sizes of a training are known: foretell it, note that, refuse what has no room."""

from __future__ import annotations

import logging

from mpfedxgb.boosting.forecast import Basis, foretold_of
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.room import check_limits, check_role
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.party.observer import Observer
from mpfedxgb.party.party import Party
from mpfedxgb.tree.level import TableSizes

_log = logging.getLogger("mpfedxgb.session")


class Capacity(Observer):
    """Ends a training at all roles, before a matrix is sent, if this role's machine has no room for it.

    The forecast goes to the log, and as a milestone to the record.
    """

    def __init__(self, settings: RoleSettings) -> None:
        self._settings = settings

    def on_sizes(self, party: Party, params: TrainParams, sizes: TableSizes) -> None:
        """Foretell what it takes, say so, and refuse what is too much."""
        settings = self._settings
        told = foretold_of(Basis(params, sizes, settings.roster, party.settings, keeps_rounds=True), party.role)
        if told is not None:
            _log.info("%s", told.summary)
            party.observer.on_milestone({"forecast": told.to_dict()})
        spooled = check_limits([party.role], params, sizes, settings.limits)
        check_role(party.name, party.role, params, sizes, settings.role.state, in_spool=spooled)
