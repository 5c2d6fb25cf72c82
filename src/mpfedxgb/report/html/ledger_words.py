"""The ledger in plain words: what left this organisation, what arrived, and what was revealed to whom.

All roles keep the same ledger, an entry for everything that anybody learns. Here each entry gets a sentence, and the
side on which the reader stands: an entry *arrives* where the reader is its receiver, and it *leaves* where it tells
somebody else something that comes, alone or with others', from the reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mpfedxgb.party.entries import Entry, Source
from mpfedxgb.party.ledger import Reveal
from mpfedxgb.party.roster import ACTIVE, COORDINATOR
from mpfedxgb.report.html.facts import Facts
from mpfedxgb.report.html.markup import Content, Markup, count, counted, element, size, table

PARTICIPANTS = "participants"
"""The receiver of what all participants learn."""

_ENTRIES = {entry.value: entry for entry in Entry}


def meaning_of(name: str, is_sealed: bool = False) -> str:
    """Return what an entry is about, in words; one that nobody declared, of another version, keeps its name."""
    entry = _ENTRIES.get(name)
    if entry is None:
        return name
    return entry.sealed_meaning if is_sealed else entry.meaning


def source_of(name: str) -> Source:
    """Return from whom an entry comes; one that nobody declared counts as coming from everybody."""
    entry = _ENTRIES.get(name)
    return Source.ALL if entry is None else entry.source


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
    if Entry.EVALUATION_MARGINS in names:
        told += " Evaluation rows took no part in it, and are listed with what was told of them."
    if Entry.LEAF_MEMBERSHIP in names:
        told += " An earlier training was not sealed; what it revealed is listed here too."
    return told


def split_by_side(facts: Facts) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """Return what leaves the reader and what arrives: sentences, each with the number of values."""
    leaving: dict[str, list[Reveal]] = {}
    arriving = []
    for entry in facts.ledger:
        if _arrives(facts, entry):
            arriving.append((meaning_of(entry.name, facts.is_sealed), entry.count))
        if _comes_from(facts, source_of(entry.name)) and entry.receiver != facts.role:
            leaving.setdefault(entry.name, []).append(entry)
    return [_left(facts, name, entries) for name, entries in leaving.items()], arriving


def _left(facts: Facts, name: str, entries: Sequence[Reveal]) -> tuple[str, int]:
    """Return the sentence of an entry that went to several receivers, who all got the same."""
    receivers = [_receiver(facts, entry) for entry in entries]
    return f"{meaning_of(name, facts.is_sealed)}: to {' and '.join(receivers)}", max(entry.count for entry in entries)


def _arrives(facts: Facts, entry: Reveal) -> bool:
    return entry.receiver == facts.role or (entry.receiver == PARTICIPANTS and facts.number != COORDINATOR)


def _comes_from(facts: Facts, source: Source) -> bool:
    if facts.number == COORDINATOR or source is Source.RECEIVER:
        return False
    if source is Source.ACTIVE:
        return facts.number == ACTIVE
    return source is not Source.AUXILIARIES or facts.number != ACTIVE


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
    if not facts.is_coordinator and any(entry.name == Entry.ROWS_IN_COMMON for entry in facts.ledger):
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
