"""All competitors, by name."""

from loadtests.bench.competitors.competitor import Competitor
from loadtests.bench.competitors.compiled import GO, OURS, RUST
from loadtests.bench.competitors.runtimes import JVM, NODE
from loadtests.bench.competitors.web_servers import WEB_SERVERS

COMPETITORS: dict[str, Competitor] = {
    competitor.name: competitor for competitor in (*RUST, *OURS, *GO, *NODE, *WEB_SERVERS, *JVM)
}
"""By name, in the order of the report."""
