"""`doctor`: finds what would stop a role, says what to do, and changes nothing."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from mpfedxgb import FedXGBClassifier
from mpfedxgb.cli.init import init
from mpfedxgb.federation import doctor
from mpfedxgb.federation.quota import RowsPerDay
from mpfedxgb.transport import certificates
from mpfedxgb.transport.certificates import Authority
from mpfedxgb.transport.tls.messages import message
from mpfedxgb.transport.tls.rendezvous import WIRE_VERSION
from support.commands import Shell


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Return a shell."""
    return Shell(monkeypatch, capsys)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a federation as init writes it."""
    folder = tmp_path_factory.mktemp("template") / "fed"
    init(folder, participants="bank,telecom")
    return folder


@pytest.fixture
def fed(template: Path, tmp_path: Path) -> Path:
    """Return a copy of it with ports of its own."""
    folder = tmp_path / "fed"
    shutil.copytree(template, folder)
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0))
        two.bind(("127.0.0.1", 0))
        ports = [one.getsockname()[1], two.getsockname()[1]]
    for role in ("coordinator", "bank", "telecom"):
        path = folder / role / f"{role}.toml"
        before = [line.split(":")[1].split('"')[0] for line in _lines(template, "telecom", ("coordinator", "active"))]
        text = path.read_text()
        for old, new in zip(before, ports, strict=True):
            text = text.replace(f"127.0.0.1:{old}", f"127.0.0.1:{new}")
        path.write_text(text)
    return folder


def _lines(folder: Path, role: str, keys: tuple[str, ...]) -> list[str]:
    lines = (folder / role / f"{role}.toml").read_text().splitlines()
    return [next(line for line in lines if line.startswith(f"{key} = ") and ":" in line) for key in keys]


def port(fed: Path, role: str, key: str) -> int:
    """Return the port of an address in a settings file."""
    return int(_lines(fed, role, (key,))[0].split(":")[1].split('"')[0])


def edit(fed: Path, role: str, old: str, new: str) -> None:
    """Change a role's settings."""
    path = fed / role / f"{role}.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def examined(shell: Shell, fed: Path, role: str) -> dict[str, list[tuple[str, str]]]:
    """Return what the doctor finds: by check, level and text."""
    code = shell.run("doctor", fed / role / f"{role}.toml", "--json")
    report = json.loads(shell.out)
    found: dict[str, list[tuple[str, str]]] = {}
    for finding in report["findings"]:
        found.setdefault(finding["check"], []).append((finding["level"], finding["text"]))
    levels = [level for findings in found.values() for level, _ in findings]
    assert code == (2 if "problem" in levels else 0)
    assert (report["problems"], report["warnings"]) == (levels.count("problem"), levels.count("warning"))
    return found


def snapshot(folder: Path) -> dict[str, bytes | None]:
    """Return everything below a folder."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@contextmanager
def listening(fed: Path, role: str, number: int, wants: str = "ca.crt") -> Iterator[None]:
    """Listen as a role would, on one of its ports, for one connection after the other."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(fed / role / f"{role}.crt", fed / role / f"{role}.key")
    context.load_verify_locations(fed / role / wants)
    server = socket.create_server(("127.0.0.1", number))

    def serve() -> None:
        while True:
            try:
                plain, _ = server.accept()
            except OSError:
                return
            try:
                with context.wrap_socket(plain, server_side=True) as secured:
                    secured.sendall(message({"wire": WIRE_VERSION}))
                    secured.recv(1)
            except OSError:
                plain.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(5)


class TestReady:
    """A federation as init writes it."""

    @pytest.mark.parametrize("role", ["coordinator", "bank", "telecom"])
    def test_no_problems(self, shell: Shell, fed: Path, role: str) -> None:
        """Peers that are not there yet are the only warnings, and nothing is written."""
        before = snapshot(fed)
        found = examined(shell, fed, role)
        levels = {check: {level for level, _ in findings} for check, findings in found.items()}
        assert levels.pop("peers", {"warning"}) == {"warning"}
        assert set(map(tuple, levels.values())) == {("ok",)}
        expected = {"settings", "clock", "certificate", "key", "versions"}
        expected |= {"data", "room", "state"} if role != "coordinator" else set()
        expected |= {"port"} if role != "telecom" else {"scoring"}
        assert set(levels) == expected
        assert snapshot(fed) == before

    def test_lines(self, shell: Shell, fed: Path) -> None:
        """One line per finding for people, and a last one that counts."""
        assert shell.run("doctor", fed / "bank" / "bank.toml") == 0
        lines = shell.out.splitlines()
        assert lines[-1] == "no problems, 1 warning"
        assert lines[-2] == ""
        for line in lines[:-2]:
            assert line[:8].strip() in ("ok", "warning", "problem")
        assert "bank (active) of the federation trial" in lines[0]
        assert any("600 rows" in line and "5 features (1 of words), a label of 2 classes" in line for line in lines)
        assert shell.err == ""

    def test_versions(self, shell: Shell, fed: Path) -> None:
        """What to compare when roles do not understand each other."""
        ((_, text),) = examined(shell, fed, "coordinator")["versions"]
        for package in ("mpfedxgb ", "Python ", "numpy ", "xgboost "):
            assert package in text


class TestSettings:
    """A file that cannot be read."""

    @pytest.mark.parametrize("content", ["", "[federation]\nname = 3\n", "no toml", '[tls]\npassphrase = "horse"\n'])
    def test_problem(self, shell: Shell, tmp_path: Path, content: str) -> None:
        """It is the first and last thing that is looked at, but for versions."""
        (tmp_path / "role.toml").write_text(content)
        assert shell.run("doctor", tmp_path / "role.toml") == 2
        assert shell.out.startswith("problem settings ")
        assert "horse" not in shell.out
        assert "versions" in shell.out
        assert "1 problem, no warnings" in shell.out
        assert shell.run("doctor", tmp_path / "gone.toml") == 2


class TestData:
    """Tables are read as a session would read them."""

    @pytest.mark.parametrize(
        ("change", "says"),
        [
            (lambda t: t.drop(columns="customer_id"), "there is no id column 'customer_id'"),
            (lambda t: pd.concat([t, t.head(3)]), "3 of 603 rows repeat an id"),
            (lambda t: t.drop(columns="defaulted"), r"[label] column names a column 'defaulted'"),
            (lambda t: t.assign(defaulted="yes"), "all labels are the same"),
            (lambda t: t.assign(age=float("inf")), "infinity"),
            (lambda t: t.head(0), "has no rows"),
            (lambda t: t.assign(age=["n.a.", *t["age"][1:]]), "line 2: column 'age' holds 'n.a.', which is not a"),
            (lambda t: t.assign(age=[*t["age"][:-1], "1.234,0"]), "line 601: column 'age' holds '1.234,0'"),
        ],
    )
    def test_problems(self, shell: Shell, fed: Path, change: Any, says: str) -> None:
        """The file, and what to do."""
        path = fed / "bank" / "train.csv"
        change(pd.read_csv(path)).to_csv(path, index=False)
        level, text = examined(shell, fed, "bank")["data"][0]
        assert level == "problem"
        assert text.startswith("train (train.csv): ")
        assert says in text

    def test_short_lines_and_workbooks(self, shell: Shell, fed: Path) -> None:
        """A line without its last value is a problem with its number, and a workbook is called one."""
        path = fed / "telecom" / "train.csv"
        lines = path.read_text().splitlines()
        lines[7] = lines[7].rpartition(",")[0]
        path.write_text("\n".join(lines))
        level, text = examined(shell, fed, "telecom")["data"][0]
        assert level == "problem"
        assert "train.csv: line 8 has 5 values for the 6 column names of the header" in text
        path.rename(path.with_suffix(".xlsx"))
        edit(fed, "telecom", "train.csv", "train.xlsx")
        level, text = examined(shell, fed, "telecom")["data"][0]
        assert level == "problem"
        assert "train.xlsx is an Excel workbook; export its sheet as CSV (UTF-8) or Parquet" in text

    def test_missing_values(self, shell: Shell, fed: Path) -> None:
        """What [data] missing names is missing, and the column holds numbers."""
        path = fed / "bank" / "train.csv"
        frame = pd.read_csv(path)
        frame.assign(age=["n.a.", *frame["age"][1:]]).to_csv(path, index=False)
        edit(fed, "bank", '# missing = ["n.a."]', 'missing = ["n.a."]')
        level, text = examined(shell, fed, "bank")["data"][0]
        assert level == "ok"
        assert "5 features (1 of words)" in text

    def test_messages_before_there_is_a_model(self, shell: Shell, fed: Path) -> None:
        """Evaluation rows are compared with the training table, which is there, and not with a model."""
        path = fed / "telecom" / "evaluate.csv"
        table = pd.read_csv(path)
        name = next(name for name in table.columns if table[name].dtype.kind == "f")
        for change in (table.drop(columns=name), table.assign(more=1), table.assign(tariff=2.5)):
            change.to_csv(path, index=False)
            found = examined(shell, fed, "telecom")["data"]
            texts = [text for level, text in found if level == "problem"]
            assert all("model" not in text and "trained" not in text for text in texts)
            assert len(texts) == (0 if "tariff" in change and change["tariff"].dtype.kind == "f" else 1)

    def test_missing_file(self, shell: Shell, fed: Path) -> None:
        """A file that is not there is one problem, not the end."""
        (fed / "telecom" / "evaluate.csv").unlink()
        levels = [level for level, _ in examined(shell, fed, "telecom")["data"]]
        assert levels == ["ok", "problem", "ok"]

    def test_scoring_as_trained(self, shell: Shell, fed: Path) -> None:
        """Rows to score need the columns of the rows to train on."""
        path = fed / "telecom" / "score.csv"
        pd.read_csv(path).drop(columns="tariff").to_csv(path, index=False)
        assert examined(shell, fed, "telecom")["data"][2][0] == "problem"

    @pytest.mark.parametrize(
        ("change", "says"),
        [
            (lambda t: t.assign(same=1.0), "column 'same' has the same value in all rows"),
            (lambda t: t.assign(none=float("nan")), "column 'none' has no value in all rows"),
            (lambda t: t.assign(name=[f"n{i}" for i in range(len(t))]), "column 'name' has 600 words for 600 rows"),
            (lambda t: t.reset_index().rename(columns={"index": ""}), "'Unnamed: 0' has no name in the file"),
            (lambda t: t[["customer_id"]], "there is no column to learn from"),
        ],
    )
    def test_warnings(self, shell: Shell, fed: Path, change: Any, says: str) -> None:
        """Columns that are probably a mistake."""
        path = fed / "telecom" / "train.csv"
        change(pd.read_csv(path)).to_csv(path, index=False)
        edit(fed, "telecom", "evaluate = ", "# evaluate = ")
        edit(fed, "telecom", "predict = ", "# predict = ")
        warnings = [text for level, text in examined(shell, fed, "telecom")["data"] if level == "warning"]
        assert len(warnings) == 1
        assert says in warnings[0]

    def test_a_role_that_only_scores(self, shell: Shell, fed: Path) -> None:
        """It may do without rows to train on."""
        edit(fed, "telecom", "train = ", "# train = ")
        found = examined(shell, fed, "telecom")["data"]
        assert found[0] == ("warning", "[data] train is not set; this role can only score")


class TestScoring:
    """How much may be asked of an auxiliary participant."""

    def test_limits(self, shell: Shell, fed: Path) -> None:
        """None is set at first; one that is used up is a warning, a damaged count a problem."""
        assert "max_rows_per_day would" in examined(shell, fed, "telecom")["scoring"][0][1]
        edit(fed, "telecom", "# max_rows_per_day = 10000", "max_rows_per_day = 9")
        assert examined(shell, fed, "telecom")["scoring"] == [
            ("ok", "answers for at most 9 rows a day (UTC); 0 were asked for today")
        ]
        state = fed / "telecom" / "state"
        state.mkdir()
        RowsPerDay(state, 9).take("telecom", 9)
        level, text = examined(shell, fed, "telecom")["scoring"][0]
        assert (level, text[-46:]) == ("warning", "9 were asked for today, so no more are answered"[-46:])
        (state / "rows-asked.json").write_text("{")
        assert examined(shell, fed, "telecom")["scoring"][0][0] == "problem"


class TestModel:
    """A model that is there already."""

    def test_own_foreign_and_damaged(self, shell: Shell, fed: Path, tmp_path: Path) -> None:
        """The role's own is named, another's is a problem, and so is a damaged one."""
        frame = pd.read_csv(fed / "bank" / "train.csv")
        X = {"bank": frame[["age"]], "telecom": frame[["income"]]}
        paths = FedXGBClassifier(n_estimators=1, max_depth=1).fit(X, frame["defaulted"]).save_model(tmp_path / "models")
        place = fed / "bank" / "bank.mpfedxgb.json"
        for source, level, says in ((paths[0], "ok", "has 1 trees"), (paths[1], "problem", "is the part of telecom")):
            shutil.copy(source, place)
            assert examined(shell, fed, "bank")["model"][0][0] == level
            assert says in examined(shell, fed, "bank")["model"][0][1]
        place.write_text("{")
        assert "damaged" in examined(shell, fed, "bank")["model"][0][1]


class TestCertificate:
    """Key, name, chain, dates and permissions."""

    @pytest.mark.parametrize(
        ("days", "level", "says"),
        [(20, "ok", "valid for 19 more days"), (13, "warning", "renew it soon"), (-1, "problem", "expired")],
    )
    def test_dates(
        self, shell: Shell, fed: Path, monkeypatch: pytest.MonkeyPatch, days: int, level: str, says: str
    ) -> None:
        """A certificate that ends soon is a warning, an ended one a problem."""
        authority = Authority.load(fed / "ca")
        if days > 0:
            authority.renew(fed / "bank", "bank", days=days)
        else:
            with monkeypatch.context() as patch:
                patch.setattr(certificates, "_SKEW", dt.timedelta(days=9))
                authority.renew(fed / "bank", "bank", days=days)
        found = examined(shell, fed, "bank")["certificate"]
        assert [finding[0] for finding in found] == [level]
        assert says in found[0][1]

    def test_not_yet_valid(self, shell: Shell, fed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Then the clock may be wrong."""
        with monkeypatch.context() as patch:
            patch.setattr(certificates, "_SKEW", dt.timedelta(days=-2))
            Authority.load(fed / "ca").renew(fed / "bank", "bank")
        ((level, text),) = examined(shell, fed, "bank")["certificate"]
        assert level == "problem"
        assert "set the clock right" in text

    def test_name_key_and_authority(self, shell: Shell, fed: Path, tmp_path: Path) -> None:
        """Another role's certificate, another key, another authority."""
        own = fed / "bank"
        shutil.copy(fed / "telecom" / "telecom.key", own / "bank.key")
        assert "does not belong to the certificate" in examined(shell, fed, "bank")["certificate"][0][1]
        shutil.copy(fed / "telecom" / "telecom.crt", own / "bank.crt")
        assert "is for 'telecom', not for 'bank'" in examined(shell, fed, "bank")["certificate"][0][1]
        Authority.create(tmp_path / "other", "trial").renew(tmp_path / "mine", "bank")
        shutil.copy(tmp_path / "mine" / "bank.crt", own / "bank.crt")
        shutil.copy(tmp_path / "mine" / "bank.key", own / "bank.key")
        found = examined(shell, fed, "bank")
        assert "was not issued by the authority" in found["certificate"][0][1]
        assert "peers" in found, "the other checks go on"

    def test_passphrase(self, shell: Shell, fed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """It comes from the environment and is shown nowhere."""
        Authority.load(fed / "ca").renew(fed / "bank", "bank", passphrase="correct horse")  # noqa: S106 # of this test
        assert "is encrypted" in examined(shell, fed, "bank")["certificate"][0][1]
        edit(fed, "bank", "# passphrase_env", "passphrase_env")
        assert "KEY_PASSPHRASE, which is not set" in examined(shell, fed, "bank")["certificate"][0][1]
        monkeypatch.setenv("KEY_PASSPHRASE", "correct horse")
        assert examined(shell, fed, "bank")["certificate"][0][0] == "ok"
        assert "horse" not in shell.out
        monkeypatch.setenv("KEY_PASSPHRASE", "wrong horse")
        assert examined(shell, fed, "bank")["certificate"][0][0] == "problem"
        assert "horse" not in shell.out

    @pytest.mark.parametrize(("mode", "who"), [(0o644, "everybody"), (0o640, "the group")])
    def test_permissions(self, shell: Shell, fed: Path, mode: int, who: str) -> None:
        """A key that others can read is a warning."""
        (fed / "bank" / "bank.key").chmod(mode)
        ((level, text),) = examined(shell, fed, "bank")["key"]
        assert level == "warning"
        assert f"open to {who} (mode {mode:o}); chmod 600" in text


class TestPlace:
    """Clock, disk and port of this machine."""

    def test_clock(self, shell: Shell, fed: Path) -> None:
        """A file from the future."""
        later = (fed / "bank" / "train.csv").stat().st_mtime + 3 * 86400
        os.utime(fed / "bank" / "train.csv", (later, later))
        ((level, text),) = examined(shell, fed, "bank")["clock"]
        assert level == "warning"
        assert "set the clock right" in text

    def test_state(self, shell: Shell, fed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A file where a folder should be, and too little room."""
        (fed / "bank" / "state").touch()
        assert "[role] state" in examined(shell, fed, "bank")["state"][0][1]
        (fed / "bank" / "state").unlink()
        monkeypatch.setattr(doctor, "LITTLE_DISK", 1 << 60)
        assert "make room" in examined(shell, fed, "bank")["state"][0][1]

    def test_outputs(self, shell: Shell, fed: Path) -> None:
        """A folder that does not exist for the predictions."""
        edit(fed, "bank", '"predictions.csv"', '"out/predictions.csv"')
        ((level, text),) = examined(shell, fed, "bank")["output"]
        assert level == "problem"
        assert text.startswith("[data] predictions: ")

    def test_port_in_use(self, shell: Shell, fed: Path) -> None:
        """Somebody listens where this role should."""
        with socket.create_server(("127.0.0.1", port(fed, "bank", "listen"))):
            ((level, text),) = examined(shell, fed, "bank")["port"]
        assert level == "problem"
        assert "another program listens there" in text

    def test_address_of_another_machine(self, shell: Shell, fed: Path) -> None:
        """192.0.2.1 is nobody's."""
        edit(fed, "bank", _lines(fed, "bank", ("listen",))[0].split("#")[0], 'listen = "192.0.2.1:7702" ')
        ((level, text),) = examined(shell, fed, "bank")["port"]
        assert level == "problem"
        assert "no address of this machine" in text


class TestPeers:
    """Whether the roles to dial are there, and are who they should be."""

    def test_there(self, shell: Shell, fed: Path) -> None:
        """Both sides accept each other's certificates."""
        with listening(fed, "coordinator", port(fed, "bank", "coordinator")):
            found = examined(shell, fed, "bank")["peers"]
        assert [level for level, _ in found] == ["ok"]
        assert "certificates are accepted" in found[0][1]

    def test_every_peer_of_a_mesh(self, shell: Shell, tmp_path: Path) -> None:
        """A participant in the middle has a port of its own, and all that it dials are tried."""
        assert shell.run("init", tmp_path / "fed", "--participants", "a,b,c,d", "--topology", "mesh") == 0
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            mine = free.getsockname()[1]
        path = tmp_path / "fed" / "c" / "c.toml"
        path.write_text(
            "\n".join(
                f'listen = "127.0.0.1:{mine}"' if line.startswith("listen = ") else line
                for line in path.read_text().splitlines()
            )
        )
        shell.run("doctor", path)
        lines = shell.out.splitlines()
        assert any("port" in line and f"127.0.0.1:{mine} is free to listen on" in line for line in lines)
        peers = [line for line in lines if "peers" in line.split()[:2]]
        assert [line.split()[2].strip(":") for line in peers] == ["coordinator", "a", "b"]

    def test_somebody_else(self, shell: Shell, fed: Path) -> None:
        """A role at the address of another is a problem."""
        with listening(fed, "telecom", port(fed, "bank", "coordinator")):
            found = examined(shell, fed, "bank")["peers"]
        assert [level for level, _ in found] == ["problem"]
        assert "is not accepted" in found[0][1]

    def test_not_accepted_there(self, shell: Shell, fed: Path, tmp_path: Path) -> None:
        """A peer that trusts another authority does not let this role in."""
        Authority.create(tmp_path / "other", "trial")
        shutil.copy(tmp_path / "other" / "ca.crt", fed / "coordinator" / "other.crt")
        with listening(fed, "coordinator", port(fed, "bank", "coordinator"), wants="other.crt"):
            found = examined(shell, fed, "bank")["peers"]
        assert [level for level, _ in found] == ["problem"]
        assert "does not accept the certificate" in found[0][1]

    def test_something_else(self, shell: Shell, fed: Path) -> None:
        """A program that speaks no TLS is the wrong address."""
        server = socket.create_server(("127.0.0.1", port(fed, "bank", "coordinator")))

        def answer() -> None:
            for _ in range(2):
                plain, _address = server.accept()
                plain.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                plain.close()

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        found = examined(shell, fed, "bank")["peers"]
        thread.join(5)
        server.close()
        assert [level for level, _ in found] == ["problem"]

    def test_unknown_host(self, shell: Shell, fed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A name that nobody knows."""

        def unknown(*_: object, **__: object) -> None:
            raise socket.gaierror(-2, "Name or service not known")

        monkeypatch.setattr(socket, "getaddrinfo", unknown)
        edit(fed, "bank", _lines(fed, "bank", ("coordinator",))[0].split("#")[0], 'coordinator = "deals.invalid:1" ')
        ((level, text),) = examined(shell, fed, "bank")["peers"]
        assert level == "problem"
        assert "the host deals.invalid is not known" in text

    def test_no_answer(self, shell: Shell, fed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A firewall that drops everything is a warning with that hint."""

        def silent(*_: object, **__: object) -> None:
            raise TimeoutError

        monkeypatch.setattr(socket, "create_connection", silent)
        levels = examined(shell, fed, "telecom")["peers"]
        assert [level for level, _ in levels] == ["warning", "warning"]
        assert all("a firewall may be in between" in text for _, text in levels)
