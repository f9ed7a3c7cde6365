"""Prometheus and Alertmanager of this tree: targets, rules, alerts, permissions. The last test
uninstalls them.
"""

from collections.abc import Iterable, Iterator

import yaml

from stack import REPOSITORY, eventually
from support.kubernetes import PAUSE, ROLL_OUT
from support.monitoring import KNOBS, Api, Monitored
from support.pinning import processes_of
from support.releases import Release
from support.tuning import inside

RULES = [
    group
    for file in sorted((REPOSITORY / "dashboards" / "rules").glob("*.rules.yaml"))
    for group in yaml.safe_load(file.read_text())["groups"]
]
LABELS = {"job", "service", "namespace", "pod", "node", "instance"}


def wait(condition: object, what: str) -> None:
    """Prometheus scrapes every two seconds, the kubelet once a minute."""
    eventually(condition, what, patience=ROLL_OUT, pause=PAUSE)


def wanted(monitored: Monitored) -> set[tuple[str, ...]]:
    """Job, service, namespace, pod and node of each target."""
    jobs = {"server": ["service"], "gateway": ["gateway", "gateway-agent"]}
    found = {
        (job, f"{monitored.release.name}-{app}", monitored.cluster.namespace, pod.name, pod.node)
        for app, of_app in jobs.items()
        for pod in monitored.cluster.ready_pods(app)
        for job in of_app
    }
    for part in ("prometheus", "alertmanager"):
        service = f"{monitored.release.name}-monitoring-{part}"
        node = monitored.cluster.get("pod", f"{service}-0")["spec"]["nodeName"]
        found.add((part, service, monitored.cluster.namespace, f"{service}-0", node))
    space = monitored.tuning.cluster.namespace
    for node, pod in monitored.tuning.pods().items():
        labels = pod["metadata"]["labels"]
        found.add(("node-tuning", labels["corelane/service"], space, pod["metadata"]["name"], node))
    return found


def labelled(target: dict) -> tuple[str, ...]:
    return tuple(target["labels"][name] for name in ("job", "service", "namespace", "pod", "node"))


def targets(prometheus: Api) -> list[dict]:
    return prometheus.data("/api/v1/targets?state=active")["activeTargets"]


def test_every_part_is_scraped_and_named_as_agreed(monitored: Monitored) -> None:
    with monitored.api("prometheus") as prometheus:
        expected = wanted(monitored)
        assert {job for job, *_ in expected} == {
            *("service", "gateway", "gateway-agent", "node-tuning", "prometheus", "alertmanager")
        }
        found: list[dict] = []

        def all_up() -> bool:
            # Targets of terminating pods linger and are down.
            found[:] = targets(prometheus)
            up = {labelled(each) for each in found if each["health"] == "up"}
            return up == expected and len(found) == len(expected)

        wait(all_up, f"these targets and no others, all up: {expected}")
        assert {frozenset(each["labels"]) for each in found} == {frozenset(LABELS)}
        servers = {pod.name for pod in monitored.cluster.ready_pods("server")}
        pinned: list[dict] = []

        def looked_at() -> bool:
            pinned[:] = prometheus.query('corelane_node_pod_check{job="node-tuning"}')
            return servers <= {each["metric"]["pod"] for each in pinned}

        # Agents keep their own labels, which name the inspected pod.
        wait(looked_at, f"what agents found of {servers}")
        assert not any("exported_pod" in each["metric"] for each in pinned)


def test_what_somebody_changes_on_a_node_is_an_alert(monitored: Monitored) -> None:
    node, *_ = monitored.tuning.cluster.nodes()
    ((knob, value),) = KNOBS.items()
    file = f"/proc/sys/{knob.replace('.', '/')}"
    counted = f'corelane_node_knob_drift_total{{node="{node}", knob="{knob}"}}'
    wait(lambda: inside(node, "cat", file).strip() == value, f"{knob} of the agent's choice")
    # An increase is only visible with an earlier sample.
    with monitored.api("prometheus") as prometheus:
        wait(lambda: prometheus.query(counted), "a scrape of the agent")
    inside(node, "sh", "-c", f"echo 77 >{file}")

    def tells(alert: dict) -> bool:
        labels = alert["labels"]
        return (labels["alertname"], labels.get("node")) == ("CorelaneNodeKnobDrift", node)

    with monitored.api("alertmanager") as alertmanager:
        wait(lambda: any(map(tells, alertmanager.get("/api/v2/alerts"))), "the alert")


def test_alertmanager_posts_what_is_critical(monitored: Monitored) -> None:
    """A separate test, because critical alerts are grouped for ten seconds and warnings for a
    minute.
    """
    labels = {"alertname": "Drill", "severity": "critical", "namespace": "drill"}
    with monitored.api("alertmanager") as alertmanager:
        alertmanager.post("/api/v2/alerts", [{"labels": labels}])
    wait(lambda: labels in [each["labels"] for each in monitored.webhook.alerts], "the message")


def test_helms_own_tests_pass(monitored: Monitored) -> None:
    name = f"{monitored.release.name}-monitoring"
    own = f"name={name}-prometheus-test-targets,name={name}-alertmanager-test-ready"
    said = monitored.release.helm("test", monitored.release.name, "--logs", "--filter", own).stdout
    assert said.count("Phase:          Succeeded") == 2, said


def test_a_stranger_cannot_ask_prometheus(monitored: Monitored) -> None:
    cluster = monitored.cluster
    url = f"http://{monitored.release.name}-monitoring-prometheus:9090/-/ready"
    ended = cluster.run(monitored.release.program, "/corelane", "check", url, "--deadline", "5s")
    assert not ended.succeeded
    assert "cannot connect" in ended.said or "last: no reply" in ended.said, ended.said


def test_it_may_look_for_pods_and_nothing_else(monitored: Monitored) -> None:
    namespace = monitored.cluster.namespace
    account = f"system:serviceaccount:{namespace}:{monitored.release.name}-monitoring-prometheus"
    for space in (namespace, monitored.tuning.cluster.namespace):
        listed = monitored.cluster.kubectl(
            "auth", "can-i", "--list", "--no-headers", f"--as={account}", "--namespace", space
        ).stdout
        own = [line.split() for line in listed.splitlines() if line.startswith("pods")]
        assert own == [["pods", "[]", "[]", "[list", "watch]"]]
        assert "secrets" not in listed


def groups(prometheus: Api) -> dict[str, dict]:
    return {each["name"]: each for each in prometheus.data("/api/v1/rules")["groups"]}


def expressions(groups: Iterable[dict]) -> Iterator[str]:
    """Recording rules, with recorded series replaced with their expressions."""
    for group in groups:
        known: dict[str, str] = {}
        for rule in group["rules"]:
            found = rule["expr"]
            for record, expression in known.items():
                found = found.replace(record, f"({expression})")
            if "record" in rule:
                known[rule["record"]] = found
                yield found


def test_every_rule_is_evaluated_and_records_have_data_under_traffic(monitored: Monitored) -> None:
    """Runs last, because nested recordings take several 30 s rounds."""
    # These groups are evaluated every two minutes, so the test queries their expressions directly.
    slow = [group for group in RULES if group.get("interval") == "2m"]
    assert slow
    soon = [group for group in RULES if group not in slow]
    records = {rule["record"] for group in soon for rule in group["rules"] if "record" in rule}
    with monitored.api("prometheus") as prometheus:

        def evaluated() -> bool:
            found = groups(prometheus)
            assert found.keys() == {group["name"] for group in RULES}
            health = {
                name: {rule["health"] for rule in group["rules"]} for name, group in found.items()
            }
            assert not [name for name, of_group in health.items() if "err" in of_group], found
            return all(health[group["name"]] == {"ok"} for group in soon)

        def recorded() -> set[str]:
            return set(prometheus.data("/api/v1/label/__name__/values"))

        wait(evaluated, "an evaluation of every rule")
        wait(lambda: records <= recorded(), f"data of every record: {sorted(records)}")
        for expression in expressions(slow):
            wait(lambda expression=expression: prometheus.query(expression), expression)
        # With a one-minute window, one failed scrape hides nothing.
        (failures,) = prometheus.query(
            "sum(max_over_time(prometheus_rule_evaluation_failures_total[1m]))"
        )
        assert failures["value"][1] == "0"


def test_uninstalling_leaves_nothing_behind(
    release: Release, monitoring_images: tuple[str, ...]
) -> None:
    release.upgrade("monitoring.enabled=true", strings=monitoring_images)
    uids = [pod["metadata"]["uid"] for pod in release.cluster.items("pods")]
    assert len(uids) == 6
    assert all(map(processes_of, uids))
    assert release.cluster.leftovers()
    release.helm("uninstall", release.name, "--wait")
    eventually(lambda: not release.cluster.leftovers(), "an empty namespace", patience=ROLL_OUT)
    eventually(lambda: not any(map(processes_of, uids)), "the end of the pods", patience=ROLL_OUT)
    assert release.revision == 0
