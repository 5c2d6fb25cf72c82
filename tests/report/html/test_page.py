"""The page of a role: whole, self-contained, escaped, small, and with nothing that the role may not know."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from mpfedxgb.boosting.model import Feature
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.party.ledger import Reveal
from mpfedxgb.party.meter import Counts
from mpfedxgb.report.history import Attempt, History
from mpfedxgb.report.html import page_html, summary_html
from mpfedxgb.report.html.data import ReportData, Spent
from mpfedxgb.report.html.page import Live
from mpfedxgb.tree.nodes import Split
from support.pages import Element, parse
from support.reports import HOSTILE, facts, model, tree

SECTIONS = ["metrics", "trees", "importance", "ledger", "cost", "attempts", "parameters"]


def sections(page: Element) -> dict[str, Element]:
    """Return the sections of a page by their anchors."""
    return {one.attributes["id"] or "": one for one in page.all("section")}


# What is there


def test_every_section_is_there() -> None:
    """In this order, each linked from the contents."""
    page = parse(page_html(facts()))
    assert list(sections(page)) == SECTIONS
    assert [a.attributes["href"] for a in page.all("nav")[0].all("a")] == [f"#{name}" for name in SECTIONS]


def test_the_figures_that_everybody_asks_for() -> None:
    """Trees, metrics, rounds, bytes, time."""
    (tiles,) = (dl for dl in parse(page_html(facts())).all("dl") if "tiles" in dl.classes)
    assert [dd.text for dd in tiles.all("dd")] == ["2", "0.8", "0.5", "1,207", "12.00 MB", "9.50 s"]


def test_parameters_versions_and_digest() -> None:
    """All parameters, what was installed, and the digest that the file of the model has."""
    part = model()
    words = sections(parse(page_html(facts(part))))["parameters"].words()
    for name in part.params.to_dict():
        assert name in words
    assert part.digest in words
    assert f'"digest": "{part.digest}"' in part.to_json()
    assert "3.11.7" in words


def test_every_attempt_is_there() -> None:
    """Also the one that did not end, with a warning above all."""
    page = parse(page_html(facts()))
    rows = sections(page)["attempts"].all("tr")
    assert ["not ended" in row.words() for row in rows] == [False, False, True]
    assert "1 attempt did not end" in page.words()


def test_after_early_stopping() -> None:
    """Metrics are those of the best round, and trees after it say that they are not used."""
    page = parse(page_html(facts(replace(model(), best_iteration=0), best_iteration=0)))
    assert "0.7" in [dd.text for dd in page.all("dd")]
    titles = [c.text for c in sections(page)["trees"].all("figcaption")]
    assert ["not used in predictions" in title for title in titles] == [False, True]


@pytest.mark.parametrize(
    ("metrics", "best", "tile", "said"),
    [
        (
            {"logloss": [0.6, 0.5, 0.7]},
            None,
            ("0.5", ", in boosting round 2 of 3, the best"),
            "Predictions take all rounds",
        ),
        (
            {"auc": [0.6, 0.9, 0.7]},
            1,
            ("0.9", ", in boosting round 2 of 3, the best"),
            "Predictions stop at the best round",
        ),
        ({"auc": [0.6, 0.7, 0.9]}, None, ("0.9", ", in boosting round 3 of 3"), ""),
        ({"auc": [math.nan, 0.7, math.nan]}, None, ("0.7", ", in boosting round 2 of 3"), ""),
        ({"custom": [0.6, 0.7, 0.5]}, None, ("0.5", ", in boosting round 3 of 3"), ""),
    ],
)
def test_the_headline_is_the_best_round(
    metrics: dict[str, list[float]], best: int | None, tile: tuple[str, str], said: str
) -> None:
    """It says overfit if a metric got worse after it; of a custom metric nobody knows which way is better."""
    page = parse(page_html(facts(metrics={"validation_0": metrics}, best_iteration=best)))
    (tiles,) = (dl for dl in page.all("dl") if "tiles" in dl.classes)
    (shown,) = (one for one in tiles.inside if one.all("dt")[0].text == next(iter(metrics)))
    assert (shown.all("dd")[0].text, shown.all("span")[0].text) == tile
    assert ("Overfit:" in page.words()) == bool(said)
    assert said in page.words()


def test_deep_trees_fold_from_the_root_on() -> None:
    """The root, its children and theirs are in view; own splits answer yes first; every node is there."""
    page = parse(page_html(facts(model(1, depth=6))))
    (outline,) = (one for one in page.all("div") if "outline" in one.classes)
    (root,) = outline.inside
    said = [(one.words(), {b.text for b in one.all("b")}) for one in root.all("summary")]
    assert said[:2] == [
        ("missing: no, gain 1.5 age \u2264 40.5", set()),
        ("missing: no, gain 1.5 yes age \u2264 42.5", {"yes"}),
    ]
    assert [answers for _, answers in said].count({"yes"}) == [answers for _, answers in said].count({"no"})
    folds = outline.all("details")
    assert len(folds) == 63
    assert ["open" in one.attributes for one in folds].count(True) == 3
    assert "open" in root.attributes
    assert len(outline.all("p")) == 64
    assert len([one for one in folds if one.all("span")[0].classes == {"g"}]) == 31
    assert not [one for one in page.all("svg") if "tree" in one.classes]


def test_the_live_page_leads_with_curves() -> None:
    """And with the time that is left; the log comes after what was revealed."""
    page = parse(page_html(facts(), Live("training", ["a line"], 75.0)))
    assert list(sections(page)) == [*SECTIONS[:-1], "now", SECTIONS[-1]]
    (first, *_) = page.all("dl")[0].inside
    assert (first.all("dt")[0].text, first.all("dd")[0].text) == ("time left, about", "1 min 15 s")
    assert "time left" not in parse(page_html(facts(), Live("training"))).words()


def test_classes_are_named() -> None:
    """A tree of several in a round says which class it is for."""
    params = TrainParams(objective="multi:softprob", num_class=3, n_estimators=1)
    part = model(3, params=params, base_margin=(0.0,) * 3, classes=("low", "middle", "top"))
    titles = [c.text for c in sections(parse(page_html(facts(part))))["trees"].all("figcaption")]
    assert [title.split(":")[0] for title in titles] == [
        f"Tree {n} (round 1, class {name})" for n, name in enumerate(("low", "middle", "top"), 1)
    ]


def test_a_forecast_is_shown_beside_what_it_was() -> None:
    """Of numbers that are given for all roles, the reader's own."""
    told = {"rounds": 1200, "bytes_sent": {"bank": 12_000_000, "telecom": 77_000_000}, "seconds": True}
    words = sections(parse(page_html(facts(forecast=told))))["forecast"].words()
    assert "1,200" in words
    assert "12.00 MB" in words
    assert "77" not in words
    assert "1.01" in words


def test_like_is_compared_with_like() -> None:
    """What is dealt to all participants is the coordinator's figure, and nothing is forecast of nothing."""
    told = {"rounds": 1200, "dealer_bytes": 50_900_000, "disk": 0}
    train = Counts(dealer_bytes=17_000_000)
    for number, shown in ((0, True), (1, False), (2, False)):
        page = page_html(facts(number=number, forecast=told, spent=Spent(1.0, 1200, 9, {"train": train})))
        words = sections(parse(page))["forecast"].words()
        assert ("50.90 MB" in words) == shown
        assert "disk" not in words


def test_a_forecast_by_role_is_understood() -> None:
    """Counters of every role, as the meter has them."""
    told = {"roles": {"bank": {"rounds": 2414, "payload_sent": {"telecom": 24_002_000}}}}
    words = sections(parse(page_html(facts(forecast=told))))["forecast"].words()
    assert "2,414" in words
    assert "24.00 MB" in words
    assert "0.50" in words


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_role_that_has_done_nothing(number: int) -> None:
    """The page is there all the same, for every kind of role."""
    roles = ("dealer", "bank", "telecom")
    told: dict[str, Any] = {
        "model": None,
        "trees": (),
        "features": (),
        "metrics": {},
        "history": History(()),
        "ledger": (),
    }
    bare = facts(role=roles[number], number=number, spent=Spent(), **told)
    page = parse(page_html(bare))
    assert page.all("h1")[0].text == roles[number]
    assert page.all("svg") == []


def test_warnings_come_first() -> None:
    """A fixed seed, the paper's way and damaged lines are said before anything else."""
    told = facts(
        is_insecure=True,
        parameters={**TrainParams().to_dict(), "security": "paper"},
        history=History((), ("record-0001.chain:3",), ("record-0001.chain:3 does not fit",)),
    )
    warnings = [p.words() for p in parse(page_html(told)).all("p") if "warning" in p.classes]
    assert [w.split()[0] for w in warnings] == ["INSECURE:", "security", "WARNING:", "WARNING:"]
    assert "the chain of the record is broken: record-0001.chain:3 does not fit" in warnings[2]


# Self-contained


def test_the_structure() -> None:
    """Anchors are unique and lead somewhere, every drawing has a title, tables have heads, headings do not jump."""
    page = parse(page_html(facts(model(30))))
    ids = [one.attributes["id"] for one in page.every() if "id" in one.attributes]
    assert len(ids) == len({*ids})
    assert {f"#{name}" for name in ids} >= {a.attributes["href"] for a in page.all("a")}
    for drawing in page.all("svg"):
        assert drawing.attributes.get("aria-hidden") == "true" or drawing.all("title")[0].text
    assert all(t.all("thead") for t in page.all("table"))
    assert page.all("html")[0].attributes["lang"] == "en"
    levels = [int(one.name[1]) for one in page.every() if re.fullmatch("h[1-6]", one.name)]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_nothing_is_loaded_and_nothing_runs() -> None:
    """No script, no address, no style but the one whose digest the policy names, no handler."""
    html = page_html(facts())
    page = parse(html)
    assert page.all("script") == []
    for one in page.every():
        for name, value in one.attributes.items():
            assert not name.startswith("on")
            assert name not in ("src", "srcset", "style", "action", "xlink:href")
            assert name != "href" or (value or "").startswith(("#", "data:,"))
    assert "://" not in html
    (style,) = page.all("style")
    digest = base64.b64encode(hashlib.sha256(style.text.encode()).digest()).decode()
    (policy,) = (m.attributes["content"] for m in page.all("meta") if "http-equiv" in m.attributes)
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    assert "url(" not in style.text
    assert "@import" not in style.text


def test_a_live_page_runs_the_one_script() -> None:
    """Whose digest the policy names; what the role does and its log are text."""
    page = parse(page_html(facts(), Live(HOSTILE, [HOSTILE, "second"])))
    (script,) = page.all("script")
    digest = base64.b64encode(hashlib.sha256(script.text.encode()).digest()).decode()
    (policy,) = (
        m.attributes["content"] for m in page.all("meta") if "Security" in (m.attributes.get("http-equiv") or "")
    )
    assert f"script-src 'sha256-{digest}'; connect-src 'self'" in (policy or "")
    assert page.all("pre")[0].text.strip("\n") == f"{HOSTILE}\nsecond"


# Escaped


def hostile() -> ReportData:
    """Return data in which every name is hostile."""
    part = model(
        feature=HOSTILE,
        participants=(HOSTILE, f"{HOSTILE}2"),
        features=(Feature(HOSTILE), Feature("city", (HOSTILE, "b"))),
        trees=(tree(2, HOSTILE), (Split("city", None, 0, False, False, 1, 2), *tree(0), *tree(0))),
        classes=(HOSTILE, "b"),
        params=TrainParams(n_estimators=2, num_class=2),
    )
    attempt = Attempt("a", {"session": HOSTILE, "how": HOSTILE, "why": HOSTILE, "begun": HOSTILE, "kind": HOSTILE})
    return facts(
        part,
        coordinator=HOSTILE,
        federation=HOSTILE,
        parameters={HOSTILE: HOSTILE},
        ledger=(Reveal(HOSTILE, HOSTILE, 1), Reveal(HOSTILE, "participants", 1)),
        metrics={HOSTILE: {HOSTILE: [1.0, 2.0]}},
        score={HOSTILE: 1.0},
        history=History((attempt,)),
        versions={HOSTILE: HOSTILE},
    )


def live_page(told: ReportData) -> str:
    """Return a page whose role says hostile things."""
    return page_html(told, Live(HOSTILE, [HOSTILE]))


@pytest.mark.parametrize("page_of", [page_html, summary_html, live_page])
def test_names_are_never_markup(page_of: Callable[[ReportData], str]) -> None:
    """Hostile names of columns, roles, categories, classes, sessions, metrics: no element comes of them."""
    page = parse(page_of(hostile()))
    assert page.all("img") == []
    assert [s for s in page.all("script") if "alert" in s.text] == []
    assert all(not name.startswith("on") for one in page.every() for name in one.attributes)
    assert HOSTILE in page.words()


# Small


def test_a_hundred_deep_trees_are_a_few_hundred_kilobytes() -> None:
    """The first are drawn, others are folded, and of those beyond the room there are words."""
    html = page_html(facts(model(100, depth=6)))
    assert len(html.encode()) < 400_000
    page = parse(html)
    titles = [one.text for one in sections(page)["trees"].every() if one.text.startswith("Tree ")]
    assert {int(title.split(":")[0].split()[1]) for title in titles} == set(range(1, 101))
    assert len(page.all("svg")) < 40


def test_a_hundred_shallow_trees_are_all_drawn() -> None:
    """Of depth 3, with 15 nodes each."""
    html = page_html(facts(model(100, depth=3)))
    drawn = [one for one in parse(html).all("svg") if "tree" in one.classes]
    assert len(drawn) == 100
    assert len(html.encode()) < 450_000


def test_huge_trees_and_many_attempts_stay_small() -> None:
    """Trees too large to draw, more trees than anybody reads, years of sessions: each says what is left out."""
    huge = page_html(facts(model(3, depth=11)))
    many = page_html(facts(model(2_000, depth=2)))
    begun = {"begun": "2026-11-17T10:00:00Z", "how": "done"}
    long = page_html(facts(history=History(tuple(Attempt(f"a{n}", begun) for n in range(5_000)))))
    for html, said in (
        (huge, "From tree 1 on, trees are in words, own splits only; mpfedxgb show prints all."),
        (many, "those after tree 400 are left out"),
        (long, "188 older attempts of 4,988; mpfedxgb record prints all"),
    ):
        assert said in html
        assert len(html.encode()) < 450_000
    assert summary_html(facts(model(3, depth=11)))
