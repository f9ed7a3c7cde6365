"""`gateway --perf`: where the CPU time of a request goes, by perf, and its system calls, by strace."""

import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench.gateway import names
from loadtests.bench.gateway.measure import CONNECTIONS, Bench
from loadtests.bench.gateway.names import Names
from loadtests.bench.gateway.proxies import GATEWAY, HAPROXY, MINIMAL, NGINX, Proxy
from loadtests.bench.lanes.load import Generator, Place
from loadtests.bench.lanes.servers import Running, running
from tools.errors import ToolError

PROFILED = (MINIMAL, GATEWAY, NGINX, HAPROXY)
HERTZ = 1999

PARTS = {
    "HTTP/1 parser": r"quiche::|Http1::BalsaParser",
    "header maps": r"HeaderMap|CompiledStringMap|HeaderUtility|HeaderString|Http::Utility|PathUtil",
    "statistics": r"Stats::|CodeStats",
    "timers, event loop": r"Event::",
    "buffers": r"Buffer::",
    "access log": r"AccessLog|Formatter",
    "routes": r"Router::(Route|VirtualHost|Config|Prefix)|Regex|Matchers",
    "pool, balancing": r"Upstream::|ConnPool|Upstreams::|ActiveClient|Outlier",
    "codec, connections": r"Http1::|CodecClient|RequestEncoder|ResponseEncoder",
    "router filter, retries": r"Router::|Retry|ResponseDecoder",
    "connection manager, filters": r"ConnectionManager|FilterManager|ActiveStream|FilterChain|HttpFilters",
    "stream info": r"StreamInfo",
    "sockets": r"Network::",
    "runtime, thread-local": r"Runtime|ThreadLocal|Random|Server::",
}
"""What Envoy's classes are part of; the first that matches counts."""


@dataclass(frozen=True)
class Frame:
    """One line of a stack."""

    place: int
    """Offset in the file of the program or library."""
    symbol: str
    file: str

    @property
    def kernel(self) -> bool:
        """Whether it is the kernel's."""
        return self.file.startswith("[kernel")


def profiled(bench: Bench, proxy: Proxy, folder: Path) -> dict:
    """The shares of the parts in a closed loop, and the system calls per request."""
    for program in ("perf", "strace"):
        if not shutil.which(program):
            raise ToolError(f"{program} is not on PATH: install Debian's linux-perf and strace")
    with running(proxy, bench.programs, [bench.cpus[0]]) as process:
        data = folder / "perf.data"
        argv = ["perf", "record", "--quiet", "--event", "cpu-clock", "--freq", str(HERTZ), "-g"]
        result, used = _watched(bench, process, [*argv, "--output", str(data)], ["--pid"])
        stacks = list(_stacks(data))
        summary = folder / "strace.txt"
        argv = ["strace", "--summary-only", "--follow-forks", "--quiet", "--output", str(summary)]
        traced, _ = _watched(bench, process, argv, ["--attach"])
    known = names.of(bench.programs.tools["envoy"]) if proxy.program == "envoy" else None
    return {
        "closed": result,
        "cpu_us": used / result["requests"] * 1e6,
        "shares": shares(stacks, known),
        "calls": {
            name: count / traced["requests"] for name, count in _calls(summary.read_text()).items()
        },
    }


def _watched(
    bench: Bench, process: Running, argv: list[str], option: list[str]
) -> tuple[dict, float]:
    """The generator's result, and CPU time, of a closed loop with another program watching."""
    pids = map(str, process.pids)
    if argv[0] == "perf":
        argv = [*argv, *option, ",".join(pids)]
    else:
        argv = [*argv, *(word for pid in pids for word in (*option, pid))]
    options = {"connections": CONNECTIONS, "seconds": bench.seconds, "warm_up": 0.5}
    program, place = bench.programs.generator, Place([bench.cpus[1]])
    with Generator(program, place, "closed", process.address, **options) as load:
        watcher = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        # Neither says when it has attached.
        time.sleep(0.5)
        before = process.cpu_seconds()
        result = load.measure()
        used = process.cpu_seconds() - before
        watcher.send_signal(signal.SIGINT)
        _, errors = watcher.communicate()
    if watcher.returncode not in (0, 130, -signal.SIGINT):
        raise ToolError(f"{argv[0]} failed: {errors.decode()[-500:]}")
    return result, used


def _stacks(data: Path) -> Iterator[list[Frame]]:
    argv = ["perf", "script", "--input", str(data), "--fields", "ip,sym,dso"]
    text = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    for stack in text.split("\n\n"):
        found = re.findall(r"^\s*([0-9a-f]+) (.*) \((.*)\)$", stack, re.MULTILINE)
        if found:
            yield [Frame(int(place, 16), symbol, file) for place, symbol, file in found]


def shares(stacks: list[list[Frame]], known: Names | None) -> dict[str, float]:
    """The part of the samples that each part of the work has, the greatest first."""
    counted = Counter(_part(stack, known) for stack in stacks)
    return {part: count / len(stacks) for part, count in counted.most_common()}


def _part(stack: list[Frame], known: Names | None) -> str:
    leaf = stack[0]
    if leaf.kernel:
        calls = [frame.symbol for frame in stack if frame.symbol.startswith("__x64_sys_")]
        return f"kernel: {calls[0].removeprefix('__x64_sys_').split('+')[0] if calls else 'other'}"
    library = leaf.file.rpartition("/")[2]
    if known is None or library in ("[vdso]", "libc.so.6"):
        return library if library in ("[vdso]", "libc.so.6") else "the program itself"
    if known.allocates(leaf.place):
        return "memory allocator"
    # The nearest function whose class is known has called the others.
    for frame in stack:
        if frame.file.endswith("/envoy") and (name := known.class_of(frame.place)):
            return next(
                (part for part, pattern in PARTS.items() if re.search(pattern, name)),
                "other classes",
            )
    return "unknown"


def _calls(text: str) -> dict[str, int]:
    """Calls by name, of the summary that strace prints."""
    found = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= 5 and fields[3].isdecimal() and fields[-1] != "total":
            found[fields[-1]] = int(fields[3])
    return found
