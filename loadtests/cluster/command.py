"""The command `python3 loadtests cluster`: one scenario on several runners in a cluster."""

import argparse
import os
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from loadtests import k6, record
from loadtests.cluster import merge, release, runners
from loadtests.cluster.release import Kubectl, Receiver
from loadtests.record import Server
from loadtests.report import keep, prometheus
from loadtests.report.markdown import markdown
from loadtests.scenario import SETTINGS, add_out
from loadtests.usage import UsageError

MOST = 200


def add(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "cluster",
        help="run a scenario inside a cluster, on several runners",
        description="Installs charts/loadtest, follows its runners, merges what they counted into "
        "one record, and uninstalls it. The run fails when a runner does.",
        epilog="Environment: CLUSTER (local, kind or current), NAMESPACE (corelane)",
    )
    parser.add_argument("scenario", metavar="SCENARIO", help="see python3 loadtests SCENARIO")
    parser.add_argument("--runners", type=int, default=2, metavar="N", help="default: 2")
    parser.add_argument("--rate", type=int, metavar="N", help="total requests per second")
    parser.add_argument("--duration", metavar="TIME", help="for example 20s or 2m")
    parser.add_argument("--vus", type=int, metavar="N", help="total virtual users")
    parser.add_argument("--seed", type=int, metavar="N", help="random seed")
    parser.add_argument(
        "--target", default="", metavar="URL", help="default: the gateway in the cluster"
    )
    parser.add_argument("--release", default="loadtest", metavar="NAME", help="default: loadtest")
    more = {"action": "append", "default": []}
    parser.add_argument("--values", type=Path, metavar="FILE", help="values of the chart", **more)
    parser.add_argument(
        "--set", dest="sets", metavar="KEY=VALUE", help="a single value of the chart", **more
    )
    parser.add_argument("--keep", action="store_true", help="keep the release for inspection")
    add_out(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    _check(options)
    load, started = os.getloadavg(), datetime.now(UTC)
    folder = record.create_folder(options.out, f"cluster-{options.scenario}", started)
    wanted = release.Wanted(
        scenario=options.scenario,
        runners=options.runners,
        release=options.release,
        # The name is as unique as the folder, and identifies the series later.
        testid=folder.name,
        settings={
            name: value for name in SETTINGS if (value := getattr(options, name)) is not None
        },
        target=options.target,
        values=options.values,
        sets=options.sets,
    )
    try:
        kubectl = Kubectl()
        installed = release.install(kubectl, wanted)
    except BaseException:
        folder.rmdir()
        raise
    try:
        ended = runners.follow(kubectl, installed, wanted.runners, folder)
    finally:
        if not options.keep:
            release.uninstall(kubectl, wanted.release)
    run = merge.record_of(wanted, installed, ended, started, load)
    run.server = server_side(kubectl, installed.receiver, ended.began, run.seconds)
    keep(run, folder)
    print(markdown(run))
    for reason in ended.reasons():
        print(f"cluster     {reason}")
    print(f"testid      {wanted.testid}")
    print(f"report      {folder}")
    return run.exit_code


def _check(options: argparse.Namespace) -> None:
    if options.scenario not in k6.scenarios():
        raise UsageError(f"{options.scenario}: choose one of {', '.join(k6.scenarios())}")
    if not 1 <= options.runners <= MOST:
        raise UsageError(f"--runners {options.runners}: give a number from 1 to {MOST}")
    for file in options.values:
        if not file.is_file():
            raise UsageError(f"--values {file}: there is no such file")


def server_side(
    kubectl: Kubectl, receiver: Receiver | None, began: float | None, seconds: float
) -> Server | None:
    """Prometheus' data for the run; empty without a Prometheus, or if the run never started."""
    if receiver is None or began is None:
        return None
    # The kubelet's path bypasses the NetworkPolicy, which admits no client from outside the
    # cluster.
    argv = kubectl.argv("port-forward", f"service/{receiver.service}", f":{receiver.port}")
    with subprocess.Popen(
        argv, env=kubectl.environment, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            found = re.search(r"127\.0\.0\.1:\d+", process.stdout.readline())
            url = f"http://{found[0]}" if found else ""
            return prometheus.ask(url, began, seconds, f'namespace="{kubectl.namespace}"')
        finally:
            process.terminate()
