"""Ask for scores as a program of the active participant's would: batch after batch, in one scoring session.

    python benchmarks/asker.py SETTINGS BATCHES PAUSE

Every answer is written to a file of its own, batch-0.csv and so on, beside the settings. What is there is not asked for
again, so that a program that was ended and is started anew goes on with the next batch. Ends with the exit codes of the
command line.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

from mpfedxgb.api.federation import Federation
from mpfedxgb.cli.exit_codes import exit_code
from mpfedxgb.cli.roles import start_logging
from mpfedxgb.data.files import write_table
from mpfedxgb.errors import MpfedxgbError, StoppedError, own_reason
from mpfedxgb.federation.session import stopping_on_signals


def ask(settings: Path, batches: int, pause: float) -> None:
    """Ask for all batches that are not answered, with a pause after each."""
    federation = Federation.from_toml(settings)
    rows = pd.read_csv(federation.settings.file_of("predict"))
    with federation.scoring() as session:
        for number, places in enumerate(np.array_split(np.arange(len(rows)), batches)):
            target = answer_path(settings.parent, number)
            if not target.is_file():
                write_table(session.predict(rows.iloc[places]), target)
                time.sleep(pause)


def answer_path(folder: Path, number: int) -> Path:
    """Return where the answer to a batch is kept."""
    return folder / f"batch-{number}.csv"


def main() -> None:
    """Ask; errors become a line and an exit code."""
    settings, batches, pause = sys.argv[1:]
    start_logging("info", as_json=False)
    try:
        with stopping_on_signals():
            ask(Path(settings), int(batches), float(pause))
    except (MpfedxgbError, StoppedError, OSError) as error:
        print(own_reason(error), file=sys.stderr)
        sys.exit(exit_code(error))


if __name__ == "__main__":
    main()
