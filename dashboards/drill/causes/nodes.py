"""Nodes that somebody changes, that refuse, or that nobody looks at."""

import itertools
import signal
from collections.abc import Iterator

from dashboards.drill.drills import Labels, drill
from dashboards.drill.parts import Agent
from dashboards.drill.place import Place
from support import trees
from support.trees import Tree

BACKLOG = "net.core.netdev_max_backlog"

WANTED = ("--profile=custom", f"--knobs={BACKLOG}=5000")

NODE = "node-1"


def _drift(tree: Tree, value: str) -> None:
    """Gives the sysctl another value, of which the agent sees nothing or all."""
    file = tree.root.parent / "drifted"
    file.write_text(f"{value}\n")
    file.replace(tree.root / trees.sysctl(BACKLOG))


def _tree(place: Place) -> Tree:
    return trees.make(place.folder / "node", trees.node())


def _prepared(place: Place, tree: Tree, *flags: str) -> Agent:
    """An agent that has prepared its node."""
    told = ["--agent.mode=apply", f"--root={tree.root}", f"--journal={tree.journal}", *flags]
    agent = place.tuner(NODE, *WANTED, *told)
    place.until(agent.ready, "the node is prepared")
    return agent


@drill(
    "CorelaneNodeKnobDrift",
    how="somebody writes a sysctl of a prepared node once; the agent repairs it",
)
def knob_drift(place: Place) -> Iterator[Labels]:
    tree = _tree(place)
    _prepared(place, tree)
    # What is there from the first scrape on is no increase.
    seen = f'corelane_node_knob_drift_total{{namespace="{place.namespace}", knob="{BACKLOG}"}}'
    place.until(lambda: place.stage.query(seen), "the knob is scraped")
    place.begins()
    _drift(tree, "300")
    yield {"node": NODE, "knob": BACKLOG}


@drill(
    "CorelaneNodeNotPrepared",
    how="somebody writes a sysctl of a node all the time, and its agent only reports; the value is as wanted again",
)
def node_not_prepared(place: Place) -> Iterator[Labels]:
    tree = _tree(place)
    _prepared(place, tree, "--agent.drift=report")
    place.begins()
    values = itertools.cycle(("300", "400"))
    with place.again(lambda: _drift(tree, next(values))):
        yield {"node": NODE}
    _drift(tree, "5000")


@drill(
    "CorelaneNodeKnobFailed",
    how="a folder stands in the place of a sysctl's file, so that it cannot be written; it is a file again",
)
def knob_failed(place: Place) -> Iterator[Labels]:
    tree = _tree(place)
    _prepared(place, tree)
    place.begins()
    tree.remove(trees.sysctl(BACKLOG))
    (tree.root / trees.sysctl(BACKLOG)).mkdir()
    yield {"node": NODE, "knob": BACKLOG}
    (tree.root / trees.sysctl(BACKLOG)).rmdir()
    tree.add({trees.sysctl(BACKLOG): "1000\n"})


@drill("CorelaneNodePassFailed", how="the agent's journal cannot be read; it is whole again")
def pass_failed(place: Place) -> Iterator[Labels]:
    tree = _tree(place)
    _prepared(place, tree)
    journal = tree.journal / "journal.json"
    whole = journal.read_text()
    place.begins()
    journal.write_text("{")
    yield {"node": NODE}
    journal.write_text(whole)


@drill("CorelaneNodeTunerDown", how="SIGSTOP of the agent; SIGCONT")
def tuner_stopped(place: Place) -> Iterator[Labels]:
    agent = _prepared(place, _tree(place))
    place.begins()
    agent.send(signal.SIGSTOP)
    yield {"node": NODE}
    agent.send(signal.SIGCONT)
