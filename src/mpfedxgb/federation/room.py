"""What a role does once the sizes of a training are known: foretell it, note that, refuse what has no room."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from mpfedxgb.boosting.forecast import Basis, foretold_of
from mpfedxgb.boosting.room import check_limits, check_role
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.party.party import Party
from mpfedxgb.tree.level import TableSizes

_log = logging.getLogger("mpfedxgb.session")


def prepare_for(settings: RoleSettings, party: Party, note: Callable[[Mapping[str, Any]], None]) -> None:
    """Let a training tell this role its sizes: the forecast goes to the log and, by `note`, to the record.

    Where the machine has no room the session ends here, at all roles, before a matrix is sent.
    """

    def on_sizes(sizes: TableSizes) -> None:
        basis = Basis(settings.training, sizes, settings.roster, party.settings, keeps_rounds=True)
        told = foretold_of(basis, party.role)
        if told is not None:
            _log.info("%s", told.summary)
            note({"forecast": told.to_dict()})
        spooled = check_limits([party.role], settings.training, sizes, settings.limits)
        check_role(party.name, party.role, settings.training, sizes, settings.role.state, in_spool=spooled)

    party.on_sizes = on_sizes
