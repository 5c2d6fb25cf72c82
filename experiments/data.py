"""The paper's two data sets (section 7), prepared as in the authors' experiments.

Both come from a folder of CSV files, or from OpenML. Either way the prepared arrays must have the checksum below, so
the numbers of the tables rest on the same rows in the same order.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import socket
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from mpfedxgb.errors import DataError

Labels = npt.NDArray[np.int64]

CREDIT_LABEL = "SeriousDlqin2yrs"
CREDIT_COLUMNS = (
    "RevolvingUtilizationOfUnsecuredLines",
    "age",
    "NumberOfTime30-59DaysPastDueNotWorse",
    "DebtRatio",
    "MonthlyIncome",
    "NumberOfOpenCreditLinesAndLoans",
    "NumberOfTimes90DaysLate",
    "NumberRealEstateLoansOrLines",
    "NumberOfTime60-89DaysPastDueNotWorse",
    "NumberOfDependents",
)
CREDIT_NEGATIVE, CREDIT_POSITIVE, CREDIT_ROWS = 111_912, 8_357, 120_269
"""Rows of Give Me Some Credit without a missing value, by class and in all."""

ADULT_COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "class",
)
ADULT_NUMBERS = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
ADULT_WORDS = (
    "relationship",
    "sex",
    "marital-status",
    "workclass",
    "education",
    "native-country",
    "occupation",
    "race",
)
ADULT_ROWS = 32_561
"""Rows of adult.data; OpenML's table holds those of adult.test too."""

_PATIENCE = 30.0
"""Seconds after which a silent server is given up."""


@dataclass(frozen=True, slots=True, eq=False)
class ScaledTable:
    """A data set with every column divided by its maximum; X (rows, features), y 0 or 1."""

    X: pd.DataFrame
    y: Labels

    def checksum(self) -> str:
        """Return the SHA-256 of the numbers: X in double precision, row by row, then y as bytes."""
        numbers = np.ascontiguousarray(self.X.to_numpy(np.float64))
        return hashlib.sha256(numbers.tobytes() + self.y.astype(np.uint8).tobytes()).hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class TrainTestSplit:
    """Training and test rows of one data set of the paper."""

    name: str
    X_train: pd.DataFrame
    y_train: Labels
    X_test: pd.DataFrame
    y_test: Labels


@dataclass(frozen=True, slots=True)
class _File:
    """A file that a data set can come from: its name without .gz, the SHA-256 of what is in it, how it is read."""

    name: str
    sha256: str
    read: Callable[[bytes], ScaledTable]


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a data set can come from, and the checksum that it must have in the end."""

    title: str
    files: tuple[_File, ...]
    openml: tuple[int, ...]
    from_openml: Callable[[pd.DataFrame], Iterator[ScaledTable]]
    checksum: str


def dataset1(folder: Path | None, rows: int = 30_000) -> TrainTestSplit:
    """Return Dataset1, Give Me Some Credit: `rows` training rows and the next 7,500 of the same mix to test."""
    data = _load(CREDIT, folder)
    train = (int(CREDIT_NEGATIVE * rows / CREDIT_ROWS) + 1, int(CREDIT_POSITIVE * rows / CREDIT_ROWS))
    return _split("Dataset1", data, train, (6_979, 521))


def dataset2(folder: Path | None) -> TrainTestSplit:
    """Return Dataset2, Adult one-hot encoded: the first 80 % of each class train, the others test."""
    return _split("Dataset2", _load(ADULT, folder), (19_777, 6_272), (4_943, 1_569))


def _split(name: str, data: ScaledTable, train: tuple[int, int], test: tuple[int, int]) -> TrainTestSplit:
    """Take the first rows of each class, in file order, to train and the next ones to test."""
    of_class = [np.flatnonzero(data.y == label) for label in (0, 1)]
    first = np.concatenate([rows[:count] for rows, count in zip(of_class, train, strict=True)])
    then = np.concatenate([rows[a : a + b] for rows, a, b in zip(of_class, train, test, strict=True)])
    return TrainTestSplit(name, data.X.iloc[first], data.y[first], data.X.iloc[then], data.y[then])


def repeat_columns(X: pd.DataFrame, features: int) -> pd.DataFrame:
    """Return a table of so many columns, the given ones over and over (section 7.1)."""
    places = [i % X.shape[1] for i in range(features)]
    names = [f"{X.columns[place]} {i // X.shape[1] + 1}" for i, place in enumerate(places)]
    return X.iloc[:, places].set_axis(names, axis=1)


def credit_from_frame(frame: pd.DataFrame, label: pd.Series[int]) -> ScaledTable:
    """Return complete rows only, every column divided by its maximum."""
    complete = frame.notna().all(axis=1)
    return _scaled(frame.loc[complete, list(CREDIT_COLUMNS)], label[complete].to_numpy())


def adult_from_frame(frame: pd.DataFrame) -> ScaledTable:
    """Return Adult with indicators for words, in alphabetical order; a missing word, "?", is a word too."""
    columns = {name: frame[name].to_numpy(np.float64) for name in ADULT_NUMBERS}
    for name in ADULT_WORDS:
        texts = frame[name].astype(object).where(frame[name].notna(), "?").astype(str)
        columns |= {f"{name} {word}": (texts == word).to_numpy(np.float64) for word in sorted(texts.unique())}
    is_rich = frame["class"].astype(str).str.strip().str.startswith(">50K")
    return _scaled(pd.DataFrame(columns), is_rich.to_numpy())


def _scaled(X: pd.DataFrame, y: npt.NDArray[np.generic]) -> ScaledTable:
    numbers = X.astype(np.float64)
    return ScaledTable((numbers / numbers.max()).reset_index(drop=True), y.astype(np.int64))


def _credit_file(content: bytes) -> ScaledTable:
    frame = pd.read_csv(io.BytesIO(content), index_col=0)
    return credit_from_frame(frame.drop(columns=CREDIT_LABEL), frame[CREDIT_LABEL])


def _adult_file(content: bytes) -> ScaledTable:
    frame = pd.read_csv(io.BytesIO(content), header=None, names=list(ADULT_COLUMNS), skipinitialspace=True)
    return adult_from_frame(frame)


def _onehot_file(content: bytes) -> ScaledTable:
    frame = pd.read_csv(io.BytesIO(content))
    return _scaled(frame.drop(columns="label"), frame["label"].to_numpy())


def _credit_openml(frame: pd.DataFrame) -> Iterator[ScaledTable]:
    """Yield the table under either name and spelling of its label."""
    for name in (CREDIT_LABEL, "FinancialDistressNextTwoYears"):
        if name in frame:
            yes = frame[name].astype(str).isin(["1", "1.0", "Yes"]).astype(int)
            yield credit_from_frame(frame[list(CREDIT_COLUMNS)].astype(np.float64), yes)


def _adult_openml(frame: pd.DataFrame) -> Iterator[ScaledTable]:
    """Yield the rows of adult.data, which stand before or behind those of adult.test."""
    for rows in (slice(-ADULT_ROWS, None), slice(None, ADULT_ROWS)):
        yield adult_from_frame(frame.iloc[rows])


CREDIT = _Source(
    "Give Me Some Credit",
    (
        _File(
            "give_me_some_credit.csv",
            "1bd46da486a5708c58c7b01a034fae2a13b327f6f7b62ea7ba4fe3b5824b24ac",
            _credit_file,
        ),
    ),
    (46929, 45577),
    _credit_openml,
    "173674df52f58badaf4286b9da80cb94efff8ef81e8425ffcce85f50cda5087c",
)
ADULT = _Source(
    "Adult",
    (
        _File(
            "adult_onehot108.csv",
            "221286ae218c14cfc0bb27414ab79a520a6090d27a6b974ff6a470ae12022610",
            _onehot_file,
        ),
        _File("adult.data.csv", "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d", _adult_file),
    ),
    (1590,),
    _adult_openml,
    "7b83624cfe476286377197d4ee850af8b9ecd21d02ce4f1a89b15f1c589bb874",
)


@lru_cache(maxsize=2)
def _load(source: _Source, folder: Path | None) -> ScaledTable:
    """Return a data set, once per process; raises DataError, with the remedy, when it is not to be had."""
    data = _fetch(source) if folder is None else _read(source, folder)
    if data.checksum() != source.checksum:
        raise DataError(f"{source.title} was read, but its numbers are not the expected ones (checksum)")
    return data


def _read(source: _Source, folder: Path) -> ScaledTable:
    """Return a data set from a folder; the content of the file must be the expected one, however it is compressed."""
    for file in source.files:
        for path in (folder / f"{file.name}.gz", folder / file.name):
            if not path.is_file():
                continue
            try:
                content = path.read_bytes()
                content = gzip.decompress(content) if path.suffix == ".gz" else content
            except (OSError, EOFError, zlib.error) as error:
                raise DataError(f"cannot read {path}: {error}") from None
            if hashlib.sha256(content).hexdigest() != file.sha256:
                raise DataError(
                    f"{path} is not the expected file: unpacked, its SHA-256 is not {file.sha256[:16]}...; "
                    f"get {source.title} again"
                )
            return file.read(content)
    names = " or ".join(f"{file.name}.gz" for file in source.files)
    raise DataError(f"{source.title}: --data {folder} has no {names}; put it there, or leave --data out to fetch it")


def _fetch(source: _Source) -> ScaledTable:
    """Return a data set from OpenML; only a table that gives the expected numbers is taken."""
    from sklearn.datasets import fetch_openml

    problems = []
    for number in source.openml:
        try:
            with _download_timeout(), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that it tries again is nobody's concern
                frame = fetch_openml(data_id=number, as_frame=True, parser="auto", n_retries=1, delay=0.5).frame
            for data in source.from_openml(frame):
                if data.checksum() == source.checksum:
                    return data
            problems.append(f"OpenML's table {number} has other rows or another order")
        except OSError as error:  # the network, which will not be better for the next table
            problems.append(f"OpenML does not answer: {error}")
            break
        except (ValueError, KeyError, ImportError) as error:
            problems.append(f"OpenML's table {number}: {error}")
    names = " or ".join(f"{file.name}.gz" for file in source.files)
    raise DataError(
        f"{source.title} is not at hand: no --data folder was given, and it could not be fetched "
        f"({'; '.join(problems)}). Give --data DIR with {names} in it"
    )


@contextmanager
def _download_timeout() -> Iterator[None]:
    """Let no connection opened inside wait for ever."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_PATIENCE)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
