"""Who a role is on the network: a private key, a certificate of the federation's authority, and TLS 1.3 with both.

Both sides of a connection have to show a certificate of the authority. A caller checks that it is for the role that it
calls; of a caller, the rendezvous does.
"""

from __future__ import annotations

import datetime as dt
import socket
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID

from mpfedxgb.errors import ExhaustedError, SecretError, SettingsError, is_exhaustion
from mpfedxgb.transport.expiry import READ_EVERY, now_utc
from mpfedxgb.transport.transports import Credentials

ALPN = "mpfedxgb"
OLD_ALPN = "h2"
"""What both sides say that they speak; and what roles said that spoke gRPC, who are to be told why that ends."""


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
    _called: ssl.SSLContext = field(repr=False)
    _calling: ssl.SSLContext = field(repr=False)
    _looked: list[float] = field(default_factory=lambda: [time.monotonic()], repr=False, compare=False)
    """When the files were last looked at."""

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
            The authority's certificate, or several: everyone they have certified is believed.
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
        contents = _read(ca), _read(certificate)
        roots, chain = _certificates(ca, contents[0]), _certificates(certificate, contents[1])
        private = load_private_key(key, passphrase)
        leaf = chain[0]
        if _public_bytes(private.public_key()) != _public_bytes(leaf.public_key()):
            text = f"the key {key} does not belong to the certificate {certificate}; give a matching pair"
            raise SettingsError(text, "mismatch", Path(key).name, "certificate")
        names = dns_names(leaf)
        if name not in names:
            text = (
                f"the certificate {certificate} is for {_list(names)}, not for {name!r}; the role's name must be among "
                "its DNS names (subject alternative name): correct the role's name, or ask for another certificate"
            )
            raise SettingsError(text, "mismatch", Path(certificate).name, name)
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
            *contents,
            *contexts_of(ca, certificate, key, passphrase),
        )

    @classmethod
    def of(cls, name: str, credentials: Credentials, may_have_ended: bool = False) -> Identity:
        """Return the identity of the role with these files."""
        files = credentials.ca, credentials.certificate, credentials.key
        return cls.load(name, *files, credentials.passphrase, may_have_ended)

    def __reduce__(self) -> NoReturn:
        raise SecretError(
            "an identity contains a private key and is not pickled; load it where it is needed", parameter="identity"
        )

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
                text = (
                    f"the certificate {self.certificate_file} may not be used by a role that {does}; "
                    f"ask for one with the extended key usage {usage}"
                )
                raise SettingsError(text, "certificate", self.certificate_file.name, usage)

    def renewed(self) -> Identity:
        """Return the identity that the files hold now, if it is another one and can be used; otherwise this one."""
        if time.monotonic() < self._looked[0] + READ_EVERY:
            return self
        self._looked[0] = time.monotonic()
        if self.is_current():
            return self
        try:
            return self.load(self.name, self.ca_file, self.certificate_file, self.key_file, self.passphrase)
        except (SettingsError, ExhaustedError):  # half of it is replaced, or it is no better
            return self

    def secure_call(self, plain: socket.socket) -> ssl.SSLSocket:
        """Return the TLS socket of a connection that somebody has made to this role, before the handshake."""
        return self._called.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)

    def secure_answer(self, plain: socket.socket, peer: str) -> ssl.SSLSocket:
        """Return the TLS socket of a connection that this role has made to a peer, before the handshake."""
        return self._calling.wrap_socket(plain, server_hostname=peer, do_handshake_on_connect=False)

    @staticmethod
    def names_of(secured: ssl.SSLSocket) -> list[str]:
        """Return the names in the certificate that the other side has proved to have the key of."""
        found = secured.getpeercert(binary_form=True)
        try:
            return dns_names(x509.load_der_x509_certificate(found)) if found else []
        except ValueError:  # what one library reads, another may not
            return []


def contexts_of(
    ca: Path, certificate: Path, key: Path, passphrase: bytes | None
) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return what a role is called with and what it calls with."""
    contexts = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for context in contexts:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        context.hostname_checks_common_name = False
        context.set_alpn_protocols([ALPN, OLD_ALPN])
        try:
            context.load_verify_locations(ca)
            context.load_cert_chain(certificate, key, passphrase or b"")
        except OSError as error:
            if is_exhaustion(error):
                raise ExhaustedError(
                    f"cannot read {certificate}: {error.strerror}", parameter=certificate.name
                ) from None
            raise SettingsError(
                f"{ca}, {certificate} or {key} changed while it was read; start again", "mismatch", certificate.name
            ) from None
    called, calling = contexts
    called.num_tickets = 0  # nobody resumes a session
    return called, calling


WHAT_TO_CHECK = (
    "check that both sides have the same authority's certificate (ca), that the certificates have not expired, "
    "that the clocks are right, and that each address belongs to the role it is given for"
)


def dns_names(certificate: x509.Certificate) -> list[str]:
    """Return the names that a certificate is for."""
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except Exception:  # none, or what OpenSSL reads and this library does not, such as names of other kinds
        return []
    return extension.value.get_values_for_type(x509.DNSName)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        if is_exhaustion(error):
            raise ExhaustedError(f"cannot read {path}: {error.strerror}", parameter=path.name) from None
        raise SettingsError(
            f"cannot read {path}: {error.strerror}; correct the path or its permissions", "file", path.name
        ) from None


def _certificates(path: Path, content: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(content)
    except ValueError:
        raise SettingsError(
            f"{path} contains no certificate in PEM form (-----BEGIN CERTIFICATE-----)", "damaged", path.name
        ) from None


def load_private_key(path: Path, passphrase: bytes | None) -> Any:
    """Return the private key in a PEM file."""
    content = _read(path)
    try:
        return serialization.load_pem_private_key(content, passphrase)
    except TypeError:
        if passphrase is None:
            raise SettingsError(f"the key {path} is encrypted; give its passphrase", "missing", "passphrase") from None
        raise SettingsError(f"the key {path} is not encrypted; give no passphrase", "place", "passphrase") from None
    except Exception:  # the library's reasons may quote what it read
        if passphrase is None:
            raise SettingsError(
                f"{path} contains no private key in PEM form (-----BEGIN PRIVATE KEY-----)", "damaged", path.name
            ) from None
        raise SettingsError(f"the key {path} cannot be opened with this passphrase", "mismatch", "passphrase") from None


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
    text = (
        f"the certificate {certificate} was not issued by the authority in {ca}; give the authority's certificate that "
        "all roles trust, and add the certificates in between, if there are any, to the role's own"
    )
    raise SettingsError(text, "certificate", certificate.name, "authority")


def _issued(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def _check_dates(certificate: x509.Certificate, path: Path, may_have_ended: bool) -> None:
    now = now_utc()
    if now < certificate.not_valid_before_utc:
        text = (
            f"the certificate in {path} is valid only from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC on, "
            f"and it is {now:%Y-%m-%d %H:%M} UTC; wait, or set the clock right"
        )
        raise SettingsError(text, "certificate", path.name, "early")
    if now > certificate.not_valid_after_utc and not may_have_ended:
        text = (
            f"the certificate in {path} expired at {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC, and it is "
            f"{now:%Y-%m-%d %H:%M} UTC; get a new one, or set the clock right"
        )
        raise SettingsError(text, "certificate", path.name, "expired")


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
