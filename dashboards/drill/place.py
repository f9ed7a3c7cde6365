"""The platform of one drill: namespace, processes and scrape targets."""

import http.client
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from urllib.parse import urlsplit

from dashboards.drill.verdict import Cancelled, DrillError
from dashboards.drill.watch import Watch
from dashboards.live.platform import Platform
from stack import HOST, replica
from stack.gateway import Gateway, endpoint, gateway_to
from stack.http import ask, replies
from stack.load import Load
from stack.ports import free_ports
from stack.process import Process
from stack.programs import program
from tools import resolve


class Server(replica.Server):
    def start(self, *more: object, wait: bool = False) -> "Server":
        """The drill itself does the waiting, because only the drill can be interrupted."""
        return super().start(*more, wait=wait)

    def fault(self, route: str, share: float = 1, **kind: object) -> None:
        """Injects one fault, which expires after 30 minutes; `faults()` clears it."""
        self.faults({"route": route, "share": share, "expires_in": "30m", **kind})


UP = 60.0
"""Maximum seconds for a part to start while all CPUs are busy."""


@dataclass
class Place:
    watch: Watch
    namespace: str
    folder: Path
    platform: Platform | None = None
    """The shared platform, if the drill uses it."""
    stack: ExitStack = field(default_factory=ExitStack)
    begins: Callable[[], None] = lambda: None
    """Called when everything is healthy, directly before the cause."""

    def until(self, check: Callable[[], object], what: str, seconds: float = UP) -> None:
        """Waits until the check returns something true."""
        self.watch.until(check, seconds, what)

    def scraped(self, job: str, port: int, pod: str, **labels: str) -> None:
        self.watch.add(job, port, namespace=self.namespace, pod=pod, **labels)
        up = f'up{{namespace="{self.namespace}", job="{job}", pod="{pod}"}} == 1'
        self.until(lambda: self.watch.query(up), f"{job} {pod} is scraped")

    def unscraped(self, pod: str) -> None:
        """Stops scraping a pod, and waits until its series are gone."""
        self.watch.remove(self.namespace, pod=pod)
        up = f'up{{namespace="{self.namespace}", pod="{pod}"}}'
        self.until(lambda: not self.watch.query(up), f"{pod} is no longer scraped")

    def server(
        self,
        *flags: str | Path,
        pod: str = "server-0",
        tls: bool = False,
        within: Sequence[str] = (),
    ) -> Server:
        first = free_ports(2)
        ports = first, first + 1
        argv = [*within, *replica.command(program("corelane-server"), pod, ports, *flags)]
        return self._up(Server(pod, argv, self.folder, ports, scheme="https" if tls else "http"))

    def example(self, name: str, *flags: str, pod: str, first: int | None = None) -> Server:
        """Starts a scraped example service, whose ports begin at `first`."""
        first = first or free_ports(2)
        ports = first, first + 1
        listen = ["--listen", f"{HOST}:{ports[0]}", "--admin.listen", f"{HOST}:{ports[1]}"]
        argv = [program(name), "--replica", pod, *listen, *flags]
        return self._up(Server(pod, argv, self.folder, ports))

    def _up(self, made: Server) -> Server:
        self.stack.callback(made.kill)
        made.start()
        self.until(made.ready, f"{made.name} is ready, see {made.log}")
        self.scraped("service", made.admin_port, made.name)
        return made

    def gateway(
        self,
        *servers: Server,
        values: dict | None = None,
        pod: str = "gateway",
        stack: ExitStack | None = None,
        reaches: bool = True,
    ) -> Gateway:
        """Starts a scraped gateway for these replicas; `stack` stops it."""
        own = Path(mkdtemp(prefix=f"{pod}-", dir=self.folder))
        endpoints = [endpoint(each.url, each.admin) for each in servers]
        made = (stack or self.stack).enter_context(gateway_to(endpoints, own, values))
        if reaches:
            self.until(lambda: ask(made.url, "/hello").status == 200, f"{pod} reaches a replica")
        self.scraped("gateway", urlsplit(made.stats).port, pod)
        return made

    def routed(self, routes: str, pod: str) -> None:
        """Starts a gateway whose agent follows a ConfigMap's routes; Prometheus scrapes the agent."""
        own = Path(mkdtemp(prefix=f"{pod}-", dir=self.folder))
        admin, port = free_ports(1), free_ports(1)
        argv = [program("gateway-agent"), "endpoints", f"--routes={routes}"]
        argv += [f"--kubeconfig={self.platform.cluster.api.kubeconfig}", f"--folder={own}"]
        argv += [f"--envoy-admin={HOST}:{admin}", f"--listen={HOST}:{port}"]
        url = f"http://{HOST}:{port}"
        made = Process("gateway-agent", argv, own, lambda: replies(f"{url}/readyz"))
        self.stack.callback(made.kill)
        made.start(wait=False)
        self.until(made.ready, f"{pod} has its files, see {made.log}")
        values = {"routes": [{"name": "any", "service": {"name": "any"}}], "admin": {"port": admin}}
        values["upstream"] = {"discovery": "eds"}
        self.stack.enter_context(gateway_to([], own, values, dynamic=True))
        self.until(lambda: replies(f"{url}/routesz"), f"{pod} has routes")
        self.scraped("gateway-agent", port, pod)

    def tuner(self, node: str, *flags: str | Path, within: Sequence[str] = ()) -> Process:
        """Starts a scraped node tuner agent; `within` is a command that runs it."""
        port = free_ports(1)
        argv = [*within, program("node-tuner"), "agent", f"--agent.listen={HOST}:{port}"]
        argv += ["--agent.interval=1s", *flags]
        url = f"http://{HOST}:{port}/readyz"
        made = Process("node-tuner", argv, self.folder, lambda: replies(url))
        self.stack.callback(made.kill)
        made.start(wait=False)
        self.scraped("node-tuning", port, "node-tuning", node=node)
        return made

    def shown(self, resources: str) -> None:
        """Starts a scraped kube-state-metrics for these objects of the platform's API server."""
        program = resolve.tool("kube-state-metrics")
        pod, port, own = "kube-state-metrics", free_ports(1), free_ports(1)
        argv = [program, f"--kubeconfig={self.platform.cluster.api.kubeconfig}"]
        argv += [f"--resources={resources}", f"--host={HOST}", f"--port={port}"]
        argv += [f"--telemetry-host={HOST}", f"--telemetry-port={own}"]
        made = Process(pod, argv, self.folder, lambda: replies(f"http://{HOST}:{port}/livez"))
        self.stack.callback(made.kill)
        self.stack.callback(self.watch.remove, self.namespace, pod=pod)
        made.start(wait=False)
        self.scraped(pod, port, pod)

    @contextmanager
    def again(self, step: Callable[[], object], pause: float = 0.1) -> Iterator[None]:
        done = threading.Event()

        def run() -> None:
            while not done.wait(pause):
                with suppress(OSError, http.client.HTTPException, DrillError, Cancelled):
                    step()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    @contextmanager
    def load(self, url: str, path: str = "/hello", **more: Any) -> Iterator[Load]:
        with Load(url, path, **more) as load:
            yield load

    def fired(self) -> set[str]:
        """Alerts that fired in this namespace during the run, as `alert/severity`."""
        alerts = f'ALERTS{{alertstate="firing", namespace="{self.namespace}"}}'
        found = [each["labels"] for each in self.watch.query(f"count_over_time({alerts}[1h])")]
        return {f"{each['alertname']}/{each['severity']}" for each in found}

    def leave(self) -> None:
        if self.platform is None:
            self.watch.remove(self.namespace)
        self.stack.close()
