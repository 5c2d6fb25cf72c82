"""Certificates: an authority for trials that makes them for every role, and a watch on the one that a role waits with.

Real federations take certificates from an authority that all organisations trust; what roles check is the same: a chain
to the federation's authority, valid dates, and the role's name as DNS name in the certificate. Keys are EC P-256.

A role may wait for weeks. It says that its certificate ends once a day from two weeks before. Once it has ended no
other role accepts it; the role waits on, and reads the files again and again until there is a new one.
"""

from __future__ import annotations

import datetime as dt
import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from mpfedxgb.atomic import PRIVATE, PUBLIC, write_file
from mpfedxgb.errors import FederationError, SettingsError

ROLE_DAYS = 90
AUTHORITY_DAYS = 730
CA_CERTIFICATE = "ca.crt"
CA_KEY = "ca.key"

_SKEW = dt.timedelta(minutes=5)
_DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Authority:
    """An authority for trials: anyone who has its key can make certificates for any role."""

    certificate: x509.Certificate = field(repr=False)
    key: ec.EllipticCurvePrivateKey = field(repr=False)

    @classmethod
    def create(cls, folder: Path, federation: str, days: int = AUTHORITY_DAYS, overwrite: bool = False) -> Authority:
        """Make an authority and write its certificate and key, readable by nobody else, into a folder."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{_checked(federation)} trial authority")])
        builder = _builder(name, name, key.public_key(), days)
        usage = _usage(signs_certificates=True)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(usage, critical=True)
        authority = cls(builder.sign(key, hashes.SHA256()), key)
        _write_all(
            {
                folder / CA_KEY: (_key_pem(key, None), PRIVATE),
                folder / CA_CERTIFICATE: (_pem(authority.certificate), PUBLIC),
            },
            overwrite,
        )
        return authority

    @classmethod
    def load(cls, folder: Path) -> Authority:
        """Return the authority that `create` wrote into a folder."""
        try:
            certificate = x509.load_pem_x509_certificate((folder / CA_CERTIFICATE).read_bytes())
            key = serialization.load_pem_private_key((folder / CA_KEY).read_bytes(), None)
        except OSError as error:
            raise SettingsError(
                f"cannot read the authority in {folder}: {error.strerror}", "file", folder.name
            ) from None
        except (ValueError, TypeError):
            raise SettingsError(
                f"the authority in {folder} is damaged; make a new one, and new certificates", "damaged", folder.name
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
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _checked(role))])
        end = self.certificate.not_valid_after_utc
        builder = _builder(subject, self.certificate.subject, key.public_key(), days, end)
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
        paths = folder / f"{role}.crt", folder / f"{role}.key"
        _write_all(
            {
                paths[1]: (_key_pem(key, passphrase), PRIVATE),
                paths[0]: (_pem(builder.sign(self.key, hashes.SHA256())), PUBLIC),
                folder / CA_CERTIFICATE: (_pem(self.certificate), PUBLIC),
            },
            overwrite,
        )
        return paths

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


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
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
        text = f"{', '.join(there)} in {folder} would be overwritten; renew them, or take another folder"
        raise SettingsError(text, "duplicate", there[0])
    for path, (content, mode) in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, content, mode)
        except OSError as error:
            raise SettingsError(f"cannot write {path}: {error.strerror}", "file", path.name) from None


SOON = dt.timedelta(days=14)
"""How long before its end a certificate is worth a warning."""

WARN_EVERY = dt.timedelta(days=1)

READ_EVERY = 1.0
"""Seconds after which files that could not be used are read again."""

Clock = Callable[[], dt.datetime]

_log = logging.getLogger("mpfedxgb.transport")
_warned: dict[tuple[Path, dt.datetime, bool], dt.datetime] = {}
"""When this process last warned that a certificate ends, or has ended: a role connects many times a day."""


def now_utc() -> dt.datetime:
    """Return the time by which certificates are judged."""
    return dt.datetime.now(dt.UTC)


class ExpiryWatch:
    """Looks after the certificate that a role waits with.

    Parameters
    ----------
    role : str
        Whose it is.
    path : Path
        Its file.
    expires : datetime
        When it ends, or something that it rests on.
    load : callable
        Reads all files as at the start of a role, and raises SettingsError if they cannot be used.
    clock : callable
        Returns the time.
    """

    def __init__(
        self, role: str, path: Path, expires: dt.datetime, load: Callable[[], object], clock: Clock = now_utc
    ) -> None:
        self._role, self._path, self._expires, self._load, self._clock = role, path, expires, load, clock
        self._next_read = 0.0

    @property
    def has_ended(self) -> bool:
        """Whether no role accepts the certificate any more."""
        return self._clock() > self._expires

    def look(self) -> bool:
        """Warn, if that is due; return whether the certificate has ended and there is one that can be used instead."""
        ended = self.has_ended
        if not ended:
            self._note_renewal()
            self._warn(ended)
            return False
        if time.monotonic() >= self._next_read:
            self._next_read = time.monotonic() + READ_EVERY
            try:
                self._load()
            except (SettingsError, FederationError):
                pass  # as it was, half of it replaced, or no descriptor left
            else:
                return True
        self._warn(ended)
        return False

    def _note_renewal(self) -> None:
        """Say so if this certificate takes the place of one that had ended."""
        for key in [key for key in _warned if key[0] == self._path and key[2]]:
            del _warned[key]
            _log.info(
                "the certificate %s of %s was renewed; it expires at %s UTC",
                *(self._path, self._role, f"{self._expires:%Y-%m-%d %H:%M}"),
            )

    def _warn(self, ended: bool) -> None:
        now, key = self._clock(), (self._path, self._expires, ended)
        if now < self._expires - SOON or now < _warned.get(key, now - WARN_EVERY) + WARN_EVERY:
            return
        _warned[key] = now
        if ended:
            _log.warning(
                "the certificate %s of %s expired at %s UTC, and no other role accepts it; put a new one in its place, "
                "with its key: it is read within seconds, and %s goes on",
                *(self._path, self._role, f"{self._expires:%Y-%m-%d %H:%M}", self._role),
            )
            return
        _log.warning(
            "the certificate %s of %s expires at %s UTC, in %d days; renew it soon",
            *(self._path, self._role, f"{self._expires:%Y-%m-%d %H:%M}", (self._expires - now).days),
        )
