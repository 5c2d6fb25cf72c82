"""One role's process that takes part in two sessions, one after the other, for bench_unprotected.py.

    python trained_twice.py FOLDER/bank/bank.toml

The sessions are SESSIONS; all roles run this with their own settings, and write their records as ever.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from mpfedxgb.api.federation import Federation
from mpfedxgb.federation.settings import RoleSettings

SESSIONS = ("trial", "again")


def main(path: Path) -> None:
    """Take part in both sessions."""
    settings = RoleSettings.from_toml(path)
    for name in SESSIONS:
        role = Federation(replace(settings, session=replace(settings.session, name=name)))
        if settings.is_coordinator:
            role.coordinate()
        else:
            role.train()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
