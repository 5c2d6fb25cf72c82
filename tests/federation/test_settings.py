"""Settings files: what they give, and that nothing wrong in one of them gets any further."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.config import LINKS, Link, Resources
from mpfedxgb.data.csv_format import CsvFormat
from mpfedxgb.errors import SettingsError
from mpfedxgb.federation.settings.role import RoleSettings
from mpfedxgb.federation.settings.toml import LARGEST_FILE
from mpfedxgb.schema.settings import TABLES
from mpfedxgb.transport.transport import Address, parse_address
from support.refusals import ANY, Expected, refused
from support.role_files import ROLES, Content, Raw, full, least, to_toml, write


class TestGood:
    """What a file says is what a role gets."""

    @pytest.mark.parametrize("role", ROLES)
    @pytest.mark.parametrize("content", [full, least])
    def test_every_role_has_a_file(self, tmp_path: Path, role: str, content: Any) -> None:
        """The fullest and the shortest file of every role are taken."""
        settings = RoleSettings.from_toml(write(tmp_path, content(role)))
        assert settings.role.name == role
        assert settings.number == ROLES.index(role)
        assert (settings.is_coordinator, settings.is_active) == (role == "coordinator", role == "bank")
        assert settings.roster.participants == ("bank", "telecom")
        assert (settings.data is None) == (role == "coordinator")
        assert (settings.label is None) == (role != "bank")

    def test_full_covers_the_schema(self) -> None:
        """The tests below go through all keys but some that do not go with the others; those have their own tests."""
        keys = {(table, key) for role in ROLES for table, content in full(role).items() for key in content}
        of_ranks = {("label", "qid"), ("label", "upper"), ("training", "lambdarank_num_pair_per_sample")}
        assert keys | {("data", "drop"), ("network", "peers")} | of_ranks == {
            (name, key.name) for name, table in TABLES.items() for key in table.keys
        }

    def test_values_arrive(self, tmp_path: Path) -> None:
        """Each where it belongs."""
        settings = RoleSettings.from_toml(write(tmp_path, full("bank")))
        assert settings.network.listen == Address("127.0.0.1", 7702)
        assert settings.peers() == {"coordinator": Address("deals.example.org", 7701)}
        assert settings.network.deadline == 30.0
        assert settings.network.connect_timeout == 20.0
        assert settings.network.reconnect is True
        assert settings.training == TrainParams.from_dict(full("bank")["training"])
        assert settings.data is not None
        assert settings.data.features == ("age", "income", "city")
        assert settings.data.csv == CsvFormat(";", "cp1252", ",", ("n.a.", "-"))
        assert settings.label is not None
        assert settings.label.eval_metric == ("logloss", "auc")
        assert settings.log.json is True
        assert settings.limits == Resources(2, 1_500_000_000, tmp_path / "spool")
        assert settings.session_name == "trial/spring-2025"
        session = settings.session_settings(attempt=3)
        assert (session.session, session.attempt, session.deadline) == ("trial/spring-2025", 3, 30.0)
        assert session.parameters == settings.training.to_json()
        assert session.max_frame_bytes == 64 << 20
        assert session.link == Link(35.0, 50.0)

    def test_defaults(self, tmp_path: Path) -> None:
        """What may be left out has the documented values."""
        settings = RoleSettings.from_toml(write(tmp_path, least("telecom")))
        network = settings.network
        assert (network.deadline, network.connect_timeout, network.reconnect) == (600.0, 300.0, False)
        assert (network.max_frame_mb, network.transport, network.link) == (1024, "tls", LINKS["lan"])
        assert settings.session.name == "training"
        assert settings.training == TrainParams(num_class=2)
        assert (settings.log.level, settings.log.file, settings.log.json) == ("info", None, False)
        assert settings.scoring.max_rows_per_day is None
        assert settings.limits == Resources(-1, None, None)
        assert settings.role.state == tmp_path / "state"
        assert settings.role.model == tmp_path / "telecom.mpfedxgb.json"
        assert settings.peers() == {
            "coordinator": Address("deals.example.org", 7701),
            "bank": Address("2001:db8::7", 7702),
        }

    def test_all_roles_have_one_digest(self, tmp_path: Path) -> None:
        """However numbers are spelt: 1 and 1.0, 0.0 and -0.0."""
        first, second = full("bank"), full("coordinator")
        first["training"] |= {"reg_lambda": 1, "gamma": Raw("-0.0")}
        second["training"] |= {"reg_lambda": 1.0, "gamma": 0}
        texts = {RoleSettings.from_toml(write(tmp_path, c)).training.to_json() for c in (first, second)}
        assert len(texts) == 1

    @pytest.mark.parametrize(
        ("objective", "given", "classes"),
        [
            ("binary:logistic", None, 2),
            ("reg:squarederror", None, 1),
            ("count:poisson", 1, 1),
            ("multi:softprob", 4, 4),
        ],
    )
    def test_classes_follow_from_the_objective(self, objective: str, given: int | None, classes: int) -> None:
        """Only softmax has to be told."""
        content = least("telecom")
        content["training"] = {"objective": objective} | ({} if given is None else {"num_class": given})
        assert RoleSettings.from_dict(content).training.num_class == classes

    def test_paths_begin_at_the_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Relative ones at its folder, ~ at home, others nowhere; whatever folder the program runs in."""
        (tmp_path / "home").mkdir()
        (tmp_path / "files").mkdir()
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        monkeypatch.chdir(tmp_path)
        content = least("telecom")
        content["data"] |= {"train": "~/train.csv", "evaluate": "/data/evaluate.csv", "predict": "../score.csv"}
        write(tmp_path / "files", content)
        settings = RoleSettings.from_toml("files/role.toml")
        monkeypatch.chdir("/")
        assert settings.tls is not None
        assert settings.tls.ca == tmp_path / "files" / "ca.crt"
        assert settings.file_of("train") == tmp_path / "home" / "train.csv"
        assert settings.file_of("evaluate") == Path("/data/evaluate.csv")
        assert settings.file_of("predict") == tmp_path / "files" / ".." / "score.csv"

    def test_mpi_needs_no_network(self) -> None:
        """Neither addresses nor certificates."""
        content = least("telecom")
        content["network"] = {"transport": "mpi"}
        del content["tls"]
        settings = RoleSettings.from_dict(content)
        assert settings.tls is None
        assert settings.peers() == {}

    def test_one_metric_is_a_list_of_one(self) -> None:
        """As in XGBoost."""
        content = least("bank")
        content["label"]["eval_metric"] = "auc"
        label = RoleSettings.from_dict(content).label
        assert label is not None
        assert label.eval_metric == ("auc",)

    def test_a_byte_order_mark_is_no_obstacle(self, tmp_path: Path) -> None:
        """Some editors write one."""
        path = tmp_path / "role.toml"
        path.write_bytes(b"\xef\xbb\xbf" + to_toml(least("bank")).encode())
        assert RoleSettings.from_toml(path).is_active

    def test_settings_are_frozen(self) -> None:
        """They are read once; nobody changes them on the way."""
        settings = RoleSettings.from_dict(full("bank"))
        for part in (settings, settings.role, settings.network, settings.tls, settings.data, settings.label):
            assert part is not None
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(part, dataclasses.fields(part)[0].name, None)


class TestSecrets:
    """A passphrase is nowhere but in the environment."""

    def test_from_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The file names a variable; what it holds is read when it is needed, and shown nowhere."""
        monkeypatch.setenv("OWN_PASSPHRASE", "correct horse")
        settings = RoleSettings.from_dict(full("bank"))
        assert settings.tls is not None
        assert settings.tls.passphrase() == "correct horse"
        assert "correct horse" not in repr(settings)
        monkeypatch.delenv("OWN_PASSPHRASE")
        with refused(SettingsError, "missing", "tls.passphrase_env", "OWN_PASSPHRASE"):
            settings.tls.passphrase()

    def test_only_a_transport_with_certificates_asks_for_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What a role is told for TLS serves over MPI too, where nobody has to set the variable."""
        monkeypatch.setenv("OWN_PASSPHRASE", "correct horse")
        settings = RoleSettings.from_dict(full("bank"))
        told = settings.connection_settings(timeout=3.0, capacity=1 << 20)
        assert told.silence == 2 * settings.network.deadline
        assert told.credentials is not None
        assert told.credentials.passphrase == b"correct horse"
        assert (told.role, told.names) == (1, ("coordinator", "bank", "telecom"))
        assert (told.listen, told.addresses) == (Address("127.0.0.1", 7702), {0: Address("deals.example.org", 7701)})
        assert (told.timeout, told.capacity, told.max_block) == (3.0, 1 << 20, settings.network.max_frame_mb << 20)
        monkeypatch.delenv("OWN_PASSPHRASE")
        assert settings.over_mpi().connection_settings(3.0, 1).credentials is None
        with refused(SettingsError, "missing", "tls.passphrase_env", "OWN_PASSPHRASE"):
            settings.connection_settings(3.0, 1)

    def test_no_variable_means_none(self) -> None:
        """A key without passphrase needs nothing."""
        tls = RoleSettings.from_dict(least("bank")).tls
        assert tls is not None
        assert tls.passphrase() is None

    @pytest.mark.parametrize("key", ["passphrase", "password", "key_passphrase", "passphrase_env"])
    def test_never_in_the_file(self, key: str) -> None:
        """It is refused with the way to do it, and the message does not repeat it."""
        content = least("bank")
        content["tls"][key] = "correct horse"
        with refused(SettingsError, "value" if key == "passphrase_env" else "refused", f"tls.{key}") as caught:
            RoleSettings.from_dict(content)
        assert "horse" not in str(caught.value)


def changed(role: str, table: str, key: str, value: Any, base: Any = full) -> Content:
    """Return a role's content with one key changed."""
    content: Content = base(role)
    content.setdefault(table, {})[key] = value
    return content


def meshed(role: str, **network: Any) -> Content:
    """Return the least that a role of a mesh of four participants has to say, with changes; None takes a key out."""
    content = least(role if role in ("coordinator", "bank") else "telecom")
    content["federation"]["participants"] = ["bank", "telecom", "retail", "post"]
    content["role"]["name"] = role
    own: dict[str, Any] = {"topology": "mesh"}
    own |= {"listen": f"0.0.0.0:770{3 + AUXILIARIES.index(role)}"} if role in AUXILIARIES[:-1] else {}
    earlier = AUXILIARIES[: AUXILIARIES.index(role)] if role in AUXILIARIES else ()
    own |= {"peers": {name: f"{name}.example.org:7703" for name in earlier}} if earlier else {}
    content["network"] = {k: v for k, v in (content["network"] | own | network).items() if v is not None}
    return content


AUXILIARIES = ("telecom", "retail", "post")


class TestMesh:
    """Every participant listens but the last, and dials those before it."""

    @pytest.mark.parametrize("role", ["coordinator", "bank", *AUXILIARIES])
    def test_whom_a_role_dials(self, role: str) -> None:
        """All roles with a lower number; the engine and the transport are told of the mesh."""
        settings = RoleSettings.from_dict(meshed(role))
        assert list(settings.connection_settings(1.0, 1).addresses) == list(range(settings.number))
        assert (settings.network.listen is None) == (role == "post")
        assert settings.session_settings().topology == settings.connection_settings(1.0, 1).topology == "mesh"
        assert list(settings.peers()) == ["coordinator", "bank", *AUXILIARIES][: settings.number]

    @pytest.mark.parametrize(
        ("role", "changes", "expected"),
        [
            ("telecom", {"listen": None}, ("missing", "network.listen", None)),
            ("post", {"listen": "0.0.0.0:1"}, ("place", "network.listen", "0.0.0.0:1")),
            ("retail", {"peers": None}, ("missing", "network.peers", None)),
            ("post", {"peers": {"telecom": "x:1"}}, ("missing", "network.peers", None)),
            ("retail", {"peers": {"post": "x:1"}}, ("missing", "network.peers", None)),
            ("retail", {"peers": {"bank": "x:1"}}, ("missing", "network.peers", None)),
            ("retail", {"peers": {"telecon": "x:1"}}, ("missing", "network.peers", None)),
            ("retail", {"peers": {"telecom": "0.0.0.0:1"}}, ("value", "network.peers.telecom", "0.0.0.0:1")),
            ("retail", {"peers": {"telecom": "x"}}, ("value", "network.peers.telecom", "x")),
            ("retail", {"peers": "x:1"}, ("type", "network.peers", "x:1")),
            ("bank", {"peers": {"telecom": "x:1"}}, ("place", "network.peers", ANY)),
            ("retail", {"topology": "star", "listen": None}, ("place", "network.peers", ANY)),
            ("retail", {"topology": "ring"}, ("choice", "network.topology", "ring")),
        ],
    )
    def test_what_is_incomplete_is_refused(self, role: str, changes: dict[str, Any], expected: Expected) -> None:
        """With the role, the key and what to do."""
        with refused(SettingsError, *expected):
            RoleSettings.from_dict(meshed(role, **changes))

    def test_mpi_needs_no_addresses(self) -> None:
        """Ranks know each other."""
        content = meshed("post", peers=None, coordinator=None, active=None, transport="mpi")
        assert RoleSettings.from_dict(content).connection_settings(1.0, 1).topology == "mesh"


class TestMessages:
    """What is wrong is said with file, table, key, value and remedy."""

    @pytest.mark.parametrize(
        ("role", "table", "key", "value", "says"),
        [
            ("bank", "federation", "name", "My Bank", r'\[federation\] name = "My Bank" is not a name; .* a-z, 0-9'),
            ("bank", "federation", "participants", ["bank"], "2 to 255 participants"),
            ("bank", "federation", "participants", ["bank", "bank"], 'names "bank" twice'),
            ("bank", "federation", "participants", ["bank", "Tele com"], "participants .* is not a name"),
            ("bank", "federation", "coordinator", "bank", "takes three participants or more, not 2"),
            ("bank", "role", "name", "banc", "is no role of this federation; did you mean bank?"),
            ("coordinator", "role", "model", "m.json", "the coordinator keeps no model"),
            ("telecom", "network", "listen", "0.0.0.0:1", "auxiliary participants dial out and never listen"),
            ("bank", "network", "active", "x:1", "only auxiliary participants dial the active one"),
            ("coordinator", "network", "coordinator", "x:1", "the coordinator dials nobody"),
            ("bank", "network", "coordinator", "0.0.0.0:7701", "cannot be dialled"),
            ("bank", "network", "listen", "https://x:1", "leave the scheme out"),
            ("bank", "network", "listen", ":7701", "0.0.0.0:7701 to listen on all interfaces"),
            ("telecom", "network", "link", "lan", "the active participant announces it"),
            ("bank", "network", "link", "moon", "it is one of local, lan, wan"),
            ("bank", "network", "deadline", 0, "deadline = 0 is out of range; it is above 0 and at most"),
            ("bank", "network", "deadline", "600", 'deadline = "600" is not a number; give a number'),
            ("bank", "network", "reconnect", "yes", 'reconnect = "yes" is not true or false, without quotes'),
            ("bank", "network", "transport", "tsl", 'transport = "tsl" is not known; did you mean tls?'),
            ("bank", "network", "transport", "grpc", 'transport = "grpc" was replaced; write transport = "tls"'),
            ("bank", "network", "deadlin", 5, r'\[network\] has no key "deadlin"; did you mean deadline?'),
            ("bank", "training", "n_estimator", 5, "did you mean n_estimators?"),
            ("bank", "training", "max_leaves", 8, "max_leaves is refused: trees grow level by level"),
            (
                "bank",
                "training",
                "max_depth",
                0,
                r"\[training\] max_depth = 0 is out of range; it is an integer from 1 to 16",
            ),
            ("bank", "training", "objective", "custom", "Python function"),
            ("bank", "training", "objective", "multi:softprob", "eval_metric .* does not go with"),
            ("bank", "training", "num_class", 3, "does not go with objective binary:logistic; it is 2"),
            ("bank", "training", "weighted", False, r"weight = \"weight\" needs weighted = true in \[training\]"),
            ("bank", "training", "may_stop_early", False, "early_stopping_rounds = 5 needs may_stop_early = true"),
            ("bank", "training", "weighted", 1, "weighted = 1 is not true or false"),
            ("bank", "training", "security", "none", "security='none' protects nothing, so it is not for a federation"),
            ("bank", "training", "xgboost_rules", "3.3", "the rules of older models, .*; trainings follow '3.4'"),
            ("bank", "training", "xgboost_rules", "3.5", '"3.5" is not known; it is one of 3.4, 3.3'),
            ("coordinator", "training", "security", "none", "use security='strict', or for experiments .* simulate"),
            ("bank", "session", "name", "../x", "is not a session's name"),
            ("bank", "data", "drop", ["x"], "does not go with features"),
            ("bank", "data", "features", ["customer"], "an id is never a feature"),
            ("bank", "data", "features", ["a", 3], "holds 3, which is not a text"),
            ("bank", "data", "numeric", ["city"], 'names "city", and so does categorical'),
            ("bank", "data", "numeric", ["height"], "not among the features"),
            ("bank", "data", "delimiter", "::", "is not one character; give one such as ; or the word tab"),
            ("bank", "data", "encoding", "utf-9", "is not known; give one such as utf-8"),
            ("bank", "data", "encoding", "hex", "is not known; give one such as utf-8"),
            ("bank", "data", "decimal", "'", "is not known; it is . or ,"),
            ("bank", "data", "delimiter", ",", "are both a comma"),
            ("bank", "training", "eta", 0.3, r"eta is refused: it is called learning_rate here"),
            ("bank", "data", "predictions", "out.xlsx", "neither CSV nor Parquet"),
            ("bank", "data", "predictions", "./train.csv", "would overwrite"),
            ("telecom", "data", "predictions", "p.csv", "only the active participant learns predictions"),
            ("bank", "label", "column", "age", r"is also named by \[data\] features"),
            ("bank", "label", "column", "weight", "is the label's own column"),
            ("bank", "label", "scale_pos_weight", -1.0, "above|at least 0"),
            ("bank", "label", "base_margin", ["a", "b"], "binary:logistic has 1 margins for each row; name 1 columns"),
            ("bank", "label", "base_margin", "defaulted", r"names a column that another key of \[label\] names"),
            ("bank", "label", "base_margin", "age", r"also named by \[data\] features"),
            ("bank", "label", "eval_metric", "acu", "eval_metric='acu' is not known"),
            ("bank", "label", "eval_metric", ["rmse", "auc", "auc"], "twice"),
            ("bank", "log", "level", "verbose", "it is one of debug, info, warning, error"),
            ("bank", "log", "file", "own.mpfedxgb.json", "would overwrite"),
            ("bank", "role", "state", "~nobody-at-all/x", "home folder that is not there"),
            ("bank", "tls", "ca", "a\0b", "is not a path"),
            ("bank", "workers", "scheduler", "tcp://dask:8786", "is no encrypted address; give the .* tls://dask.bank"),
            ("bank", "workers", "scheduler", "tls://dask", "is no encrypted address"),
            ("coordinator", "workers", "schedular", "x", "did you mean scheduler?"),
        ],
    )
    def test_one_thing_wrong(self, tmp_path: Path, role: str, table: str, key: str, value: Any, says: str) -> None:
        """Each message begins with the file."""
        path = write(tmp_path, changed(role, table, key, value))
        with pytest.raises(SettingsError, match=says) as caught:
            RoleSettings.from_toml(path)
        assert str(caught.value).startswith(str(path))

    @pytest.mark.parametrize(
        ("role", "table"),
        [
            ("coordinator", "data"),
            ("coordinator", "align"),
            ("telecom", "label"),
            ("bank", "scoring"),
            ("coordinator", "scoring"),
        ],
    )
    def test_tables_of_other_roles(self, role: str, table: str) -> None:
        """What a role cannot have is refused by name."""
        content = full(role) | {table: (full("bank") | full("telecom"))[table]}
        with refused(SettingsError, "place", table):
            RoleSettings.from_dict(content)

    def test_everything_wrong_is_in_one_error(self, tmp_path: Path) -> None:
        """Keys first, in the order of the tables, each with code, name and value; then what they say together."""
        content = full("bank")
        content["network"] |= {"deadline": 0, "peer": "x:1", "active": "x:1"}
        content["training"] |= {"max_depth": "deep", "eta": 0.1}
        del content["tls"]["ca"]
        content["scoring"] = {}
        with pytest.raises(SettingsError) as caught:
            RoleSettings.from_toml(write(tmp_path, content))
        assert [(fault.code, fault.parameter, fault.value) for fault in caught.value.faults] == [
            ("place", "scoring", None),
            ("unknown", "network.peer", None),
            ("place", "network.active", "x:1"),
            ("range", "network.deadline", 0),
            ("missing", "tls.ca", None),
            ("refused", "training.eta", None),
            ("type", "training.max_depth", "deep"),
        ]
        content = full("bank")
        content["session"]["name"] = "../x"
        content["training"]["weighted"] = False
        content["data"] |= {"features": ["customer"], "predictions": "out.xlsx"}
        with refused(SettingsError, "value", "session.name", "../x") as caught:
            RoleSettings.from_dict(content)
        named = {fault.parameter for fault in caught.value.faults}
        assert named == {
            "session.name",
            "label.weight",
            "label.scale_pos_weight",
            "data.features",
            "data.predictions",
            "data.categorical",
            "data.numeric",
        }

    def test_unknown_tables(self) -> None:
        """They are refused with what was probably meant."""
        with refused(SettingsError, "unknown", "trainings"):
            RoleSettings.from_dict(full("bank") | {"trainings": {}})

    def test_weights_promised(self) -> None:
        """If all roles reckon with weights, the active participant has to bring them."""
        content = full("bank")
        del content["label"]["weight"]
        assert RoleSettings.from_dict(content).label is not None, "scale_pos_weight is one"
        del content["label"]["scale_pos_weight"]
        with refused(SettingsError, "missing", "label.weight"):
            RoleSettings.from_dict(content)

    def test_early_stopping_watches_rows(self) -> None:
        """Without rows to evaluate there is nothing to stop by."""
        content = full("bank")
        del content["data"]["evaluate"]
        with refused(SettingsError, "value", "label.early_stopping_rounds", 5):
            RoleSettings.from_dict(content)

    def test_a_file_for_a_purpose(self) -> None:
        """What is not set is asked for when it is needed."""
        with refused(SettingsError, "missing", "data.train"):
            RoleSettings.from_dict(least("bank")).file_of("train")

    def test_files_by_their_keys(self, tmp_path: Path) -> None:
        """What a role reads and what it writes, each file under table and key, from the settings file's folder."""
        content = least("telecom")
        content["data"]["train"] = "train.csv"
        content["role"]["model"] = "models/m.json"
        settings = RoleSettings.from_toml(write(tmp_path, content))

        assert dict(settings.inputs()) == {
            "[tls] ca": tmp_path / "ca.crt",
            "[tls] certificate": tmp_path / "own.crt",
            "[tls] key": tmp_path / "own.key",
            "[data] train": tmp_path / "train.csv",
        }
        assert dict(settings.outputs())["[role] model"] == tmp_path / "models/m.json"


class TestAddresses:
    """host:port, in the few ways it is written."""

    @pytest.mark.parametrize(
        ("text", "host", "port"),
        [
            ("127.0.0.1:1", "127.0.0.1", 1),
            ("deals.example.org:65535", "deals.example.org", 65535),
            ("my_host-1:443", "my_host-1", 443),
            ("[::1]:7701", "::1", 7701),
            ("[2001:DB8:0::7]:7701", "2001:db8::7", 7701),
        ],
    )
    def test_good(self, text: str, host: str, port: int) -> None:
        """They come out as they went in, or in their usual form."""
        address = parse_address(text)
        assert (address.host, address.port) == (host, port)
        assert parse_address(str(address)) == address

    @pytest.mark.parametrize(
        "text",
        [
            *("", "host", "host:", ":1", "host:0", "host:65536", "host:-1", "host:1e3", "host:٣", "http://a:1"),
            *("a b:1", "-a:1", "a..b:1", "bücher:1", "a" * 300 + ":1", "256.1.1.1:1", "1.2.3:1", "1.2.3.4.5:1"),
            *("::1:7701", "[::1]", "[::g]:1", "[host]:1"),
        ],
    )
    def test_bad(self, text: str) -> None:
        """Whatever is not an address is refused with a remedy."""
        with pytest.raises(ValueError, match=r"."):
            parse_address(text)


BEYOND = Raw("99999999999999999999")
HUGE = Raw("0x" + "f" * 6000)
ALWAYS_BAD = [
    BEYOND,
    HUGE,
    Raw("nan"),
    Raw("-inf"),
    Raw("1979-05-27"),
    Raw("07:32:00"),
    Raw("{ x = 1 }"),
    Raw("[[[1]]]"),
]
LONG = "x" * 5000
WORSE: dict[str, list[Any]] = {
    "name": [3, True, "", " ", "Bank", "b_nk", "-bank", "bank.", LONG, "b\u00e4nk", "a\u0000b", ["bank"]],
    "names": [3, "bank,telecom", [], ["bank"], ["bank", ""], ["bank", 3], ["bank", "Telecom"], ["bank", "bank"]],
    "path": [3, True, "", "  ", LONG, "a\u0000b", "a\nb", ["x"], "~no-such-user-here/x"],
    "address": [7701, True, "", "host", "host:0", "host:99999", "http://host:1", "a b:1", "::1:7701", ["host:1"]],
    "number": ["5", True, [1], -1, Raw("1e400"), Raw("-1e-300")],
    "integer": ["5", True, 1.5, [1], -1],
    "threads": ["5", True, 1.5, [1], 0, -5000, 5000],
    "flag": ["true", 1, 0, 0.0, [True]],
    "texts": ["a", 3, [1], [""], ["a", "a"], [["a"]], [True]],
    "text": [3, True, "", "a\u0007b", LONG, ["a"], 1.5],
    "choice": [3, True, "", "nothing known", ["info"], LONG],
    "directions": ["income", 3, True, ["income"], {"income": 2}, {"income": True}, {"income": "1"}],
    "table": ["telecom", 3, True, ["telecom"], {"nobody": "x:1"}],
}
KINDS = {
    "federation": {"name": "name", "participants": "names", "coordinator": "name"},
    "role": {"name": "name", "state": "path", "model": "path"},
    "network": {
        **dict.fromkeys(("listen", "coordinator", "active"), "address"),
        **dict.fromkeys(("deadline", "connect_timeout"), "number"),
        "reconnect": "flag",
        "max_frame_mb": "integer",
        "transport": "choice",
        "link": "choice",
        "topology": "choice",
        "peers": "table",
    },
    "tls": {"ca": "path", "certificate": "path", "key": "path", "passphrase_env": "text"},
    "workers": {"scheduler": "text", "ca": "path", "certificate": "path", "key": "path"},
    "session": {"name": "text"},
    "training": {
        **dict.fromkeys(("objective", "security", "binning", "xgboost_rules"), "choice"),
        **dict.fromkeys(("lambdarank_pair_method", "aft_loss_distribution"), "choice"),
        **dict.fromkeys(("lambdarank_normalization", "lambdarank_score_normalization", "ndcg_exp_gain"), "flag"),
        **dict.fromkeys(("booster", "sample_type", "normalize_type"), "choice"),
        **dict.fromkeys(("rate_drop", "skip_drop"), "number"),
        **dict.fromkeys(("num_class", "n_estimators", "num_parallel_tree", "max_depth", "max_bin"), "integer"),
        **dict.fromkeys(("weighted", "constrained", "first_layer_mask", "may_stop_early", "one_drop"), "flag"),
        **dict.fromkeys(
            ("learning_rate", "reg_lambda", "reg_alpha", "max_delta_step", "gamma", "min_child_weight", "subsample"),
            "number",
        ),
        **dict.fromkeys(("colsample_bytree", "colsample_bylevel", "colsample_bynode", "leaf_epsilon"), "number"),
        **dict.fromkeys(("huber_slope", "tweedie_variance_power", "quantile_alpha"), "number"),
        "aft_loss_distribution_scale": "number",
    },
    "accept": {
        "security": "texts",
        **dict.fromkeys(("max_depth", "max_trees", "max_bin", "min_rows", "max_rows", "trainings_per_day"), "integer"),
    },
    "data": {
        **dict.fromkeys(("train", "evaluate", "predict", "predictions"), "path"),
        "id": "text",
        "align": "flag",
        **dict.fromkeys(("features", "drop", "categorical", "numeric", "missing"), "texts"),
        "monotone": "directions",
        **dict.fromkeys(("delimiter", "encoding", "decimal"), "text"),
    },
    "align": {
        **dict.fromkeys(("ids", "case", "spaces", "unicode"), "choice"),
        **dict.fromkeys(("min_rows", "max_rows", "n_jobs"), "integer"),
    },
    "label": {
        **dict.fromkeys(("column", "weight"), "text"),
        "eval_metric": "texts",
        "early_stopping_rounds": "integer",
        "base_score": "number",
        "scale_pos_weight": "number",
        "base_margin": "texts",
    },
    "scoring": {"max_rows_per_day": "integer"},
    "serve": {
        "token_file": "path",
        **dict.fromkeys(("max_batch", "max_waiting", "max_body_mb"), "integer"),
        **dict.fromkeys(("max_wait_ms", "timeout"), "number"),
    },
    "limits": {"n_jobs": "threads", "max_memory": "text", "spool": "path"},
    "log": {"level": "choice", "file": "path", "json": "flag"},
}
NEEDED = ("federation", "role", "network", "tls", "data", "label")


def mutations(role: str) -> Iterator[tuple[str, str, str]]:
    """Yield malformed files of a role: a name for the mistake, the text, and what the message has to name."""
    for table, keys in full(role).items():
        for key in keys:
            kind = KINDS[table][key]
            for value in [*ALWAYS_BAD, *WORSE[kind]]:
                if (key == "base_score" and value in (-1, Raw("-1e-300"))) or (key == "base_margin" and value == "a"):
                    continue  # a regression may start below zero, and one column need not be a list
                text = to_toml(changed(role, table, key, value))
                yield f"{role} {table}.{key} = {str(value)[:20]!r}", text, key
            for typo in (key + "x", "x-" + key, key.upper()):
                content = full(role)
                content[table][typo] = content[table].pop(key)
                yield f"{role} {table}.{typo}", to_toml(content), typo
        yield f"{role} {table} = 3", to_toml(full(role) | {table: 3}), table
        yield f"{role} {table} = []", to_toml({**full(role), table: []}), table
        yield f"{role} [[{table}]]", to_toml(full(role)).replace(f"[{table}]", f"[[{table}]]"), table
        yield f"{role} {table} twice", to_toml(full(role)) + f"[{table}]\n", "(at "
        if table in NEEDED:
            content = full(role)
            del content[table]
            yield f"{role} without {table}", to_toml(content), f"[{table}]"
    for table, keys in least(role).items():
        for key in keys:
            content = least(role)
            del content[table][key]
            yield f"{role} without {table}.{key}", to_toml(content), key
    text = to_toml(full(role))
    for end in range(0, len(text) - 2, 41):
        yield f"{role} cut at {end}", text[:end], ""
    for line in (
        "deadline = ",
        "= 3",
        "[[",
        "[network",
        "key = 'a",
        'a = "\\x"',
        "a = 1 b = 2",
        "x = null",
        "[]",
        "a.b.c",
    ):
        yield f"{role} with {line}", f"{text}{line}\n", "(at "
    yield f"{role} nested", "a = " + "[" * 3000 + "]" * 3000, ""
    yield f"{role} dotted", ".".join("a" * 2000) + " = 1", ""
    yield f"{role} digits", f"{text}x = {'9' * 5000}\n", ""
    yield f"{role} large", "# " + "x" * LARGEST_FILE + "\n" + text, ""


@cache
def malformed() -> list[tuple[str, str, str]]:
    """Return the malformed files of all roles."""
    return [mutation for role in ROLES for mutation in mutations(role)]


class TestMalformed:
    """Whatever stands in a file: a SettingsError that names the place, and nothing else happens."""

    def test_there_are_many(self) -> None:
        """And they are different."""
        assert len({text for _, text, _ in malformed()}) > 1500

    def test_text(self, tmp_path: Path) -> None:
        """Every mistake is refused with the file and the key, table or line, shortly and in one line."""
        path = tmp_path / "role.toml"
        for name, text, place in malformed():
            path.write_text(text, encoding="utf-8")
            try:
                RoleSettings.from_toml(path)
            except SettingsError as error:
                said = str(error)
                assert said.startswith(str(path)), name
                assert place in said, f"{name}: {said}"
                assert re.search(r"\[\w+\]|\bline\b|federation|TOML|MiB|\w = ", said), f"{name}: {said}"
                assert len(said) < 900 + len(str(path)), name
                assert said.isprintable(), name
            else:
                pytest.fail(f"{name} was taken")
        assert list(tmp_path.iterdir()) == [path]

    @pytest.mark.parametrize("role", ROLES)
    def test_bytes(self, tmp_path: Path, role: str) -> None:
        """Bytes that are no UTF-8 are refused with their line, wherever they stand."""
        path = tmp_path / "role.toml"
        text = to_toml(full(role)).encode()
        for place in range(0, len(text), 23):
            for octets in (b"\xff", b"\xc3\x28", b"\xed\xa0\x80"):
                path.write_bytes(text[:place] + octets + text[place:])
                line = text.count(b"\n", 0, place) + 1
                with refused(SettingsError, "damaged", "role.toml", line):
                    RoleSettings.from_toml(path)
        path.write_bytes(to_toml(full(role)).encode("utf-16"))
        with refused(SettingsError, "damaged", "role.toml", 1):
            RoleSettings.from_toml(path)
        assert list(tmp_path.iterdir()) == [path]

    @pytest.mark.parametrize("value", [None, object(), b"bank", (1, 2), {"x"}, 1j, "\ud800"])
    @pytest.mark.parametrize("role", ROLES)
    def test_dictionaries(self, role: str, value: Any) -> None:
        """Values that no file can hold are refused too."""
        for table, keys in full(role).items():
            for key in keys:
                with pytest.raises(SettingsError) as caught:
                    RoleSettings.from_dict(changed(role, table, key, value))
                assert f"{table}.{key}" in {fault.parameter.removesuffix("[0]") for fault in caught.value.faults}
            with refused(SettingsError, "type", table):
                RoleSettings.from_dict({**full(role), table: value})

    def test_files_that_are_none(self, tmp_path: Path) -> None:
        """Nothing there, a folder, or a name that no file can have."""
        with refused(SettingsError, "missing", "gone.toml"):
            RoleSettings.from_toml(tmp_path / "gone.toml")
        with refused(SettingsError, "type", ANY):
            RoleSettings.from_toml(tmp_path)
        for name in ("a\0b", "x" * 5000):
            with refused(SettingsError, "file", name):
                RoleSettings.from_toml(tmp_path / name)
        assert not list(tmp_path.iterdir())
