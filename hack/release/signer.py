"""Signs and attests artefacts with cosign, and verifies them as a user would."""

import base64
import json
from dataclasses import dataclass
from pathlib import Path

from release.artefacts import Artefact
from tools import command, resolve

SBOM = "cyclonedx"
PROVENANCE = "slsaprovenance1"

PASSWORD = {"COSIGN_PASSWORD": ""}
"""The temporary key has no password. Without this variable, cosign would prompt for one on the
terminal.
"""

NO_SERVICES = {"mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json"}
"""A signing configuration without certificate authority, transparency log and timestamps."""
NO_ROOTS = {"mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1"}
"""A trusted root without keys of such services; by default cosign downloads one."""


@dataclass(frozen=True)
class Signer:
    """Cosign options for signing, and for verifying these signatures."""

    signing: tuple[str, ...]
    verifying: tuple[str, ...]

    def sign(self, artefact: Artefact) -> None:
        self._cosign("sign", "--yes", *self.signing, artefact.reference)

    def attest(self, artefact: Artefact, kind: str, predicate: Path) -> None:
        about = ["--type", kind, "--predicate", str(predicate), artefact.reference]
        self._cosign("attest", "--yes", *self.signing, *about)

    def verify(self, artefact: Artefact) -> None:
        """Fails unless the artefact is signed."""
        self._cosign("verify", *self.verifying, artefact.reference)

    def predicate(self, artefact: Artefact, kind: str) -> dict:
        options = ["--type", kind, *self.verifying]
        lines = self._cosign("verify-attestation", *options, artefact.reference)
        envelope = json.loads(lines.splitlines()[0])
        return json.loads(base64.b64decode(envelope["payload"]))["predicate"]

    def _cosign(self, *arguments: str) -> str:
        return command.output([_cosign(), *arguments], env=PASSWORD)


def workflow(identity: str, issuer: str) -> Signer:
    """Signs with a certificate for the running workflow's identity, and a public log."""
    verifying = ("--certificate-identity", identity, "--certificate-oidc-issuer", issuer)
    return Signer(signing=(), verifying=verifying)


def throw_away(folder: Path) -> Signer:
    """Signs with a new key and without a transparency log."""
    folder.mkdir(parents=True)
    prefix = folder / "cosign"
    argv = [_cosign(), "generate-key-pair", "--output-key-prefix", prefix]
    command.output(argv, env=PASSWORD)
    services, roots = folder / "signing-config.json", folder / "trusted-root.json"
    services.write_text(json.dumps(NO_SERVICES))
    roots.write_text(json.dumps(NO_ROOTS))
    offline = ("--signing-config", str(services), "--trusted-root", str(roots))
    return Signer(
        signing=("--key", f"{prefix}.key", *offline),
        verifying=("--key", f"{prefix}.pub", "--insecure-ignore-tlog=true"),
    )


def _cosign() -> Path:
    return resolve.tool("cosign")
