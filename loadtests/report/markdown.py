"""The summary of a run in Markdown, for example for a CI job summary."""

from loadtests.bench.experiment.page import table
from loadtests.record import ALL, Part, Run
from loadtests.report import tables
from loadtests.report.tables import Table


def markdown(run: Run, base: Run | None = None) -> str:
    lines = [f"# {run.name}: {verdict(run)}", ""]
    lines += [f"- `{failed}`" for failed in run.failed_thresholds]
    lines += [""] if run.failed_thresholds else []
    lines += [f"{note}\n" for note in run.notes]
    for part in run.parts:
        lines += _part(part)
    if run.figures:
        lines += [
            f"- {name.replace('_', ' ')}: {tables.figure(one)}" for name, one in run.figures.items()
        ]
        lines.append("")
    if run.server and run.server.whole_run:
        lines += ["## Time by component", "", _table(tables.server(run)), ""]
    for part in run.parts:
        before = base and base.part(part.name)
        if before:
            lines += [
                f"## Comparison with the base run of {tables.when(base)}{_of(part)}",
                "",
                _table(tables.comparison(part, before)),
                "",
            ]
            lines += [one_run_each(), ""]
    lines += [f"- {name}: {value}" for name, value in tables.facts(run)]
    return "\n".join(lines) + "\n"


def verdict(run: Run) -> str:
    if run.passed:
        return "passed"
    if run.failed_thresholds:
        count = len(run.failed_thresholds)
        return f"failed, {count} threshold{'s do' if count > 1 else ' does'} not hold"
    return f"failed, exit status {run.exit_code}"


def one_run_each() -> str:
    """A caveat about comparing two single runs."""
    return (
        "Two single runs: other work of the machine affects the ratios too. "
        "`make loadtest-compare` decides."
    )


def _part(part: Part) -> list[str]:
    figures = " · ".join(f"{name} **{value}**" for name, value in tables.summary(part))
    lines = [] if part.name == ALL else [f"## {part.name}", ""]
    lines += [figures, "", _table(tables.routes(part)), ""]
    if part.checks:
        lines += [f"Checks: {part.checks.passed:,} passed, {part.checks.failed:,} failed.", ""]
        lines += [f"- failed: {name}" for name in part.checks.failed_names]
        lines += [""] if part.checks.failed_names else []
    return lines


def _of(part: Part) -> str:
    return "" if part.name == ALL else f", {part.name}"


def _table(found: Table) -> str:
    return table(found.head, [[cell.replace("|", "\\|") for cell in row] for row in found.rows])
