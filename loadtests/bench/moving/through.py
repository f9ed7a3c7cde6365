"""Few connections of a real Envoy with its default pools, to one replica of two lanes."""

from collections.abc import Iterator

from loadtests.bench.experiment.measurement import cpu_of
from loadtests.bench.experiment.servers import running
from loadtests.bench.gateway import proxies, shipped
from loadtests.bench.gateway.shipped import Endpoint
from loadtests.bench.lanes.rows import PLACEMENTS
from loadtests.bench.moving.bench import Bench, Sample, in_turn
from loadtests.bench.moving.replica import ACTIVE, OFF, PARKED_ONLY, Arm, Replica, moves, serving

CLIENTS = 8
RATE = 1100
WORK_MS = 1.0
"""Longer than alone, so that Envoy and the generator take little of the CPUs that they share with the lanes."""

MODES = (OFF, PARKED_ONLY, ACTIVE)

ARMS = tuple(
    # With the server's default, so that connections which the pool leaves unused park as they would.
    Arm(f"{placement}, {moving}", moving, "5s", placement)
    for placement in PLACEMENTS
    for moving in MODES
)
NAMES = [arm.name for arm in ARMS]


def measured(bench: Bench) -> Iterator[tuple[str, int, Sample]]:
    """Name of the arm, round, and what was seen."""
    for number in range(1, bench.size.few_rounds + 1):
        for arm in in_turn(ARMS, number):
            yield arm.name, number, _load(bench, arm, number)


def _load(bench: Bench, arm: Arm, number: int) -> Sample:
    size = bench.size
    options = {
        "connections": CLIENTS,
        "ops": bench.work.ops(WORK_MS),
        "work_share": 1,
        "rate": RATE,
    }
    options |= {"seconds": size.seconds, "warm_up": size.warm_up, "seed": number, "next": "any"}
    with serving(Replica(arm), bench.programs, list(bench.cpus)) as server:
        pool = [Endpoint(int(server.address.rpartition(":")[2]), server.admin_port)]
        config = shipped.configuration(bench.programs.tools, pool)
        shipped.without_log(config)
        with (
            running(proxies.envoy("gateway", config), bench.programs, list(bench.cpus)) as envoy,
            bench.generator("open", envoy.address, **options) as load,
        ):
            before = server.look()
            used, result = cpu_of(server.process, load, [envoy])
            after = server.look()
    lanes = sorted(result["lanes"].values(), reverse=True)
    return {
        **result,
        "busy_cores": used / result["seconds"],
        "hotter_share": lanes[0] / sum(lanes),
        "upstream_connections": after.total("corelane_connections"),
        # Since the server's start: what moved in the warm-up stays where it went.
        "moves": round(after.total("corelane_connection_moves_total")),
        "moves_while_measured": moves(before, after),
    }
