"""More and more routes, all of which are asked in turn: CPU per request, and memory."""

from loadtests.bench.experiment.servers import running
from loadtests.bench.field.bench import Bench
from loadtests.bench.field.scaling.figures import Series
from loadtests.bench.field.scaling.load import Cell, Seen, tried
from loadtests.bench.field.scaling.plan import Sizes, rounds
from loadtests.bench.field.scaling.routers import Programs, Router, routers

CONNECTIONS = 64
BEYOND = (100_000,)

ABOUT = (
    "Servers of so many routes of the form `/area-A/kind-K/{id}`, one thread on one CPU, 64 connections, closed loop; "
    "the generator asks all routes in turn, so the whole router is in use. Corelane names the first 64 of them in "
    "metrics and load table, which is all that it takes. actix-web has the routes of an area in a scope; nginx has a "
    "prefix location for each."
)


def measure(bench: Bench, sizes: Sizes, programs: Programs) -> dict:
    """The part `routes`."""
    cost = Series("cpu_us", "CPU per request", "µs", "routes", log_x=True)
    memory = Series("memory_kib", "Memory", "KiB", "routes", 0, log_x=True, log_y=True)
    seen = Seen()
    for _number, order in rounds(sizes, "routes"):
        everybody = [router for count in sizes.routes for router in routers(count)]
        for router in order.sample(everybody, len(everybody)):
            label = f"{router.name}, {router.routes:,}"
            cell = tried("routes", label, lambda one=router: _cell(bench, one, sizes, programs))
            if cell is None:
                continue
            seen.add(label, cell)
            cost.add(router.name, router.routes, cell.cpu_us)
            memory.add(router.name, router.routes, cell.resident_kib)
    costs = cost.laws(forms=("constant", "log2 n", "n"))
    figures = [
        cost.figure(costs, BEYOND),
        memory.figure(memory.laws(forms=("constant", "n")), BEYOND),
    ]
    return seen.part(ABOUT, figures, [])


def _cell(bench: Bench, router: Router, sizes: Sizes, programs: Programs) -> Cell:
    with running(router, programs, [bench.cpus[0]]) as server:
        return Cell.of(
            bench,
            server,
            bench.place(),
            sizes,
            connections=CONNECTIONS,
            routes=router.routes,
        )
