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
from mpfedxgb.report.html.facts import Facts
from mpfedxgb.report.html.markup import Content, Markup, count, counted, element, size, table
from mpfedxgb.tree.leaf import LEAF_MEMBERSHIP
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


def ledger_section(facts: Facts) -> list[Content]:
    """Return what left, what arrived and what was revealed, over everything that the role took part in."""
    if not facts.ledger:
        return [element("p", "Nothing was revealed so far, or there is no record of it here.")]
    leaving, arriving = split_by_side(facts)
    return [
        element("p", _sealed(facts)) if facts.is_sealed else None,
        element("h3", f"What left {facts.role}"),
        element("p", _traffic(facts, is_sent=True)),
        _list(leaving, "Nothing else."),
        element("h3", f"What arrived at {facts.role}"),
        element("p", _traffic(facts, is_sent=False)),
        _list(arriving, "Nothing else."),
        element("h3", "What was revealed, and to whom"),
        element(
            "p",
            "The whole ledger, with the names that the code uses. Every role keeps the same one, so the others\u2019 "
            "reports list the same values. What is not here was revealed to nobody.",
        ),
        _table(facts.ledger),
    ]


def _sealed(facts: Facts) -> str:
    """Return what a sealed training keeps, in plain words, and what of the ledger is about something else."""
    names = {entry.name for entry in facts.ledger}
    told = (
        "This training was sealed: nobody, the active participant included, learned anything about any training row, "
        "neither how it is predicted nor whose leaf it shares. What follows from own splits, an owner can work out "
        "from its own columns, as in every training."
    )
    if EVALUATION_MARGINS in names:
        told += " Evaluation rows took no part in it, and are listed with what was told of them."
    if LEAF_MEMBERSHIP in names:
        told += " An earlier training was not sealed; what it revealed is listed here too."
    return told


def split_by_side(facts: Facts) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """Return what leaves the reader and what arrives: sentences, each with the number of values."""
    leaving: dict[str, list[Reveal]] = {}
    arriving = []
    for entry in facts.ledger:
        words = words_of(entry.name, facts.is_sealed)
        if _arrives(facts, entry):
            arriving.append((words.what, entry.count))
        if _comes_from(facts, words) and entry.receiver != facts.role:
            leaving.setdefault(entry.name, []).append(entry)
    return [_left(facts, name, entries) for name, entries in leaving.items()], arriving


def _left(facts: Facts, name: str, entries: Sequence[Reveal]) -> tuple[str, int]:
    """Return the sentence of an entry that went to several receivers, who all got the same."""
    receivers = [_receiver(facts, entry) for entry in entries]
    return f"{words_of(name, facts.is_sealed).what}: to {' and '.join(receivers)}", max(
        entry.count for entry in entries
    )


def _arrives(facts: Facts, entry: Reveal) -> bool:
    return entry.receiver == facts.role or (entry.receiver == PARTICIPANTS and facts.number != COORDINATOR)


def _comes_from(facts: Facts, words: Words) -> bool:
    if facts.number == COORDINATOR or words.source == _RECEIVER:
        return False
    if words.source == _ACTIVE:
        return facts.number == ACTIVE
    return words.source != _AUXILIARIES or facts.number != ACTIVE


def _receiver(facts: Facts, entry: Reveal) -> str:
    return "the other participants" if entry.receiver == PARTICIPANTS else entry.receiver


def _traffic(facts: Facts, is_sent: bool) -> str:
    spent, verb = facts.spent_ever, "left" if is_sent else "arrived"
    by_peer = spent.total.payload_sent if is_sent else spent.total.payload_received
    whole = max(sum(by_peer.values()), spent.bytes_sent if is_sent else 0)  # an attempt that was killed has no phases
    peers = ", ".join(f"{size(n)} {'to' if is_sent else 'from'} {peer}" for peer, n in by_peer.items() if n)
    told = f"{size(whole)} {verb}" + (f" ({peers})" if peers else "")
    if not whole:
        told = f"How many bytes {verb} was not counted here"
    if facts.is_coordinator and is_sent:
        return (
            f"{told}: random numbers, and what corrects them. The coordinator holds no data, so nothing else can leave."
        )
    rest = "only random or masked numbers" if not facts.is_coordinator else "nothing that was masked"
    if not facts.is_coordinator and any(entry.name == ALIGNED for entry in facts.ledger):
        rest += ", and ids under secret keys,"
    return f"{told}. Apart from greetings and what is listed here, {rest} {verb}:"


def _list(entries: Iterable[tuple[str, int]], otherwise: str) -> Markup:
    items = [
        element("li", f"{sentence} ", element("span", f"({counted(values, 'value')})", class_="quiet"))
        for sentence, values in entries
    ]
    return element("ul", items, class_="plain") if items else element("p", otherwise, class_="quiet")


def _table(ledger: Iterable[Reveal]) -> Markup:
    receivers: dict[tuple[str, int], list[str]] = {}
    for entry in ledger:
        receivers.setdefault((entry.name, entry.count), []).append(entry.receiver)
    rows = [[name, ", ".join(to), count(values)] for (name, values), to in receivers.items()]
    return table(["revealed", "to", "values, to each"], rows, words=(1,))
