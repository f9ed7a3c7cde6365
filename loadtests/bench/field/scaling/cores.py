"""One CPU and two: throughput where computing is all, and what a request costs where it is nearly nothing."""

from loadtests.bench.experiment.generator import Place
from loadtests.bench.field.bench import Bench
from loadtests.bench.field.contender import HELLO, WORK, Contender
from loadtests.bench.field.scaling.figures import Series, drawn
from loadtests.bench.field.scaling.load import Cell, Seen, tried
from loadtests.bench.field.scaling.model import between
from loadtests.bench.field.scaling.plan import OPS, Sizes, rounds, threaded

CONNECTIONS = 64
BEYOND = (4, 8, 16, 32, 64)

ABOUT = (
    "Each contender has one CPU with one thread, then two with two. The speed-up is that of the throughput of "
    f"`/work` with {OPS:,} iterations, {CONNECTIONS} connections, closed loop; the load generator goes first on "
    "whatever CPU it needs. The CPU per request is that of `/hello`: with one CPU the generator has the other, with "
    "two they share both, so what it costs to share a CPU with the generator is in it for all alike."
)


def measure(bench: Bench, sizes: Sizes) -> dict:
    """The part `cores`."""
    speed_up = Series("speed_up", "Speed-up of /work", "×", "CPUs")
    rate = Series("rate", "Throughput of /work", "requests/s", "CPUs", digits=0)
    cost = Series("cpu_us", "CPU per request of /hello", "µs", "CPUs")
    seen = Seen()
    for number, order in rounds(sizes, "cores"):
        everybody = threaded(bench.contenders(), sizes)
        for contender in order.sample(everybody, len(everybody)):
            cells = tried("cores", contender.name, lambda one=contender: _cells(bench, one, sizes))
            if cells is None:
                continue
            seen.add(contender.name, *cells.values())
            if contender.workloads >= {WORK}:
                works = {cpus: cells[cpus, WORK].per_second for cpus in (1, 2)}
                for cpus, reached in works.items():
                    rate.add(contender.name, cpus, reached)
                    speed_up.add(contender.name, cpus, reached / works[1])
            for cpus in (1, 2):
                cost.add(contender.name, cpus, cells[cpus, HELLO].cpu_us)
    found = speed_up.figure()
    found["model"] = {name: _law(speed_up.medians(name)[-1][1]) for name in speed_up.values}
    return seen.part(ABOUT, [found, rate.figure(), cost.figure()], _notes(speed_up))


def _cells(bench: Bench, contender: Contender, sizes: Sizes) -> dict[tuple[int, str], Cell]:
    found = {}
    for cpus in (1, 2):
        both = list(bench.cpus)
        with bench.running(contender, threads=cpus, cpus=both[:cpus]) as server:
            for name in (HELLO, WORK):
                if name not in contender.workloads:
                    continue
                # Where it takes little, it goes first; see experiment/generator.py on why not where it takes much.
                place = Place(both, first=name == WORK) if cpus == 2 else bench.place()
                more = {"ops": OPS} if name == WORK else {}
                found[cpus, name] = Cell.of(
                    bench, server, place, sizes, contender.warm_up, connections=CONNECTIONS, **more
                )
    return found


def _law(two_cpus: float) -> dict:
    """The optimistic end: all that was lost is contention."""
    most, least = between(two_cpus)
    text = f"×{two_cpus:.2f} on two"
    if two_cpus > 1:
        text += (
            f"; on 8 CPUs ×{least.speed_up(8):.1f} to ×{most.speed_up(8):.1f}, "
            f"on 64 ×{least.speed_up(64):.1f} to ×{most.speed_up(64):.1f}"
        )
    return drawn(text, most.speed_up, (1, 2, *BEYOND))


def _notes(speed_up: Series) -> list[str]:
    return [_note(name, speed_up.medians(name)[-1][1]) for name in speed_up.values]


def _note(name: str, two: float) -> str:
    """What the law's two ends say of one contender."""
    most, least = between(two)
    if most.contention == 0:
        return f"{name} lost nothing that two CPUs could show: ×{two:.2f}."
    if two <= 1:
        return f"{name} gained nothing by a second CPU: ×{two:.2f}."
    best = least.best()
    return (
        f"{name}: ×{two:.2f}. If all that is lost is contention, it is {most.contention:.1%} of the work, and no number "
        f"of CPUs gives more than ×{1 / most.contention:.0f}; if all is coherence ({least.coherence:.2%} for each pair), "
        f"{best:.0f} CPUs are the best, with ×{least.speed_up(best):.1f}."
    )
