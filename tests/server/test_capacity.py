"""`corelane capacity`, from a stated load and from a running replica."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from stack import eventually
from stack.http import ask
from stack.replica import Server

MIX = "GET /hello=90%, GET /work=10%:7ms"

HELLOS, WORKS = 30, 10


@pytest.fixture
def run(command: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    def capacity(*flags: str) -> subprocess.CompletedProcess[str]:
        argv = [str(command), "capacity", "--requests=20000", *flags]
        return subprocess.run(argv, capture_output=True, text=True, check=False)

    return capacity


def answer(result: subprocess.CompletedProcess[str]) -> dict:
    assert result.returncode == 0, result
    return json.loads(result.stdout)


def load(server: Server) -> None:
    for _ in range(HELLOS):
        assert ask(server.url, "/hello").status == 200
    for _ in range(WORKS):
        assert ask(server.url, "/work?ops=100000").status == 200


def test_a_load_needs_as_many_replicas_as_carry_it(run: Callable) -> None:
    told = answer(run("--mix", MIX, "--rps=5000", "--p99=100ms", "--lanes=2", "--json"))
    # Two lanes, 0.7 ms of lane time per request, and the rest.
    outside = told["replica"]["outside_seconds"]
    assert told["knee_rps"] == pytest.approx(2 / (0.0007 + outside))
    assert told["limited_by"] == "lanes"
    each = told["max_rps_at_target"]
    assert 0.5 * told["knee_rps"] < each < told["knee_rps"]
    assert told["replicas_needed"] == -(-5000 // each)
    assert told["replicas"] == told["replicas_needed"] + 1
    at = told["at"]
    assert at["target_met"] and at["replicas"] == told["replicas_needed"]
    assert 0.99 <= at["in_time"] < 1
    # A cheap request waits for at most one expensive request.
    hello, work = at["kinds"]
    assert hello["p99_seconds"] < 0.0085 < work["p50_seconds"] < work["p99_seconds"]
    again = answer(run("--mix", MIX, "--rps=5000", "--p99=100ms", "--lanes=2", "--json"))
    assert again == told, "the same seed"


def test_the_table_says_what_a_replica_carries(run: Callable) -> None:
    result = run("--mix", MIX, "--rps=5000", "--p99=100ms", "--lanes=2")
    assert result.returncode == 0, result
    assert "Maximum with p99 within 100 ms: " in result.stdout
    assert "5,000 requests/s need 2 replicas, or 3 to survive the loss of 1." in result.stdout
    assert "The target is met." in result.stdout


def test_slots_may_be_what_limits(run: Callable) -> None:
    told = answer(run("--mix=GET /slow=100%:100us+10ms", "--slots=4", "--used=70%", "--json"))
    assert told["limited_by"] == "slots"
    assert told["knee_rps"] == pytest.approx(4 / 0.0101)
    assert told["at"]["rps_per_replica"] == pytest.approx(0.7 * told["knee_rps"])
    hpa = run("--mix=GET /slow=100%:100us+10ms", "--slots=4", "--rps=900", "--p99=1s", "--hpa=busy")
    assert (hpa.returncode, hpa.stdout) == (1, "")
    assert "--slots" in hpa.stderr and "--service" in hpa.stderr


def test_values_of_the_chart_scale_by_the_busy_share(run: Callable) -> None:
    flags = ("--mix", MIX, "--rps=5000", "--p99=100ms", "--lanes=2")
    told = answer(run(*flags, "--json"))["hpa"]
    result = run(*flags, "--hpa=busy")
    assert result.returncode == 0, result
    autoscaling = yaml.safe_load(result.stdout)["autoscaling"]
    assert autoscaling["minReplicas"] == told["min_replicas"] == 2
    assert autoscaling["maxReplicas"] == told["max_replicas"]
    (metric,) = autoscaling["metrics"]
    milli = int(told["lane_busy_ratio"] * 1000)
    assert metric["pods"]["target"] == {"type": "AverageValue", "averageValue": f"{milli}m"}


def test_values_of_the_chart_follow_the_required_replicas(run: Callable) -> None:
    # Limited by slots, which lane utilisation does not show.
    mix = ("--mix=GET /slow=100%:100us+10ms", "--slots=4", "--rps=900", "--p99=1s")
    result = run(*mix, "--hpa", "--service=my: shop")
    assert result.returncode == 0, result
    autoscaling = yaml.safe_load(result.stdout)["autoscaling"]
    (metric,) = autoscaling["metrics"]
    assert metric["external"] == {
        "metric": {
            "name": "corelane_replicas_required",
            "selector": {"matchLabels": {"service": "my: shop"}},
        },
        "target": {"type": "AverageValue", "averageValue": "1"},
    }
    least, most = autoscaling["minReplicas"], autoscaling["maxReplicas"]
    assert 2 == least < most


def test_check_fails_where_the_target_is_not_met(run: Callable) -> None:
    flags = ("--mix=GET /work=100%:7ms", "--rps=200", "--replicas=1", "--check")
    assert run(*flags, "--p99=20ms").returncode == 1
    assert run(*flags, "--p99=20ms", "--replicas=20").returncode == 64, "given twice"
    assert run("--mix=GET /work=100%:7ms", "--rps=200", "--p99=20ms", "--check").returncode == 0
    never = run("--mix=GET /work=100%:7ms", "--p99=5ms", "--check")
    assert never.returncode == 1 and "No load meets p99 within 5.00 ms" in never.stdout


def test_a_running_replica_tells_its_mix(
    start: Callable[..., Server], run: Callable, tmp_path: Path
) -> None:
    server = start("--lanes=2", "--limits.slots=7", "--limits.queue=5")
    nothing = run("--from", server.admin, "--json")
    assert nothing.returncode == 1 and "had no requests" in nothing.stderr, nothing
    load(server)
    before = tmp_path / "before"
    told = answer(run("--from", server.admin, "--json"))
    replica = told["replica"]
    assert (replica["lanes"], replica["slots"], replica["queue"]) == (2, 7, 5)
    kinds = {kind["kind"]: kind for kind in told["kinds"]}
    assert kinds["GET /hello"]["share"] == pytest.approx(HELLOS / (HELLOS + WORKS))
    series = server.metrics()
    labels = '{route="/work",method="GET"}'
    sums = series[f"corelane_load_table_lane_time_seconds_total{labels}"]
    squares = series[f"corelane_load_table_lane_time_squared_seconds_total{labels}"]
    work = kinds["GET /work"]
    assert work["lane_mean_seconds"] == pytest.approx(sums / WORKS)
    variance = squares / WORKS - (sums / WORKS) ** 2
    assert work["lane_deviation_seconds"] ** 2 == pytest.approx(variance, rel=1e-3, abs=1e-15)
    # Lane time is wall-clock time. If the handler loses its CPU for a while, subtracting its lane
    # time leaves no cost outside handlers.
    assert series['corelane_lane_cpu_seconds_total{lane="0"}'] > 0
    assert 0 <= replica["outside_seconds"] <= 10e-6 and replica["wake_seconds"] >= 0
    # The difference of two readings contains only hello.
    after = tmp_path / "after"

    def is_mostly_outside() -> bool:
        # `/hello` spends most of its time outside the handler, unless the handler loses its CPU.
        before.write_bytes(ask(server.admin, "/metrics").body)
        for _ in range(10):
            ask(server.url, "/hello")
        after.write_bytes(ask(server.admin, "/metrics").body)
        between = answer(run("--from", str(before), "--from", str(after), "--json"))
        assert [(kind["kind"], kind["share"]) for kind in between["kinds"]] == [("GET /hello", 1.0)]
        replica = between["replica"]
        return replica["outside_seconds"] > 0 and replica["wake_seconds"] > 0

    eventually(is_mostly_outside)
    # Combines given shares with learnt costs.
    mixed = answer(run("--from", str(after), "--mix=GET /hello=50%, GET /work=50%", "--json"))
    assert [kind["share"] for kind in mixed["kinds"]] == [0.5, 0.5]
    assert mixed["kinds"][1]["lane_mean_seconds"] == pytest.approx(work["lane_mean_seconds"])
    backwards = run("--from", str(after), "--from", str(before))
    assert backwards.returncode == 1 and "the earlier one first" in backwards.stderr, backwards
    nothing = run("--from", str(after), "--from", str(after))
    assert nothing.returncode == 1 and "had no requests" in nothing.stderr, nothing
    (tmp_path / "other").write_text("up 1\n")
    other = run("--from", str(tmp_path / "other"))
    assert other.returncode == 1 and "the metrics have no lanes" in other.stderr, other
    unknown = run("--from", str(after), "--mix=GET /none=100%")
    assert unknown.returncode == 64 and "GET /hello, GET /work" in unknown.stderr, unknown


def test_a_restarted_replica_is_not_the_one_before(
    start: Callable[..., Server], run: Callable, tmp_path: Path
) -> None:
    readings = [tmp_path / "before", tmp_path / "after"]
    for reading, requests in zip(readings, (20, 10), strict=True):
        server = start("--lanes=1")
        for _ in range(requests):
            ask(server.url, "/hello")
        reading.write_bytes(ask(server.admin, "/metrics").body)
    result = run("--from", str(readings[0]), "--from", str(readings[1]), "--json")
    assert (result.returncode, result.stdout) == (1, ""), result
    assert "not restarted" in result.stderr, result


def test_a_kind_that_takes_nothing_has_an_answer(run: Callable) -> None:
    flags = ("--mix=GET /a=50%+5ms, GET /b=50%", "--outside=0us", "--wake=0us", "--used=1%")
    _, nothing = answer(run(*flags, "--json"))["at"]["kinds"]
    assert nothing["p99_seconds"] == 0 and nothing["closed_form"]["p99_seconds"] < 1e-9


def test_a_queue_that_still_grows_has_no_quantiles(run: Callable) -> None:
    flags = ("--mix=GET /work=100%:1ms", "--used=120%", "--json")
    assert answer(run(*flags, "--slots=1000000"))["at"]["p99_seconds"] is None
    assert answer(run(*flags, "--slots=1", "--queue=9"))["at"]["shed"] > 0.1


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--mix=GET /=90%",), "--mix: the shares add up to 90%: expected 100%"),
        (("--mix=GET /=100%:7",), '"GET /=100%:7": expected KIND=SHARE%'),
        (("--mix=a=100%", "--p99=20"), "'--p99 <DURATION>': expected a number with its unit"),
        (("--mix=a=100%", "--rps=0"), "'--rps <NUMBER>': expected a number"),
        (("--mix=a=100%", "--unevenness=2"), "--unevenness 2: expected 1 to the number of lanes"),
        (("--mix=a=100%", "--placement=x"), "expected hashed or least-loaded"),
        (("--from=https://x", "--json"), "expected http://HOST[:PORT]"),
        (("--mix=a=100%", "--p99=0s"), "'--p99 <DURATION>': expected a number with its unit"),
        (("--mix=a=100%", "--outside=0us"), "--mix: a request takes less than 1 ns: expected"),
        (("--mix=a=100%", "--outside=2s"), "--outside 2: expected 0 s to 1 s"),
        (("--mix=a=100%", "--lanes=0"), "'--lanes <NUMBER>'"),
        (("--mix-file=/none",), "--mix-file /none: No such file"),
        (("--mix=a=100%", "--p99=1s", "--hpa=busy"), "--rps"),
        (("--mix=a=100%", "--p99=1s", "--rps=1", "--hpa"), "--service"),
        (("--mix=a=100%", "--p99=1s", "--rps=1", "--hpa=cpu"), "busy, required"),
        ((), "--mix"),
    ],
)
def test_wrong_words_are_named(run: Callable, flags: tuple[str, ...], words: str) -> None:
    result = run(*flags)
    assert (result.returncode, result.stdout) == (64, ""), result
    assert words in result.stderr
