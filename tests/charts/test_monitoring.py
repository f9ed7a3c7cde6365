"""The monitoring chart, validated by the API server and Prometheus, and its scrape targets."""

import json
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from charts import renders
from stack import REPOSITORY
from stack.apiserver import Api
from stack.rendering import CHARTS, default_values, documents, helm, is_hook, template
from support.definitions import PROMETHEUS, install
from tools import table
from tools.resolve import tool

STANDALONE = ("mode=standalone", "grafana.admin.secret=grafana")
RULES = {
    file.name: yaml.safe_load(file.read_text())
    for file in (REPOSITORY / "dashboards" / "rules").glob("*.rules.yaml")
}
CONFIG_MAP = 1 << 20
"""Size limit of a ConfigMap in bytes."""


@pytest.fixture(scope="module")
def definitions(api: Api, tmp_path_factory: pytest.TempPathFactory) -> None:
    install(api, PROMETHEUS, tmp_path_factory.mktemp("operator"))


def values_of(case: str) -> Path:
    (file,) = renders.case(case).values_files()
    return file


def objects(*settings: str, **options: Any) -> list[dict]:
    """Parses with the C loader if available, because dashboards are long."""
    result = template("monitoring", *settings, **options)
    assert result.returncode == 0, result.stderr
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [each for each in yaml.load_all(result.stdout, Loader=loader) if each]


def of_kind(kind: str, *settings: str, **options: Any) -> dict[str, dict]:
    found = objects(*settings, **options)
    return {each["metadata"]["name"]: each for each in found if each["kind"] == kind}


def refused(api: Api, found: list[dict]) -> str:
    own = [{**each, "metadata": {"name": each["metadata"]["name"]}} for each in found]
    with api.namespace() as namespace:
        arguments = ["--dry-run=server", "--validate=strict", "--namespace", namespace]
        text = yaml.safe_dump_all(own)
        result = api.kubectl("create", *arguments, "--filename", "-", text=text)
    return result.stderr


@pytest.mark.nightly
@pytest.mark.usefixtures("definitions")
def test_the_operator_takes_every_object(api: Api) -> None:
    found = [each for each in objects() if "monitoring.coreos.com" in each["apiVersion"]]
    assert len(found) == 4 + len(RULES)
    assert refused(api, found) == ""


@pytest.mark.nightly
@pytest.mark.usefixtures("definitions")
def test_what_the_operator_does_not_know_is_refused(api: Api) -> None:
    monitor = of_kind("PodMonitor")["corelane-monitoring-service"]
    monitor["spec"]["podMetricsEndpoints"][0]["interval"] = "often"
    rule = of_kind("PrometheusRule")["corelane-monitoring-server"]
    rule["spec"]["groups"][0]["rules"][0]["expression"] = "1"
    words = refused(api, [monitor, rule])
    assert "spec.podMetricsEndpoints[0].interval" in words
    assert 'unknown field "spec.groups[0].rules[0].expression"' in words


@pytest.mark.fast
def test_rules_are_those_of_the_dashboards_folder() -> None:
    """Renders the chart with default values. Prometheus also evaluates the rules' templates."""
    own = {
        name.removeprefix("corelane-monitoring-") + ".rules.yaml": each["spec"]
        for name, each in of_kind("PrometheusRule").items()
    }
    assert "{{ $labels." in json.dumps(own)
    mounted = of_kind("ConfigMap", *STANDALONE)["corelane-monitoring-prometheus-rules"]["data"]
    rules = {name: yaml.safe_load(text) for name, text in mounted.items()}
    assert rules.pop("watchdog.rules.yaml")["groups"][0]["rules"][0]["alert"] == "Watchdog"
    assert rules == own
    for annotations in every_annotations(own):
        assert "runbook_url" not in annotations
        del annotations["dashboard_url"]
    assert own == RULES


def every_annotations(files: dict[str, dict]) -> list[dict[str, str]]:
    groups = [group for file in files.values() for group in file["groups"]]
    return [rule["annotations"] for group in groups for rule in group["rules"] if "alert" in rule]


@pytest.mark.fast
def test_each_alert_leads_to_its_runbook_and_to_a_dashboard_that_is_there() -> None:
    boards = {
        board["uid"]: {variable["name"] for variable in board["templating"]["list"]}
        for file in (REPOSITORY / "dashboards" / "json").glob("*.json")
        for board in [json.loads(file.read_text())]
    }
    where = (
        "rules.runbookUrl=https://books.example/x",
        "rules.dashboardUrl=https://grafana.example",
    )
    found = of_kind("PrometheusRule", *where)
    alerts = every_annotations({name: each["spec"] for name, each in found.items()})
    assert alerts
    for annotations in alerts:
        assert annotations["runbook_url"] == f"https://books.example/x/{annotations['runbook']}"
        url = urlsplit(annotations["dashboard_url"])
        assert url.netloc == "grafana.example"
        assert {name.removeprefix("var-") for name in parse_qs(url.query)} <= boards[
            url.path.removeprefix("/d/")
        ]


@pytest.mark.fast
def test_every_objective_has_a_value(tmp_path: Path) -> None:
    wanted = {"availability": 0.91, "latency": 0.92, "errorFloor": 93, "capacityUsed": 0.94}
    wanted |= {"spareReplicas": 95, "replicaLead": 96}
    values = {"objectives": {**wanted, "latencyThreshold": "5s"}}
    (tmp_path / "values.yaml").write_text(json.dumps(values))
    rules = of_kind("PrometheusRule", values=tmp_path / "values.yaml")
    (group,) = rules["corelane-monitoring-slo-objectives"]["spec"]["groups"]
    found = {rule["expr"] for rule in group["rules"]}
    assert found == {f"vector({number})" for number in (*wanted.values(), 5)}


@pytest.mark.fast
@pytest.mark.parametrize("settings", [(), STANDALONE], ids=["operator", "standalone"])
def test_each_config_map_holds_a_quarter_of_what_it_may(settings: tuple[str, ...]) -> None:
    maps = of_kind("ConfigMap", *settings)
    assert len([name for name in maps if "-dashboard-" in name]) == len(
        list((REPOSITORY / "dashboards" / "json").glob("*.json"))
    )
    for name, each in maps.items():
        assert sum(map(len, map(str.encode, each["data"].values()))) < CONFIG_MAP / 4, name


@pytest.mark.fast
def test_dashboards_are_mounted_with_the_address_of_the_runbooks() -> None:
    own = "https://books.example/x"
    maps = of_kind("ConfigMap", *STANDALONE, f"rules.runbookUrl={own}").values()
    found = {name: text for each in maps for name, text in each["data"].items()}
    assert f"{own}/dashboards/runbooks/${{__value.text}}" in found["corelane-overview.json"]
    for file in (REPOSITORY / "dashboards" / "json").glob("*.json"):
        wanted = file.read_text().replace("https://github.com/OWNER/corelane/blob/main", own)
        assert json.loads(found[file.name]) == json.loads(wanted)


@pytest.mark.fast
def test_dashboards_of_a_clone_lead_to_no_repository() -> None:
    maps = of_kind("ConfigMap", *STANDALONE).values()
    texts = [text for each in maps for text in each["data"].values()]
    assert any("dashboards/runbooks/" in text for text in texts)
    assert not any("OWNER" in text for text in texts)
    assert all(json.loads(text) for text in texts if text.startswith("{"))


@pytest.mark.nightly
def test_a_release_fits_where_helm_keeps_it(api: Api) -> None:
    """Helm stores the release in a Secret, which the API server limits to 1 MiB."""
    chart = CHARTS / "corelane"
    settings = ["monitoring.enabled=true", *(f"monitoring.{each}" for each in STANDALONE)]
    sets = [argument for setting in settings for argument in ("--set", setting)]
    sets += ["--values", renders.REGISTRY]
    with api.namespace() as namespace:
        where = ("--namespace", namespace)
        installed = api.helm("install", "shop", chart, *where, *sets, "--wait=hookOnly")
        assert installed.returncode == 0, installed.stderr
        (kept,) = api.get("secrets", *where)["items"]
        assert len(kept["data"]["release"]) < CONFIG_MAP / 2
        gone = api.helm("uninstall", "shop", *where, "--wait=hookOnly")
        assert gone.returncode == 0, gone.stderr
        kinds = (
            "statefulsets,services,configmaps,networkpolicies,roles,rolebindings,serviceaccounts"
        )
        left = api.get(kinds, *where)["items"]
        assert {each["metadata"]["name"] for each in left} <= {"kube-root-ca.crt", "default"}


@pytest.mark.fast
def test_a_package_has_the_files_themselves(tmp_path: Path) -> None:
    packed = helm("package", CHARTS / "monitoring", "--destination", tmp_path)
    assert packed.returncode == 0, packed.stderr
    (archive,) = tmp_path.glob("*.tgz")
    folders = {"dashboards": "json", "rules": "rules", "alertmanager": "alertmanager"}
    with tarfile.open(archive) as files:
        for here, there in folders.items():
            wanted = {
                file.name: file.read_bytes()
                for file in (REPOSITORY / "dashboards" / there).iterdir()
            }
            found = {
                Path(member.name).name: files.extractfile(member).read()
                for member in files
                if member.isfile() and member.name.startswith(f"monitoring/{here}/")
            }
            assert found == wanted


def pods(chart: str, *settings: str) -> Iterator[dict]:
    for each in documents(chart, *settings):
        if not is_hook(each) and "template" in each.get("spec", {}):
            yield each["spec"]["template"]


@pytest.mark.fast
@pytest.mark.parametrize(
    ("target", "chart", "container"),
    [
        ("service", "service", "service"),
        ("gateway", "gateway", "envoy"),
        ("gateway-agent", "gateway", "agent"),
        ("node-tuning", "node-tuning", "node-tuner"),
    ],
)
def test_what_is_scraped_is_what_the_charts_run(target: str, chart: str, container: str) -> None:
    wanted = default_values("monitoring")["targets"][target]
    (pod,) = pods(chart)
    assert wanted["selector"].items() <= pod["metadata"]["labels"].items()
    assert pod["metadata"]["labels"]["corelane/service"]
    every = pod["spec"]["containers"] + pod["spec"].get("initContainers", [])
    ports = {
        (each["name"], port["name"]): port["containerPort"]
        for each in every
        for port in each.get("ports", [])
    }
    # One target per pod, not per container with that port.
    if wanted["port"]:
        found = [name for name in ports if name[1] == wanted["port"]]
        assert found == [(container, wanted["port"])]
    else:
        annotated = int(pod["metadata"]["annotations"]["prometheus.io/port"])
        found = [name for name, port in ports.items() if port == annotated]
        assert found == [(container, "admin")]
    if "nodePort" in wanted:
        assert ports[container, wanted["port"]] == wanted["nodePort"]
    if target != "gateway-agent":
        assert pod["metadata"]["annotations"]["prometheus.io/path"] == wanted["path"]


@pytest.mark.fast
@pytest.mark.parametrize("chart", ["service", "gateway"])
def test_the_policies_of_the_parts_let_prometheus_in(chart: str) -> None:
    (prometheus,) = [
        each["spec"]["template"]
        for name, each in of_kind("StatefulSet", *STANDALONE).items()
        if name.endswith("-prometheus")
    ]
    peers = default_values(chart)["networkPolicy"]["monitoring"]
    labels = prometheus["metadata"]["labels"].items()
    assert any(
        peer.get("podSelector", {}).get("matchLabels", {"": ""}).items() <= labels for peer in peers
    )


@pytest.mark.parametrize("case", ["monitoring-standalone", "monitoring-all"])
def test_promtool_finds_no_fault(case: str, tmp_path: Path) -> None:
    maps = of_kind("ConfigMap", values=values_of(case))
    found = yaml.safe_load(maps["corelane-monitoring-prometheus"]["data"]["prometheus.yml"])
    # Retention is new in Prometheus 3, and this promtool lacks service discovery.
    del found["storage"]
    for job in found["scrape_configs"]:
        job.pop("kubernetes_sd_configs", None)
    rules = maps["corelane-monitoring-prometheus-rules"]["data"]
    # The chart adds its own always-firing rule.
    assert rules.keys() == RULES.keys() | {"watchdog.rules.yaml"}
    for name, text in rules.items():
        (tmp_path / name).write_text(text)
    found["rule_files"] = [str(tmp_path / "*.rules.yaml")]
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(found))
    argv = [tool("promtool"), "check", "config", tmp_path / "prometheus.yml"]
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{len(rules)} rule files found" in result.stdout


@pytest.mark.parametrize("webhook", ["", "http://alerts.prod.svc:8080/hook"])
def test_amtool_finds_no_fault(webhook: str, tmp_path: Path) -> None:
    maps = of_kind("ConfigMap", *STANDALONE, f"alertmanager.webhook={webhook}")
    text = maps["corelane-monitoring-alertmanager"]["data"]["alertmanager.yaml"]
    assert (f"url: {webhook}" in text) is bool(webhook)
    (tmp_path / "alertmanager.yaml").write_text(text)
    argv = [tool("amtool"), "check-config", tmp_path / "alertmanager.yaml"]
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


# Provisioning formats from Grafana's documentation and pkg/services/provisioning. Grafana ignores
# unknown keys, so only this test notices mistakes.
SOURCE = {
    **dict.fromkeys(("name", "uid", "type", "access", "url", "user", "database"), str),
    **dict.fromkeys(("basicAuth", "withCredentials", "isDefault", "editable"), bool),
    **dict.fromkeys(("orgId", "version"), int),
    **dict.fromkeys(("jsonData", "secureJsonData"), dict),
    "basicAuthUser": str,
}
SOURCE_DATA = {
    "prometheus": {
        **dict.fromkeys(("httpMethod", "timeInterval", "prometheusType", "prometheusVersion"), str),
        "manageAlerts": bool,
        "alertmanagerUid": str,
        "exemplarTraceIdDestinations": list,
    },
    "alertmanager": {"implementation": str, "handleGrafanaManagedAlerts": bool},
}
PROVIDER = {
    **dict.fromkeys(("name", "folder", "folderUid", "type"), str),
    **dict.fromkeys(("disableDeletion", "allowUiUpdates"), bool),
    **dict.fromkeys(("orgId", "updateIntervalSeconds"), int),
    "options": dict,
}


def check(found: dict, form: dict[str, type], required: set[str]) -> None:
    """Rejects unknown keys and wrong types."""
    assert required <= found.keys()
    for key, value in found.items():
        assert type(value) is form[key], key


@pytest.mark.fast
@pytest.mark.parametrize("case", ["monitoring-standalone", "monitoring-all"])
def test_grafana_is_provisioned_in_its_documented_form(case: str) -> None:
    values = values_of(case)
    data = of_kind("ConfigMap", values=values)["corelane-monitoring-grafana"]["data"]
    sources = yaml.safe_load(data["datasources.yaml"])
    check(sources, {"apiVersion": int, "prune": bool, "datasources": list}, {"apiVersion"})
    for each in sources["datasources"]:
        check(each, SOURCE, {"name", "type", "access", "url"})
        check(each["jsonData"], SOURCE_DATA[each["type"]], set())
    assert [each["isDefault"] for each in sources["datasources"] if "isDefault" in each] == [True]
    providers = yaml.safe_load(data["dashboards.yaml"])
    check(providers, {"apiVersion": int, "providers": list}, {"apiVersion", "providers"})
    (provider,) = providers["providers"]
    check(provider, PROVIDER, {"name", "type", "options"})
    check(provider["options"], {"path": str, "foldersFromFilesStructure": bool}, {"path"})
    (container,) = of_kind("StatefulSet", values=values)["corelane-monitoring-grafana"]["spec"][
        "template"
    ]["spec"]["containers"]
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert provider["options"]["path"] == mounts["dashboards"]
    variables = {each["name"]: each.get("value") for each in container["env"]}
    assert variables["GF_PATHS_PROVISIONING"] == mounts["config"]


@pytest.mark.fast
@pytest.mark.parametrize("part", ["prometheus", "alertmanager"])
def test_an_upstream_image_has_the_version_of_the_pinned_tool(part: str) -> None:
    tag = default_values("monitoring")[part]["image"]["tag"]
    assert f"version.Version={tag.removeprefix('v')}" in table.find(part).go.ldflags


@pytest.mark.fast
def test_no_password_stands_anywhere() -> None:
    text = template("monitoring", *STANDALONE).stdout
    assert "kind: Secret" not in text
    assert "admin-password" in text
    assert default_values("monitoring")["grafana"]["admin"]["secret"] == ""


@pytest.mark.fast
@pytest.mark.parametrize("setting", ["grafana.folder=Other", "scrape.interval=5s"])
def test_grafana_starts_anew_with_what_it_reads_only_then(setting: str) -> None:
    name = "corelane-monitoring-grafana"
    before, after = (
        of_kind("StatefulSet", *STANDALONE, *more)[name]["spec"]["template"]["metadata"]
        for more in ((), (setting, "scrape.timeout=1s"))
    )
    assert before["annotations"] != after["annotations"]


@pytest.mark.nightly
def test_it_is_changed_in_place_but_for_its_volumes(api: Api) -> None:
    chart = CHARTS / "monitoring"
    parts = ("prometheus", "alertmanager", "grafana")
    few, many = (("--values", values_of(f"monitoring-{case}")) for case in ("standalone", "all"))
    # Other namespaces do not exist here.
    same = ["--values", renders.REGISTRY, "--set-json", "namespaces=[]"]
    same += ["--set-json", "objectives.overrides=[]", "--reset-values", "--wait=hookOnly"]
    for part in parts:
        same += ["--set", f"{part}.persistence.enabled=false"]
    with api.namespace() as namespace:
        where = ("--namespace", namespace)

        def upgraded(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
            return api.helm("upgrade", "--install", "shop", chart, *where, *same, *arguments)

        def made() -> dict[str, str]:
            found = api.get("statefulsets", *where)["items"]
            return {each["metadata"]["name"]: each["metadata"]["uid"] for each in found}

        assert upgraded(*few).returncode == 0
        first = made()
        assert first.keys() == {f"shop-monitoring-{part}" for part in parts}
        for values in (many, few):
            result = upgraded(*values)
            assert result.returncode == 0, result.stderr
            assert made() == first
        refused = upgraded(*few, "--set", "prometheus.persistence.enabled=true")
        assert refused.returncode != 0
        assert "updates to statefulset spec" in refused.stderr
        api.helm("uninstall", "shop", *where, "--wait=hookOnly")
