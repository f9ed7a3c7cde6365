"""Tokens, claims and origins that routes demand, through the real Envoy."""

from pathlib import Path

from gateway.test_routes import Start, gateway, named, recorder
from stack.credentials import issuer, token
from stack.http import ask
from support.recorder import Recorder

__all__ = ["gateway", "recorder"]


def test_a_route_needs_a_token_or_none(gateway: Start, recorder: Recorder, tmp_path: Path) -> None:
    known, own = issuer(tmp_path), token()
    (tmp_path / "token").write_text(own)
    (tmp_path / "jwks.json").write_text(known.keys())
    files = {"jwks": f"{tmp_path}/jwks.json", "token": f"{tmp_path}/token"}
    jwt = {"enabled": True, "issuer": known.name, "audiences": ["shop"]}
    service = named("old", recorder)
    running = gateway(
        {"name": "closed", "service": service, "path": {"prefix": "/closed"}, "jwt": True},
        {"name": "open", "service": service, "path": {"prefix": "/open"}, "jwt": False},
        {
            "name": "buyers",
            "service": service,
            "path": {"prefix": "/buyers"},
            "jwt": True,
            "requireClaims": [{"claim": "role", "values": ["buyer"]}],
        },
        {"name": "usual", "service": service},
        authentication={"jwt": {**jwt, "files": files}},
    )
    good = f"Bearer {known.sign({'aud': 'shop', 'exp': 4_000_000_000})}"

    def passed(path: str, method: str, bearer: str | None) -> bytes | int:
        """Returns the service's request fields for a token, in lower case, or the status of a rejected request."""
        headers = {"authorization": bearer} if bearer else {}
        status = ask(running.url, path, method, headers=headers).status
        requests = recorder.take().requests
        assert len(requests) == (status == 200)
        return b"".join(requests[0].values(b"authorization")) if requests else status

    for method in ("GET", "POST"):
        assert passed("/closed", method, good) == f"bearer {own}".lower().encode()
        assert passed("/closed", method, None) == 401
        assert passed("/open", method, None) == b""
        assert passed("/open", method, "Bearer mine") == b"bearer mine"
    assert passed("/usual", "GET", None) == f"bearer {own}".lower().encode()
    assert passed("/usual", "POST", None) == 401
    assert passed("/buyers", "GET", good) == 403
    buyer = known.sign({"aud": "shop", "exp": 4_000_000_000, "role": "buyer"})
    assert passed("/buyers", "GET", f"Bearer {buyer}") == f"bearer {own}".lower().encode()


def test_browsers_may_use_routes_of_other_origins(
    gateway: Start, recorder: Recorder, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text(token())
    (tmp_path / "jwks.json").write_text(issuer(tmp_path).keys())
    files = {"jwks": f"{tmp_path}/jwks.json", "token": f"{tmp_path}/token"}
    jwt = {"enabled": True, "issuer": "https://issuer.example", "audiences": ["shop"]}
    service = named("old", recorder)
    own = {"origins": ["https://*.shop.test"], "methods": ["PUT"], "credentials": True}
    limit = {"requests": 1, "interval": "1h", "burst": 1}
    running = gateway(
        {"name": "closed", "service": service, "path": {"prefix": "/closed"}, "jwt": True},
        {"name": "own", "service": service, "path": {"prefix": "/own"}, "cors": own},
        {"name": "off", "service": service, "path": {"prefix": "/off"}, "cors": {"origins": []}},
        {"name": "few", "service": service, "path": {"prefix": "/few"}, "rateLimit": limit},
        cors={"origins": ["https://a.test"], "headers": ["authorization"]},
        authentication={"jwt": {**jwt, "files": files}},
    )

    def answered(
        path: str, origin: str, method: str = "OPTIONS"
    ) -> tuple[int, int, dict[str, str]]:
        """Returns the status, the number of requests that reached the service, and the CORS headers."""
        headers = {"origin": origin, "access-control-request-method": "PUT"}
        reply = ask(running.url, path, method, headers=headers)
        prefix = "access-control-"
        found = {
            name.removeprefix(prefix): value
            for name, value in reply.headers.items()
            if name.startswith(prefix)
        }
        return reply.status, len(recorder.take().requests), found

    usual = {"allow-origin": "https://a.test"}
    # A preflight request needs no token. A rejection also contains the headers, because scripts
    # could not read it otherwise.
    preflight = {"allow-methods": "GET,HEAD,POST", "allow-headers": "authorization"}
    assert answered("/closed", "https://a.test") == (200, 0, usual | preflight | {"max-age": "600"})
    assert answered("/closed", "https://a.test", "GET") == (401, 0, usual)
    assert answered("/few", "https://a.test", "GET") == (200, 1, usual)
    assert answered("/few", "https://a.test", "GET") == (429, 0, usual)
    for origin in ("https://b.test", "http://a.test", "https://a.test.evil.test", "null"):
        status, reached, headers = answered("/closed", origin)
        assert (status, reached, "allow-origin" in headers) == (200, 0, False), origin
    # A route's policy replaces the policy of all routes.
    status, reached, headers = answered("/own", "https://x.www.shop.test")
    assert (status, reached) == (200, 0)
    assert headers["allow-origin"] == "https://x.www.shop.test"
    assert (headers["allow-methods"], headers["allow-credentials"]) == ("PUT", "true")
    for origin in ("https://a.test", "https://shop.test", "https://x.shop.test:8443"):
        assert "allow-origin" not in answered("/own", origin)[2], origin
    assert answered("/off", "https://a.test") == (200, 1, {})
