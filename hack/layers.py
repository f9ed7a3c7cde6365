"""Checks that the modules of each Rust crate form layers: no cycles, no upward imports.

The children of a module must not import one another in a cycle. An import counts for the child that
contains the importing file, and for each module that defines or re-exports the imported name. A
module and its own descendants may import one another. Test code does not count.

A crate can declare the layers of its top-level modules in Cargo.toml, bottom to top. It must then
list every top-level module. Each of these modules may import only modules below it, and nothing
that the crate's root file itself defines:

    [package.metadata.corelane]
    layers = ["clock", "queue", "server"]

    python3 hack/layers.py [WORKSPACE]     # default: services
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from os.path import commonprefix
from pathlib import Path

ROOT = "crate"

Module = tuple[str, ...]
Imports = dict[str, dict[str, str]]
"""Maps a module to the modules that it imports. Errors show the first import of each module.
"""

LITERAL = re.compile(
    r"""//[^\n]*|/\*.*?\*/|\bb?r(\#*)".*?"\1|"(?:\\.|[^"\\])*"|'(?:\\(?:u\{\w+\}|x..|.)|[^\\'])'""",
    re.DOTALL,
)
TEST = re.compile(r"#\[cfg\((?:test|all\(test\b[^\]]*)\)\](?:\s*#\[[^\]]*\])*")
FIELD = re.compile(r"\s*(?:pub(?:\(\w+\))?\s+)?\w+\s*:")
BRACKET = re.compile(r"[(\[{}\])]|[;,]")
DECLARATION = re.compile(r"\bmod\s+(\w+)\s*([;{])")
USE = re.compile(r"\buse\s+([^;]+);")
GROUP = re.compile(r"((?:\w+::)*)\{([^{}]*)\}")
PATH = re.compile(r"(?<![\w:])(?:\w+::)+\w+")


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _literal(found: re.Match[str]) -> str:
    """Spaces, except for a string that is a path: serde and clap attributes name functions that
    way.
    """
    path = re.fullmatch(r'"(\w+(?:::\w+)+)"', found[0])
    return f" {path[1]} " if path else _blank(found[0])


def _item_end(text: str, start: int) -> int:
    ends = "};," if FIELD.match(text, start) else "};"
    depth = 0
    for found in BRACKET.finditer(text, start):
        depth += (found[0] in "([{") - (found[0] in ")]}")
        if depth < 0:
            return found.start()
        if depth == 0 and found[0] in ends:
            return found.end()
    return len(text)


def _code(source: str) -> str:
    """The source with spaces in place of comments, strings and test code."""
    text = LITERAL.sub(_literal, source)
    while found := TEST.search(text):
        end = _item_end(text, found.end())
        text = text[: found.start()] + _blank(text[found.start() : end]) + text[end:]
    return text


def _use_paths(tree: str) -> Iterator[tuple[list[str], str]]:
    """Paths of a use tree, each with the name that it declares."""
    while found := GROUP.search(tree):
        members = [found[1] + member.strip() for member in found[2].split(",") if member.strip()]
        tree = tree[: found.start()] + ",".join(members) + tree[found.end() :]
    for member in tree.split(","):
        path, _, alias = member.strip().partition(" as ")
        names = path.split("::")
        if names[-1] == "self":
            names.pop()
        yield names, alias or names[-1]


class Crate:
    def __init__(self, folder: Path) -> None:
        """Reads a crate's library, or its program if it has no library."""
        self.folder = folder
        self.files: dict[Module, tuple[Path, str]] = {}
        self.names: dict[Module, dict[str, list[str]]] = {}
        self.paths: dict[Module, list[tuple[int, list[str]]]] = {}
        roots = [folder / "src" / name for name in ("lib.rs", "main.rs")]
        self._read(next(root for root in roots if root.is_file()), (), folder / "src")

    def _read(self, file: Path, module: Module, folder: Path) -> None:
        text = _code(file.read_text())
        self.files[module] = file, text
        self.names[module], self.paths[module] = {}, []
        for found in USE.finditer(text):
            for path, name in _use_paths(found[1]):
                self.names[module][name] = path
                self.paths[module].append((found.start(), path))
        for found in PATH.finditer(USE.sub(lambda use: _blank(use[0]), text)):
            self.paths[module].append((found.start(), found[0].split("::")))
        for found in DECLARATION.finditer(text):
            if found[2] == "{":
                raise SystemExit(f"{file}: inline module {found[1]}: give it a file")
            candidates = [folder / f"{found[1]}.rs", folder / found[1] / "mod.rs"]
            for candidate in filter(Path.is_file, candidates):
                self._read(candidate, (*module, found[1]), folder / found[1])

    def _reached(self, module: Module, path: list[str], seen: frozenset = frozenset()) -> Iterator:
        """Modules that define or re-export the name at a path, relative to a module."""
        at = module
        if path[0] == "crate":
            at, path = (), path[1:]
        elif path[0] in ("self", "super"):
            while path and path[0] in ("self", "super"):
                at, path = at[:-1] if path[0] == "super" else at, path[1:]
        elif (*module, path[0]) not in self.files and path[0] not in self.names[module]:
            return
        for position, name in enumerate(path):
            if (*at, name) in self.files:
                at = (*at, name)
            elif name in self.names[at] and (at, name) not in seen:
                if at:
                    yield at
                target = self.names[at][name] + path[position + 1 :]
                yield from self._reached(at, target, seen | {(at, name)})
                return
            else:
                break
        yield at

    def imports(self) -> dict[Module, Imports]:
        levels: dict[Module, Imports] = {module: {} for module in self.files}
        for module, (file, text) in self.files.items():
            if module:
                levels[module[:-1]].setdefault(module[-1], {})
            for position, path in self.paths[module]:
                for target in self._reached(module, path):
                    depth = len(commonprefix([module, target]))
                    if not module or (target and depth == min(len(module), len(target))):
                        continue
                    line = text.count("\n", 0, position) + 1
                    level = levels[module[:depth]].setdefault(module[depth], {})
                    imported = target[depth] if target else ROOT
                    shown = f"{file}:{line}: {module[depth]} imports {'::'.join(path)}"
                    level.setdefault(imported, shown)
        return levels

    def cycles(self) -> Iterator[str]:
        """One cycle for each module whose children import one another in a cycle."""
        for parent, graph in self.imports().items():
            try:
                TopologicalSorter(graph).prepare()
            except CycleError as error:
                cycle = error.args[1][::-1]
                name = "::".join((ROOT, *parent))
                yield f"{self.folder}: cycle in {name}: {' -> '.join(cycle)}"
                yield from (f"  {graph[a][b]}" for a, b in pairwise(cycle))

    def upward(self, layers: list[str]) -> Iterator[str]:
        top = self.imports()[()]
        manifest = self.folder / "Cargo.toml"
        yield from (f"{manifest}: layers lack module {name}" for name in top if name not in layers)
        for name in layers:
            if name not in top or layers.count(name) > 1:
                yield f"{manifest}: layers name {name}, which is no module, or name it twice"
        height = {name: position for position, name in enumerate([*layers, ROOT])}
        for name, targets in top.items():
            for target, shown in targets.items():
                if height.get(target, -1) > height.get(name, len(layers)):
                    yield f"{shown}, but {target} is above {name}: {', '.join([*layers, ROOT])}"


def errors(workspace: Path) -> Iterator[str]:
    for member in tomllib.loads((workspace / "Cargo.toml").read_text())["workspace"]["members"]:
        if not (workspace / member / "src").is_dir():
            continue  # programs of one file each
        package = tomllib.loads((workspace / member / "Cargo.toml").read_text())["package"]
        crate = Crate(workspace / member)
        yield from crate.cycles()
        layers = package.get("metadata", {}).get("corelane", {}).get("layers")
        if layers is not None:
            yield from crate.upward(layers)


def main(arguments: list[str]) -> int:
    """The status is 1 if there is an error."""
    found = list(errors(Path(arguments[0] if arguments else "services")))
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
