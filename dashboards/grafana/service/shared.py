"""What several rows of this dashboard use."""

from grafana.queries import rate


def summed(labels: str, counter: str, matchers: str) -> str:
    """What a counter adds each second, by labels."""
    return f"sum by ({labels}) ({rate(counter, matchers)})"
