"""The settings file of a role as text: every key with its meaning, those that may be left out as comments."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from mpfedxgb.boosting.objectives import FOR_NUMBERS, PER_CLASS, for_classes
from mpfedxgb.boosting.params import STRICT, TrainParams
from mpfedxgb.federation.settings.sections import ALL_CORES, DEFAULT_LINK, LEAST_ROWS
from mpfedxgb.party.roster import ACTIVE, COORDINATOR, Roster
from mpfedxgb.transport.transport import MESH, STAR, Address
from mpfedxgb.transport.transports import TRANSPORTS

ID, LABEL = "customer_id", "defaulted"
"""Columns of the sample tables that a new federation begins with."""

TRAINING: dict[str, Any] = {
    "objective": "binary:logistic",
    "n_estimators": 20,
    "max_depth": 3,
    "learning_rate": 0.2,
}
"""Parameters that suit the sample tables."""

EXPLAINED = {
    "objective": f"the loss, such as {for_classes(2).name} or {FOR_NUMBERS[0]}",
    "num_class": f"example: number of classes, for {', '.join(PER_CLASS)} only",
    "n_estimators": f"number of rounds, each of one tree (of one per class for {', '.join(PER_CLASS)})",
    "max_depth": "levels of splits of a tree",
    "max_bin": "bins per column of numbers",
    "learning_rate": "shrinks every leaf weight",
    "reg_lambda": "L2 penalty on leaf weights",
    "gamma": "least gain of a split",
    "min_child_weight": "least sum of hessians on either side of a split",
    "subsample": "share of rows per round",
    "colsample_bytree": "share of columns per tree",
    "weighted": "whether [label] names a column of weights",
    "first_layer_mask": "let only the active participant split the root",
    "may_stop_early": "whether [label] may stop the training early",
    "security": '"sealed" tells nobody anything of a training row; "paper" reveals more',
    "binning": 'equal frequency; "paper" takes the sketch of the paper\'s own code',
    "leaf_epsilon": 'with security = "paper": how close leaf weights come to the exact ones',
    "xgboost_rules": "the XGBoost release whose rules trees follow; there is no other choice",
}
"""What the parameters of a training mean."""

_WIDTH = 40
_INDENT = 2


@dataclass(frozen=True, slots=True)
class Place:
    """Where a role that listens does so, and where others find it."""

    listen: Address
    dial: Address


@dataclass(frozen=True, slots=True)
class _Line:
    """A key with its value and meaning; `optional` ones are written as comments that show the default."""

    key: str
    value: Any
    meaning: str
    optional: bool = False

    def __str__(self) -> str:
        text = f"{'# ' if self.optional else ''}{self.key} = {_toml(self.value)}"
        return f"{text.ljust(_WIDTH)}{' ' * _INDENT}# {self.meaning}"


def settings_text(
    federation: str,
    roster: Roster,
    role: int,
    places: Mapping[int, Place],
    topology: str = STAR,
    security: str = STRICT,
) -> str:
    """Return a settings file for a role of a trial.

    Parameters
    ----------
    federation : str
        Its name.
    roster : Roster
    role : int
        The role's number.
    places : mapping of int to Place
        Of those who listen.
    topology : str
        How participants are connected.
    security : str
        What trainings may reveal.
    """
    name = roster.name(role)
    blocks = [
        f'# Settings of {name} in the federation "{federation}". Relative paths begin at the folder of this file.\n'
        "# Keys behind a # are optional and show their defaults, or examples where it says so.\n"
    ]
    for title, lines in _tables(federation, roster, role, places, topology, security):
        blocks.append("\n".join([title, *map(str, lines)]) + "\n")
    return "\n".join(blocks)


def _tables(
    federation: str, roster: Roster, role: int, places: Mapping[int, Place], topology: str, security: str
) -> Iterator[tuple[str, list[_Line]]]:
    name = roster.name(role)
    yield (
        "# Who takes part. The same at all roles.\n[federation]",
        [
            _Line("name", federation, "sessions of other federations are refused"),
            _Line("participants", list(roster.participants), "the active participant, who holds the label, first"),
            _Line("coordinator", roster.coordinator, "deals random masks; holds no data"),
        ],
    )
    yield "[role]", _role(name, role)
    who = (
        "Only the coordinator and the active participant listen" if topology == STAR else "All but the last role listen"
    )
    yield f"# {who}.\n[network]", _network(roster, role, places, topology)
    yield (
        "# Who this role is to the others: the certificate's DNS name has to be its name above.\n[tls]",
        [
            _Line("ca", "ca.crt", "the authority that all roles trust"),
            _Line("certificate", f"{name}.crt", "this role's certificate"),
            _Line("key", f"{name}.key", "its private key; nobody else should be able to read it"),
            _Line("passphrase_env", "KEY_PASSPHRASE", "example: environment variable with the key's passphrase", True),
        ],
    )
    yield (
        "[session]",
        [_Line("name", "training", "the same at all roles; a run of the same name goes on where it stopped", True)],
    )
    yield "# What all roles know of the training. The same at all roles.\n[training]", _training(security)
    if role != COORDINATOR:
        yield "# This participant's rows: CSV (also .csv.gz) or Parquet. Rows are sorted by id.\n[data]", _data(role)
        yield (
            "# How the rows in common are found, with align = true.\n"
            "# The same at all participants, but for max_rows and n_jobs.\n[align]",
            _align(),
        )
    if role == ACTIVE:
        yield "# Only the active participant has these.\n[label]", _label()
    if role not in (COORDINATOR, ACTIVE):
        yield (
            "# What this participant answers when the active one asks for scores.\n[scoring]",
            [_Line("max_rows_per_day", 10_000, "example: rows that it answers for in a day (UTC) at most", True)],
        )
    yield (
        "# What this role may use of its machine.\n[limits]",
        [
            _Line("n_jobs", ALL_CORES, "threads; -1 for all cores", True),
            _Line("max_memory", "6 GB", "example: more than this goes to the spool, or is refused", True),
            _Line("spool", "spool", "example: a folder, on a disk of its own if possible, for what does not fit", True),
        ],
    )
    yield (
        "# The Dask cluster of this role's own organisation, if its rows are to live there; see docs/workers.md.\n"
        "[workers]",
        [
            _Line("scheduler", "tls://dask.internal:8786", "example: where its scheduler is", True),
            _Line("ca", "dask/ca.crt", "example: the authority that the cluster trusts, not the federation's", True),
            _Line("certificate", "dask/client.crt", "example: this role's certificate in the cluster", True),
            _Line("key", "dask/client.key", "example: its private key", True),
        ],
    )
    yield (
        "[log]",
        [
            _Line("level", "info", "debug, info, warning or error", True),
            _Line("file", f"{name}.log", "example: where the log goes besides the terminal", True),
            _Line("json", False, "one JSON object per line, for machines", True),
        ],
    )


def _role(name: str, role: int) -> list[_Line]:
    lines = [
        _Line("name", name, "one of the participants, or the coordinator"),
        _Line("state", "state", "folder for checkpoints and this role's own secrets", True),
    ]
    if role != COORDINATOR:
        lines.append(_Line("model", f"{name}.mpfedxgb.json", "this participant's part of the model", True))
    return lines


def _network(roster: Roster, role: int, places: Mapping[int, Place], topology: str) -> list[_Line]:
    how = "star: over the active one; mesh: each with each; the same at all roles"
    lines = [_Line("topology", topology, how, topology == STAR)]
    if role in places:
        lines.append(_Line("listen", str(places[role].listen), "where the others reach this role; open this port"))
    if role != COORDINATOR:
        lines.append(
            _Line("coordinator", str(places[COORDINATOR].dial), f"where {roster.coordinator} is reached from here")
        )
    if role not in (COORDINATOR, ACTIVE):
        lines.append(_Line("active", str(places[ACTIVE].dial), f"where {roster.name(ACTIVE)} is reached from here"))
    for m in roster.auxiliaries:
        if m < role and topology == MESH:
            lines.append(_Line(f"peers.{roster.name(m)}", str(places[m].dial), f"where {roster.name(m)} is reached"))
        elif m < role:
            example = "example: where it is reached from here, in a mesh"
            lines.append(_Line(f"peers.{roster.name(m)}", f"{roster.name(m)}.example.org:7703", example, True))
    planned = [_Line("link", DEFAULT_LINK, "what lies between the roles: lan, wan, or ms/Mbit/s as in 20/100", True)]
    return [
        *lines,
        *(planned if role == ACTIVE else []),
        _Line("deadline", 600.0, "seconds to wait for a peer's next message", True),
        _Line("connect_timeout", 300.0, "seconds to wait for peers at the start", True),
        _Line("reconnect", False, "wait for a peer that was lost, and go on", True),
        _Line("max_frame_mb", 1024, "largest message that is accepted", True),
        _Line("transport", next(iter(TRANSPORTS)), _transports(), True),
    ]


def _transports() -> str:
    return ", ".join(f"{name} {kind.where}" for name, kind in TRANSPORTS.items())


def _training(security: str) -> list[_Line]:
    chosen = TRAINING if security == STRICT else TRAINING | {"security": security}
    lines = [_Line(key, value, EXPLAINED[key]) for key, value in chosen.items()]
    for parameter in fields(TrainParams):
        if parameter.name not in chosen:
            value = 3 if parameter.name == "num_class" else parameter.default
            lines.append(_Line(parameter.name, value, EXPLAINED.get(parameter.name, "see docs/parameters.md"), True))
    return lines


def _data(role: int) -> list[_Line]:
    lines = [
        _Line("id", ID, "the column that says which row is whose; the same people at all participants"),
        _Line("align", False, "find the people that all have before a training; needs mpfedxgb[align]", True),
        _Line("train", "train.csv", "rows to learn from"),
        _Line("evaluate", "evaluate.csv", "rows to watch progress on; at all participants or at none"),
        _Line("predict", "score.csv", "rows to score with the model"),
    ]
    if role == ACTIVE:
        lines.append(_Line("predictions", "predictions.csv", "where their predictions go"))
    return [
        *lines,
        _Line("features", ["a", "b"], "example: the columns to use, instead of all but id, label and weight", True),
        _Line("drop", [], "or the columns not to use", True),
        _Line("categorical", [], "columns to read as words even if they look like numbers", True),
        _Line("numeric", [], "columns that must hold numbers", True),
        _Line("delimiter", ";", "example: what parts the values of CSV files, if it is not found out; or tab", True),
        _Line("encoding", "cp1252", "example: the encoding of CSV files, if it is not UTF-8", True),
        _Line("decimal", ",", "example: the decimal mark in CSV files, if it is not found out", True),
        _Line("missing", ["n.a."], "example: texts that stand for a missing value, beside empty ones and NA", True),
    ]


def _align() -> list[_Line]:
    return [
        _Line("ids", "text", "text, or integer: then 007, 7 and 7.0 are one id", True),
        _Line("case", "exact", "exact, or ignore: whether capitals count", True),
        _Line("spaces", "trim", "trim those around an id, or remove them all", True),
        _Line("unicode", "NFC", "NFC, or NFKC: then letters that look alike in other widths are one", True),
        _Line("min_rows", LEAST_ROWS, "with fewer in common, only the active participant learns which", True),
        _Line("max_rows", 10_000, "example: longest list of another one to compare with, not twice one's own", True),
        _Line("n_jobs", 1, "example: threads to compute with here, instead of one per core", True),
    ]


def _label() -> list[_Line]:
    return [
        _Line("column", LABEL, "the column to predict"),
        _Line("eval_metric", ["logloss", "auc"], "how to judge the rows to evaluate; the last one decides"),
        _Line("weight", "weight", "example: column of row weights; needs weighted = true", True),
        _Line(
            "early_stopping_rounds", 10, "example: rounds without progress to bear; needs may_stop_early = true", True
        ),
        _Line("base_score", 0.5, "example: the prediction to start from, instead of the labels' mean", True),
    ]


def _toml(value: Any) -> str:
    """Return a value as TOML, which agrees with JSON on texts, lists of texts, numbers and booleans."""
    return json.dumps(value, ensure_ascii=False)
