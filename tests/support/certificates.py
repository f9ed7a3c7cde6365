"""Certificates that last as long as a test."""

import subprocess
from pathlib import Path

from support.rendering import tool


def certificate(folder: Path, name: str, key: str) -> tuple[Path, Path]:
    """A new self-signed certificate for `localhost` and its key of this kind."""
    files = folder / f"{name}.crt", folder / f"{name}.key"
    argv = [tool("openssl"), "req", "-x509", "-newkey", key, "-noenc", "-days", "2"]
    argv += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    if key == "ec":
        argv += ["-pkeyopt", "ec_paramgen_curve:P-256"]
    subprocess.run([*argv, "-out", files[0], "-keyout", files[1]], check=True, capture_output=True)
    return files
