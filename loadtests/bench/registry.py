"""All benchmarks of the harness, by name."""

from loadtests.bench.balancing.experiment import Balancing
from loadtests.bench.capacity.experiment import Capacity
from loadtests.bench.compare.experiment import Compare
from loadtests.bench.connections.experiment import Connections
from loadtests.bench.direct.experiment import Direct
from loadtests.bench.experiment.plan import Experiment
from loadtests.bench.field.experiment import Field
from loadtests.bench.gateway.experiment import Gateway
from loadtests.bench.gateway.settings_experiment import GatewaySettings
from loadtests.bench.instructions.experiment import Instructions
from loadtests.bench.mixed.experiment import Mixed
from loadtests.bench.soak.experiment import Soak
from loadtests.bench.threads.experiment import Threads

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Field(),
        Gateway(),
        GatewaySettings(),
        Balancing(),
        Capacity(),
        Connections(),
        Mixed(),
        Threads(),
        Compare(),
        Direct(),
        Instructions(),
        Soak(),
    )
}
