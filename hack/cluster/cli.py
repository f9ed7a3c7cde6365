"""The commands of `python3 hack/cluster`."""

import argparse
import os
from pathlib import Path

from cluster import autoscaling, down, kind, local, plan, policies, settings, up
from cluster.faults import Faulty
from tools import errors
from tools.errors import ToolError


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    return errors.status_of(lambda: _run(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python3 hack/cluster",
        description="Two Kubernetes nodes on this machine, without Docker.",
        epilog="Environment: " + ", ".join(settings.VARIABLES),
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("up", help="start the cluster and wait until it can be used")
    commands.add_parser("down", help="stop the cluster, and check that nothing of it is left")
    commands.add_parser("status", help="show components, nodes and pods")
    commands.add_parser("kubeconfig", help="print the path of the kubeconfig to use")
    enter = commands.add_parser("enter", help="run a command, or a shell, inside a node")
    enter.add_argument("node", metavar="NODE")
    enter.add_argument("words", nargs=argparse.REMAINDER, metavar="...")
    start = commands.add_parser("start", help="switch a node on that is a machine and has ended")
    start.add_argument("node", metavar="NODE", choices=plan.NODES)
    commands.add_parser("policies", help="enforce NetworkPolicies; `up` starts this")
    metrics = commands.add_parser("autoscaling", help="install what autoscalers read, or remove it")
    given = metrics.add_mutually_exclusive_group(required=True)
    given.add_argument("--prometheus", metavar="URL", help="Prometheus, as pods reach it")
    given.add_argument("--remove", action="store_true")
    metrics.add_argument(
        "--whole", action="store_true", help="windows of rules as in use, not a fifth"
    )
    load = commands.add_parser("load", help="load image archives into all nodes")
    load.add_argument("archives", nargs="+", type=Path, metavar="ARCHIVE")
    return parser


def _run(options: argparse.Namespace) -> int:
    commands = {"local": _local, "vm": _local, "kind": _kind, "current": _current}
    return commands[settings.kind()](options)


def _local(options: argparse.Namespace) -> int:
    ours = settings.load()
    match options.command:
        case "up":
            return up.main(ours)
        case "down":
            return down.main(ours)
        case "load":
            return local.load(ours, options.archives)
        case "status":
            return local.status(ours)
        case "enter":
            return local.enter(ours, options.node, options.words)
        case "start":
            Faulty(ours).start(options.node)
            return 0
        case "policies":
            return policies.main(ours)
        case "autoscaling" if options.remove:
            return autoscaling.remove(ours)
        case "autoscaling":
            return autoscaling.install(ours, options.prometheus, whole=options.whole)
    print(local.kubeconfig(ours))
    return 0


def _kind(options: argparse.Namespace) -> int:
    match options.command:
        case "up":
            return kind.up()
        case "down":
            return kind.down()
        case "load":
            return kind.load(options.archives)
        case "enter" | "start" | "policies" | "autoscaling":
            raise ToolError(f"{options.command} works with CLUSTER=local only")
    if not kind.kubeconfig().is_file():
        raise ToolError("kind's cluster is not running: run make cluster-up CLUSTER=kind")
    return _show(options, kind.kubeconfig())


def _current(options: argparse.Namespace) -> int:
    if options.command not in ("status", "kubeconfig"):
        return refuse(options.command)
    return _show(options, current_kubeconfig())


def _show(options: argparse.Namespace, file: Path) -> int:
    if options.command == "status":
        return local.show(file)
    print(file)
    return 0


def current_kubeconfig() -> Path:
    """Returns the file that kubectl would read; $KUBECONFIG may list several."""
    text = os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    files = [Path(part) for part in text.split(os.pathsep) if part]
    if not any(file.is_file() for file in files):
        raise ToolError(f"CLUSTER=current needs a kubeconfig, and there is none at {text}")
    return Path(text)


def refuse(command: str) -> int:
    """Rejects a command that only our own clusters support."""
    if command == "load":
        raise ToolError(
            "images cannot be loaded into the cluster of the current kubeconfig: push them to a "
            "registry that it reaches, and set the charts' values image.registry and image.tag"
        )
    raise ToolError(
        f"{command}: the cluster of the current kubeconfig is not ours; "
        "leave CLUSTER unset for the local one"
    )
