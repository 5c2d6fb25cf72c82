"""Trial certificates: roles accept them, keys stay private, and nothing is overwritten by accident."""

from __future__ import annotations

import datetime as dt
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from mpfedxgb.errors import Code, SettingsError
from mpfedxgb.transport.certificates import AUTHORITY_DAYS, ROLE_DAYS, Authority
from mpfedxgb.transport.tls.identity import Identity
from support.refusals import refused


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Return an authority whose files are in tmp_path/ca."""
    return Authority.create(tmp_path / "ca", "trial")


def load(path: Path) -> x509.Certificate:
    """Return a certificate."""
    return x509.load_pem_x509_certificate(path.read_bytes())


def mode(path: Path) -> int:
    """Return a file's permissions."""
    return stat.S_IMODE(path.stat().st_mode)


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


class TestIssued:
    """What a role gets."""

    def test_roles_accept_it(self, authority: Authority, tmp_path: Path) -> None:
        """Key, name, chain, dates and usage are what the transport asks for."""
        certificate, key = authority.issue(tmp_path / "bank", "bank")
        identity = Identity.load("bank", tmp_path / "bank" / "ca.crt", certificate, key)
        identity.check_usage(listens=True, dials=True)
        days = (identity.expires - dt.datetime.now(dt.UTC)).total_seconds() / 86400
        assert days == pytest.approx(ROLE_DAYS, abs=0.01)
        assert sorted(contents(tmp_path / "bank")) == ["bank.crt", "bank.key", "ca.crt"]

    def test_what_stands_in_it(self, authority: Authority, tmp_path: Path) -> None:
        """A DNS name, both usages, no right to sign others, and valid a little before now."""
        certificate = load(authority.issue(tmp_path, "bank")[0])
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert names.get_values_for_type(x509.DNSName) == ["bank"]
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert set(usages) == {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}
        assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        assert not certificate.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
        assert certificate.not_valid_before_utc < dt.datetime.now(dt.UTC)
        assert type(certificate.public_key()).__name__ == "ECPublicKey"

    def test_the_authority_signs_roles_only(self, authority: Authority) -> None:
        """It is an authority, and its certificates are none."""
        constraints = authority.certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
        assert (constraints.ca, constraints.path_length) == (True, 0)

    def test_does_not_outlive_the_authority(self, authority: Authority, tmp_path: Path) -> None:
        """A chain is as good as its shortest link."""
        certificate = load(authority.issue(tmp_path, "bank", days=2 * AUTHORITY_DAYS)[0])
        assert certificate.not_valid_after_utc == authority.certificate.not_valid_after_utc

    def test_with_a_passphrase(self, authority: Authority, tmp_path: Path) -> None:
        """The key is of no use without it."""
        certificate, key = authority.issue(tmp_path, "bank", passphrase="correct horse")  # noqa: S106 # of this test
        with refused(SettingsError, "missing", "passphrase"):
            Identity.load("bank", tmp_path / "ca.crt", certificate, key)
        Identity.load("bank", tmp_path / "ca.crt", certificate, key, b"correct horse")

    @pytest.mark.parametrize("role", ["", "Bank", "my bank", "a.b", "-a", "x" * 64, "bänk", "../bank"])
    def test_names_that_are_none(self, authority: Authority, tmp_path: Path, role: str) -> None:
        """They are refused, and nothing is written."""
        with refused(SettingsError, "value", "name"):
            authority.issue(tmp_path / "role", role)
        assert not (tmp_path / "role").exists()


class TestFiles:
    """Keys are private, and what is there stays."""

    def test_modes(self, authority: Authority, tmp_path: Path) -> None:
        """Nobody else reads a key; certificates are public."""
        certificate, key = authority.issue(tmp_path / "bank", "bank")
        assert mode(key) == mode(tmp_path / "ca" / "ca.key") == 0o600
        assert mode(certificate) == mode(tmp_path / "bank" / "ca.crt") == mode(tmp_path / "ca" / "ca.crt") == 0o644
        assert b"PRIVATE" not in certificate.read_bytes()
        assert b"PRIVATE" not in (tmp_path / "bank" / "ca.crt").read_bytes()

    @pytest.mark.parametrize("there", ["bank.crt", "bank.key", "ca.crt"])
    def test_never_over_a_file(self, authority: Authority, tmp_path: Path, there: str) -> None:
        """One file in the way, and none is written."""
        (tmp_path / there).write_text("mine")
        before = {path.name for path in tmp_path.iterdir()}
        with refused(SettingsError, "duplicate", there):
            authority.issue(tmp_path, "bank")
        assert (tmp_path / there).read_text() == "mine"
        assert {path.name for path in tmp_path.iterdir()} == before

    def test_never_over_an_authority(self, authority: Authority, tmp_path: Path) -> None:
        """All certificates would be worth nothing."""
        before = contents(tmp_path / "ca")
        with refused(SettingsError, "duplicate", "ca.key"):
            Authority.create(tmp_path / "ca", "trial")
        assert contents(tmp_path / "ca") == before
        Authority.create(tmp_path / "ca", "trial", overwrite=True)
        assert contents(tmp_path / "ca") != before

    def test_renewed(self, authority: Authority, tmp_path: Path) -> None:
        """A new key and certificate of the same authority, the key as private as before."""
        certificate, key = authority.issue(tmp_path / "bank", "bank", days=1)
        key.chmod(0o644)
        before = contents(tmp_path / "bank")
        assert authority.renew(tmp_path / "bank", "bank") == (certificate, key)
        after = contents(tmp_path / "bank")
        assert {name for name in after if after[name] != before[name]} == {"bank.crt", "bank.key"}
        assert mode(key) == 0o600
        Identity.load("bank", tmp_path / "bank" / "ca.crt", certificate, key)

    def test_no_place_to_write(self, authority: Authority, tmp_path: Path) -> None:
        """The path is named."""
        (tmp_path / "file").touch()
        with refused(SettingsError, "file", "bank.key"):
            authority.issue(tmp_path / "file", "bank")


class TestLoaded:
    """An authority from its folder."""

    def test_goes_on(self, authority: Authority, tmp_path: Path) -> None:
        """What it signs later is accepted like what it signed first."""
        again = Authority.load(tmp_path / "ca")
        certificate, _ = again.issue(tmp_path, "bank")
        assert authority.has_issued(certificate)

    def test_knows_its_own(self, authority: Authority, tmp_path: Path) -> None:
        """Certificates of others, and files that are none, are not its own."""
        other = Authority.create(tmp_path / "other", "trial")
        certificate, key = other.issue(tmp_path, "bank")
        assert not authority.has_issued(certificate)
        assert not authority.has_issued(key)
        assert not authority.has_issued(tmp_path / "gone.crt")

    @pytest.mark.parametrize(
        ("name", "content", "code"),
        [
            ("ca.crt", None, "file"),
            ("ca.key", None, "file"),
            ("ca.crt", b"x", "damaged"),
            ("ca.key", b"x", "damaged"),
        ],
    )
    def test_damaged(self, authority: Authority, tmp_path: Path, name: str, content: bytes | None, code: Code) -> None:
        """The folder is named, and what to do."""
        if content is None:
            (tmp_path / "ca" / name).unlink()
        else:
            (tmp_path / "ca" / name).write_bytes(content)
        with refused(SettingsError, code, "ca"):
            Authority.load(tmp_path / "ca")

    def test_mixed_up(self, authority: Authority, tmp_path: Path) -> None:
        """A key of another authority."""
        Authority.create(tmp_path / "other", "trial")
        (tmp_path / "ca" / "ca.key").write_bytes((tmp_path / "other" / "ca.key").read_bytes())
        with refused(SettingsError, "mismatch", "ca.key"):
            Authority.load(tmp_path / "ca")

    def test_keys_are_not_shown(self, authority: Authority) -> None:
        """Neither does a log."""
        assert repr(authority) == "Authority()"
