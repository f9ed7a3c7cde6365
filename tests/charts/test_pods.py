"""Objects of one chart that must suit each other. charts/*/tests has what each of them holds."""

import pytest

from support.rendering import pod, render

pytestmark = pytest.mark.fast

BOTH = pytest.mark.parametrize("chart", ["gateway", "server"])


@pytest.mark.parametrize(
    ("chart", "setting"), [("server", "config.backlog=64"), ("gateway", "listener.http2Streams=7")]
)
def test_a_changed_configuration_rolls_the_pods(chart: str, setting: str) -> None:
    def checksum(*settings: str) -> str:
        metadata = render(chart, *settings)["Deployment"]["spec"]["template"]["metadata"]
        return metadata["annotations"]["checksum/config"]

    assert checksum() == checksum("replicas=5")
    assert checksum() != checksum(setting)


@BOTH
def test_selectors_find_the_pods(chart: str) -> None:
    objects = render(chart)
    labels = objects["Deployment"]["spec"]["template"]["metadata"]["labels"].items()
    assert objects["Deployment"]["spec"]["selector"]["matchLabels"].items() <= labels
    assert objects["Service"]["spec"]["selector"].items() <= labels
    assert objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"].items() <= labels
    assert objects["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"].items() <= labels
    spread = pod(objects)["topologySpreadConstraints"]
    assert [entry["topologyKey"].split("/")[1] for entry in spread] == ["hostname", "zone"]
    for entry in spread:
        assert entry["labelSelector"]["matchLabels"].items() <= labels


@BOTH
def test_a_new_version_alone_does_not_roll_the_pods(chart: str) -> None:
    labels = render(chart)["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert set(labels) == {"app.kubernetes.io/name", "app.kubernetes.io/instance"}
