"""`up`, `status`, `logs` and `down` with real processes; `down` cleans up its own instance only."""

import http.client
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from local import supervisor
from stack import REPOSITORY, becomes, eventually, pids
from stack.credentials import SecretFolder, authority
from stack.http import ask
from stack.load import Load
from stack.programs import program
from support.platforms import Platform


def test_every_replica_answers_through_the_gateway(platform: Platform) -> None:
    expected = {replica.name for replica in platform.replicas}

    def answers() -> set[str | None]:
        return {ask(platform.gateway, "/hello").replica for _ in range(20)}

    # After a late health check, a replica gets no traffic until the next one.
    eventually(lambda: answers() == expected, f"replies of {expected} alone")


def test_each_replica_may_run_on_its_cpu_only(platform: Platform) -> None:
    for replica in platform.replicas:
        assert pids.cpus(platform.pid(replica.name)) == str(replica.cpu)


def test_second_up_says_it_is_up_and_changes_nothing(platform: Platform) -> None:
    before = sorted(platform.pids())
    result = platform.command("up")
    assert result.returncode == 0
    assert "is already up" in result.stdout
    assert platform.gateway in result.stdout
    assert sorted(platform.pids()) == before


def test_another_number_of_replicas_needs_a_new_start(platform: Platform) -> None:
    before = sorted(platform.pids())
    result = platform.command("up", REPLICAS="4")
    assert result.returncode == 1
    assert "REPLICAS=2" in result.stderr
    assert "REPLICAS=4" in result.stderr
    assert "make down" in result.stderr
    assert sorted(platform.pids()) == before


def test_every_address_that_up_prints_answers(platform: Platform) -> None:
    addresses = set(re.findall(r"http://[^\s;)]+", platform.command("up").stdout))
    assert len(addresses) >= 4 + 2 * len(platform.replicas)
    answers = {url: ask(url, urlsplit(url).path or "/").status for url in addresses}
    assert set(answers.values()) == {200}, answers


@pytest.mark.parametrize("command", ["status", "logs"])
def test_a_reader_that_leaves_early_is_no_error_to_explain(
    platform: Platform, command: str
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = platform.begin(command, stdout=writer)
    os.close(writer)
    _, errors = process.communicate()
    assert (process.returncode, errors) == (128 + signal.SIGPIPE, "")


def test_status_shows_every_process(platform: Platform) -> None:
    def shown() -> tuple[int, dict[str, list[str]]]:
        result = platform.command("status")
        lines = [line.split() for line in result.stdout.splitlines()[1:]]
        return result.returncode, {name: rest[:2] for name, *rest in lines}

    def expected() -> tuple[int, dict[str, list[str]]]:
        names = ("dashboard", "gateway", "prometheus", "server-0", "server-1")
        return 0, {name: ["running", str(platform.pid(name))] for name in names}

    # supervisord reports a restarted process as running only after a second.
    eventually(lambda: shown() == expected(), "the rows of all processes")


def test_logs_show_every_process_and_know_no_other(platform: Platform) -> None:
    result = platform.command("logs")
    assert result.returncode == 0
    for name in ("gateway", "prometheus", "server-0", "server-1"):
        assert f"==> {name}" in result.stdout
    unknown = platform.command("logs", "server-9")
    assert unknown.returncode == 1
    assert "'server-9'" in unknown.stderr
    assert "server-1" in unknown.stderr


def end_and_return(platform: Platform, name: str, kind: signal.Signals) -> None:
    """Kills a replica and waits for its successor's replies."""
    before = platform.pid(name)
    # Pid 0 would signal the whole process group.
    assert before
    os.kill(before, kind)
    eventually(lambda: platform.pid(name) not in (0, before), "a new process")
    eventually(lambda: ask(platform.gateway, "/hello").replica == name, "its replies")


def test_a_killed_replica_comes_back(platform: Platform) -> None:
    end_and_return(platform, "server-1", signal.SIGKILL)


def test_broken_replicas_fail_no_request_and_faults_do(
    new_platform: Callable[[int], Platform],
) -> None:
    # Commands of docs/break-things.md.
    platform = new_platform(2)
    platform.up()
    for name, kind in (("server-0", signal.SIGKILL), ("server-1", signal.SIGTERM)):
        with Load(platform.gateway) as load:
            end_and_return(platform, name, kind)
            load.wait_for(100)
        assert load.failures == [], kind
    # The drain as shown to readers.
    log = (platform.run / "server-1.log").read_text()
    assert log.index("drain: settling") < log.index("drain: closing")
    replica = platform.replicas[0]
    faults = [
        {"route": "/hello", "share": 1, "error": {"status": 503}, "expires_in": "1m"},
        {
            "route": "/div/{n}",
            "share": 1,
            "latency": {"fixed": "300ms", "jitter": "0s"},
            "expires_in": "1m",
        },
    ]
    wanted = json.dumps({"seed": 7, "faults": faults}).encode()
    assert ask(replica.admin, "/faults", "PUT", body=wanted).status == 200
    assert ask(replica.url, "/hello").status == 503
    assert ask(replica.url, "/div/4").headers["corelane-fault"]
    # Handler errors are passed to clients.
    eventually(lambda: ask(platform.gateway, "/hello").status == 503, "an error of a handler")
    assert ask(replica.admin, "/faults", "DELETE").status in (200, 204)
    assert ask(replica.url, "/hello").status == 200


def test_prometheus_scrapes_every_part(platform: Platform) -> None:
    def targets() -> dict[tuple[str, ...], str]:
        body = ask(platform.prometheus, "/api/v1/targets").body
        return {
            tuple(
                target["labels"][name] for name in ("job", "service", "namespace", "pod")
            ): target["health"]
            for target in json.loads(body)["data"]["activeTargets"]
        }

    parts = {
        "server-0": ("service", "server"),
        "server-1": ("service", "server"),
        "gateway": ("gateway", "gateway"),
        "prometheus": ("prometheus", "prometheus"),
    }
    name = platform.run.name
    becomes(targets, {(job, service, name, pod): "up" for pod, (job, service) in parts.items()})


def test_promtool_accepts_the_prometheus_configuration(platform: Platform) -> None:
    argv = [sys.executable, "hack/tools", "run", "promtool", "check", "config"]
    argv.append(str(platform.run / "prometheus.yml"))
    result = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("variable", "value"),
    [("REPLICAS", "0"), ("REPLICAS", "two"), ("GATEWAY_PORT", "70000"), ("INSTANCE", "../x")],
)
def test_a_bad_value_is_named(
    new_platform: Callable[[int], Platform], variable: str, value: str
) -> None:
    result = new_platform(1).command("up", **{variable: value})
    assert result.returncode == 1
    assert f"{variable}={value}" in result.stderr


def test_mutual_tls_uses_the_certificates_of_a_folder(
    new_platform: Callable[[int], Platform], tmp_path: Path
) -> None:
    platform, ca = new_platform(1), authority(tmp_path, "ca")
    platform.variables["MTLS"] = str(tmp_path)
    missing = platform.command("up")
    assert missing.returncode == 1
    assert f"no {tmp_path}/gateway/tls.crt" in missing.stderr
    for part in ("gateway", "server"):
        pair = ca.issue(f"URI:spiffe://cluster.local/ns/local/sa/{part}")
        files = {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": ca.certificate}
        SecretFolder(tmp_path / part).put(files)
    platform.up()
    (replica,) = platform.replicas
    eventually(lambda: ask(platform.gateway, "/hello").replica == replica.name, "a reply")
    # A client without a certificate gets no reply.
    address = replica.url.replace("http:", "https:")
    with pytest.raises((OSError, http.client.HTTPException)):
        ask(address, "/hello")


def test_prometheus_answers_a_quantile_with_a_number(platform: Platform) -> None:
    def quantile() -> float:
        ask(platform.gateway, "/hello")
        query = "route:corelane_request_duration_seconds:p99_rate5m%7Broute=%22/hello%22%7D"
        body = json.loads(ask(platform.prometheus, f"/api/v1/query?query={query}").body)
        result = body["data"]["result"]
        return float(result[0]["value"][1]) if result else math.nan

    eventually(lambda: not math.isnan(quantile()), "a quantile", pause=0.2)


def test_down_leaves_no_process(new_platform: Callable[[int], Platform]) -> None:
    platform = new_platform(2)
    platform.up()
    assert len(platform.pids()) == 6
    result = platform.command("down")
    assert result.returncode == 0
    assert platform.pids() == []
    assert platform.command("status").returncode == 1
    again = platform.command("down")
    assert again.returncode == 0
    assert "Nothing is up" in again.stdout


def test_down_ends_what_a_killed_supervisord_left(
    new_platform: Callable[[int], Platform],
) -> None:
    platform = new_platform(1)
    platform.up()
    os.kill(supervisor.pid(platform.run), signal.SIGKILL)
    eventually(lambda: supervisor.pid(platform.run) is None, "the end of supervisord")
    refused = platform.command("up")
    assert refused.returncode == 1
    assert "make down" in refused.stderr
    assert platform.pids()
    assert "make down" in platform.command("status").stdout
    # The pid that supervisord left behind was reused.
    with subprocess.Popen(["sleep", "600"]) as stranger:
        try:
            (platform.run / "supervisord.pid").write_text(str(stranger.pid))
            result = platform.command("down")
            assert stranger.poll() is None
        finally:
            stranger.kill()
    assert result.returncode == 0
    assert "killing" not in result.stderr
    assert platform.pids() == []


def test_down_needs_no_run_folder(new_platform: Callable[[int], Platform]) -> None:
    platform = new_platform(1)
    platform.up()
    shutil.rmtree(platform.run)
    result = platform.command("down")
    assert result.returncode == 0, result.stderr
    assert "Corelane is down." in result.stdout
    assert platform.pids() == []


def test_a_start_that_is_terminated_leaves_nothing(
    new_platform: Callable[[int], Platform], tmp_path: Path
) -> None:
    platform = new_platform(1)
    # A program that never responds, so that the startup is still waiting when the signal arrives.
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\nexec sleep 600\n")
    silent.chmod(0o755)
    others = ("--runtime", "other", "--corelane", str(program("corelane")))
    with platform.begin("up", "--binary", str(silent), *others) as process:
        eventually(platform.pids, "the first process")
        process.send_signal(signal.SIGTERM)
        process.communicate()
    assert process.returncode == 128 + signal.SIGTERM
    assert platform.pids() == []


def test_a_start_that_fails_shows_why_and_leaves_nothing(
    new_platform: Callable[[int], Platform],
) -> None:
    platform = new_platform(1)
    result = platform.command("up", CORELANE_LIMITS_HEADERS="many")
    assert result.returncode == 1
    assert "server-0 exited right after the start" in result.stderr
    assert "CORELANE_LIMITS_HEADERS" in result.stderr
    assert platform.pids() == []


def test_a_variable_that_the_server_does_not_know_is_left_out(
    new_platform: Callable[[int], Platform],
) -> None:
    platform = new_platform(1)
    result = platform.command("up", CORELANE_NO_SUCH_KEY="1", CORELANE_LOG_LEVEL="debug")
    assert result.returncode == 0, result.stderr
    assert "CORELANE_NO_SUCH_KEY" in result.stderr
    environ = Path(f"/proc/{platform.pid('server-0')}/environ").read_bytes().split(b"\0")
    assert b"CORELANE_LOG_LEVEL=debug" in environ
    assert b"CORELANE_NO_SUCH_KEY=1" not in environ
