"""The servers' side of a run, of the Prometheus in the cluster."""

import re
import subprocess

from loadtests.cluster.kubectl import Kubectl
from loadtests.cluster.release import Receiver
from loadtests.record import Server
from loadtests.report import prometheus


def server_side(
    kubectl: Kubectl, receiver: Receiver | None, began: float | None, seconds: float
) -> Server | None:
    """What Prometheus saw meanwhile; nothing where there is none, or the run did not begin."""
    if receiver is None or began is None:
        return None
    # By the kubelet: past its NetworkPolicy, which lets nobody outside of the cluster in.
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
