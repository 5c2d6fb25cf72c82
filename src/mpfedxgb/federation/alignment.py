"""What an alignment leaves at a participant: a small file that says which of its rows all participants have.

It holds a mark for every row, in the order of the ids, and a salted digest of all ids, by which a table that has
changed since is noticed; no id. Values of other columns may change, and so may the order of the file.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from mpfedxgb.atomic import write_file
from mpfedxgb.data.ids import SALT_BYTES, Ids
from mpfedxgb.data.table import Column, Table
from mpfedxgb.errors import CheckpointError, DataError
from mpfedxgb.federation.aligning import NAMES
from mpfedxgb.federation.rows import Rows
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.intersection.intersect import Marks
from mpfedxgb.ring.prg import os_entropy

_NAME = "alignment.json"
_FORMAT = "mpfedxgb alignment 1"
_AGAIN = "run mpfedxgb align again, at all participants"


def alignment_path(settings: RoleSettings) -> Path:
    """Return where a participant keeps which rows are in common, for its session."""
    return settings.role.state / settings.session.name / _NAME


def keep_alignment(settings: RoleSettings, lists: Mapping[str, Ids], found: Mapping[str, Marks]) -> None:
    """Write down what was found."""
    tables = {}
    for what, marks in found.items():
        salt = os_entropy(SALT_BYTES)
        tables[what] = {
            "rows": len(marks),
            "salt": salt.hex(),
            "digest": lists[what].digest(salt).hex(),
            "marks": base64.b64encode(np.packbits(marks).tobytes()).decode(),
        }
    path = alignment_path(settings)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(path, json.dumps({"format": _FORMAT, **_belongs_to(settings), "tables": tables}, indent=1) + "\n")
    except OSError as error:
        raise CheckpointError(f"cannot write {path}: {error.strerror}") from None


def rows_in_common(settings: RoleSettings, tables: Mapping[str, Rows]) -> dict[str, Rows] | None:
    """Return the rows of every table that all participants have, as was found before; None if nothing was.

    Raises
    ------
    DataError
        If a table, the rule for ids or the participants have changed since.
    CheckpointError
        If the file is damaged.
    """
    path = alignment_path(settings)
    if not path.exists():
        return None
    kept = _read(path)
    for key, mine in _belongs_to(settings).items():
        if kept.get(key) != mine:
            raise DataError(f"{settings.role.name}: {key} changed since the rows were aligned; {_AGAIN}")
    common = {}
    for what, rows in tables.items():
        one = kept["tables"].get(what)
        if one is None:
            raise DataError(f"{settings.role.name}: the {NAMES[what]} rows were not aligned with the others; {_AGAIN}")
        if one["rows"] != len(rows.ids) or rows.ids.digest(bytes.fromhex(one["salt"])).hex() != one["digest"]:
            told = f"the ids of the {NAMES[what]} rows have changed since they were aligned"
            raise DataError(f"{settings.role.name}: {told}; {_AGAIN}")
        marks = np.unpackbits(np.frombuffer(base64.b64decode(one["marks"]), np.uint8), count=len(rows.ids))
        common[what] = take(rows, marks.astype(np.bool_))
    return common


def take(rows: Rows, marks: Marks) -> Rows:
    """Return some rows; categories that none of them has are forgotten, as if the file had never had them."""
    columns = tuple(_used(Column(c.name, c.values[marks], c.categories)) for c in rows.table.columns)
    return replace(
        rows,
        ids=rows.ids.take(marks),
        table=Table(rows.table.owner, columns, int(marks.sum())),
        label=None if rows.label is None else rows.label[marks],
        weight=None if rows.weight is None else rows.weight[marks],
    )


def _used(column: Column) -> Column:
    if column.categories is None:
        return column
    there = ~np.isnan(column.values)
    codes, places = np.unique(column.values[there].astype(np.int64), return_inverse=True)
    values = np.full(len(column.values), np.nan, np.float32)
    values[there] = places
    return Column(column.name, values, tuple(column.categories[code] for code in codes))


def _belongs_to(settings: RoleSettings) -> dict[str, Any]:
    return {"participants": list(settings.roster.participants), "[align]": asdict(settings.align.rule)}


def _read(path: Path) -> dict[str, Any]:
    try:
        kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if kept["format"] != _FORMAT:
            raise ValueError("another format")
        for one in kept["tables"].values():
            size = len(base64.b64decode(one["marks"], validate=True))
            if size != -(-one["rows"] // 8) or len(bytes.fromhex(one["salt"])) < SALT_BYTES:
                raise ValueError("marks of another length")
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise CheckpointError(f"{path} is damaged; {_AGAIN}") from None
    return kept
