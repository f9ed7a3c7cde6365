"""TLS with OpenSSL as the client, and certificate reloading."""

import http.client
import ssl
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from stack import PATIENCE, eventually
from stack.credentials import certificate
from stack.replica import Server


def connect(server: Server, trusted: Path) -> http.client.HTTPSConnection:
    """Returns a connection that trusts only this certificate, after one request."""
    context = ssl.create_default_context(cafile=trusted)
    port = urlsplit(server.url).port
    client = http.client.HTTPSConnection("localhost", port, timeout=PATIENCE, context=context)
    assert get(client) == 200
    return client


def get(client: http.client.HTTPSConnection) -> int:
    client.request("GET", "/hello")
    reply = client.getresponse()
    reply.read()
    return reply.status


def accepts(server: Server, trusted: Path) -> bool:
    try:
        connect(server, trusted).close()
    except ssl.SSLCertVerificationError:
        return False
    return True


@pytest.mark.parametrize("key", ["ec", "rsa:2048", "ed25519"])
def test_a_certificate_is_replaced_under_the_running_server(
    start: Callable[..., Server], tmp_path: Path, key: str
) -> None:
    old, old_key = certificate(tmp_path, "old", key)
    new, new_key = certificate(tmp_path, "new", key)
    used, used_key = tmp_path / "tls.crt", tmp_path / "tls.key"
    used.write_bytes(old.read_bytes())
    used_key.write_bytes(old_key.read_bytes())
    flags = ["--tls.certificate", used, "--tls.key", used_key, "--tls.reload", "100ms"]
    server = start(*flags, "--drain.settle", "0s")
    kept = connect(server, old)
    assert not accepts(server, new)

    def reloads(result: str) -> float:
        return server.metrics()[f'corelane_tls_reloads_total{{result="{result}"}}']

    new_key.replace(used_key)
    eventually(lambda: reloads("failure") == 1, "a key without its certificate is refused")
    assert accepts(server, old)
    following = tmp_path / "next"
    following.write_bytes(new.read_bytes())
    following.replace(used)
    eventually(lambda: reloads("success") == 1, "the pair is taken")
    assert accepts(server, new)
    assert not accepts(server, old)
    assert get(kept) == 200, "an open connection keeps its certificate"

    server.terminate()
    code, log = server.end()
    assert code == 0, log
    assert log.count("TLS certificate not reloaded") == 1
    assert str(used_key) in log
