"""What an operator sees of a role: metrics, health and log, of runs that end well and badly; and who may see it."""

from __future__ import annotations

import http.client
import json
import logging
from contextlib import closing
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mpfedxgb.cli.roles import JsonLines
from mpfedxgb.errors import PeerFailedError, RefusedError, SettingsError
from mpfedxgb.federation.log_context import logging_for
from mpfedxgb.federation.monitor import Monitor
from mpfedxgb.federation.scoring import BATCHES, NOT_ANSWERED, ROWS_ASKED
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.federation.status import Status, guard_at, status_over_http
from mpfedxgb.federation.web import Bounds, Guard, Starlette, bound, serving
from mpfedxgb.party import Party, run_roles
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.local import Outcome
from mpfedxgb.party.observer import Observer, Observers
from mpfedxgb.transport.transport import Address
from patience import patience
from support.refusals import refused
from support.role_files import least, write

TOKEN = "0123456789abcdef" * 4
ANY_PORT = Address("127.0.0.1", 0)


@pytest.fixture
def settings(tmp_path: Path) -> RoleSettings:
    """Return the active participant's settings; its certificate is not there."""
    return RoleSettings.from_toml(write(tmp_path, least("bank")))


def values(monitor: Monitor) -> dict[str, float]:
    """Return the metrics by name and labels' values."""
    text, kind = monitor.text("")
    assert kind.startswith("text/plain")
    samples = [s for family in text_string_to_metric_families(text.decode()) for s in family.samples]
    return {" ".join([s.name.removeprefix("mpfedxgb_"), *s.labels.values()]): s.value for s in samples}


def run(monitor: Observer, fails: bool = False) -> list[Outcome[None]]:
    """Run a small program with everybody; P_1 is watched."""

    def program(party: Party) -> None:
        with party.phase("first"):
            party.tell_everyone(Entry.NOT_FOUND, None if party.is_coordinator else [1])
        party.observer.on_round(3, 10)
        party.observer.on_milestone({BATCHES: 2, ROWS_ASKED: 50, NOT_ANSWERED: 1})
        if fails and party.role == 2:
            raise RefusedError("no more today")
        party.tell_everyone(Entry.NOT_FOUND, None if party.is_coordinator else [1])

    return run_roles(program, 2, observers=[Observer(), monitor, Observer()])


def test_attempts_add_up(settings: RoleSettings) -> None:
    """Of the one that runs and those before; errors count by their kind."""
    monitor, inside = Monitor(settings), dict[str, float]()

    class Look(Observer):
        def on_round(self, done: int, of: int) -> None:
            inside.update(values(monitor))

    before = values(monitor)
    assert (before["ready"], before["peers_connected"], before["peers"]) == (0, 0, 2)
    assert "certificate_days_left" not in before
    assert monitor.cause is not None

    outcomes = run(Observers(monitor, Look()))
    assert [outcome.error for outcome in outcomes] == [None] * 3
    assert (inside["ready"], inside["attempt"], inside["peers_connected"]) == (1, 1, 2)
    assert inside["message_rounds_total"] < outcomes[1].meter.total().rounds
    run(monitor)
    failed = run(monitor, fails=True)
    assert isinstance(failed[1].error, PeerFailedError)
    assert "no more today" in (monitor.cause or "")

    found = values(monitor)
    total = outcomes[1].meter.total()
    for peer, count in total.messages.items():
        assert found[f"messages_sent_total {peer}"] >= 2 * count
        assert found[f"bytes_sent_total {peer}"] >= 2 * total.wire_sent[peer]
        assert found[f"bytes_received_total {peer}"] >= 2 * total.wire_received[peer]
    assert 2 * total.rounds < found["message_rounds_total"] <= 3 * total.rounds
    assert found["phase_seconds_total first"] > outcomes[1].meter.phases["first"].seconds
    assert (found["batches_total"], found["rows_asked_total"], found["batches_not_found_total"]) == (6, 150, 3)
    assert (found["boosting_rounds_done"], found["boosting_rounds"]) == (3, 10)
    assert (found["attempts_ended_total done"], found["attempts_ended_total PeerFailedError"]) == (2, 1)
    assert (found["ready"], found["attempt"], found["peers_connected"]) == (0, 0, 0)


def test_all_observers_hear_of_the_end(settings: RoleSettings) -> None:
    """Whatever one of them raises, which is the run's error if it had none."""

    class Full(Observer):
        def on_end(self, error: BaseException | None) -> None:
            raise SettingsError("there is no room for the record")

    monitor = Monitor(settings)
    outcomes = run(Observers(Full(), monitor))
    assert str(outcomes[1].error) == "there is no room for the record"
    assert values(monitor)["attempts_ended_total done"] == 1


def ask(port: int, path: str, **headers: str) -> tuple[int, str]:
    """Return status and text of an answer."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=patience(30.0))) as connection:
        connection.request("GET", path, headers=headers)
        with connection.getresponse() as answer:
            return answer.status, answer.read().decode()


def test_who_may_see_it(settings: RoleSettings) -> None:
    """Health is told to everybody, causes and metrics to those with the token; without one, on this machine only."""
    causes: list[str | None] = ["telecom was lost"]
    for token in (TOKEN, None):
        status = Status(Monitor(settings), Guard(token), lambda: causes[0])
        with bound(ANY_PORT, "--http", 8) as listening:
            port = listening.getsockname()[1]
            with serving(Starlette(routes=status.routes()), listening, "health", Bounds(8, 60.0)):
                assert ask(port, "/healthz") == (200, '{"live": true}')
                assert ask(port, "/metrics", Authorization=f"Bearer {TOKEN}")[0] == 200
                known = ask(port, "/readyz", Authorization=f"Bearer {TOKEN}")
                assert known == (503, '{"ready": false, "error": "telecom was lost"}')
                stranger = ask(port, "/readyz", Host="evil.example"), ask(port, "/metrics", Host="evil.example")
                assert [code for code, _ in stranger] == ([503, 401] if token else [403, 403])
                assert "telecom" not in "".join(text for _, text in stranger)
                causes[0] = None
                assert ask(port, "/readyz") == (200, '{"ready": true}')
                assert ask(port, "/nothing")[0] == 404
                causes[0] = "telecom was lost"
    with refused(SettingsError, "missing", "serve.token_file"):
        guard_at(settings, Address("192.0.2.1", 80))


def test_it_ends_with_the_block(settings: RoleSettings, caplog: pytest.LogCaptureFixture) -> None:
    """And the log says where it answers."""
    with caplog.at_level(logging.INFO), status_over_http(settings, ANY_PORT) as monitor:
        port = int(caplog.text.rpartition(":")[2].partition("/")[0])
        assert "not all roles are there" in ask(port, "/readyz")[1]
        run(monitor)
        assert "the last session has ended" in ask(port, "/readyz")[1]
    with pytest.raises(ConnectionRefusedError):
        ask(port, "/healthz")


def test_lines_of_json_say_where_they_belong() -> None:
    """To which session, attempt and request, as far as they belong to one."""
    record = logging.makeLogRecord({"name": "mpfedxgb.session", "msg": "a line", "levelname": "INFO"})
    plain = json.loads(JsonLines().format(record))
    with logging_for(session="loans", attempt=3):
        with logging_for(request="r-1"):
            inner = json.loads(JsonLines().format(record))
        outer = json.loads(JsonLines().format(record))
    assert set(plain) == {"time", "level", "logger", "message"}
    assert (outer["session"], outer["attempt"], "request" in outer) == ("loans", 3, False)
    assert (inner["session"], inner["attempt"], inner["request"]) == ("loans", 3, "r-1")
    assert json.loads(JsonLines().format(record)).keys() == plain.keys()
