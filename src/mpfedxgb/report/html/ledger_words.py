"""The ledger in plain words: what left this organisation, what arrived, and what was revealed to whom.

All roles keep the same ledger, an entry for everything that anybody learns. Here each entry gets a sentence, and the
side on which the reader stands: an entry *arrives* where the reader is its receiver, and it *leaves* where it tells
somebody else something that comes, alone or with others', from the reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mpfedxgb.boosting.sealed.state import EVALUATION_MARGINS
from mpfedxgb.party.ledger import Reveal
from mpfedxgb.party.roster import ACTIVE, COORDINATOR
from mpfedxgb.report.html.data import ReportData
from mpfedxgb.tree.predict import PREDICTION

PARTICIPANTS = "participants"
"""The receiver of what all participants learn."""
ALIGNED = "rows that all participants have"
"""What an alignment tells; ids travel in it too, under secret keys."""
_ALL, _ACTIVE, _AUXILIARIES, _RECEIVER = "all", "the active participant", "the auxiliaries", "the receiver"


@dataclass(frozen=True, slots=True)
class Words:
    """What an entry is about, in a sentence, and from whom it comes."""

    what: str
    source: str = _ALL


WORDS = {
    "rows, evaluation rows and candidate columns": Words("how many rows and candidate columns each participant has"),
    "tree shape and split owners": Words("the shape of every tree, and whose column each split uses"),
    "own split": Words("which of the receiver\u2019s own columns won a split, and at which value", _RECEIVER),
    "leaf membership and weight": Words("which rows share a leaf, in every tree"),
    EVALUATION_MARGINS: Words(
        "the margin of each evaluation row after every round, from which its leaves and their weights may be worked out"
    ),
    "rows of a leaf whose whole path is its own": Words(
        "which rows are in a leaf below splits of the receiver\u2019s alone", _RECEIVER
    ),
    "number of trees": Words("whether another round follows", _ACTIVE),
    "rounds done before this attempt": Words(
        "after which round each participant can go on, and which one it knows that all had"
    ),
    "rounds of the model that is continued": Words("how many rounds each participant\u2019s earlier model has"),
    "prediction of a row, at most all its leaves": Words(
        "the prediction of each scored row, from which its leaves may be worked out"
    ),
    "rows to score and trees in use": Words("how many rows are scored, and with how many trees", _ACTIVE),
    "kind of session": Words("whether a session is for training, for scoring or to find common rows", _ACTIVE),
    "salted commitment to the labels": Words(
        "a number that ties the training to its labels without telling them", _ACTIVE
    ),
    "salted digest of the row ids": Words("one salted digest of the whole list of row ids", _AUXILIARIES),
    "last round kept, model written": Words("that each participant has kept the last round and written its model"),
    "rows before the alignment": Words("how many rows each participant has, before the common ones are found"),
    ALIGNED: Words("which of its rows all participants have"),
    "size of a batch to score": Words("how many rows the next batch has", _ACTIVE),
    "ids of the rows to score": Words("the ids of the rows to score", _ACTIVE),
    "rows to score that are not found": Words("how many rows of a batch each participant does not have"),
    "trees per round of the model": Words("how many trees a round of the model has"),
    "which training the model is of": Words("a digest that tells which training each model is of"),
    "candidate columns of each feature": Words("how many candidate columns each feature has"),
    "permuted index of an own feature": Words("a shuffled number of one of the receiver\u2019s features", _RECEIVER),
    "permuted feature index and bucket of a split": Words(
        "a shuffled number of the feature that splits, and its bucket"
    ),
    "step size of a leaf: H within mu lambda": Words("the sum of hessians of a leaf, nearly"),
    "numerator of a difference of gains": Words("a difference of gains times a secret factor, its numerator"),
    "denominator of a difference of gains": Words("a difference of gains times a secret factor, its denominator"),
    "which of two candidates is better": Words("which of two candidates is better"),
    "index of the best candidate": Words("the number of the best candidate"),
}
"""By the name on the ledger. An entry that is not here keeps its name, and counts as coming from everybody."""


SEALED_WORDS = {PREDICTION: Words("the prediction of each scored row, a sum over all trees at once")}
"""What entries mean where nobody knows a leaf weight."""


def words_of(name: str, is_sealed: bool = False) -> Words:
    """Return the words for an entry."""
    known = WORDS | SEALED_WORDS if is_sealed else WORDS
    return known.get(name, Words(name))


def split_by_side(data: ReportData) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """Return what leaves the reader and what arrives: sentences, each with the number of values."""
    leaving: dict[str, list[Reveal]] = {}
    arriving = []
    for entry in data.ledger:
        words = words_of(entry.name, data.is_sealed)
        if _arrives(data, entry):
            arriving.append((words.what, entry.count))
        if _comes_from(data, words) and entry.receiver != data.role:
            leaving.setdefault(entry.name, []).append(entry)
    return [_left(data, name, entries) for name, entries in leaving.items()], arriving


def _left(data: ReportData, name: str, entries: Sequence[Reveal]) -> tuple[str, int]:
    """Return the sentence of an entry that went to several receivers, who all got the same."""
    receivers = [_receiver(data, entry) for entry in entries]
    return f"{words_of(name, data.is_sealed).what}: to {' and '.join(receivers)}", max(entry.count for entry in entries)


def _arrives(data: ReportData, entry: Reveal) -> bool:
    return entry.receiver == data.role or (entry.receiver == PARTICIPANTS and data.number != COORDINATOR)


def _comes_from(data: ReportData, words: Words) -> bool:
    if data.number == COORDINATOR or words.source == _RECEIVER:
        return False
    if words.source == _ACTIVE:
        return data.number == ACTIVE
    return words.source != _AUXILIARIES or data.number != ACTIVE


def _receiver(data: ReportData, entry: Reveal) -> str:
    return "the other participants" if entry.receiver == PARTICIPANTS else entry.receiver


def receivers_of(ledger: Iterable[Reveal]) -> dict[tuple[str, int], list[str]]:
    """Return who got what: receivers by the name and the number of values."""
    found: dict[tuple[str, int], list[str]] = {}
    for entry in ledger:
        found.setdefault((entry.name, entry.count), []).append(entry.receiver)
    return found
