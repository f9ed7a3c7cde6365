"""The choices at the top of a dashboard."""

from dataclasses import dataclass

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import dashboard as model

from grafana.queries import DATASOURCE


@dataclass(frozen=True)
class Variable:
    """The values of a label of a series. `many`: any number of them, all at first."""

    name: str
    label: str
    description: str
    query: str = ""
    many: bool = False

    def build(self) -> Builder[model.VariableModel]:
        """As Grafana has it. Without a query it is the data source."""
        if not self.query:
            source = dashboard.DatasourceVariable(self.name).type("prometheus")
            return source.label(self.label).description(self.description)
        variable = (
            dashboard.QueryVariable(self.name)
            .label(self.label)
            .description(self.description)
            .datasource(DATASOURCE)
            .query({"qryType": 1, "query": self.query, "refId": f"{self.name}-values"})
            .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
            .sort(model.VariableSort.NATURAL_ASC)
        )
        if self.many:
            everything = model.VariableOption(selected=True, text="All", value="$__all")
            variable.multi(True).include_all(True).all_value(".*").current(everything)
        return variable


SOURCE = Variable("datasource", "Data source", "The Prometheus that scrapes this platform")
NAMESPACE = Variable(
    "namespace",
    "Namespace",
    "Where the servers run; of local processes, the name of the instance",
    "label_values(corelane_build_info, namespace)",
)
JOB = Variable(
    "job",
    "Servers",
    "The scrape job of the servers",
    'label_values(corelane_build_info{namespace="$namespace"}, job)',
)
GATEWAY = Variable(
    "gateway",
    "Gateways",
    "The scrape job of Envoy",
    'label_values(envoy_server_live{namespace="$namespace"}, job)',
)
POD = Variable(
    "pod",
    "Pod",
    "Servers to look at; what is of a whole route or gateway is of all of them",
    'label_values(corelane_build_info{namespace="$namespace", job="$job"}, pod)',
    many=True,
)
ROUTE = Variable(
    "route",
    "Route",
    "Templates of routes to look at",
    'label_values(route:corelane_requests:rate1m{namespace="$namespace", job="$job"}, route)',
    many=True,
)
NODE = Variable(
    "node",
    "Node",
    "Nodes to look at",
    "label_values(corelane_node_tuner_info, node)",
    many=True,
)
TEST = Variable(
    "testid",
    "Test",
    "Runs of k6, by the tag testid that they were started with",
    "label_values(k6_http_reqs_total, testid)",
    many=True,
)

COMMON = (SOURCE, NAMESPACE, JOB, GATEWAY, POD)
"""What every dashboard has, so that a choice goes with whoever follows a link."""
