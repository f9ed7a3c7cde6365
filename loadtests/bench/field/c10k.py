"""10,000 connections at once with ab, each with one request for a file: the published C10k test."""

import csv
import http.client
import random
import tempfile
from collections.abc import Sequence
from math import ceil
from pathlib import Path

from loadtests.bench import ab
from loadtests.bench.experiment.generator import Generator
from loadtests.bench.field import published
from loadtests.bench.field.bench import CONNECTIONS, Bench, Plan
from loadtests.bench.field.contender import C10K, FILE_10K, Contender
from loadtests.bench.field.running import Running
from loadtests.bench.field.workloads import REQUESTS
from tools import progress, resolve
from tools.errors import ToolError

REQUESTS_OF_AB, AT_ONCE = 13_000, 10_000
ROUNDS = 3
LONGEST = 30
"""Seconds of one run; what is not answered then has failed."""

WARM_UP, QUICK_WARM_UP = 8.0, 2.0
"""Longest load before it, for those whose code is compiled while it runs."""

FINE = (99.9,)
"""Percents that ab does not tell itself."""

PAGE = REQUESTS[FILE_10K]

NETSTAT = Path("/proc/net/netstat")
"""Counters of the network namespace (Documentation/networking/snmp_counter.rst)."""

Sample = dict


def prepare(_profile: str) -> None:
    """Obtains ab."""
    resolve.ensure(["ab"])


def seconds(plan: Plan, contenders: Sequence[Contender]) -> float:
    """How long it takes: a start, ab, and load before it where a contender needs it."""
    taking = [one for one in contenders if C10K in one.workloads]
    return _rounds(plan) * sum(
        2.0 + (2.0 + _warm_up(one, plan) if one.warm_up_first else 0.0) for one in taking
    )


def measure(bench: Bench, plan: Plan) -> dict:
    """All contenders in each round, in an order of its own."""
    program = resolve.ensure(["ab"])["ab"]
    chosen = bench.contenders(C10K)
    samples: dict[str, list[Sample]] = {one.name: [] for one in chosen}
    for number in range(1, _rounds(plan) + 1):
        order = random.Random(plan.seed * 1000 + number).sample(chosen, len(chosen))
        for contender in order:
            try:
                sample = _sample(bench, contender, program, _warm_up(contender, plan))
            except ToolError as error:
                progress.say(C10K, f"{contender.name}: {error}")
                continue
            samples[contender.name].append({"round": number, **sample})
            progress.say(f"{C10K} {number}/{_rounds(plan)}", f"{contender.name}: {_told(sample)}")
    return {C10K: samples, "published": {C10K: published.C10K}}


def _rounds(plan: Plan) -> int:
    return min(plan.rounds, ROUNDS)


def _warm_up(contender: Contender, plan: Plan) -> float:
    return min(contender.warm_up_first, QUICK_WARM_UP if plan.quick else WARM_UP)


def _sample(bench: Bench, contender: Contender, program: Path, warm_up: float) -> Sample:
    with bench.running(contender) as process:
        if warm_up:
            options = {"connections": CONNECTIONS, "seconds": 0.01, "warm_up": warm_up}
            options |= PAGE.options(bench.folder)
            place = bench.place()
            with Generator(bench.generator, place, "closed", process.address, **options):
                pass
        _check(contender, process)
        before = dropped()
        sample = _ab(bench, process, program)
        sample["dropped"] = dropped() - before
        _check(contender, process)
        return sample


def dropped() -> int:
    """Handshakes that the kernel has dropped because an accept queue was full. Each comes again after
    a second (RFC 6298 section 2.1), when ab has had its replies from others: it counts none of these
    connections, and those that got in waited behind fewer."""
    names, values = (
        line.split()[1:] for line in NETSTAT.read_text().splitlines() if line.startswith("TcpExt:")
    )
    return int(dict(zip(names, values, strict=True))["ListenDrops"])


def _check(contender: Contender, process: Running) -> None:
    """ab compares lengths only, with that of the first reply."""
    connection = http.client.HTTPConnection(process.address, timeout=LONGEST)
    try:
        connection.request("GET", PAGE.target)
        reply = connection.getresponse()
        if (reply.status, reply.read()) != (200, PAGE.body):
            raise ToolError(f"{contender.name}: {PAGE.target} is not the file")
    except (OSError, http.client.HTTPException) as error:
        raise ToolError(f"{contender.name}: {PAGE.target}: {error!r}") from error
    finally:
        connection.close()


def _ab(bench: Bench, process: Running, program: Path) -> Sample:
    with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
        found = ab.run(
            program,
            f"http://{process.address}{PAGE.target}",
            requests=REQUESTS_OF_AB,
            concurrency=AT_ONCE,
            keep_alive=False,
            before=bench.place().argv(),
            # -r: what a connection that breaks costs is to be seen, not the end of the run.
            more=("-r", "-t", str(LONGEST), "-g", file.name),
        )
        percentiles = {float(percent): ms for percent, ms in found.percentiles.items()}
        low, high = percentiles[99], percentiles[100]
        # In whole milliseconds, unlike those around it.
        fine = _fine(Path(file.name)).items()
        percentiles |= {percent: min(max(ms, low), high) for percent, ms in fine}
    # A refusal is of another length than the first reply, so ab counts it twice.
    failed = max(found.failed, found.non_2xx) + found.write_errors
    return {
        "requests": REQUESTS_OF_AB,
        "failed": failed + REQUESTS_OF_AB - found.complete,
        "not_connected": found.not_connected,
        "seconds": found.seconds,
        "requests_per_second": found.requests_per_second,
        "percentiles": [[percent, percentiles[percent]] for percent in sorted(percentiles)],
    }


def _fine(file: Path) -> dict[float, float]:
    """More percentiles, from the milliseconds of each request (-g)."""
    with file.open(newline="") as rows:
        times = sorted(float(row["ttime"]) for row in csv.DictReader(rows, delimiter="\t"))
    return {percent: times[ceil(percent / 100 * len(times)) - 1] for percent in FINE if times}


def _told(sample: Sample) -> str:
    curve = dict(map(tuple, sample["percentiles"]))
    return (
        f"{sample['requests_per_second']:,.0f}/s, p50 {curve[50]:,.0f}, p99 {curve[99]:,.0f}, "
        f"longest {curve[100]:,.0f} ms, {sample['failed']} failed, {sample['dropped']} dropped"
    )
