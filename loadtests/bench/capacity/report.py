"""The report of `capacity`: predicted beside measured, errors, verdicts, and why a target is missed."""

from statistics import median

from loadtests.bench.capacity import verdict
from loadtests.bench.capacity.cells import Cell, named
from loadtests.bench.machine import others
from loadtests.bench.text import spread, table

UNITS = {"knee": (0, "requests/s"), "p99": (2, "ms")}
"""Of each figure: digits, and what it is counted in."""


def brief(sample: dict) -> str:
    """One sample in a line, for who watches."""
    parts = []
    for figure, (digits, unit) in UNITS.items():
        values = sample[figure]
        off = values["predicted"] / values["measured"] - 1
        parts.append(
            f"{figure} {values['predicted']:,.{digits}f} predicted, {values['measured']:,.{digits}f} {unit} "
            f"measured ({off:+.1%})"
        )
    return "; ".join([*parts, f"{sample['wrong']} wrong"])


def markdown(record: dict) -> str:
    """The whole report."""
    parts = [
        "# The capacity model beside what is measured",
        (
            "Written by `make bench-capacity`. For each mix `corelane capacity` reads a replica's metrics from before "
            "and after a low load, and says the most that it can answer (the knee) and the p99 at "
            f"{verdict.USED:.0%} of that. Then both are measured. An error is predicted ÷ measured - 1; a figure is "
            "the median of the rounds, with the lowest and the highest in brackets. Targets: the knee within "
            f"{verdict.KNEE:.0%}, the p99 within {verdict.P99:.0%}."
        ),
        _setting(record),
        "## Verdict",
        "\n".join(f"- {sentence}" for sentence in _reading(record)),
        "## Knee",
        _figures(record, "knee"),
        f"## p99 at {verdict.USED:.0%} of the predicted knee",
        _figures(record, "p99"),
        "## What the lanes did",
        _lanes(record),
        "## How it is measured",
        _method(record),
    ]
    return "\n\n".join(parts) + "\n"


def _setting(record: dict) -> str:
    about = record["machine"]
    before, after = (
        " ".join(f"{value:.2f}" for value in record["load_average"][when])
        for when in ("before", "after")
    )
    return table(
        ["", ""],
        [
            ["command", f"`{record['command']}`"],
            ["date", about["date"]],
            ["machine", f"{about['cpu']}, {about['cores']} cores, {about['kernel']}"],
            ["sources", about["sources"]],
            ["build", f"profile {record['profile']}"],
            [
                "priority",
                "servers ahead of all other processes" if record["ahead"] else "the usual one",
            ],
            ["outside handlers", f"{record['outside_us']:.1f} µs of a busy lane for each request"],
            ["rounds", f"{record['plan']['rounds']}; {record['seconds'] / 60:.1f} minutes in all"],
            ["load average", f"{before} before, {after} after"],
        ],
    )


def _reading(record: dict) -> list[str]:
    requests = sum(sample["requests"] for cell in record["cells"] for sample in cell["samples"])
    found = [f"{verdict.wrong(record):,} of {requests:,} requests got a wrong answer or none."]
    for figure, target in verdict.TARGETS.items():
        judged = {cell["name"]: verdict.met(cell["samples"], figure) for cell in record["cells"]}
        missed = ", ".join(name for name, met in judged.items() if not met)
        found.append(
            f"{figure}: within {target:.0%} in {sum(judged.values())} of {len(judged)} cells"
            + (f"; missed in {missed}." if missed else ".")
        )
    shares = [
        sample["others_cores"] + sample["stolen_cores"]
        for cell in record["cells"]
        for sample in cell["samples"]
    ]
    return [*found, others(shares)]


def _figures(record: dict, figure: str) -> str:
    digits, unit = UNITS[figure]
    head = [
        "cell",
        "mix",
        "lanes",
        "limit",
        f"predicted, {unit}",
        f"measured, {unit}",
        "error",
        "target",
    ]
    if figure == "p99":
        head[4:4] = ["rate, requests/s"]
        head += [f"closed form, {unit}"]
    rows = []
    notes = []
    for cell, about in _cells(record):
        samples = cell["samples"]
        row = [about.name, about.mix, str(about.lanes), samples[0]["limit"]]
        if figure == "p99":
            row.append(f"{median(sample['rate'] for sample in samples):,.0f}")
        row += [
            spread([sample[figure][side] for sample in samples], digits)
            for side in ("predicted", "measured")
        ]
        row.append(_percent(verdict.errors(samples, figure)))
        row.append("met" if verdict.met(samples, figure) else "**missed**")
        if figure == "p99":
            row.append(spread([sample["closed_form_p99_ms"] for sample in samples], digits))
        rows.append(row)
        if not verdict.met(samples, figure):
            why = verdict.reasons(samples) or ["nothing in the measurement explains it"]
            notes.append(f"- {about.name}, missed: {'; '.join(why)}.")
    return "\n\n".join([table(head, rows), *(["\n".join(notes)] if notes else [])])


def _lanes(record: dict) -> str:
    head = [
        "cell",
        "busy at the knee",
        "busy at the rate",
        "handler at the low load, µs",
        "at the knee, µs",
    ]
    head += ["generator's lag, p99, ms", "generator, cores", "others and stolen, cores"]
    rows = []
    for cell, about in _cells(record):
        samples = cell["samples"]
        rows.append(
            [
                about.name,
                _percent([sample["busy_at_knee"] for sample in samples], sign=False),
                _percent([sample["busy_at_rate"] for sample in samples], sign=False),
                spread([1e6 * sample["handler_at_low"] for sample in samples], 1),
                spread([1e6 * sample["handler_at_knee"] for sample in samples], 1),
                spread([sample["lag_p99_ms"] for sample in samples], 2),
                spread([sample["generator_cores"] for sample in samples], 2),
                spread([sample["others_cores"] + sample["stolen_cores"] for sample in samples], 2),
            ]
        )
    return table(head, rows)


def _cells(record: dict) -> list[tuple[dict, Cell]]:
    """Each cell of the record with what it is."""
    known = {cell.name: cell for cell in named(tuple(cell["name"] for cell in record["cells"]))}
    return [(cell, known[cell["name"]]) for cell in record["cells"]]


def _percent(values: list[float], *, sign: bool = True) -> str:
    form = "+.0%" if sign else ".0%"
    return f"{median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def _method(record: dict) -> str:
    lengths = record["plan"]["lengths"]
    return (
        "What a request costs a busy lane outside its handler depends on the machine, and a low load cannot tell it "
        "from what waking up costs: it is found once, by more `/work` of no iterations than a lane can do. In each round "
        f"every cell has a server of its own: {lengths['low']:g} s at a low load, about a sixth of the "
        f"knee, between two looks at its metrics; {lengths['knee']:g} s at 1.3 times the predicted knee, where what "
        "comes out until the last reply is the measured knee; and an open loop with Poisson arrivals at "
        f"{verdict.USED:.0%} of the predicted knee, whose latencies count from when a request was due. One lane has a "
        "CPU alone and the generator the other; with two lanes the generator takes what it needs of one of theirs. "
        "Projects are a page, a load and a save in turn by 256 users, on SQLite. Slots are used up by requests that a "
        "fault lets wait."
    )
