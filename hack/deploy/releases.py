"""Installs and uninstalls the release of the umbrella chart."""

import json
from pathlib import Path

from deploy import images, pulls, run
from release.charts import vendored

CHART = run.REPOSITORY / "charts" / "corelane"
TIMEOUT = "15m"
OURS = {"app.kubernetes.io/managed-by": "corelane-deploy"}
POD_SECURITY = "pod-security.kubernetes.io"


def install(built: images.Images | None) -> None:
    """Installs or upgrades the release and waits until all of it is ready.

    An upgrade overwrites values that others have set, such as an autoscaler's number of replicas.
    """
    prepare_namespace()
    options = ("--force-conflicts", "--wait", "--timeout", TIMEOUT)
    pulls.helm("upgrade", "--install", *arguments(built), *options)


def arguments(built: images.Images | None) -> list[str | Path]:
    values: list[str | Path] = []
    for file in run.values():
        values += ["--values", file]
    for setting in images.settings_of(built) if built else []:
        values += ["--set-string", setting]
    chart = vendored(CHART, images.FOLDER / "charts")
    return [run.release(), chart, "--namespace", run.namespace(), *values]


def images_named() -> list[str]:
    rendered = run.tool("helm", "template", *arguments(None))
    return [name for name in images.PLACES if f"corelane-{name}:" in rendered]


def prepare_namespace() -> None:
    """Creates the namespace if it is missing. It then admits only restricted pods."""
    if run.tool("kubectl", "get", "namespace", run.namespace(), "--ignore-not-found"):
        return
    labels = {f"{POD_SECURITY}/enforce": "restricted", f"{POD_SECURITY}/warn": "restricted"}
    labels |= OURS
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": run.namespace(), "labels": labels},
    }
    run.tool("kubectl", "create", "--filename", "-", stdin=json.dumps(namespace))


def uninstall() -> bool:
    """Also removes the namespace if this command created it. Returns whether a release existed."""
    where = ("--namespace", run.namespace())
    name = run.release()
    found = json.loads(
        run.tool("helm", "list", "--filter", f"^{name}$", *where, "--output", "json")
    )
    if found:
        run.tool("helm", "uninstall", name, *where, "--wait", "--timeout", TIMEOUT)
    label = ",".join(f"{key}={value}" for key, value in OURS.items())
    named = f"metadata.name={run.namespace()}"
    run.tool("kubectl", "delete", "namespace", "--selector", label, "--field-selector", named)
    return bool(found)


def address() -> str:
    name = f"{run.release()}-gateway"
    where = ("--namespace", run.namespace(), "--output", "json")
    service = json.loads(run.tool("kubectl", "get", "service", name, *where))
    port = service["spec"]["ports"][0]
    if "nodePort" in port:
        nodes = json.loads(run.tool("kubectl", "get", "nodes", "--output", "json"))["items"]
        addresses = nodes[0]["status"]["addresses"]
        ip = next(each["address"] for each in addresses if each["type"] == "InternalIP")
        return f"http://{ip}:{port['nodePort']}"
    return (
        f"kubectl --namespace {run.namespace()} port-forward service/{name} "
        f"8080:{port['port']}, then http://127.0.0.1:8080"
    )
