"""Which way predictions may go with a column: as users and settings files say it, and for every candidate.

1: they must not fall while the column grows; -1: they must not rise; 0, as where nothing is said: as the rows have it.
A direction is its owner's secret, like the column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mpfedxgb.data.binning import Candidates
from mpfedxgb.data.table import Table
from mpfedxgb.errors import DataError, SettingsError
from mpfedxgb.ring.kernels import I64

Directions = Mapping[str, int]
"""By column; none of them is 0."""

_WRITTEN = {"1": 1, "+1": 1, "0": 0, "-1": -1}
_FORMS = 'a tuple or list such as (1, -1, 0), a text such as "(1,-1,0)", or a dict such as {"income": 1}'


def directions_of_tables(
    given: Any, tables: Mapping[str, Table], columns: Sequence[str] | None, parameter: str
) -> dict[str, Directions]:
    """Return everybody's directions, checked: of one table with these `columns`, or of one table per participant.

    The latter are given table by table, in a list or a dict by participant, or in one dict by column.
    """
    if columns is None:
        by_owner = _by_table(given, tables, parameter)
    else:
        whole = read_directions(given, columns, parameter)
        by_owner = {name: {c: whole[c] for c in table.names if c in whole} for name, table in tables.items()}
    for name, table in tables.items():
        check_directions(table, by_owner[name], parameter)
    return by_owner


def _by_table(given: Any, tables: Mapping[str, Table], parameter: str) -> dict[str, Directions]:
    values = list(given.values()) if isinstance(given, Mapping) else given
    is_listed = isinstance(values, (list, tuple)) and any(not isinstance(value, (int, np.integer)) for value in values)
    if isinstance(given, Mapping) and not is_listed:
        return _by_column(given, tables, parameter)
    if given is not None and (not is_listed or (not isinstance(given, Mapping) and len(values) != len(tables))):
        text = f"{parameter}={given!r} does not go with {len(tables)} tables; give a dict by column, or for each table"
        raise SettingsError(f"{text} {_FORMS}", "mismatch", parameter, given)
    named = dict(zip(tables, given or (), strict=False)) if not isinstance(given, Mapping) else given
    unknown = [str(name) for name in named if name not in tables]
    if unknown:
        text = f"{parameter} names {', '.join(unknown)}; the participants are {', '.join(tables)}"
        raise DataError(text, "unknown", parameter, unknown)
    return {
        name: read_directions(named.get(name), table.names, f"{parameter} of {name}") for name, table in tables.items()
    }


def _by_column(given: Mapping[Any, Any], tables: Mapping[str, Table], parameter: str) -> dict[str, Directions]:
    every = [name for table in tables.values() for name in table.names]
    known = read_directions(given, every, parameter)
    repeated = [name for name in known if every.count(name) > 1]
    if repeated:
        text = f"{parameter} names {', '.join(repeated)}, which several participants have"
        raise DataError(f"{text}; give a dict of dicts, by participant", "duplicate", parameter, repeated)
    return {owner: {n: known[n] for n in table.names if n in known} for owner, table in tables.items()}


def read_directions(given: Any, names: Sequence[str], parameter: str) -> Directions:
    """Return the directions of columns, given in their order or by name, as XGBoost takes them; None says nothing.

    Columns behind the last that is given in order have none.
    """
    if isinstance(given, Mapping):
        unknown = [str(name) for name in given if str(name) not in names]
        if unknown:
            text = f"{parameter} names {', '.join(unknown)}, and there are only the columns {', '.join(names)}"
            raise DataError(
                f"{text}; drop them, or write the names as the table has them", "unknown", parameter, unknown
            )
        by_name = {str(name): value for name, value in given.items()}
    else:
        values = _in_order(given, parameter)
        if len(values) > len(names):
            text = f"{parameter} has {len(values)} directions for {len(names)} columns; give one for each"
            raise DataError(text, "mismatch", parameter, len(values))
        by_name = dict(zip(names, values, strict=False))
    return {name: sign for name, value in by_name.items() if (sign := read_direction(value, f"{parameter}: {name}"))}


def _in_order(given: Any, parameter: str) -> Sequence[Any]:
    if isinstance(given, str):
        inside = given.strip().removeprefix("(").removesuffix(")").strip(", ")
        return [part.strip() for part in inside.split(",")] if inside else []
    if given is None:
        return []
    if isinstance(given, (list, tuple, np.ndarray)):
        return list(given)
    raise SettingsError(f"{parameter}={given!r} is not understood; give {_FORMS}", "type", parameter, given)


def read_direction(value: Any, parameter: str) -> int:
    """Return one direction."""
    number = _WRITTEN.get(value) if isinstance(value, str) else value
    if isinstance(number, (bool, np.bool_)) or not isinstance(number, (int, np.integer)) or abs(int(number)) > 1:
        text = f"{parameter} is {value!r}; it is 1 for predictions that may only rise with it, -1 for only fall, or 0"
        raise SettingsError(text, "choice", parameter, value)
    return int(number)


def check_directions(table: Table, directions: Directions, parameter: str) -> None:
    """Raise DataError for a direction of a column that is not there, or whose values are categories."""
    read_directions(directions, table.names, parameter)
    unordered = [column.name for column in table.columns if column.is_categorical and column.name in directions]
    if unordered:
        text = f"{parameter} names {', '.join(unordered)}, whose values are categories and have no order"
        raise DataError(f"{text}; leave it out, or make the column numbers", "type", parameter, unordered)


def directions_of(candidates: Candidates, directions: Directions) -> I64:
    """Return the direction of every candidate's column, (candidates,)."""
    of_columns = [directions.get(name, 0) for name in candidates.bins.table.names]
    return np.array(of_columns, np.int64)[candidates.features]
