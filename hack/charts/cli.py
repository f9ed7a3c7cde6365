"""The commands of `python3 hack/charts`."""

import argparse

from charts import compare, golden, local_gateway, readme, schema
from charts.tree import charts
from tools import ending
from tools.errors import ToolError


def main(arguments: list[str]) -> int:
    """Runs one command and returns its exit status."""
    parser = argparse.ArgumentParser(prog="python3 hack/charts", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("generate", help="write values.schema.json and README.md of every chart")
    commands.add_parser("check", help="show where they differ from what generate would write")
    show = commands.add_parser("golden", help="show where the charts render other than before")
    show.add_argument("--update", action="store_true", help="take what they render now")
    options = parser.parse_args(arguments)
    return ending.status_of("charts", lambda: _COMMANDS[options.command](options))


def _generate(_options: argparse.Namespace) -> int:
    compare.write(_generated())
    return 0


def _check(_options: argparse.Namespace) -> int:
    return compare.report(_generated(), "make charts")


def _golden(options: argparse.Namespace) -> int:
    if options.update:
        compare.write(golden.files())
        for file in golden.strays():
            file.unlink()
        return 0
    if strays := golden.strays():
        names = ", ".join(file.name for file in strays)
        raise ToolError(f"{names}: no case in {golden.CASES.name}. Remove with: make charts")
    return compare.report(golden.files(), "make charts, and look at what changed")


def _generated() -> compare.Files:
    files: compare.Files = {}
    for chart in charts():
        if (chart / "values.yaml").exists():
            files[chart / "values.schema.json"] = schema.of_chart(chart)
        files[chart / "README.md"] = readme.of_chart(chart)
    files[local_gateway.FILE] = local_gateway.template()
    return files


_COMMANDS = {"generate": _generate, "check": _check, "golden": _golden}
