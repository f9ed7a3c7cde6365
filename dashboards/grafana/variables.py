from dataclasses import dataclass

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import dashboard as model

from grafana.queries import CLUSTER as OF_CLUSTER
from grafana.queries import DATASOURCE
from grafana.queries import GATEWAY as OF_GATEWAY
from grafana.queries import SERVICE as OF_SERVICE


@dataclass(frozen=True)
class Variable:
    """A variable with a label's values. With `many`, users can select several values, and all are
    selected by default.
    """

    name: str
    label: str
    description: str
    query: str = ""
    many: bool = False

    def build(self, hide: bool = False) -> Builder[model.VariableModel]:
        """Without a query, the variable is the data source. Links pass on hidden variables too."""
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
        if hide:
            variable.hide(model.VariableHide.HIDE_VARIABLE)
        if self.many:
            everything = model.VariableOption(selected=True, text="All", value="$__all")
            variable.multi(True).include_all(True).all_value(".*").current(everything)
        return variable


SOURCE = Variable("datasource", "Data source", "Prometheus server that scrapes this platform")
CLUSTER = Variable(
    "cluster",
    "Cluster",
    "Clusters in this Prometheus, from the cluster label, or All if the label is missing",
    "label_values(corelane_build_info, cluster)",
    many=True,
)
NAMESPACE = Variable(
    "namespace",
    "Namespace",
    "Namespace of the replicas, or the name of a local instance",
    f"label_values(corelane_build_info{{{OF_CLUSTER}}}, namespace)",
)
SERVICE = Variable(
    "service",
    "Service",
    "Service whose replicas are shown",
    f'label_values(corelane_build_info{{{OF_CLUSTER}, namespace="$namespace"}}, service)',
)
GATEWAY = Variable(
    "gateway",
    "Gateway",
    "Gateway in front of the service",
    f'label_values(envoy_server_live{{{OF_CLUSTER}, namespace="$namespace"}}, service)',
)
POD = Variable(
    "pod",
    "Pod",
    "Replicas to show; panels about a whole route or gateway show all replicas",
    f"label_values(corelane_build_info{{{OF_SERVICE}}}, pod)",
    many=True,
)
ROUTE = Variable(
    "route",
    "Route",
    "Route templates to show",
    f"label_values(route:corelane_requests:rate1m{{{OF_SERVICE}}}, route)",
    many=True,
)
UPSTREAM = Variable(
    "upstream",
    "Upstream",
    "Envoy clusters: the services behind the gateway, or server without routes",
    f"label_values(envoy_cluster_membership_total{{{OF_GATEWAY}}}, envoy_cluster_name)",
    many=True,
)
NODE = Variable(
    "node",
    "Node",
    "Nodes to show",
    f"label_values(corelane_node_tuner_info{{{OF_CLUSTER}}}, node)",
    many=True,
)
TEST = Variable(
    "testid",
    "Test",
    "k6 runs, identified by the testid tag",
    "label_values(k6_http_reqs_total, testid)",
    many=True,
)

COMMON = (SOURCE, CLUSTER, NAMESPACE, SERVICE, GATEWAY, POD, ROUTE)
"""On every dashboard, so that links keep the selection."""
