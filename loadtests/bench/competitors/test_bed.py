"""State for a run: all competitors' programs, and the running ones."""

import math
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from loadtests.bench.competitors.competitor import REQUESTS, WORK, Competitor, Placed, Subject
from loadtests.bench.competitors.compiled import GO, OURS, RUST
from loadtests.bench.competitors.runtimes import JVM, NODE
from loadtests.bench.competitors.web_servers import WEB_SERVERS
from loadtests.bench.experiment import builds
from loadtests.bench.experiment.builds import Programs
from loadtests.bench.experiment.generator import CONNECTIONS, Generator, Place
from loadtests.bench.experiment.plan import Plan, Row, TestBed
from loadtests.bench.experiment.servers import CORELANE, first_cpus, running
from tools.errors import ToolError

COMPETITORS: dict[str, Competitor] = {
    competitor.name: competitor for competitor in (*RUST, *OURS, *GO, *NODE, *WEB_SERVERS, *JVM)
}

SHARE = 0.02
"""Maximum share of a measurement's CPU time that the compiler may use. The kernel counts the time
of the compiler threads, so the benchmark does not have to guess the length of a warm-up.
"""


def settled(subject: Subject, longest: float, measure: Callable[[], Row]) -> Row:
    """Returns the first measurement with almost no compiling, or the first one after this many
    seconds; `compiling` is the compiler's share.
    """
    compilers, process = subject.competitor.compilers, subject.process
    if not compilers:
        return measure()
    deadline = time.monotonic() + longest
    while True:
        before, begun = process.thread_seconds(compilers), process.cpu_seconds()
        row = measure()
        used = process.cpu_seconds() - begun
        share = max(0.0, process.thread_seconds(compilers) - before) / used
        if share <= SHARE or time.monotonic() > deadline:
            return {**row, "compiling": share}


@dataclass
class CompetitorsBed(TestBed):
    found: dict[str, Path] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    """The reasons why competitors could not be built."""
    folder: Path = Path()

    def competitor(self, name: str) -> Competitor:
        if name in self.absent:
            raise ToolError(self.absent[name])
        return COMPETITORS[name]

    def beside(self, subject: Subject, *, first: bool = False) -> Place:
        """The generator's place: the CPU that the server does not use, or all CPUs. `first` is for
        a generator that needs little CPU time.
        """
        others = [cpu for cpu in self.cpus if cpu not in subject.process.cpus]
        return Place(others or list(self.cpus), first)

    @contextmanager
    def started(self, competitor: Competitor, cpus: int = 1) -> Iterator[Subject]:
        placed = Placed(competitor, self.found[competitor.name], cpus)
        with running(placed, None, list(self.cpus[:cpus]), session=True) as process:
            yield Subject(competitor, process)

    @contextmanager
    def warm(self, competitor: Competitor) -> Iterator[Subject]:
        """Starts a competitor on one CPU and loads it until all its code is compiled."""
        with self.started(competitor) as subject:
            self.warm_up(subject)
            yield subject

    def ops(self, milliseconds: float) -> int:
        """Iterations of `/work` that take this long without other load."""
        return round(self.facts["ops_per_ms"] * milliseconds)

    def warm_up(self, subject: Subject, most: float = math.inf) -> None:
        """Applies each kind of load after the start, for servers that compile their code at run
        time.
        """
        kinds = [one for name, one in REQUESTS.items() if name in subject.competitor.parts]
        seconds = self.plan.seconds(min(subject.competitor.warm_up_first, most))
        for workload in kinds if seconds else []:
            options = {"connections": CONNECTIONS, **workload.options(self.folder)}
            options |= {"seconds": 0.01, "warm_up": seconds / len(kinds)}
            place, to = self.beside(subject), subject.process.address
            with Generator(self.programs.generator, place, "closed", to, **options):
                pass


@contextmanager
def test_bed(plan: Plan, names: Iterable[str]) -> Iterator[CompetitorsBed]:
    facts: dict = {"servers": {}, "connections": plan.options.connections}
    versions = {"rustc": builds.describe()["rustc"]}
    programs = Programs(peers=builds.build(["load-generator"], plan.profile))
    bed = CompetitorsBed(plan, first_cpus(2), programs, facts, versions)
    for competitor in map(COMPETITORS.__getitem__, names):
        _build(bed, competitor)
    with tempfile.TemporaryDirectory(prefix="bench-competitors-") as folder:
        bed.folder = Path(folder)
        bed.facts["ops_per_ms"] = _ops_per_ms(bed)
        yield bed


def _build(bed: CompetitorsBed, competitor: Competitor) -> None:
    bed.facts["servers"][competitor.name] = about = {
        "family": competitor.family,
        "settings": competitor.settings,
    }
    given = bed.plan.server if competitor.name.startswith(CORELANE) else None
    try:
        program = given or competitor.build(bed.plan.profile)
        about["version"] = competitor.version(program)
    except ToolError as error:
        bed.absent[competitor.name] = str(error)
    else:
        bed.found[competitor.name] = program


def _ops_per_ms(bed: CompetitorsBed) -> float:
    """Measures with the first competitor that can compute, because all compiled ones run the same
    loop.
    """
    ops = 1_000_000
    options = {"connections": 1, "ops": ops, "seconds": 0.5, "warm_up": 0.1}
    for competitor in map(COMPETITORS.__getitem__, bed.found):
        if WORK in competitor.parts:
            # A competitor that does not start is skipped later, with its reason.
            with suppress(ToolError), bed.started(competitor) as subject:
                return ops / bed.load(subject.process, "closed", **options)["cpu_us"] * 1e3
    return 0.0
