"""Service: what each route does, and what it needs: database, files, tokens."""

from grafana.board import Board
from grafana.changes import MARKS
from grafana.service import database, files, numbers, others, routes
from grafana.variables import COMMON
from grafana.variables import ROUTE as ROUTES

BOARD = Board(
    uid="corelane-service",
    title="Corelane / Service",
    description="Each route's rate, errors and duration, then what it needs: database, files, "
    "tokens.",
    variables=(*COMMON, ROUTES),
    marks=MARKS,
)

BOARD.rows(*numbers.ROWS, *routes.ROWS)
BOARD.folded("Database: projects", *database.ROWS)
BOARD.folded("Files", *files.ROWS)
BOARD.folded("Tokens, TLS, traces, drills", *others.ROWS)
