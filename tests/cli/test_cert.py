"""`cert`: requests, signatures, installation and renewal between organisations; keys stay where they were made."""

from __future__ import annotations

import base64
import os
import re
import shutil
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from mpfedxgb.cli.init import init
from mpfedxgb.federation.settings.role import RoleSettings
from mpfedxgb.transport import certificates
from mpfedxgb.transport.certificates import Authority, fingerprint, make_key, write_request
from mpfedxgb.transport.tls.identity import Identity
from support.commands import Shell
from test_commands_in_documents import commands_of
from test_readme import ROOT


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Return a shell."""
    return Shell(monkeypatch, capsys)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a federation as `init` writes it, and another authority."""
    folder = tmp_path_factory.mktemp("cert")
    init(folder / "loans", participants="bank,telecom")
    Authority.create(folder / "federation-ca", "loans", kind="authority")
    return folder


@pytest.fixture
def here(written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of that folder, which is also where commands run."""
    folder = shutil.copytree(written, tmp_path / "here")
    monkeypatch.chdir(folder)
    return folder


def files(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def identity_of(settings: Path) -> Identity:
    """Return who the role of a settings file is, as others see it."""
    role = RoleSettings.from_toml(settings)
    assert role.tls is not None
    return Identity.of(role.role.name, role.tls.credentials())


BANK = Path("loans/bank/bank.toml")
CA = "federation-ca"


def test_the_commands_of_the_page_run(shell: Shell, here: Path) -> None:
    """In their order, each printing what the next organisation compares; files travel as the page says."""
    shutil.rmtree(CA)
    shown = [words for words in commands_of(ROOT / "docs" / "deployment.md") if words[1] == "cert"]
    assert [words[2] for words in shown] == ["authority", "renew", "sign", "install", "show"]
    before, fingerprints = identity_of(BANK).ca, []
    for words in shown:
        if words[2] == "install":
            shutil.copy(f"{CA}/ca.crt", ".")
        assert shell.run(*words[1:]) == 0, shell.err
        if words[2] in ("renew", "sign", "show"):
            fingerprints += [re.findall(r"public key   SHA-256 (\S+)", shell.out)[0]]
        if words[2] == "renew":
            assert identity_of(BANK).ca == before, "the old key works until the new certificate is there"
            shutil.move("loans/bank/bank.csr", ".")
    assert len(set(fingerprints)) == 1
    assert identity_of(BANK).ca == Path(f"{CA}/ca.crt").read_bytes() != before
    holding = {name for name, content in files(here).items() if b"PRIVATE KEY" in content}
    assert not {name for name in holding if name.startswith("loans/bank")} - {"loans/bank/bank.key"}
    for name in (*holding, CA):
        assert stat.S_IMODE((here / name).stat().st_mode) == (0o700 if name == CA else 0o600)


@pytest.mark.parametrize("passphrase", [None, "correct horse"])
def test_from_nothing_to_a_renewal(
    shell: Shell, here: Path, monkeypatch: pytest.MonkeyPatch, passphrase: str | None
) -> None:
    """A role without a key makes one, under the passphrase if there is one; a renewal keeps it."""
    if passphrase:
        text = BANK.read_text()
        BANK.write_text(text.replace("# passphrase_env", "passphrase_env"))
        monkeypatch.setenv("KEY_PASSPHRASE", passphrase)
    key, certificate = here / "loans/bank/bank.key", here / "loans/bank/bank.crt"
    key.unlink()
    assert shell.run("cert", "request", BANK) == 0, shell.err
    made = key.read_bytes()
    assert (b"ENCRYPTED" in made) == bool(passphrase)
    assert shell.run("cert", "request", BANK) == 2
    assert "bank.key is there already; mpfedxgb cert renew" in shell.err
    found = []
    for number in range(2):
        if number:
            assert shell.run("cert", "renew", BANK) == 0, shell.err
        where = ["--role", "bank", "--authority", "loans/ca", "--out", number]
        assert shell.run("cert", "sign", "loans/bank/bank.csr", *where) == 0
        assert shell.run("cert", "install", BANK, str(number)) == 0, shell.err
        found.append(identity_of(BANK).certificate)
        assert key.read_bytes() == made
    assert found[0] != found[1] == certificate.read_bytes()
    assert not passphrase or passphrase not in shell.out + shell.err


def test_an_authority_with_a_passphrase(shell: Shell, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked for, and no other opens it."""
    monkeypatch.setenv("CA_PASSPHRASE", "correct horse")
    assert shell.run("cert", "authority", "locked", *["--name", "loans", "--passphrase-env", "CA_PASSPHRASE"]) == 0
    assert b"ENCRYPTED" in Path("locked/ca.key").read_bytes()
    assert shell.run("cert", "renew", BANK) == 0
    sign = ["cert", "sign", "loans/bank/bank.csr", "--role", "bank", "--authority", "locked", "--out", "new.crt"]
    assert shell.run(*sign) == 2
    assert "is encrypted; give --passphrase-env" in shell.err
    assert shell.run(*sign, "--passphrase-env", "CA_PASSPHRASE") == 0
    assert shell.run(*sign, "--passphrase-env", "CA_PASSPHRASE") == 2
    assert "new.crt in . would be overwritten" in shell.err
    monkeypatch.setenv("CA_PASSPHRASE", "wrong horse")
    assert shell.run(*sign, "--passphrase-env", "CA_PASSPHRASE") == 2
    assert "cannot be opened with this passphrase" in shell.err
    assert "horse" not in shell.err


def _tampered() -> None:
    """Put another name into a request, and leave the signature as it is."""
    pem = Path("bank.csr").read_bytes()
    content = x509.load_pem_x509_csr(pem).public_bytes(serialization.Encoding.DER).replace(b"bank", b"rank")
    body = base64.encodebytes(content).decode()
    Path("bank.csr").write_text(f"-----BEGIN CERTIFICATE REQUEST-----\n{body}-----END CERTIFICATE REQUEST-----\n")


def _with_names(*names: str) -> None:
    builder = x509.CertificateSigningRequestBuilder(x509.Name([]))
    alternative = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
    builder = builder.add_extension(alternative, critical=False)
    request = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    Path("bank.csr").write_bytes(request.public_bytes(serialization.Encoding.PEM))


def _of_another_kind() -> None:
    builder = x509.CertificateSigningRequestBuilder(x509.Name([]))
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("bank")]), critical=False)
    request = builder.sign(ed25519.Ed25519PrivateKey.generate(), None)
    Path("bank.csr").write_bytes(request.public_bytes(serialization.Encoding.PEM))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda: shutil.copy("telecom.csr", "bank.csr"), "is for 'telecom', not for 'bank' alone"),
        (lambda: _with_names("bank", "telecom"), "is for 'bank', 'telecom', not for 'bank' alone"),
        (lambda: Path("bank.csr").unlink(), "cannot read bank.csr: No such file"),
        (lambda: shutil.copy("loans/bank/bank.key", "bank.csr"), "holds a private key; it stays with its role"),
        (lambda: shutil.copy("loans/bank/bank.crt", "bank.csr"), "contains no request in PEM form"),
        (_tampered, "was changed after it was signed"),
        (_of_another_kind, "take EC P-256"),
        (lambda: Path(CA, "ca.key").chmod(0o644), r"ca.key is open to everybody \(mode 644\)"),
        (lambda: shutil.copy("loans/bank/bank.key", f"{CA}/ca.key"), "do not belong together"),
        (lambda: shutil.rmtree(CA), "cannot read the authority"),
    ],
)
def test_what_is_not_signed(shell: Shell, here: Path, change: object, says: str) -> None:
    """Other names, changed requests, keys that others may read; nothing is written."""
    for role in ("bank", "telecom"):
        write_request(Path(f"{role}.csr"), role, make_key(Path(f"{role}.key"), None))
    change()  # type: ignore[operator] # of several kinds
    assert shell.run("cert", "sign", "bank.csr", "--role", "bank", "--authority", CA) == 2
    assert re.search(says, shell.err), shell.err
    assert not Path("bank.crt").exists()


def test_an_authority_that_has_ended(shell: Shell, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it signs would be worth nothing, and is not signed; `show` says so and ends with 2."""
    assert shell.run("cert", "renew", BANK) == 0
    with monkeypatch.context() as patch:
        patch.setattr(certificates, "_SKEW", certificates._SKEW * 1000)
        Authority.create(Path("ended"), "loans", days=-1)
    sign = ["cert", "sign", "loans/bank/bank.csr", "--role", "bank", "--authority", "ended", "--out", "new.crt"]
    assert shell.run(*sign) == 2
    assert "the authority ended at" in shell.err
    assert shell.run("cert", "show", "ended/ca.crt") == 2
    assert "0 days left" in shell.out
    assert "problem      it has ended" in shell.out


def test_what_is_not_installed(shell: Shell, here: Path) -> None:
    """Certificates of other names, keys and authorities; the role's files stay as they are."""
    other = Authority.load(Path(CA))
    other.issue(Path("elsewhere"), "bank")
    before = files(here / "loans")
    for path, says in (
        ("loans/telecom/telecom.crt", "does not belong to the certificate"),
        ("elsewhere/bank.crt", "does not belong to the certificate"),
        ("elsewhere/bank.key", "contains no certificate in PEM form"),
        ("nothing.crt", "cannot read nothing.crt"),
    ):
        assert shell.run("cert", "install", BANK, path) == 2
        assert says in shell.err
    assert shell.run("cert", "renew", BANK) == 0
    other.answer(Path("loans/bank/bank.csr"), "bank", Path("new.crt"))
    assert shell.run("cert", "install", BANK, "new.crt") == 2
    assert "was not issued by the authority" in shell.err
    os.remove("loans/bank/bank.csr")
    assert files(here / "loans") == before
    Path("loans/bank/bank.key").chmod(0o640)
    for words in (("renew", BANK), ("install", BANK, "loans/bank/bank.crt"), ("show", BANK)):
        assert shell.run("cert", *words) == 2
        assert "(mode 640); chmod 600 it" in shell.err + shell.out


def test_an_installation_that_ended_half_way(shell: Shell, here: Path) -> None:
    """With the new key in place and the old certificate, the same command mends it."""
    assert shell.run("cert", "renew", BANK, "--new-key") == 0
    assert shell.run("cert", "show", BANK) == 0
    assert "waiting" in shell.out
    Authority.load(Path("loans/ca")).answer(Path("loans/bank/bank.csr"), "bank", Path("new.crt"))
    shutil.copy("loans/bank/bank.key.next", "loans/bank/bank.key")
    assert shell.run("cert", "show", BANK) == 2
    assert "does not belong to the certificate" in shell.out
    assert shell.run("cert", "install", BANK, "new.crt") == 0
    assert shell.run("cert", "show", BANK, "loans/bank/bank.csr") == 0
    public = x509.load_pem_x509_certificate(Path("new.crt").read_bytes()).public_key()
    assert shell.out.count(fingerprint(public)) == 2
    assert not Path("loans/bank/bank.key.next").exists()


class TestTrial:
    """New certificates for a folder that `init` wrote."""

    @pytest.mark.parametrize("new_key", [False, True])
    def test_only_trial_certificates(self, shell: Shell, here: Path, new_key: bool) -> None:
        """Real ones, which another authority signed, are left alone; settings and tables too."""
        Authority.load(Path(CA)).issue(Path("other"), "bank")
        shutil.copy("other/bank.crt", "loans/bank/bank.crt")
        before = files(here / "loans")
        assert shell.run("cert", "renew", "loans", *["--new-key"][: int(new_key)]) == 0
        assert "coordinator, telecom" in shell.out
        assert "Left alone, since they are not of this authority: bank" in shell.out
        after = files(here / "loans")
        assert {name for name in after if after[name] != before.get(name)} == {
            f"{role}/{role}.{ending}" for role in ("coordinator", "telecom") for ending in ("crt", "key")[: 1 + new_key]
        }
        assert identity_of(Path("loans/telecom/telecom.toml")).name == "telecom"

    def test_nothing_to_renew(self, shell: Shell, here: Path) -> None:
        """Without an authority, or without roles."""
        assert shell.run("cert", "renew", "loans/bank") == 2
        assert "cannot read the authority" in shell.err
        for path in Path("loans").glob("*/*.toml"):
            path.with_suffix(".crt").unlink()
        assert shell.run("cert", "renew", "loans") == 2
        assert "has no role with a certificate" in shell.err
