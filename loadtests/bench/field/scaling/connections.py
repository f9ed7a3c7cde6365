"""More and more connections, all of which ask: CPU per request, and memory."""

from loadtests.bench.field.bench import Bench
from loadtests.bench.field.contender import HELLO, Contender
from loadtests.bench.field.scaling.figures import Series
from loadtests.bench.field.scaling.load import Cell, Seen, tried
from loadtests.bench.field.scaling.plan import Sizes, chosen, rounds
from tools import progress
from tools.errors import ToolError

MANY = 64
"""From here on the laws are fitted: with fewer a server sleeps between requests, and each wakes it up."""
BEYOND = (100_000, 1_000_000)

ABOUT = (
    "One thread on one CPU, `/hello`, closed loop on so many connections at once. With one connection the server "
    "sleeps after each request; with more it finds several each time that it looks. Memory is what the server's "
    "processes hold, with all connections open, above what they held with none."
    " A 503 of a server that sheds load is no right reply."
)


def measure(bench: Bench, sizes: Sizes) -> dict:
    """The part `connections`."""
    cost = Series("cpu_us", "CPU per request of /hello", "µs", "connections", log_x=True)
    memory = Series(
        "memory_kib", "Memory of busy connections", "KiB", "connections", 0, log_x=True, log_y=True
    )
    seen = Seen()
    for _number, order in rounds(sizes, "connections"):
        everybody = chosen(bench.contenders(HELLO), sizes)
        for contender in order.sample(everybody, len(everybody)):
            found = tried(
                "connections", contender.name, lambda one=contender: _cells(bench, one, sizes)
            )
            if found is None:
                continue
            before, cells = found
            seen.add(contender.name, *cells.values())
            for count, cell in cells.items():
                cost.add(contender.name, count, cell.cpu_us)
                # What it held back from before may be less than nothing.
                memory.add(contender.name, count, max(1, cell.resident_kib - before))
    costs = cost.laws(MANY, ("constant", "log2 n"))
    memories = memory.laws(MANY, ("n",))
    notes = [
        f"{name}: {law.slope:.2g} KiB for each busy connection, "
        f"{law.at(1_000_000) / 2**20:.1f} GiB for a million."
        for name, law in memories.items()
    ]
    figures = [cost.figure(costs, BEYOND), memory.figure(memories, BEYOND)]
    return seen.part(ABOUT, figures, notes)


def _cells(bench: Bench, contender: Contender, sizes: Sizes) -> tuple[int, dict[int, Cell]]:
    """What it held at first, and the cells; ever more connections, because memory seldom goes back."""
    with bench.running(contender) as server:
        before = server.resident_kib()
        cells = {}
        for count in sizes.connections:
            warm_up = 0.0 if cells else contender.warm_up
            try:
                cells[count] = Cell.of(
                    bench, server, bench.place(), sizes, warm_up, connections=count
                )
            except ToolError as error:
                # It has come as far as that.
                progress.say("connections", f"{contender.name} at {count:,}: {error}")
                break
        return before, cells
