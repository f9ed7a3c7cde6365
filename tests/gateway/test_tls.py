"""TLS at the gateway: protocols by ALPN, and certificates that are renewed while Envoy is
running."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from stack import eventually
from stack.credentials import SecretFolder, certificate
from stack.gateway import Gateway, endpoint, gateway_to
from stack.http import ask
from stack.replica import Server
from support.http2 import Http2Client
from support.raw import connect, read_until


class Folder(SecretFolder):
    """The mount of a Secret with the gateway's certificate."""

    def put(self, chain: Path, key: Path) -> None:
        """Replaces both files at once."""
        super().put({"tls.crt": chain.read_bytes(), "tls.key": key.read_bytes()})

    def values(self, **more: object) -> dict:
        """Returns the values of a gateway with this certificate."""
        files = {"certificate": f"{self.path}/tls.crt", "key": f"{self.path}/tls.key"}
        return {"tls": {"enabled": True, "files": files, **more}}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    """Returns two certificates and their keys."""
    folder = tmp_path_factory.mktemp("certificates")
    return {name: certificate(folder, name, "ec") for name in ("old", "new")}


@pytest.fixture(scope="module")
def folder(pairs: dict[str, tuple[Path, Path]], tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """Returns the folder of the gateway's certificate."""
    folder = Folder(tmp_path_factory.mktemp("tls") / "secret")
    folder.put(*pairs["old"])
    return folder


@pytest.fixture(scope="module")
def gateway(
    server: Server, folder: Folder, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """Yields a gateway with TLS; its port without TLS redirects."""
    replicas = [endpoint(server.url, server.admin)]
    path = tmp_path_factory.mktemp("gateway")
    with gateway_to(replicas, path, values=folder.values()) as running:
        eventually(lambda: running.counted("cluster.server.membership_healthy") == 1)
        yield running


def trusting(authority: Path, *protocols: str) -> ssl.SSLContext:
    """Returns a client context that trusts one certificate and offers these protocols."""
    context = ssl.create_default_context(cafile=str(authority))
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context


def opened(gateway: Gateway, context: ssl.SSLContext) -> ssl.SSLSocket:
    """Opens a connection and completes the handshake."""
    return context.wrap_socket(connect(gateway.tls), server_hostname="localhost")


def get(connection: ssl.SSLSocket) -> bytes:
    """Sends one HTTP/1.1 GET, reads its small response to the end and returns the status line."""
    connection.sendall(b"GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return read_until(connection, b"Hello, World!").partition(b"\r\n")[0]


def shows(gateway: Gateway, authority: Path) -> bool:
    """Whether new connections receive this certificate."""
    try:
        opened(gateway, trusting(authority)).close()
    except ssl.SSLCertVerificationError:
        return False
    return True


@pytest.mark.parametrize("protocols", [("http/1.1",), ("acme", "http/1.1"), ()])
def test_clients_without_http2_get_http11(
    gateway: Gateway, pairs: dict[str, tuple[Path, Path]], protocols: tuple[str, ...]
) -> None:
    with opened(gateway, trusting(pairs["old"][0], *protocols)) as connection:
        assert connection.selected_alpn_protocol() == ("http/1.1" if protocols else None)
        assert get(connection) == b"HTTP/1.1 200 OK"


def test_http2_is_agreed_on_by_alpn(gateway: Gateway, pairs: dict[str, tuple[Path, Path]]) -> None:
    context = trusting(pairs["old"][0], "http/1.1", "h2")
    with opened(gateway, context) as connection:
        assert connection.selected_alpn_protocol() == "h2"
    client = Http2Client(gateway.tls, context)
    assert [client.ask("/hello").status for _ in range(3)] == [200] * 3
    client.close()


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_without_tls_there_is_only_the_way_to_it(gateway: Gateway, method: str) -> None:
    reply = ask(gateway.url, "/div/4?x=1", method, headers={"host": "shop.example:8080"})
    assert reply.status == 308
    assert reply.headers["location"] == "https://shop.example:443/div/4?x=1"
    assert reply.replica is None


def test_a_renewed_certificate_is_taken_without_a_restart(
    gateway: Gateway, pairs: dict[str, tuple[Path, Path]], folder: Folder
) -> None:
    (old, old_key), (new, new_key) = pairs["old"], pairs["new"]
    try:
        with opened(gateway, trusting(old)) as kept:
            folder.put(new, new_key)
            eventually(lambda: shows(gateway, new), "the new certificate")
            # Envoy has only one worker, so it cannot present both certificates.
            assert not shows(gateway, old)
            assert get(kept) == b"HTTP/1.1 200 OK"
        # Envoy ignores a mismatched pair and keeps the previous one.
        folder.put(old, new_key)
        errors = gateway.errors.read_text
        eventually(lambda: "Failed to load" in errors(), "a word about the wrong key")
        assert shows(gateway, new)
    finally:
        folder.put(old, old_key)
        eventually(lambda: shows(gateway, old), "the pair that fits again")
    assert gateway.process.running


def test_an_older_tls_than_is_wanted_is_refused(
    server: Server, pairs: dict[str, tuple[Path, Path]], folder: Folder, tmp_path: Path
) -> None:
    replicas = [endpoint(server.url, server.admin)]
    values = folder.values(minVersion="1.3", plain="serve")
    context = trusting(pairs["old"][0])
    with gateway_to(replicas, tmp_path, values=values) as gateway:
        with opened(gateway, context) as connection:
            assert connection.version() == "TLSv1.3"
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(ssl.SSLError, match="ALERT_PROTOCOL_VERSION"):
            opened(gateway, context)
        eventually(lambda: ask(gateway.url, "/hello").status == 200)
