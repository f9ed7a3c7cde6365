"""An OpenID Connect provider, and a client that keeps cookies and follows redirects like a browser."""

import shutil
import ssl
import time
from collections.abc import Iterator
from http.client import HTTPResponse, HTTPSConnection
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import urljoin, urlsplit
from urllib.request import Request

from loadtests.bench.experiment.builds import kept, run, version_of
from stack import HOST, PATIENCE
from stack.credentials import certificate
from stack.http import ask, replies
from stack.ports import free_ports
from stack.process import Process

PROGRAM = Path(__file__).with_name("provider.mjs")
SOURCES = [PROGRAM, *PROGRAM.parent.glob("package*.json")]

DOCUMENT = "/.well-known/openid-configuration"
DISCOVERED = {
    "issuer": "issuer",
    "authorizationEndpoint": "authorization_endpoint",
    "tokenEndpoint": "token_endpoint",
    "keysUrl": "jwks_uri",
    "endSessionEndpoint": "end_session_endpoint",
}


def _install(folder: Path) -> None:
    for file in SOURCES:
        shutil.copy(file, folder)
    # Packages must not run scripts during installation.
    run("oidc", ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder)


class Provider:
    """The process, which knows the client `shop` at one host."""

    def __init__(self, folder: Path, host: str) -> None:
        version = version_of(["npm", "--version"], "the OpenID Connect provider")
        modules = kept("oidc", SOURCES, version, _install)
        self.certificate, key = certificate(folder, "provider", "ec")
        port = free_ports(1)
        self.url = f"https://localhost:{port}"
        argv = ["node", modules / PROGRAM.name, port, self.certificate, key]
        self.values: dict[str, str] = {}
        """Chart values, which docs/gateway-security.md takes from the same document."""
        self._make = lambda secret: Process(
            "provider", [*argv, secret, host], folder, lambda: replies(self.url, DOCUMENT)
        )
        self._process: Process | None = None

    def start(self, secret: str) -> None:
        """Starts it with this client secret, after the previous process has ended."""
        self.stop()
        self._process = self._make(secret).start()
        found = ask(self.url + DOCUMENT).json()
        self.values = {key: found[name] for key, name in DISCOVERED.items()}

    def stop(self) -> None:
        """Kills the process if it is running."""
        if self._process:
            self._process.kill()


class Browser:
    """Navigates over TLS; `hosts` maps names to addresses."""

    def __init__(self, hosts: dict[str, str]) -> None:
        self.hosts = hosts
        self.jar = CookieJar()
        self._tls = ssl.create_default_context()
        self._tls.check_hostname, self._tls.verify_mode = False, ssl.CERT_NONE

    def get(self, url: str, method: str = "GET", **headers: str) -> HTTPResponse:
        """Sends one request, and returns the response with its body read into `content`."""
        split, request = urlsplit(url), Request(url, method=method)
        self.jar.add_cookie_header(request)
        fields = {"Host": split.netloc, "Accept": "text/html,*/*;q=0.8", **headers}
        address = self.hosts.get(split.netloc, split.netloc.replace("localhost", HOST))
        connection = HTTPSConnection(address, timeout=PATIENCE, context=self._tls)
        try:
            target = split.path + (f"?{split.query}" if split.query else "")
            connection.request(method, target, headers=fields | dict(request.header_items()))
            response = connection.getresponse()
            response.content = response.read()
        finally:
            connection.close()
        self.jar.extract_cookies(response, request)
        return response

    def until(self, url: str, part: str) -> str:
        """Follows redirects until the next URL contains this part, and returns that URL."""
        while part not in url:
            url = urljoin(url, self.get(url).headers["location"])
        return url

    def path(self, url: str) -> Iterator[tuple[str, HTTPResponse]]:
        """Yields each URL and its response, until no redirect follows."""
        while url:
            response = self.get(url)
            yield url, response
            location = response.headers["location"]
            url = location and urljoin(url, location)

    def open(self, url: str) -> HTTPResponse:
        """Follows all redirects and returns the last response."""
        *_, (_, last) = self.path(url)
        return last

    def later(self, seconds: int) -> None:
        """Drops the cookies that expire within this time."""
        for cookie in list(self.jar):
            if cookie.is_expired(time.time() + seconds):
                self.jar.clear(cookie.domain, cookie.path, cookie.name)
