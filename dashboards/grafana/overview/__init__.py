"""Overview: is the user well, since when not, and where is the trouble?"""

from grafana.board import Board
from grafana.changes import MARKS
from grafana.overview import numbers, trends, trust, where
from grafana.variables import COMMON

BOARD = Board(
    uid="corelane-overview",
    title="Corelane / Overview",
    description="Is the user well? If not: since when, and which route, pod, lane or node is it?",
    variables=COMMON,
    marks=MARKS,
)

BOARD.rows(*numbers.ROWS, *trends.ROWS, *where.ROWS)
BOARD.folded("Can this page be trusted?", *trust.ROWS)
