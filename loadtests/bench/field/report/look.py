"""Which colour a contender has in every picture."""

from loadtests.bench.field.report.rows import FLOOR, US

OURS = "c0"
FAMILIES = {
    "rust": "c1",
    "go": "c4",
    "thread pool": "c7",
    "node": "c2",
    "jvm": "c3",
    "java": "c3",
    "web server": "c5",
    "proxy": "c2",
}
REST = "muted"

LINES = ("c1", "c2", "c3", "c5", "c4", "c6", "c7")
"""Of the others within one panel, where each needs a colour of its own."""


def ours(name: str) -> bool:
    """Corelane, however it is built or set."""
    return name.lower().startswith(("corelane", "gateway"))


def bar(name: str, family: str) -> str:
    """The colour of a bar or a dot: of the family, and Corelane's own."""
    return OURS if ours(name) else FAMILIES.get(family.lower(), REST)


def lines(names: list[str]) -> dict[str, str]:
    """A colour for each line of a panel: Corelane's own for its server, or for the first way to set its gateway."""
    own = [name for name in names if name.startswith(US)] or list(filter(ours, names))[:1]
    rest = [name for name in names if name not in own and name != FLOOR]
    found = {name: LINES[index % len(LINES)] for index, name in enumerate(rest)}
    return {name: OURS if name in own else found.get(name, REST) for name in names}
