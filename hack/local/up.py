"""`up`: obtains the tools, builds the service, starts all processes and waits until they are ready."""

import os
import re
import shlex
import shutil
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from local import (
    build,
    commands,
    database,
    down,
    ports,
    processes,
    ready,
    render,
    settings,
    supervisor,
    topology,
    watch,
)
from local.build import Built
from local.service import REFERENCE, Service
from local.topology import Topology
from stack import HOST, pids
from tools import progress, resolve
from tools.errors import ToolError

TOOLS = ("envoy", "prometheus", "supervisord")


def prepare(
    run: Path, plan: Topology, corelane: Path | None
) -> tuple[dict[str, Path], list[Built], Path]:
    """Tools by name, the services, and the `corelane` program, which is built if it is missing."""
    services = plan.services
    profile = settings.profile(services[0])
    renders = len(services) > 1 or services[0].gateway or plan.mtls
    with ThreadPoolExecutor() as pool:
        found = pool.submit(resolve.ensure, [*TOOLS, "helm"] if renders else TOOLS)
        # A cargo build uses all CPUs.
        built = [build.build(service, run, profile) for service in services]
        page = corelane or build.command_line(services[0], run, profile)
        return found.result(), built, page


KEPT = ("prometheus-data", "build.log", "lock", "token", *database.KEPT)


def _hide(run: Path) -> None:
    if run.parent.name == settings.FOLDER:
        run.parent.mkdir(parents=True, exist_ok=True)
        (run.parent / ".gitignore").write_text("*\n")


def main(
    run: Path,
    services: tuple[Service, ...] = (REFERENCE,),
    following: bool = False,
    corelane: Path | None = None,
) -> int:
    """Does nothing if the instance is up. With `following`, it then watches the sources."""
    # SIGTERM unwinds like an interrupt, so that an aborted start leaves nothing.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    _hide(run)
    with pids.lock(run):
        plan = _running(run, services)
        built = None
        if plan is None:
            plan = topology.plan(settings.load(services))
            built = _bring_up(plan, run, corelane)
    if not following:
        return 0
    profile = settings.profile(services[0])
    built = built or [build.build(service, run, profile) for service in services]
    return watch.watch(plan, built, run)


def _running(run: Path, services: tuple[Service, ...]) -> Topology | None:
    """The running instance, if any."""
    found = processes.find(run)
    if not found:
        return None
    running = topology.read(run)
    down_first = f"run {settings.usage(run, 'down')} first"
    if supervisor.pid(run) is None or running is None:
        names = ", ".join(f"{pids.name(pid)} (pid {pid})" for pid in found)
        raise ToolError(f"an incomplete earlier run left {names}: {down_first}")
    if running.services != services:
        other, wanted = ([each.program for each in some] for some in (running.services, services))
        what = ", ".join(other) if other != wanted else "another runtime, health path or gateway"
        raise ToolError(f"instance {run.name} is up with {what}: {down_first}")
    wanted = topology.plan(settings.load(services)).variables()
    for name, value in running.variables().items():
        if settings.given(name) and wanted.get(name, "") != value:
            raise ToolError(
                f"instance {run.name} is up with {name}={value}, and {name}={os.environ[name]} needs a new start: "
                f"{down_first}"
            )
    print("Corelane is already up.")
    changed = _changed(running, run)
    if changed:
        print(
            f"It keeps the environment of its start. To apply {', '.join(changed)}, {down_first}."
        )
    print(describe(running, run))
    return running


OURS = {"DATABASE", "INSTANCE", "MTLS", "POSTGRES_PORT", "PROFILE", "REPLICAS", *settings.VARIABLES}
"""Variables that do not concern replicas."""

SHELL = re.compile(
    r"_|OLDPWD|PWD|SHLVL|COLUMNS|LINES|M(AKE|FLAGS).*|TERM.*|(SSH|TMUX|XDG)_.*|TMUX|WINDOWID|GPG_TTY"
)


def _changed(running: Topology, run: Path) -> list[str]:
    """Variables whose value would differ for replicas after a restart."""
    now = processes.make(run, running.services, _known(running, run))
    before = pids.environment(supervisor.pid(run) or 0)
    changed = {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}
    return sorted(name for name in changed - OURS if before and not SHELL.fullmatch(name))


def _known(plan: Topology, run: Path) -> dict[str, set[str]]:
    """The CORELANE_ variables that each service reads."""
    found = {}
    for service in plan.services:
        program = build.installed(service, run)
        found[service.name] = processes.variables(run, program, service, _own(plan, service, run))
    return found


def _own(plan: Topology, service: Service, run: Path) -> dict[str, str]:
    """A replica's variables in addition to the environment of `up`. The reference server takes
    flags instead.
    """
    if service == REFERENCE:
        return {}
    shared = database.environment(plan, service, database.read(plan, run), run)
    return commands.environment(plan.replicas_of(service)[0], plan) | shared


def _bring_up(plan: Topology, run: Path, corelane: Path | None) -> list[Built]:
    ports.require_free(plan)
    programs, built, page = prepare(run, plan, corelane)
    _clear(run)
    for each in built:
        build.install(each.program, run)
    programs["corelane"] = build.install(page, run)
    if run.parent.name == settings.FOLDER:
        # Where `corelane status` and other commands find these tools.
        (run / "checkout").write_text(str(settings.REPOSITORY))
    # A program may need its database before it reads its settings.
    database.make(plan, run)
    known = _known(plan, run)
    render.render(plan, programs, known, run)
    # The builds may have taken minutes.
    ports.require_free(plan)
    failed = _start(plan, programs, known, run)
    print(f"Corelane is up, without {', '.join(failed)}." if failed else "Corelane is up.")
    print(describe(plan, run))
    return built


def _clear(run: Path) -> None:
    """Keeps recorded and saved data."""
    for entry in run.iterdir():
        if not any(entry.match(name) for name in KEPT):
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def _start(
    plan: Topology, programs: dict[str, Path], known: dict[str, set[str]], run: Path
) -> list[str]:
    """Returns replicas that are not ready, which supervisord keeps restarting."""
    try:
        environment = processes.make(run, plan.services, known)
        begun = supervisor.mark(run)
        supervisor.start(programs["supervisord"], run, environment)
        failed = ready.wait(plan, run, begun)
        for name in failed:
            log = "\n".join(ready.last(name, run))
            progress.say(name, f"does not become ready, and is started again and again; {log}")
        topology.save(plan, run)
        # Everything is up: from now on, a signal must not stop it.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        return failed
    except BaseException:
        down.stop(run)
        raise


def describe(plan: Topology, run: Path) -> str:
    gateway = f"http://{HOST}:{plan.gateway_port}"
    lines = [
        "",
        f"  dashboard      http://{HOST}:{plan.dashboard_port}  (all of it on one page)",
        f"  gateway        {gateway}",
        f"  gateway stats  http://{HOST}:{plan.gateway_stats_port}/stats/prometheus",
        f"  Envoy admin    http://{HOST}:{plan.envoy_admin_port}/clusters",
        f"  Prometheus     http://{HOST}:{plan.prometheus_port}/api/v1/targets",
    ]
    for replica in plan.replicas:
        chassis = plan.of(replica).chassis
        lanes = f"; lanes: http://{HOST}:{replica.admin_port}/lanes" if chassis else ""
        scheme = "https" if plan.mtls else "http"
        lines.append(
            f"  {replica.name:<14} {scheme}://{HOST}:{replica.port}  (CPU {replica.cpu}{lanes})"
        )
    ours = plan.service == REFERENCE
    if ours or plan.database != "none":
        lines += [f"  {'projects' if ours else 'database':<14} {database.describe(plan, run)}"]
    logs = "logs NAME=gateway" if run.parent.name != settings.FOLDER else "logs gateway"
    lines += [
        "",
        "Try:",
        *(_try_reference(plan, run) if ours else [f"  curl -i {url}/" for url in _urls(plan)]),
        *(f"  {settings.usage(run, command)}" for command in ("status", logs, "down")),
    ]
    return "\n".join(lines)


def _urls(plan: Topology) -> list[str]:
    """URL of each service behind the gateway."""
    names = [render.host(service) for service in plan.services[1:]]
    return [f"http://{name}:{plan.gateway_port}" for name in (HOST, *names)]


def _try_reference(plan: Topology, run: Path) -> list[str]:
    """Commands for the reference server; one saves a project with this instance's token."""
    gateway = f"http://{HOST}:{plan.gateway_port}"
    lines = [
        f"  for i in 1 2 3 4; do curl -s {gateway}/; done  # the replies name the replicas",
        f"  curl -i {gateway}/div/4",
    ]
    if plan.database == "none":
        return lines
    return [
        *lines,
        f'  curl -i {gateway}/projects --json \'{{"name": "First"}}\' \\',
        f'    -H "Authorization: Bearer $(cat {shlex.quote(str(render.clear_token(run)))})"',
    ]
