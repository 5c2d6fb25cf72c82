"""Identities are checked before they are used, and nothing below TLS 1.3 is spoken, on either side."""

from __future__ import annotations

import pickle
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from contracts.transport_contract import LONG, Call
from mpfedxgb.errors import Code, HandshakeError, PeerTimeoutError, SecretError, SettingsError
from mpfedxgb.transport.tls import identity as identity_module
from mpfedxgb.transport.tls.calls import probe
from mpfedxgb.transport.tls.identity import ALPN, OLD_ALPN, Identity
from mpfedxgb.transport.transport import Address
from support.by_hand import by_hand
from support.loopback import Loopback, loopback
from support.pki import PASSPHRASE, Authority, Pair, unchecked
from support.refusals import ANY, refused

BOTH = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Return the federation's authority."""
    return Authority(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[Loopback]:
    """Return a coordinator and an active participant."""
    with loopback(tmp_path, roles=2) as made:
        yield made


def load(authority: Authority, pair: Pair, name: str = "bank", passphrase: bytes | None = None) -> Identity:
    """Load an identity of the bank."""
    return Identity.load(name, authority.file, pair.certificate, pair.key, passphrase)


# Identities


def test_a_good_identity(authority: Authority) -> None:
    """It is loaded, knows when it expires, and shows no key, no passphrase and no certificate's content."""
    pair = authority.issue("bank", passphrase=PASSPHRASE)
    identity = load(authority, pair, passphrase=PASSPHRASE)
    assert identity.expires < authority.certificate.not_valid_after_utc.replace(year=9999)
    shown = repr(identity) + str(identity)
    assert "BEGIN" not in shown
    assert PASSPHRASE.decode() not in shown
    with refused(SecretError, "secret", "identity"):
        pickle.dumps(identity)


def test_a_certificate_with_more_names_is_good(authority: Authority) -> None:
    """The host's name may be there as well; the role's must."""
    pair = authority.issue("host.example.org", "bank")
    assert load(authority, pair).certificate == pair.certificate.read_bytes()
    with refused(SettingsError, "mismatch", ANY, "telecom"):
        load(authority, pair, "telecom")


def test_a_certificate_of_an_authority_in_between(authority: Authority, tmp_path: Path) -> None:
    """A chain leads to the root if the certificates in between are in the role's file, and is refused if not."""
    between = authority.between(tmp_path / "between")
    pair = between.issue("bank")
    with refused(SettingsError, "certificate", ANY, "authority"):
        load(authority, pair)
    chain = pair.certificate.read_bytes() + between.file.read_bytes()
    pair.certificate.write_bytes(chain)
    assert load(authority, pair).certificate == chain


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ({"days": (-3, -1)}, r"expired at \d{4}-\d\d-\d\d .* UTC; get a new one, or set the clock right"),
        ({"days": (1, 3)}, r"valid only from .* wait, or set the clock right"),
        ({"names": ("telecom",)}, r"is for 'telecom', not for 'bank'; .*subject alternative name"),
        ({"names": (), "common_name": "bank"}, r"is for no DNS name, not for 'bank'"),
        ({"self_signed": True}, r"was not issued by the authority in .*ca\.pem"),
    ],
)
def test_a_bad_certificate_is_refused_before_it_is_used(authority: Authority, what: dict, words: str) -> None:  # type: ignore[type-arg] # keyword arguments
    """Each problem has its own sentence, with the file and the remedy."""
    names = what.pop("names", ("bank",))
    pair = authority.issue(*names, **what)
    with pytest.raises(SettingsError, match=words) as caught:
        load(authority, pair)
    assert str(pair.certificate) in str(caught.value)


def test_a_certificate_of_another_authority(authority: Authority, tmp_path: Path) -> None:
    """The same names, another key."""
    with refused(SettingsError, "certificate", ANY, "authority"):
        load(authority, Authority(tmp_path).issue("bank"))


def test_an_expired_authority(tmp_path: Path) -> None:
    """The root's dates count too, and its file is the one that is named."""
    expired = Authority(tmp_path, days=(-3, -1))
    with refused(SettingsError, "certificate", "ca.pem"):
        load(expired, expired.issue("bank"))


def test_a_key_that_does_not_match(authority: Authority) -> None:
    """Two files that are each good but do not belong together."""
    one, other = authority.issue("bank"), authority.issue("bank")
    with refused(SettingsError, "mismatch", ANY, "certificate"):
        load(authority, Pair(one.certificate, other.key))


@pytest.mark.parametrize(
    ("lock", "passphrase", "words"),
    [
        (PASSPHRASE, None, ("missing", "passphrase")),
        (PASSPHRASE, b"wrong", ("mismatch", "passphrase")),
        (None, b"superfluous", ("place", "passphrase")),
    ],
)
def test_passphrases(
    authority: Authority, lock: bytes | None, passphrase: bytes | None, words: tuple[Any, ...]
) -> None:
    """Missing, wrong and superfluous ones are told apart, and never quoted."""
    pair = authority.issue("bank", passphrase=lock)
    with refused(SettingsError, *words) as caught:
        load(authority, pair, passphrase=passphrase)
    assert str(pair.key) in str(caught.value)
    assert "wrong" not in str(caught.value)
    assert "superfluous" not in str(caught.value)


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n"]
)
def test_files_that_are_something_else(authority: Authority, tmp_path: Path, content: bytes) -> None:
    """A file that is missing, empty or of another kind is named, without what is in it."""
    pair = authority.issue("bank")
    other = tmp_path / "other"
    other.write_bytes(content)
    wrong: list[tuple[tuple[Path, Path, Path], Code, str]] = [
        ((other, pair.certificate, pair.key), "damaged", "other"),
        ((authority.file, other, pair.key), "damaged", "other"),
        ((authority.file, pair.certificate, other), "damaged", "other"),
        ((tmp_path / "nothing", pair.certificate, pair.key), "file", "nothing"),
        ((tmp_path, pair.certificate, pair.key), "file", tmp_path.name),
    ]
    for arguments, code, name in wrong:
        with refused(SettingsError, code, name) as caught:
            Identity.load("bank", *arguments)
        assert "c2VjcmV0" not in str(caught.value)


def test_a_certificate_for_another_purpose(authority: Authority) -> None:
    """A certificate that is limited to servers is refused where a role dials, and the other way round."""
    server = load(authority, authority.issue("bank", usages=(ExtendedKeyUsageOID.SERVER_AUTH,)))
    server.check_usage(listens=True, dials=False)
    with refused(SettingsError, "certificate", ANY, "clientAuth"):
        server.check_usage(listens=True, dials=True)
    client = load(authority, authority.issue("bank", usages=(ExtendedKeyUsageOID.CLIENT_AUTH,)))
    with refused(SettingsError, "certificate", ANY, "serverAuth"):
        client.check_usage(listens=True, dials=True)
    anything = load(authority, authority.issue("bank", usages=(ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,)))
    for identity in (anything, load(authority, authority.issue("bank"))):
        identity.check_usage(listens=True, dials=True)


# TLS 1.3


def client_context(federation: Loopback, version: ssl.TLSVersion) -> ssl.SSLContext:
    """Return how the bank dials, with one TLS version only."""
    bank = federation.identity("bank")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols([ALPN])
    context.load_verify_locations(bank.ca_file)
    context.load_cert_chain(bank.certificate_file, bank.key_file)
    return context


def hello(federation: Loopback, context: ssl.SSLContext) -> str | None:
    """Return the version that a listening coordinator agrees to, after the first bytes of its answer."""
    with (
        socket.create_connection(("127.0.0.1", federation.ports[0]), LONG) as plain,
        context.wrap_socket(plain, server_hostname="coordinator") as secured,
    ):
        assert secured.recv(1), "the coordinator closed the connection"
        return secured.version()


def test_a_listening_role_speaks_tls_1_3_only(federation: Loopback) -> None:
    """A client with a good certificate is refused with TLS 1.2 and welcome with 1.3; then the federation forms."""
    coordinator = federation.call(0)
    federation.wait_for_port()
    with pytest.raises((ssl.SSLError, ConnectionResetError)):
        hello(federation, client_context(federation, ssl.TLSVersion.TLSv1_2))
    assert hello(federation, client_context(federation, ssl.TLSVersion.TLSv1_3)) == "TLSv1.3"
    bank = federation.connect(1)
    bank.close()
    coordinator.result().close()


@pytest.mark.parametrize("version", BOTH)
def test_a_dialling_role_speaks_tls_1_3_only(federation: Loopback, version: ssl.TLSVersion) -> None:
    """The bank dials a coordinator with a good certificate that offers one version: it goes on with 1.3 alone."""
    with listening(federation, versions=(version,)) as agreed, pytest.raises((HandshakeError, PeerTimeoutError)):
        federation.connect(1, timeout=2.0)
    assert "TLSv1.3" in agreed if version == ssl.TLSVersion.TLSv1_3 else set(agreed) == {None}


def test_a_role_that_speaks_grpc_is_recognised_and_told(federation: Loopback, caplog: pytest.LogCaptureFixture) -> None:
    """In the words of HTTP/2, which it shows to its operator; a listening role's log says so, too."""
    caplog.set_level("INFO", "mpfedxgb.transport")
    coordinator = federation.call(0)
    federation.wait_for_port()
    with by_hand(federation, alpn=OLD_ALPN) as old:
        old.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)))
        heard = old.hear_the_end()
    size = int.from_bytes(heard[9:12], "big")
    assert (heard[:9], heard[12], len(heard)) == (bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)), 7, 9 + 9 + size)
    assert heard.endswith(b"give all roles the same version of mpfedxgb")
    assert "coordinator refused a connection of 'bank': the caller speaks gRPC" in caplog.text
    federation.connect(1).close()
    coordinator.result().close()


def test_a_listener_that_speaks_grpc_is_recognised(federation: Loopback) -> None:
    """The dialling role says so and dials no more: no patience helps."""
    with (
        listening(federation, alpn=OLD_ALPN),
        refused(HandshakeError, "version", "coordinator"),
    ):
        federation.connect(1)


@contextmanager
def listening(
    federation: Loopback, alpn: str = ALPN, versions: tuple[ssl.TLSVersion, ...] = (ssl.TLSVersion.TLSv1_3,)
) -> Iterator[list[str | None]]:
    """Be a coordinator with a good certificate that says nothing after the handshake; give what was agreed."""
    identity = federation.identity("coordinator")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    context.set_alpn_protocols([alpn])
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(identity.ca_file)
    context.load_cert_chain(identity.certificate_file, identity.key_file)
    agreed: list[str | None] = []
    done = threading.Event()
    with socket.create_server(("127.0.0.1", federation.ports[0])) as port:
        port.settimeout(0.1)

        def serve() -> None:
            while not done.is_set():
                try:
                    plain, _ = port.accept()
                except TimeoutError:
                    continue
                plain.settimeout(LONG)
                try:
                    with context.wrap_socket(plain, server_side=True) as secured:
                        agreed.append(secured.version())
                except OSError:
                    agreed.append(None)

        server = Call(serve)
        try:
            yield agreed
        finally:
            done.set()
            server.result()


# Probes


def test_a_probe_finds_what_is_wrong(federation: Loopback, tmp_path: Path) -> None:
    """Nobody there, somebody else there, a certificate not accepted on either side, and all well."""
    bank, address = federation.identity("bank"), Address("127.0.0.1", federation.ports[0])
    with refused(PeerTimeoutError, "late", "coordinator", 111):
        probe(bank, address, "coordinator", LONG)
    coordinator = federation.call(0)
    federation.wait_for_port()
    probe(bank, address, "coordinator", LONG)
    with refused(HandshakeError, "certificate", "telecom"):
        probe(bank, address, "telecom", LONG)
    stranger = unchecked("bank", federation.authority.file, Authority(tmp_path / "other").issue("bank"))
    with refused(HandshakeError, "certificate", "bank"):
        probe(stranger, address, "coordinator", LONG)
    federation.connect(1).close()
    coordinator.result().close()


def test_a_probe_of_something_else(federation: Loopback) -> None:
    """A port that speaks no TLS, or says nothing at all."""
    bank = federation.identity("bank")
    with socket.create_server(("127.0.0.1", 0)) as port:
        address = Address("127.0.0.1", port.getsockname()[1])
        with refused(PeerTimeoutError, "late", "coordinator"):
            probe(bank, address, "coordinator", 0.2)

        def answer() -> None:
            port.accept()[0].close()  # the connection of before
            connection = port.accept()[0]
            connection.sendall(b"220 mail.example.org\r\n")
            connection.recv(1000)
            connection.close()

        answering = Call(answer)
        with refused(PeerTimeoutError, "late", "coordinator", "TLS"):
            probe(bank, address, "coordinator", LONG)
        answering.result()


def test_an_alert_of_anybody_is_no_refusal(federation: Loopback) -> None:
    """Before the handshake is done nobody has shown a certificate: it may be another host, so calling goes on."""
    with socket.create_server(("127.0.0.1", 0)) as port:

        def answer() -> None:
            connection = port.accept()[0]
            connection.recv(1000)
            connection.sendall(bytes((21, 3, 3, 0, 2, 2, 48)))  # fatal: unknown authority
            connection.close()

        answering = Call(answer)
        with refused(PeerTimeoutError, "late", "coordinator", "TLS"):
            probe(federation.identity("bank"), Address("127.0.0.1", port.getsockname()[1]), "coordinator", LONG)
        answering.result()


# Renewal


def test_a_certificate_that_was_renewed_counts_for_new_connections(
    federation: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a role listens, and without a pause: the next caller is shown the new certificate; nothing worse counts."""
    monkeypatch.setattr(identity_module, "READ_EVERY", 0.0)
    old = federation.identity("coordinator")
    coordinator = federation.call(0)
    federation.wait_for_port()
    new = federation.authority.issue("coordinator")
    seen = []
    for content in (old.certificate, b"half", new.certificate.read_bytes()):
        old.certificate_file.write_bytes(content)
        if content == new.certificate.read_bytes():
            old.key_file.write_bytes(new.key.read_bytes())
        with by_hand(federation) as bank:
            seen.append(ssl.DER_cert_to_PEM_cert(bank.socket.getpeercert(binary_form=True) or b"").encode())
    assert seen == [old.certificate, old.certificate, new.certificate.read_bytes()]
    federation.connect(1).close()
    coordinator.result().close()


def test_a_file_that_is_missing_for_a_moment(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    """At any time of a renewal: the identity of before stays."""
    monkeypatch.setattr(identity_module, "READ_EVERY", 0.0)
    pair = authority.issue("bank")
    identity, content = load(authority, pair), pair.certificate.read_bytes()
    pair.certificate.write_bytes(content + content)
    read, reads = Path.read_bytes, list[Path]()

    def read_and_lose(path: Path) -> bytes:
        found = read(path)
        if path == pair.certificate:
            reads.append(path)
            if len(reads) == 2:  # the first one is that of `is_current`
                path.unlink()
        return found

    monkeypatch.setattr(Path, "read_bytes", read_and_lose)
    assert identity.renewed() is identity
