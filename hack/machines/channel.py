"""Sends commands to a machine over a port that needs no network; `init` runs them."""

import base64
import secrets
import socket
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    status: int
    output: str
    errors: str


class Silence(Exception):
    """The machine has stopped, or it does not respond in time."""


def run(port: socket.socket, script: str, patience: float) -> Result:
    deadline = time.monotonic() + patience
    number = secrets.token_hex(8).encode()
    port.settimeout(patience)
    port.sendall(number + b" " + base64.b64encode(script.encode()) + b"\n")
    rest = b""
    while True:
        while b"\n" not in rest:
            rest += _receive(port, deadline)
        head, _, rest = rest.partition(b"\n")
        answered, *numbers = head.split()
        status, *lengths = map(int, numbers)
        while len(rest) < sum(lengths):
            rest += _receive(port, deadline)
        found, rest = rest[: sum(lengths)], rest[sum(lengths) :]
        # Skips a late response to an earlier process.
        if answered == number:
            output, errors = found[: lengths[0]], found[lengths[0] :]
            return Result(status, output.decode(), errors.decode())


def _receive(port: socket.socket, deadline: float) -> bytes:
    try:
        port.settimeout(max(deadline - time.monotonic(), 0.001))
        if received := port.recv(1 << 16):
            return received
    except (TimeoutError, ConnectionResetError) as error:
        raise Silence(f"no answer ({error})") from error
    raise Silence("it has ended")
