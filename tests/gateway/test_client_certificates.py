"""Client certificates at the real Envoy's TLS listener, and the header that passes them to
services."""

import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.client import HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from stack import eventually
from stack.credentials import Authority, Pair, SecretFolder, authority, certificate
from stack.gateway import Gateway, endpoint, gateway_to
from stack.http import ask
from support.recorder import Recorder

IDENTITY = "spiffe://shop.example/partner"
FORGED = {"x-forwarded-client-cert": f"URI={IDENTITY}"}
HEADER = b"x-forwarded-client-cert"


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Returns the CA that the gateway trusts."""
    return authority(tmp_path_factory.mktemp("trusted"), "trusted")


@pytest.fixture(scope="module")
def recorder() -> Iterator[Recorder]:
    """Yields a service that records requests."""
    running = Recorder()
    yield running
    running.close()


@pytest.fixture
def ca(tmp_path: Path, trusted: Authority) -> SecretFolder:
    """Returns the folder of the CA's Secret."""
    made = SecretFolder(tmp_path / "ca")
    made.put({"ca.crt": trusted.certificate})
    return made


@pytest.fixture
def start(recorder: Recorder, ca: SecretFolder, tmp_path: Path) -> Iterator[Callable[..., Gateway]]:
    """Returns a function that starts a gateway whose /partners route requires a certificate."""
    pair = certificate(tmp_path, "tls", "ec")
    files = dict(zip(("certificate", "key"), map(str, pair), strict=True))
    clients = {"files": {"ca": f"{ca.path}/ca.crt", "sds": f"{tmp_path}/clients.yaml"}}
    service = {"name": "one", "endpoints": [endpoint(recorder.url, recorder.admin)]}
    paths = {"path": {"prefix": "/partners"}, "clientCertificate": True}
    routes = [{"name": "partners", **paths, "service": service}, {"name": "a", "service": service}]
    with ExitStack() as stack:

        def run(mode: str, **tls: object) -> Gateway:
            tls = {"enabled": True, "files": files, "clients": clients | {"mode": mode}, **tls}
            values = {"tls": tls, "routes": routes}
            running = stack.enter_context(gateway_to([], tmp_path, values))
            eventually(lambda: running.counted("cluster.prod-one-http.membership_healthy") == 1)
            recorder.take()
            return running

        yield run


def get(gateway: Gateway, path: str, folder: Path, pair: Pair | None = None) -> int:
    """Sends a request with a forged header; returns its status, or 0 if TLS failed."""
    context = ssl.create_default_context(cafile=str(folder / "tls.crt"))
    if pair:
        (folder / "own.pem").write_bytes(pair.key + pair.certificate)
        context.load_cert_chain(folder / "own.pem")
    client = HTTPSConnection("localhost", urlsplit(gateway.tls).port, context=context)
    try:
        client.request("GET", path, headers=FORGED)
        return client.getresponse().status
    except (ssl.SSLError, ConnectionError):
        return 0
    finally:
        client.close()


def test_an_optional_certificate_opens_the_route_that_requires_it(
    start: Callable[..., Gateway], trusted: Authority, recorder: Recorder, tmp_path: Path
) -> None:
    gateway = start("optional", plain="serve")
    assert get(gateway, "/partners", tmp_path, trusted.issue(f"URI:{IDENTITY}")) == 200
    (request,) = recorder.take().requests
    (told,) = request.values(HEADER)
    assert told.startswith(b"hash=")
    assert told.endswith(f";uri={IDENTITY}".encode())
    # No client can claim to have a certificate, neither over TLS nor without TLS.
    assert get(gateway, "/partners", tmp_path) == 403
    assert ask(gateway.url, "/partners", headers=FORGED).status == 403
    assert recorder.take().requests == []
    assert get(gateway, "/", tmp_path) == 200
    assert ask(gateway.url, "/", headers=FORGED).status == 200
    assert [request.values(HEADER) for request in recorder.take().requests] == [[], []]


@pytest.mark.parametrize("mode", ["optional", "required"])
def test_a_wrong_certificate_ends_the_handshake(
    start: Callable[..., Gateway], trusted: Authority, recorder: Recorder, tmp_path: Path, mode: str
) -> None:
    gateway = start(mode)
    (tmp_path / "other").mkdir()
    other = authority(tmp_path / "other", "trusted")
    for wrong in (other.issue(f"URI:{IDENTITY}"), trusted.issue(f"URI:{IDENTITY}", days=-1)):
        assert get(gateway, "/", tmp_path, wrong) == 0
    assert get(gateway, "/", tmp_path) == (200 if mode == "optional" else 0)
    assert get(gateway, "/", tmp_path, trusted.issue(f"URI:{IDENTITY}")) == 200
    assert len(recorder.take().requests) == (2 if mode == "optional" else 1)


def test_a_new_ca_needs_no_restart(
    start: Callable[..., Gateway], trusted: Authority, ca: SecretFolder, tmp_path: Path
) -> None:
    gateway = start("required")
    old, new = trusted, authority(tmp_path, "new")
    pairs = [each.issue(f"URI:{IDENTITY}") for each in (old, new)]
    assert [get(gateway, "/", tmp_path, pair) for pair in pairs] == [200, 0]
    ca.put({"ca.crt": old.certificate + new.certificate})
    eventually(lambda: get(gateway, "/", tmp_path, pairs[1]) == 200)
    assert get(gateway, "/", tmp_path, pairs[0]) == 200
    ca.put({"ca.crt": new.certificate})
    eventually(lambda: get(gateway, "/", tmp_path, pairs[0]) == 0)
    assert get(gateway, "/", tmp_path, pairs[1]) == 200
