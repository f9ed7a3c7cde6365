"""Nodes: have pinned lanes their CPUs to themselves, and is each node as its profile wants?"""

from grafana.board import Board
from grafana.changes import MARKS
from grafana.nodes import agents, cpus, numbers, proof
from grafana.variables import COMMON, NODE

BOARD = Board(
    uid="corelane-nodes",
    title="Corelane / Nodes",
    description="Proof of pinning for each pod, the settings of each node, and who changed them.",
    variables=(*COMMON, NODE),
    start="now-6h",
    marks=MARKS,
)

BOARD.rows(*numbers.ROWS, *proof.ROWS)
BOARD.folded("CPUs of the servers", *cpus.ROWS)
BOARD.folded("The agents themselves", *agents.ROWS)
