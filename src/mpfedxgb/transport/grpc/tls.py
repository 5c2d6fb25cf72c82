"""Who a role is on the network: a private key, a certificate of the federation's authority, and TLS 1.3 with both.

grpc's Python interface has no switch for the lowest TLS version. What it does have is GRPC_SSL_CIPHER_SUITES, the
suites for TLS 1.2, which grpc reads once: new releases when they are imported, old ones when the first channel is made;
those of TLS 1.3 are not configurable. Only pre-shared keys go with the one suite named below, and no role has any, so
no handshake of TLS 1.2 can succeed, on either side. The variable is set for the import and for a first channel, which
connects to nobody, alone. Where grpc was imported by somebody else before, it is too late, and credentials are refused.
A listening role also looks at the version that grpc reports for every connection.

tests/transport/test_tls.py tries both versions in both directions with the ssl module.
"""

from __future__ import annotations

import datetime as dt
import os
import socket
import ssl
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID

from mpfedxgb.errors import (
    ExhaustedError,
    HandshakeError,
    PeerTimeoutError,
    SecretError,
    SettingsError,
    is_exhaustion,
)
from mpfedxgb.transport.certificates import now_utc
from mpfedxgb.transport.transports import Credentials

SUITES_VARIABLE = "GRPC_SSL_CIPHER_SUITES"
TLS13_ONLY = "ECDHE-PSK-CHACHA20-POLY1305"

_HELD_TO_TLS13 = "grpc" not in sys.modules or os.environ.get(SUITES_VARIABLE) == TLS13_ONLY


@contextmanager
def _only_tls13() -> Iterator[None]:
    before = os.environ.get(SUITES_VARIABLE)
    os.environ[SUITES_VARIABLE] = TLS13_ONLY
    try:
        yield
    finally:
        del os.environ[SUITES_VARIABLE]
        if before is not None:
            os.environ[SUITES_VARIABLE] = before


os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # what is wrong with a connection, roles say in words of their own

with _only_tls13():
    import grpc as grpc

    grpc.insecure_channel("localhost:1").close()  # old releases (1.72 is one) read the variable only here


@dataclass(frozen=True, slots=True)
class Identity:
    """A role's certificate and key and the authority that the federation trusts; make one with `load`."""

    name: str
    ca_file: Path
    certificate_file: Path
    key_file: Path
    expires: dt.datetime
    """When the certificate does, or something that it rests on."""
    usages: frozenset[str] | None
    """Names of the purposes that the certificate is limited to; None for any."""
    passphrase: bytes | None = field(repr=False)
    ca: bytes = field(repr=False)
    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)

    @classmethod
    def load(
        cls,
        name: str,
        ca: Path,
        certificate: Path,
        key: Path,
        passphrase: bytes | None = None,
        may_have_ended: bool = False,
    ) -> Identity:
        """Return a role's identity from PEM files.

        Parameters
        ----------
        name : str
            The role's; the certificate must have it as DNS name.
        ca : Path
            The authority's certificate, or several: whoever they have certified is believed.
        certificate : Path
            The role's certificate, followed by those in between, if there are any.
        key : Path
            The private key, encrypted if there is a passphrase.
        passphrase : bytes or None
            Of the private key.
        may_have_ended : bool
            Whether to take a certificate that has expired, for a role that waits for a new one.

        Raises SettingsError, naming the file and what to do about it.
        """
        roots, chain = _certificates(ca), _certificates(certificate)
        private = _private_key(key, passphrase)
        leaf = chain[0]
        if _public_bytes(private.public_key()) != _public_bytes(leaf.public_key()):
            raise SettingsError(f"the key {key} does not belong to the certificate {certificate}; give a matching pair")
        names = dns_names(leaf)
        if name not in names:
            raise SettingsError(
                f"the certificate {certificate} is for {_list(names)}, not for {name!r}; the role's name must be among "
                "its DNS names (subject alternative name): correct the role's name, or ask for another certificate"
            )
        path = _path_to_root(chain, roots, certificate, ca)
        for link in path:
            _check_dates(link, ca if link in roots else certificate, may_have_ended)
        return cls(
            name,
            ca,
            certificate,
            key,
            min(link.not_valid_after_utc for link in path),
            _usages(leaf),
            passphrase,
            ca.read_bytes(),
            certificate.read_bytes(),
            private.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ),
        )

    @classmethod
    def of(cls, name: str, credentials: Credentials, may_have_ended: bool = False) -> Identity:
        """Return the identity of the role with these files."""
        files = credentials.ca, credentials.certificate, credentials.key
        return cls.load(name, *files, credentials.passphrase, may_have_ended)

    def __reduce__(self) -> NoReturn:
        raise SecretError("an identity contains a private key and is not pickled; load it where it is needed")

    def is_current(self) -> bool:
        """Return whether certificate and authority are still those in the files."""
        try:
            return (self.ca, self.certificate) == (self.ca_file.read_bytes(), self.certificate_file.read_bytes())
        except OSError:  # about to be replaced, or a passing trouble: what was read is good until there is another
            return True

    def check_usage(self, listens: bool, dials: bool) -> None:
        """Refuse a certificate that was not issued for what the role does."""
        for needed, usage, does in ((listens, "serverAuth", "listens"), (dials, "clientAuth", "dials")):
            if needed and self.usages is not None and usage not in self.usages:
                raise SettingsError(
                    f"the certificate {self.certificate_file} may not be used by a role that {does}; "
                    f"ask for one with the extended key usage {usage}"
                )

    def server_credentials(self) -> Any:
        """Return what a grpc server needs: it insists on a certificate of the federation's authority."""
        _refuse_if_too_late()
        return grpc.ssl_server_credentials([(self.key, self.certificate)], self.ca, require_client_auth=True)

    def channel_credentials(self) -> Any:
        """Return what a grpc channel needs."""
        _refuse_if_too_late()
        return grpc.ssl_channel_credentials(self.ca, self.key, self.certificate)

    def probe(self, address: str, peer: str, timeout: float) -> None:
        """Check that a peer answers at host:port and that both sides accept each other's certificates.

        It uses the ssl module, which says more than grpc about what is wrong. Raises PeerTimeoutError where waiting may
        help (nobody listens) and HandshakeError where it will not (a certificate is not accepted), which it has to find
        twice: a peer that ends right after it has accepted one looks the same.
        """
        try:
            self._probe_once(address, peer, timeout)
        except HandshakeError:
            time.sleep(_BEFORE_ASKING_AGAIN)
            self._probe_once(address, peer, timeout)

    def _probe_once(self, address: str, peer: str, timeout: float) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.set_alpn_protocols(["h2"])
        try:
            context.load_verify_locations(self.ca_file)
            context.load_cert_chain(self.certificate_file, self.key_file, self.passphrase or b"")
        except OSError as error:
            if is_exhaustion(error):
                raise PeerTimeoutError(f"{peer} at {address} cannot be tried: {error.strerror}") from None
            raise SettingsError(
                f"{self.ca_file}, {self.certificate_file} or {self.key_file} has changed since it was read; start again"
            ) from None
        host, _, port = address.rpartition(":")
        where = f"{peer} at {address}"
        try:
            with (
                socket.create_connection((host.strip("[]"), int(port)), timeout) as plain,
                context.wrap_socket(plain, server_hostname=peer) as secured,
            ):
                self._check_accepted(secured, where)
        except ssl.SSLCertVerificationError as error:
            raise HandshakeError(
                f"the certificate of {where} is not accepted: {error.verify_message}; {_WHAT_TO_CHECK}"
            ) from None
        except TimeoutError:
            raise PeerTimeoutError(f"{where} did not answer for {timeout:g} seconds") from None
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionResetError, BrokenPipeError):
            raise PeerTimeoutError(f"{where} hung up; it may be between two sessions, or have no room") from None
        except ssl.SSLError:
            raise PeerTimeoutError(f"{where} does not speak TLS 1.3; is it the right address and port?") from None
        except OSError as error:
            raise PeerTimeoutError(f"{where} cannot be reached: {error.strerror or error}") from None

    def _check_accepted(self, secured: ssl.SSLSocket, where: str) -> None:
        # In TLS 1.3 the dialling side finishes first: a certificate that is not accepted shows as an end right after.
        try:
            accepted = bool(secured.recv(1))
        except TimeoutError:
            accepted = True  # nothing to say is no refusal
        except OSError:
            accepted = False
        if not accepted:
            raise HandshakeError(
                f"{where} does not accept the certificate {self.certificate_file} of {self.name}; {_WHAT_TO_CHECK}"
            )


_BEFORE_ASKING_AGAIN = 0.2
"""Seconds in which a peer that has ended is gone from its port."""

_WHAT_TO_CHECK = (
    "check that both sides have the same authority's certificate (ca), that the certificates have not expired, "
    "that the clocks are right, and that each address belongs to the role it is given for"
)


def dns_names(certificate: x509.Certificate) -> list[str]:
    """Return the names that a certificate is for."""
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (x509.ExtensionNotFound, ValueError):
        return []
    return extension.value.get_values_for_type(x509.DNSName)


def peer_names(auth_context: Mapping[str, Sequence[bytes]]) -> list[str]:
    """Return the names in the certificate that the other side of a grpc call has proved to have the key of."""
    pem = auth_context.get("x509_pem_cert", [])
    try:
        return dns_names(x509.load_pem_x509_certificate(pem[0])) if len(pem) == 1 else []
    except ValueError:  # what one library reads, another may not
        return []


def tls_version(auth_context: Mapping[str, Sequence[bytes]]) -> str | None:
    """Return the TLS version of a grpc call's connection; None where grpc is too old to tell."""
    version = auth_context.get("ssl_tls_version", [])
    return version[0].decode(errors="replace") if version else None


def _refuse_if_too_late() -> None:
    if not _HELD_TO_TLS13:
        raise SettingsError(
            "grpc was imported before mpfedxgb.transport.grpc.tls, so that it cannot be held to TLS 1.3 any more; "
            f"import mpfedxgb.transport.grpc.tls first, or set {SUITES_VARIABLE}={TLS13_ONLY} in the environment"
        )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        if is_exhaustion(error):
            raise ExhaustedError(f"cannot read {path}: {error.strerror}") from None
        raise SettingsError(f"cannot read {path}: {error.strerror}; correct the path or its permissions") from None


def _certificates(path: Path) -> list[x509.Certificate]:
    content = _read(path)
    try:
        return x509.load_pem_x509_certificates(content)
    except ValueError:
        raise SettingsError(f"{path} contains no certificate in PEM form (-----BEGIN CERTIFICATE-----)") from None


def _private_key(path: Path, passphrase: bytes | None) -> Any:
    content = _read(path)
    try:
        return serialization.load_pem_private_key(content, passphrase)
    except TypeError:
        if passphrase is None:
            raise SettingsError(f"the key {path} is encrypted; give its passphrase") from None
        raise SettingsError(f"the key {path} is not encrypted; give no passphrase") from None
    except Exception:  # the library's reasons may quote what it read
        if passphrase is None:
            raise SettingsError(f"{path} contains no private key in PEM form (-----BEGIN PRIVATE KEY-----)") from None
        raise SettingsError(f"the key {path} cannot be opened with this passphrase") from None


def _public_bytes(key: Any) -> bytes:
    content: bytes = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return content


def _path_to_root(
    chain: Sequence[x509.Certificate], roots: Sequence[x509.Certificate], certificate: Path, ca: Path
) -> list[x509.Certificate]:
    """Return the certificates that a role's rests on, itself first, the authority's last."""
    path: list[x509.Certificate] = []
    for link in chain:
        if path and not _issued(path[-1], link):
            break
        path.append(link)
        for root in roots:
            if link == root or _issued(link, root):
                return [*path, root]
    raise SettingsError(
        f"the certificate {certificate} was not issued by the authority in {ca}; give the authority's certificate that "
        "all roles trust, and add the certificates in between, if there are any, to the role's own"
    )


def _issued(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def _check_dates(certificate: x509.Certificate, path: Path, may_have_ended: bool) -> None:
    now = now_utc()
    if now < certificate.not_valid_before_utc:
        raise SettingsError(
            f"the certificate in {path} is valid only from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC on, "
            f"and it is {now:%Y-%m-%d %H:%M} UTC; wait, or set the clock right"
        )
    if now > certificate.not_valid_after_utc and not may_have_ended:
        raise SettingsError(
            f"the certificate in {path} expired at {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC, and it is "
            f"{now:%Y-%m-%d %H:%M} UTC; get a new one, or set the clock right"
        )


def _usages(certificate: x509.Certificate) -> frozenset[str] | None:
    names = {ExtendedKeyUsageOID.SERVER_AUTH: "serverAuth", ExtendedKeyUsageOID.CLIENT_AUTH: "clientAuth"}
    try:
        extension = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage)
    except (x509.ExtensionNotFound, ValueError):
        return None
    if ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE in extension.value:
        return None
    return frozenset(names.get(usage, usage.dotted_string) for usage in extension.value)


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) or "no DNS name"
