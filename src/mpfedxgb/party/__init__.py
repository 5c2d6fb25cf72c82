"""Who is who, who counts, who may draw which mask; and `run_locally`, every role as a thread of this process."""

from mpfedxgb.party.communicator import InterimFrames
from mpfedxgb.party.ledger import Ledger, Reveal
from mpfedxgb.party.local import LocalRun, Outcome, run_locally, run_roles
from mpfedxgb.party.meter import Counts, Meter
from mpfedxgb.party.party import ALL, Party
from mpfedxgb.party.roster import ACTIVE, COORDINATOR, Roster

__all__ = [
    "ACTIVE",
    "ALL",
    "COORDINATOR",
    "Counts",
    "InterimFrames",
    "Ledger",
    "LocalRun",
    "Meter",
    "Outcome",
    "Party",
    "Reveal",
    "Roster",
    "run_locally",
    "run_roles",
]
