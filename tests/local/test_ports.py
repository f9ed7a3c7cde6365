"""A port in use is refused before anything is built or started."""

import os
import socket
from collections.abc import Callable

from local import processes
from support.platforms import Platform


def test_port_in_use_names_port_process_and_variable(
    new_platform: Callable[[int], Platform],
) -> None:
    platform = new_platform(2)
    port = int(platform.variables["REPLICA_ADMIN_PORT"]) + 1
    with socket.create_server(("127.0.0.1", port)):
        result = platform.command("up")
    assert result.returncode == 1
    assert f"port {port} for server-1's admin is in use" in result.stderr
    assert f"{processes.name(os.getpid())} (pid {os.getpid()})" in result.stderr
    assert "REPLICA_ADMIN_PORT" in result.stderr
    assert platform.pids() == []


def test_port_in_use_on_all_addresses_is_found(new_platform: Callable[[int], Platform]) -> None:
    platform = new_platform(1)
    with socket.create_server(("0.0.0.0", int(platform.variables["GATEWAY_PORT"]))):
        result = platform.command("up")
    assert result.returncode == 1
    assert f"(pid {os.getpid()})" in result.stderr
    assert "GATEWAY_PORT" in result.stderr


def test_one_port_for_two_parts_is_refused(new_platform: Callable[[int], Platform]) -> None:
    platform = new_platform(1)
    port = platform.variables["GATEWAY_PORT"]
    result = platform.command("up", PROMETHEUS_PORT=port)
    assert result.returncode == 1
    assert f"port {port} is assigned to Prometheus and to the gateway" in result.stderr
