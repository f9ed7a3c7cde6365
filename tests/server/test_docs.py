"""docs/admin.md and docs/problems.md, against what the service shows and says."""

import re
from collections.abc import Callable
from pathlib import Path

from support import REPOSITORY, eventually
from support.client import ask
from support.ports import free_ports
from support.saves import Writer
from support.servers import Server

ADMIN = (REPOSITORY / "docs/admin.md").read_text()
OF_THE_SERVICE = "Series of the reference service"

Row = tuple[str, str, str, str]
"""Type, unit, labels and meaning of a series, as in a table of docs/admin.md."""


def tables(heading: str) -> dict[str, Row]:
    """What the tables under a heading say of each series."""
    section = next(part for part in ADMIN.split("\n## ") if part.startswith(f"{heading}\n"))
    lines = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    rows = [[cell.strip() for cell in line] for line in lines]
    assert len({name for name, *_ in rows}) == len(rows), "a name has one row"
    return {name.strip("`"): tuple(rest) for name, *rest in rows}


def of_the_library() -> set[str]:
    """The names that other tables have, which a test in Rust compares with what the library shows."""
    headings = re.findall(r"^## (.+)$", ADMIN, re.MULTILINE)
    return {name for heading in headings if heading != OF_THE_SERVICE for name in tables(heading)}


def families(text: str) -> dict[str, str]:
    """The types of the series that `/metrics` shows for the service."""
    typed = re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE)
    named = {f"{family}_total" if kind == "counter" else family: kind for family, kind in typed}
    return {name: kind for name, kind in named.items() if name not in of_the_library()}


def labels(text: str, name: str, kind: str) -> list[list[tuple[str, str]]]:
    """Names and values of the labels of each series of a family."""
    first = f"{name}_count" if kind == "histogram" else name
    series = re.findall(rf"^{first}(?:\{{(.*)\}})? \S+$", text, re.MULTILINE)
    return [re.findall(r'(\w+)="([^"]*)"', each) for each in series]


def row(text: str, name: str, kind: str) -> Row:
    """A family as the docs should have it, but for values of labels."""
    family = name.removesuffix("_total")
    meaning = re.search(rf"^# HELP {family} (.+)$", text, re.MULTILINE)[1]
    unit = next((unit for unit in ("seconds", "bytes") if family.endswith(unit)), "")
    return kind, unit, ", ".join(f"`{label}`" for label, _ in labels(text, name, kind)[0]), meaning


def everything(start: Callable[..., Server], folder: Path) -> str:
    """`/metrics` of a server with all that it can have, after a save and a read."""
    writer = Writer.new(folder)
    nobody = f"http://127.0.0.1:{free_ports(1)}"
    files = ["--database.path", str(folder / "projects.db"), *writer.flags()]
    server = start(*files, "--faults", "on", "--otlp.endpoint", nobody)
    assert writer.save(server, {"name": "n"}).status == 201
    assert ask(server.url, "/projects").status == 200

    def shown() -> str:
        text = ask(server.admin, "/metrics").body.decode()
        return text if all(labels(text, *family) for family in families(text).items()) else ""

    eventually(shown, "a series of each family")
    return shown()


def test_the_docs_list_every_series_of_the_service(
    start: Callable[..., Server], tmp_path: Path
) -> None:
    text = everything(start, tmp_path)
    documented = {}
    for name, (*rest, meaning) in tables(OF_THE_SERVICE).items():
        meaning, _, listed = meaning.partition(": `")
        documented[name] = (*rest, meaning)
        values = {each[-1][1] for each in labels(text, name, rest[0]) if each}
        assert not listed or values <= set(re.findall(r"(\w+)`", listed)), name
    assert documented == {name: row(text, name, kind) for name, kind in families(text).items()}


def sources() -> str:
    """The Rust of all services, without comments and tests."""
    texts = [path.read_text() for path in sorted(REPOSITORY.glob("services/*/src/**/*.rs"))]
    code = [
        re.split(r"^#\[cfg\(test\)\]\nmod \w+ \{", text, flags=re.MULTILINE)[0] for text in texts
    ]
    return re.sub("//.*", "", "\n".join(code))


def slugs_by_name(rust: str) -> set[str]:
    """Slugs that are passed to `Problem::new`, or chosen for it by a `match`."""
    passed = set(re.findall(r"Problem::new\(\s*[^,()]+,\s*([^\s,.()]+)", rust))
    literal = {each.strip('"') for each in passed if each.startswith('"')}
    assert {each for each in passed if not each.startswith('"')} == {"slug", "&phrase"}
    chosen = re.findall(r"let \([^)]*\bslug\b[^)]*\) = match .*?\n\s*\};", rust, re.DOTALL)
    return literal | set(re.findall(r'[(\s]"([a-z]+(?:-[a-z]+)*)"[,)]', "".join(chosen)))


def slugs_by_status(rust: str) -> set[str]:
    """Slugs that are the phrases of statuses, also of those that the crate of files gives."""
    given = re.findall(r"(?:Problem::from\(|\bstatus\(|let status = )StatusCode::(\w+)", rust)
    no_errors = {"NOT_MODIFIED", "PERMANENT_REDIRECT"}
    return {name.lower().replace("_", "-") for name in set(given) - no_errors}


def test_the_docs_list_every_problem() -> None:
    rust = sources()
    page = (REPOSITORY / "docs/problems.md").read_text()
    documented = re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE)
    assert len(documented) == len(set(documented))
    assert set(documented) == slugs_by_name(rust) | slugs_by_status(rust)
