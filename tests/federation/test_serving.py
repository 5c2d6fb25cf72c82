"""Scores over HTTP, of real roles over mutual TLS: what is answered and refused, and what happens without a peer."""

from __future__ import annotations

import http.client
import itertools
import json
import re
import shlex
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from mpfedxgb import FedXGBClassifier
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.cli.exit_codes import ExitCode
from mpfedxgb.errors import FrameError, SettingsError
from mpfedxgb.federation.monitor import Monitor
from mpfedxgb.federation.record import read_record
from mpfedxgb.federation.scoring import BATCHES, RowsNotFoundError
from mpfedxgb.federation.serving.app import Service, serve_http
from mpfedxgb.federation.serving.batches import Batches, score_those_found
from mpfedxgb.federation.serving.bodies import metadata
from mpfedxgb.federation.serving.openapi import description
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.federation.web import Bounds, Guard, bound, read_token, serving
from mpfedxgb.transport.transport import Address
from patience import patience
from support.refusals import refused
from support.role_processes import PERSONS, WAIT, Place, place, tables
from test_readme import ROOT

if TYPE_CHECKING:
    from nursery import Nursery

ANY_PORT = Address("127.0.0.1", 0)
TOKEN = "0123456789abcdef" * 4
TO_SCORE = {name: table.drop(columns="label", errors="ignore") for name, table in tables(slice(40, 60)).items()}
OWN = "/v2/models/trial"


@dataclass
class Answer:
    """What a request was answered with."""

    status: int
    headers: dict[str, str]
    text: str

    @property
    def content(self) -> Any:
        """The JSON that it is."""
        return json.loads(self.text)


@dataclass
class Server:
    """Where scores are answered."""

    host: str
    asked: int = 0

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> Answer:
        """Ask for something; a body that is no bytes goes as JSON."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        told = {} if body is None else {"Content-Type": "application/json"}
        told |= {name.replace("_", "-"): value for name, value in headers.items()}
        with closing(http.client.HTTPConnection(self.host, timeout=patience(WAIT))) as connection:
            connection.request(method, path, data, told)
            with connection.getresponse() as found:
                return Answer(found.status, {k.lower(): v for k, v in found.getheaders()}, found.read().decode())

    def score(self, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return what rows are answered with."""
        self.asked += 1
        answer = self.ask("POST", "/invocations", {"dataframe_records": rows})
        assert answer.status == 200, answer.text
        assert answer.headers["cache-control"] == "no-store"
        return list(answer.content["predictions"])


@dataclass
class Served(Server):
    """A federation whose active participant answers, and where each role tells how it is."""

    made: Place | None = None
    roles: dict[int, Server] = field(default_factory=dict)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, nursery: Nursery) -> Iterator[Served]:
    """Return a federation that has trained and answers; its last test stops it."""
    with place(tmp_path_factory.mktemp("served"), nursery) as made:
        made.start_all()
        assert made.codes() == {0: 0, 1: 0, 2: 0}, made.logs()
        settings = made.trial.settings(1)
        settings.write_text(settings.read_text() + "\n[serve]\nmax_wait_ms = 30\n")
        made.start(0, "--http", "0")
        made.start(1, "--serve", "--http", "0")
        made.start(2, "--serve", "--http", "0")
        made.wait_for(1, "bank answers requests for scores")
        try:
            hosts = {role: Server(_host(made, role)) for role in (0, 1, 2)}
            yield Served(hosts[1].host, made=made, roles=hosts)
        finally:
            made.stop()


def _host(made: Place, role: int) -> str:
    """Return where a role answers, by its log."""
    made.wait_for(role, " on http://")
    (url,) = re.findall(r" on (http://\S+)", made.log(role))
    return str(urlsplit(url).netloc)


@pytest.fixture(scope="module")
def own(served: Served) -> tuple[RoleSettings, PartialModel]:
    """Return the active participant's settings and model."""
    assert served.made is not None
    settings = RoleSettings.from_toml(served.made.trial.settings(1))
    assert settings.role.model is not None
    return settings, PartialModel.load(settings.role.model)


def records(places: Sequence[int]) -> list[dict[str, Any]]:
    """Return some of bank's rows."""
    rows = [{str(name): value for name, value in row.items()} for row in TO_SCORE["bank"].to_dict("records")]
    return [rows[i] for i in places]


def by_simulation(served: Served) -> dict[str, list[float]]:
    """Return the probabilities of all rows, by id, as the parts together give them without a federation."""
    assert served.made is not None
    parts = [PartialModel.load(served.made.home(m) / f"{n}.mpfedxgb.json") for m, n in ((1, "bank"), (2, "telecom"))]
    ordered = {name: table.sort_values("person") for name, table in TO_SCORE.items()}
    given = {name: table.drop(columns="person") for name, table in ordered.items()}
    found = FedXGBClassifier.from_parts(parts).predict_proba(given)
    return dict(zip(ordered["bank"].person, found.tolist(), strict=True))


# What is answered


def test_scores_are_the_simulations_to_the_last_bit(served: Served) -> None:
    """In both forms, in the order of the request."""
    expected = by_simulation(served)
    rows = records([7, 0, 13, 2])
    found = served.score(rows)
    assert [row["id"] for row in found] == [row["person"] for row in rows]
    assert [row["probability"] for row in found] == [expected[row["person"]][1] for row in rows]
    assert {row["error"] for row in found} == {None}
    inputs = [
        {
            "name": name,
            "shape": [4],
            "datatype": "BYTES" if name == "person" else "FP64",
            "data": [r[name] for r in rows],
        }
        for name in rows[0]
    ]
    answer = served.ask("POST", f"{OWN}/infer", {"id": "q-1", "inputs": inputs}).content
    assert (answer["id"], answer["model_name"], answer["model_version"]) == ("q-1", "trial", found[0]["training"])
    for output in answer["outputs"]:
        assert output["data"] == [row[output["name"]] for row in found]
        assert output["shape"] == [4]
    chosen = served.ask("POST", f"{OWN}/infer", {"inputs": inputs, "outputs": [{"name": "probability"}]}).content
    assert [output["name"] for output in chosen["outputs"]] == ["probability"]


def test_forms_of_mlflow(served: Served) -> None:
    """All tell the same of the same rows."""
    rows = records([3, 4])
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    split = {"columns": list(rows[0]), "index": [0, 1], "data": [list(row.values()) for row in rows]}
    bodies = [{"dataframe_records": rows}, {"dataframe_split": split}, {"inputs": columns}, {"inputs": rows}]
    answers = [served.ask("POST", "/invocations", body) for body in bodies]
    assert {answer.status for answer in answers} == {200}
    assert len({answer.text for answer in answers}) == 1


def test_unknown_ids_are_answered_row_by_row(served: Served) -> None:
    """The others are scored, wherever the unknown ones stand; a missing value is null."""
    expected = by_simulation(served)
    stranger = {"person": "nobody", "bank_a": 1, "bank_b": None}
    found = served.score([stranger, *records([5, 6]), stranger | {"person": "none"}, *records([8])])
    errors = [row["error"] for row in found]
    assert errors == ["not found at telecom", None, None, "not found at telecom", None]
    for row, error in zip(found, errors, strict=True):
        if error is None:
            assert row["probability"] == expected[row["id"]][1]
        else:
            assert row["probability"] is row["prediction"] is None
    (alone,) = served.score([stranger])
    assert alone["error"] == "not found at telecom"


def test_many_at_a_time(served: Served) -> None:
    """Each gets its own rows' scores, also where several ask for the same row."""
    expected = by_simulation(served)
    for some, rows in ask_at_once(served):
        assert [row["probability"] for row in rows] == [expected[row["person"]][1] for row in records(some)]


def ask_at_once(served: Served) -> list[tuple[list[int], list[dict[str, Any]]]]:
    """Return which rows 40 requests of 20 clients asked for, and their answers."""
    places = [[i % 20, (i + 7) % 20] for i in range(40)]
    with ThreadPoolExecutor(20) as pool:
        return list(zip(places, pool.map(lambda some: served.score(records(some)), places), strict=True))


def test_the_description_is_of_what_is_answered(served: Served) -> None:
    """Every route is described, and every answer is as it says."""
    found = served.ask("GET", "/openapi.json").content
    assert found == description(served.ask("GET", OWN).content, served.ask("GET", "/v2").content["version"], 10_000)
    rows = records([1])
    inputs = [
        {"name": n, "shape": [1], "datatype": "BYTES" if n == "person" else "FP64", "data": [v]}
        for n, v in rows[0].items()
    ]
    bodies = {f"{OWN}/infer": {"inputs": inputs}, "/invocations": {"dataframe_records": rows}}
    for path, methods in found["paths"].items():
        for method, told in methods.items():
            assert served.ask("PUT", path).status == 405, path
            shown = told["requestBody"]["content"]["application/json"]["example"] if method == "post" else None
            for body, status in ((bodies.get(path), "200"), (shown, "200"), ({"x": 1}, "400"))[: 1 + 2 * bool(shown)]:
                answer = served.ask(method.upper(), path, body)
                assert str(answer.status) == status, (path, answer.text)
                schema = told["responses"][status]["content"]["application/json"]["schema"]
                assert list(faults(answer.content, schema, found)) == [], path
                if body is not None and status == "200":
                    asked = told["requestBody"]["content"]["application/json"]["schema"]
                    assert list(faults(body, asked, found)) == []
    assert served.ask("GET", "/v2/models/other").status == 404


def faults(value: Any, schema: dict[str, Any], whole: dict[str, Any], at: str = "") -> Iterator[str]:
    """Yield where a value is not as a schema of the description says, for the words of JSON Schema that it uses."""
    known = {"$ref", "oneOf", "type", "items", "properties", "required", "additionalProperties", "enum"}
    assert schema.keys() <= known | {"minItems", "maxItems", "uniqueItems"}, schema
    if "$ref" in schema:
        schema = whole["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if "oneOf" in schema:
        if sum(not list(faults(value, one, whole)) for one in schema["oneOf"]) != 1:
            yield f"{at} is not one of them"
        return
    if value not in schema.get("enum", [value]) or not is_of_type(value, schema):
        yield f"{at} is no {schema}"
    if isinstance(value, list) and "items" in schema:
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            yield f"{at} has {len(value)} values"
        for i, one in enumerate(value):
            yield from faults(one, schema["items"], whole, f"{at}[{i}]")
    if isinstance(value, dict) and "properties" in schema:
        yield from (f"{at} lacks {name}" for name in schema["required"] if name not in value)
        for name, one in value.items():
            if name in schema["properties"]:
                yield from faults(one, schema["properties"][name], whole, f"{at}.{name}")
            elif not schema["additionalProperties"]:
                yield f"{at} has {name}"


def is_of_type(value: Any, schema: dict[str, Any]) -> bool:
    """Return whether a value is of one of the types that a schema names; of any if it names none."""
    kinds: dict[str, Any] = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
    kinds |= {"integer": int, "number": (int, float)}
    wanted = schema.get("type", list(kinds))
    return any(isinstance(value, kinds[kind]) for kind in ([wanted] if isinstance(wanted, str) else wanted))


def test_what_documents_show_is_answered(served: Served) -> None:
    """Every line with curl in the page, with the columns of these tables."""
    (block,) = re.findall(r"```sh\n(curl .*?)```", (ROOT / "docs" / "deployment.md").read_text(), re.DOTALL)
    lines = [shlex.split(line) for line in block.replace("\\\n", " ").splitlines()]
    assert len(lines) >= 4
    names = {"loans": "trial", "customer": "person", "age": "bank_a", "income": "bank_b", "c-1001": "person-52041"}
    for words in lines:
        assert words[:2] == ["curl", "-s"]
        text = re.sub("|".join(names), lambda found: names[found[0]], "\n".join(words[2:]))
        options = text.split("\n")
        url = urlsplit(next(word for word in options if word.startswith("http://localhost:8080/")))
        body = options[options.index("-d") + 1].encode() if "-d" in options else None
        headers = dict(options[i + 1].split(": ", 1) for i, word in enumerate(options) if word == "-H")
        answer = served.ask("GET" if body is None else "POST", url.path, body, **headers)
        assert answer.status == 200, (words, answer.text)
        assert "not found" not in answer.text


# What is refused


@contextmanager
def answering(settings: RoleSettings, model: PartialModel, token: str | None = None) -> Iterator[Server]:
    """Answer in this process, as a role does whose session is not open."""
    monitor = Monitor(settings)
    app = Service(settings, model, Batches(settings, model, monitor), Guard(token), monitor).app()
    with bound(ANY_PORT, "--http", 16) as listening, serving(app, listening, "scores", Bounds(64, 60.0, renews=True)):
        yield Server(f"127.0.0.1:{listening.getsockname()[1]}")


ROW = {"person": "p", "bank_a": 1.0, "bank_b": 2.0}


def tensors(**changes: Any) -> dict[str, Any]:
    """Return a request of the Open Inference Protocol whose first tensor is changed."""
    first = {"name": "person", "shape": [1], "datatype": "BYTES", "data": ["p"], **changes}
    others = [{"name": n, "shape": [1], "datatype": "FP64", "data": [1.0]} for n in ("bank_a", "bank_b")]
    return {"inputs": [first, *others]}


MALFORMED: list[tuple[str, object, str]] = [
    ("/invocations", b"", "not JSON"),
    ("/invocations", b"{", "not JSON"),
    ("/invocations", b"[" * 100_000, "not JSON"),
    ("/invocations", b"\xff{}", "not JSON"),
    ("/invocations", b'{"dataframe_records": [{"person": "p", "bank_a": NaN, "bank_b": 1}]}', "not JSON"),
    ("/invocations", b'{"inputs": {}, "inputs": {}}', "not JSON"),
    ("/invocations", b"9" * 5000, "not JSON"),
    ("/invocations", [], "not a JSON object"),
    ("/invocations", {}, "give one of dataframe_split"),
    ("/invocations", {"inputs": [ROW], "dataframe_records": [ROW]}, "give one of"),
    ("/invocations", {"dataframe_records": []}, "not a list of objects"),
    ("/invocations", {"inputs": {"person": [], "bank_a": [], "bank_b": []}}, "no rows"),
    ("/invocations", {"inputs": {"person": ["p"], "bank_a": [1], "bank_b": [1, 2]}}, "equally long"),
    ("/invocations", {"inputs": {"person": "p"}}, "not an object of lists"),
    ("/invocations", {"dataframe_records": [ROW, {"person": "q"}]}, "different columns"),
    ("/invocations", {"dataframe_split": {"columns": ["a", "a"], "data": []}}, "different names"),
    ("/invocations", {"dataframe_split": {"columns": ["a"], "data": [[1, 2]]}}, "a value for each column"),
    ("/invocations", {"dataframe_records": [{"person": "p", "bank_a": 1}]}, "lacks columns: 'bank_b'"),
    ("/invocations", {"dataframe_records": [ROW | {"label": 1}]}, "has unknown columns: 'label'"),
    ("/invocations", {"dataframe_records": [ROW | {"bank_a": "1"}]}, "'bank_a' has values that are no numbers"),
    ("/invocations", {"dataframe_records": [ROW | {"bank_a": [1]}]}, "'bank_a' has values that are no numbers"),
    ("/invocations", {"dataframe_records": [ROW | {"bank_a": 10**400}]}, "too large"),
    ("/invocations", {"dataframe_records": [ROW | {"bank_a": 1e300}]}, "bank_a"),
    ("/invocations", {"dataframe_records": [ROW | {"person": None}]}, "neither text nor whole numbers"),
    ("/invocations", {"dataframe_records": [ROW | {"person": ""}]}, "have no id"),
    ("/invocations", {"dataframe_records": [ROW | {"person": "\ud800"}]}, "UTF-8"),
    ("/invocations", {"dataframe_records": [ROW, ROW]}, "repeat an id"),
    ("/invocations", {"dataframe_records": [ROW | {"person": str(i)} for i in range(501)]}, "max_batch = 500"),
    (f"{OWN}/infer", {"inputs": []}, "not a list of tensors"),
    (f"{OWN}/infer", {"inputs": [1]}, "not a list of tensors"),
    (f"{OWN}/infer", tensors(shape=[2]), "shape is not [1]"),
    (f"{OWN}/infer", tensors(datatype="TEXT"), "datatype is one of"),
    (f"{OWN}/infer", tensors(data=[1]), "no BYTES"),
    (f"{OWN}/infer", tensors(datatype="INT64", data=[True]), "no INT64"),
    (f"{OWN}/infer", tensors(name="bank_a"), "a name of its own"),
    (f"{OWN}/infer", tensors(extra=1), "a tensor has 'extra'"),
    (f"{OWN}/infer", {**tensors(), "outputs": [{"name": "leaf"}]}, "no output 'leaf'"),
    (f"{OWN}/infer", {**tensors(), "id": 5}, "id is not a text"),
    (f"{OWN}/infer", {**tensors(), "model_name": "other"}, "model_name is not 'trial'"),
    (f"{OWN}/infer", {**tensors(), "outputs": None}, "outputs is not a list"),
    (f"{OWN}/infer", {**tensors(), "parameters": 5}, "parameters is not an object"),
    (f"{OWN}/infer", tensors(parameters=[]), "tensor 'person': parameters is not an object"),
    ("/invocations", {"dataframe_split": {"columns": ["a"], "data": [], "index": 1}}, "index is not a list"),
]


def test_bodies_that_cannot_be_used(own: tuple[RoleSettings, PartialModel], caplog: pytest.LogCaptureFixture) -> None:
    """Each is refused in a line that says why, and nothing of it is logged."""
    settings, model = own
    with answering(replace(settings, serve=replace(settings.serve, max_batch=500)), model) as server:
        for path, body, said in MALFORMED:
            answer = server.ask("POST", path, body)
            assert (answer.status, list(answer.content)) == (400, ["error"]), (body, answer.text)
            assert said in answer.content["error"], body
    assert caplog.text == ""


def test_what_is_no_json_or_too_long(own: tuple[RoleSettings, PartialModel]) -> None:
    """Whether its length is announced or not; a body that does not come, or ends early, is not waited for."""
    settings, model = own
    long = b" " * ((1 << 20) + 1)
    with answering(replace(settings, serve=replace(settings.serve, max_body_mb=1)), model) as server:
        for kind in ("text/plain", "application/octet-stream", "application/json; charset=latin-1"):
            assert server.ask("POST", "/invocations", b"{}", Content_Type=kind).status == 415
        assert server.ask("POST", "/invocations", long).status == 413
        host, port = server.host.split(":")
        with socket.create_connection((host, int(port)), patience(WAIT)) as raw:
            head = "POST /invocations HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            raw.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
            raw.sendall(f"{len(long):x}\r\n".encode() + long)
            assert raw.recv(100).startswith(b"HTTP/1.1 413")


def test_who_may_ask(own: tuple[RoleSettings, PartialModel]) -> None:
    """Only those with the token, but for whether it is well; without one, only who calls this machine by its name."""
    settings, model = own
    paths = description(metadata(settings, "trial", model), "1", 500)["paths"]
    health = {"/v2/health/live", "/v2/health/ready", "/ping"}
    with answering(settings, model, TOKEN) as server:
        for path, methods in paths.items():
            (method,) = methods
            for given in ({}, {"Authorization": TOKEN}, {"Authorization": f"Bearer {TOKEN}0"}):
                answer = server.ask(method.upper(), path, **given)
                assert (answer.status == 401) == (path not in health), path
                assert "not open" not in answer.text
            known = server.ask(method.upper(), path, Authorization=f"Bearer {TOKEN}")
            assert known.status not in (401, 403), path
        assert "not open" in server.ask("GET", "/ping", Authorization=f"Bearer {TOKEN}").text
    with answering(settings, model) as server:
        assert server.ask("GET", "/v2", Host="evil.example").status == 403
        assert [server.ask("GET", "/v2", Host=h).status for h in ("localhost:9", "[::1]:9", "127.0.0.1")] == [200] * 3


def test_tokens_that_are_none(tmp_path: Path, own: tuple[RoleSettings, PartialModel]) -> None:
    """A file that others can read, or with something else in it, is refused; without one, so is another host."""
    path = tmp_path / "token"
    with refused(SettingsError, "file", "serve.token_file"):
        read_token(path)
    path.write_text(f"{TOKEN}\n")
    path.chmod(0o640)
    with pytest.raises(SettingsError, match=r"others can read .* chmod 600"):
        read_token(path)
    path.chmod(0o600)
    assert read_token(path) == TOKEN
    for text in ("", "short", f"{TOKEN} {TOKEN}", "x" * 2000):
        path.write_text(text)
        with refused(SettingsError, "value", "serve.token_file"):
            read_token(path)
    with refused(SettingsError, "missing", "serve.token_file"):
        serve_http(*own, Address("192.0.2.1", 80))


def test_requests_that_wait_too_long_or_are_too_many(own: tuple[RoleSettings, PartialModel]) -> None:
    """They are told the cause, and when to come again."""
    settings, model = own
    few = replace(settings, serve=replace(settings.serve, timeout=1.0, max_waiting=2))
    body = {"dataframe_records": [ROW, ROW | {"person": "q"}]}
    with answering(few, model) as server, ThreadPoolExecutor(1) as pool:
        first = pool.submit(server.ask, "POST", "/invocations", body)
        end = time.monotonic() + patience(WAIT)
        while "max_waiting is 2" not in (answer := server.ask("POST", "/invocations", body)).text:
            assert time.monotonic() < end
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        waited = first.result()
        assert waited.status == 503
        assert "session is not open yet" in waited.text or "max_waiting" in waited.text
    assert threading.active_count() < 50


# Whom a participant lacks


@pytest.mark.parametrize("size", [1, 2, 5, 6])
def test_rows_that_are_found_are_scored(size: int) -> None:
    """Whichever two participants lack: all others are scored once, and each that is lacked is told with a name."""
    choices = [set(some) for n in range(size + 1) for some in itertools.combinations(range(size), n)]
    for first, second in itertools.product(choices[:: 1 + size // 4], choices[:: 1 + size // 3]):
        scored: list[int] = []
        found = score_those_found(asking(first, second, scored), size)
        assert sorted(scored) == [i for i in range(size) if i not in first | second]
        assert found.lacking.keys() == first | second
        for i, names in found.lacking.items():
            assert set(names) <= {n for n, some in (("telecom", first), ("retail", second)) if i in some} != set()
        np.testing.assert_array_equal(found.margins[0, scored], np.array(scored) + 0.5)


@pytest.mark.parametrize("counts", [[5], [3, 0], [1, 2]])
def test_numbers_that_do_not_fit_end_the_search(counts: list[int]) -> None:
    """An auxiliary that tells more, or fewer, missing rows of a batch than of its parts ends the request, by name."""
    left = iter(counts)

    def ask(places: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        if count := next(left, 0):
            raise RowsNotFoundError("some are not found", {"telecom": count})
        return np.zeros((1, len(places)))

    with refused(FrameError, "damaged", "telecom"):
        score_those_found(ask, 4)


def asking(
    first: set[int], second: set[int], scored: list[int]
) -> Callable[[npt.NDArray[np.int64]], npt.NDArray[np.float64]]:
    """Return how a session answers where telecom and retail lack some rows."""

    def ask(places: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        counts = {"telecom": len(first & {*places.tolist()}), "retail": len(second & {*places.tolist()})}
        if any(counts.values()):
            raise RowsNotFoundError("some are not found", {name: n for name, n in counts.items() if n})
        scored.extend(places.tolist())
        return places[None, :].astype(np.float64) + 0.5

    return ask


# What operators see


def metrics(server: Server) -> dict[str, float]:
    """Return a role's metrics by name and labels' values."""
    answer = server.ask("GET", "/metrics")
    assert answer.status == 200, answer.text
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(answer.text):
        found |= {" ".join([s.name, *s.labels.values()]): s.value for s in family.samples}
    return found


def test_every_role_is_watched(served: Served) -> None:
    """Health and metrics at each: what has been scored, sent and waited for, by name; and no id."""
    made = served.made
    assert made is not None
    before = {role: metrics(server) for role, server in served.roles.items()}
    served.score(records([1, 2, 3]))
    assert served.ask("GET", "/v2/models/other").status == 404
    assert served.ask("POST", "/invocations", b"{").status == 400
    asked, end = "mpfedxgb_rows_asked_total", time.monotonic() + patience(WAIT)
    while any(metrics(server)[asked] == before[role][asked] for role, server in served.roles.items()):
        assert time.monotonic() < end, "a role counts no rows; each does after it has written its record"
        time.sleep(0.01)
    after = {role: metrics(server) for role, server in served.roles.items()}
    for role, server in served.roles.items():
        assert (server.ask("GET", "/healthz").content, server.ask("GET", "/readyz").content) == (
            {"live": True},
            {"ready": True},
        )
        assert after[role][asked] == before[role][asked] + 3
        assert after[role]["mpfedxgb_phase_seconds_total predict"] > 0
        assert after[role]["mpfedxgb_peers_connected"] == after[role]["mpfedxgb_peers"] == 2
        assert 0 < after[role]["mpfedxgb_certificate_days_left"] < 3660
        for peer in set(range(3)) - {role}:
            name = made.trial.roster.name(peer)
            assert after[role][f"mpfedxgb_bytes_received_total {name}"] > 0
        assert not [person for person in PERSONS if person in server.ask("GET", "/metrics").text]
    route = "mpfedxgb_requests_total /invocations"
    assert after[1][f"{route} 200"] == before[1].get(f"{route} 200", 0) + 1
    assert after[1][f"{route} 400"] == before[1].get(f"{route} 400", 0) + 1
    assert after[1]["mpfedxgb_request_seconds_count"] == before[1]["mpfedxgb_request_seconds_count"] + 2
    assert after[1]["mpfedxgb_rows_waiting"] == 0


def test_ids_of_requests(served: Served) -> None:
    """A caller's own is kept if it is a UUID, which names nobody; all others are new."""
    own = "0b8f3c9e-1d2a-4c5b-8e7f-001122334455"
    assert served.ask("GET", "/ping", X_Request_Id=own).headers["x-request-id"] == own
    other = served.ask("GET", "/ping", X_Request_Id="c-1001").headers["x-request-id"]
    assert len(other) == 36
    assert other != own


DEPLOY = ROOT / "docs" / "deploy"
NAMES = re.compile(r"\b(?:mpfedxgb|process)_[a-z_]+")


def test_the_dashboard_and_the_alerts_name_what_there_is(served: Served) -> None:
    """Every metric in them is reported by some role; every panel has one."""
    served.score(records([1]))  # what counts by labels is there as soon as something was counted
    told = {name.split()[0] for server in served.roles.values() for name in metrics(server)}
    told |= {"mpfedxgb_attempts_ended_total"}  # of a role that serves, as soon as a session has ended
    panels = json.loads((DEPLOY / "grafana-dashboard.json").read_text())["panels"]
    asked = [target["expr"] for panel in panels for target in panel["targets"]]
    assert len(asked) >= len(panels) >= 10
    rules = yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"][0]["rules"]
    for expression in [*asked, *(rule["expr"] for rule in rules if rule["alert"] != "RoleDown")]:
        names = set(NAMES.findall(expression))
        assert names, expression
        assert names <= told, expression


@pytest.mark.skipif(shutil.which("promtool") is None, reason="Prometheus' promtool is not installed on this machine")
def test_alert_rules() -> None:
    """Configuration and rules are what Prometheus takes, and each rule fires when it should, and only then."""
    for words in (["check", "config", "prometheus.yml"], ["test", "rules", "alerts-test.yml"]):
        command, limit = [str(shutil.which("promtool")), *words], patience(60.0)
        done = subprocess.run(command, cwd=DEPLOY, capture_output=True, text=True, timeout=limit)  # noqa: S603 # ours
        assert done.returncode == 0, done.stdout + done.stderr
    tried = (DEPLOY / "alerts-test.yml").read_text()
    rules = yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"][0]["rules"]
    for rule in rules:
        assert f'{{alertname="{rule["alert"]}", alertstate="firing"' in tried, "no test lets it fire"


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="Prometheus is not installed on this machine")
def test_a_real_prometheus(served: Served, tmp_path: Path) -> None:
    """It scrapes all roles with the configuration of the documents, and the alert rules can be evaluated."""
    config = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "500ms", "evaluation_interval": "500ms"}
    config["rule_files"] = [str(DEPLOY / "alerts.yml")]
    config["scrape_configs"][0]["static_configs"][0]["targets"] = [server.host for server in served.roles.values()]
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    with socket.create_server(("127.0.0.1", 0)) as free:
        host = f"127.0.0.1:{free.getsockname()[1]}"
    command = [str(shutil.which("prometheus")), "--config.file=prometheus.yml", "--storage.tsdb.path=data"]
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen([*command, f"--web.listen-address={host}"], cwd=tmp_path, stdout=log, stderr=log) as process,  # noqa: S603 # ours
    ):
        try:
            query = "/api/v1/query?query=mpfedxgb_ready%20and%20on(instance)%20up"
            found: list[Any] = []
            end = time.monotonic() + patience(WAIT)
            while len(found) < 3 or {row["value"][1] for row in found} != {"1"}:
                assert time.monotonic() < end, (found, (tmp_path / "log").read_text())
                time.sleep(0.2)
                with suppress(OSError, http.client.HTTPException):
                    answer = Server(host).ask("GET", query)
                    found = answer.content["data"]["result"] if answer.status == 200 else []
            assert {row["metric"]["instance"] for row in found} == {server.host for server in served.roles.values()}
            rules = Server(host).ask("GET", "/api/v1/rules").content["data"]["groups"][0]["rules"]
            assert {rule["health"] for rule in rules} <= {"ok", "unknown"}
            assert len(rules) == 10
        finally:
            process.terminate()


# Newer files


def test_a_table_is_taken_up_while_requests_come(served: Served) -> None:
    """Within the session: a file that changes, or SIGHUP; what cannot be used is said, and the old table answers."""
    made, expected = served.made, by_simulation(served)
    assert made is not None
    sessions = made.log(1).count("bank is connected with its peers")
    table = made.home(2) / "score.csv"
    text = table.read_text()
    (row,) = records([11])
    person = row["person"]

    def change(content: str) -> None:
        other = table.with_name("new.csv")
        other.write_text(content)
        other.rename(table)

    def wait_for(error: str | None) -> dict[str, Any]:
        end = time.monotonic() + patience(WAIT)
        while (found := served.score([row])[0])["error"] != error:
            assert time.monotonic() < end, (found, made.log(2))
            time.sleep(0.05)
        return found

    change("".join(line for line in text.splitlines(keepends=True) if person not in line))
    wait_for("not found at telecom")
    change("nothing,of,use\n1,2,3\n")
    made.wait_for(2, "what was read before stays in use")
    wait_for("not found at telecom")
    change(text)
    assert wait_for(None)["probability"] == expected[person][1]
    again = made.log(2).count("has read its files again, for the next batch on")
    made.children[2].send_signal(signal.SIGHUP)
    end = time.monotonic() + patience(WAIT)
    while made.log(2).count("has read its files again, for the next batch on") == again:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert wait_for(None)["probability"] == expected[person][1]
    assert made.log(1).count("bank is connected with its peers") == sessions
    assert person not in made.logs()


# The end


def test_a_lost_peer_and_a_stop(served: Served) -> None:
    """Ready says no and why within seconds; with the peer back all goes on; a signal ends all of it well."""
    made, expected = served.made, by_simulation(served)
    assert made is not None
    ask_at_once(served)
    made.children[2].kill()
    made.children[2].wait(patience(WAIT))
    end = time.monotonic() + patience(5.0)
    for server in (served, served.roles[0]):
        while (answer := server.ask("GET", "/readyz")).status == 200:
            assert time.monotonic() < end, "nobody noticed within 5 seconds"
            time.sleep(0.05)
        assert (answer.status, answer.content["ready"]) == (503, False)
        assert "telecom" in answer.content["error"]
        assert server.ask("GET", "/healthz").status == 200
    assert served.ask("GET", "/v2/health/ready").status == 503
    found = metrics(served.roles[0])
    assert (found["mpfedxgb_ready"], found["mpfedxgb_peers_connected"]) == (0, 0)
    made.start(2, "--serve")
    (row,) = served.score(records([9]))
    assert row["probability"] == expected[row["id"]][1]
    assert served.ask("GET", "/ping").status == 200

    made.children[1].terminate()
    assert made.children[1].wait(patience(WAIT)) == ExitCode.DONE, made.log(1)
    made.wait_for(2, "telecom has finished a session")
    with pytest.raises(ConnectionRefusedError):
        served.ask("GET", "/v2/health/live")
    for role in (0, 2):
        made.children[role].terminate()
    assert made.codes() == {0: ExitCode.STOPPED, 1: ExitCode.DONE, 2: ExitCode.STOPPED}
    history = read_record(RoleSettings.from_toml(made.trial.settings(1)))
    batches = sum(attempt.content.get(BATCHES, 0) for attempt in history.attempts)
    assert 0 < batches < served.asked, "requests that waited were scored together"
