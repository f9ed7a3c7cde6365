"""Lanes: which core is the trouble, and what holds it?"""

from grafana.board import Board
from grafana.changes import MARKS
from grafana.lanes import failures, idle, now, numbers, phases, placement
from grafana.variables import COMMON

BOARD = Board(
    uid="corelane-lanes",
    title="Corelane / Lanes",
    description="One line for each core: how busy it is, what waits for it, and which route "
    "holds it.",
    variables=COMMON,
    marks=MARKS,
)

BOARD.rows(*numbers.ROWS, *now.ROWS)
BOARD.folded("Placement: which lane gets which connection", *placement.ROWS)
BOARD.folded("Idle connections: which are parked, and which change lanes", *idle.ROWS)
BOARD.folded("Phases: where a request's time goes", *phases.ROWS)
BOARD.folded("Stalls, panics and refusals", *failures.ROWS)
