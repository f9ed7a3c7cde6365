"""All contenders."""

from loadtests.bench.field.contender import Contender
from loadtests.bench.field.contenders.compiled import GO, OURS, RUST
from loadtests.bench.field.contenders.runtimes import JVM, NODE
from loadtests.bench.field.contenders.web_servers import WEB_SERVERS

CONTENDERS: dict[str, Contender] = {
    contender.name: contender for contender in (*RUST, *OURS, *GO, *NODE, *WEB_SERVERS, *JVM)
}
"""By name, in the order of the report."""
