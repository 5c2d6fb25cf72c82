"""The tables and keys of a role's settings file. To add a key, add its entry, run `make generate`, use it, test it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mpfedxgb.schema.training import (
    ADDRESS,
    BY_NAME,
    DIRECTIONS,
    FLAG,
    LINK,
    NAME,
    NAMES,
    PATH,
    REFUSED,
    REQUIRED,
    SHARED,
    TABLE,
    TEXT,
    TEXT_OR_TEXTS,
    TEXTS,
    VARIABLE,
    Declared,
    changes_nothing,
    choice,
    integer,
    number,
)

ALL = frozenset({"coordinator", "active", "auxiliary", "coordinating"})
"""What a role may be; an auxiliary that is the coordinator too is "coordinating"."""
PARTICIPANTS = ALL - {"coordinator"}
ACTIVE = frozenset({"active"})
AUXILIARIES = frozenset({"auxiliary", "coordinating"})
ACCEPTING = ALL - ACTIVE
_DIALLING = frozenset({"active", "auxiliary"})

_NOT_HERE = (
    "a passphrase in a file is soon in a backup or a mail; put it into an environment variable and the name of that "
    "variable into passphrase_env"
)
_MOST_ROWS = 1 << 26
_LARGEST_BASE = 2.0**29
_NO_SCORES = "only {active}, the active participant, answers with scores"
_OWN_BUSINESS = "what a role may use is its own business; see [limits]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key(Declared):
    """A key of a table.

    `who` may set it, and `others` is why nobody else may. A key without default or with the default None is shown in
    templates by its `example`, or by what `init` says. `same` says that all roles have to agree, `sample` that
    templates set the key, so that a trial runs; `{role}` in a default is the role's name.
    """

    who: frozenset[str] = ALL
    others: str = ""
    example: Any = None
    same: bool = False
    sample: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a settings file: its keys, what stands above it in a template, and who may have it.

    `needed` is why a role that may have the table has to, empty if it need not; `others` is why no other role may.
    An `optional` one may be missing as a whole, whatever its keys.
    """

    name: str
    keys: tuple[Key, ...]
    title: str = ""
    who: frozenset[str] = field(default=ALL, kw_only=True)
    others: str = field(default="", kw_only=True)
    needed: str = field(default="", kw_only=True)
    optional: bool = field(default=False, kw_only=True)
    refused: dict[str, str] = field(default_factory=dict, kw_only=True)
    note: str = field(default="", kw_only=True)
    """What docs/deployment.md alone adds, with its links; keys have one too."""
    ignored: Callable[[str, Any], bool] = field(default=lambda key, value: False, kw_only=True)
    """Whether a key that is none has a value that changes nothing."""

    def __getitem__(self, name: str) -> Key:
        return next(key for key in self.keys if key.name == name)


# Tables, one or two lines an entry: name, kind, default, help, and what is special.
# fmt: off
FEDERATION = Table(
    "federation",
    (
        Key("name", NAME, REQUIRED, "sessions of other federations are refused"),
        Key("participants", NAMES, REQUIRED, "the active participant, who holds the label, first",
            note="Order matters."),
        Key("coordinator", NAME, "coordinator", "deals random masks; one of the participants, or who holds no data",
            sample=True),
    ),
    "Who takes part. The same at all roles.",
    needed="it names the federation and its participants",
)

ROLE = Table(
    "role",
    (
        Key("name", NAME, REQUIRED, "one of the participants, or the coordinator"),
        Key("state", PATH, "state", "folder for checkpoints and this role's own secrets",
            note="Its record too, a coordinator's alone."),
        Key("model", PATH, "{role}.mpfedxgb.json", "this participant's part of the model", who=PARTICIPANTS,
            others="the coordinator keeps no model", annotation="Path | None"),
    ),
    needed="it says which role this file is for",
)

NETWORK = Table(
    "network",
    (
        Key("topology", BY_NAME["topology"].kind, "star",
            "star: over the active one; mesh: each with each; the same at all roles", same=True,
            note="See [star or mesh](#star-or-mesh)."),
        Key("listen", ADDRESS, None, "where the others reach this role; open this port",
            note="The coordinator and the active participant do; in a mesh all but the last. "
            "`0.0.0.0:7701` is every interface, `[::]:7701` with IPv6."),
        Key("coordinator", ADDRESS, None, "where {coordinator} is reached from here", who=_DIALLING,
            others="the coordinator dials nobody"),
        Key("active", ADDRESS, None, "where {active} is reached from here", who=frozenset({"auxiliary"}),
            others="only auxiliary participants dial the active one, and none that coordinates"),
        Key("peers", TABLE, {}, "where {peer} is reached from here, in a mesh",
            note="Those auxiliaries that come before this one in `participants`: `peers.telecom = "
            "\"host:port\"`."),
        Key("link", LINK, "lan", "latency and bandwidth between roles: lan, wan, or ms/Mbit/s as in 20/100", who=ACTIVE,
            others="the active participant announces it",
            note="Tournaments are planned for it: `\"lan\"` is 0.3 ms one way and 1,000 Mbit/s, `\"wan\"` 20 "
            "ms and 100 Mbit/s. Announced to all; no model depends on it."),
        Key("deadline", number(0.0, 1e6, above=True), 600.0, "seconds to wait for a peer's next message",
            note="See [deadlines](operations.md#deadlines)."),
        Key("connect_timeout", number(0.0, 1e6, above=True), 300.0, "seconds to wait for peers at the start",
            note="Also for a lost one to come back."),
        Key("reconnect", FLAG, False, "wait for a peer that was lost, and go on"),
        Key("max_frame_mb", integer(1, 65_536), 1024, "largest message that is accepted",
            note="Longer ones are cut, by the smallest value of all roles."),
        Key("transport", TEXT, "tls", "tls between organisations, mpi within one cluster"),
    ),
    "{who} listen.",
)

TLS = Table(
    "tls",
    (
        Key("ca", PATH, REQUIRED, "the authority that all roles trust", example="ca.crt"),
        Key("certificate", PATH, REQUIRED, "this role's certificate", example="{role}.crt"),
        Key("key", PATH, REQUIRED, "its private key; nobody else should be able to read it", example="{role}.key"),
        Key("passphrase_env", VARIABLE, None, "environment variable with the key's passphrase",
            example="KEY_PASSPHRASE"),
    ),
    "Who this role is to the others: the certificate's DNS name is its name above.",
    optional=True,
    refused=dict.fromkeys(("passphrase", "password", "key_passphrase", "key_password", "secret"), _NOT_HERE),
)

SESSION = Table(
    "session",
    (
        Key("name", TEXT, "training", "the same at all roles; a run of the same name goes on where it stopped",
            same=True),
    ),
)

TRAINING = Table(
    "training",
    tuple(
        Key(
            p.name,
            TEXT if p.name == "objective" else p.kind,
            p.shared_default or p.default,
            p.help,
            example=p.example,
            same=True,
        )
        for p in SHARED.values()
    ),
    "What all roles know of the training. The same at all roles.",
    ignored=changes_nothing,
    refused={name: refused.reason for name, refused in REFUSED.items()}
    | {alias: f"it is called {p.name} here" for p in SHARED.values() for alias in p.aliases}
    | dict.fromkeys(("n_jobs", "max_memory", "spool", "nthread"), _OWN_BUSINESS),
)

ACCEPT = Table(
    "accept",
    (
        Key("security", TEXTS, ("sealed", "strict"), "what trainings may reveal: their security"),
        Key("max_depth", BY_NAME["max_depth"].kind, 6, "deepest trees"),
        Key("max_trees", integer(1, 1 << 24), 100, "trees of a training, all classes together"),
        Key("max_bin", BY_NAME["max_bin"].kind, 64, "most bins of a column"),
        Key("min_rows", integer(1, _MOST_ROWS), 100, "training rows at least: few tell more of each"),
        Key("max_rows", integer(1, _MOST_ROWS), None, "training rows at most", example=1_000_000),
        Key("trainings_per_day", integer(1, 1_000_000), 3, "new trainings in a day (UTC)"),
    ),
    "Which trainings that {active} proposes are accepted, with --accept;\nby the coordinator always, unless "
    "[training] says which one.",
    who=ACCEPTING,
    others="{active} is the active participant, which proposes trainings",
)

DATA = Table(
    "data",
    (
        Key("id", TEXT, REQUIRED, "the column that says which row is whose",
            example="customer"),
        Key("align", FLAG, False, "find the people that all have before a training; needs mpfedxgb[align]", same=True,
            note="See [aligning](aligning.md)."),
        Key("train", PATH, None, "rows to learn from", example="train.csv", sample=True,
            note="`.csv`, `.csv.gz` or `.parquet`, here and below."),
        Key("evaluate", PATH, None, "rows to watch progress on; at all or none", example="evaluate.csv",
            sample=True),
        Key("predict", PATH, None, "rows to score with the model", example="score.csv", sample=True),
        Key("predictions", PATH, None, "where their predictions go", example="predictions.csv", sample=True, who=ACTIVE,
            others="only the active participant learns predictions"),
        Key("features", TEXTS, None, "the columns to use, instead of all but id and those of [label]",
            example=["a", "b"],
            note="A table to score holds no others than those of the training and those that `drop` names."),
        Key("drop", TEXTS, (), "or the columns not to use"),
        Key("categorical", TEXTS, (), "columns of words that look like numbers"),
        Key("numeric", TEXTS, (), "columns that must hold numbers"),
        Key("monotone", DIRECTIONS, {}, "1: predictions may only rise with it, -1: only fall; secret",
            example={"income": 1}),
        Key("delimiter", TEXT, None, "what parts values in CSV files, such as ; or tab, if not found out", example=";",
            note="What can be read in two ways is refused."),
        Key("encoding", TEXT, None, "encoding of CSV files, if not UTF-8", example="cp1252",
            note="UTF-16 is found out."),
        Key("decimal", TEXT, None, "decimal mark in CSV files, if not found out", example=","),
        Key("missing", TEXTS, (), "texts that stand for a missing value, beside empty ones and NA", example=["n.a."],
            note="In all columns but the id, and beside what pandas takes for missing (`NA`, `null`, "
            "`NaN`, ...); `\"-999\"` is also -999.0. Parquet files and DataFrames follow it too."),
    ),
    "This participant's rows: CSV (also .csv.gz) or Parquet. Rows are sorted by id.",
    who=PARTICIPANTS,
    others="{coordinator} is the coordinator, which holds no data",
    needed="it names the files and the id column",
)

ALIGN = Table(
    "align",
    (
        Key("ids", choice("text", "integer"), "text", "text, or integer: then 007, 7 and 7.0 are one id", same=True,
            note="See [what counts as the same id](aligning.md#what-counts-as-the-same-id)."),
        Key("case", choice("exact", "ignore"), "exact", "exact, or ignore: whether capitals count", same=True),
        Key("spaces", choice("trim", "remove"), "trim", "trim those around an id, or remove them all", same=True),
        Key("unicode", choice("NFC", "NFKC"), "NFC",
            "NFC, or NFKC: letters that look alike in other widths are one", same=True),
        Key("min_rows", integer(1, _MOST_ROWS), 20, "with fewer in common, only the active participant learns which",
            same=True),
        Key("max_rows", integer(1, _MOST_ROWS), None,
            "longest list of another one to compare with", example=10_000,
            note="Twice its own list if not set. See [lists of guesses](aligning.md#lists-of-guesses)."),
        Key("n_jobs", integer(1, 1024), None, "threads here, instead of one per core", example=1),
    ),
    "How the rows in common are found, with align = true.\nThe same at all participants, but for max_rows and n_jobs.",
    who=PARTICIPANTS,
    others="{coordinator} is the coordinator, which has no part in that",
)

LABEL = Table(
    "label",
    (
        Key("column", TEXT, REQUIRED, "the column to predict", example="defaulted"),
        Key("eval_metric", TEXT_OR_TEXTS, (), "how to judge the rows to evaluate; the last one decides",
            example=["logloss", "auc"], sample=True),
        Key("weight", TEXT, None, "column of row weights; needs weighted = true", example="weight"),
        Key("qid", TEXT, None, "column of the groups within which rank:... ranks rows",
            example="query"),
        Key("upper", TEXT, None, "column of upper bounds for survival:aft; inf for none",
            example="last_seen"),
        Key("scale_pos_weight", BY_NAME["scale_pos_weight"].kind, 1.0,
            "weight of rows of the second class, or with label 1; needs weighted",
            note="Not in `[training]`: it would tell everybody the classes' shares."),
        Key("base_margin", TEXT_OR_TEXTS, (),
            "margins to start from: a column, or one per class; also to score",
            example="base_margin",
            note="All files have them, and requests over HTTP. [What they are](parameters.md#parameters-"
            "of-the-federation)."),
        Key("early_stopping_rounds", integer(1, 1_000_000), None,
            "boosting rounds without progress; needs may_stop_early = true", example=10),
        Key("base_score", number(-_LARGEST_BASE, _LARGEST_BASE, above=True), None,
            "the prediction to start from, instead of the labels' mean", example=0.5),
    ),
    "Only the active participant has these.",
    who=ACTIVE,
    others="only {active}, the active participant, holds the label",
    needed="{active} is the active participant",
)

SCORING = Table(
    "scoring",
    (
        Key("max_rows_per_day", integer(1, 1 << 40), None, "rows that it answers for in a day (UTC) at most",
            example=10_000,
            note="In all scoring sessions together; no limit if not set. See [what scoring "
            "reveals](threat-model.md#what-scoring-reveals)."),
    ),
    "What this participant answers when the active one asks for scores.",
    who=AUXILIARIES,
    others="only auxiliary participants are asked for rows, and can limit that",
)

SERVE = Table(
    "serve",
    (
        Key("token_file", PATH, None, "file with the token that requests bring; mode 600",
            example="http.token"),
        Key("max_batch", integer(1, 1 << 20), 10_000, "rows scored together, and of one request, at most",
            who=ACTIVE, others=_NO_SCORES),
        Key("max_wait_ms", number(0.0, 1000.0), 2.0, "milliseconds that a request waits for others at most",
            who=ACTIVE, others=_NO_SCORES),
        Key("max_waiting", integer(1, 1 << 24), 100_000, "rows that wait at most; beyond, requests are refused",
            who=ACTIVE, others=_NO_SCORES),
        Key("max_body_mb", integer(1, 1024), 16, "largest request that is read", who=ACTIVE, others=_NO_SCORES),
        Key("timeout", number(0.0, 3600.0, above=True), 30.0, "seconds within which a request is answered",
            who=ACTIVE, others=_NO_SCORES),
    ),
    "Over HTTP, with --http: health, metrics and, by {active}, scores.",
)

LIMITS = Table(
    "limits",
    (
        Key("n_jobs", integer(-4096, 4096), -1, "threads; -1 for all cores", note="-2 is all but one."),
        Key("max_memory", TEXT, None, "more than this goes to the spool, or is refused", example="6 GB",
            note="No limit if not set. [How much a training takes](benchmarks.md#memory) is known before "
            "anything is sent; what is refused is refused at all roles, with the figures."),
        Key("spool", PATH, None, "a folder, on a disk of its own if possible, for what does not fit", example="spool",
            note="See [the spool](operations.md#the-spool)."),
    ),
    "What this role may use of its machine.",
    note="No other role learns of it, and no model depends on it.",
)

WORKERS = Table(
    "workers",
    (
        Key("scheduler", TEXT, REQUIRED, "where its scheduler is", example="tls://dask.internal:8786",
            note="`tls://HOST:PORT`"),
        Key("ca", PATH, REQUIRED, "the authority that the cluster trusts, not the federation's", example="dask/ca.crt"),
        Key("certificate", PATH, REQUIRED, "this role's certificate in the cluster", example="dask/client.crt"),
        Key("key", PATH, REQUIRED, "its private key", example="dask/client.key"),
    ),
    "The Dask cluster of this role's own organisation, if it has one (docs/workers.md).",
    optional=True,
)

LOG = Table(
    "log",
    (
        Key("level", choice("debug", "info", "warning", "error"), "info", "debug, info, warning or error"),
        Key("file", PATH, None, "where the log goes besides the terminal", example="{role}.log"),
        Key("json", FLAG, False, "one JSON object per line, for machines"),
    ),
)

# fmt: on

TABLES = {
    table.name: table
    for table in (
        FEDERATION,
        ROLE,
        NETWORK,
        TLS,
        SESSION,
        TRAINING,
        ACCEPT,
        DATA,
        ALIGN,
        LABEL,
        SCORING,
        SERVE,
        LIMITS,
        WORKERS,
        LOG,
    )
}
"""Every table of a settings file."""
