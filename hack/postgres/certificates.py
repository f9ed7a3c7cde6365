"""The certificates of a PostgreSQL with TLS, signed by its own authority."""

from collections.abc import Sequence
from pathlib import Path

from postgres.account import Account
from tools import command, resolve

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc", "-days", "365")


def make(folder: Path, home: Path, hosts: Sequence[str], address: str, account: Account) -> None:
    """Writes ca.crt into `folder`, the server's certificate and key into `home`."""
    ca, ca_key = folder / "ca.crt", folder / "ca.key"
    crt, key = home / "server.crt", home / "server.key"
    _request("-subj", "/CN=corelane-postgres", "-out", ca, "-keyout", ca_key)
    names = [*(f"DNS:{host}" for host in hosts), "IP:127.0.0.1", f"IP:{address}"]
    extension = f"subjectAltName={','.join(names)}"
    signed = ("-CA", ca, "-CAkey", ca_key, "-addext", "basicConstraints=critical,CA:FALSE")
    _request("-subj", "/CN=localhost", "-out", crt, "-keyout", key, "-addext", extension, *signed)
    # The authority signs once, so its key is not kept.
    ca_key.unlink()
    for file in (crt, key):
        account.own(file)


def _request(*arguments: object) -> None:
    openssl = resolve.ensure(["openssl"])["openssl"]
    command.output([openssl, "req", "-x509", *KEY, *arguments])
