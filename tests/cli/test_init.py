"""`init`: what it writes is ready to run, and only what may be written is."""

from __future__ import annotations

import re
import shlex
import socket
import stat
import tomllib
from pathlib import Path

import pandas as pd
import pytest

from mpfedxgb.cli.init import FIRST_PORT
from mpfedxgb.federation.rows import read_rows
from mpfedxgb.federation.settings.role import RoleSettings
from mpfedxgb.schema.settings import TABLES
from mpfedxgb.transport.tls.identity import Identity
from support.commands import Shell

TRIO = ["--participants", "bank,telecom,retail", "--active", "bank"]
ROLES = ["coordinator", "bank", "telecom", "retail"]


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Return a shell."""
    return Shell(monkeypatch, capsys)


def settings_of(folder: Path, role: str) -> RoleSettings:
    """Return the settings that were written for a role."""
    return RoleSettings.from_toml(folder / role / f"{role}.toml")


def files(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class TestWritten:
    """A folder per role, with everything the role needs and nothing of the others'."""

    def test_files(self, shell: Shell, tmp_path: Path) -> None:
        """Settings, certificate and key for every role, tables for participants; the authority's key in one place."""
        folder = tmp_path / "deep" / "fed"
        assert shell.run("init", folder, *TRIO) == 0
        expected = {"README.md", "ca/ca.crt", "ca/ca.key"}
        for role in ROLES:
            expected |= {f"{role}/{name}" for name in (f"{role}.toml", f"{role}.crt", f"{role}.key", "ca.crt")}
            if role != "coordinator":
                expected |= {f"{role}/{name}.csv" for name in ("train", "evaluate", "score")}
        written = files(folder)
        assert set(written) == expected
        having_keys = {name for name, content in written.items() if b"PRIVATE KEY" in content}
        assert having_keys == {"ca/ca.key", *(f"{role}/{role}.key" for role in ROLES)}
        for name in written:
            public = name == "README.md" or name.endswith(".crt")
            assert stat.S_IMODE((folder / name).stat().st_mode) == (0o644 if public else 0o600), name
        assert stat.S_IMODE((folder / "ca").stat().st_mode) == 0o700

    def test_settings_and_tables_fit(self, shell: Shell, tmp_path: Path) -> None:
        """Every role's file is valid, all roles agree, all files are there and can be read as a session reads them."""
        assert shell.run("init", tmp_path, *TRIO) == 0
        all_settings = [settings_of(tmp_path, role) for role in ROLES]
        assert len({settings.training.to_json() for settings in all_settings}) == 1
        assert len({settings.session_name for settings in all_settings}) == 1
        ids: dict[str, set[tuple[str, ...]]] = {}
        for settings in all_settings:
            assert all(path.is_file() for _, path in settings.inputs())
            assert all(path.parent.is_dir() and not path.is_dir() for _, path in settings.outputs())
            tls = settings.tls
            assert tls is not None
            Identity.load(settings.role.name, tls.ca, tls.certificate, tls.key).check_usage(listens=True, dials=True)
            for purpose in ("train", "evaluate", "predict") if settings.data is not None else ():
                ids.setdefault(purpose, set()).add(read_rows(settings, purpose).ids.keys)
        assert {purpose: len(lists) for purpose, lists in ids.items()} == {"train": 1, "evaluate": 1, "predict": 1}
        coordinator, bank, telecom, retail = all_settings
        assert bank.is_active
        assert bank.peers() == {"coordinator": coordinator.network.listen}
        assert telecom.peers() == retail.peers() == bank.peers() | {"bank": bank.network.listen}

    def test_every_key_is_there_and_explained(self, shell: Shell, tmp_path: Path) -> None:
        """Optional ones as comments; with the # taken away each line is still TOML."""
        assert shell.run("init", tmp_path, *TRIO) == 0
        seen = set()
        for role in ROLES:
            table = ""
            for line in (tmp_path / role / f"{role}.toml").read_text().splitlines():
                assert len(line) <= 120
                if line.startswith("["):
                    table = line.strip("[]")
                found = re.match(r"(?:# )?(\w+)(?:\.\w+)? = (.+?) +# \S.{10,}", line)
                if found:
                    tomllib.loads(line.removeprefix("# "))
                    seen.add((table, found[1]))
                else:
                    assert re.fullmatch(r"|\[\w+\]|# .*", line), line
        assert seen == {(name, key.name) for name, table in TABLES.items() for key in table.keys}

    def test_comments_show_the_defaults(self, shell: Shell, tmp_path: Path) -> None:
        """A key behind a # that is no example says what is assumed without it."""
        assert shell.run("init", tmp_path, *TRIO) == 0
        path = tmp_path / "bank" / "bank.toml"
        before = RoleSettings.from_toml(path)
        lines = path.read_text().splitlines()
        shown = [re.sub(r"^# (\w+ = .*)", r"\1", line) if "# example" not in line else line for line in lines]
        assert len([line for line, other in zip(lines, shown, strict=True) if line != other]) > 15
        path.write_text("\n".join(shown))
        assert RoleSettings.from_toml(path) == before

    def test_the_active_participant_comes_first(self, shell: Shell, tmp_path: Path) -> None:
        """Whoever it is, it has the label; the first one if nobody is named."""
        assert (
            shell.run("init", tmp_path / "a", "--participants", "x, y,z", "--active", "z", "--coordinator", "dealer")
            == 0
        )
        assert settings_of(tmp_path / "a", "x").roster.participants == ("z", "x", "y")
        assert settings_of(tmp_path / "a", "dealer").is_coordinator
        assert "defaulted" in pd.read_csv(tmp_path / "a" / "z" / "train.csv")
        assert "defaulted" not in pd.read_csv(tmp_path / "a" / "x" / "train.csv")
        assert shell.run("init", tmp_path / "b", "--participants", "x,y", "--name", "pilot") == 0
        assert settings_of(tmp_path / "b", "x").is_active
        assert settings_of(tmp_path / "b", "x").session_name == "pilot/training"


class TestPrinted:
    """The commands that follow."""

    def test_commands(self, shell: Shell, tmp_path: Path) -> None:
        """One line per role and task, ready to copy, naming files that are there; README.md has them too."""
        folder = tmp_path / "my fed"
        assert shell.run("init", folder, *TRIO) == 0
        lines = [shlex.split(line) for line in shell.out.splitlines() if line.startswith("mpfedxgb ")]
        assert [line[1] for line in lines] == (
            ["doctor"] * 4 + ["coordinator"] + ["participant"] * 6 + ["report"] * 3 + ["join", "export-xgboost"]
        )
        for line in lines[:14]:
            assert Path(line[2]).is_file()
        assert [line[3] for line in lines[5:11]] == ["--train"] * 3 + ["--predict"] * 3
        for line in lines[14:]:
            models = [settings_of(folder, role).role.model for role in ROLES[1:]]
            assert line[2:-2] == [str(model) for model in models]
        readme = (folder / "README.md").read_text()
        for line in lines:
            assert shlex.join(line) in readme
        for word in ("cert authority", "passphrase_env", "cert renew", "clientAuth", "bank/predictions.csv"):
            assert word in readme


class TestAddresses:
    """Where roles listen and are found."""

    def test_free_ports(self, shell: Shell, tmp_path: Path) -> None:
        """The usual ones on this machine; others if somebody listens there."""
        taken = []
        for port in (FIRST_PORT, FIRST_PORT + 1):
            blocker = socket.socket()
            try:
                blocker.bind(("127.0.0.1", port))
                blocker.listen()
            except OSError:  # somebody else does it already
                blocker.close()
            else:
                taken.append(blocker)
        try:
            assert shell.run("init", tmp_path, *TRIO) == 0
        finally:
            for blocker in taken:
                blocker.close()
        addresses = [settings_of(tmp_path, role).network.listen for role in ("coordinator", "bank")]
        ports = [address.port for address in addresses if address is not None]
        assert len(set(ports)) == 2
        assert not set(ports) & {FIRST_PORT, FIRST_PORT + 1}

    def test_hosts_and_ports(self, shell: Shell, tmp_path: Path) -> None:
        """Hosts of others are dialled; the role itself listens on all its interfaces."""
        words = ["--host", "coordinator=deals.example.org", "--host", "bank=2001:db8::7", "--ports", "4001,4002"]
        assert shell.run("init", tmp_path, *TRIO, *words) == 0
        retail = settings_of(tmp_path, "retail")
        assert {name: str(place) for name, place in retail.peers().items()} == {
            "coordinator": "deals.example.org:4001",
            "bank": "[2001:db8::7]:4002",
        }
        assert str(settings_of(tmp_path, "coordinator").network.listen) == "0.0.0.0:4001"
        assert str(settings_of(tmp_path, "bank").network.listen) == "[::]:4002"


class TestRefused:
    """Mistakes are told in one line, before anything is written."""

    @pytest.mark.parametrize(
        ("words", "says"),
        [
            ([], "--participants is missing"),
            (["--participants", "bank"], "2 to 255 participants"),
            (["--participants", "bank,bank"], "2 to 255|same name"),
            (["--participants", "bank,telecom,telecom"], "two roles have the same name"),
            (["--participants", "bank,My Telecom"], "'My Telecom' cannot be a name"),
            (["--participants", "bank,ca"], "'ca' cannot be a name"),
            (["--participants", "bank,coordinator"], "takes three participants or more, not 2"),
            ([*TRIO, "--coordinator", "bank"], "bank' is the active participant"),
            (["--participants", "bank,telecom", "--name", "Ü"], "cannot be a name"),
            (["--participants", "bank,telecom", "--active", "shop"], "--active shop is none of the participants"),
            ([*TRIO, "--host", "retail=x"], "ROLE=HOST for coordinator, bank, the roles that listen"),
            ([*TRIO, "--host", "bank"], "ROLE=HOST"),
            ([*TRIO, "--host", "bank=a b"], "a host name consists of"),
            ([*TRIO, "--ports", "1"], "2 different ports"),
            ([*TRIO, "--ports", "7,7"], "2 different ports"),
            ([*TRIO, "--ports", "7,many"], "2 different ports"),
            ([*TRIO, "--ports", "7,70000"], "2 different ports"),
        ],
    )
    def test_mistakes(self, shell: Shell, tmp_path: Path, words: list[str], says: str) -> None:
        """Exit code 2, and no folder."""
        assert shell.run("init", tmp_path / "fed", *words) == 2
        assert re.search(says, shell.err), shell.err
        assert shell.err.count("\n") == 1
        assert not (tmp_path / "fed").exists()

    def test_folders_that_are_not_empty(self, shell: Shell, tmp_path: Path) -> None:
        """Nothing is ever overwritten; an empty folder is welcome."""
        (tmp_path / "mine.txt").write_text("mine")
        assert shell.run("init", tmp_path, *TRIO) == 2
        assert f"{tmp_path} is not empty" in shell.err
        assert shell.run("init", tmp_path / "mine.txt", *TRIO) == 2
        assert "is a file" in shell.err
        assert files(tmp_path) == {"mine.txt": b"mine"}
        (tmp_path / "mine.txt").unlink()
        assert shell.run("init", tmp_path, *TRIO) == 0


class TestMesh:
    """Everybody but the last listens, and all addresses are where they are needed."""

    def test_written_settings(self, shell: Shell, tmp_path: Path) -> None:
        """Each role dials all before it, where they listen; the page of the folder says who is reached by whom."""
        assert shell.run("init", tmp_path, *TRIO, "--topology", "mesh") == 0
        settings = {role: settings_of(tmp_path, role) for role in ROLES}
        for number, role in enumerate(ROLES):
            mine = settings[role]
            assert mine.network.topology == "mesh"
            assert (mine.network.listen is None) == (role == "retail")
            assert mine.peers() == {name: settings[name].network.listen for name in ROLES[:number]}
        readme = (tmp_path / "README.md").read_text(encoding="utf-8")
        assert f"| telecom | `{settings['telecom'].network.listen}` | retail |" in readme
        assert f"| bank | `{settings['bank'].network.listen}` | telecom, retail |" in readme

    def test_hosts_and_ports(self, shell: Shell, tmp_path: Path) -> None:
        """Of all who listen; of the last role there is none."""
        words = ["--topology", "mesh", "--host", "telecom=telecom.example.org", "--ports", "4001,4002,4003"]
        assert shell.run("init", tmp_path, *TRIO, *words) == 0
        assert str(settings_of(tmp_path, "retail").peers()["telecom"]) == "telecom.example.org:4003"
        assert str(settings_of(tmp_path, "telecom").network.listen) == "0.0.0.0:4003"
        assert shell.run("init", tmp_path / "a", *TRIO, "--topology", "mesh", "--host", "retail=x") == 2
        assert "the roles that listen" in shell.err
        assert shell.run("init", tmp_path / "b", *TRIO, "--topology", "mesh", "--ports", "1,2") == 2
        assert "give 3 different ports such as 7701,7702,7703" in shell.err
        assert shell.run("init", tmp_path / "c", *TRIO, "--topology", "ring") == 2
        assert "--topology ring is not known; it is one of star, mesh" in shell.err
