"""What requests for scores look like and what they are answered with: Open Inference Protocol V2, and MLflow's.

JSON is read strictly: no names twice, no NaN, no text for numbers. Numbers of a column are numbers, words are words;
null is a missing value.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mpfedxgb.boosting.labels import read_base_margin
from mpfedxgb.boosting.model import Feature, PartialModel
from mpfedxgb.boosting.objective import Floats, Origin
from mpfedxgb.data.chunks import numbers_among
from mpfedxgb.data.ids import ids_in_order
from mpfedxgb.data.table import FLOAT32_MAX, Column, KnownCategories, Table, number_column
from mpfedxgb.errors import DataError
from mpfedxgb.federation.role import id_name, predicted
from mpfedxgb.federation.rows import Rows
from mpfedxgb.federation.serving.batches import Scores
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.schema.training import suggestion

Json = dict[str, Any]
Columns = dict[str, list[Any]]

ID, ERROR, PREDICTION, PROBABILITY = "id", "error", "prediction", "probability"

DATATYPES: dict[str, tuple[type, ...]] = {"BYTES": (str,), "BOOL": (bool,)}
DATATYPES |= {f"{sign}INT{bits}": (int,) for sign in ("", "U") for bits in (8, 16, 32, 64)}
DATATYPES |= {f"FP{bits}": (int, float) for bits in (16, 32, 64)}
"""Kinds of tensors, by the Open Inference Protocol, and what values of each are in JSON."""


def read_json(body: bytes) -> Json:
    """Return the JSON object that a body is; raises DataError if it is none."""
    try:
        content = json.loads(body.decode(), parse_constant=_no_constant, object_pairs_hook=_no_name_twice)
    except (ValueError, RecursionError) as error:
        text = f"at line {error.lineno}" if isinstance(error, json.JSONDecodeError) else "as RFC 8259 has it"
        raise DataError(
            f"the body is not JSON {text}; NaN and names that occur twice are none", "damaged", "body"
        ) from None
    if not isinstance(content, dict):
        raise DataError("the body is not a JSON object", "type", "body")
    return content


def _no_constant(text: str) -> None:
    raise ValueError(text)


def _no_name_twice(pairs: list[tuple[str, Any]]) -> Json:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _only(content: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for name in content:
        if name not in known:
            raise DataError(
                f"{where} has {name[:40]!r}; {suggestion(name, known, 'it may have')}", "unknown", where, name
            )


def read_inference(content: Json, model: str, most: int) -> tuple[Columns, list[str]]:
    """Return the columns of a request of the Open Inference Protocol, and the outputs that it names.

    KServe's client names the model in the body too.
    """
    _only(content, ("id", "model_name", "parameters", "inputs", "outputs"), "the request")
    if not isinstance(content.get("id", ""), str):
        raise DataError("the request's id is not a text", "type", "id")
    if content.get("model_name", model) != model:
        raise DataError(f"model_name is not {model!r}, the model that answers here", "mismatch", "model_name")
    _check_parameters(content, "the request")
    inputs, outputs = content.get("inputs"), content.get("outputs", [])
    if not isinstance(inputs, list) or not inputs or not all(isinstance(one, dict) for one in inputs):
        raise DataError(
            "inputs is not a list of tensors; give one for the id and one for each column", "type", "inputs"
        )
    columns: Columns = {}
    for tensor in inputs:
        _only(tensor, ("name", "shape", "datatype", "parameters", "data"), "a tensor")
        name = tensor.get("name")
        if not isinstance(name, str) or name in columns:
            raise DataError("each tensor has a name of its own", "duplicate", "inputs")
        _check_parameters(tensor, f"tensor {name!r}")
        columns[name] = _tensor(tensor, name)
    if not isinstance(outputs, list) or not all(
        isinstance(one, dict) and isinstance(one.get("name"), str) for one in outputs
    ):
        raise DataError("outputs is not a list of objects with names", "type", "outputs")
    return _equally_long(columns, most), [one["name"] for one in outputs]


def _check_parameters(content: Json, where: str) -> None:
    if not isinstance(content.get("parameters", {}), dict):
        raise DataError(f"{where}: parameters is not an object; none is needed", "type", "parameters")


def _tensor(tensor: Json, name: str) -> list[Any]:
    data, shape, kind = tensor.get("data"), tensor.get("shape"), tensor.get("datatype")
    if not isinstance(kind, str) or kind not in DATATYPES:
        raise DataError(f"tensor {name!r}: datatype is one of {', '.join(DATATYPES)}", "choice", name)
    if not isinstance(data, list):
        raise DataError(f"tensor {name!r}: data is not a list", "type", name)
    if all(isinstance(row, list) and len(row) == 1 for row in data):
        data = [row[0] for row in data]
    if shape not in ([len(data)], [len(data), 1]):
        text = f"tensor {name!r}: shape is not [{len(data)}], as its data has it; give a column per tensor"
        raise DataError(text, "mismatch", name)
    if not all(value is None or type(value) in DATATYPES[kind] for value in data):
        raise DataError(
            f"tensor {name!r}: data has values that are no {kind}; null is a missing value", "type", name, kind
        )
    return data


def read_invocation(content: Json, most: int) -> Columns:
    """Return the columns of a request as MLflow's scoring server takes it."""
    kinds = ("dataframe_split", "dataframe_records", "inputs")
    _only(content, (*kinds, "params"), "the request")
    given = [kind for kind in kinds if kind in content]
    if len(given) != 1:
        raise DataError(f"give one of {', '.join(kinds)}", "missing", "body")
    value = content[given[0]]
    if given[0] == "dataframe_split":
        return _equally_long(_split(value), most)
    if given[0] == "inputs" and isinstance(value, dict):
        if not all(isinstance(column, list) for column in value.values()):
            raise DataError("inputs is not an object of lists, one for each column", "type", "inputs")
        return _equally_long(value, most)
    return _equally_long(_records(value, given[0]), most)


def _split(value: Any) -> Columns:
    if not isinstance(value, dict):
        raise DataError("dataframe_split is not an object with columns and data", "type", "dataframe_split")
    _only(value, ("columns", "data", "index"), "dataframe_split")
    names, data = value.get("columns"), value.get("data")
    if not isinstance(value.get("index", []), list):
        raise DataError("dataframe_split: index is not a list; none is needed", "type", "index")
    if not isinstance(names, list) or not all(isinstance(n, str) for n in names) or len({*names}) != len(names):
        raise DataError("dataframe_split: columns is not a list of different names", "type", "columns")
    if not isinstance(data, list) or not all(isinstance(row, list) and len(row) == len(names) for row in data):
        raise DataError(
            "dataframe_split: data is not a list of rows, each with a value for each column", "type", "data"
        )
    return {name: [row[i] for row in data] for i, name in enumerate(names)}


def _records(value: Any, where: str) -> Columns:
    if not isinstance(value, list) or not value or not all(isinstance(row, dict) for row in value):
        raise DataError(f"{where} is not a list of objects, one for each row", "type", where)
    names = list(value[0])
    if any(row.keys() != value[0].keys() for row in value):
        raise DataError(f"{where}: rows have different columns; give null for a missing value", "mismatch", where)
    return {name: [row[name] for row in value] for name in names}


def _equally_long(columns: Columns, most: int) -> Columns:
    rows = {len(values) for values in columns.values()}
    if len(rows) != 1 or rows == {0}:
        raise DataError("columns are not equally long, or there are no rows", "mismatch", "columns")
    if rows.pop() > most:
        text = f"there are more rows than [serve] max_batch = {most}; ask for them in several requests"
        raise DataError(text, "range", "serve.max_batch", most)
    return columns


class RowReader:
    """Reads rows of requests for a model's features, as `arrange_rows` those of a table.

    Without a DataFrame, which would cost a single row more than all else.
    """

    def __init__(self, settings: RoleSettings, features: Sequence[Feature]) -> None:
        assert settings.data is not None, "the active participant has a table"
        self._data, self._rule, self._owner = settings.data, settings.id_rule, settings.role.name
        self._start = [feature.name for feature in _of_base_margin(settings)]
        self._outputs = settings.training.outputs
        self._features = features
        self._numbers = [f.name for f in features if f.categories is None]
        self._words = {f.name: KnownCategories(f.categories) for f in features if f.categories is not None}
        self._names = {self._data.id, *self._start, *(f.name for f in features)}
        self._missing = frozenset(self._data.missing)
        self._missing_numbers = numbers_among(self._data.missing)

    def read(self, columns: Columns) -> Rows:
        """Return rows to score from columns by name: the id and all of the model's; raises DataError for any others.

        If [label] base_margin names columns, those too.
        """
        identifier = self._data.id
        if columns.keys() != self._names:
            self._refuse_names(columns.keys())
        if not all(type(value) in (str, int) for value in columns[identifier]):
            text = f"column {identifier!r} has ids that are neither text nor whole numbers"
            raise DataError(text, "type", identifier)
        ids = ids_in_order(columns[identifier], identifier, self._owner, self._rule)
        numbers = self._numbers_of(columns, self._numbers)[:, ids.places]
        if (np.abs(numbers) > FLOAT32_MAX).any():
            for name, values in zip(self._numbers, numbers, strict=True):
                number_column(self._owner, name, values)  # one of them says what is wrong
        by_name = dict(zip(self._numbers, numbers.astype(np.float32), strict=True))
        by_name |= {name: self._codes_of(columns, name)[ids.places] for name in self._words}
        table = tuple(Column(f.name, by_name[f.name], f.categories) for f in self._features)
        start = None
        if self._start:
            origin = Origin(f"{self._owner}: the base margin", shows_values=False)
            start = read_base_margin(self._numbers_of(columns, self._start)[:, ids.places].T, self._outputs, origin)
        return Rows(ids, Table(self._owner, table, len(ids)), base_margin=start)

    def _refuse_names(self, given: Collection[str]) -> None:
        for what, some in (("lacks", self._names - {*given}), ("has unknown", {*given} - self._names)):
            if some:
                text = ", ".join(repr(name[:40]) for name in sorted(some)[:8])
                start = "[label] base_margin " if self._start else ""
                own = f"the id {self._data.id!r}, {start}and the model's columns"
                raise DataError(f"the request {what} columns: {text}; give {own}", "mismatch", "columns")

    def _numbers_of(self, columns: Columns, names: Sequence[str]) -> Floats:
        """Return columns of numbers, (columns, rows), NaN where one is missing."""
        found = np.empty((len(names), len(columns[self._data.id])))
        for own, name in zip(found, names, strict=True):
            if not _NUMBERS.issuperset(map(type, columns[name])):
                text = f"column {name!r} has values that are no numbers; null is a missing value"
                raise DataError(text, "type", name)
            try:
                own[:] = columns[name]
            except OverflowError:
                raise DataError(f"column {name!r} has numbers that are too large", "range", name) from None
        return np.where(np.isin(found, self._missing_numbers), np.nan, found) if self._missing_numbers else found

    def _codes_of(self, columns: Columns, name: str) -> npt.NDArray[np.float32]:
        if not _VALUES.issuperset(map(type, columns[name])):
            text = f"column {name!r} has values that are no categories; null is a missing value"
            raise DataError(text, "type", name)
        words = [None if value is None or str(value) in self._missing else str(value) for value in columns[name]]
        return self._words[name].codes(words, f"{self._owner}: column {name!r}")


_NUMBERS = frozenset({int, float, bool, type(None)})
_VALUES = _NUMBERS | {str}


def _of_base_margin(settings: RoleSettings) -> tuple[Feature, ...]:
    return () if settings.label is None else tuple(Feature(name, None) for name in settings.label.base_margin)


def result_names(model: PartialModel) -> list[str]:
    """Return the names of what each row is answered with, in their order."""
    if model.classes is None:
        return [ID, *model.params.loss.targets, ERROR]
    if len(model.classes) == 2:
        return [ID, PREDICTION, PROBABILITY, ERROR]
    return [ID, PREDICTION, *(f"class_{name}" for name in model.classes), ERROR]


def results(model: PartialModel, rows: Rows, scores: Scores) -> Columns:
    """Return what each row is answered with, in the order of the request: nothing but an error where it is unknown."""
    margins = scores.margins
    if margins.shape[0] != model.params.outputs:  # no row was found
        margins = np.zeros((model.params.outputs, margins.shape[1]))
    places = np.argsort(rows.ids.places)
    found = {name: values.tolist() for name, values in predicted(model, margins[:, places]).items()}
    if model.classes is not None and len(model.classes) == 2:
        found[PROBABILITY] = found[f"class_{model.classes[-1]}"]
    columns: Columns = {ID: [rows.ids.written[i] for i in places]}
    columns |= {name: found[name] for name in result_names(model)[1:-1]}
    columns[ERROR] = [None] * len(rows.ids)
    for i, names in scores.lacking.items():
        place = int(rows.ids.places[i])
        for name in columns.keys() - {ID}:
            columns[name][place] = None
        columns[ERROR][place] = f"not found at {', '.join(names)}"
    return columns


def datatype_of(name: str, model: PartialModel, values: Sequence[Any] = ()) -> str:
    """Return what the Open Inference Protocol calls the kind of an output."""
    if name == ERROR:
        return "BYTES"
    given = values if name == ID else model.classes if name == PREDICTION and model.classes is not None else (0.0,)
    if given and all(type(value) is int for value in given):
        return "INT64"
    return "FP64" if given and all(isinstance(value, float) for value in given) else "BYTES"


def inference_answer(name: str, model: PartialModel, request: Json, columns: Columns, chosen: Sequence[str]) -> Json:
    """Return the answer in the form of the Open Inference Protocol."""
    outputs = [
        {"name": n, "datatype": datatype_of(n, model, columns[n]), "shape": [len(columns[n])], "data": columns[n]}
        for n in chosen
    ]
    head: Json = {"model_name": name, "model_version": model.training}
    return head | ({"id": request["id"]} if "id" in request else {}) | {"outputs": outputs}


def invocation_answer(name: str, model: PartialModel, columns: Columns) -> Json:
    """Return the answer in MLflow's form: an object for each row."""
    rows = zip(*columns.values(), strict=True)
    return {"predictions": [dict(zip(columns, row, strict=True)) | of(name, model) for row in rows]}


def of(name: str, model: PartialModel) -> Json:
    """Return whose scores they are."""
    return {"model": name, "training": model.training}


def metadata(settings: RoleSettings, name: str, model: PartialModel) -> Json:
    """Return what the Open Inference Protocol tells of a model: this participant's columns, and what it answers."""
    kinds = {id_name(settings): "BYTES"}
    columns = (*model.features, *_of_base_margin(settings))
    kinds |= {f.name: "FP64" if f.categories is None else "BYTES" for f in columns}
    return {
        "name": name,
        "versions": [model.training],
        "platform": "mpfedxgb",
        "inputs": [{"name": n, "datatype": kind, "shape": [-1]} for n, kind in kinds.items()],
        "outputs": [{"name": n, "datatype": datatype_of(n, model), "shape": [-1]} for n in result_names(model)],
    }
