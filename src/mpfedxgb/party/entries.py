"""Every name that a ledger can have, declared once: what it means, from whom it comes, and who gets it in which run.

The verbs of `Party` that make a value known take these names and no others. The tables of docs/what-each-party-sees.md
(`make generate`), the sentences of the report and the tests' lists of what is allowed are made of them.

The names themselves are part of step labels, and so of keys: renaming one is a change of the protocol.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Self


class Source(Enum):
    """From whom a value comes, alone or with others."""

    ALL = "all"
    ACTIVE = "the active participant"
    AUXILIARIES = "the auxiliaries"
    RECEIVER = "the receiver"


class To(StrEnum):
    """A receiver, as the page has it."""

    PARTICIPANTS = "participants"
    COORDINATOR = "C"
    P_1 = "P_1"
    P_2 = "P_2"
    OWNERS = "each owner"
    AUXILIARIES = "each auxiliary"


Receivers = tuple[To, ...]
EVERYONE: Receivers = (To.PARTICIPANTS, To.COORDINATOR)
NOBODY: Receivers = ()


class Run(StrEnum):
    """A kind of run, which has a table of its own on the page."""

    TRAINING = "training"
    CONTINUING = "training that goes on from a model"
    SCORING = "scoring run"
    FEDERATION = "session of processes"
    ALIGNMENT = "alignment"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of receivers in its table."""
        return ("strict", "sealed", "paper") if self is Run.TRAINING else ("to",)


@dataclass(frozen=True, slots=True)
class Line:
    """What the page says of a name in one kind of run; `to` has receivers for each of its columns."""

    run: Run
    to: tuple[Receivers, ...]
    what: str


def _in_training(what: str, strict: Receivers, sealed: Receivers, paper: Receivers) -> Line:
    return Line(Run.TRAINING, (strict, sealed, paper), what)


def _in_paper(what: str, *to: To) -> Line:
    return _in_training(what, NOBODY, NOBODY, to)


def _in(run: Run, what: str, *to: To) -> Line:
    return Line(run, (to,), what)


class Entry(StrEnum):
    """An entry of the ledger, which is a string: its name there.

    `meaning` is in words for people who read no code, `sealed_meaning` what it is where nobody knows a leaf weight.
    """

    meaning: str
    sealed_meaning: str
    source: Source
    lines: tuple[Line, ...]

    def __new__(cls, name: str, meaning: str | tuple[str, str], source: Source = Source.ALL, *lines: Line) -> Self:
        """Return the name, which is a string as it stands on the ledger."""
        entry = str.__new__(cls, name)
        entry._value_ = name
        entry.meaning, entry.sealed_meaning = (meaning, meaning) if isinstance(meaning, str) else meaning
        entry.source, entry.lines = source, lines
        return entry

    # A table: name, meaning, from whom it comes (everybody, if not said), and a line for each kind of run.
    # fmt: off
    # a training
    TABLE_SIZES = ("rows, evaluation rows and candidate columns",
        "how many rows and candidate columns each participant has", Source.ALL,
        _in_training("three numbers of each participant", EVERYONE, EVERYONE, EVERYONE))
    TREE_SHAPE = ("tree shape and split owners", "the shape of every tree, and whose column each split uses",
        Source.ALL,
        _in_training("for each node that was decided: who owns its split, or that it has none",
            EVERYONE, EVERYONE, EVERYONE),
        _in(Run.SCORING, "for each tree its class, number of leaves and owners", *EVERYONE))
    OWN_SPLIT = ("own split", "which of the receiver\u2019s own columns won a split, and at which value",
        Source.RECEIVER,
        _in_training("which of its own candidates won: feature, threshold, side of missing values",
            (To.OWNERS,), (To.OWNERS,), (To.OWNERS,)))
    LEAF_MEMBERSHIP = ("leaf membership and weight", "which rows share a leaf, in every tree", Source.ALL,
        _in_training("which training and evaluation rows are in which leaf, for each tree",
            (To.P_1,), NOBODY, (To.P_1,)))
    HELD_WEIGHT = ("bound that holds a leaf weight",
        "at which bound each leaf weight is held, and so which splits keep to a direction, and to which", Source.ALL,
        _in_training("where columns have directions: of each leaf, at which bound its weight is held, if "
            "at one", (To.P_1,), NOBODY, NOBODY))
    EVALUATION_MARGINS = ("leaf membership and weights of evaluation rows",
        "the margin of each evaluation row after every round, from which its leaves and their weights may be worked "
        "out", Source.ALL,
        _in_training("their margins after each tree",
            NOBODY, (To.P_1,), NOBODY))
    OWN_PATH = ("rows of a leaf whose whole path is its own",
        "which rows are in a leaf below splits of the receiver\u2019s alone", Source.RECEIVER,
        _in_training("counted for each leaf below splits of one participant only",
            (To.AUXILIARIES,), (To.OWNERS,), (To.AUXILIARIES,)))
    NUMBER_OF_TREES = ("number of trees", "whether another round follows", Source.ACTIVE,
        _in_training(
            "with early stopping or callbacks, after each round whether another follows; sealed also how many the "
            "model keeps", EVERYONE, EVERYONE, EVERYONE),
        _in(Run.FEDERATION, "at the start, whether an earlier attempt had already ended the training", *EVERYONE))

    # the paper's way
    FEATURE_SIZES = ("candidate columns of each feature", "how many candidate columns each feature has", Source.ALL,
        _in_paper("how many candidates each feature has", *EVERYONE))
    FEATURE_INDEX = ("permuted index of an own feature", "a shuffled number of one of the receiver\u2019s features",
        Source.RECEIVER,
        _in_paper("where C has put it", To.OWNERS))
    DENOMINATOR = ("denominator of a difference of gains",
        "a difference of gains times a secret factor, its denominator", Source.ALL,
        _in_paper("of every comparison", To.P_1))
    NUMERATOR = ("numerator of a difference of gains", "a difference of gains times a secret factor, its numerator",
        Source.ALL,
        _in_paper("of every comparison", To.P_2))
    COMPARISON = ("which of two candidates is better", "which of two candidates is better", Source.ALL,
        _in_paper("the sign of every comparison", To.P_1, *EVERYONE))
    SPLIT_INDEX = ("permuted feature index and bucket of a split",
        "a shuffled number of the feature that splits, and its bucket", Source.ALL,
        _in_paper("column and quantile of every split", To.P_1, *EVERYONE))
    STEP_SIZE = ("step size of a leaf: H within mu lambda", "the sum of hessians of a leaf, nearly", Source.ALL,
        _in_paper("about how many rows a leaf has", To.P_1, *EVERYONE))
    BEST = ("index of the best candidate", "the number of the best candidate")  # of Table 2's division, in no training

    # a training that goes on from a model
    CONTINUED = ("rounds of the model that is continued", "how many rounds each participant\u2019s earlier model has",
        Source.ALL,
        _in(Run.CONTINUING, "one number of each participant, so that C knows where to go on", *EVERYONE))

    # a scoring run
    ROWS_TO_SCORE = ("rows to score and trees in use", "how many rows are scored, and with how many trees",
        Source.ACTIVE,
        _in(Run.SCORING,
            "rows, trees of the model, how many rounds are used, whether weights are shared, whether all trees have "
            "to be used", *EVERYONE))
    # What P_1 brings as leaf weights is summed: with weights that it chose for that, the number says which leaf of
    # every tree the row is in.
    PREDICTION = ("prediction of a row, at most all its leaves",
        ("the prediction of each scored row, from which its leaves may be worked out",
            "the prediction of each scored row, a sum over all trees at once"), Source.ALL,
        _in(Run.SCORING,
            "one 64-bit number for each row and class: the sum, over the trees in use, of what P_1 brought as weight "
            "of the row's leaf; sealed, of what all shares add up to, over all trees", To.P_1))

    SCORED_LEAVES = ("leaves of scored rows", "which scored rows share a leaf, in every tree", Source.ALL,
        _in(Run.SCORING,
            "if leaves are asked for (`apply`), instead of predictions: for each row and tree the number of its leaf",
            To.P_1))

    # what a federation of processes adds, to a training and to a scoring session
    KIND_OF_SESSION = ("kind of session", "whether a session is for training, for scoring or to find common rows",
        Source.ACTIVE,
        _in(Run.FEDERATION, "training, scoring or aligning, as P_1 began it", *EVERYONE))
    ID_DIGEST = ("salted digest of the row ids", "one salted digest of the whole list of row ids", Source.AUXILIARIES,
        _in(Run.FEDERATION, "for training and evaluation rows, one digest of each auxiliary's whole list of ids",
            To.P_1))
    LABEL_COMMITMENT = ("salted commitment to the labels",
        "a number that ties the training to P_1's labels and tables without telling them", Source.ACTIVE,
        _in(Run.FEDERATION,
            "32 bytes that tie the training to all that P_1 brings, labels and columns, and tell nothing of it",
            *EVERYONE))
    ROUNDS_DONE = ("rounds done before this attempt",
        "after which round each participant can go on, and which one it knows that all had", Source.ALL,
        _in(Run.FEDERATION,
            "how far each participant's checkpoints go, and the last round that it knows all had; of shares, a mark of "
            "the attempts that made them", *EVERYONE))
    KEPT_AT_THE_END = ("last round kept, model written",
        "that each participant has kept the last round and written its model", Source.ALL,
        _in(Run.FEDERATION,
            "that each participant has kept the last round, and then that its model is written",
            *EVERYONE))
    MODEL = ("which training the model is of", "a digest that tells which training each model is of", Source.ALL,
        _in(Run.FEDERATION, "a digest of the training's name, so that parts of two trainings are never mixed",
            *EVERYONE))
    CLASSES = ("trees per round of the model", "how many margins a row has: one, or one for each class", Source.ALL,
        _in(Run.FEDERATION, "number of classes with a tree of their own", *EVERYONE))
    BATCH = ("size of a batch to score", "how many rows the next batch has", Source.ACTIVE,
        _in(Run.FEDERATION, "rows of the next batch; 0 says that P_1 is still there", *EVERYONE))
    BATCH_IDS = ("ids of the rows to score", "the ids of the rows to score", Source.ACTIVE,
        _in(Run.FEDERATION, "so that it can look up its columns", To.AUXILIARIES))
    NOT_FOUND = ("rows to score that are not found", "how many rows of a batch each participant does not have",
        Source.ALL,
        _in(Run.FEDERATION, "for each participant, how many of the batch it does not have", *EVERYONE))

    # an alignment
    ROWS_BEFORE = ("rows before the alignment", "how many rows each participant has, before the common ones are found",
        Source.ALL,
        _in(Run.ALIGNMENT, "of P_1 to all participants, 1 number; of each auxiliary to P_1, M - 1 numbers",
            To.PARTICIPANTS, To.P_1))
    ROWS_IN_COMMON = ("rows that all participants have", "which of its rows all participants have", Source.ALL,
        _in(Run.ALIGNMENT,
            "each learns which of its own rows they are; if they are fewer than `min_rows`, P_1 alone",
            To.PARTICIPANTS, To.P_1))
    # fmt: on
