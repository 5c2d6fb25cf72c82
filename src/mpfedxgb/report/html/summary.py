"""The small report that a notebook shows for an estimator: a few numbers, the curves, the first tree, columns."""

from __future__ import annotations

from importlib import resources

from mpfedxgb.report.html.curves import curve
from mpfedxgb.report.html.facts import Facts
from mpfedxgb.report.html.importance import importance_section
from mpfedxgb.report.html.markup import Content, Markup, element
from mpfedxgb.report.html.numbers import count, duration, short, size
from mpfedxgb.report.html.trees import first_tree
from mpfedxgb.report.record import NOTHING_PROTECTED


def summary_html(facts: Facts) -> str:
    """Return a summary for the inside of another page, whose colours it takes over."""
    style = Markup(resources.files(__package__).joinpath("summary.css").read_text(encoding="utf-8"))
    curves: dict[str, dict[str, list[float]]] = {}
    for rows, metrics in facts.metrics.items():
        for name, values in metrics.items():
            curves.setdefault(name, {})[rows] = list(values)
    drawn: list[Content] = [curve(name, lines, facts.best_iteration) for name, lines in list(curves.items())[:2]]
    return element(
        "div",
        element("style", style),
        element("p", _told(facts)),
        element("div", drawn, class_="cards") if any(drawn) else None,
        first_tree(facts),
        importance_section(facts)[1:],
        element("p", f'The whole report of {facts.role}: report("{facts.role}.html")', class_="quiet"),
        class_="mpfedxgb-summary",
    )


def _told(facts: Facts) -> list[Content]:
    spent = facts.spent
    cost = (
        f" in {duration(spent.seconds)}, {count(spent.rounds)} rounds and {size(spent.bytes_sent)} sent"
        if spent.rounds
        else ""
    )
    score = "".join(f"; {name} {short(v)}" for name, v in facts.score.items() if isinstance(v, float))
    return [
        element("b", f"{NOTHING_PROTECTED}. ") if facts.is_unprotected else None,
        element("b", f"{count(len(facts.trees))} trees"),
        f"{cost}, as {facts.role} sees them, the active participant of {', '.join(facts.participants)}{score}.",
        f" {count(sum(r.count for r in facts.ledger))} values are on the ledger." if facts.ledger else None,
        " Sealed: nobody learned anything about a training row." if facts.is_sealed else None,
    ]
