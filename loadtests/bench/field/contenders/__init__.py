"""The contenders: each module in this folder has a list `CONTENDERS`."""

from loadtests.bench.field.contender import Contender
from loadtests.bench.field.contenders import corelane, go, node, rust, spring, web_servers

CONTENDERS: dict[str, Contender] = {
    contender.name: contender
    for module in (rust, corelane, go, node, web_servers, spring)
    for contender in module.CONTENDERS
}
"""By name, in the order of the report."""
