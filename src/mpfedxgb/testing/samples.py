"""Sample tables for a trial: invented people whom several organisations know, and whether they repay a loan.

Everyone has a few traits that no table holds; the organisations' columns and the label all hang on them, with noise. So
every participant's columns help, and the joined table predicts better than any part. The same people come every time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from mpfedxgb.federation.settings.template import ID, LABEL
from mpfedxgb.ring.prg import Stream, expand

ROWS = {"train": 600, "evaluate": 300, "score": 60}
"""How many people each file has."""

Floats = npt.NDArray[np.float64]


class _Draws:
    """Random numbers that are the same every time; for invented people only."""

    def __init__(self, label: str) -> None:
        self._stream = Stream(expand(bytes(32), f"sample tables: {label}".encode()))

    def uniform(self, rows: int) -> Floats:
        """Return numbers above 0 and below 1."""
        words = self._stream.octets(8 * rows).view("<u8")
        return np.asarray(((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52)

    def normal(self, rows: int) -> Floats:
        """Return standard normal numbers (Box and Muller)."""
        return np.asarray(np.sqrt(-2 * np.log(self.uniform(rows))) * np.cos(2 * np.pi * self.uniform(rows)))


class _People:
    """Traits of people, and columns that show them through noise."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        draws = _Draws("people")
        self.thrift, self.means, self.habit, self.age = (draws.normal(rows) for _ in range(4))
        self.luck = draws.uniform(rows)
        self.noise = draws

    def of(self, owner: str) -> _People:
        """Return the same people with noise of this owner's own."""
        self.noise = _Draws(owner)
        return self

    def defaulted(self) -> npt.NDArray[np.int64]:
        """Return 1 for people who did not repay: little thrift, small means, or one bad habit with little of both."""
        odds = -1.6 - 2.6 * self.thrift - 2.2 * self.means + 1.6 * self.habit * (self.thrift < 0)
        return (self.luck < 1 / (1 + np.exp(-odds))).astype(np.int64)

    def scaled(
        self, signal: Floats, mean: float, spread: float, noise: float = 0.8, digits: int = 0, least: float = 0
    ) -> Floats:
        """Return a column of numbers around a mean, not below the least."""
        noisy = (signal + noise * self.noise.normal(self.rows)) / np.sqrt(1 + noise**2)
        return np.asarray(np.round(np.maximum(mean + spread * noisy, least), digits))

    def counted(self, signal: Floats, mean: float) -> npt.NDArray[np.int64]:
        """Return a column of small whole numbers."""
        return np.floor(mean * np.exp(0.6 * signal + 0.6 * self.noise.normal(self.rows))).astype(np.int64)

    def named(self, signal: Floats, names: Sequence[str]) -> list[str]:
        """Return a column of words, in the order of the signal but for noise."""
        noisy = signal + 1.2 * self.noise.normal(self.rows)
        edges = np.quantile(noisy, np.linspace(0, 1, len(names) + 1)[1:-1])
        return [names[i] for i in np.digitize(noisy, edges)]

    def with_gaps(self, column: Floats, fraction: float = 0.06) -> Floats:
        """Return a column of which some values are missing."""
        return np.where(self.noise.uniform(self.rows) < fraction, np.nan, column)


Columns = dict[str, object]


_TRADES: dict[str, Callable[[_People], Columns]] = {
    "bank": lambda p: {
        "age": p.scaled(p.age, 46, 14, 0.1, least=18),
        "income": p.scaled(p.means, 41_000, 14_000, 1.2, least=9_000),
        "account_years": p.scaled(p.age, 9, 5),
        "card_balance": p.with_gaps(p.scaled(-p.thrift, 1_500, 900, 1.2, 2)),
        "employment": p.named(p.means, ["unemployed", "part-time", "self-employed", "employed"]),
    },
    "telecom": lambda p: {
        "contract_months": p.scaled(p.age, 30, 18),
        "late_bills": p.counted(-p.thrift, 1.2),
        "calls_per_week": p.scaled(p.habit, 24, 10),
        "data_gb": p.with_gaps(p.scaled(-p.age, 14, 8, 0.7, 1)),
        "tariff": p.named(p.means, ["prepaid", "basic", "family", "premium"]),
    },
    "retail": lambda p: {
        "visits_per_month": p.counted(p.habit, 3.0),
        "basket_value": p.scaled(p.means, 38, 15, 0.8, 2),
        "returns_per_year": p.counted(-p.thrift, 2.0),
        "discount_share": p.with_gaps(p.scaled(-p.habit, 0.3, 0.12, 0.8, 3)),
        "loyalty_card": p.named(p.thrift, ["bronze", "silver", "gold"]),
    },
    "insurer": lambda p: {
        "policies": p.counted(p.thrift, 2.0),
        "claims_in_5_years": p.counted(-p.thrift, 0.9),
        "premium": p.with_gaps(p.scaled(p.means, 640, 220, 0.8, 2)),
        "vehicle_age": p.scaled(-p.means, 8, 4),
        "vehicle": p.named(p.habit, ["small car", "large car", "motorbike"]),
    },
    "energy": lambda p: {
        "kwh_per_year": p.scaled(p.means, 3_100, 900),
        "arrears_days": p.counted(-p.thrift, 6.0),
        "meter_readings": p.counted(p.thrift, 3.0),
        "night_share": p.with_gaps(p.scaled(p.habit, 0.3, 0.1, 0.8, 3)),
        "heating": p.named(p.means, ["electric", "gas", "heat pump"]),
    },
}
"""What an organisation of a trade knows of people."""


def sample_tables(participants: Sequence[str]) -> dict[str, dict[str, pd.DataFrame]]:
    """Return, per participant, tables to train, evaluate and score; the label is the first participant's.

    A participant named after a trade (bank, telecom, retail, insurer, energy) gets its columns, the others those left.
    Everybody's rows are in an order of their own: sorting them by id is the program's task.
    """
    rows = sum(ROWS.values())
    people = _People(rows)
    numbers = 100_000 + 89 * np.argsort(_Draws("ids").uniform(10_000))[:rows]
    ids = np.array([f"c-{number}" for number in numbers.tolist()])
    ends = np.cumsum([0, *ROWS.values()])
    tables: dict[str, dict[str, pd.DataFrame]] = {}
    for owner, trade in _dealt(participants).items():
        frame = pd.DataFrame({ID: ids, **_TRADES[trade](people.of(owner))}).convert_dtypes()
        if owner == participants[0]:
            frame[LABEL] = people.defaulted()
        tables[owner] = {}
        for number, purpose in enumerate(ROWS):
            part = frame.iloc[ends[number] : ends[number + 1]]
            part = part.iloc[np.argsort(_Draws(f"{owner} {purpose}").uniform(len(part)))]
            tables[owner][purpose] = part.drop(columns=LABEL, errors="ignore") if purpose == "score" else part
    return tables


def _dealt(participants: Sequence[str]) -> dict[str, str]:
    """Return every participant's trade."""
    left = [trade for trade in _TRADES if trade not in participants] or list(_TRADES)
    others = [owner for owner in participants if owner not in _TRADES]
    dealt = {owner: left[i % len(left)] for i, owner in enumerate(others)}
    return {owner: dealt.get(owner, owner) for owner in participants}
