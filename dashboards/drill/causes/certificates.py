"""Certificates that end soon, have ended, or cannot be used."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dashboards.drill import factor
from dashboards.drill.drills import Labels, drill
from dashboards.drill.parts import Server
from dashboards.drill.place import Place

YEAR = timedelta(days=365)

WEEK = timedelta(days=7) / factor.FACTOR
"""The bound of the warning in the drill."""

DAY = timedelta(days=1) / factor.FACTOR
"""That of the critical alert."""


def write(folder: Path, lasts: timedelta) -> tuple[Path, Path]:
    """A new certificate of `localhost` and its key, in the files that the server reads; both at once."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=2))
        .not_valid_after(now + lasts)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    form = serialization.PrivateFormat.PKCS8
    _replace(folder / "tls.key", key.private_bytes(pem, form, serialization.NoEncryption()))
    _replace(folder / "tls.crt", made.public_bytes(pem))
    return folder / "tls.crt", folder / "tls.key"


def _replace(file: Path, content: bytes) -> None:
    fresh = file.with_suffix(".new")
    fresh.write_bytes(content)
    fresh.replace(file)


def _server(place: Place) -> Server:
    certificate, key = write(place.folder, YEAR)
    files = ("--tls.certificate", certificate, "--tls.key", key)
    return place.server(*files, "--tls.reload", "200ms", tls=True)


@drill(
    "CorelaneCertificateExpiry/warning",
    how="a replica's new certificate lasts half of the drill's week; one of a year takes its place",
)
def certificate_of_a_week(place: Place) -> Iterator[Labels]:
    server = _server(place)
    place.begins()
    write(place.folder, WEEK / 2)
    yield {"pod": server.pod}
    write(place.folder, YEAR)


@drill(
    "CorelaneCertificateExpiry/critical",
    how="a replica's new certificate lasts half of the drill's day; one of a year takes its place",
)
def certificate_of_a_day(place: Place) -> Iterator[Labels]:
    server = _server(place)
    place.begins()
    write(place.folder, DAY / 2)
    yield {"pod": server.pod}
    write(place.folder, YEAR)


@drill(
    "CorelaneCertificateExpiry/critical",
    how="a replica's new certificate lasts 10 s, and ends; one of a year takes its place",
)
def certificate_ends(place: Place) -> Iterator[Labels]:
    server = _server(place)
    place.begins()
    write(place.folder, timedelta(seconds=10))
    yield {"pod": server.pod}
    write(place.folder, YEAR)


@drill(
    "CorelaneCertificateNotReloaded",
    how="the new certificate ended an hour ago, which a replica does not take; a good one takes its place",
)
def certificate_ended(place: Place) -> Iterator[Labels]:
    server = _server(place)
    place.begins()
    write(place.folder, timedelta(hours=-1))
    yield {"pod": server.pod}
    write(place.folder, YEAR)


@drill(
    "CorelaneCertificateNotReloaded",
    how="the new certificate is no PEM; a good one takes its place",
)
def certificate_broken(place: Place) -> Iterator[Labels]:
    server = _server(place)
    place.begins()
    (place.folder / "tls.crt").write_text("no certificate\n")
    yield {"pod": server.pod}
    write(place.folder, YEAR)
