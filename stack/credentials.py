"""Certificates, folders like mounted Secrets, and bearer tokens: the server's tokens, and JSON Web
Tokens from an openssl issuer.
"""

import base64
import hashlib
import json
import os
import random
import subprocess
from dataclasses import dataclass
from pathlib import Path

from stack import HOST
from tools.resolve import tool


def certificate(folder: Path, name: str, key: str) -> tuple[Path, Path]:
    """Creates a self-signed certificate for `localhost` with a key of this type."""
    files = folder / f"{name}.crt", folder / f"{name}.key"
    argv = [tool("openssl"), "req", "-x509", "-newkey", key, "-noenc", "-days", "30"]
    argv += ["-subj", "/CN=localhost", "-addext", f"subjectAltName=DNS:localhost,IP:{HOST}"]
    if key == "ec":
        argv += ["-pkeyopt", "ec_paramgen_curve:P-256"]
    subprocess.run([*argv, "-out", files[0], "-keyout", files[1]], check=True, capture_output=True)
    return files


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as PEM text."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True)
class Authority:
    """A CA whose files are in a folder."""

    folder: Path
    name: str

    @property
    def certificate(self) -> bytes:
        """The certificate that clients and servers trust."""
        return (self.folder / f"{self.name}.crt").read_bytes()

    def issue(self, *names: str, days: int = 30) -> Pair:
        """Issues a certificate for clients and servers with these subject alternative names; with
        negative `days`, the certificate has expired."""
        file, key, request = (self.folder / f"leaf.{end}" for end in ("crt", "key", "csr"))
        extensions = self.folder / "leaf.ext"
        extensions.write_text(
            f"subjectAltName={','.join(names)}\nextendedKeyUsage=serverAuth,clientAuth\n"
        )
        _openssl("req", "-new", *_NEW_KEY, "-subj", "/", "-keyout", key, "-out", request)
        signer = [
            "-CA",
            self.folder / f"{self.name}.crt",
            "-CAkey",
            self.folder / f"{self.name}.key",
        ]
        signing = ["-CAcreateserial", "-days", str(days), "-extfile", extensions, "-out", file]
        _openssl("x509", "-req", "-in", request, *signer, *signing)
        return Pair(file.read_bytes(), key.read_bytes())


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc")


def authority(folder: Path, name: str) -> Authority:
    """Creates a CA."""
    files = ["-keyout", folder / f"{name}.key", "-out", folder / f"{name}.crt"]
    _openssl("req", "-x509", *_NEW_KEY, "-days", "30", "-subj", f"/CN={name}", *files)
    return Authority(folder, name)


class SecretFolder:
    """A folder like the kubelet's mount of a Secret, updated atomically by a rename."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._versions = 0
        path.mkdir()

    def put(self, files: dict[str, bytes]) -> None:
        """Replaces all files at once."""
        self._versions += 1
        version = self.path / f"..{self._versions}"
        version.mkdir()
        for name, content in files.items():
            (version / name).write_bytes(content)
            if not (self.path / name).is_symlink():
                (self.path / name).symlink_to(Path("..data") / name)
        (self.path / "..next").symlink_to(version.name)
        os.rename(self.path / "..next", self.path / "..data")


_DRAW = random.Random(1)


def token() -> str:
    """A different token on each call: 256 bits in base64. Every run gets the same sequence."""
    return base64.b64encode(_DRAW.randbytes(32)).decode()


def line(name: str, secret: str) -> str:
    return f"{name} sha256:{hashlib.sha256(secret.encode()).hexdigest()}\n"


@dataclass(frozen=True)
class Issuer:
    key: Path
    name: str = "https://issuer.example"

    def keys(self) -> str:
        """The public key as a JSON Web Key Set (RFC 7517)."""
        shown = _openssl("rsa", "-in", self.key, "-noout", "-modulus").decode().strip()
        modulus = bytes.fromhex(shown.partition("=")[2])
        key = {"kty": "RSA", "kid": "1", "alg": "RS256", "n": _base64url(modulus), "e": "AQAB"}
        return json.dumps({"keys": [key]})

    def sign(self, claims: dict) -> str:
        """Returns the claims as a token signed with RS256 (RFC 7515). A claim of None is omitted."""
        head = {"alg": "RS256", "kid": "1", "typ": "JWT"}
        claims = {"iss": self.name} | claims
        payload = {name: claim for name, claim in claims.items() if claim is not None}
        parts = [_base64url(json.dumps(part).encode()) for part in (head, payload)]
        signed = ".".join(parts)
        signature = _openssl("dgst", "-sha256", "-sign", self.key, text=signed.encode())
        return f"{signed}.{_base64url(signature)}"


def issuer(folder: Path, name: str = "issuer") -> Issuer:
    key = folder / f"{name}.pem"
    _openssl("genrsa", "-out", key, "2048")
    return Issuer(key)


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _openssl(*arguments: str | Path, text: bytes | None = None) -> bytes:
    argv = [tool("openssl"), *arguments]
    return subprocess.run(argv, input=text, capture_output=True, check=True).stdout
