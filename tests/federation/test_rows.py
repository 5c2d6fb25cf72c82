"""What a participant brings to a session, from its files and as its settings say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mpfedxgb.boosting.model import Feature
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.data.table import Table
from mpfedxgb.errors import Code, DataError, SettingsError
from mpfedxgb.federation.rows import SCORING, arrange_rows, encode_labels, read_rows, with_kinds_of
from mpfedxgb.federation.serving.bodies import RowReader
from mpfedxgb.federation.settings import RoleSettings
from support.refusals import Expected, refused
from support.role_files import least

PEOPLE = pd.DataFrame(
    {
        "customer": ["c", "a", "b"],
        "age": [50, 30, 40],
        "zip": ["070", "010", "010"],
        "city": ["Quito", None, "Lagos"],
        "weight": [2.0, 1.0, 0.0],
        "defaulted": ["no", "yes", "no"],
    }
)


def settings(folder: Path, role: str = "bank", **data: Any) -> RoleSettings:
    """Return settings of a role whose files are in a folder, all of them the people above."""
    content = least(role)
    for purpose in ("train", "evaluate", "predict"):
        content["data"][purpose] = f"{purpose}.csv"
        PEOPLE.to_csv(folder / f"{purpose}.csv", index=False)
    content["data"] |= data
    if role == "bank":
        content["label"]["weight"] = "weight"
    content["training"] = {"weighted": True}
    return RoleSettings.from_dict(content, folder)


class TestReading:
    """Files become tables, labels and weights in the order of the ids."""

    def test_everything_is_sorted(self, tmp_path: Path) -> None:
        """Ids, features, label and weight belong together."""
        rows = read_rows(settings(tmp_path), "train")
        assert rows.ids.written == ("a", "b", "c")
        assert rows.table.names == ["age", "zip", "city"]
        assert rows.table.columns[0].values.tolist() == [30, 40, 50]
        assert rows.table.columns[2].categories == ("Lagos", "Quito")
        assert rows.label is not None
        assert rows.label.tolist() == ["yes", "no", "no"]
        assert rows.weight is not None
        assert rows.weight.tolist() == [1.0, 0.0, 2.0]
        assert "yes" not in repr(rows)
        assert "30" not in repr(rows)

    def test_an_auxiliary_has_no_label(self, tmp_path: Path) -> None:
        """A column of that name is a feature like others."""
        rows = read_rows(settings(tmp_path, "telecom"), "train")
        assert rows.label is None
        assert rows.weight is None
        assert rows.table.names == ["age", "zip", "city", "weight", "defaulted"]

    def test_scoring_needs_no_label(self, tmp_path: Path) -> None:
        """If there is one, it is left out."""
        mine = settings(tmp_path)
        first = read_rows(mine, "predict")
        PEOPLE.drop(columns=["defaulted", "weight"]).to_csv(tmp_path / "predict.csv", index=False)
        second = read_rows(mine, "predict")
        assert first.label is second.label is None
        assert first.table.names == second.table.names == ["age", "zip", "city"]

    def test_kinds(self, tmp_path: Path) -> None:
        """Columns are read as words or numbers if the settings say so."""
        table = read_rows(settings(tmp_path, categorical=["zip"], numeric=["age"]), "train").table
        assert table.columns[1].categories == ("010", "070")
        with refused(DataError, "type", "city", 2):
            read_rows(settings(tmp_path, numeric=["city"]), "train")

    def test_features_in_their_order(self, tmp_path: Path) -> None:
        """Those that are named, and no others; or all but those that are dropped."""
        assert read_rows(settings(tmp_path, features=["zip", "age"]), "train").table.names == ["zip", "age"]
        assert read_rows(settings(tmp_path, drop=["zip"]), "train").table.names == ["age", "city"]

    def test_features_of_a_model(self, tmp_path: Path) -> None:
        """What a model knows is taken, in its order and with its categories, though the settings would drop it."""
        known = [Feature("zip", ("010", "020", "070")), Feature("age")]
        table = read_rows(settings(tmp_path, drop=["age", "city"]), "predict", known).table
        assert table.names == ["zip", "age"]
        assert table.columns[0].categories == ("010", "020", "070")
        assert table.columns[0].values.tolist() == [0, 0, 2]

    def test_columns_that_a_model_does_not_know(self, tmp_path: Path) -> None:
        """They are refused, unless the settings leave them out; label and weight are never meant."""
        known = [Feature("age")]
        with refused(DataError, "unknown", "data.features"):
            read_rows(settings(tmp_path), "predict", known)
        for told in (settings(tmp_path, drop=["city", "zip"]), settings(tmp_path, features=["age"])):
            assert read_rows(told, "predict", known).table.names == ["age"]

    def test_text_alike_in_files_and_frames(self, tmp_path: Path) -> None:
        """Text is categories in CSV, in Parquet and in memory; only CSV cannot tell digits from numbers by itself."""
        mine = settings(tmp_path, categorical=["zip"])
        PEOPLE.to_parquet(tmp_path / "train.parquet")
        parquet = settings(tmp_path, train="train.parquet")
        frame = arrange_rows(parquet, with_kinds_of(parquet, PEOPLE), "train")
        simulated = Table.read(PEOPLE.sort_values("customer")[["age", "zip", "city"]], "bank")
        for table in (read_rows(mine, "train").table, read_rows(parquet, "train").table, frame.table, simulated):
            assert [c.categories for c in table.columns] == [None, ("010", "070"), ("Lagos", "Quito")]
            assert table.columns[1].values.tolist() == [0, 0, 1]

    def test_words_among_numbers(self, tmp_path: Path) -> None:
        """A column that mixes both is no column of text; it is refused, as everywhere."""
        mine = settings(tmp_path)
        with refused(DataError, "type", "age", "old"):
            arrange_rows(mine, with_kinds_of(mine, PEOPLE.assign(age=[50, "old", 40])), "train")

    def test_few_words_among_numbers(self, tmp_path: Path) -> None:
        """A file is refused by line and value, unless the column is left out or the settings say what is missing."""
        frame = pd.DataFrame({"customer": range(40), "age": "31", "zip": "n.a.", "defaulted": ["yes", "no"] * 20})
        frame.loc[:37, "zip"] = "1"
        frame.loc[7, "age"] = "n.a."

        def read(purpose: str = "train", known: list[Feature] | None = None, **data: Any) -> Any:
            mine = settings(tmp_path, "telecom", **data)
            frame.to_csv(tmp_path / f"{purpose}.csv", index=False)
            return read_rows(mine, purpose, known).table

        ways: list[dict[str, Any]] = [{}, {"drop": ["zip"]}, {"features": ["age"]}]
        for told in ways:
            with refused(DataError, "type", "age", 9):
                read(**told)
        assert np.isnan(read(missing=["n.a."]).columns[0].values).sum() == 1
        assert np.isnan(read(features=["zip"], missing=["n.a."]).columns[0].values).sum() == 2
        assert read(drop=["age", "zip"]).names == ["defaulted"]
        assert read(features=["defaulted"]).names == ["defaulted"]
        assert read(drop=["zip"], categorical=["age"]).columns[0].categories == ("31", "n.a.")
        known = [Feature("age")]
        with refused(DataError, "type", "age", 9):
            read("predict", known, features=["age"])
        assert read("predict", known, features=["age"], missing=["n.a."]).names == ["age"]

    def test_few_words_among_labels(self, tmp_path: Path) -> None:
        """They are classes if the objective has classes; else the line is named, and no value."""
        frame = pd.DataFrame({"customer": range(40), "age": 31, "defaulted": "1.5"})
        frame.loc[7, "defaulted"] = "hidden"
        for objective, numbers in (("binary:logistic", False), ("reg:squarederror", True)):
            content = least("bank") | {"training": {"objective": objective}}
            content["data"] |= {"train": "train.csv", "predict": "train.csv"}
            frame.to_csv(tmp_path / "train.csv", index=False)
            mine = RoleSettings.from_dict(content, tmp_path)
            assert len(read_rows(mine, "predict").ids) == 40
            if numbers:
                with refused(DataError, "type", "defaulted", 9) as error:
                    read_rows(mine, "train")
                assert "hidden" not in str(error.value)
            else:
                label = read_rows(mine, "train").label
                assert label is not None
                assert label.tolist().count("hidden") == 1

    def test_missing_values_of_frames_and_parquet(self, tmp_path: Path) -> None:
        """What [data] missing says holds for tables in memory and for Parquet, also if features stay in their file."""
        told = settings(tmp_path, "telecom", missing=["Quito", "50"], train="train.parquet")
        PEOPLE.to_parquet(tmp_path / "train.parquet")
        tables = [read_rows(told, "train", stay_in_file=stays).table for stays in (False, True)]
        tables.append(arrange_rows(told, with_kinds_of(told, PEOPLE), "train").table)
        for table in tables:
            np.testing.assert_array_equal(table.columns[0].values, [30, 40, np.nan])
            assert table.columns[2].categories == ("Lagos",)

    def test_csv_of_another_country(self, tmp_path: Path) -> None:
        """Semicolons and decimal commas are found out, and an encoding is told."""
        mine = settings(tmp_path, encoding="cp1252")
        text = PEOPLE.replace("Quito", "Köln").to_csv(index=False, sep=";", decimal=",")
        (tmp_path / "train.csv").write_bytes(text.encode("cp1252"))
        rows = read_rows(mine, "train")
        assert rows.table.columns[2].categories == ("Köln", "Lagos")
        assert rows.weight is not None
        assert rows.weight.tolist() == [1.0, 0.0, 2.0]

    def test_categories_of_a_model_by_value(self, tmp_path: Path) -> None:
        """In a file or a frame, integers that became floats are the categories that they were; lost zeros are told."""
        mine = settings(tmp_path, drop=["age", "city"])
        shops = PEOPLE.assign(zip=[10.0, np.nan, 70.0])
        (tmp_path / "predict.csv").write_text(shops.to_csv(index=False), encoding="utf-8")
        known = [Feature("zip", ("10", "20", "70"))]
        from_file = read_rows(mine, "predict", known).table.columns[0].values
        from_frame = arrange_rows(mine, shops.astype({"zip": "category"}), "predict", known).table.columns[0].values
        np.testing.assert_array_equal(np.sort(from_file), [0, 2, np.nan])
        np.testing.assert_array_equal(from_frame, from_file)
        with refused(DataError, "mismatch", "bank: column 'zip'"):
            read_rows(mine, "predict", [Feature("zip", ("010", "020", "070"))])

    def test_frames(self, tmp_path: Path) -> None:
        """A notebook passes tables instead of files; the id may be their index."""
        mine = settings(tmp_path)
        from_file = read_rows(mine, "train")
        for frame in (PEOPLE, PEOPLE.set_index("customer")):
            rows = arrange_rows(mine, frame.astype({"city": "category", "zip": "float"}), "train")
            assert rows.ids.keys == from_file.ids.keys
            assert rows.table.names == from_file.table.names
            assert rows.label is not None
            assert rows.label.tolist() == ["yes", "no", "no"]


class TestRefused:
    """Messages name participant, key and remedy."""

    @pytest.mark.parametrize(
        ("key", "value", "expected"),
        [
            ("id", "customers", ("unknown", "customers", None)),
            ("features", ["agee"], ("unknown", "agee", None)),
            ("drop", ["citty"], ("unknown", "citty", None)),
            ("categorical", ["colour"], ("unknown", "colour", None)),
            ("train", "gone.csv", ("missing", "gone.csv", None)),
        ],
    )
    def test_settings_that_do_not_fit_the_file(self, tmp_path: Path, key: str, value: Any, expected: Expected) -> None:
        """A name that the file does not have is not passed over."""
        with refused(DataError, *expected):
            read_rows(settings(tmp_path, **{key: value}), "train")

    def test_no_file_for_the_purpose(self) -> None:
        """The key is named."""
        with refused(SettingsError, "missing", "data.evaluate"):
            read_rows(RoleSettings.from_dict(least("bank")), "evaluate")

    def test_the_coordinator_has_none(self, tmp_path: Path) -> None:
        """It is told so."""
        with refused(SettingsError, "missing", "data.train"):
            read_rows(RoleSettings.from_dict(least("coordinator")), "train")
        with refused(DataError, "place", "coordinator"):
            arrange_rows(RoleSettings.from_dict(least("coordinator")), PEOPLE, "train")

    @pytest.mark.parametrize(
        ("change", "expected"),
        [
            ({"defaulted": None}, ("unknown", "defaulted", None)),
            ({"weight": None}, ("unknown", "weight", None)),
            ({"weight": ["1", "heavy", "2"]}, ("type", "bank: the weight", None)),
            ({"weight": [1.0, -1.0, 1.0]}, ("range", "bank: the weight", None)),
            ({"weight": [1.0, np.nan, 1.0]}, ("value", "bank: the weight", None)),
            ({"weight": [0.0, 0.0, 0.0]}, ("few", "bank: the weight", None)),
            ({"customer": ["a", "a", "b"]}, ("duplicate", "customer", 1)),
            ({"age": [1.0, np.inf, 2.0]}, ("range", "age", None)),
        ],
    )
    def test_tables(self, tmp_path: Path, change: dict[str, Any], expected: Expected) -> None:
        """Label, weights, ids and columns that cannot be used."""
        frame = PEOPLE.copy()
        for name, values in change.items():
            frame = frame.drop(columns=name) if values is None else frame.assign(**{name: values})
        with refused(DataError, *expected):
            arrange_rows(settings(tmp_path), frame, "train")

    def test_no_rows(self, tmp_path: Path) -> None:
        """An empty table is no table."""
        with refused(DataError, "few", "train", 0):
            arrange_rows(settings(tmp_path), PEOPLE.iloc[:0], "train")

    def test_a_model_of_other_columns(self, tmp_path: Path) -> None:
        """Columns that the model needs are named."""
        with refused(DataError, "unknown", "height"):
            read_rows(settings(tmp_path), "predict", [Feature("height")])


class TestLabels:
    """Labels as training takes them."""

    @pytest.mark.parametrize(
        ("labels", "classes"),
        [(["no", "yes"], ("no", "yes")), ([0, 1], (0, 1)), ([False, True], (False, True)), ([1.0, 2.0], (1.0, 2.0))],
    )
    def test_two_classes(self, labels: list[Any], classes: tuple[Any, ...]) -> None:
        """In their order, with their names."""
        y, names = encode_labels(np.array(labels * 2), TrainParams(num_class=2), "bank")
        assert y.tolist() == [0.0, 1.0, 0.0, 1.0]
        assert names == classes

    def test_evaluation_follows_training(self) -> None:
        """The same codes, even if a class is absent; new classes are refused by number."""
        params = TrainParams(objective="multi:softprob", num_class=3)
        _, names = encode_labels(np.array(["a", "b", "c"]), params, "bank")
        assert encode_labels(np.array(["c", "a"]), params, "bank", names)[0].tolist() == [2.0, 0.0]
        with refused(DataError, "unknown", "bank: the label", 2):
            encode_labels(np.array(["c", "d", "e", "e"]), params, "bank", names)

    def test_numbers(self) -> None:
        """As they are."""
        y, names = encode_labels(np.array([1, -2]), TrainParams(objective="reg:squarederror"), "bank")
        assert (y.tolist(), names) == ([1.0, -2.0], None)
        y, _ = encode_labels(np.array([0, 0]), TrainParams(objective="count:poisson"), "bank", base_score=0.5)
        assert y.tolist() == [0.0, 0.0]
        y, _ = encode_labels(np.array([0, 0]), TrainParams(objective="count:poisson"), "bank", evaluates=True)
        assert y.tolist() == [0.0, 0.0]

    @pytest.mark.parametrize(
        ("objective", "classes", "labels", "says"),
        [
            (
                "binary:logistic",
                2,
                ["a", "b", "c"],
                'set objective = "multi:softprob" and num_class = 3 .* at all roles',
            ),
            ("multi:softprob", 3, [0, 1], 'expects 3; set objective = "binary:logistic"'),
            ("binary:logistic", 2, ["a", "a"], "all labels are the same"),
            ("binary:logistic", 2, np.array(["a", 1], object), "mixes texts and numbers"),
            ("binary:logistic", 2, np.array(["a", None, np.nan], object), "2 of 3 labels are missing"),
            ("binary:logistic", 2, [0.0, np.inf], "holds infinity"),
            ("reg:squarederror", 1, ["tall"], "needs numbers"),
            ("reg:squarederror", 1, [np.inf], "rescale"),
            ("reg:squarederror", 1, [2.0**29], "rescale"),
            ("reg:squarederror", 1, [1.0, np.nan], "1 of 2 labels are missing"),
            ("count:poisson", 1, [-1, 2], "takes counts"),
            ("count:poisson", 1, [0, 0], "positive mean or a base_score"),
        ],
    )
    def test_refused(self, objective: str, classes: int, labels: Any, says: str) -> None:
        """With what to do, and without the labels."""
        with pytest.raises(DataError, match=f"^bank: .*{says}"):
            encode_labels(np.asarray(labels), TrainParams(objective=objective, num_class=classes), "bank")


FEATURES = (
    Feature("age"),
    Feature("zip", ("010", "070", "7", "True")),
    Feature("city", ("Lagos", "Quito")),
    Feature("x"),
)


class TestRequests:
    """Rows of requests are those of a table with the same columns."""

    @pytest.mark.parametrize("missing", [[], ["-999", "unknown"]], ids=["", "missing"])
    @pytest.mark.parametrize("seed", range(25))
    def test_as_from_a_table(self, tmp_path: Path, seed: int, missing: list[str]) -> None:
        """Numbers, truth values, words that are known and unknown, gaps; ids that are numbers, and that are not."""
        mine, draws = settings(tmp_path, missing=missing), np.random.default_rng(seed)
        rows = int(draws.integers(1, 9))
        ids = draws.permutation(20)[:rows]
        words = [None, "7.0", "010", "unknown", "070", "nobody's", "1"]
        columns: dict[str, list[Any]] = {
            "customer": [f" {i:03d}" for i in ids] if seed % 3 == 0 else [int(i) for i in ids],
            "age": [[None, 30, 2.5, -999, True, 3e38, 1e-40][i] for i in draws.integers(0, 7, rows)],
            "zip": [words[i] for i in draws.integers(0, 7, rows)],
            "city": [["Quito", "Lagos", "Rome", "unknown", None][i] for i in draws.integers(0, 5, rows)],
            "x": draws.normal(size=rows).tolist(),
        }
        if seed % 5 == 0:
            columns["customer"] = [f"c-{i}" for i in ids]
        found = RowReader(mine, FEATURES).read(columns)
        kinds = {"age": float, "x": float}
        frame = pd.DataFrame({n: pd.Series(values, dtype=kinds.get(n, object)) for n, values in columns.items()})
        wanted = arrange_rows(mine, with_kinds_of(mine, frame, FEATURES), SCORING, FEATURES)
        assert (found.ids.keys, found.ids.written) == (wanted.ids.keys, wanted.ids.written)
        assert found.ids.places.tolist() == wanted.ids.places.tolist()
        assert (found.table.owner, found.table.rows) == (wanted.table.owner, wanted.table.rows)
        for own, other in zip(found.table.columns, wanted.table.columns, strict=True):
            assert (own.name, str(own.values.dtype), str(other.values.dtype)) == (other.name, "float32", "float32")
            np.testing.assert_array_equal(own.values, other.values)

    @pytest.mark.parametrize("value", [1e39, float("inf"), 10**400])
    def test_numbers_beyond_float32(self, tmp_path: Path, value: float) -> None:
        """They are refused by the name of their column, as a table's are."""
        columns: dict[str, list[Any]] = {"customer": [1], "age": [30], "zip": ["010"], "city": ["Quito"], "x": [value]}
        with refused(DataError, "range", "x"):
            RowReader(settings(tmp_path), FEATURES).read(columns)

    @pytest.mark.parametrize(
        ("column", "value", "code"),
        [("age", "30", "type"), ("city", [], "type"), ("customer", 1.5, "type"), ("customer", " ", "missing")],
    )
    def test_what_no_table_may_have(self, tmp_path: Path, column: str, value: Any, code: Code) -> None:
        """No more than a table may have it."""
        columns: dict[str, list[Any]] = {"customer": [1], "age": [30], "zip": ["010"], "city": ["Quito"], "x": [0.5]}
        columns[column] = [value]
        with refused(DataError, code, column):
            RowReader(settings(tmp_path), FEATURES).read(columns)
