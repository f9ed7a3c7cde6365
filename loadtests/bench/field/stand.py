"""What lasts for a run: the programs of all contenders, and those that run."""

import math
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from loadtests.bench.experiment import builds
from loadtests.bench.experiment.generator import Generator, Place
from loadtests.bench.experiment.measurement import CONNECTIONS, measured
from loadtests.bench.experiment.plan import Plan, Stand
from loadtests.bench.experiment.servers import CORELANE, first_cpus
from loadtests.bench.field.contender import WORK, Contender
from loadtests.bench.field.contenders import CONTENDERS
from loadtests.bench.field.contenders.corelane import TRAINED
from loadtests.bench.field.running import Running, started
from loadtests.bench.field.turns import Turns
from loadtests.bench.field.workloads import REQUESTS
from tools.errors import ToolError


@dataclass
class FieldStand(Stand):
    """The contenders."""

    programs: dict[str, Path] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    """Why a contender could not be built."""
    generator: Path = Path()
    folder: Path = Path()
    """For files that the load generator reads."""
    turns: Turns | None = None

    def contender(self, name: str) -> Contender:
        """One that is there."""
        if name in self.absent:
            raise ToolError(self.absent[name])
        return CONTENDERS[name]

    def place(self, process: Running, first: bool = False) -> Place:
        """The generator's: the CPU that the server does not have, or all with it; `first` where it
        takes little, ahead of every other process."""
        others = [cpu for cpu in self.cpus if cpu not in process.cpus]
        return Place(others or list(self.cpus), first)

    def started(self, contender: Contender, cpus: int = 1) -> AbstractContextManager[Running]:
        """Starts a contender on so many CPUs, and ends it."""
        program = self.programs[contender.name]
        return started(contender, program, self.cpus[:cpus], ahead=cpus == 1)

    def ops(self, milliseconds: float) -> int:
        """Iterations of `/work` that take this long alone."""
        return round(self.facts["ops_per_ms"] * milliseconds)

    def warm_up(self, process: Running, most: float = math.inf) -> None:
        """Load after the start, of each kind, for those whose code is compiled while it runs."""
        kinds = [one for name, one in REQUESTS.items() if name in process.contender.parts]
        seconds = self.plan.seconds(min(process.contender.warm_up_first, most))
        for workload in kinds if seconds else []:
            options = {"connections": CONNECTIONS, **workload.options(self.folder)}
            options |= {"seconds": 0.01, "warm_up": seconds / len(kinds)}
            place = self.place(process)
            with Generator(self.generator, place, "closed", process.address, **options):
                pass


@contextmanager
def standing(plan: Plan, names: Iterable[str]) -> Iterator[FieldStand]:
    """Builds the contenders. The run continues without those that cannot be built."""
    facts: dict = {"servers": {}, "connections": plan.options.connections}
    versions = {"rustc": builds.describe()["rustc"]}
    stand = FieldStand(plan, first_cpus(2), facts, versions)
    for contender in map(CONTENDERS.__getitem__, names):
        _build(stand, contender)
    stand.generator = (
        builds.build(["load-generator"], plan.profile) / "load-generator"
    )
    with (
        tempfile.TemporaryDirectory(prefix="bench-field-") as folder,
        Turns(stand.started, stand.warm_up) as turns,
    ):
        stand.folder, stand.turns = Path(folder), turns
        stand.facts["ops_per_ms"] = _ops_per_ms(stand)
        yield stand


def _build(stand: FieldStand, contender: Contender) -> None:
    stand.facts["servers"][contender.name] = about = {
        "family": contender.family,
        "settings": contender.settings,
    }
    ours = contender.name.startswith(CORELANE) and contender.name != TRAINED
    given = stand.plan.server if ours else None
    try:
        program = given or contender.build(stand.plan.profile)
        about["version"] = contender.version(program)
    except ToolError as error:
        stand.absent[contender.name] = str(error)
    else:
        stand.programs[contender.name] = program


def _ops_per_ms(stand: FieldStand) -> float:
    """Found by the first that computes: the loop is the same for all compiled ones."""
    for contender in map(CONTENDERS.__getitem__, stand.programs):
        if WORK in contender.parts:
            # One that does not start is left out later, with its reason.
            with suppress(ToolError):
                return _counted(stand, contender)
    return 0.0


def _counted(stand: FieldStand, contender: Contender) -> float:
    ops = 1_000_000
    options = {"connections": 1, "ops": ops, "seconds": 0.5, "warm_up": 0.1}
    with stand.started(contender) as process:
        row = measured(process, stand.generator, stand.place(process), "closed", **options)
    return ops / row["cpu_us"] * 1e3
