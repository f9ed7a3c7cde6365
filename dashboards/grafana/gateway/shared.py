"""What several rows of this dashboard use."""

from grafana.queries import GATEWAY, rate

UPSTREAM = f'{GATEWAY}, envoy_cluster_name="server"'


def per_second(counter: str, matchers: str = UPSTREAM) -> str:
    """What a counter of all gateways adds each second."""
    return f"sum({rate(counter, matchers)})"
