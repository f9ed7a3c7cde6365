"""Gateway: does it spread the load well, and what does it hide or add?"""

from grafana.board import Board
from grafana.changes import MARKS
from grafana.gateway import clients, failures, numbers, shares, upstream
from grafana.variables import COMMON

BOARD = Board(
    uid="corelane-gateway",
    title="Corelane / Gateway",
    description="What Envoy does with the load: shares of the servers, retries, ejections, "
    "connections, its own cost.",
    variables=COMMON,
    marks=MARKS,
)

BOARD.rows(*numbers.ROWS, *shares.ROWS, *upstream.ROWS)
BOARD.folded("Failures between gateway and servers", *failures.ROWS)
BOARD.folded("Clients, and the gateway's own limits", *clients.ROWS)
