"""File, environment and flags share one schema, and errors exit with 64."""

import json
import os
import re
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

import settings
from stack import PATIENCE, REPOSITORY
from stack.replica import Server
from tools.resolve import tool


def run(binary: Path, *flags: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs the server to completion."""
    environment = {"PATH": os.environ["PATH"], **variables}
    argv = [binary, *flags]
    return subprocess.run(
        argv, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def in_force(binary: Path, key: str, *flags: str, **variables: str) -> str:
    result = run(binary, "--check", *flags, **variables)
    assert result.returncode == 0, result.stderr
    return next(line for line in result.stdout.splitlines() if line.startswith(f"{key} = "))


def test_flag_beats_environment_beats_file(binary: Path, tmp_path: Path) -> None:
    file = tmp_path / "server.toml"
    file.write_text('[limits]\nheaders = 10\n[drain]\nsettle = "1s"\n')
    flags = ["--config", str(file)]
    assert in_force(binary, "limits.headers") == 'limits.headers = "100"  # default'
    assert in_force(binary, "limits.headers", *flags).startswith('limits.headers = "10"  # file')
    variables = {"CORELANE_LIMITS_HEADERS": "20"}
    assert '"20"  # environment' in in_force(binary, "limits.headers", *flags, **variables)
    flags += ["--limits.headers", "30"]
    assert '"30"  # flag' in in_force(binary, "limits.headers", *flags, **variables)


def test_the_file_may_be_named_by_the_environment(binary: Path, tmp_path: Path) -> None:
    file = tmp_path / "server.toml"
    file.write_text("lanes = 3\n")
    other = tmp_path / "other.toml"
    other.write_text("lanes = 2\n")
    variable = {"CORELANE_CONFIG": str(file)}
    assert in_force(binary, "lanes", **variable) == f'lanes = "3"  # file {file}:1'
    flag = in_force(binary, "lanes", "--config", str(other), **variable)
    assert flag == f'lanes = "2"  # file {other}:1'
    absent = run(binary, "--check", CORELANE_CONFIG=str(tmp_path / "absent.toml"))
    assert absent.returncode == 64
    assert "absent.toml" in absent.stderr
    assert "environment: CORELANE_CONFIG" in run(binary, "--help").stdout


@pytest.mark.parametrize(
    ("flag", "value", "allowed"),
    [
        ("--listen", "8080", "an IP address and a port"),
        ("--listen", "127.0.0.1:80, /run/a.sock", "unix:PATH"),
        ("--proxy-protocol", "v2", "on or off"),
        ("--trusted-proxies", "10.0.0.0/33", "a network such as 10.0.0.0/8"),
        ("--forwarded-header", "x-real-ip", "x-forwarded-for or forwarded"),
        ("--log.client", "yes", "on or off"),
        ("--lanes", "0", "from 1 to 1024"),
        ("--pin", "maybe", "auto, on or off"),
        ("--placement", "random", "hashed"),
        ("--load-reports", "yes", "off, text or json"),
        ("--park-after", "1ms", "off, or a duration"),
        ("--park-after", "5", "with its unit"),
        ("--moving", "on", "parked-only or active"),
        ("--limits.slots", "0", "from 1 to 1000000"),
        ("--limits.queue", "-1", "from 0 to 1000000"),
        ("--timeouts.connection-age", "1ms", "off, or a duration"),
        ("--timeouts.stall", "1ms", "from 10ms to 1h"),
        ("--drain.report", "0s", "from 100ms to 1h"),
        ("--tls.reload", "1ms", "from 100ms to 1day"),
        ("--limits.headers", "many", "from 1 to 1000"),
        ("--limits.header-bytes", "32", "with its unit"),
        ("--limits.header-bytes", "1B", "from 8.0 KiB to 1.0 MiB"),
        ("--timeouts.idle", "75", "with its unit"),
        ("--drain.settle", "2h", "from 0s to 1h"),
        ("--static.root", "/no/such/folder", "a folder that can be read"),
        ("--log.level", "loud", "error, warn, info"),
        ("--replica", "two words", "without spaces"),
    ],
)
def test_a_bad_value_is_named_with_what_is_allowed(
    binary: Path, flag: str, value: str, allowed: str
) -> None:
    key = flag.removeprefix("--").replace("-", "_")
    for result in (
        run(binary, flag, value),
        run(binary, "--check", **{"CORELANE_" + key.replace(".", "_").upper(): value}),
    ):
        assert result.returncode == 64
        assert f'{key} = "{value}"' in result.stderr
        assert allowed in result.stderr


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--tls.certificate", "a.crt"], 'tls.certificate = "a.crt" needs tls.key'),
        (["--tls.key", "a.key"], 'tls.key = "a.key" needs tls.certificate'),
        (["--tls.certificate", "a.crt", "--tls.key", "a.key"], "a.crt cannot be read"),
    ],
)
def test_tls_needs_both_files(binary: Path, flags: list[str], problem: str) -> None:
    for result in (run(binary, *flags), run(binary, "--check", *flags)):
        assert result.returncode == 64
        assert problem in result.stderr


def test_every_mistake_is_named_at_once(binary: Path, tmp_path: Path) -> None:
    file = tmp_path / "server.toml"
    file.write_text(
        '[drain]\nsettle = "40s"\n[limits]\nqueue = -1\nhedaers = 9\n[tls]\nkey = "a"\n'
    )
    flags = ["--lane", "2", "--config", str(file), "--backlog=0"]
    result = run(binary, "--check", *flags, CORELANE_LANE="2")
    starts = [
        f'limits.queue = "-1" (file {file}:4): expected a whole number from 0 to 1000000',
        f'limits.hedaers = "9" (file {file}:5): unknown key; did you mean limits.headers?',
        'CORELANE_LANE = "2" (environment): unknown key; did you mean CORELANE_LANES?',
        "unexpected argument '--lane' found; tip: a similar argument exists: '--lanes'",
        'backlog = "0" (flag --backlog): expected a whole number from 1 to 65535',
    ]
    begun = [line.removeprefix("corelane-server: ") for line in result.stderr.splitlines()]
    assert (result.returncode, begun) == (64, starts)
    file.write_text(file.read_text().replace("-1", "1").replace("hedaers", "headers"))
    result = run(binary, "--check", "--config", str(file))
    assert result.stderr.splitlines() == [
        'corelane-server: tls.key = "a" needs tls.certificate, which is empty: set both or neither',
        'corelane-server: drain.settle = "40s" must not exceed drain.deadline = "30s"',
    ]


def test_unknown_keys_are_refused(binary: Path, tmp_path: Path) -> None:
    file = tmp_path / "server.toml"
    file.write_text('[limit]\nheaders = 10\n[tls]\nreloads = "1s"\n')
    for result, name in (
        (run(binary, "--config", str(file)), "limit"),
        (run(binary, "--config", str(file)), 'tls.reloads = "1s"'),
        (run(binary, CORELANE_LANE="2"), "CORELANE_LANE"),
        (run(binary, "--lane", "2"), "--lane"),
    ):
        assert result.returncode == 64
        assert name in result.stderr


def test_what_others_set_does_not_stop_the_service(binary: Path) -> None:
    """Ignores the CLI's variables, Service links, empty values and other spellings."""
    flags = re.compile(r'env = "(CORELANE_\w+)"')
    sources = (REPOSITORY / "services/cli/src").rglob("*.rs")
    ours = {name for source in sources for name in flags.findall(source.read_text())}
    assert "CORELANE_HOME" in ours
    links = {
        "CORELANE_PORT": "tcp://10.0.0.1:80",
        "CORELANE_PORT_80_TCP_ADDR": "10.0.0.1",
        "CORELANE_GATEWAY_SERVICE_HOST": "10.0.0.1",
    }
    words = {"CORELANE_LOG_LEVEL": "INFO", "CORELANE_PIN": "Off", "CORELANE_REQUEST_IDS": "true"}
    empty = dict.fromkeys(("CORELANE_LANES", "CORELANE_LISTEN", "CORELANE_CONFIG"), "")
    variables = {**dict.fromkeys(ours, "/x"), **links, **words, **empty}
    result = run(binary, "--check", **variables)
    assert result.returncode == 0, result.stderr
    assert 'lanes = "auto"  # default' in result.stdout
    (warning,) = result.stderr.splitlines()
    assert all(name in warning for name in links)
    assert "enableServiceLinks" in warning
    # An empty flag is always intentional.
    empty_flag = run(binary, "--check", "--listen", "")
    assert (empty_flag.returncode, "an IP address and a port" in empty_flag.stderr) == (64, True)


def test_no_password_is_shown(binary: Path, tmp_path: Path) -> None:
    file = tmp_path / "server.toml"
    url = "https://me:hunter2@issuer.example"
    for text, status in ((f'replica = "{url}"', 0), ('replica = "hunter2', 64)):
        file.write_text(text)
        result = run(binary, "--check", "--config", str(file))
        assert (result.returncode, "hunter2" in result.stdout + result.stderr) == (status, False)
        assert "(not shown)@issuer" in result.stdout or f"{file}:1: " in result.stderr


def test_a_running_service_logs_which_variables_it_ignores(start: Callable[..., Server]) -> None:
    server = start(within=["env", "CORELANE_PORT=tcp://10.0.0.1:80"])
    server.terminate()
    code, log = server.end()
    assert (code, "WARN" in log, "CORELANE_PORT" in log) == (0, True, True), log


def test_a_file_that_is_absent_or_not_toml_is_named(binary: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.toml"
    broken.write_text("lanes = = 2\n")
    for file in (tmp_path / "absent.toml", broken):
        result = run(binary, "--config", str(file))
        assert result.returncode == 64
        assert str(file) in result.stderr


def test_settings_that_contradict_each_other_are_refused(binary: Path) -> None:
    result = run(binary, "--check", "--drain.settle", "40s")
    assert result.returncode == 64
    assert "drain.settle" in result.stderr
    # If open files are unlimited, any number of connections is possible.
    limited = ["-c", 'ulimit -n 1024 && exec "$0" "$@"', str(binary)]
    result = run(Path("sh"), *limited, "--listen", "127.0.0.1:0", "--limits.connections", "2000")
    assert result.returncode == 64
    assert "limits.connections" in result.stderr


def test_help_shows_every_way_to_set_a_key(binary: Path) -> None:
    text = run(binary, "--help").stdout
    assert "--limits.header-bytes" in text
    assert "CORELANE_LIMITS_HEADER_BYTES" in text
    assert "default: 32KiB" in text


def followers(schema: Path, texts: list[str]) -> set[str]:
    """Which of the texts are valid according to the schema."""
    files = {schema.with_name(f"{number}.json"): text for number, text in enumerate(texts)}
    argv: list[str | Path] = [tool("jsonschema"), "--output", "pretty"]
    for file, text in files.items():
        file.write_text(json.dumps(tomllib.loads(text)))
        argv += ["--instance", file]
    shown = subprocess.run([*argv, schema], capture_output=True, text=True, check=False).stdout
    return {text for file, text in files.items() if f"[SUCCESS]===({file})===" in shown}


@pytest.fixture(scope="module")
def schema(binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    result = run(binary, "--schema", CORELANE_UNKNOWN="as with --help, nothing else is read")
    assert result.returncode == 0, result.stderr
    file = tmp_path_factory.mktemp("schema") / "server.schema.json"
    file.write_text(result.stdout)
    return file


def test_the_schema_describes_every_key(binary: Path, schema: Path) -> None:
    described = json.loads(schema.read_text())
    assert described["$schema"].endswith("2020-12/schema")
    defaults = run(binary, "--check", CORELANE_REPLICA="").stdout
    for line in defaults.splitlines():
        name, _, rest = line.removeprefix("# ").partition(" = ")
        key = described
        for part in name.split("."):
            key = key["properties"][part]
        assert key["description"]
        assert "secret" in name or rest.startswith(f'"{key["default"]}"'), line
    # Defaults from the schema, and as printed by --check.
    assert followers(schema, ["", defaults]) == {"", defaults}


def test_the_page_of_settings_is_that_of_the_schema(schema: Path) -> None:
    # Checks make settings.
    page = settings.page(json.loads(schema.read_text()))
    assert page == (REPOSITORY / "docs" / "settings.md").read_text()


ACCEPTED = [
    'listen = ["[::1]:80", "unix:/run/a.sock"]\n[slow_lanes]\nexpensive = ["/a", "/b"]\ncheap = []',
    "proxy_protocol = true\nrequest_ids = false\npin = true\npark_after = false",
    'lanes = 3\npin = "on"\nload_reports = "json"\nlisten = "[::1]:80, unix:/run/a.sock"',
    '[limits]\nheaders = 1_000\nbody_bytes = 0\nsend_rate = "off"\nuri_bytes = "8 KiB"',
    '[drain]\nsettle = 0\ndeadline = "1min 2.5s"\n[otlp]\nratio = 1\n[work]\nmax_ops = "7"',
    '[static]\ncache_control = "*: no-store"\n[database]\nkind = "sqlite"\nmigrate = "off"',
]

REFUSED = [
    'replica = ["a"]',
    'listen = { address = "[::1]:80" }',
    "[static]\ncache_control = [1]",
    "lane = 3",
    "[limit]\nheaders = 10",
    "[limits]\nheader = 10",
    "[limits]\nheaders = 1001",
    '[limits]\nheaders = "many"',
    "[limits]\nheader_bytes = 32768",
    '[timeouts]\nidle = "75"',
    '[timeouts]\nidle = "soon"',
    'proxy_protocol = "yes"',
    'placement = "random"',
    "lanes = 0",
    "[otlp]\nratio = 1.5",
    '[otlp]\nendpoint = "https://collector"',
    '[admin]\nlisten = ":8081"',
    'replica = "two words"',
    '[database]\nkind = "mysql"',
]


def test_the_server_accepts_the_files_that_follow_the_schema(
    binary: Path, schema: Path, tmp_path: Path
) -> None:
    def accepts(text: str) -> bool:
        file = tmp_path / "server.toml"
        file.write_text(text)
        status = run(binary, "--check", "--config", str(file)).returncode
        assert status in (0, 64), text
        return status == 0

    texts = [*ACCEPTED, *REFUSED]
    assert followers(schema, texts) == {*filter(accepts, texts)} == {*ACCEPTED}
