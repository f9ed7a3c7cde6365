"""Commands for a machine, over a port that needs no network: `init` runs them."""

import base64
import socket
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """How a command ended."""

    status: int
    output: str
    errors: str


class Silence(Exception):
    """The machine has ended, or does not answer in time."""


def run(port: socket.socket, script: str, patience: float) -> Result:
    """Runs lines of shell as root."""
    deadline = time.monotonic() + patience
    port.settimeout(patience)
    port.sendall(base64.b64encode(script.encode()) + b"\n")
    received = b""
    while b"\n" not in received:
        received += _receive(port, deadline)
    head, _, rest = received.partition(b"\n")
    status, *lengths = map(int, head.split())
    while len(rest) < sum(lengths):
        rest += _receive(port, deadline)
    output, errors = rest[: lengths[0]], rest[lengths[0] :]
    return Result(status, output.decode(), errors.decode())


def _receive(port: socket.socket, deadline: float) -> bytes:
    try:
        port.settimeout(max(deadline - time.monotonic(), 0.001))
        if received := port.recv(1 << 16):
            return received
    except (TimeoutError, ConnectionResetError) as error:
        raise Silence(f"no answer ({error})") from error
    raise Silence("it has ended")
