"""Causes: certificates that expire soon, have expired, or are invalid."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dashboards.drill import factor
from dashboards.drill.drills import Labels, drill
from dashboards.drill.place import Place
from stack.credentials import SecretFolder, authority

YEAR = timedelta(days=365)

WEEK = timedelta(days=7) / factor.FACTOR

DAY = timedelta(days=1) / factor.FACTOR


def write(folder: Path, lasts: timedelta) -> tuple[Path, Path]:
    """Writes a certificate for `localhost` and its key into the files that the server reads."""
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


def _replaced(place: Place, change: Callable[[Path], object]) -> Iterator[Labels]:
    """Starts a replica whose certificate is replaced by a bad one and later by a good one."""
    certificate, key = write(place.folder, YEAR)
    files = ("--tls.certificate", certificate, "--tls.key", key)
    server = place.server(*files, "--tls.reload", "200ms", tls=True)
    place.begins()
    change(place.folder)
    yield {"pod": server.name}
    write(place.folder, YEAR)


@drill(
    "CorelaneCertificateExpiry/warning",
    how="a replica gets a certificate that expires within a week (shortened), then a one-year certificate",
)
def certificate_of_a_week(place: Place) -> Iterator[Labels]:
    yield from _replaced(place, lambda folder: write(folder, WEEK / 2))


@drill(
    "CorelaneCertificateExpiry/critical",
    how="a replica gets a certificate that expires within a day (shortened), then a one-year certificate",
)
def certificate_of_a_day(place: Place) -> Iterator[Labels]:
    yield from _replaced(place, lambda folder: write(folder, DAY / 2))


@drill(
    "CorelaneCertificateExpiry/critical",
    how="a replica gets a certificate that expires after 10 s, then a one-year certificate",
)
def certificate_ends(place: Place) -> Iterator[Labels]:
    yield from _replaced(place, lambda folder: write(folder, timedelta(seconds=10)))


@drill(
    "CorelaneCertificateNotReloaded",
    how="a replica gets an expired certificate and rejects it, then a valid certificate",
)
def certificate_ended(place: Place) -> Iterator[Labels]:
    yield from _replaced(place, lambda folder: write(folder, timedelta(hours=-1)))


@drill(
    "CorelaneCertificateNotReloaded",
    how="a replica gets a certificate that is not PEM, then a valid certificate",
)
def certificate_broken(place: Place) -> Iterator[Labels]:
    yield from _replaced(place, lambda folder: (folder / "tls.crt").write_text("not PEM\n"))


@drill(
    "CorelaneMutualTlsRefused",
    how="a replica gets the certificate of another service, then its own",
)
def certificate_of_another(place: Place) -> Iterator[Labels]:
    ca, name = authority(place.folder, "ca"), "shop.internal"
    secret, other = (SecretFolder(place.folder / each) for each in ("replica", "gateway"))

    def named(name: str) -> dict[str, bytes]:
        pair = ca.issue(f"DNS:{name}")
        return {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": ca.certificate}

    for each in (secret, other):
        each.put(named(name))
    flags = ["--tls.certificate", secret.path / "tls.crt", "--tls.key", secret.path / "tls.key"]
    flags += ["--tls.clients.ca", secret.path / "ca.crt", "--tls.clients.allow", name]
    server = place.server(
        *flags, "--tls.reload", "200ms", "--timeouts.connection-age", "1s", tls=True
    )
    mtls = {"enabled": True, "files": {"folder": str(other.path)}}
    values = {"mtls": mtls, "upstream": {"identity": name}}
    with place.load(place.gateway(server, values=values).url, clients=2, rate=20):
        place.begins()
        secret.put(named("other.internal"))
        yield {"pod": "gateway", "result": "replica_not_allowed"}
        secret.put(named(name))
