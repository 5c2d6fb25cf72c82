"""Certificates: the authority of a federation, and requests to it with which private keys stay where they were made.

What roles check is a chain to the federation's authority, valid dates, and the role's name as DNS name in the
certificate. In a trial one organisation makes everybody's key; in earnest each makes its own, and the authority signs
requests. Keys are EC P-256.
"""

from __future__ import annotations

import datetime as dt
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from mpfedxgb.atomic import PRIVATE, PUBLIC, write_file
from mpfedxgb.errors import SettingsError
from mpfedxgb.machine import readers_beside_owner

ROLE_DAYS = 90
AUTHORITY_DAYS = 730
AUTHORITY = "ca"
"""The folder that `init` makes for a trial authority."""
CA_CERTIFICATE = "ca.crt"
CA_KEY = "ca.key"
LEAST_RSA_BITS = 2048

_SKEW = dt.timedelta(minutes=5)
_DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Authority:
    """An authority: anyone who has its key can make certificates for any role."""

    certificate: x509.Certificate = field(repr=False)
    key: ec.EllipticCurvePrivateKey = field(repr=False)

    @classmethod
    def create(
        cls,
        folder: Path,
        federation: str,
        days: int = AUTHORITY_DAYS,
        overwrite: bool = False,
        passphrase: str | None = None,
        kind: str = "trial authority",
    ) -> Authority:
        """Make an authority and write its certificate and key, readable by nobody else, into a folder."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{_checked(federation)} {kind}")])
        builder = _builder(name, name, key.public_key(), days)
        usage = _usage(signs_certificates=True)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(usage, critical=True)
        authority = cls(builder.sign(key, hashes.SHA256()), key)
        _write_all(
            {
                folder / CA_KEY: (_key_pem(key, passphrase), PRIVATE),
                folder / CA_CERTIFICATE: (_pem(authority.certificate), PUBLIC),
            },
            overwrite,
        )
        return authority

    @classmethod
    def load(cls, folder: Path, passphrase: str | None = None) -> Authority:
        """Return the authority that `create` wrote into a folder."""
        locked = None if passphrase is None else passphrase.encode()
        try:
            check_private(folder / CA_KEY)
            contents = (folder / CA_CERTIFICATE).read_bytes(), (folder / CA_KEY).read_bytes()
        except OSError as error:
            raise SettingsError(
                f"cannot read the authority in {folder}: {error.strerror}", "file", folder.name
            ) from None
        try:
            certificate = x509.load_pem_x509_certificate(contents[0])
            key = serialization.load_pem_private_key(contents[1], locked)
        except TypeError:
            how = "encrypted; give --passphrase-env" if locked is None else "not encrypted; give no passphrase"
            raise SettingsError(f"the key of the authority in {folder} is {how}", "mismatch", CA_KEY) from None
        except ValueError:
            what = "cannot be opened with this passphrase, or is damaged" if locked else "is damaged"
            raise SettingsError(
                f"the authority in {folder} {what}; without its key, make a new one, and new certificates",
                "damaged",
                folder.name,
            ) from None
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            text = f"{CA_KEY} and {CA_CERTIFICATE} in {folder} do not belong together; make a new authority"
            raise SettingsError(text, "mismatch", CA_KEY)
        return cls(certificate, key)

    def issue(
        self, folder: Path, role: str, days: int = ROLE_DAYS, passphrase: str | None = None, overwrite: bool = False
    ) -> tuple[Path, Path]:
        """Write a new certificate and key for a role, and the authority's certificate, into a folder.

        Parameters
        ----------
        folder : Path
            Gets ROLE.crt, ROLE.key and ca.crt; made if it is not there.
        role : str
            The name that other roles will check.
        days : int
            How long the certificate is valid; it does not outlive the authority's.
        passphrase : str or None
            Encrypts the key.
        overwrite : bool
            Whether files that are there already are replaced; otherwise they are an error.

        Returns
        -------
        tuple of Path
            The certificate's and the key's.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        signed = self.sign(key.public_key(), role, days)
        paths = folder / f"{role}.crt", folder / f"{role}.key"
        _write_all(
            {
                paths[1]: (_key_pem(key, passphrase), PRIVATE),
                paths[0]: (_pem(signed), PUBLIC),
                folder / CA_CERTIFICATE: (_pem(self.certificate), PUBLIC),
            },
            overwrite,
        )
        return paths

    def sign(self, public: PublicKey, role: str, days: int = ROLE_DAYS) -> x509.Certificate:
        """Return a certificate for a role's public key; it does not outlive the authority's own."""
        if self.certificate.not_valid_after_utc < dt.datetime.now(dt.UTC):
            raise SettingsError(
                f"the authority ended at {self.certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC, and what it signs "
                "is accepted by nobody; make a new one (mpfedxgb cert authority)",
                "ended",
                CA_CERTIFICATE,
            )
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _checked(role))])
        builder = _builder(subject, self.certificate.subject, public, days, self.certificate.not_valid_after_utc)
        both = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        for extension, critical in (
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (_usage(signs_certificates=False), True),
            (both, False),
            (x509.SubjectAlternativeName([x509.DNSName(role)]), False),
            (issuer, False),
        ):
            builder = builder.add_extension(extension, critical=critical)
        return builder.sign(self.key, hashes.SHA256())

    def answer(self, request: Path, role: str, out: Path, days: int = ROLE_DAYS) -> x509.Certificate:
        """Sign the request in a file for the role that it has to be from, and write the certificate."""
        asked = read_request(request)
        names = requested_names(asked)
        if names != [role]:
            listed = ", ".join(map(repr, names)) or "no DNS name"
            raise SettingsError(
                f"the request {request} is for {listed}, not for {role!r} alone; a certificate is for one role: sign "
                "it as the role that you know it to be from, or have that role make it again (mpfedxgb cert request)",
                "mismatch",
                "role",
                names,
            )
        signed = self.sign(_usable(asked.public_key(), request), role, days)
        _write_all({out: (_pem(signed), PUBLIC)}, overwrite=False)
        return signed

    def has_issued(self, path: Path) -> bool:
        """Return whether a file holds a certificate of this authority."""
        try:
            x509.load_pem_x509_certificate(path.read_bytes()).verify_directly_issued_by(self.certificate)
        except (OSError, ValueError, TypeError, InvalidSignature):
            return False
        return True

    def renew(self, folder: Path, role: str, days: int = ROLE_DAYS, passphrase: str | None = None) -> tuple[Path, Path]:
        """Replace a role's certificate and key by new ones; the others need nothing new."""
        return self.issue(folder, role, days, passphrase, overwrite=True)

    def prolong(self, path: Path, role: str, days: int = ROLE_DAYS) -> None:
        """Replace the certificate in a file by a newer one for the same key."""
        public = _usable(x509.load_pem_x509_certificate(path.read_bytes()).public_key(), path)
        _write_all({path: (_pem(self.sign(public, role, days)), PUBLIC)}, overwrite=True)


PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey
PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def make_key(path: Path, passphrase: str | None) -> PrivateKey:
    """Make a private key and write it into a new file that nobody else may read."""
    key = ec.generate_private_key(ec.SECP256R1())
    _write_all({path: (_key_pem(key, passphrase), PRIVATE)}, overwrite=False)
    return key


def write_request(path: Path, role: str, key: PrivateKey) -> None:
    """Write a request for a certificate of a role: its name and public key, signed with the private one."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _checked(role))])
    builder = x509.CertificateSigningRequestBuilder(subject)
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(role)]), critical=False)
    request = builder.sign(key, hashes.SHA256())
    _write_all({path: (request.public_bytes(serialization.Encoding.PEM), PUBLIC)}, overwrite=True)


def read_request(path: Path) -> x509.CertificateSigningRequest:
    """Return the request in a file, which its own key must have signed as it is."""
    try:
        content = path.read_bytes()
    except OSError as error:
        text = f"cannot read {path}: {error.strerror}; correct the path or its permissions"
        raise SettingsError(text, "file", path.name) from None
    if b"PRIVATE KEY-----" in content:
        text = f"{path} holds a private key; it stays with its role, who sends the request (.csr) instead"
        raise SettingsError(text, "secret", path.name)
    try:
        request = x509.load_pem_x509_csr(content)
        is_signed = request.is_signature_valid
    except Exception:  # of several kinds, by what is wrong with it
        raise SettingsError(
            f"{path} contains no request in PEM form (-----BEGIN CERTIFICATE REQUEST-----); "
            "have the role make it with mpfedxgb cert request",
            "damaged",
            path.name,
        ) from None
    if not is_signed:
        text = f"the request {path} was changed after it was signed; have the role send it again"
        raise SettingsError(text, "damaged", path.name)
    return request


def requested_names(request: x509.CertificateSigningRequest) -> list[str]:
    """Return the names that a request is for: DNS names and, in their brackets, those of other kinds."""
    try:
        extension = request.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (x509.ExtensionNotFound, ValueError):
        return []
    return [name.value if isinstance(name, x509.DNSName) else repr(name) for name in extension.value]


def fingerprint(public: CertificatePublicKeyTypes) -> str:
    """Return the SHA-256 digest of a public key, the same for the key, its requests and its certificates."""
    content = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    digest = hashes.Hash(hashes.SHA256())
    digest.update(content)
    return digest.finalize().hex(":")


def check_private(path: Path) -> None:
    """Refuse a key that others of this machine may read; OSError if it is not there."""
    found = path.stat()
    if who := readers_beside_owner(found):
        mode = stat.S_IMODE(found.st_mode)
        raise SettingsError(
            f"{path} is open to {who} (mode {mode:o}); chmod 600 it, or take a new key if somebody may have read it",
            "secret",
            path.name,
            mode,
        )


def _usable(public: CertificatePublicKeyTypes, path: Path) -> PublicKey:
    if isinstance(public, ec.EllipticCurvePublicKey) or (
        isinstance(public, rsa.RSAPublicKey) and public.key_size >= LEAST_RSA_BITS
    ):
        return public
    raise SettingsError(
        f"the key of {path} is of a kind that is not signed here; take EC P-256, or RSA of {LEAST_RSA_BITS} bits",
        "certificate",
        path.name,
    )


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public: PublicKey,
    days: int,
    latest: dt.datetime | None = None,
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    end = now + dt.timedelta(days=days)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)  # a peer's clock may be a little behind
        .not_valid_after(end if latest is None else min(end, latest))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _checked(name: str) -> str:
    if not _DNS_LABEL.fullmatch(name):
        text = (
            f"{name!r} cannot stand in a certificate; "
            "a name has 1 to 63 of the characters a-z, 0-9 and -, and no - at its ends"
        )
        raise SettingsError(text, "value", "name", name)
    return name


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey, passphrase: str | None) -> bytes:
    locked = (
        serialization.NoEncryption()
        if passphrase is None
        else serialization.BestAvailableEncryption(passphrase.encode())
    )
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked)


def _write_all(files: Mapping[Path, tuple[bytes, int]], overwrite: bool) -> None:
    """Write files with their modes, each whole or not at all; nothing at all if one of them may not be replaced."""
    there = [path.name for path in files if path.exists()]
    if there and not overwrite:
        folder = next(iter(files)).parent
        text = f"{', '.join(there)} in {folder} would be overwritten; take another place"
        raise SettingsError(text, "duplicate", there[0])
    for path, (content, mode) in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, content, mode)
        except OSError as error:
            raise SettingsError(f"cannot write {path}: {error.strerror}", "file", path.name) from None
