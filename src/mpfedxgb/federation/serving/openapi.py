"""The OpenAPI description of scores over HTTP, written by hand; tests compare it with the routes and their answers.

It names the model's columns. What JSON Schema cannot say is refused all the same: columns that are not equally long, a
shape that is not that of the data, ids that occur twice.
"""

from __future__ import annotations

from typing import Any

from mpfedxgb.federation.serving.bodies import DATATYPES

Json = dict[str, Any]

_NUMBER: Json = {"type": ["number", "boolean", "null"]}
_WORD: Json = {"type": ["string", "number", "boolean", "null"]}


def _object(required: tuple[str, ...] = (), more: bool = False, **properties: Json) -> Json:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": more}


def _list(of: Json, least: int = 0, most: int | None = None) -> Json:
    bounds = ({"minItems": least} if least else {}) | ({} if most is None else {"maxItems": most})
    return {"type": "array", "items": of} | bounds


_TEXT: Json = {"type": "string"}
_REF = "#/components/schemas/"

_SCHEMAS: dict[str, Json] = {
    "Error": _object(("error",), error=_TEXT),
    "Live": _object(("live",), live={"type": "boolean"}),
    "Ready": _object(("ready",), ready={"type": "boolean"}, error=_TEXT),
    "Server": _object(("name", "version", "extensions"), name=_TEXT, version=_TEXT, extensions=_list(_TEXT)),
    "TensorMetadata": _object(
        ("name", "datatype", "shape"), name=_TEXT, datatype=_TEXT, shape=_list({"type": "integer"})
    ),
    "Model": _object(
        ("name", "versions", "platform", "inputs", "outputs"),
        name=_TEXT,
        versions=_list(_TEXT),
        platform=_TEXT,
        inputs=_list({"$ref": f"{_REF}TensorMetadata"}),
        outputs=_list({"$ref": f"{_REF}TensorMetadata"}),
    ),
    "Tensor": _object(
        ("name", "shape", "datatype", "data"),
        name=_TEXT,
        shape=_list({"type": "integer"}),
        datatype=_TEXT,
        parameters={"type": "object"},
        data={"type": "array"},
    ),
    "InferenceAnswer": _object(
        ("model_name", "model_version", "outputs"),
        id=_TEXT,
        model_name=_TEXT,
        model_version=_TEXT,
        outputs=_list({"$ref": f"{_REF}Tensor"}),
    ),
    "InvocationAnswer": _object(
        ("predictions",),
        predictions=_list(
            _object(
                ("id", "error", "model", "training"),
                more=True,  # classes and quantiles by name
                id={"type": ["string", "integer"]},
                prediction={"type": ["string", "number", "boolean", "null"]},
                probability={"type": ["number", "null"]},
                error={"type": ["string", "null"]},
                model=_TEXT,
                training=_TEXT,
            )
        ),
    ),
}


def _requests(model: Json, most: int) -> dict[str, Json]:
    """Return what requests for scores of a model look like; they have `most` rows at most."""
    identifier, *columns = model["inputs"]
    kinds = {identifier["name"]: {"type": ["string", "integer"]}}
    kinds |= {column["name"]: _NUMBER if column["datatype"] == "FP64" else _WORD for column in columns}
    names: Json = {"enum": list(kinds)}
    count = len(kinds)
    rows = _list(_object(tuple(kinds)) | {"properties": kinds}, 1, most)
    tensor = _object(
        ("name", "shape", "datatype", "data"),
        name=names,
        shape=_list({"type": "integer"}, 1, 2),
        datatype={"enum": list(DATATYPES)},
        parameters={"type": "object"},
        data={"oneOf": [_list(_WORD, 1, most), _list(_list(_WORD, 1, 1), 1, most)]},
    )
    output: Json = {"type": "object", "properties": {"name": {"enum": [out["name"] for out in model["outputs"]]}}}
    by_name = {name: _list(kind, 1, most) for name, kind in kinds.items()}
    columns_by_name = _object(tuple(kinds)) | {"properties": by_name}
    split = _object(
        ("columns", "data"),
        columns=_list(names, count, count) | {"uniqueItems": True},
        data=_list(_list(_WORD, count, count), 1, most),
        index={"type": "array"},
    )
    return {
        "InferenceRequest": _object(
            ("inputs",),
            id=_TEXT,
            model_name={"enum": [model["name"]]},
            parameters={"type": "object"},
            inputs=_list(tensor, count, count),
            outputs=_list(output | {"required": ["name"]}),
        ),
        "InvocationRequest": {
            "oneOf": [
                _object(("dataframe_split",), dataframe_split=split, params={}),
                _object(("dataframe_records",), dataframe_records=rows, params={}),
                _object(("inputs",), inputs={"oneOf": [columns_by_name, rows]}, params={}),
            ]
        },
    }


def _examples(model: Json) -> dict[str, Json]:
    """Return a request of each form, for one row of which nothing but the id is known."""
    row: Json = {tensor["name"]: None for tensor in model["inputs"]} | {model["inputs"][0]["name"]: "c-1001"}
    kinds = {tensor["name"]: tensor["datatype"] for tensor in model["inputs"]}
    tensors = [{"name": n, "shape": [1], "datatype": kinds[n], "data": [value]} for n, value in row.items()]
    return {"InferenceRequest": {"inputs": tensors}, "InvocationRequest": {"dataframe_records": [row]}}


def _answers(good: str, *others: tuple[int, str]) -> Json:
    described = {"200": ("Done.", good)}
    described |= {str(code): (text, "Ready" if good == "Ready" and code == 503 else "Error") for code, text in others}
    return {
        code: {
            "description": text,
            "content": {"application/json": {"schema": {"$ref": f"{_REF}{schema}"}}},
        }
        for code, (text, schema) in described.items()
    }


_ADDRESSED = (403, "Without a token, requests are addressed to localhost.")
_TOKEN = (401, "The token is missing or another one.")
_NOT_READY = (503, "Scores cannot be answered just now; the error says why.")
_BODY = (
    (400, "The request cannot be used; the error says why."),
    (408, "The body did not come in time."),
    (413, "The body is too long."),
    (415, "The body is not JSON."),
)


def _get(summary: str, good: str, *others: tuple[int, str], is_closed: bool = True) -> Json:
    described = _answers(good, _ADDRESSED, *((_TOKEN,) if is_closed else ()), *others)
    return {"get": {"summary": summary, "responses": described} | ({} if is_closed else {"security": []})}


def _post(summary: str, takes: str, good: str, example: Json) -> Json:
    content = {"schema": {"$ref": f"{_REF}{takes}"}, "example": example[takes]}
    body = {"required": True, "content": {"application/json": content}}
    described = _answers(good, _ADDRESSED, _TOKEN, *_BODY, _NOT_READY)
    return {"post": {"summary": summary, "requestBody": body, "responses": described}}


def description(metadata: Json, version: str, most: int) -> Json:
    """Return the description of all routes for a model, by its metadata and the most rows of a request."""
    model, example = metadata["name"], _examples(metadata)
    ready = "Whether scores can be answered: the session is open with all participants."
    described = _get("This description.", "Error")
    described["get"]["responses"]["200"]["content"]["application/json"]["schema"] = {"type": "object"}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "mpfedxgb: scores of a federated model",
            "version": version,
            "description": "REST of the Open Inference Protocol V2, and of MLflow's scoring server.",
        },
        "security": [{"token": []}, {}],
        "paths": {
            "/v2/health/live": _get("Whether the process answers.", "Live", is_closed=False),
            "/v2/health/ready": _get(ready, "Ready", _NOT_READY, is_closed=False),
            "/ping": _get(ready, "Ready", _NOT_READY, is_closed=False),
            "/v2": _get("What answers.", "Server"),
            f"/v2/models/{model}": _get("What the model takes and tells.", "Model"),
            f"/v2/models/{model}/ready": _get(ready, "Ready", _NOT_READY),
            f"/v2/models/{model}/infer": _post("Score rows.", "InferenceRequest", "InferenceAnswer", example),
            "/invocations": _post("Score rows, in MLflow's form.", "InvocationRequest", "InvocationAnswer", example),
            "/openapi.json": described,
        },
        "components": {
            "schemas": _SCHEMAS | _requests(metadata, most),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }
