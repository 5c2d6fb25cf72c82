"""What a training on given tables will cost, before it runs: the tables are binned, and no more."""

from __future__ import annotations

from collections.abc import Mapping

from mpfedxgb.boosting.calibration import timed
from mpfedxgb.boosting.forecast import Forecast, forecast
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.config import SessionSettings
from mpfedxgb.data.binning import bin_table
from mpfedxgb.data.candidates import Candidates
from mpfedxgb.data.table import Table
from mpfedxgb.party.roster import Roster
from mpfedxgb.tree.level import TableSizes


def forecast_tables(
    tables: Mapping[str, Table], eval_rows: int, params: TrainParams, roster: Roster, settings: SessionSettings
) -> Forecast:
    """Return the forecast of a simulation on tables, with an estimate of its seconds on this machine."""
    rows = next(iter(tables.values())).rows
    columns = tuple(len(Candidates(bin_table(t, params.max_bin, params.binning))) for t in tables.values())
    told = forecast(params, TableSizes(rows, eval_rows, columns), roster, settings, beside_strict=True)
    return timed(told, together=True)
